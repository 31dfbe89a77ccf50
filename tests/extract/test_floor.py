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


@pytest.mark.parametrize(
    "reduced",
    [
        lambda x: x.sum(1), lambda x: x.amax(1), lambda x: x.mean(1), lambda x: x.sum(), lambda x: x.long().sum(1), lambda x: torch.softmax(x, 1),
        lambda x: torch.softmax(x.sum(0, keepdim=True) + x, 0),
    ],
    ids=["sum", "largest", "mean", "both axes", "integers", "weights", "beside values of the axis"],
)  # fmt: skip
def test_copies_have_a_kernel_before_any_rule_removes_them(reduced):
    """A value that does not vary along the axis that is reduced, of elements that are not finite, too."""

    def f(x):
        return reduced((x * 0.5)[:, None].expand(5, 7)).exp()

    xs = torch.tensor([0.5, -1, 2, 0, 3]), torch.tensor([0.5, math.inf, -math.inf, math.nan, -3])
    c = eqfuse.optimize(f, xs[:1], target="h200", time_budget=0)
    assert c.plan.stopped == "time" and not any(k.rules for k in c.plan.kernels)
    assert len(op_by_op(c.graph, "h200").kernels) > 1
    for x in xs[: 1 if "long" in reduced.__code__.co_names else 2]:  # no integer is a NaN
        torch.testing.assert_close(c.interpret(x), f(x), equal_nan=True)


def test_partial_results_are_called_as_no_argument():
    def f(part0, part1):
        return part0.exp().sum(1) + part1

    args = torch.rand(2, 1 << 15), torch.rand(2)
    c = eqfuse.optimize(f, args, target="h200", time_budget=2.0)
    assert any("split" in a.description for a in c.plan.alternatives)  # which was tried: a buffer was made for each part
    torch.testing.assert_close(c.interpret(*args), f(*args))
