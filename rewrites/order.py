# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""The order of sums: laws that change what a program costs, before its kernels are chosen.

Two laws make all orders of nested sums of products: independent sums are exchanged, and factors go in and out of sums.  Together,

    sum_j (sum_k f*x) * r  =  sum_k f * (sum_j x*r),        f free of j, r free of k,

which is (A B) C = A (B C) in either direction, a sum after a product as a matrix-vector product, and (Q K^T) V as Q (K^T V).  Neither
law is applied by itself, for then every order of every product would have a node: ``inner`` says that t = (sum_k y) * r, found bottom-up
through products where a sum outside asks for it, ``free_factor`` that y = f*x, and both sides of the law follow from these.  Of a chain
of n matrices that makes the rotations of trees, n^3 nodes.  An exchange is made only if it is worth it (``worth``): the larger of the
new products is not larger than the larger of the old ones, which is not small.

Sums of products that share an operand are one: sum_k a*b + sum_k a*c = sum_k a*(b+c).  What is shared may hide under signs, factors, and
other sums, x W + ((x B) A) s = x (W + (B A) s): ``shares`` says so without making a node, and where both sides of an addition share,
each is written as a product (``product``).

The other direction, a*(b+c) = a*b + a*c, and the square of a difference as a product, cancel where b + c is small: ``approx``, but for
terms of which it is known that they do not cancel.
"""

from __future__ import annotations

from .language import *

FAMILY, PHASE = "order", "order"


# finding a sum inside a product ---------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def inner_here(t, a, b, y, j: Axis, k: Axis, g: LinearMonoid):
    """(sum_k y) * b, for b free of k."""
    return [wants_factor(t, j), match(t, a * b), match(a, Reduce(g, k, y)), linear(g), free(b, k)], [inner(t, g, k, y, b)]


@fact_rule(family=FAMILY, phase=PHASE)
def inner_deeper(t, a, b, y, r, j: Axis, k: Axis, g: LinearMonoid):
    """((sum_k y) * r) * b = (sum_k y) * (r*b), where b depends on the axis that is summed outside."""
    return [wants_factor(t, j), match(t, a * b), depends(b, j), inner(a, g, k, y, r), free(r, k), free(b, k)], [inner(t, g, k, y, r * b)]


@fact_rule(family=FAMILY, phase=PHASE)
def inner_negated(t, a, y, r, j: Axis, k: Axis, g: LinearMonoid):
    """-((sum_k y) * r) = (sum_k y) * -r."""
    return [wants_factor(t, j), match(t, -a), inner(a, g, k, y, r), free(r, k)], [inner(t, g, k, y, -r)]


@fact_rule(family=FAMILY, phase=PHASE)
def want_factors_of_inner(t, y, r, j: Axis, k: Axis, g: LinearMonoid):
    """The body of the inner sum, as a product with a factor that is free of the outer axis."""
    return [wants_factor(t, j), inner(t, g, k, y, r)], [wants_factor(y, j)]


@fact_rule(family=FAMILY, phase=PHASE)
def want_factors_of_sum(e, t, y, j: Axis, k: Axis, g: LinearMonoid, h: LinearMonoid):
    """The same for a sum of a sum."""
    return [match(e, Reduce(g, j, t)), linear(g), match(t, Reduce(h, k, y)), linear(h)], [wants_factor(y, j)]


# exchange -------------------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def want_exchange(e, t, y, r, f, x, j: Axis, k: Axis, g: LinearMonoid, h: LinearMonoid):
    """Compare the products of both orders."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), inner(t, h, k, y, r), linear(h), free(r, k), free_factor(y, j, f, x),
            depends(x, j), depends(f, k), OtherAxis(j, k),
        ],
        [weigh(f, x, r, j, k)],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def exchange(e, t, y, r, f, x, j: Axis, k: Axis, g: LinearMonoid, h: LinearMonoid):
    """g_j (h_k f*x) * r = h_k f * (g_j x*r), for f free of j and r free of k."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), inner(t, h, k, y, r), linear(h), free(r, k), free_factor(y, j, f, x),
            worth(f, x, r, j, k), OtherAxis(j, k), NonEmpty(j), NonEmpty(k),
        ],
        [equal(e, Reduce(h, k, f * Reduce(g, j, x * r)))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def exchange_alone(e, t, y, f, x, j: Axis, k: Axis, g: LinearMonoid, h: LinearMonoid):
    """g_j h_k f*x = h_k f * (g_j x), for f free of j."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), match(t, Reduce(h, k, y)), linear(h), free_factor(y, j, f, x),
            depends(x, j), depends(f, k), OtherAxis(j, k), NonEmpty(j), NonEmpty(k),
        ],
        [equal(e, Reduce(h, k, f * Reduce(g, j, x)))],
    )  # fmt: skip


