"""What the front end reads of PyTorch's OpInfo database means what torch computes.

The samples are those that the committed data (benchmarks/operators.py) names: together they have every ATen op of all samples that are right.
"""

import json
from pathlib import Path

import pytest
import torch

from eqfuse.frontends.aten import OPS
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
