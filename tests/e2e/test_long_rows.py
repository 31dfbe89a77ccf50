"""Few long rows whose every element is wanted: one program per row would leave the device idle.

The row is split over the grid, and a second kernel takes the row's statistics from the parts and its elements from memory again.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.egraph import saturate
from eqfuse.extract.covers import Extractor
from eqfuse.extract.search import Rejection
from eqfuse.extract.targets import load_target
from eqfuse.frontends import trace


def normalised(x, w):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * w


def with_the_sum(x, w):
    return torch.softmax(x * w, dim=-1), torch.logsumexp(x * w, dim=-1)


# columns at which the plan is run: a maximum and a sum have parts of unequal lengths, a mean has not
CASES = {
    "softmax": (lambda x, w: torch.softmax(x * w, dim=-1), 2501),
    "log_softmax": (lambda x, w: torch.log_softmax(x + w, dim=-1), 2501),
    "normalised": (normalised, 2560),
    "with the sum": (with_the_sum, 2501),
}


def planned(name, rows, columns, dtype=torch.float16, **options):
    args = [torch.empty(s, dtype=dtype, device="meta") for s in ((rows, columns), (columns,))]
    return eqfuse.optimize(CASES[name][0], args, target="h200", **options)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", CASES)
def test_two_kernels_fill_the_device(name, rows):
    plan = planned(name, rows, 128256).plan
    assert len(plan.kernels) == 2 and plan.splits, plan
    assert plan.kernels[1].cost.programs >= 100, plan
    whole = planned(name, rows, 128256, disable=["tiling"]).plan
    assert plan.estimated_us < 0.6 * whole.estimated_us, "than with one program for a row"
    assert plan.dram_bytes <= 3.05 * rows * 128256 * 2 + 4 * 128256 * 2, "the row twice, the result, and a little"


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_the_result_is_right(name, rows):
    """The plan for long rows, its kernels and tiles, at fewer columns, which no tile divides."""
    fn, columns = CASES[name]
    x, w = 3 * torch.randn(rows, columns), 1 + 0.1 * torch.randn(columns)
    small = planned(name, rows, 128256, torch.float32).at(x, w)
    assert small.plan.splits
    expected = fn(x.double(), w.double())
    for run, tolerance in ((small.simulate, 1e-12), (small.interpret, 3e-6)):
        found = run(x, w)
        for ours, theirs in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected)), strict=True):
            np.testing.assert_allclose(ours.double().numpy(), theirs.numpy(), rtol=tolerance, atol=tolerance)


def test_many_rows_are_one_kernel():
    assert len(planned("softmax", 4096, 128256).plan.kernels) == 1


def test_short_rows_are_one_kernel():
    assert len(planned("softmax", 4, 2048).plan.kernels) == 1


def test_what_the_parts_are_of_is_not_summed_again():
    """Scores and the least of them: two kernels would round one sum in two ways, and exp(min t - t) would not be 1 at the least.  Where
    parts are worth it, the scores are stored."""
    x = torch.empty(4096, 5, 4, device="meta")

    def distances(x):
        t = x.sum(1)
        return torch.exp(t.amin(0, keepdim=True) - t)

    program = trace(distances, (x,)).program
    rows = next(a for a in program.axes if a.size == 4096)
    extractor = Extractor(saturate(program, splits={rows: 16}), load_target("h200"))
    (row,) = extractor.maker.partials.rows
    found = extractor.maker.split(row, tuple(extractor.outputs))
    assert isinstance(found, Rejection) and "summed again" in found.reason
    assert sum("x" in k.loads for k in extractor.run().kernels) == 1
