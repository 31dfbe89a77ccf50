"""How kernels in C go over memory: rows from end to end, along neighbours, past the caches where results are large."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.ir import dtypes
from eqfuse.ir.index import Axis
from eqfuse.ir.monoids import MONOIDS, Monoid
from eqfuse.ir.program import Output, Program
from eqfuse.ir.terms import Input, Reduce
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


def reduced(monoid, dtype, axis, shape=(5, 300)):
    """A program that reduces rows (axis 1) or columns (axis 0) of a matrix."""
    axes = Axis("i", shape[0], 0), Axis("k", shape[1], 1)
    x = Input("x", axes, dtype)
    return Program("p", (Output("out", Reduce(monoid, axes[axis], x), (axes[1 - axis],), dtype),), (x,))


@pytest.mark.parametrize(("combine", "identity", "of"), [("bitxor", 0.0, np.bitwise_xor), ("bitor", 0.0, np.bitwise_or), ("bitand", -1.0, np.bitwise_and)])  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_new_monoid_of_integers(monkeypatch, combine, identity, of, dtype):
    """One row of the table: no other row has to name it as one of integers."""
    monkeypatch.setitem(
        MONOIDS, "bits", Monoid("bits", identity, combine, of.reduce, "bits", False, False, triton="tl.xor_sum({}, axis={})")
    )
    most = torch.iinfo(dtype).max
    x = torch.randint(-most, most, (5, 300), dtype=dtype, generator=torch.Generator().manual_seed(0))
    for axis in (0, 1):
        compiled = eqfuse.optimize(reduced("bits", getattr(dtypes, str(dtype)[6:]), axis), target="cpu")
        assert not compiled.missing
        assert torch.equal(compiled(x), torch.from_numpy(of.reduce(x.numpy(), axis=axis)))


def test_a_monoid_for_which_openmp_has_no_clause(monkeypatch):
    """Its loop is one of numbers."""

    def farther(a, b):
        return np.fmax(np.abs(a), np.abs(b))

    given = {"triton": "tl.maximum(tl.abs({}), tl.abs({}))", "c": "fmaxf(fabsf({}), fabsf({}))", "range": (0.0, float("inf"))}
    op = eqfuse.op("farther", numpy=farther, torch=lambda a, b: torch.fmax(a.abs(), b.abs()), **given)
    try:
        norm = Monoid(
            "norm",
            0.0,
            "farther",
            lambda x, **way: np.fmax.reduce(np.abs(x), **way, initial=0.0),
            "norm",
            False,
            False,
            triton="_norm({}, {})",
        )
        monkeypatch.setitem(MONOIDS, "norm", norm)
        x = torch.randn(5, 300)
        for axis in (0, 1):
            compiled = eqfuse.optimize(reduced("norm", dtypes.float32, axis), target="cpu")
            assert not compiled.missing
            assert torch.equal(compiled(x), x.abs().amax(axis))
    finally:
        op.unregister()
