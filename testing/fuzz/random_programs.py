"""Random programs, roles and tiles: what fuzzing draws from.

Programs have the shapes that break code generators: a reduction whose body needs another reduction over the same axis, subterms shared
between roots, the same axis reduced twice, reductions of values free of the axis, flipped, shifted, split and merged loads, masks from
positions, several outputs that need different axes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...ir import build as b
from ...ir.dtypes import DType, float32
from ...ir.index import Axis, index
from ...ir.program import Output, Program
from ...ir.terms import Input, Term, View
from ...tiles.kernel import Role


@dataclass(frozen=True)
class Draw:
    """A random program with roles for its axes and input arrays."""

    program: Program
    roles: dict[Axis, Role]
    inputs: dict[str, np.ndarray]


LAYOUTS = (("x", "ij"), ("y", "jk"), ("w", "ik"), ("z", "kj"), ("b", "j"), ("s", "i"), ("u", "k"))


def random_program(rng: random.Random, *, sizes: dict[str, tuple[int, ...]] | None = None, dtype: DType = float32) -> Program:
    """A program with one or two outputs over axes i, j, k."""
    sizes = sizes or {"i": (1, 3, 5), "j": (2, 5, 7), "k": (3, 4, 6)}
    axis = {n: Axis(n, rng.choice(s)) for n, s in sizes.items()}
    inputs = [Input(n, tuple(axis[a] for a in layout), dtype) for n, layout in LAYOUTS]
    values: list[Term] = list(inputs)
    if rng.random() < 0.5:
        values.append(_viewed(rng, axis, dtype))
    for _ in range(rng.randint(3, 8)):
        new = _step(rng, axis, values)
        if new is not None:
            values.append(new)
    computed = [v for v in values if not isinstance(v, Input)] or [values[0] + 1.0]
    roots = [computed[-1]]
    if rng.random() < 0.4:
        roots.append(rng.choice(computed))
    outputs = []
    for n, r in enumerate(dict.fromkeys(roots)):
        layout = sorted(r.axes)
        rng.shuffle(layout)
        outputs.append(Output(f"o{n}", r, tuple(layout), float32))
    used = [t for t in Program("p", tuple(outputs), ()).terms() if isinstance(t, Input)]
    return Program("fuzz", tuple(outputs), tuple(used))


def _viewed(rng: random.Random, axis: dict[str, Axis], dtype: DType) -> Term:
    """A load through an index expression."""
    i, j, k = axis["i"], axis["j"], axis["k"]
    kind = rng.randrange(5)
    if kind == 0:  # flip
        return View(Input("x", (i, j), dtype), j, index(j) * -1 + (j.size - 1))
    if kind == 1:  # shift into a longer tensor
        long = Axis("long", k.size + 3)
        return View(Input("shifted", (long, i), dtype), long, index(k) + 2)
    if kind == 2:  # merged axes
        flat = Axis("flat", j.size * k.size)
        return View(Input("merged", (flat,), dtype), flat, index(j) * k.size + index(k))
    if kind == 3:  # groups
        group = Axis("group", -(-j.size // 2))
        return View(Input("grouped", (group, k), dtype), group, index(j) // 2)
    diagonal = Axis("line", i.size + j.size)  # a band
    return View(Input("band", (diagonal,), dtype), diagonal, index(i) + index(j))


def _step(rng: random.Random, axis: dict[str, Axis], values: list[Term]) -> Term | None:
    draw = rng.random()
    if draw < 0.3:
        return _dependent(rng, values)
    if draw < 0.45:  # a contraction
        k = rng.choice(sorted(axis.values()))
        users = [v for v in values if k in v.axes]
        return b.sum_over(k, rng.choice(users) * rng.choice(users))
    draw = rng.random()
    if draw < 0.35:
        x, y = rng.choice(values[-6:]), rng.choice(values)
        return rng.choice((lambda: x + y, lambda: x * y, lambda: x * y, lambda: b.maximum(x, y)))()
    if draw < 0.6:
        return _pointwise(rng, rng.choice(values[-5:]))
    if draw < 0.7:
        i, j = rng.sample(sorted(axis.values()), 2)
        return b.select(b.le(b.iota(i), b.iota(j)), rng.choice(values[-5:]), rng.choice((0.0, -1.5)))
    if draw < 0.75:  # a reduction over an axis that the value may not have
        return b.sum_over(rng.choice(sorted(axis.values())), rng.choice(values[-6:]))
    users = [v for v in values[-6:] if v.axes]
    if not users:
        return None
    x = rng.choice(users)
    reduce = rng.choice((b.sum_over, b.sum_over, b.maximum_over, b.mean_over))
    return reduce(rng.choice(sorted(x.axes)), x)


def _pointwise(rng: random.Random, x: Term) -> Term:
    choices: tuple[Callable[[], Term], ...] = (
        lambda: b.exp(b.tanh(x)),
        lambda: -x,
        lambda: b.square(x),
        lambda: b.tanh(x),
        lambda: b.recip(b.square(x) + 1.5),
        lambda: b.rsqrt(b.square(x) + 1.0),
        lambda: b.abs_(x),
    )
    return rng.choice(choices)()


def _dependent(rng: random.Random, values: list[Term]) -> Term | None:
    """A value that depends on a reduction of itself, perhaps weighted and reduced over the same axis."""
    users = [v for v in values[-6:] if v.axes] or [v for v in values if v.axes]
    x = rng.choice(users)
    axis = rng.choice(sorted(x.axes))
    kind = rng.randrange(6)
    if kind <= 2:
        t = b.exp(x - b.maximum_over(axis, x))
    elif kind == 3:
        t = b.square(x - b.mean_over(axis, x))
    elif kind == 4:
        t = x * b.rsqrt(b.sum_over(axis, b.square(x)) + 0.1)
    else:
        e = b.exp(b.tanh(x))
        t = e * b.recip(b.sum_over(axis, e))
    if rng.random() < 0.7:
        t = t * rng.choice(values)
    return b.sum_over(axis, t) if rng.random() < 0.8 else t


def random_roles(
    rng: random.Random, program: Program, *, tiles: tuple[int, ...] = (1, 2, 4), stream_tiles: tuple[int, ...] = (2, 4)
) -> dict[Axis, Role]:
    """Legal roles: an axis that every output has and nothing reduces may be a grid axis, any other is streamed or resident."""
    from ...ir.terms import Gather, Reduce, Scan

    reduced = {t.axis for t in program.terms() if isinstance(t, Reduce | Scan | Gather) and t.axis in t.args[0].axes}
    roles: dict[Axis, Role] = {}
    for a in sorted(free_axes(program)):
        everywhere = all(a in o.term.axes for o in program.outputs)
        kind = rng.choice(("stream", "stream", "resident"))
        if a not in reduced and (everywhere or (rng.random() < 0.3 and a.size > 0)) and rng.random() < 0.8:  # no programs store nothing
            roles[a] = Role("grid", rng.choice(tiles))
        elif kind == "stream":
            roles[a] = Role("stream", rng.choice(stream_tiles))
        else:
            roles[a] = Role("resident", 1 << (a.size - 1).bit_length())  # 2 lanes for no elements, so that they can be masked
    order = list(roles)
    rng.shuffle(order)
    return {a: roles[a] for a in order}


def free_axes(program: Program) -> set[Axis]:
    """The axes that nodes will mention: those of outputs, reductions, positions and view expressions, not those viewed away.

    A gather from what is computed is a sum over the positions."""
    from ...ir.terms import Gather, Reduce

    found = {a for o in program.outputs for a in o.term.axes}
    for t in program.terms():
        if isinstance(t, Reduce) or (isinstance(t, Gather) and not isinstance(t.args[0], Input)):
            found.add(t.axis)
    return found


def random_inputs(rng: random.Random, program: Program, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Normal data for every input, in the input's own layout."""
    numbers = np.random.default_rng(rng.randrange(2**31))
    return {
        i.name: numbers.standard_normal([1 if a is None else a.size for a in i.layout]) * scale * rng.choice((0.5, 1.0))
        for i in program.inputs
    }


def draw(seed: int, **options: object) -> Draw:
    """A program, roles and inputs from a seed."""
    rng = random.Random(seed)
    program = random_program(rng, **options)  # type: ignore[arg-type]
    return Draw(program, random_roles(rng, program), random_inputs(rng, program))
