"""Broken layout rules: a view that reads the wrong place, or reads less than it should."""

import numpy as np

from eqfuse.ir.build import axes, cast, exp, lt, program, select, sum_over, tensor, view
from eqfuse.ir.dtypes import float16
from eqfuse.ir.index import index
from eqfuse.rewrites.facts import IndexDepends, IndexFree, OtherAxis, depends, equal, free, match
from eqfuse.rewrites.patterns import Cast, Map, Reduce, View
from eqfuse.rewrites.relations import same_index
from eqfuse.rewrites.rule import AnyMonoid, Axis, Op1, Op2, Op3, Position, TypeName

from . import close, mutant

i, j, k, n = axes(i=4, j=8, k=8, n=4)
x_, y_, z_ = tensor("x", i, j), tensor("y", i, j), tensor("z", i, j)
x, y = np.array([1.0, 2, 3]), np.array([4.0, 6, 5])
back = np.array([2, 1, 0])
turn = np.array([1, 2, 0])


def flipped(t):
    """A program that reads j backwards at k."""
    return lambda: program("flipped", y=(view(t, j, index(k) * -1 + 7), tuple(sorted(t.axes - {j} | {k}))))


def both(k):
    """A program that turns and shifts j, read at k, and another value the other way round."""
    turn, shift = index(k) * -1 + 7, (index(k) + 3) % 8
    x, y = view(view(x_, j, turn), k, shift), view(view(y_, j, shift), k, turn)
    return lambda: program("both", y=(x + y, (i, k)))


@mutant("view_of_constant", "free missing", lambda: (True, close(x[back], x)), flipped(x_))
def view_of_anything(x, j: Axis, e: Position):
    """x[j = e] = x, also for an x that depends on j."""
    return View(x, j, e), x


@mutant("view_in_place", "condition dropped", lambda: (True, close(x[back], x)), flipped(x_))
def view_anywhere(t, x, j: Axis, e: Position):
    """x[j = e] = x for every e."""
    return [match(t, View(x, j, e))], [equal(t, x)]


@mutant("view_through_op", "term lost", lambda: (True, close(np.exp(x)[back], np.exp(x))), flipped(exp(x_)))
def view_lost_in_op1(x, j: Axis, e: Position, o: Op1):
    """o(x)[j = e] = o(x)."""
    return View(Map(o, x), j, e), Map(o, x)


@mutant("view_through_op", "term lost", lambda: (True, close((x + y)[back], x[back] + y)), flipped(x_ + y_))
def view_of_first_argument(x, y, j: Axis, e: Position, o: Op2):
    """o(x, y)[j = e] = o(x[j = e], y)."""
    return View(Map(o, x, y), j, e), Map(o, View(x, j, e), y)


@mutant("view_through_op", "operand order", lambda: (True, np.array_equal((x < y)[back], y[back] < x[back])), flipped(lt(x_, y_)))
def view_exchanges_arguments(x, y, j: Axis, e: Position, o: Op2):
    """o(x, y)[j = e] = o(y[j = e], x[j = e])."""
    return View(Map(o, x, y), j, e), Map(o, View(y, j, e), View(x, j, e))


@mutant("view_through_op", "term lost", lambda: (True, close(np.where(x > 1, x, y)[back], np.where((x > 1)[back], x[back], y))), flipped(select(lt(x_, 0.0), y_, z_)))
def view_of_two_arguments(x, y, z, j: Axis, e: Position, o: Op3):
    """o(x, y, z)[j = e] = o(x[j = e], y[j = e], z)."""
    return View(Map(o, x, y, z), j, e), Map(o, View(x, j, e), View(y, j, e), z)


@mutant("view_through_op", "operand order", lambda: (True, close(np.where(x > 1, x, y)[back], np.where((x > 1)[back], y[back], x[back]))), flipped(select(lt(x_, 0.0), y_, z_)))
def view_exchanges_arms(x, y, z, j: Axis, e: Position, o: Op3):
    """o(x, y, z)[j = e] = o(x[j = e], z[j = e], y[j = e])."""
    return View(Map(o, x, y, z), j, e), Map(o, View(x, j, e), View(z, j, e), View(y, j, e))


