"""Calls of outside implementations: what the generated module passes to them and takes from them; what an offer may be."""

from __future__ import annotations

import functools
import json
import re
import sys
from types import ModuleType

import pytest
import torch
import triton
import triton.language as tl

import eqfuse
from eqfuse.errors import PlanError, RuleError, UnsoundRuleError
from eqfuse.rewrites import Axis, Map, Sum, match, offer
from eqfuse.rewrites.check import check_rule


def half(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="meta", dtype=torch.float16)


def planned(fn, args, *rules, **options):
    return eqfuse.optimize(fn, args, target="h200", rules=list(rules), **options)


@functools.cache  # an engine with a new rule takes a second to make
def product(entry="torch:matmul", name="product", us=0.0):
    """An offer for matrix products with no batch axes."""

    def law(y, a, b, i: Axis, j: Axis, k: Axis):
        """y[i, j] = sum_k a[i, k] * b[k, j]"""
        return [match(y, Sum(k, a * b))], offer(entry, (y, i, j), (a, i, k), (b, k, j), us=us)

    law.__name__ = law.__qualname__ = name
    return eqfuse.fusion(law, register=False)


@functools.cache
def unary(entry, op="exp", name="unary"):
    """An offer for a scalar op on matrices."""

    def law(y, x, i: Axis, j: Axis):
        """y = op x"""
        return [match(y, Map(op, x))], offer(entry, (y, i, j), (x, i, j), us=0.0)

    law.__name__ = law.__qualname__ = name
    return eqfuse.fusion(law, register=False)


@eqfuse.fusion(register=False)
def batched(y, a, b, h: Axis, i: Axis, j: Axis, k: Axis):
    """y[h, i, j] = sum_k a[h, i, k] * b[h, k, j]"""
    return [match(y, Sum(k, a * b))], offer("torch:matmul", (y, h, i, j), (a, h, i, k), (b, h, k, j), us=0.0)


@eqfuse.fusion(register=False)
def twice_batched(y, a, b, g: Axis, h: Axis, i: Axis, j: Axis, k: Axis):
    """y[g, h, i, j] = sum_k a[g, h, i, k] * b[g, h, k, j]"""
    return [match(y, Sum(k, a * b))], offer("torch:matmul", (y, g, h, i, j), (a, g, h, i, k), (b, g, h, k, j), us=0.0)


@eqfuse.fusion(register=False)
def matrix_vector(y, a, x, i: Axis, k: Axis):
    """y[i] = sum_k a[i, k] * x[k]"""
    return [match(y, Sum(k, a * x))], offer("torch:matmul", (y, i), (a, i, k), (x, k), us=0.0)


def scores(q, k):
    return q @ k.transpose(-1, -2)


def transposed(x, w):
    return (x.t() @ w.t()).t()


# what is passed -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "fn", "large", "small"),
    [
        (product(), lambda x, w: x @ w, [(256, 128), (128, 192)], [(6, 8), (8, 10)]),
        (product(), transposed, [(128, 256), (192, 128)], [(8, 6), (10, 8)]),
        (product(), lambda x, w: x @ w, [(1, 256, 128), (1, 128, 192)], [(1, 6, 8), (1, 8, 10)]),  # dimensions of length 1
        (batched, scores, [(4, 256, 64), (4, 192, 64)], [(2, 6, 8), (2, 10, 8)]),
        (twice_batched, scores, [(2, 4, 256, 64), (2, 4, 192, 64)], [(2, 3, 6, 8), (2, 3, 10, 8)]),
    ],
    ids=["plain", "transposed", "ones", "batched", "twice"],
)
def test_dimensions_stand_in_the_order_of_the_offer(rule, fn, large, small):
    c = planned(fn, [half(*s) for s in large], rule)
    assert (len(c.plan.calls), len(c.plan.kernels)) == (1, 0), str(c.plan)
    args = [torch.randn(*s, generator=torch.Generator().manual_seed(1)).half() for s in small]
    expected = fn(*[a.double() for a in args])
    found = c.at(*args).interpret(*args)
    assert found.is_contiguous()  # as the outputs of kernels are
    torch.testing.assert_close(found.double(), expected, rtol=2e-3, atol=1e-2)
    strided = [a.transpose(-1, -2).contiguous().transpose(-1, -2) for a in args]
    torch.testing.assert_close(c.at(*strided).interpret(*strided), found)


@pytest.mark.parametrize(
    ("rule", "large"), [(product(), [(4, 256, 64), (4, 192, 64)]), (batched, [(256, 64), (192, 64)]), (batched, [(2, 4, 256, 64)] * 2)]
)
def test_an_offer_is_for_values_with_the_axes_that_it_names(rule, large):
    assert not planned(scores, [half(*s) for s in large], rule).plan.calls


def test_one_argument_read_twice_is_not_copied():
    c = planned(lambda x: x @ x.t(), (half(128, 256),), product())
    assert (len(c.plan.calls), len(c.plan.kernels)) == (1, 0)
    x = torch.randn(6, 8).half()
    torch.testing.assert_close(c.at(x).interpret(x), x @ x.t())


