"""Verdicts about fusion are obeyed: by kernels, by split sums, and by calls of outside implementations; and they can be asked about."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.egraph import saturate
from eqfuse.errors import OptionError, PlanError
from eqfuse.extract import extract
from eqfuse.extract.targets import load_target
from eqfuse.ir import reference
from eqfuse.ir.build import axes, exp, maximum_over, program, sum_over, tensor
from eqfuse.rewrites import Axis, Map, Sum, forbid, match, offer, require
from eqfuse.tiles.simulate import simulate


def test_forbidden_values_are_in_different_kernels():
    i, j = axes(i=64, j=300)
    x = tensor("x", i, j)
    top = maximum_over(j, x)
    p = program("rows", y=(sum_over(j, exp(x - top)), (i,)))
    graph = saturate(p)
    free = extract(graph, load_target("h200"))
    assert len(free.kernels) == 1
    maximum = next(c for t, c in zip(p.terms(), graph.original, strict=True) if t is top)
    facts = {**graph.facts, "fuse": (*graph.facts.get("fuse", ()), ("forbid", graph.roots["y"], maximum, "a test"))}
    plan = extract(replace(graph, facts=facts), load_target("h200"))
    assert len(plan.kernels) == 2, str(plan)
    arrays = {"x": np.random.default_rng(0).normal(size=(64, 300))}
    exact = reference.evaluate(p, arrays)["y"]
    for k in plan.kernels:
        arrays.update(simulate(k.tiles, arrays))
    np.testing.assert_allclose(arrays["y"], exact, rtol=1e-12)


# by name ------------------------------------------------------------------------------------------------------------------------------


def half(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="meta", dtype=torch.float16)


def layer(x, w, b):
    product = x @ w
    hidden = torch.tanh(product + b)
    return hidden * 2


def two_outputs(x, w):
    product = x @ w
    return product.sum(-1), torch.exp(product)


LAYER = half(256, 128), half(128, 192), half(192)


def planned(fusion=(), rules=(), fn=layer, args=LAYER, **options):
    return eqfuse.optimize(fn, args, target="h200", fusion=fusion, rules=list(rules), **options)


def agrees(c, *shapes: tuple[int, ...]) -> None:
    """The plan at small sizes, its calls included, is the program in float64 (within float16)."""
    generator = torch.Generator().manual_seed(0)
    small = [torch.randn(*s, generator=generator).half() for s in shapes]
    made = c.at(*small)
    assert len(made.plan.steps) == len(c.plan.steps)
    assert made.accuracy(*small, factor=3.0)


@pytest.mark.parametrize(
    ("verdicts", "kernels"),
    [
        ([], 1),
        ([("forbid", "out", "hidden")], 2),
        ([("forbid", "hidden", "out")], 2),  # the order of a pair that must not meet is no matter
        ([("forbid", "out", "hidden"), ("forbid", "hidden", "product")], 3),
        ([("forbid", "out", "hidden"), ("allow", "out", "hidden")], 1),
        ([("forbid", "out", "hidden"), ("allow", "hidden", "out")], 1),
        ([("forbid", "out", "product"), ("require", "hidden", "product")], 2),
        ([("require", "out", "product")], 1),
    ],
)
def test_verdicts_by_name(verdicts, kernels):
    c = planned(verdicts)
    assert len(c.plan.kernels) == kernels, str(c.plan)
    agrees(c, (40, 24), (24, 20), (20,))


def test_a_value_that_must_not_meet_either_output_is_stored_once():
    args = half(512, 128), half(128, 256)
    c = planned([("forbid", "out0", "product"), ("forbid", "out1", "product")], fn=two_outputs, args=args)
    assert sum("product" in k.computes for k in c.explain().kernels) == 1
    agrees(c, (40, 24), (24, 20))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (("frobid", "out", "hidden"), "did you mean 'forbid'"),
        (("forbid", "out", "hiden"), "hidden"),
        (("forbid", "out"), "is no verdict"),
        (("forbid", 1, 2), "is no verdict"),
        ("forbid", "is no verdict"),
        (("forbid", "out", "x"), "x is an input"),
        (("require", "out", "out"), "one value"),
    ],
)
def test_requests_that_mean_nothing_are_refused(request_, said):
    with pytest.raises(OptionError, match=said):
        planned([request_])


def test_contradictions_name_both_sides():
    with pytest.raises(PlanError, match=r"require.*forbid"):
        planned([("require", "out", "hidden"), ("forbid", "out", "hidden")])


def test_the_answer_to_why_names_the_verdict():
    c = planned([("forbid", "out", "hidden")])
    assert "fusion=('forbid', 'out', 'hidden')" in str(c.why("out", "hidden"))
    assert "share" in str(planned().why("out", "hidden"))


# by rule, and splits ------------------------------------------------------------------------------------------------------------------


@eqfuse.fusion(register=False)
def tanh_apart(y, t, x, z):
    """What uses a tanh is not in its kernel."""
    return [match(t, Map("tanh", x)), match(y, t * z)], forbid(y, t)


@eqfuse.fusion(register=False)
def tanh_together(y, t, x, z):
    """What uses a tanh is in its kernel."""
    return [match(t, Map("tanh", x)), match(y, t * z)], require(y, t)


def test_verdicts_by_rule_and_their_names():
    assert len(planned(rules=[tanh_apart]).plan.kernels) == 2
    assert len(planned(rules=[tanh_apart], disable=["tanh_apart"]).plan.kernels) == 1
    assert len(planned(rules=[tanh_apart], licence="exact").plan.kernels) == 2  # it claims nothing
    assert len(planned([("allow", "out", "hidden")], rules=[tanh_apart]).plan.kernels) == 1  # a name lifts a rule
    with pytest.raises(PlanError, match=r"tanh_together requires and tanh_apart forbids"):
        planned(rules=[tanh_apart, tanh_together])


def attention(q, k, v):
    weights = torch.softmax(q @ k.transpose(-1, -2), -1)
    return weights @ v


@pytest.mark.parametrize("verdict", ["forbid", "require"])
def test_a_split_is_no_way_around_a_verdict(verdict):
    args = half(4, 1, 64), half(4, 16384, 64), half(4, 16384, 64)
    assert planned(fn=attention, args=args).plan.splits
    c = planned([(verdict, "out", "weights")], fn=attention, args=args)
    assert not c.plan.splits
    assert len(c.plan.kernels) > 1
    assert ("forbids" in str(c.why("out", "weights"))) == (verdict == "forbid")


# offers -------------------------------------------------------------------------------------------------------------------------------


def whole(a, b, c):
    return torch.tanh(torch.matmul(a, b) + c)


@eqfuse.fusion(register=False)
def offered_layer(y, a, b, c, i: Axis, j: Axis, k: Axis):
    """y[i, j] = tanh(sum_k a[i, k] * b[k, j] + c[j])"""
    return [match(y, Map("tanh", Sum(k, a * b) + c))], offer(whole, (y, i, j), (a, i, k), (b, k, j), (c, j), us=0.0)


@eqfuse.fusion(register=False)
def offered_product(y, a, b, i: Axis, j: Axis, k: Axis):
    """y[i, j] = sum_k a[i, k] * b[k, j]"""
    return [match(y, Sum(k, a * b))], offer("torch:matmul", (y, i, j), (a, i, k), (b, k, j), us=0.0)


@pytest.mark.parametrize(
    ("rule", "verdicts", "called"),
    [
        (offered_layer, [], True),
        (offered_layer, [("forbid", "hidden", "product")], False),  # the implementation would make both
        (offered_layer, [("require", "hidden", "product")], True),
        (offered_layer, [("forbid", "out", "product")], True),
        (offered_product, [], True),
        (offered_product, [("forbid", "hidden", "product")], True),
        (offered_product, [("require", "hidden", "product")], False),  # it would make one of them
    ],
)
def test_offers_obey_verdicts(rule, verdicts, called):
    c = planned(verdicts, [rule])
    assert bool(c.plan.calls) == called, str(c.plan)
    if not called and rule is offered_layer:
        assert f"{rule.name} outside: forbidden by fusion=" in str(c.explain())
    agrees(c, (40, 24), (24, 20), (20,))


def test_an_offered_value_is_computed_by_the_call():
    c = planned(rules=[offered_layer])
    made = {k.outside: k.computes for k in c.explain().kernels}
    assert "hidden" in made[f"{__name__}:whole"]
    assert "hidden" not in made[""]
