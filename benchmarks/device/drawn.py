"""Random programs of the fuzzer for a device: each with its data, what float64 makes of them, and how far off a kernel may be.

Two ways to compute each: as planned for the target with all rules, and its own terms as one kernel under random roles, tiles and warps,
which has loops, tails and masks at sizes at which a plan keeps whole rows on chip.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from eqfuse.codegen.module import emit_module
from eqfuse.codegen.sizes import ModuleSpec
from eqfuse.egraph.saturate import saturate
from eqfuse.errors import PlanError
from eqfuse.extract.covers import Extractor
from eqfuse.extract.targets import load_target
from eqfuse.ir.program import Program
from eqfuse.ir.reference import evaluate
from eqfuse.rewrites import registry
from eqfuse.runtime.generated import module_spec
from eqfuse.testing.fuzz.grammar import draw_program
from eqfuse.testing.fuzz.native import NODE_BUDGET, asked
from eqfuse.testing.fuzz.random_programs import random_roles
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.finish import finish
from eqfuse.tiles.lower import lower

FIRST = 500_000  # seed: no log of the fuzzer has these


@dataclass(frozen=True)
class Drawn:
    """A program with one way to compute it.  ``case``: what the manifest says of it, but for its file."""

    name: str
    program: Program
    source: str
    inputs: Mapping[str, np.ndarray]
    case: Mapping[str, Any]

    def keep(self, path: Path) -> None:
        """Data and exact results as arrays, in the order of arguments and of results."""
        exact = evaluate(self.program, self.inputs)
        given = {f"given_{n}": self.inputs[i.name] for n, i in enumerate(self.program.inputs)}
        np.savez_compressed(path, **given, **{f"exact_{n}": exact[o.name] for n, o in enumerate(self.program.outputs)})


def drawn(target: str, many: int, first: int = FIRST) -> Iterator[Drawn]:
    """The programs of the next seeds of which something can be asked in float32; those that have no such kernel are left out."""
    for seed in range(first, first + many):
        found = draw_program(seed)
        program, inputs = found.program, found.inputs
        reason, allowed = asked(program, inputs)
        if reason is not None:
            continue
        types = {o.name: o.dtype for o in program.outputs}
        case = {
            "kind": "random", "source": "data", "program": str(seed), "alone": True, "flops": 0.0, "launches": 1, "modelled_us": 0.0,
            "static_us": None, "floors": {}, "bytes": 0, "dtypes": [i.dtype.name for i in program.inputs],
            "allowed": [1e-5 + 8 * allowed[o.name] + 2 * types[o.name].epsilon for o in program.outputs],
        }  # fmt: skip
        for way, make in (("planned", _planned), ("tiles", _tiled)):
            try:
                source = emit_module(make(seed, program, target))
            except PlanError:
                continue
            yield Drawn(f"random {seed} {way}", program, source, inputs, case)


def _planned(seed: int, program: Program, target: str) -> ModuleSpec:
    graph = saturate(program, rules=registry.active("approx"), node_budget=NODE_BUDGET, time_budget=5.0)
    return module_spec(Extractor(graph, load_target(target)).run())


def _tiled(seed: int, program: Program, target: str) -> ModuleSpec:
    rng = random.Random(seed)
    plain = kernel_from_program(program, random_roles(rng, program))
    order = list(plain.order)
    rng.shuffle(order)
    kernel = replace(plain, order=tuple(order), warps=rng.choice((1, 2, 4, 8)), stages=rng.choice((1, 2, 3)))
    inputs = tuple(kernel.buffers[i.name] for i in program.inputs)
    outputs = tuple(r.buffer for r in kernel.roots)
    names = [o.name for o in program.outputs]
    assert sorted(outputs) == sorted(names), (outputs, names)
    return ModuleSpec(program.name, inputs, tuple(kernel.buffers[n] for n in names), (), (finish(lower(kernel)),))