def test_statistics_are_passed_in_the_type_of_the_program():
    def f(x, w):
        return w.t() @ x.sum(-1)

    c = planned(f, (half(256, 40), half(256, 64)), matrix_vector)
    assert (len(c.plan.calls), len(c.plan.kernels)) == (1, 1)
    x, w = torch.randn(16, 80).half(), torch.randn(16, 8).half()
    torch.testing.assert_close(c.at(x, w).interpret(x, w).double(), f(x.double(), w.double()), rtol=5e-3, atol=5e-2)


def in_float32(a, b):
    return a.float() @ b.float()


def test_results_are_cast_as_kernels_cast_what_they_store():
    x, w = torch.randn(6, 8).half(), torch.randn(8, 10).half()
    c = planned(lambda x, w: x @ w, (x, w), product(in_float32))
    assert c.interpret(x, w).dtype == torch.float16
    assert c.accuracy(x, w, factor=2.0)


def test_an_output_that_is_called_for_feeds_a_kernel():
    def f(x, w):
        y = x @ w
        return y, torch.tanh(y)

    c = planned(f, (half(256, 128), half(128, 192)), product())
    assert [type(s).__name__ for s in c.plan.steps] == ["PlannedCall", "PlannedKernel"]
    assert "1 kernel and 1 outside call" in str(c.plan)
    assert [r.kernel for r in c.compile()] == [k.kernel.name for k in c.plan.kernels]  # what is not generated is not compiled
    x, w = torch.randn(6, 8).half(), torch.randn(8, 10).half()
    assert c.at(x, w).accuracy(x, w, factor=2.0)


def test_functions_of_one_name_from_two_modules(monkeypatch):
    for module, function in (("first_outside", torch.matmul), ("second_outside", torch.exp)):
        made = ModuleType(module)
        made.apply = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module, made)
    rules = product("first_outside:apply", "one"), unary("second_outside:apply", name="two")
    c = planned(lambda x, w: (x @ w).exp(), (half(256, 128), half(128, 192)), *rules)
    assert len(c.plan.calls) == 2
    x, w = torch.randn(6, 8).half(), torch.randn(8, 10).half()
    torch.testing.assert_close(c.at(x, w).interpret(x, w), (x @ w).exp())


def test_calls_are_explained_and_plans_repeat():
    args = half(256, 128), half(128, 192)
    c = planned(lambda x, w: x @ w, args, product())
    step = json.loads(c.explain().json())["kernels"][0]
    assert step["outside"] == "torch:matmul"
    assert step["rules"] == ["product"]
    assert step["where"].startswith(c.plan.calls[0].where)
    assert "not generated: torch:matmul" in str(c.explain())
    assert str(planned(lambda x, w: x @ w, args, product()).plan) == str(c.plan)


def test_an_offer_counts_as_real_and_has_a_name():
    args = half(64, 32), half(32, 48)
    rule = product()
    assert planned(lambda x, w: x @ w, args, rule).plan.calls
    assert not planned(lambda x, w: x @ w, args, rule, disable=["product"]).plan.calls
    assert not planned(lambda x, w: x @ w, args, rule, licence="exact").plan.calls
    assert not planned(lambda x, w: x @ w, args, product(us=1e9)).plan.calls
    assert not planned(lambda x, w: x @ w, args, product(us=float("inf"))).plan.calls


# what is not taken ----------------------------------------------------------------------------------------------------------------


NOT_TAKEN = {
    "licence": (lambda x, w: x @ w, [(256, 128), (128, 192)], {"licence": "exact"}, r"licence='exact' allows bitwise ones"),
    "axes": (scores, [(4, 256, 64), (4, 192, 64)], {}, r"for y with the axes \(i, j\), but here it has \(batch, k_rows, q_rows\)"),
    "no match": (lambda x, w: torch.tanh(x), [(256, 128), (128, 192)], {}, "no value of the program is what its premises describe"),
    "cost": (lambda x, w: torch.tanh(x @ w), [(64, 64), (64, 64)], {}, r"for \d+\.\d us in all, \d+\.\d us slower"),
}


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_the_plan_says_why_an_offer_is_not_taken(name):
    fn, shapes, options, reason = NOT_TAKEN[name]
    rule = product(us=7.0)
    c = planned(fn, [half(*s) for s in shapes], rule, **options)
    assert not c.plan.calls
    (said,) = c.plan.refused
    assert re.search(rf"^product \(.*test_outside_calls\.py:\d+\) offers torch:matmul.*{reason}", said), said
    assert f"not taken: {said}" in str(c.plan)
    assert f"an offer not taken: {said}" in str(c.explain())


def test_nothing_is_said_of_offers_that_are_taken_or_disabled():
    args = half(256, 128), half(128, 192)
    assert not planned(lambda x, w: x @ w, args, product()).plan.refused
    assert not planned(lambda x, w: x @ w, args, product(), disable=["product"]).plan.refused


