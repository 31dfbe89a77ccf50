"""No plan cancels digits that the program keeps.

Every program is planned for its bench shapes, then run tile by tile in float32 at its ``check`` shapes, on data that punish a form
which separates two large values of small difference: logits of 1e4, logits that all lie near 1e4, data around 1000, scores of 1e4 and
more.  The error against float64 may be three times that of the eager program in float32, and 4 ulp.  Eager is lucky at times (with its
sums in the order of one processor's library): three times what one rounding of each value moves the exact result by will do as well.

Then, statically: no plan of the corpus has a source of overflow or cancellation that its program did not have; an exact plan is the program
to the last bit, and casts stay where they are; and a plan that is less accurate than a stated factor is refused.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor

import eqfuse
from eqfuse.compiled import Compiled
from eqfuse.egraph import saturate
from eqfuse.errors import AccuracyError, OptionError
from eqfuse.extract import extract
from eqfuse.extract import hazards as hazards_module
from eqfuse.extract.hazards import hazards, new_hazards, program_hazards
from eqfuse.extract.targets import load_target
from eqfuse.ir import dtypes, reference
from eqfuse.ir.build import axes, exp, log, maximum_over, mean_over, program, recip, square, sum_over, tanh, tensor
from eqfuse.ir.ops import OPS
from eqfuse.ir.products import Operands
from eqfuse.ir.terms import Cast, Term
from eqfuse.rewrites import registry
from eqfuse.rewrites.patterns import Map, Mean
from eqfuse.rewrites.relations import Row
from eqfuse.rewrites.rule import Axis, make_rule
from eqfuse.runtime.accuracy import _written, relative_error
from eqfuse.testing.fuzz.conditioning import spread
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles import dots

ULP = float(np.finfo(np.float32).eps)
SEPARABLE = ("term_from_inside", "terms_collected", "late_term_out_of_sum", "late_term_out_of_choice", "distribute_terms", "sum_terms")

CASES = [  # program, spread of the data, added to its first argument, factor of its first two arguments
    ("softmax_entropy", 1e4, 0.0, 1.0),
    ("softmax_entropy", 1.0, 1e4, 1.0),
    ("log_softmax", 1e4, 0.0, 1.0),
    ("log_softmax", 1.0, 1e4, 1.0),
    ("row_softmax", 1.0, 1e4, 1.0),
    ("logsumexp", 1e4, 0.0, 1.0),
    ("logsumexp", 1.0, -1e4, 1.0),
    ("cross_entropy", 1e4, 0.0, 1.0),
    ("cross_entropy", 1.0, 1e4, 1.0),
    ("linear_cross_entropy", 1.0, 0.0, 100.0),
    ("mean_variance", 1.0, 0.0, 1.0),  # its data lie around 1000
    ("layernorm", 1.0, 1e3, 1.0),
    ("attention", 1.0, 0.0, 100.0),
    ("attention_causal", 1.0, 0.0, 100.0),
    ("attention_softcap", 1.0, 0.0, 100.0),
    ("attention_bias", 1.0, 0.0, 100.0),
    ("attention_lse", 1.0, 0.0, 300.0),
    ("attention_normalised_inside", 1.0, 0.0, 100.0),
    ("attention_decode", 1.0, 0.0, 10.0),
]


def errors(compiled: Compiled, args: list[Tensor]) -> list[tuple[float, float]]:
    """(ours, eager's or what cannot be helped) for every output: float32 against float64."""
    at = compiled.at(*args)
    tensors = at.traced.bind(*args)
    exact = reference.evaluate(at.program, {n: t.double().numpy() for n, t in tensors.items()})
    found = [torch.utils._pytree.tree_leaves(v) for v in (at.simulate(*args, dtype=np.float32), at.eager(*args))]
    unavoidable = spread(at.program, {n: t.double().numpy() for n, t in tensors.items()}, ULP / 2)
    rows = []
    for o, ours, eager in zip(at.program.outputs, *found, strict=True):
        (mine, lost), (theirs, theirs_lost) = (relative_error(t.double().numpy(), exact[o.name]) for t in (ours, eager))
        assert lost <= theirs_lost
        rows.append((mine, max(theirs, unavoidable[o.name])))
    return rows


def assert_as_accurate(compiled: Compiled, args: list[Tensor]) -> None:
    for ours, eager in errors(compiled, args):
        assert ours <= 3 * eager + 4 * ULP, f"error {ours:.2e}, eager {eager:.2e}\n{compiled.plan}"


def arguments(name: str, spread: float, offset: float, factor: float) -> list[Tensor]:
    first, *rest = PROGRAMS[name].args("check", "float32", generator=3, spread=spread)
    second = [t * factor if t.is_floating_point() else t for t in rest[:1]]
    return [first * factor + offset, *second, *rest[1:]]


@pytest.mark.parametrize(("name", "spread", "offset", "factor"), CASES)
def test_digits_are_kept(name, spread, offset, factor, planned):
    assert_as_accurate(planned(name, "float32"), arguments(name, spread, offset, factor))


# the same quantities, as others would write them ------------------------------------------------------------------------------------


def entropy_of_probabilities(x: Tensor) -> Tensor:
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    p = e / e.sum(dim=-1, keepdim=True)
    return -(p * torch.log(p)).sum(dim=-1)


def weights_of_logarithm(x: Tensor) -> Tensor:
    s = x - x.amax(dim=-1, keepdim=True)
    w = torch.exp(s - torch.log(torch.exp(s).sum(dim=-1, keepdim=True)))
    return (w * torch.tanh(x - 1e4)).sum(dim=-1)


def third_moment(x: Tensor) -> Tensor:
    return ((x - x.mean(dim=-1, keepdim=True)) ** 3).mean(dim=-1)


def third_power_of_deviation(x: Tensor) -> Tensor:
    u = x - x.mean(dim=-1, keepdim=True)
    return (u * u * u).mean(dim=-1)


def variance_from_sums(x: Tensor) -> Tensor:
    n = x.shape[-1]
    return ((x - x.sum(dim=-1, keepdim=True) / n) ** 2).sum(dim=-1) / n


def deviation_from_maximum(x: Tensor) -> Tensor:
    return (x - x.amax(dim=-1, keepdim=True)).square().mean(dim=-1)


def largest_deviation(x: Tensor) -> Tensor:
    return (x - x.mean(dim=-1, keepdim=True)).amax(dim=-1)


def weighted_deviation(x: Tensor) -> Tensor:
    u = x - x.amax(dim=-1, keepdim=True)
    return (torch.softmax(x, dim=-1) * (u + torch.cos(x))).sum(dim=-1)


OTHERS = [
    (entropy_of_probabilities, 1e4), (weights_of_logarithm, 1e4), (third_moment, 1e3), (third_power_of_deviation, 1e3),
    (variance_from_sums, 1e3), (deviation_from_maximum, 1e4), (largest_deviation, 1e4), (weighted_deviation, 1e4),
]  # fmt: skip


def planned_rows(fn) -> Compiled:
    return eqfuse.optimize(fn, (torch.empty(4096, 16384, device="meta"),), target="h200")


@pytest.mark.parametrize(("fn", "offset"), OTHERS, ids=lambda x: getattr(x, "__name__", None))
def test_digits_are_kept_in_other_words(fn, offset):
    x = torch.randn(5, 2309, generator=torch.Generator().manual_seed(4)) + offset
    assert_as_accurate(planned_rows(fn), [x])


# scores of any size below an exponential ----------------------------------------------------------------------------------------------


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v


def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    later = torch.arange(k.shape[-2]) > torch.arange(q.shape[-2])[:, None] + (k.shape[-2] - q.shape[-2]) // 2
    return torch.softmax(scores.masked_fill(later, -torch.inf), dim=-1) @ v


def normalisers(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.logsumexp(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)


def powers_of_two(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    e = torch.exp2(x[..., :1] * y[..., 0] * 0.3 - (x[..., :1] * y[..., 0] * 0.3).amax(-1, keepdim=True))
    return e @ z / e.sum(-1, keepdim=True)


def close_scores(size: float, heads: tuple[int, ...] = ()) -> list[Tensor]:
    """Scores a few distances of neighbouring numbers apart, all near ``size``; their products are exact."""
    q, k = torch.zeros(5, 48), torch.zeros(200, 48)
    q[:, 0] = size
    k[:, 0] = 1 - torch.randint(0, 60, (200,), generator=torch.Generator().manual_seed(0)) * 2.0**-24
    v = torch.randn(200, 48, generator=torch.Generator().manual_seed(1))
    return [t.expand(*heads, *t.shape).contiguous() for t in (q, k, v)]


def error_beside_eager(fn, compiled, args: list[Tensor]) -> tuple[float, float]:
    """The largest errors of the planned kernels and of eager, relative to the largest output."""
    exact = fn(*(t.double() for t in args)).numpy()
    found = np.asarray(compiled.at(*args).simulate(*args, dtype=np.float32)), fn(*args).numpy()
    ours, eager = (float(np.abs(x - exact).max() / np.abs(exact).max()) for x in found)
    return ours, eager


PLANS = {  # function, its rows and keys, whether keys are in parts over the grid; of 65536 keys' parts some are empty where it runs
    "attention": (attention, (32, 4096, 48), (32, 4096, 48), False),
    "attention in parts": (attention, (4096, 48), (4096, 48), True),
    "powers of two": (powers_of_two, (4096, 48), (4096, 48), True),
    "masked": (masked, (32, 4096, 48), (32, 4096, 48), False),
    "masked, in parts": (masked, (4096, 48), (4096, 48), True),
    "powers of two, few rows": (powers_of_two, (16, 48), (65536, 48), True),
}


@pytest.mark.parametrize("name", PLANS)
def test_differences_come_before_products(name):
    """(s - max s) * c is exact where s is near its maximum; in c*s - max c*s the roundings of two products are left, as in eager.  Running
    maxima, and those that parts store, are of s as well."""
    fn, rows, keys, parts = PLANS[name]
    compiled = eqfuse.optimize(fn, [torch.empty(shape, device="meta") for shape in (rows, keys, keys)], target="h200")
    assert bool(compiled.plan.splits) == parts
    for size in (2.0**14, 2.0**27, 2.0**38):
        ours, _ = error_beside_eager(fn, compiled, close_scores(size, (2,) * (len(keys) - 2)))
        assert ours < 1e-6, f"scores of {size:.0e}"


@pytest.mark.parametrize("size", [2.0**14, 2.0**38], ids="{:.0e}".format)
def test_products_before_differences_are_those_of_eager(size):
    """In a logsumexp something may be chosen in place of the maximum.  Then the products come first, and both are rounded, so that their
    difference is 0 at the maximum: one that is not grows with the scores, beyond any exponential at last."""
    compiled = eqfuse.optimize(normalisers, [torch.empty(4096, 48, device="meta")] * 3, target="h200")
    ours, eager = error_beside_eager(normalisers, compiled, close_scores(size))
    assert ours <= max(2 * eager, 4 * 2.0**-24)


# these tests can fail -----------------------------------------------------------------------------------------------------------------


def test_the_guarded_rules_are_these():
    assert {r.name for r in registry.rules() if _guarded(r)} == set(SEPARABLE)


def _guarded(rule) -> bool:
    return any(isinstance(f, Row) and f.relation.name == "separable" for f in rule.needs)


def _without(rule, relation: str):
    return dataclasses.replace(rule, needs=tuple(f for f in rule.needs if not (isinstance(f, Row) and f.relation.name == relation)))


@pytest.mark.parametrize("name", ["softmax_entropy"])
def test_without_the_guard_digits_are_lost(name, monkeypatch):
    for rule in SEPARABLE:
        monkeypatch.setitem(registry.RULES, rule, _without(registry.RULES[rule], "separable"))
    case = PROGRAMS[name]
    broken = eqfuse.optimize(case.fn, case.args("bench", "float32", device="meta"), **case.options, target="h200", name=name)
    with pytest.raises(AssertionError, match="error"):
        assert_as_accurate(broken, arguments(name, 1e4, 0.0, 1.0))


@pytest.mark.parametrize(("term", "distributed"), [(tanh, True), (lambda z: z, False)], ids=["modest", "unknown"])
def test_terms_that_may_cancel_are_not_distributed(term, distributed):
    """sum_k a*(b + sum_m y), for a b that is modest or not."""
    i, k, m = axes(i=8, k=16, m=32)
    y = sum_over(m, tensor("y", i, k, m))
    p = program("p", o=(sum_over(k, tensor("a", k) * (term(tensor("z", i)) + y)), (i,)))
    guarded = registry.RULES["distribute_terms"]
    others = [r for r in registry.active() if r is not guarded]

    def fires(rule) -> bool:
        return any(r.rule == rule.name and r.matches for r in saturate(p, rules=[*others, rule], order=True).report.rules)

    assert fires(guarded) == distributed
    assert fires(_without(guarded, "separable"))


# no plan has a source of overflow or cancellation that its program did not have -----------------------------------------------------

TYPED = [(n, d) for n in sorted(PROGRAMS) for d in PROGRAMS[n].dtypes]


@pytest.mark.parametrize(("name", "dtype"), TYPED)
def test_plans_have_no_new_hazards(name, dtype, planned):
    assert [str(h) for h in new_hazards(planned(name, dtype))] == []


I, J, M = axes(i=64, j=4096, m=8)
X, Y = tensor("x", I, J), tensor("y", I, J)
MANY = sum_over(M, tensor("z", I, J, M))
S = X - maximum_over(J, X)
VARIANCE = mean_over(J, square(X - mean_over(J, X)))
NAIVE_VARIANCE = mean_over(J, square(X)) - square(mean_over(J, X))


def terms_hazards(t: Term) -> list[tuple[str, tuple[float, ...]]]:
    return [(h.kind, h.level) for h in program_hazards(program("p", o=(t, tuple(sorted(t.axes)))))]


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (exp(X), [("overflow", (1.0,))]),
        (exp(S), []),
        (exp(tanh(X)), []),
        (exp(-square(X)), []),
        (recip(X), [("domain", (2.0,))]),
        (recip(square(X)), [("domain", (1.0,))]),
        (recip(square(X) + 1.0), []),
        (log(sum_over(J, exp(S))), []),  # at least 1: the largest element gives exp(0)
        (log(sum_over(J, square(X))), [("domain", (1.0,))]),
        (X - Y, [("cancellation", (1.0, 0.0))]),
        (X * Y - Y * X, []),  # one value to the last bit
        (X - mean_over(J, X), []),
        (X + tanh(Y), []),
        (square(X) + square(Y), []),
        (VARIANCE, []),
        (NAIVE_VARIANCE, [("cancellation", (2.0, 2.0))]),
    ],
    ids=str,
)
def test_hazards_of_terms(t, expected):
    assert terms_hazards(t) == expected


@pytest.mark.parametrize(
    ("good", "bad", "kind"),
    [
        (VARIANCE, NAIVE_VARIANCE, "cancellation"),
        (sum_over(J, exp(S)), sum_over(J, exp(X)) * exp(-maximum_over(J, X)), "overflow"),
        (sum_over(J, exp(S) * S), sum_over(J, exp(S) * X) - maximum_over(J, X) * sum_over(J, exp(S)), "cancellation"),
        (log(square(X) + 1.0), log(recip(square(X))), "domain"),
        (sum_over(J, X * (Y + MANY)), sum_over(J, X * Y) + sum_over(J, X * MANY), "cancellation"),
    ],
    ids=["variance", "softmax", "late term", "log", "distributed"],
)
def test_a_plan_with_a_new_hazard_is_seen(good, bad, kind):
    """The plan of an equal but careless program, held against the careful one."""
    want, careless = (program("p", o=(t, tuple(sorted(t.axes)))) for t in (good, bad))
    found = saturate(careless, rules=[r for r in registry.active() if r.family == "layout"])
    plan = extract(found, load_target("h200"))
    assert not new_hazards(plan), "the careless program itself has them"
    assert kind in {h.kind for h in new_hazards(dataclasses.replace(plan, program=want))}


@pytest.mark.parametrize("name", ["softmax_entropy", "cross_entropy"])
def test_without_the_guard_the_static_check_sees_it_too(name, monkeypatch):
    for rule in SEPARABLE:
        monkeypatch.setitem(registry.RULES, rule, _without(registry.RULES[rule], "separable"))
    case = PROGRAMS[name]
    broken = eqfuse.optimize(case.fn, case.args("bench", "float32", device="meta"), **case.options, target="h200", name=name)
    assert {h.kind for h in new_hazards(broken)} == {"cancellation"}


def test_operands_that_may_overflow_float16_are_seen(monkeypatch):
    """With a lowering that casts every operand of a float16 product to float16."""
    i, j, k = axes(i=256, j=256, k=256)
    x, w = tensor("x", i, k, dtype=dtypes.float16), tensor("w", k, j, dtype=dtypes.float16)
    y = sum_over(k, (x * tensor("s", i, dtype=dtypes.float16) * tensor("t", k, dtype=dtypes.float16)) * w)
    p = program("scaled", y=(y, (i, j)))
    kernel = extract(saturate(p), load_target("h200"))
    assert not [h for h in hazards(kernel) if h.kind == "operand"]
    monkeypatch.setattr(dots, "multiplied", lambda builder, a, b, axis: Operands(dtypes.float16, rounded=True))
    first = kernel.kernels[0].kernel
    loose = dataclasses.replace(first, nodes=tuple(dataclasses.replace(n, stored=None) for n in first.nodes))
    assert [h.kind for h in hazards_module._of_operands(loose)] == ["operand"]


# the licence ------------------------------------------------------------------------------------------------------------------------


def in_order(compiled: Compiled, args: list[Tensor]) -> list[Tensor]:
    """The program's own terms, one op after the other, in float32; casts round where they stand."""
    return _written(compiled, {n: t.double().numpy() for n, t in compiled.traced.bind(*args).items()})


def choices(x, y, z):
    return torch.maximum(x * y, z).abs() - torch.minimum(x, -y)


def extremes(x, y, z):
    return ((x * 0.37).amax(-1, keepdim=True) - x.abs()) * z, (y * z).amin(-1)


def quotients(x, y, z):
    return torch.where(z > 0, x / (y.abs() + 1.0), x * (y * z))


def casts_before_factors(x, y, z):
    return (x * 0.1).half().float() * 3.0, ((y * z).bfloat16().float() * 0.7).amax(-1)


def casts_in_sums(x, y, z):
    return (x.half().float().amax(-1, keepdim=True) * y).bfloat16().float() * z


def multiples_in_exponents(x, y, z):
    return torch.exp2(x * 0.3 - y * 0.3), torch.exp2(-(z * 1.7 - (z * 1.7).amax(-1, keepdim=True)))


@pytest.mark.parametrize("fn", [choices, extremes, quotients, casts_before_factors, casts_in_sums, multiples_in_exponents])
def test_an_exact_plan_is_the_program_to_the_last_bit(fn):
    """No reassociation, no law of an exponential, no cast at another place: sums of several terms apart, whose order is the tile's."""
    generator = torch.Generator().manual_seed(2)
    args = [torch.randn(7, 37, generator=generator) * 3 for _ in range(3)]
    compiled = eqfuse.optimize(fn, args, target="h200", licence="exact")
    found = compiled.in_order(compiled.interpret(*args))
    for a, b in zip(found, in_order(compiled, args), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("licence", ["exact", "real", "approx"])
def test_a_contracted_product_rounds_once(licence):
    """a*b + c is one fma, but where every operation is to be rounded by itself."""
    generator = torch.Generator().manual_seed(2)
    args = [torch.randn(7, 37, generator=generator) for _ in range(3)]
    compiled = eqfuse.optimize(lambda x, y, z: x * y + z, args, target="h200", licence=licence)
    x, y, z = args if licence == "exact" else (t.double() for t in args)
    assert torch.equal(compiled.interpret(*args), (x * y + z).float())


@pytest.mark.parametrize("licence", ["exact", "real", "approx"])
def test_casts_do_not_move(licence):
    """sum cast(x c) is not c sum cast(x), nor is a maximum of casts the cast of a scaled maximum: the roundings would be other ones."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(5, 64, generator=generator)

    def fn(x):
        return (x * 0.3).half().float().sum(-1), ((x * 1.7).bfloat16().float() * 0.3).amax(-1)

    compiled = eqfuse.optimize(fn, (x,), target="h200", licence=licence)
    total, largest = compiled.interpret(x)
    assert torch.allclose(total.double(), (x * 0.3).half().double().sum(-1), rtol=4 * ULP, atol=4 * ULP)
    moved = (x.half().double() * 0.3).sum(-1)
    assert not torch.allclose(total.double(), moved, rtol=4 * ULP, atol=4 * ULP), "data for which the place of the cast shows"
    assert torch.equal(largest, ((x * 1.7).bfloat16().float() * 0.3).amax(-1))
    casts = [n for k in compiled.plan.kernels for n in k.kernel.nodes if n.op == "cast"]
    written = [t for t in compiled.program.terms() if isinstance(t, Cast)]
    assert len(casts) <= len(written)
    assert {n.attrs[0].name for n in casts} == {"float16", "bfloat16", "float32"} & {t.to.name for t in written}


# plans that are refused ---------------------------------------------------------------------------------------------------------------


def naive_variance(x: Tensor) -> Tensor:
    return (x * x).mean(-1) - x.mean(-1) ** 2


def careful_variance(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)).square().mean(-1)


def careless(x, n: Axis):
    """mean (x - mean x)^2 = mean x^2 - (mean x)^2: true over the reals, and a loss of digits."""
    return Mean(n, Map("square", x - Mean(n, x))), Mean(n, x * x) - Mean(n, x) * Mean(n, x)


def forget_the_written_form(monkeypatch):
    """Extraction that prefers the careless form: reading a mean of squares costs nothing."""
    monkeypatch.setitem(OPS, "square", dataclasses.replace(OPS["square"], cost=1e6))


@pytest.fixture
def careless_rule(monkeypatch):
    forget_the_written_form(monkeypatch)
    return make_rule(careless, "user", "real", "factor", True)


def test_accuracy_takes_a_factor():
    x = torch.randn(9, 300, generator=torch.Generator().manual_seed(3)) + 1000
    c = eqfuse.optimize(careful_variance, (x,), target="h200")
    assert c.accuracy(x, factor=2.0).outputs[0].within(2.0)
    with pytest.raises(AccuracyError, match="error"):
        c.accuracy(x, factor=1e-9)


def test_a_plan_that_loses_digits_is_refused_and_the_next_one_taken(careless_rule):
    x = torch.randn(9, 300, generator=torch.Generator().manual_seed(3)) + 1000
    loose = eqfuse.optimize(careful_variance, (x,), target="h200", rules=[careless_rule])
    assert "careless" in {r for k in loose.plan.kernels for r in k.rules}
    with pytest.raises(AccuracyError):
        loose.accuracy(x, factor=2.0)
    strict = eqfuse.optimize(careful_variance, (x,), target="h200", rules=[careless_rule], accuracy_factor=2.0)
    assert "careless" not in {r for k in strict.plan.kernels for r in k.rules}
    refused, taken = strict.plan.accuracy
    assert refused.startswith("refused, licence 'real'")
    assert taken.startswith("within 2 times eager, exact rules")
    assert all(line in str(strict.plan) for line in (refused, taken))
    strict.accuracy(x, factor=2.0)


def test_a_plan_that_is_accurate_says_what_was_tried():
    case = PROGRAMS["row_softmax"]
    c = eqfuse.optimize(case.fn, case.args("bench", "float16", device="meta"), **case.options, target="h200", accuracy_factor=2.0)
    (line,) = c.plan.accuracy
    assert line.startswith("within 2 times eager, licence 'real'")
    assert "accuracy: within" in str(c.plan)
    sizes = dict(part.split("=") for part in line.rsplit("at ", 1)[1].rstrip(")").split(", "))
    stream = [(a.name, r.tile) for k in c.plan.kernels for a, r in k.kernel.roles.items() if r.kind == "stream"]
    assert stream
    assert all(int(sizes[a]) > 2 * tile for a, tile in stream), "loops run more than twice"


def test_nothing_within_the_factor_is_an_error():
    x = torch.randn(9, 300, generator=torch.Generator().manual_seed(3))
    with pytest.raises(AccuracyError, match=r"no plan is within 1e-09 times.*exact rules.*no rules"):
        eqfuse.optimize(careful_variance, (x,), target="h200", accuracy_factor=1e-9)
    with pytest.raises(OptionError, match="accuracy_factor"):
        eqfuse.optimize(careful_variance, (x,), target="h200", accuracy_factor=0.0)


def test_what_cannot_be_tried_is_an_error():
    """A program in terms has the sizes that it was written for; large ones cannot be interpreted."""
    i, j = axes(i=2048, j=4096)
    x = tensor("x", i, j)
    p = program("large", o=(exp(x - maximum_over(j, x)), (i, j)))
    with pytest.raises(AccuracyError, match="cannot be tried at small sizes"):
        eqfuse.optimize(p, [torch.empty(2048, 4096, device="meta")], target="h200", accuracy_factor=2.0)


def test_programs_in_terms_are_held_to_their_own_order():
    i, j = axes(i=4, j=48)
    x = tensor("x", i, j)
    p = program("sums", o=(sum_over(j, exp(x - maximum_over(j, x))), (i,)))
    data = torch.randn(4, 48, generator=torch.Generator().manual_seed(3))
    c = eqfuse.optimize(p, [data], target="h200", accuracy_factor=4.0)
    (row,) = c.accuracy(data).outputs
    assert 0 < row.eager < 1e-6