# sums of products that share an operand -------------------------------------------------------------------------------------------
#
# Where a sum of products may stand in another value: a pattern, the conditions, and what the place makes of the other operand.  What it
# brings into the other operand leaves the shared one an axis of its own, so that the product stays one of matrices.


def _negated(u, d, a, k, m) -> tuple:
    return -u, (), lambda b: -b


def _scaled(u, d, a, k, m) -> tuple:
    return u * d, (free(d, k), own_axes(a, d, k), NonEmpty(k)), lambda b: b * d


def _summed(u, d, a, k, m) -> tuple:
    return Sum(m, u * d), (free(d, k), free(a, m), own_axes(a, d, k), OtherAxis(k, m), NonEmpty(k), NonEmpty(m)), lambda b: Sum(m, b * d)


Place = Each[_negated, _scaled, _summed]


@fact_rule(family=FAMILY, phase=PHASE)
def want_shared(e, x, y):
    """The terms of a sum may be sums of products."""
    return [match(e, x + y)], [wants_sums(x), wants_sums(y)]


@fact_rule(family=FAMILY, phase=PHASE)
def want_shared_inside(t, u, d, a, k: Axis, m: Axis, place: Place):
    """So may what is behind a sign, beside a factor, or in a product that is summed."""
    return [wants_sums(t), match(t, place(u, d, a, k, m)[0])], [wants_sums(u)]


