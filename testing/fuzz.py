"""Fuzzing of lowering and printing: random program x random roles x random tiles, against the float64 reference.

Each seed is lowered twice, with two random orders of the tile dims.  ``simulated`` runs the tile program in float64 numpy, where it
must agree to rounding.  ``printed`` gives the emitted module to a runner (Triton's interpreter) in float32.  From the command line:

    python -m eqfuse.testing.fuzz 0 1000
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..codegen.module import ModuleSpec, emit_module
from ..ir.reference import evaluate
from ..tiles.direct import kernel_from_program
from ..tiles.kernel import Kernel
from ..tiles.lower import lower
from ..tiles.program import Dot, Loop, TileProgram
from ..tiles.simulate import simulate
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


def cases(seeds: Sequence[int]) -> Iterator[tuple[int, Draw, Kernel, Mapping[str, np.ndarray]]]:
    """Seeds whose reference is finite and not huge, with a kernel in a random order of dims and the reference."""
    for seed in seeds:
        d = draw(seed)
        expected = evaluate(d.program, d.inputs)
        if all(np.isfinite(v).all() and np.abs(v).max(initial=0.0) < TAME for v in expected.values()):
            kernel = kernel_from_program(d.program, d.roles)
            order = list(kernel.order)
            random.Random(seed).shuffle(order)
            yield seed, d, replace(kernel, order=tuple(order)), expected


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest element; infinite if anything is NaN."""
    difference = np.abs(np.asarray(found, np.float64) - expected).max(initial=0.0)
    error = float(difference / (np.abs(expected).max(initial=0.0) + 1e-2))
    return error if error == error else float("inf")


def simulated(seeds: Sequence[int], *, min_dot_k: int = 2, tolerance: float = 1e-9) -> tuple[Counter[str], list[Mismatch]]:
    """Run tile programs in float64 numpy.  Returns what was covered and what was wrong."""
    covered: Counter[str] = Counter()
    wrong = []
    for seed, d, kernel, expected in cases(seeds):
        tiles = lower(kernel, min_dot_k=min_dot_k)
        found = simulate(tiles, d.inputs)
        covered += _coverage(tiles)
        for name, value in expected.items():
            error = relative_error(found[name], value)
            if error > tolerance:
                wrong.append(Mismatch(seed, name, error, d, tiles))
    return covered, wrong


def printed(
    seeds: Sequence[int], run: Callable[[str, list[np.ndarray]], Sequence[Any]], *, tolerance: float = 1e-4
) -> tuple[Counter[str], list[Mismatch]]:
    """Run emitted modules.  ``run(source, inputs)`` executes a module's ``run`` on float32 copies of the arrays."""
    covered: Counter[str] = Counter()
    wrong = []
    for seed, d, kernel, expected in cases(seeds):
        tiles = lower(kernel)
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


def _coverage(tiles: TileProgram) -> Counter[str]:
    statements = list(tiles.statements())
    return Counter(
        programs=1,
        loops=any(isinstance(s, Loop) for s in statements),
        nested=any(isinstance(s, Loop) and not s.innermost for s in statements),
        passes=any(isinstance(s, Loop) and s.level > 0 for s in statements),
        dots=any(isinstance(s, Dot) for s in statements),
        split=tiles.split,
        roots=len(tiles.kernel.roots) > 1,
    )


def main(arguments: list[str]) -> int:
    """Fuzz seeds FIRST to LAST through the simulator and print what is wrong."""
    first, last = map(int, arguments)
    covered, wrong = simulated(range(first, last))
    print(dict(covered))
    for m in wrong:
        print(m)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
