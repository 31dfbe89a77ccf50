"""Small sizes that a saved module takes: those at which it tests itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..codegen.check import SECONDS, Tested
from ..codegen.sizes import ModuleSpec, guards, lengths
from ..ir.program import Program
from ..ir.terms import Gather, Input, Term
from ..tiles.program import Loop, Statement

if TYPE_CHECKING:
    import torch

Shapes = Mapping[str, tuple[int, ...]]
Given = Mapping[str, tuple[tuple[int, ...], str]]  # shapes and types
MOST = 1 << 16  # sizes that are tried for one length
FEW = 8  # bound of whole numbers that are no positions


def small_shapes(spec: ModuleSpec) -> Shapes:
    """A shape for every input: lengths that may change are small, with more than one tile along them and a part of a tile where kernels
    take such; all others are the planned ones."""
    shapes = {b.name: list(b.shape) for b in spec.inputs}
    groups = [set(one.dimensions) for one in lengths(spec)]
    known = {x for g in groups for x in g}
    groups += [{(b.name, d)} for b in spec.inputs for d in range(len(b.shape)) if (b.name, d) not in known]
    for x, y in spec.equal:
        joined = [g for g in groups if g & {x, y}]
        groups = [*(g for g in groups if g not in joined), set().union(*joined)]
    needs, ranges = guards(spec), dict(spec.ranges)
    roles = [(a.name, r.tile) for k in spec.kernels for a, r in k.kernel.roles.items()]
    tiles = {one.dimensions: max((tile for name, tile in roles if name in one.axes), default=1) for one in lengths(spec)}
    for g in groups:
        planned = max(shapes[name][d] for name, d in g)
        if planned < 2 or any(x in spec.fixed for x in g):
            continue
        own = [n for n in needs if n.dimension in g]
        least = max((ranges[x][0] for x in g if x in ranges), default=2)
        most = min((ranges[x][1] for x in g if x in ranges), default=math.inf)
        wanted = max((t for dims, t in tiles.items() if g & set(dims)), default=1) + 3
        fits = (n for n in range(max(least, 2), MOST) if n <= most and all(x.admits(n) for x in own))
        small = next((n for n in fits if n >= min(wanted, planned)), planned)
        for name, d in g:
            shapes[name][d] = min(small, planned)
    return {name: tuple(s) for name, s in shapes.items()}


def tensors_of_program(program: Program, shapes: Shapes, held: Collection[str]) -> tuple[Tested, ...]:
    """The tensors of a test: whole numbers that are positions stay within what they choose from, and ``held`` tensors (weights) do not
    make values grow."""
    given = {i.name: (shapes[i.name], program.kept(i).name) for i in program.inputs}
    return tensors_of(given, positions(program, shapes), held)


def given_by(values: Mapping[str, torch.Tensor]) -> Given:
    """The shapes and types of tensors without data."""
    return {name: (tuple(map(int, v.shape)), str(v.dtype).removeprefix("torch.")) for name, v in values.items()}


def tensors_of(given: Given, bounds: Mapping[str, int], held: Collection[str]) -> tuple[Tested, ...]:
    """The same of shapes and types."""
    few = min((n for shape, _ in given.values() for n in shape if n > 1), default=2)
    found = []
    for name, (shape, dtype) in given.items():
        summed = math.prod(shape[1:]) if name in held else 1  # elements that a product adds up
        scale = 1.0 / math.sqrt(max(summed, 1))
        found.append(Tested(name, shape, dtype, bounds.get(name, min(FEW, few)), float(f"{scale:.3g}")))
    return tuple(found)


def positions(program: Program, shapes: Shapes) -> dict[str, int]:
    """For inputs that say where something is read, how long that is."""
    length = {a: shapes[i.name][d] for i in program.inputs for d, a in enumerate(i.layout) if a is not None}
    found: dict[str, int] = {}
    for t in program.terms():
        if isinstance(t, Gather):
            for name in _whole_inputs(t.args[1]):
                found[name] = min(length.get(t.axis, t.axis.size), found.get(name, 1 << 30))
    return found


def _whole_inputs(t: Term) -> set[str]:
    todo, seen, found = [t], set[Term](), set[str]()
    while todo:
        x = todo.pop()
        if x in seen:
            continue
        seen.add(x)
        todo += x.args
        if isinstance(x, Input) and x.dtype.kind == "int":
            found.add(x.name)
    return found


def interpreted_seconds(spec: ModuleSpec, shapes: Shapes) -> float:
    """What a call takes in Triton's interpreter, about: a tile operation takes as long whatever its size."""
    size: dict[str, int] = {}
    for one in lengths(spec):
        name, d = one.dimensions[0]
        size |= dict.fromkeys(one.axes, shapes[name][d])
    total = 0.0
    for k in spec.kernels:
        programs = math.prod(-(-size.get(b.axis.name, b.axis.size) // b.tile) for b in k.grid)
        total += programs * _steps(k.body, size)
    return SECONDS * total


def _steps(body: Sequence[Statement], size: Mapping[str, int]) -> float:
    total = 0.0
    for s in body:
        if isinstance(s, Loop):
            n = size.get(s.binding.axis.name, s.binding.axis.size)
            total += -(-n // s.binding.tile) * _steps(s.body, size)
        else:
            total += 1
    return total
