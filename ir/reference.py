"""What a program means: its value in float64 and int64 numpy.  The oracle for everything else.

Arrays carry one dimension per axis of the term, in sorted axis order; broadcasting is by name.  A value of a floating type is an array of
float64; one of an integer type or a truth value is an array of int64, and its arithmetic is exact modulo 2**64: what a program computes
in a narrower type wraps where a ``Cast`` says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from . import dtypes, ops
from .index import Axis
from .monoids import MONOIDS
from .program import Program
from .terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View, postorder


class Value:
    """An array whose dimensions are named axes, in sorted order."""

    __slots__ = ("array", "axes")

    def __init__(self, axes: tuple[Axis, ...], array: np.ndarray) -> None:
        self.axes, self.array = axes, array

    def aligned(self, axes: tuple[Axis, ...]) -> np.ndarray:
        """The array with one dimension per given axis (size 1 where this value does not depend on it)."""
        have = [self.axes.index(a) for a in axes if a in self.axes]
        array = np.transpose(self.array, have)
        shape = [array.shape[[b for b in axes if b in self.axes].index(a)] if a in self.axes else 1 for a in axes]
        return array.reshape(shape)


def round_to(array: np.ndarray, name: str) -> np.ndarray:
    """Rounded to a storage type by :func:`~.dtypes.cast`, in the array's own type; truth values and integers of floats in float64."""
    found = dtypes.cast(array, dtypes.dtype(name))
    return found.astype(np.asarray(array).dtype if np.asarray(array).dtype.kind == "f" else np.float64)


def evaluate_terms(
    roots: tuple[Term, ...],
    inputs: Mapping[str, np.ndarray],
    dtype: type = np.float64,
    *,
    casts: bool = False,
    rounding: Callable[[Term, np.ndarray, list[np.ndarray]], np.ndarray] | None = None,
) -> list[Value]:
    """The values of some terms.  ``inputs`` maps names to arrays in the inputs' own layout.

    Extents follow the arrays, not the axis hints, so one term can be evaluated at any size.  ``casts=True`` applies the rounding
    of Cast terms; by default they are the identity, which is the real-number meaning.  ``rounding`` gets every term with its value and
    those of its arguments and returns what to go on with: how the effect of rounding is studied.
    """
    size: dict[Axis, int] = {}
    for t in postorder(*roots):
        if isinstance(t, Input):
            for a, n in zip(t.layout, np.shape(inputs[t.name]), strict=True):
                if a is not None and size.setdefault(a, n) != n:
                    raise ValueError(f"axis {a.name} is {size[a]} and {n}")
    memo: dict[Term, Value] = {}
    inner = _summed_alone(roots) if rounding is None and dtype is np.float64 else frozenset()
    for t in postorder(*roots):
        if t in inner:
            continue
        found = None
        if isinstance(t, Reduce) and t.args[0] in inner:
            product = t.args[0]
            found = _sum_of_product(t.axis, *(memo[a] for a in product.args))
            if found is None:
                memo[product] = _evaluate(product, memo, inputs, size, dtype, casts)
        memo[t] = _evaluate(t, memo, inputs, size, dtype, casts) if found is None else found
        if rounding is not None:
            memo[t] = Value(memo[t].axes, rounding(t, memo[t].array, [memo[a].array for a in t.args]))
    return [memo[r] for r in roots]


def _evaluate(
    t: Term, memo: Mapping[Term, Value], inputs: Mapping[str, np.ndarray], size: Mapping[Axis, int], dtype: type, casts: bool
) -> Value:
    def extent(a: Axis) -> int:
        return size.get(a, a.size)

    if isinstance(t, Input):
        array = np.asarray(inputs[t.name])
        array = _typed(array, t.dtype, dtype).reshape([n for a, n in zip(t.layout, array.shape, strict=True) if a is not None])
        axes = tuple(a for a in t.layout if a is not None)
        order = tuple(sorted(axes))
        return Value(order, np.transpose(array, [axes.index(a) for a in order]))
    if isinstance(t, Const):
        return Value((), np.asarray(t.value, dtype))
    if isinstance(t, Extent):
        return Value((), np.asarray(extent(t.axis), dtype))
    if isinstance(t, Index):
        return Value((t.axis,), np.arange(extent(t.axis), dtype=np.int64))
    if isinstance(t, Map):
        args = [memo[a] for a in t.args]
        axes = tuple(sorted(set().union(*(a.axes for a in args))))
        array = ops.apply(t.op, *(a.aligned(axes) for a in args))
        return Value(axes, array.astype(dtype, copy=False) if array.dtype.kind == "f" else array)
    x = memo[t.args[0]]
    if isinstance(t, Cast):
        if casts or not t.to.is_float:
            return Value(x.axes, _typed(dtypes.cast(x.array, t.to), t.to, dtype))
        return Value(x.axes, _typed(x.array, t.to, dtype))
    if isinstance(t, View):
        if t.axis not in x.axes:
            return x
        axes = tuple(sorted((set(x.axes) - {t.axis}) | t.index.axes()))
        grid = dict(zip(axes, np.ogrid[tuple(slice(extent(a)) for a in axes)], strict=True))
        where = np.asarray(t.index.evaluate(grid))
        picks = tuple(where if a == t.axis else grid[a] for a in x.axes)
        shape = [extent(a) for a in axes]
        return Value(axes, np.broadcast_to(x.array[picks], shape))
    if isinstance(t, Gather):
        return _picked(x, t.axis, memo[t.args[1]], extent(t.axis))
    assert isinstance(t, Reduce | Scan)
    m = MONOIDS[t.monoid]
    if isinstance(t, Scan) or m.several:
        axes = tuple(sorted({t.axis}.union(*(memo[a].axes for a in t.args))))
        shape = [extent(a) for a in axes]
        assert m.prefixes is not None
        along, xs = axes.index(t.axis), [np.broadcast_to(memo[a].aligned(axes), shape) for a in t.args]
        with np.errstate(all="ignore"):
            if isinstance(t, Scan):
                return Value(axes, np.asarray(m.prefixes.numpy(*xs, axis=along)))
            return Value(axes[:along] + axes[along + 1 :], np.asarray(m.reduce(*xs, axis=along)))
    if t.axis in x.axes:
        k = x.axes.index(t.axis)
        with np.errstate(all="ignore"):
            found = np.asarray(m.reduce(x.array, axis=k))
            return Value(x.axes[:k] + x.axes[k + 1 :], found.astype(dtype, copy=False) if found.dtype.kind == "f" else found)
    n = extent(t.axis)
    if n and not m.copies:
        return Value(x.axes, np.asarray(m.reduce(np.broadcast_to(x.array, (n, *x.array.shape)), axis=0)))
    return Value(x.axes, m.empty(x.array) if n == 0 else x.array * n if m.copies == "times" else x.array)


