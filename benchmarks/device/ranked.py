"""The kernels of benchmarks/static_ranking.py for a clock: as they were compiled there, each run by itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eqfuse.codegen.module import emit_module
from eqfuse.codegen.sizes import ModuleSpec, lengths
from eqfuse.extract.targets import Target, load_target
from eqfuse.tiles.finish import finish
from eqfuse.tiles.kernel import Buffer, Kernel
from eqfuse.tiles.lower import lower

BENCHMARKS = Path(__file__).resolve().parents[1]
SCALE = 0.25  # of what is drawn: products of 4096 such numbers, times their like, are finite in half


@dataclass(frozen=True)
class Sampled:
    """A kernel of a sample.  ``case``: what the manifest says of it, but for its file."""

    name: str
    kernel: Kernel
    case: Mapping[str, Any]

    def source(self) -> str:
        """A module for its sizes, of which ``run`` takes what the kernel loads and returns what it stores."""
        outputs = tuple(replace(self.kernel.buffers[r.buffer], role="output") for r in self.kernel.roots)
        spec = ModuleSpec(self.kernel.name, self._inputs, outputs, (), (finish(lower(self.kernel)),))
        shapes = {b.name: b.shape for b in self._inputs}
        return emit_module(replace(spec, fixed={(name, d): shapes[name][d] for one in lengths(spec) for name, d in one.dimensions}))

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """What is loaded, as data.  Integers are labels: columns of the longest rows."""
        columns = max(b.shape[-1] for b in self._inputs)
        return [
            {"shape": list(b.shape), "dtype": b.dtype.name, "scale": SCALE, "offset": 0.0, "labels": None if b.dtype.is_float else columns}
            for b in self._inputs
        ]

    @property
    def _inputs(self) -> tuple[Buffer, ...]:
        names = sorted({n.attrs[0] for n in self.kernel.nodes if n.op == "load"})  # in one order for all forms
        return tuple(replace(self.kernel.buffers[n], role="input") for n in names)


def sampled(target: str) -> Iterator[Sampled]:
    """Those of the newest sample for a target that have a static time; none where there is no sample."""
    sys.path.insert(0, str(BENCHMARKS))  # a script's neighbours are no package
    from static_ranking import again

    data = json.loads(max(BENCHMARKS.glob("results/*-static-ranking.json")).read_text())
    count: dict[str, int] = {}
    for row in data["rows"]:
        if row["target"] == target and "static_us" in row:
            count[row["program"]] = count.get(row["program"], 0) + 1
            yield _one(data["forms"], row, count[row["program"]], again(data["forms"][row["form"]], row), load_target(target))


def _one(forms: Any, row: dict[str, Any], number: int, kernel: Kernel, target: Target) -> Sampled:
    final = all(kernel.buffers[r.buffer].role == "output" for r in kernel.roots)  # else what it makes is its form's own
    case = {
        "name": f"tiles {row['program']} {number}", "kind": f"tiles {row['program']}", "source": "kernel", "program": row["program"],
        "makes": row["program"] if final else row["form"], "alone": True, "flops": 0.0, "launches": 1, "bytes": 0,
        "modelled_us": row["model_us"] + target.launch_us, "static_us": row["static_us"], "floors": row["floors"],
    }  # fmt: skip
    return Sampled(case["name"], kernel, case)
