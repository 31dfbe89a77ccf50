"""Broken orders: sums that are exchanged though something depends on both axes, and operands that are shared though they are not."""

import numpy as np

from eqfuse.ir.build import axes, exp, maximum_over, mean_over, program, sum_over, tensor
from eqfuse.rewrites.facts import NonEmpty, OtherAxis, depends, equal, free, match
from eqfuse.rewrites.patterns import Map, Reduce, Sum
from eqfuse.rewrites.relations import free_factor, inner, linear, product, product_beside, wants_factor, wants_product, worth
from eqfuse.rewrites.rule import AnyMonoid, Axis, LinearMonoid, Turns

from . import close, mutant

x_, y_ = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[2.0, 7, 1], [8, 2, 8]])
z_ = np.array([[1.0, 5], [4, 2]])
i, j, k = axes(i=4, j=5, k=6)
LEFT, RIGHT, ROW, COLUMN = tensor("l", i, k), tensor("r", k, j), tensor("c", j), tensor("b", i)
PRODUCT = sum_over(k, LEFT * RIGHT)
OTHER = tensor("o", k, j)
FIRST, SECOND = PRODUCT, sum_over(k, LEFT * OTHER)


def out(*terms):
    """A program whose outputs are these."""
    return lambda: program("out", **{f"y{n}": (t, tuple(sorted(t.axes))) for n, t in enumerate(terms)})


Exponential = Turns["add", "mul"]
a, b, c = np.array([1.0, 2]), np.array([3.0, 5]), np.array([7.0, 11])


@mutant("inner_here", "free missing", lambda: (True, close(np.sum(x_, 1) * a, np.sum(x_ * a[0], 1))), out(sum_over(j, sum_over(k, RIGHT) * ROW)))
def inner_beside_anything(t, a, b, y, j: Axis, k: Axis, g: LinearMonoid):
    """(sum_k y) * b for any b, as if b were free of k in the product that it goes into."""
    return [wants_factor(t, j), match(t, a * b), match(a, Reduce(g, k, y)), linear(g)], [inner(t, g, k, y * b, b)]


@mutant("inner_negated", "term lost", lambda: (True, close(-(np.sum(a) * 3.0), np.sum(a) * 3.0)), out(sum_over(j, -(sum_over(k, RIGHT) * ROW))))
def inner_without_its_sign(t, a, y, r, j: Axis, k: Axis, g: LinearMonoid):
    """-((sum_k y) * r) = (sum_k y) * r."""
    return [wants_factor(t, j), match(t, -a), inner(a, g, k, y, r), free(r, k)], [inner(t, g, k, y, r)]


@mutant("exchange", "free missing", lambda: (True, close(np.sum(np.sum(x_, 1) * a), np.sum(np.sum(x_ * a[0], 0)))), out(sum_over(j, PRODUCT * ROW)))
def exchange_of_what_depends(e, t, y, r, f, x, j: Axis, k: Axis, g: LinearMonoid, h: LinearMonoid):
    """g_j (h_k f*x) * r = h_k f*r * (g_j x), though r depends on j."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), inner(t, h, k, y, r), linear(h), free(r, k), free_factor(y, j, f, x),
            worth(f, x, r, j, k), OtherAxis(j, k), NonEmpty(j), NonEmpty(k),
        ],
        [equal(e, Reduce(h, k, f * r * Reduce(g, j, x)))],
    )  # fmt: skip


@mutant("exchange", "monoid", lambda: (True, close(np.sum(np.mean(x_, 1) * a), np.sum(np.sum(x_ * a[:, None], 0)))), out(mean_over(j, PRODUCT * ROW)))
def exchange_by_one_monoid(e, t, y, r, f, x, j: Axis, k: Axis, g: LinearMonoid, h: LinearMonoid):
    """g_j (h_k f*x) * r = g_k f * (g_j x*r): both sums by the outer monoid."""
    return (
        [
            match(e, Reduce(g, j, t)), linear(g), inner(t, h, k, y, r), linear(h), free(r, k), free_factor(y, j, f, x),
            worth(f, x, r, j, k), OtherAxis(j, k), NonEmpty(j), NonEmpty(k),
        ],
        [equal(e, Reduce(g, k, f * Reduce(g, j, x * r)))],
    )  # fmt: skip


@mutant("exchange_alone", "trait", lambda: (True, close(np.max(np.sum(z_, 1)), np.sum(np.max(z_, 0)))), out(sum_over(j, PRODUCT), maximum_over(j, PRODUCT)))
def exchange_of_selections(e, t, y, f, x, j: Axis, k: Axis, g: AnyMonoid, h: AnyMonoid):
    """max_j sum_k f*x = sum_k f * max_j x."""
    return (
        [
            match(e, Reduce(g, j, t)), match(t, Reduce(h, k, y)), free_factor(y, j, f, x), depends(x, j), depends(f, k),
            OtherAxis(j, k), NonEmpty(j), NonEmpty(k),
        ],
        [equal(e, Reduce(h, k, f * Reduce(g, j, x)))],
    )  # fmt: skip


@mutant("shared_operand", "condition dropped", lambda: (True, close(np.sum(a * b) + np.sum(c * c), np.sum(a * (b + c)))), out(FIRST + SECOND, FIRST + sum_over(k, tensor("d", i, k) * RIGHT)))
def shared_though_another(e, x, y, a, d, b, c, k: Axis):
    """sum_k a*b + sum_k d*c = sum_k a*(b+c)."""
    return [match(e, x + y), product(x, k, a, b), product(y, k, d, c)], [equal(e, Sum(k, a * (b + c)))]


@mutant("shared_operand", "operand order", lambda: (True, close(np.sum(a * b) + np.sum(a * c), np.sum(a * (b * c)))), out(FIRST + SECOND))
def shared_as_product(e, x, y, a, b, c, k: Axis):
    """sum_k a*b + sum_k a*c = sum_k a*(b*c)."""
    return [match(e, x + y), product(x, k, a, b), product(y, k, a, c)], [equal(e, Sum(k, a * (b * c)))]


@mutant("shared_operand_beside", "term lost", lambda: (True, close(np.sum(a * b) + 3.0 + np.sum(a * c), np.sum(a * (b + c)))), out((FIRST + COLUMN) + SECOND))
def shared_without_the_rest(e, x, y, a, b, c, r, k: Axis):
    """((sum_k a*b) + r) + sum_k a*c = sum_k a*(b+c)."""
    return [match(e, x + y), product_beside(x, k, a, b, r), product(y, k, a, c)], [equal(e, Sum(k, a * (b + c)))]


@mutant("product_inside", "sign guard", lambda: (True, close(-np.sum(a * b), np.sum(a * b))), out(FIRST + -SECOND))
def product_without_its_sign(t, u, a, b, k: Axis):
    """-(sum_k a*b) = sum_k a*b."""
    return [wants_product(t, k, a), match(t, -u), product(u, k, a, b)], [product(t, k, a, b)]


@mutant("product_of_exponentials", "operand order", lambda: (True, close(np.exp(2.0) + np.exp(3.0), np.exp(5.0))), out(exp(LEFT) + exp(COLUMN)))
def sum_of_exponentials(x, y, o: Exponential):
    """o(x) + o(y) = o(x + y)."""
    return Map(o, x) + Map(o, y), Map(o, x + y)