@mutant("view_through_cast", "term lost", lambda: (True, close(x[back], x)), flipped(cast(float16, x_)))
def view_lost_in_cast(x, j: Axis, e: Position, d: TypeName):
    """cast(x)[j = e] = cast(x)."""
    return View(Cast(d, x), j, e), Cast(d, x)


table = np.array([[1.0, 2], [3, 4]])


@mutant("view_through_reduction", "free missing", lambda: (True, close(np.sum(table, axis=1), np.sum(table[[0, 1], [0, 1]]))), lambda: program("diagonal", y=(view(sum_over(n, tensor("w", i, n)), i, index(n)), (n,))))
def view_captured_by_reduction(x, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(sum_k x)[j = e] = sum_k x[j = e], also where e mentions k."""
    return View(Reduce(g, k, x), j, e), Reduce(g, k, View(x, j, e)), OtherAxis(j, k)


@mutant("view_through_reduction", "condition dropped", lambda: (True, close(np.sum(x), 3 * x[0])), lambda: program("gone", y=(view(sum_over(j, x_), j, index(k)) + tensor("u", k), (i, k))))
def view_of_the_reduced_axis(x, j: Axis, k: Axis, e: Position, g: AnyMonoid):
    """(sum_k x)[j = e] = sum_k x[j = e], also for j = k: what was summed is read at one place."""
    return View(Reduce(g, k, x), j, e), Reduce(g, k, View(x, j, e)), IndexFree(e, k)


@mutant("views_compose_same_axis", "operand order", lambda: (True, close(x[back][turn], x[turn[back]])), both(j))
def views_compose_backwards(x, j: Axis, e: Position, f: Position):
    """x[j = e][j = f] = x[j = h] with h = f[j = e]."""
    return View(View(x, j, e), j, f), View(x, j, f.at(j, e))


@mutant("views_compose_same_axis", "term lost", lambda: (True, close(x[back][turn], x[turn])), lambda: program("twice", y=(view(view(x_, j, index(j) * -1 + 7), j, (index(j) + 3) % 8), (i, j))))
def views_forget_the_first(x, j: Axis, e: Position, f: Position):
    """x[j = e][j = f] = x[j = f]."""
    return View(View(x, j, e), j, f), View(x, j, f)


@mutant("views_compose", "free missing", lambda: (True, close(table[[1, 0]][:, [1, 1]][[0, 1], [0, 1]], np.array([table[1, 0], table[0, 1]]))), lambda: program("two", y=(view(view(tensor("w", i, n), i, index(n) * -1 + 3), n, index(k) // 4 + 1), (k,))))
def views_compose_through_use(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[j = h] with h = e[k = f], also for an x that depends on k and keeps it."""
    return View(View(x, j, e), k, f), View(x, j, e.at(k, f)), depends(x, j), IndexDepends(e, k)


@mutant("views_compose", "operand order", lambda: (True, close(x[back][turn], x[turn[back]])), both(k))
def views_compose_inside_out(x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[j = h] with h = f[k = e]."""
    return View(View(x, j, e), k, f), View(x, j, f.at(k, e)), free(x, k)


@mutant("views_undo", "condition dropped", lambda: (True, close(x[back][turn], x)), lambda: program("stored", y=(view(view(x_, j, index(k) * -1 + 7), k, (index(j) + 3) % 8), (i, j))))
def views_undo_in_any_order(t, x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[k = f], whatever was stored where."""
    return [match(t, View(View(x, j, e), k, f)), OtherAxis(j, k)], [equal(t, View(x, k, f))]


@mutant("views_undo", "condition dropped", lambda: (np.array_equal(back[back], [0, 1, 2]), close(x[back][back], x[back])), lambda: program("twice", y=(view(view(x_, j, index(j) * -1 + 7), j, index(j) * -1 + 7), (i, j))))
def views_undo_on_one_axis(t, x, j: Axis, k: Axis, e: Position, f: Position):
    """x[j = e][k = f] = x[k = f], where e[k = f] is j, also for one axis: what was undone is read backwards."""
    return [match(t, View(View(x, j, e), k, f)), same_index(e.at(k, f), j)], [equal(t, View(x, k, f))]
