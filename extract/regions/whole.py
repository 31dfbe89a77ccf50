"""One plan of a whole program out of those of its regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...ir.program import Output, Program
from ...tiles.kernel import Buffer, input_buffers
from ..baseline import baseline
from ..blocks import block_fields, bytes_held
from ..plan import Part, Plan
from ..targets import Target
from .region import Region


def whole_plan(program: Program, target: Target, parts: Sequence[Part]) -> Plan:
    """The plan that runs the parts one after the other."""
    known = baseline(program, target)
    buffers = tensors(program, ((p.plan.program.outputs, p.makes) for p in parts))
    most = bytes_held(
        ({n: buffers[n].bytes for n in p.makes if buffers[n].role == "temporary"}, p.reads, p.plan.temporary_bytes) for p in parts
    )
    own = {
        "compulsory_bytes": known.compulsory_bytes, "baseline_bytes": known.dram_bytes, "baseline_kernels": known.kernels,
        "baseline_us": known.us,
    }  # fmt: skip
    return Plan(program=program, buffers=buffers, temporary_bytes=max(most), **{**block_fields(parts, target), **own})


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
