"""One plan of a whole program out of those of its regions.

Memory is counted once, for the whole: a tensor between regions lives from the region that makes it to the last one that reads it, and
a region holds its own temporaries while it runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ...ir.program import Output, Program
from ...tiles.kernel import Buffer, input_buffers
from ..baseline import baseline
from ..plan import Launch, Part, Plan
from ..targets import Target
from .region import Region

STOPPED = ("bound", "exhausted", "like", "work", "time", "clock")  # the later ones are said of the whole if they hold for a region
SATURATED = ("saturated", "off", "nodes", "time", "clock")


def whole_plan(program: Program, target: Target, parts: Sequence[Part]) -> Plan:
    """The plan that runs the parts one after the other."""
    plans = [p.plan for p in parts]
    different = list({id(p): p for p in plans}.values())
    known = baseline(program, target)
    buffers = tensors(program, ((p.plan.program.outputs, p.makes) for p in parts))
    return Plan(
        program=program,
        target=target.name,
        on_cpu=target.on_cpu,
        measured=target.measured,
        steps=tuple(step for p in plans for step in p.steps),
        buffers=buffers,
        dram_bytes=sum(p.dram_bytes for p in plans),
        compulsory_bytes=known.compulsory_bytes,
        baseline_bytes=known.dram_bytes,
        baseline_kernels=known.kernels,
        estimated_us=sum(p.estimated_us for p in plans),
        baseline_us=known.us,
        splits=(),
        stopped=max((p.stopped for p in different), key=STOPPED.index),
        saturation=max((p.saturation for p in different), key=SATURATED.index),
        temporary_bytes=held(buffers, parts),
        refused=tuple(dict.fromkeys(why for p in different for why in p.refused)),
        notes=tuple(dict.fromkeys(note for p in different for note in p.notes)),
        unsure=tuple(dict.fromkeys(which for p in different for which in p.unsure)),
        compiled=tuple(dict.fromkeys(said for p in different for said in p.compiled)),
        rewritten=tuple(sorted({rule for p in different for rule in p.rewritten})),
        written_us=sum(p.written_us or p.estimated_us for p in plans) if any(p.written_us for p in plans) else 0.0,
        decisions=tuple(d for p in different for d in p.decisions),
        parts=tuple(parts),
        launches=_launches(plans) if any(p.launches for p in plans) else (),
    )


def _launches(plans: Sequence[Plan]) -> tuple[Launch, ...]:
    """Those of the parts: kernels of different regions are not launched together."""
    before = itertools.accumulate((len(p.steps) for p in plans), initial=0)
    return tuple(Launch(tuple(at + k for k in one.steps), one.us) for at, p in zip(before, plans, strict=False) for one in p.every_launch)


def tensors(program: Program, made: Iterable[tuple[Sequence[Output], Sequence[str]]]) -> dict[str, Buffer]:
    """The tensors of a whole program: inputs, results, and what regions hand to each other, each of which ``made`` outputs under names."""
    found = input_buffers(program)
    results = {o.name: o for o in program.outputs}
    for outputs, names in made:
        for own, name in zip(outputs, names, strict=True):
            result = results.get(name)
            if result is not None:
                found[name] = Buffer(name, result.dtype, result.shape, "output")
            else:
                found[name] = Buffer(name, own.dtype, own.shape, "temporary")
    return found


def last_readers(parts: Sequence[Part | Region]) -> dict[str, int]:
    """Of each tensor that a region reads, the last one that does."""
    return {name: at for at, part in enumerate(parts) for name in part.reads}


def held(buffers: dict[str, Buffer], parts: Sequence[Part]) -> int:
    """Bytes held at a time beside inputs and results."""
    last, most, live = last_readers(parts), 0, dict[str, int]()
    for at, part in enumerate(parts):
        live |= {name: buffers[name].bytes for name in part.makes if buffers[name].role == "temporary"}
        most = max(most, sum(live.values()) + part.plan.temporary_bytes)
        live = {name: n for name, n in live.items() if last.get(name, at) > at}
    return most
