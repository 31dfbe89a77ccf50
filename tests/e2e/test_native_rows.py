"""How kernels in C go over memory: rows from end to end, along neighbours, past the caches where results are large."""

from __future__ import annotations

import re

import pytest
import torch

import eqfuse
from eqfuse.runtime.native import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def softmax(x):
    return torch.softmax(x, -1)


def planned(fn, *args):
    compiled = eqfuse.optimize(fn, args, target="cpu")
    source = compiled.source
    return compiled, source[source.index("extrema: NaN") :]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_results_bypass_the_caches(dtype):
    x = torch.randn(2100 if dtype == torch.float32 else 4200, 2051).to(dtype)  # 34 MB with the result; rows begin anywhere in a line
    compiled, source = planned(softmax, x)
    assert "eq_store_line" in source
    for given in (x, x[:50], x[1:]):  # few rows are stored as ever
        torch.testing.assert_close(compiled(given), softmax(given))


def test_small_results_stay_in_the_cache():
    assert "eq_store_line" not in planned(softmax, torch.randn(100, 2051))[1]
    assert "eq_store_line" not in planned(lambda x: x.sum(0), torch.randn(4500, 2051))[1]


def columns(x):
    return x.sum(0), x.amax(0), torch.softmax(x, 0)


def test_columns_are_reduced_along_memory():
    x = torch.randint(-8, 9, (300, 131)).float()  # whose sums have no rounding
    x[5, 7], x[:, 8], x[9, 9] = torch.nan, -torch.inf, torch.inf
    compiled, source = planned(columns, x)
    loops = re.findall(r'omp simd[^"]*"\)\n *for \(int64_t (\w+) =', source)
    assert loops
    assert set(loops) == {"l_" + compiled.program.axes[1].name}
    for given in (x, x[:, :3], x.T.contiguous().T):
        for got, want in zip(compiled(given), columns(given.double()), strict=True):
            torch.testing.assert_close(got, want.float(), equal_nan=True)


def test_what_a_loop_carries_for_a_row_is_a_number():
    def loss(x, y):
        return torch.nn.functional.cross_entropy(x, y, reduction="none")

    x, y = torch.randn(70, 100_000), torch.randint(0, 100_000, (70,))
    compiled, source = planned(loss, x, y)
    body = source[source.rindex("void eq_") :].partition('"""')[0]
    assert "for (int64_t s_" in body  # a loop over tiles of a row
    assert "memory" not in body  # of a thread, where arrays are
    torch.testing.assert_close(compiled(x, y), loss(x, y))


def test_integers_of_two_widths():
    def found(x, y):
        at = torch.arange(x.shape[1], dtype=torch.int32)
        return torch.where(at == y[:, None], x, 0.0), torch.where(at != y[:, None], x, 0.0)

    x = torch.randn(6, 40)
    y = torch.tensor([3, 3 + 2**32, -1, 2**31, 39, 40])
    compiled, _ = planned(found, x, y)
    for got, want in zip(compiled(x, y), found(x, y), strict=True):
        assert torch.equal(got, want)
