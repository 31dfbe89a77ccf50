# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Repair: a reduction that depends on another reduction over the same axis, in one loop.

Let t depend on r = reduce_j s.  If moving r from an old to a new value changes t by a factor, t(new) = t(old) * q with q free of
j, then sum_j t can run in the same loop as r:  acc <- acc * q + t(new).  For a maximum the change is a term d, and in general
t(new) = sum_k c_k * b_k(old), a linear form over accumulators b_k that is closed under changing r; for instance with
u = x - mean x:  u(new)^2 = u(old)^2 + 2 d u(old) + d^2, which is the stable running variance.  The same relation merges partial
results of a split axis: t(r) = t(local) * q.  ``kind`` says which: ``run`` or ``loc``.

The relations carry t(new), because q is right only for the representation that it was derived from.  New and old values are
opaque leaves (``Ref``), so only identities that hold for every value apply to them.  Nothing here names a function: an op takes
part through the homomorphisms that its declaration states (``turns``), those that hold only on non-negative numbers with the
premise that the numbers are.
"""

from __future__ import annotations

import math

from .language import *

FAMILY, PHASE = "repair", "repair"
LEAST = NumberLiteral(-math.inf)  # the identity of a maximum, which is what ``least_where`` and ``zero_where`` speak of
ALWAYS = Const(1.0)  # the condition of facts that hold everywhere


def stopping(change, new, none):
    """A change of reference that is ``none`` once the reference is infinite and stays so: inf - inf and inf / inf move nothing.

    What was gathered until then the last change has made 0 or infinite.  A NaN in the reference itself is everybody's.
    """
    return Where(Map("and", Map("ne", change, change), Map("eq", new, new)), none, change)


# demand: only what is below a reduction that is stuck behind another loop is worth repairing -------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def stuck(e, t, j: Axis, g: AnyMonoid):
    """The body of a reduction that cannot run in the first loop over its axis needs repair."""
    return [match(e, Reduce(g, j, t)), later(t, j)], [needs_repair(t, j)]


@fact_rule(family=FAMILY, phase=PHASE)
def stuck_below(t, x, j: Axis):
    """So does what delays it, through whatever lies between."""
    return [needs_repair(t, j), argument(t, x), later(x, j)], [needs_repair(x, j)]


@fact_rule(family=FAMILY, phase=PHASE)
def square_as_product(t, u, j: Axis):
    """u^2 = u*u, where u needs repair."""
    return [needs_repair(t, j), match(t, Map("square", u))], [equal(t, u * u)]


# seeds ---------------------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def seed_shift(r, s, j: Axis, g: AnyMonoid):
    """new = old + (new - old)."""
    new, old = Ref("new", j, r), Ref("old", j, r)
    return [match(r, Reduce(g, j, s)), needs_repair(r, j)], [changes_by_term("run", j, r, r, new, new - old)]


@fact_rule(family=FAMILY, phase=PHASE)
def seed_factor(r, s, j: Axis, g: AnyMonoid):
    """new = old * (new / old), for reductions of positive values."""
    new, old = Ref("new", j, r), Ref("old", j, r)
    return [match(r, Reduce(g, j, s)), needs_repair(r, j), positive(s), positive(r)], [changes_by_factor("run", j, r, r, new, new / old)]


@fact_rule(family=FAMILY, phase=PHASE)
def seed_function(r, s, j: Axis, g: AnyMonoid):
    """A function of r alone is followed by substitution."""
    return [match(r, Reduce(g, j, s)), needs_repair(r, j)], [function_of(j, r, r, Ref("new", j, r), Ref("old", j, r))]


@fact_rule(family=FAMILY, phase=PHASE)
def function1(t, x, r, xn, xo, j: Axis, o: Op1):
    """If x is a function of r alone, so is o(x)."""
    return [function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Map(o, x))], [function_of(j, t, r, Map(o, xn), Map(o, xo))]


@fact_rule(family=FAMILY, phase=PHASE)
def function2(t, x, r, xn, xo, a: Scalar, j: Axis, o: Op2):
    """If x is a function of r alone, so is o(x, constant)."""
    c = Const(a)
    return [function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Map(o, x, c))], [function_of(j, t, r, Map(o, xn, c), Map(o, xo, c))]


@fact_rule(family=FAMILY, phase=PHASE)
def choice_by_reference(t, c, x, r, cn, co, xn, xo, a: Scalar, j: Axis, arms: EitherWay):
    """A choice between a constant and a function of r, made by a function of r: safe forms of a maximum."""
    new, old = Where(cn, *arms(Const(a), xn)), Where(co, *arms(Const(a), xo))
    return (
        [function_of(j, c, r, cn, co), function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Where(c, *arms(Const(a), x)))],
        [changes_by_term("run", j, t, r, new, new - old)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def shift_of_larger(t, x, b, r, xn, xo, j: Axis, o: Each["maximum", "minimum"]):
    """max(new, b) = max(old, b) + (max(new, b) - max(old, b)), for b that is ready before r: a reference that an element beside a row has
    a part in."""
    new, old = Map(o, xn, b), Map(o, xo, b)
    return (
        [function_of(j, x, r, xn, xo), needs_repair(t, j), match(t, Map(o, x, b)), earlier(b, r, j)],
        [changes_by_term("run", j, t, r, new, new - old)],
    )


# change by a term ----------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def shift_through_additive(t, x, r, xn, d, j: Axis, k: Kind, o: Turns["add", "add"]):
    """o(x+d) = o(x) + o(d)."""
    return (
        [changes_by_term(k, j, x, r, xn, d), turns(o, "add", "add"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_term(k, j, t, r, Map(o, xn), Map(o, d))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def shift_of_term(t, x, b, r, xn, d, j: Axis, k: Kind):
    """(x+d) + b = (x+b) + d."""
    needs = [changes_by_term(k, j, x, r, xn, d), needs_repair(t, j), match(t, x + b), earlier(b, r, j)]
    return needs, [changes_by_term(k, j, t, r, xn + b, d)]


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def shift_of_both(t, x, y, r, xn, yn, d, e, j: Axis, k: Kind):
    """(x+d) + (y+e) = (x+y) + (d+e)."""
    return (
        [changes_by_term(k, j, x, r, xn, d), changes_by_term(k, j, y, r, yn, e), needs_repair(t, j), match(t, x + y)],
        [changes_by_term(k, j, t, r, xn + yn, d + e)],
    )


SCALED = Each[lambda b, r, s, n, g, z: [finite(b)], lambda b, r, s, n, g, z: [match(r, Reduce(g, n, s)), selective(g, z)]]


@fact_rule(family=FAMILY, phase=PHASE)
def shift_scaled(t, x, b, r, s, xn, d, j: Axis, n: Axis, k: Kind, g: SelectiveMonoid, z: Scalar, by: SCALED):
    """(x+d) * b = x*b + d*b, for b free of j; a b that is infinite must meet x - max x, which is 0 somewhere."""
    return (
        [changes_by_term(k, j, x, r, xn, d), needs_repair(t, j), match(t, x * b), earlier(b, r, j), free(b, j), *by(b, r, s, n, g, z)],
        [changes_by_term(k, j, t, r, xn * b, d * b)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def shift_through_log(t, x, r, xn, q, j: Axis, k: Kind, o: Turns["mul", "add", "nonneg"]):
    """o(x*q) = o(x) + o(q), for x, q >= 0."""
    return (
        [
            changes_by_factor(k, j, x, r, xn, q),
            turns_nonneg(o, "mul", "add"),
            needs_repair(t, j),
            match(t, Map(o, x)),
            nonneg(x),
            nonneg(xn),
            nonneg(q),
        ],
        [changes_by_term(k, j, t, r, Map(o, xn), Map(o, q))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def shift_through_other_sum(t, x, r, xn, d, j: Axis, i: Axis, k: Kind, g: LinearMonoid):
    """sum_i (x+d) = sum_i x + sum_i d, over another axis."""
    return (
        [changes_by_term(k, j, x, r, xn, d), needs_repair(t, j), match(t, Reduce(g, i, x)), linear(g), OtherAxis(i, j), apart(i, j)],
        [changes_by_term(k, j, t, r, Reduce(g, i, xn), Reduce(g, i, d))],
    )


# change by a factor --------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def factor_of_exponential(t, x, r, xn, d, j: Axis, k: Kind, o: Turns["add", "mul"]):
    """o(x+d) = o(x) * o(d)."""
    return (
        [changes_by_term(k, j, x, r, xn, d), turns(o, "add", "mul"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_factor(k, j, t, r, Map(o, xn), Map(o, d))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def factor_through_power(t, x, r, xn, q, j: Axis, k: Kind, o: Turns["mul", "mul"]):
    """o(x*q) = o(x) * o(q)."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), turns(o, "mul", "mul"), needs_repair(t, j), match(t, Map(o, x))],
        [changes_by_factor(k, j, t, r, Map(o, xn), Map(o, q))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def factor_through_root(t, x, r, xn, q, j: Axis, k: Kind, o: Turns["mul", "mul", "nonneg"]):
    """o(x*q) = o(x) * o(q), for x, q >= 0."""
    return (
        [
            changes_by_factor(k, j, x, r, xn, q),
            turns_nonneg(o, "mul", "mul"),
            needs_repair(t, j),
            match(t, Map(o, x)),
            nonneg(x),
            nonneg(xn),
            nonneg(q),
        ],
        [changes_by_factor(k, j, t, r, Map(o, xn), Map(o, q))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def factor_through_additive(t, x, r, xn, q, j: Axis, k: Kind):
    """-(x*q) = -x * q."""
    return [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, -x)], [changes_by_factor(k, j, t, r, -xn, q)]


@fact_rule(family=FAMILY, phase=PHASE)
def factor_of_product(t, x, b, r, xn, q, j: Axis, k: Kind):
    """(x*q) * b = (x*b) * q."""
    needs = [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, x * b), earlier(b, r, j)]
    return needs, [changes_by_factor(k, j, t, r, xn * b, q)]


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def factor_of_both(t, x, y, r, xn, yn, p, q, j: Axis, k: Kind):
    """(x*p) * (y*q) = (x*y) * (p*q).  A factor that is free of j leaves the sum: q may grow without bound where x*y has become 0."""
    return (
        [
            changes_by_factor(k, j, x, r, xn, p),
            changes_by_factor(k, j, y, r, yn, q),
            needs_repair(t, j),
            match(t, x * y),
            depends(x, j),
            depends(y, j),
        ],
        [changes_by_factor(k, j, t, r, xn * yn, p * q)],
    )


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def factor_of_sum(t, x, y, r, xn, yn, q, j: Axis, k: Kind):
    """x*q + y*q = (x+y) * q."""
    return (
        [changes_by_factor(k, j, x, r, xn, q), changes_by_factor(k, j, y, r, yn, q), needs_repair(t, j), match(t, x + y)],
        [changes_by_factor(k, j, t, r, xn + yn, q)],
    )


# Where c does not choose an infinite element, r is infinite and q = o(inf - inf) may be NaN although every chosen x is finite: there r has
# stopped to change.


REFERENCES = Each[("run", lambda j, r: Ref("new", j, r)), ("loc", lambda j, r: r)]  # what the new value of a change is that of


@fact_rule(family=FAMILY, phase=PHASE)
def factor_of_choice(t, c, x, r, xn, q, j: Axis, to: REFERENCES):
    """where(c, x*q, 0) = where(c, x, 0) * q, but for an undefined q."""
    kind, reference = to
    return (
        [changes_by_factor(kind, j, x, r, xn, q), needs_repair(t, j), match(t, Where(c, x, 0.0)), earlier(c, r, j), covers(t, r)],
        [changes_by_factor(kind, j, t, r, Where(c, xn, 0.0), stopping(q, reference(j, r), 1.0))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def factor_through_wide_cast(t, x, r, xn, q, j: Axis, k: Kind, d: TypeName):
    """cast(x*q) = cast(x) * q, for a floating type that overflows no earlier than float32: rounding is relative."""
    rounded = Cast(d, xn)
    return (
        [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, Cast(d, x)), movable(t), wide(d)],
        [changes_by_factor(k, j, t, r, rounded, q), movable(rounded)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def factor_through_cast_of_modest(t, x, r, xn, q, n: Scalar, j: Axis, k: Kind, d: TypeName):
    """The same for any floating type, if x is modest: cast(x) does not overflow."""
    rounded = Cast(d, xn)
    return (
        [changes_by_factor(k, j, x, r, xn, q), needs_repair(t, j), match(t, Cast(d, x)), movable(t), rounding(d), within(x, n), Modest(n)],
        [changes_by_factor(k, j, t, r, rounded, q), movable(rounded)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def factor_through_other_sum(t, x, r, xn, q, j: Axis, i: Axis, k: Kind, g: LinearMonoid):
    """sum_i x*q = (sum_i x) * q, over another axis that q is free of."""
    return (
        [
            changes_by_factor(k, j, x, r, xn, q),
            needs_repair(t, j),
            match(t, Reduce(g, i, x)),
            linear(g),
            OtherAxis(i, j),
            apart(i, j),
            free(q, i),
        ],
        [changes_by_factor(k, j, t, r, Reduce(g, i, xn), q)],
    )


# change by a linear form ---------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def form_of_shift(t, r, tn, d, j: Axis):
    """t + d = 1 * t(old) + d * 1."""
    one = Const(1.0)
    form = LinearSum(Along(one, tn), Along(d, one))
    return [changes_by_term("run", j, t, r, tn, d), distinct(t, r)], [changes_by_form(j, t, r, tn, form)]


@fact_rule(family=FAMILY, phase=PHASE)
def prime_of_shift(t, r, tn, d, j: Axis):
    """The form of u + d is no product of forms."""
    return [changes_by_term("run", j, t, r, tn, d), distinct(t, r)], [prime(t, j)]


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def form_of_product(t, x, y, r, xn, yn, j: Axis, a: Form, b: Form):
    """A product of forms is a form; products are written from the left, so that each has one form."""
    return (
        [changes_by_form(j, x, r, xn, a), changes_by_form(j, y, r, yn, b), prime(y, j), needs_repair(t, j), match(t, x * y)],
        [changes_by_form(j, t, r, xn * yn, LinearProduct(a, b))],
    )


OF_FORMS = Each[
    lambda j, r, s, y, q: ([horizon(r, j)], q),
    lambda j, r, s, y, q: ([match(r, Reduce("mean", j, s)), covers(y, r)], stopping(q, Ref("new", j, r), 1.0)),
]


@fact_rule(family=FAMILY, phase=PHASE)
def form_times_factor(t, x, y, r, s, xn, yn, q, j: Axis, a: Form, of: OF_FORMS):
    """A form times a value that changes by a factor is a form."""
    needs, change = of(j, r, s, y, q)
    return (
        [changes_by_form(j, x, r, xn, a), changes_by_factor("run", j, y, r, yn, q), needs_repair(t, j), match(t, x * y), *needs],
        [changes_by_form(j, t, r, xn * yn, LinearProduct(a, Along(change, yn)))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def form_times_value(t, x, b, r, xn, j: Axis, a: Form):
    """A form times a value that does not change is a form."""
    return (
        [changes_by_form(j, x, r, xn, a), needs_repair(t, j), match(t, x * b), earlier(b, r, j), settled(b)],
        [changes_by_form(j, t, r, xn * b, LinearProduct(a, Along(Const(1.0), b)))],
    )


@fact_rule(family=FAMILY, phase=PHASE, mirrored=False)
def product_of_terms(l: Form, c, d, x, y):  # noqa: E741
    """(c x)(d y) = (c d)(x y)."""
    return [match(l, LinearProduct(Along(c, x), Along(d, y)))], [equal(l, Along(c * d, x * y))]


@fact_rule(family=FAMILY, phase=PHASE)
def distribute(l: Form, x: Form, y: Form, z: Form, both: EitherWay):  # noqa: E741
    """(x + y) z = x z + y z, and z (x + y) = z x + z y."""
    return (
        [match(l, LinearProduct(*both(LinearSum(x, y), z)))],
        [equal(l, LinearSum(LinearProduct(*both(x, z)), LinearProduct(*both(y, z))))],
    )


# what vanishes where nothing has been seen ---------------------------------------------------------------------------------------
#
# Before the first element that is not masked, a maximum is -inf and a change of reference is not finite.  A loop then keeps its
# state as it is, which is right only if the state is still the identity: t must vanish wherever everything that r sees is -inf.


@fact_rule(family=FAMILY, phase=PHASE)
def nothing_seen(r, s, j: Axis, g: SelectiveMonoid):
    """Where max_j s is -inf, s is."""
    return [match(r, Reduce(g, j, s)), selective(g, LEAST), NonEmpty(j)], [least_where(s, r, ALWAYS)]


@fact_rule(family=FAMILY, phase=PHASE)
def nothing_seen_inside(t, c, x, r):
    """If where(c, x, -inf) = -inf, then x = -inf where c holds."""
    return [least_where(t, r, ALWAYS), match(t, Where(c, x, -math.inf))], [least_where(x, r, c)]


@fact_rule(family=FAMILY, phase=PHASE)
def nothing_seen_shifted(t, x, b, r, c):
    """-inf + b = -inf."""
    return [least_where(x, r, c), match(t, x + b)], [least_where(t, r, c)]


@fact_rule(family=FAMILY, phase=PHASE)
def nothing_seen_scaled(t, x, b, r, c):
    """-inf * b = -inf for b > 0."""
    return [least_where(x, r, c), match(t, x * b), positive(b)], [least_where(t, r, c)]


@fact_rule(family=FAMILY, phase=PHASE)
def nothing_seen_chosen(t, c, x, r):
    """where(c, -inf, -inf) = -inf."""
    return [least_where(x, r, c), match(t, Where(c, x, -math.inf))], [least_where(t, r, ALWAYS)]


@fact_rule(family=FAMILY, phase=PHASE)
def gone_by_exponential(t, x, r, c, o: Turns["add", "mul"]):
    """o(-inf) = 0 for an increasing o that turns sums into products."""
    return [least_where(x, r, c), match(t, Map(o, x)), turns(o, "add", "mul"), increasing(o)], [zero_where(t, r, c)]


@fact_rule(family=FAMILY, phase=PHASE)
def gone_times(t, x, b, r, c):
    """0 * b = 0."""
    return [zero_where(x, r, c), match(t, x * b)], [zero_where(t, r, c)]


@fact_rule(family=FAMILY, phase=PHASE)
def gone_negated(t, x, r, c):
    """-0 = 0."""
    return [zero_where(x, r, c), match(t, -x)], [zero_where(t, r, c)]


@fact_rule(family=FAMILY, phase=PHASE)
def gone_rounded(t, x, r, c, d: TypeName):
    """cast(0) = 0, and the cast of NaN is NaN in floating types (in the others it may be any number)."""
    return [zero_where(x, r, c), match(t, Cast(d, x)), rounding(d)], [zero_where(t, r, c)]


@fact_rule(family=FAMILY, phase=PHASE)
def gone_chosen(t, c, x, r, where: Each[lambda c: ALWAYS, lambda c: c]):
    """where(c, x, 0) = 0 if x = 0, or if x = 0 where c holds."""
    return [zero_where(x, r, where(c)), match(t, Where(c, x, 0.0))], [zero_where(t, r, ALWAYS)]


@fact_rule(family=FAMILY, phase=PHASE)
def gone_summed(t, x, r, i: Axis, g: LinearMonoid):
    """A sum of zeros is zero."""
    return [zero_where(x, r, ALWAYS), match(t, Reduce(g, i, x)), linear(g), free(r, i)], [zero_where(t, r, ALWAYS)]


# the loop ------------------------------------------------------------------------------------------------------------------------

ROLL = "roll"


@fact_rule(family=FAMILY, phase=ROLL)
def roll_by_factor(e, t, r, tn, q, s, j: Axis, g: LinearMonoid, h: SelectiveMonoid):
    """sum_j t in one loop with a maximum r: acc <- acc * q + t(new), for q free of j and t gone where r has seen nothing."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_factor("run", j, t, r, tn, q), free(q, j),
            match(r, Reduce(h, j, s)), selective(h, LEAST), zero_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() * q))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=ROLL)
def roll_by_factor_of_sum(e, t, r, tn, q, s, j: Axis, g: LinearMonoid, h: LinearMonoid):
    """sum_j t in one loop with a sum r: acc <- acc * q + t(new), for q free of j."""
    return (
        [
            match(e, Reduce(g, j, t)),
            linear(g),
            changes_by_factor("run", j, t, r, tn, q),
            free(q, j),
            covers(t, r),
            match(r, Reduce(h, j, s)),
            linear(h),
        ],
        [equal(e, Roll(g, j, tn, Acc() * stopping(q, Ref("new", j, r), 1.0)))],
    )


@fact_rule(family=FAMILY, phase=ROLL)
def roll_by_shift(e, t, r, tn, d, z: Scalar, s, j: Axis, g: SelectiveMonoid, h: SelectiveMonoid):
    """max_j t in one loop with a maximum r: acc <- max(acc + d, t(new)), for d free of j and t = -inf where r has seen nothing."""
    return (
        [
            match(e, Reduce(g, j, t)), selective(g, z), changes_by_term("run", j, t, r, tn, d), free(d, j), distinct(e, r),
            match(r, Reduce(h, j, s)), selective(h, LEAST), least_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Acc() + d))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=ROLL)
def roll_by_shift_of_sum(e, t, r, tn, d, z: Scalar, s, j: Axis, g: SelectiveMonoid, h: LinearMonoid):
    """max_j t in one loop with a sum r: acc <- max(acc + d, t(new)), for d free of j."""
    return (
        [
            match(e, Reduce(g, j, t)), selective(g, z), changes_by_term("run", j, t, r, tn, d), free(d, j), distinct(e, r), covers(t, r),
            match(r, Reduce(h, j, s)), linear(h),
        ],
        [equal(e, Roll(g, j, tn, Acc() + stopping(d, Ref("new", j, r), 0.0)))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=ROLL)
def roll_by_form(e, t, r, tn, s, j: Axis, l: Form, g: LinearMonoid, h: SelectiveMonoid):  # noqa: E741
    """sum_j t in one loop with a maximum r and the accumulators of its linear form."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), changes_by_form(j, t, r, tn, l), distinct(e, r),
            match(r, Reduce(h, j, s)), selective(h, LEAST), zero_where(tn, r, ALWAYS),
        ],
        [equal(e, Roll(g, j, tn, Summed(j, tn, l)))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=ROLL)
def roll_by_form_of_mean(e, t, r, tn, s, j: Axis, l: Form, g: LinearMonoid):  # noqa: E741
    """sum_j t in one loop with a mean r and the accumulators of its linear form.

    Not with a sum: data shifted by a part of their sum are as large as the data, and the large accumulators would cancel.
    """
    return (
        [match(e, Reduce(g, j, t)), linear(g), changes_by_form(j, t, r, tn, l), distinct(e, r), match(r, Reduce("mean", j, s))],
        [equal(e, Roll(g, j, tn, Summed(j, tn, l)))],
    )


@fact_rule(family=FAMILY, phase=ROLL)
def sum_of_forms(u, own, j: Axis, x: Form, y: Form):
    """A sum of forms, summed, is the sum of both."""
    return (
        [match(u, Summed(j, own, LinearSum(x, y)))],
        [equal(u, Summed(j, own, x) + Summed(j, own, y))],
    )


@fact_rule(family=FAMILY, phase=ROLL)
def own_accumulator(u, own, c, j: Axis):
    """c * own(old), summed, is c times the loop's own state, for c free of j."""
    return [match(u, Summed(j, own, Along(c, own))), free(c, j), NonEmpty(j)], [equal(u, c * Acc())]


@fact_rule(family=FAMILY, phase=ROLL)
def other_accumulator(u, own, c, b, j: Axis):
    """c * b(old), summed, is c times the accumulator of b, for c free of j."""
    return [match(u, Summed(j, own, Along(c, b))), free(c, j), distinct(b, own), NonEmpty(j)], [equal(u, c * Pre(j, b))]


@fact_rule(family=FAMILY, phase=ROLL)
def keep_plain_accumulator(p, b, j: Axis):
    """An accumulator that is mentioned is kept: a body without running values is simply summed."""
    return [match(p, Pre(j, b)), settled(b)], [match(p, Sum(j, b))]


@fact_rule(family=FAMILY, phase=ROLL)
def keep_accumulator(p, t, r, tn, d, j: Axis, change: Each[changes_by_term, changes_by_factor]):
    """An accumulator that is mentioned is kept: its body is t at the new reference, so somebody sums t."""
    return [match(p, Pre(j, tn)), change("run", j, t, r, tn, d)], [match(p, Sum(j, t))]


@fact_rule(family=FAMILY, phase=ROLL)
def keep_accumulator_by_form(p, t, r, tn, j: Axis, l: Form):  # noqa: E741
    """An accumulator that is mentioned is kept: its body is t at the new reference, so somebody sums t."""
    return [match(p, Pre(j, tn)), changes_by_form(j, t, r, tn, l)], [match(p, Sum(j, t))]
