"""What the front end reads of PyTorch's OpInfo database means what torch computes.

The samples are those that the committed data (benchmarks/operators.py) names: together they have every ATen op of all samples that are right.
"""

import json
from pathlib import Path

import pytest
import torch

from eqfuse.frontends import trace
from eqfuse.frontends.aten import OPS
from eqfuse.ir.reference import evaluate
from eqfuse.testing import opinfo

DATA = json.loads(max((Path(__file__).parents[2] / "benchmarks" / "results").glob("*-operators.json")).read_text())
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_samples_with_every_op_mean_what_torch_computes(part):
    database = {opinfo.name_of(op): op for op in opinfo.database()}
    wrong = []
    for name, dtype, k in DATA["cover"][part::PARTS]:
        verdict = opinfo.judged(database[name], opinfo.samples(database[name], getattr(torch, dtype), DATA["samples"])[k])
        if verdict.kind != opinfo.READ:
            wrong.append((name, dtype, verdict))
    assert not wrong


def test_nothing_in_the_committed_data_is_wrong():
    kinds = {kind for r in DATA["operators"] for d in opinfo.DTYPES for kind in r.get(d, {})}
    assert kinds == {opinfo.READ, opinfo.NOTHING, opinfo.REFUSED}


def test_the_judge_sees_another_function(monkeypatch):
    """A wrong reading of an op, in its values or its type, is found."""
    op = next(o for o in opinfo.database() if opinfo.name_of(o) == "sinh")
    (sample, *_) = opinfo.samples(op, torch.float32, 1)
    assert opinfo.judged(op, sample).kind == opinfo.READ
    monkeypatch.setitem(OPS, "aten.sinh.default", OPS["aten.cosh.default"])
    assert opinfo.judged(op, sample).kind == opinfo.WRONG
    monkeypatch.setitem(OPS, "aten.sinh.default", OPS["aten.isnan.default"])
    assert opinfo.judged(op, sample).kind == opinfo.WRONG


def functions(x, y):
    two = (torch.pow, torch.atan2, torch.hypot, torch.copysign, torch.fmod, torch.xlogy, torch.heaviside, torch.logaddexp)
    one = (
        torch.asin, torch.acos, torch.atan, torch.asinh, torch.acosh, torch.atanh, torch.expm1, torch.special.erfc, torch.signbit,
        torch.round, torch.trunc, torch.logit, torch.nn.functional.mish, torch.nn.functional.elu, torch.nn.functional.logsigmoid,
    )  # fmt: skip
    return *(f(x, y) for f in two), torch.fmax(x, y) + 0.0, torch.fmin(x, y) + 0.0, *(f(x) for f in one)


def test_functions_of_infinities_nan_and_zeros():
    """Of all pairs of these; zeros have signs, but for a maximum of two of them."""
    inf, nan = float("inf"), float("nan")
    values = torch.tensor([-inf, -1e30, -3.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 1e30, inf, nan])
    args = [t.reshape(-1).contiguous() for t in torch.meshgrid(values, values, indexing="ij")]
    program = trace(functions, args).program
    found = evaluate(program, dict(zip("xy", (a.double().numpy() for a in args), strict=True)))
    for one, other in zip(found.values(), functions(*(a.double() for a in args)), strict=True):
        one = torch.from_numpy(one).double()
        torch.testing.assert_close(one, other.double(), rtol=1e-6, atol=1e-9, equal_nan=True)
        zeros = (one == 0) & (other == 0)
        assert torch.equal(one.signbit() & zeros, other.signbit() & zeros)
