"""Fuzzing of lowering and printing alone: random program x random roles x random tiles, against the float64 reference.

A program is lowered as it stands, or (``saturated``) from nodes that extraction chooses in its saturated e-graph, which is where
rolling reductions come from, once for every feasible number of passes.  The order of tile dims is random, too, and how many programs
are launched.  ``simulated`` runs the tile program in float64 numpy, where it must agree to rounding.  ``printed`` gives the emitted
module to a runner (Triton's interpreter) in float32; ``compiled`` runs the same kernels in C.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...codegen.c.printer import print_function
from ...codegen.module import emit_module
from ...codegen.sizes import ModuleSpec
from ...egraph.saturate import saturate
from ...errors import PlanError
from ...extract.choose import Chooser
from ...ir.reference import evaluate
from ...tiles.direct import kernel_from_program
from ...tiles.finish import finish
from ...tiles.kernel import Kernel
from ...tiles.lower import lower
from ...tiles.program import Dot, Loop, TileProgram
from ...tiles.simulate import simulate
from ..native import Native
from .random_programs import Draw, draw

TAME = 1e4  # larger reference values say nothing about float32


@dataclass(frozen=True)
class Mismatch:
    """A seed whose kernel computes something else than its program."""

    seed: int
    output: str
    error: float  # relative to the largest element of the output
    draw: Draw
    tiles: TileProgram

    def __str__(self) -> str:
        roles = ", ".join(f"{a.name}={a.size}:{r}" for a, r in self.draw.roles.items())
        return f"seed {self.seed}, {self.output}: error {self.error:.1e} with {roles}\n{self.draw.program}\n{self.tiles}"


def cases(seeds: Sequence[int], saturated: bool = False) -> Iterator[tuple[int, Draw, Kernel, Mapping[str, np.ndarray]]]:
    """Kernels of the seeds whose reference is finite and not huge, each with its draw and the reference."""
    for seed in seeds:
        d = draw(seed)
        expected = evaluate(d.program, d.inputs)
        if not all(np.isfinite(v).all() and np.abs(v).max(initial=0.0) < TAME for v in expected.values()):
            continue
        plain = kernel_from_program(d.program, d.roles)
        order = list(plain.order)
        rng = random.Random(seed)
        rng.shuffle(order)
        plain = replace(plain, order=tuple(order), persistent=rng.choice((0, 0, 1, 3)) if plain.grid else 0)
        plain = replace(plain, grouped=rng.choice((0, 2, 3)) if len(plain.grid) > 1 else 0)
        for kernel in _chosen(d, plain) if saturated else (plain,):
            yield seed, d, kernel, expected


def _chosen(d: Draw, plain: Kernel) -> Iterator[Kernel]:
    """The kernel with the nodes that extraction chooses, for every feasible budget of passes."""
    graph = saturate(d.program)
    classes = tuple(graph.roots[o.name] for o in d.program.outputs)
    for _, nodes, positions, _ in Chooser(graph).cheapest(classes, {}, d.roles):
        roots = tuple(replace(r, node=n) for r, n in zip(plain.roots, positions, strict=True))
        yield replace(plain, nodes=nodes, roots=roots)


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest element; infinite if anything is NaN."""
    expected = np.asarray(expected, np.float64)
    difference = np.abs(np.asarray(found, np.float64) - expected).max(initial=0.0)
    error = float(difference / (np.abs(expected).max(initial=0.0) + 1e-2))
    return error if error == error else float("inf")


def simulated(
    seeds: Sequence[int], *, saturated: bool = False, min_dot_k: int = 2, tolerance: float = 1e-8
) -> tuple[Counter[str], list[Mismatch]]:
    """Run tile programs in float64 numpy.  Returns what was covered and what was wrong."""
    covered: Counter[str] = Counter()
    wrong = []
    for seed, d, kernel, expected in cases(seeds, saturated):
        tiles = finish(lower(kernel, min_dot_k=min_dot_k))
        covered += _coverage(tiles)
        found = simulate(tiles, d.inputs)
        for name, value in expected.items():
            error = relative_error(found[name], value)
            if error > tolerance:
                wrong.append(Mismatch(seed, name, error, d, tiles))
    return covered, wrong


def printed(
    seeds: Sequence[int],
    run: Callable[[str, list[np.ndarray]], Sequence[Any]],
    *,
    saturated: bool = False,
    tolerance: float = 1e-3,
) -> tuple[Counter[str], list[Mismatch]]:
    """Run emitted modules.  ``run(source, inputs)`` executes a module's ``run`` on float32 copies of the arrays."""
    covered: Counter[str] = Counter()
    wrong = []
    for seed, d, kernel, expected in cases(seeds, saturated):
        tiles = finish(lower(kernel))
        buffers = kernel.buffers
        spec = ModuleSpec(
            "fuzz", tuple(buffers[i.name] for i in d.program.inputs), tuple(buffers[o.name] for o in d.program.outputs), (), (tiles,)
        )
        found = run(emit_module(spec), [d.inputs[i.name] for i in d.program.inputs])
        covered += _coverage(tiles)
        for (name, value), out in zip(expected.items(), found, strict=True):
            error = relative_error(np.asarray(out), value)
            if error > tolerance:
                wrong.append(Mismatch(seed, name, error, d, tiles))
    return covered, wrong


def compiled(seeds: Sequence[int], *, saturated: bool = False, tolerance: float = 1e-4) -> tuple[Counter[str], list[Mismatch]]:
    """Run the programs in C, all compiled as one file."""
    covered: Counter[str] = Counter()
    drawn = []
    for seed, d, kernel, expected in cases(seeds, saturated):
        tiles = finish(lower(kernel, min_dot_k=2))
        try:
            print_function(tiles)
        except PlanError as refused:
            covered[refused.message] += 1
        else:
            drawn.append((seed, d, expected, tiles))
            covered += _coverage(tiles)
    native = Native([tiles for *_, tiles in drawn])
    wrong = []
    for at, (seed, d, expected, tiles) in enumerate(drawn):
        found = native.run(at, d.inputs)
        for name, value in expected.items():
            error = relative_error(found[name], value)
            if error > tolerance:
                wrong.append(Mismatch(seed, name, error, d, tiles))
    return covered, wrong


def _coverage(tiles: TileProgram) -> Counter[str]:
    statements = list(tiles.statements())
    return Counter(
        programs=1,
        loops=any(isinstance(s, Loop) for s in statements),
        nested=any(isinstance(s, Loop) and not s.innermost for s in statements),
        passes=any(isinstance(s, Loop) and s.level > 0 for s in statements),
        dots=any(isinstance(s, Dot) for s in statements),
        continued=any(isinstance(s, Loop) and any(a.start is not None for a in s.accumulators) for s in statements),
        split=tiles.split,
        roots=len(tiles.kernel.roots) > 1,
        rolls=any(n.op == "roll" for n in tiles.kernel.nodes),
        prefixes=any(n.op == "pre" for n in tiles.kernel.nodes),
        persistent=tiles.kernel.persistent > 0,
        grouped=tiles.kernel.grouped > 0,
    )