def test_why_an_offer_is_not_taken_is_known_at_other_sizes():
    c = planned(lambda x, w: x @ w, (half(256, 128), half(128, 192)), product(), licence="exact")
    assert c.at(torch.randn(6, 8).half(), torch.randn(8, 10).half()).plan.refused == c.plan.refused


# a Triton kernel of the user's ----------------------------------------------------------------------------------------------------


@triton.jit
def _exp_kernel(X, Y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(X + at, mask=at < n, other=0.0)
    tl.store(Y + at, tl.exp(x.to(tl.float32)).to(x.dtype), mask=at < n)


def exp_by_hand(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    _exp_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), B=128)
    return y


def exp_unmasked(x):
    y = torch.empty(x.shape, dtype=x.dtype)
    _exp_kernel[(triton.cdiv(x.numel(), 128),)](x, y, 128, B=128)
    return y


def test_a_kernel_written_by_hand_is_checked_and_run():
    c = planned(lambda x: (x.exp(), x.exp().sum(-1)), (half(64, 128),), unary(exp_by_hand))
    assert (len(c.plan.calls), len(c.plan.kernels)) == (1, 1)
    x = torch.randn(6, 40).half()
    assert c.at(x).accuracy(x, factor=3.0)


def test_a_bug_in_a_kernel_written_by_hand_is_found():
    with pytest.raises(RuleError, match="out-of-bounds"):
        check_rule(unary(exp_unmasked), 60)


# what is refused ------------------------------------------------------------------------------------------------------------------


def plus_one(a, b):
    return a @ b + 1


def turned(a, b):
    return (a @ b).t()


def raising(a, b):
    raise ValueError("on purpose")


def number(a, b):
    return 3


def in_place(x):
    return x.exp_()


@pytest.mark.parametrize(
    ("rule", "kind", "said"),
    [
        (product(plus_one), UnsoundRuleError, "plus_one differs from the value that it is offered for"),
        (product(turned), UnsoundRuleError, "turned returns shape"),
        (product(number), UnsoundRuleError, "returns no tensor"),
        (product(raising), RuleError, "on purpose"),
        (product("torch:no_such_function"), RuleError, "no outside implementation torch:no_such_function"),
        (unary(in_place), UnsoundRuleError, "in_place changes its arguments"),
        (unary("torch:cos"), UnsoundRuleError, "cos differs"),
    ],
    ids=lambda v: v.gives[0].entry[1] if hasattr(v, "gives") else "",
)
def test_wrong_offers_are_refused_when_they_are_first_used(rule, kind, said):
    with pytest.raises(kind, match=said) as info:
        planned(lambda x, w: (x @ w).exp(), (half(64, 32), half(32, 48)), rule)
    assert "test_outside_calls.py:" in info.value.where
    assert info.value.cure


def test_the_cure_of_a_wrong_offer_names_the_place_and_the_change():
    with pytest.raises(UnsoundRuleError) as info:
        planned(lambda x, w: x @ w, (half(64, 32), half(32, 48)), product("torch:add"))
    assert info.value.cure == (
        f"at {product().where}, change the premises or the order of axes of the offer, or torch:add, so that add(a[i, k], b[k, j]) is y[i, j]"
    )


@pytest.mark.parametrize("us", [-1.0, float("nan"), lambda target: 1.0, lambda target, **lengths: 1 / 0], ids=["neg", "nan", "sig", "div"])
def test_costs_that_are_no_times(us):
    with pytest.raises(RuleError, match=r"rule product: the cost of torch:matmul|us=.* is no time"):
        planned(lambda x, w: x @ w, (half(64, 32), half(32, 48)), product(us=us))


def test_malformed_offers():
    with pytest.raises(RuleError, match="a plan cannot import"):
        product(lambda a, b: a @ b)

    def two(y, x, z, i: Axis, j: Axis):
        """exp and cos"""
        given = match(y, Map("exp", x)), match(z, Map("cos", x))
        return [*given], [offer("torch:exp", (y, i, j), (x, i, j), us=0.0), offer("torch:cos", (z, i, j), (x, i, j), us=0.0)]

    with pytest.raises(RuleError, match="more than one offer"):
        eqfuse.fusion(two, register=False)


def test_a_module_that_nobody_could_load_is_not_saved(tmp_path, monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "script_product", torch.matmul, raising=False)
    args = half(64, 32), half(32, 48)
    c = planned(lambda x, w: x @ w, args, product("__main__:script_product"))
    with pytest.raises(PlanError, match=r"import script_product\(\), which product offers"):
        c.save(tmp_path / "kernel.py")
    assert not (tmp_path / "kernel.py").exists()
    saved = planned(lambda x, w: x @ w, args, product()).save(tmp_path / "kernel.py")
    assert "from torch import matmul" in saved.read_text()
