"""Associative scans by a function of the user: what the function computes becomes the formulas of a state (:mod:`~eqfuse.ir.states`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch

from ..errors import EqFuseError, UnsupportedOpError
from ..ir.index import index
from ..ir.monoids import MONOIDS
from ..ir.states import MOST_PARTS, Formula, State, named, part_name, part_of
from ..ir.terms import Cast, Input, Map, Scan, Term, View, number_of
from .aten import ZERO, At, Call, dims_of, free_axes, register, replaced, shape_of
from .capture import capture
from .combines import COMBINES
from .spec import TensorSpec

DRAWS = 64
NEUTRAL = (0.0, 1.0, -math.inf, math.inf)  # what may change nothing behind a state, part by part


def _align(alignment: Any, node: Any, xs: Sequence[Any], combine: str, dim: int) -> Any:
    rows = [list(dims_of(x)) for x in xs]
    for row in rows[1:]:
        for a, b in zip(rows[0], row, strict=True):
            if a is not None and b is not None:
                alignment.unify(a, b)
    dims = rows[0]
    if (item := dims[dim]) is not None and alignment.joined(item):
        dims[dim] = alignment.fresh(shape_of(xs[0])[dim])
    return (tuple(dims),) * len(xs)


CAPTURES = "its combine function reads a tensor that is none of its arguments"


@register("eqfuse_scan.associative.default", align=_align)
def _associative(call: Call, xs: Sequence[Any], combine: str, dim: int) -> Term:
    part, shape, at = call.item or 0, shape_of(xs[0]), call.at
    if shape[dim] == 1:
        return call.read(xs[part], at)
    state = _state(combine, tuple(x.meta["val"].dtype for x in xs), type(call.reader), call)
    name = _plain(state) or part_name(state, part)
    axis = at[dim].as_axis()
    if axis is not None and axis.size == shape[dim] and axis not in free_axes(at[:dim] + at[dim + 1 :]):
        return Scan(name, axis, *_read(call, xs, at))
    own = call.reader.bound(dims_of(xs[0])[dim], free_axes(at))
    assert own is not None
    return View(Scan(name, own, *_read(call, xs, replaced(at, dim, index(own)))), own, at[dim])


def _read(call: Call, xs: Sequence[Any], at: At) -> list[Term]:
    return [call.read(x, at) for x in xs]


def _plain(state: State) -> str | None:
    """The monoid of values that a state of one part is, if it is one."""
    if len(state.formulas) > 1:
        return None
    rows = (m for m in MONOIDS.values() if m.prefixes and not m.of_integers)
    return next((m.name for m in rows if state.formulas == ((m.combine, ("l", 0), ("r", 0)),)), None)


@cache
def _formulas(combine: str, types: tuple[torch.dtype, ...], reader: Any) -> tuple[Formula, ...] | EqFuseError:
    """What a function of two tuples computes; or why that is not known."""
    count = len(types)
    f = COMBINES[combine]
    try:
        captured = capture(lambda *parts: f(*parts), tuple(TensorSpec((1,), t) for t in (*types, *types)), {})
        order = [s.key for s in captured.sources.values()]
        if not all(s.kind == "argument" for s in captured.sources.values()):
            raise UnsupportedOpError(CAPTURES)
        names = {n: f"{'lr'[k // count]}{k % count}" for n, k in zip(captured.sources, map(int, order), strict=True)}
        scalars = reader(captured.graph, names, {}, {})
        return tuple(_formula(scalars.result(n, (ZERO,) * len(shape_of(n)))) for n in captured.outputs)
    except EqFuseError as error:
        return UnsupportedOpError(CAPTURES) if _captures(f) else error


def _captures(f: Any) -> bool:
    """Whether a function, or one that it closes over, closes over a tensor: of a function that is traced, which has no data then."""
    seen, todo = set[int](), [f]
    while todo:
        x = todo.pop()
        if isinstance(x, torch.Tensor):
            return True
        if id(x) not in seen:
            seen.add(id(x))
            todo += [cell.cell_contents for cell in getattr(x, "__closure__", None) or ()]
            todo += [x.func, *x.args, *x.keywords.values()] if isinstance(x, partial) else []
    return False


def _formula(t: Term) -> Formula:
    """A term over the parts of two states; rounding in floating types between operations is left out, as everywhere."""
    number = number_of(t)
    if number is not None:
        return number
    if isinstance(t, Input):
        return t.name[0], int(t.name[1:])
    if isinstance(t, Cast) and t.to.is_float and t.args[0].dtype is not None and t.args[0].dtype.is_float:
        return _formula(t.args[0])
    if isinstance(t, Map):
        return (t.op, *map(_formula, t.args))
    raise UnsupportedOpError(f"its combine function is not made of scalar operations alone: {t!r}")


def _state(combine: str, types: tuple[torch.dtype, ...], reader: Any, call: Call) -> State:
    """The state of a function.  Raises UnsupportedOpError where it is none of a few scalars, or not associative."""
    if len(types) > MOST_PARTS:
        raise call.unsupported(f"of {len(types)} tensors, where states have at most {MOST_PARTS} parts")
    found = _formulas(combine, types, reader)
    if isinstance(found, EqFuseError):
        raise call.unsupported(f"here: {found.message}")
    made = _checked(found, tuple(t.is_floating_point for t in types))
    if isinstance(made, str):
        raise call.unsupported(f"by a function that is not associative: {made}")
    return made


@cache
def _checked(formulas: tuple[Formula, ...], floats: tuple[bool, ...]) -> State | str:
    """The state of some formulas, associative on drawn values, with what is neutral there; or values for which it is not associative."""
    rng = np.random.default_rng(0)
    state = named(State("", formulas, (math.nan,) * len(formulas)))
    a, b, c = (
        [x if f else np.rint(x * 4).astype(np.int64) for x, f in zip(rng.normal(size=(len(formulas), DRAWS)) * scale, floats, strict=True)]
        for scale in (1.0, 1.5, 0.5)
    )
    with np.errstate(all="ignore"):
        one, other = state.on_arrays(state.on_arrays(a, b), c), state.on_arrays(a, state.on_arrays(b, c))
        for part, (x, y) in enumerate(zip(one, other, strict=True)):
            wrong = ~np.isclose(x, y, rtol=1e-7, atol=1e-9, equal_nan=True)
            if wrong.any():
                k = int(np.flatnonzero(wrong)[0])
                values = ", ".join(f"{n} = ({', '.join(f'{v[k]:.6g}' for v in of)})" for n, of in (("a", a), ("b", b), ("c", c)))
                return f"part {part} of (a b) c is {x[k]:.9g} and of a (b c) {y[k]:.9g} at {values}"
        if state.name:
            return state
        edge = {True: np.array([0.0, np.inf, -np.inf, 1.0]), False: np.array([0, 2**31, -7, 1])}
        edges = [np.concatenate([x, edge[f]]) for x, f in zip(a, floats, strict=True)]
        neutral = next((e for e in _candidates(floats) if _changes_nothing(state, edges, e)), (math.nan,) * len(formulas))
    text = State("", formulas, neutral).text()
    known = part_of(f"{text}[0]")
    assert known is not None
    return known[0]


def _candidates(floats: tuple[bool, ...]) -> Iterator[tuple[float, ...]]:
    return itertools.product(*(NEUTRAL if f else NEUTRAL[:2] for f in floats))


def _changes_nothing(state: State, xs: list[np.ndarray], neutral: tuple[float, ...]) -> bool:
    found = state.on_arrays(xs, [np.full_like(x, e) for x, e in zip(xs, neutral, strict=True)])
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in zip(found, xs, strict=True))