@fact_rule(family=FAMILY, phase=PHASE)
def shares_here(t, a, b, k: Axis):
    """sum_k a*b shares a."""
    return [wants_sums(t), match(t, Sum(k, a * b)), depends(a, k)], [shares(t, k, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def shares_inside(t, u, d, a, k: Axis, m: Axis, place: Place):
    """-(sum_k a*b), (sum_k a*b) * d and sum_m (sum_k a*b) * d share a."""
    pattern, conditions, _ = place(u, d, a, k, m)
    return [wants_sums(t), match(t, pattern), shares(u, k, a), *conditions], [shares(t, k, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def shares_in_term(t, u, r, a, k: Axis):
    """(sum_k a*b) + r shares a."""
    return [wants_sums(t), match(t, u + r), shares(u, k, a)], [shares(t, k, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def want_products(e, x, y, a, k: Axis):
    """Both terms of a sum share a."""
    return [match(e, x + y), shares(x, k, a), shares(y, k, a)], [wants_product(x, k, a), wants_product(y, k, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def want_product_inside(t, u, d, a, k: Axis, m: Axis, place: Place):
    """The product may be inside."""
    pattern, conditions, _ = place(u, d, a, k, m)
    return [wants_product(t, k, a), match(t, pattern), shares(u, k, a), *conditions], [wants_product(u, k, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def want_product_of_term(t, u, r, a, k: Axis):
    """The product may be a term."""
    return [wants_product(t, k, a), match(t, u + r), shares(u, k, a)], [wants_product(u, k, a)]


@fact_rule(family=FAMILY, phase=PHASE)
def product_here(t, a, b, k: Axis):
    """sum_k a*b."""
    return [wants_product(t, k, a), match(t, Sum(k, a * b))], [product(t, k, a, b)]


@fact_rule(family=FAMILY, phase=PHASE)
def product_inside(t, u, d, a, b, k: Axis, m: Axis, place: Place):
    """-(sum_k a*b) = sum_k a*-b, (sum_k a*b) * d = sum_k a*(b*d), sum_m (sum_k a*b) * d = sum_k a*(sum_m b*d)."""
    pattern, conditions, makes = place(u, d, a, k, m)
    return [wants_product(t, k, a), match(t, pattern), product(u, k, a, b), *conditions], [product(t, k, a, makes(b))]


@fact_rule(family=FAMILY, phase=PHASE)
def product_of_term(t, u, r, a, b, k: Axis):
    """(sum_k a*b) + r."""
    return [wants_product(t, k, a), match(t, u + r), product(u, k, a, b)], [product_beside(t, k, a, b, r)]


@fact_rule(family=FAMILY, phase=PHASE)
def product_of_inner_term(t, u, r, q, a, b, k: Axis):
    """((sum_k a*b) + q) + r = (sum_k a*b) + (q + r)."""
    return [wants_product(t, k, a), match(t, u + r), product_beside(u, k, a, b, q)], [product_beside(t, k, a, b, q + r)]


@fact_rule(family=FAMILY, phase=PHASE)
def shared_operand(e, x, y, a, b, c, k: Axis):
    """sum_k a*b + sum_k a*c = sum_k a*(b+c)."""
    return [match(e, x + y), product(x, k, a, b), product(y, k, a, c)], [equal(e, Sum(k, a * (b + c)))]


@fact_rule(family=FAMILY, phase=PHASE)
def shared_operand_beside(e, x, y, a, b, c, r, k: Axis):
    """((sum_k a*b) + r) + sum_k a*c = sum_k a*(b+c) + r."""
    return [match(e, x + y), product_beside(x, k, a, b, r), product(y, k, a, c)], [equal(e, Sum(k, a * (b + c)) + r)]


@fact_rule(family=FAMILY, phase=PHASE)
def shared_operand_beside_both(e, x, y, a, b, c, r, q, k: Axis):
    """((sum_k a*b) + r) + ((sum_k a*c) + q) = sum_k a*(b+c) + (r+q)."""
    return (
        [match(e, x + y), product_beside(x, k, a, b, r), product_beside(y, k, a, c, q)],
        [equal(e, Sum(k, a * (b + c)) + (r + q))],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def same_bound_axis(e, s, t, u, x, b, c, k: Axis, m: Axis):
    """sum_m t = sum_k t[m = k] for axes of one length: what reads x at m is then a product with x, as another sum over k is."""
    return (
        [
            match(s, Sum(k, x * c)), match(e, Sum(m, t)), match(t, u * b), match(u, View(x, k, Index(m))), free(t, k), depends(x, k),
            OtherAxis(k, m), equals(Extent(k), Extent(m)),
        ],
        [equal(e, Sum(k, View(t, m, Index(k))))],
    )  # fmt: skip


@fact_rule(family=FAMILY, phase=PHASE)
def same_read_axis(e, s, t, u, v, x, b, c, j: Axis, k: Axis, m: Axis):
    """sum_m t = sum_k t[m = k] for axes of one length, where t reads x[j = m], and something that is added x[j = k]."""
    return (
        [
            wants_sums(s), match(s, Sum(k, u * c)), match(u, View(x, j, Index(k))), wants_sums(e), match(e, Sum(m, t)), match(t, v * b),
            match(v, View(x, j, Index(m))), free(t, k), free(x, k), free(x, m), depends(x, j), OtherAxis(k, m),
            equals(Extent(k), Extent(m)),
        ],
        [equal(e, Sum(k, View(t, m, Index(k))))],
    )  # fmt: skip


# the other direction --------------------------------------------------------------------------------------------------------------


@fact_rule(family=FAMILY, phase=PHASE)
def want_factors_of_term(t, a, b, c, k: Axis):
    """A sum of products under a sum may have terms that are sums beside factors."""
    return [wants_factor(t, k), match(t, a * (b + c))], [wants_factor(c, k)]


def _distributed(e, a, b, c, k) -> list:
    return [equal(e, Sum(k, a * b) + Sum(k, a * c))]


@fact_rule(family=FAMILY, phase=PHASE)
def distribute_terms(e, t, a, b, c, y, k: Axis, m: Axis):
    """sum_k a*(b + sum_m y) = sum_k a*b + sum_k a*(sum_m y), for terms that do not cancel."""
    return (
        [match(e, Sum(k, t)), match(t, a * (b + c)), match(c, Sum(m, y)), depends(c, k), depends(a, k), separable(b, c)],
        _distributed(e, a, b, c, k),
    )


@fact_rule(family=FAMILY, phase=PHASE, licence="approx")
def distribute_any_terms(e, t, a, b, c, y, k: Axis, m: Axis):
    """sum_k a*(b + sum_m y) = sum_k a*b + sum_k a*(sum_m y), even if b and the sum cancel."""
    return [match(e, Sum(k, t)), match(t, a * (b + c)), match(c, Sum(m, y)), depends(c, k), depends(a, k)], _distributed(e, a, b, c, k)


@fact_rule(family=FAMILY, phase=PHASE, licence="approx")
def distribute_product(e, t, a, b, c, y, r, k: Axis, m: Axis, g: LinearMonoid):
    """sum_k a*(b + (sum_m y) * r) = sum_k a*b + sum_k a*((sum_m y) * r)."""
    return (
        [match(e, Sum(k, t)), match(t, a * (b + c)), inner(c, g, m, y, r), linear(g), depends(c, k), depends(a, k)],
        _distributed(e, a, b, c, k),
    )


@fact_rule(family=FAMILY, phase=PHASE)
def want_factors_of_summed_terms(e, t, x, y, k: Axis, g: LinearMonoid):
    """What is added under a sum may be a product with a sum."""
    return [match(e, Reduce(g, k, t)), linear(g), match(t, x + y), depends(x, k)], [wants_factor(x, k)]


def _a_sum(t, y, r, m, h) -> tuple:
    return (match(t, Sum(m, y)),)


def _negated_sum(t, y, r, m, h) -> tuple:
    return match(t, -r), match(r, Sum(m, y))


def _product_with_a_sum(t, y, r, m, h) -> tuple:
    return inner(t, h, m, y, r), linear(h)


Summed = Each[_a_sum, _negated_sum, _product_with_a_sum]


@fact_rule(family=FAMILY, phase=PHASE)
def sum_terms(e, t, x, c, y, r, k: Axis, m: Axis, g: LinearMonoid, h: LinearMonoid, summed: Summed):
    """sum_k (x + c) = sum_k x + sum_k c, for c with a sum in it, and terms that do not cancel."""
    return (
        [match(e, Reduce(g, k, t)), linear(g), match(t, x + c), depends(c, k), *summed(c, y, r, m, h), separable(x, c)],
        [equal(e, Reduce(g, k, x) + Reduce(g, k, c))],
    )


@fact_rule(family=FAMILY, phase=PHASE, licence="approx")
def sum_any_terms(e, t, x, c, y, r, k: Axis, m: Axis, g: LinearMonoid, h: LinearMonoid, summed: Summed):
    """sum_k (x + c) = sum_k x + sum_k c, for c with a sum in it, even if they cancel."""
    return (
        [match(e, Reduce(g, k, t)), linear(g), match(t, x + c), depends(c, k), *summed(c, y, r, m, h)],
        [equal(e, Reduce(g, k, x) + Reduce(g, k, c))],
    )


@fact_rule(family=FAMILY, phase=PHASE, licence="approx")
def sum_of_squared_terms(e, t, x, y, k: Axis, square: Each[(lambda z: z * z), (lambda z: Map("square", z))]):
    """sum_k (x+y)^2 = sum_k x^2 + sum_k y^2 + 2 sum_k x*y: the last is a product of matrices where x and y have axes of their own."""
    return (
        [match(e, Sum(k, t)), match(t, square(x + y)), depends(x, k), depends(y, k), own_axes(x, y), own_axes(y, x)],
        [equal(e, (Sum(k, x * x) + Sum(k, y * y)) + Sum(k, x * y) * 2.0)],
    )


@fact_rule(family=FAMILY, phase=PHASE)
def product_of_exponentials(x, y, o: Turns["add", "mul"]):
    """o(x) * o(y) = o(x + y)."""
    return Map(o, x) * Map(o, y), Map(o, x + y), turns(o, "add", "mul")
