"""No plan is slower than running the program op by op, priced by the same model of kernels; and there is one however short the time."""

import math

import pytest
import torch

import eqfuse
from eqfuse.extract.covers import Cover, Extractor
from eqfuse.extract.objective import TIE
from eqfuse.extract.targets import load_target
from eqfuse.testing.models import Linears
from eqfuse.testing.programs import PROGRAMS


def op_by_op(graph, target):
    found = Extractor(graph, load_target(target), time_budget=math.inf).op_by_op()
    assert isinstance(found, Cover), found
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_plan_is_slower_than_op_by_op(name):
    case = PROGRAMS[name]
    first = eqfuse.optimize(case.fn, case.args("bench", device="meta"), target="h200")
    for target in ("h200", "a100", "b200", "mi300x"):
        plan = first.plan if target == "h200" else first.replan(target).plan
        assert plan.estimated_us <= TIE * op_by_op(first.graph, target).us


def test_an_expired_budget_is_no_refusal():
    with torch.device("meta"):
        module, x = Linears(3, 1024).half(), torch.empty(4096, 1024, dtype=torch.float16)
    compiled = eqfuse.optimize(module, (x,), target="h200", time_budget=0)
    assert compiled.plan.stopped == "time"
    assert compiled.plan.estimated_us <= TIE * op_by_op(compiled.graph, "h200").us