def _picked(x: Value, axis: Axis, at: Value, n: int) -> Value:
    """The elements of x at positions that are data; 0 where they are none of the axis."""
    axes = tuple(sorted((set(x.axes) - {axis}) | set(at.axes)))
    where = at.aligned(axes)
    inside = (where >= 0) & (where < n)
    if n == 0:
        return Value(axes, np.zeros(np.broadcast_shapes(where.shape, [1] * len(axes)), x.array.dtype))
    sizes = {a: k for v in (x, at) for a, k in zip(v.axes, v.array.shape, strict=True)}
    grid = dict(zip(axes, np.ogrid[tuple(slice(sizes[a]) for a in axes)], strict=True))
    found = x.array[tuple(np.where(inside, where, 0).astype(np.int64) if a == axis else grid[a] for a in x.axes)]
    found = found if axis in x.axes else x.aligned(axes)
    return Value(axes, np.broadcast_to(np.where(inside, found, np.zeros((), x.array.dtype)), [sizes[a] for a in axes]))


def _summed_alone(roots: tuple[Term, ...]) -> frozenset[Term]:
    """Products of two values that nothing but one sum uses."""
    uses = Counter(a for t in postorder(*roots) for a in t.args)
    uses.update(roots)
    sums = (t for t in postorder(*roots) if isinstance(t, Reduce) and t.monoid == "sum")
    return frozenset(x for t in sums if isinstance(x := t.args[0], Map) and x.op == "mul" and uses[x] == 1 and t.axis in x.axes)


def _sum_of_product(axis: Axis, a: Value, b: Value) -> Value | None:
    """A sum of a product of floats as a product of matrices, so that the whole product need not be in memory; None where it is not larger
    than its factors."""
    both = tuple(x for x in a.axes if x in b.axes and x != axis)
    rows, columns = (tuple(x for x in of.axes if x not in other.axes) for of, other in ((a, b), (b, a)))
    if axis not in a.axes or axis not in b.axes or not rows or not columns or not a.array.dtype == b.array.dtype == np.float64:
        return None

    def matrix(of: Value, first: tuple[Axis, ...], second: tuple[Axis, ...]) -> np.ndarray:
        array = of.aligned((*both, *first, *second))
        shape = array.shape[: len(both)], array.shape[len(both) : len(both) + len(first)], array.shape[len(both) + len(first) :]
        return array.reshape(*shape[0], math.prod(shape[1]), math.prod(shape[2]))

    with np.errstate(all="ignore"):
        found = matrix(a, rows, (axis,)) @ matrix(b, (axis,), columns)
    sizes = {x: n for of in (a, b) for x, n in zip(of.axes, of.array.shape, strict=True)}
    order = (*both, *rows, *columns)
    shaped = found.reshape([sizes[x] for x in order])
    return Value(tuple(sorted(order)), np.transpose(shaped, [order.index(x) for x in sorted(order)]))


def _typed(array: np.ndarray, of: dtypes.DType, floats: type) -> np.ndarray:
    """The array in the numpy type that values of an element type have here; ``floats`` is that of floats."""
    return array.astype(floats if of.is_float else of.meaning, copy=False)


def evaluate(program: Program, inputs: Mapping[str, np.ndarray], *, casts: bool = False) -> dict[str, np.ndarray]:
    """The outputs of a program, each in its own layout, in float64; integers and truth values in int64."""
    values = evaluate_terms(tuple(o.term for o in program.outputs), inputs, casts=casts)
    size = {
        a: n for i in program.inputs if i.name in inputs for a, n in zip(i.layout, np.shape(inputs[i.name]), strict=True) if a is not None
    }
    out = {}
    for o, v in zip(program.outputs, values, strict=True):
        axes = tuple(a for a in o.layout if a is not None)
        full = np.broadcast_to(v.aligned(axes), [size.get(a, a.size) for a in axes])
        out[o.name] = full.reshape([1 if a is None else size.get(a, a.size) for a in o.layout]).copy()
    return out
