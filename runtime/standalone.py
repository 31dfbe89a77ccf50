"""A plan as a file that stands alone: its module, with equations in words and a test that runs when the file does.

Plans for several ranges of sizes are one file, too: ``run`` calls the first one whose range has the sizes of its arguments, or else the
first one whose kernels take them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch.utils import _pytree as pytree

from ..codegen.check import Check, with_check
from ..codegen.composed import ComposedSpec, emit_steps
from ..codegen.sizes import ModuleSpec, guards
from ..errors import PlanError
from ..frontends.printed import reference_text
from ..ir.printing import equations
from ..ir.program import Program
from ..ir.terms import Input
from ..tiles.program import TileProgram
from .composed import Composed
from .composed_sizes import small
from .generated import Generated, module_spec
from .small_sizes import Shapes, interpreted_seconds, small_shapes, tensors_of_program

if TYPE_CHECKING:
    from ..frontends import Traced

MOST_LINES = 40  # of equations in the docstring of a module


@dataclass(frozen=True, eq=False)
class Served:
    """Kernels, and the lengths of axes by name between which they are preferred."""

    traced: Traced
    generated: Generated | Composed
    least: Mapping[str, int]
    most: Mapping[str, int]


def standalone(traced: Traced, generated: Generated | Composed) -> str:
    """The text of the file for one plan."""
    return _tested(generated.source, traced, [("run", generated)])


def standalone_range(served: Sequence[Served], header: str) -> str:
    """The text of the file for several plans of one program."""
    plans: dict[str, ModuleSpec | ComposedSpec] = {f"_plan_{k}": _renamed(s.generated.saved_spec, k) for k, s in enumerate(served, 1)}
    module = emit_steps(served[0].traced.program.name, header, plans, [_choice(served, plans)])
    cases = [(name, s.generated) for name, s in zip(plans, served, strict=True)]
    return _tested(module, served[0].traced, cases)


def _tested(module: str, traced: Traced, cases: Sequence[tuple[str, Generated | Composed]]) -> str:
    try:
        check, why = _check(module, traced, cases), ""
    except PlanError as error:  # a reference that no text says
        check, why = None, error.message
    return with_check(module, check, computes(traced.program), why)


def computes(program: Program) -> list[str]:
    """A program as equations, if that is no longer than a page; those of each kernel stand with it in any case."""
    lines = equations({o.name: o.term for o in program.outputs})
    return lines if len(lines) <= MOST_LINES and max(map(len, lines), default=0) <= 400 else []


def _check(module: str, traced: Traced, cases: Sequence[tuple[str, Generated | Composed]]) -> Check:
    program, captured = traced.program, traced.graph
    if captured is None:
        raise PlanError("it was written in terms, and torch has no such program", where=program.name)
    found = [(name, *tested_shapes(generated)) for name, generated in cases]
    if any(shapes[i.name] != _shape(i) for _, shapes, _ in found for i in program.inputs):
        symbolic = traced.symbolic()
        assert symbolic is not None, "other sizes were found to be admitted by it"
        captured = symbolic.captured
    results = tuple(r.name for r in program.results or program.outputs)
    lines: dict[str, None] = {}
    reference = reference_text(captured, [i.name for i in program.inputs], stored_results(traced), lines)
    held = [s.name for s in captured.sources.values() if s.kind != "argument"]
    native = any(generated.plan.on_cpu for _, generated in cases)
    tested = tuple((name, tensors_of_program(program, shapes, held)) for name, shapes, _ in found)
    return Check(tested, results, reference, tuple(lines), sum(seconds for *_, seconds in found), "tl.bfloat16" in module, native)


def _shape(i: Input) -> tuple[int, ...]:
    return tuple(1 if a is None else a.size for a in i.layout)


def stored_results(traced: Traced) -> list[int]:
    """For each tensor that the module returns, which of the function's flat results it is."""
    slots = [_Slot() for _ in traced.program.results or traced.program.outputs]
    found = pytree.tree_leaves(traced.unflatten(slots))
    return [next(k for k, x in enumerate(found) if x is s) for s in slots]


class _Slot:
    """The place of a result."""


def tested_shapes(generated: Generated | Composed) -> tuple[Shapes, float]:
    """The shapes at which a module is tested, and the seconds that its kernels take there in the interpreter."""
    if isinstance(generated, Generated):
        spec = generated.saved_spec
        shapes = small_shapes(spec)
        return shapes, interpreted_seconds(spec, shapes)
    there = small(generated, generated.saved_spec.free)
    seconds = sum(interpreted_seconds(module_spec(p.plan), p.input_shapes) for p in there.parts)
    return {i.name: _shape(i) for i in there.partition.program.inputs}, seconds


def interpreted_seconds_of(generated: Generated | Composed) -> float:
    """What the kernels of a module take in the interpreter at the planned sizes, about."""
    if isinstance(generated, Generated):
        return interpreted_seconds(generated.exact_spec, _planned(generated.exact_spec))
    whole = generated.exact_spec
    return sum(interpreted_seconds(p, _planned(p)) for p in (whole.plans[c.at] for c in whole.calls))


def _planned(spec: ModuleSpec | ComposedSpec) -> Shapes:
    return {b.name: tuple(b.shape) for b in spec.inputs}


# several plans ------------------------------------------------------------------------------------------------------------------------


def _renamed(spec: ModuleSpec | ComposedSpec, number: int) -> ModuleSpec | ComposedSpec:
    """The same, its kernels called otherwise than those of other plans."""
    if isinstance(spec, ComposedSpec):
        known: dict[int, TileProgram] = {}
        return replace(spec, plans=tuple(replace(p, kernels=_called(p.kernels, number, known)) for p in spec.plans))
    return replace(spec, kernels=_called(spec.kernels, number, {}))


def _called(kernels: Sequence[TileProgram], number: int, known: dict[int, TileProgram]) -> tuple[TileProgram, ...]:
    for k in kernels:
        if id(k) not in known:
            known[id(k)] = replace(k, kernel=replace(k.kernel, name=f"{k.kernel.name}_{number}"))
    return tuple(known[id(k)] for k in kernels)


def _choice(served: Sequence[Served], plans: Mapping[str, ModuleSpec | ComposedSpec]) -> str:
    """``run`` of several plans."""
    inputs = [b.name for b in next(iter(plans.values())).inputs]
    given = ", ".join(inputs)
    outputs = ", ".join(r.name for r in served[0].traced.program.results or served[0].traced.program.outputs)
    first: list[str] = []
    then: list[str] = []
    for (name, spec), s in zip(plans.items(), served, strict=True):
        takes = _taken(spec)
        for tests, lines in ((_range(s) + takes, first), (takes, then)):
            condition = " and ".join(dict.fromkeys(tests)) or "True"
            broken = textwrap.wrap(condition, 116, break_long_words=False, break_on_hyphens=False)
            lines += [f"    if {condition}:"] if len(broken) == 1 else ["    if (", *(f"        {line}" for line in broken), "    ):"]
            lines.append(f"        return {name}({given})")
    refusal = '    raise ValueError("these sizes are none that the kernels of this module take; optimize again for them")'
    doc = f'    """Return the tuple ({outputs}), by the kernels that are best for the sizes of the arguments."""'
    outside = "    # outside of every range: whichever can take it"
    return "\n".join([f"def run({given}):", doc, *first, outside, *then, refusal])


def _range(s: Served) -> list[str]:
    """The lengths between which a plan is preferred, where they differ."""
    found: dict[str, str] = {}
    for i in s.traced.program.inputs:
        for d, a in enumerate(i.layout):
            if a is not None:
                found.setdefault(a.name, f"{i.name}.shape[{d}]")
    ends = [(where, s.least[a], s.most[a]) for a, where in found.items() if a in s.least]
    return [f"{where} == {least}" if least == most else f"{least} <= {where} <= {most}" for where, least, most in ends]


def _taken(spec: ModuleSpec | ComposedSpec) -> list[str]:
    """What a plan needs of lengths."""
    if isinstance(spec, ComposedSpec):
        free = {x for f in spec.free for x in f.dimensions}
        return [f"{b.name}.shape[{d}] == {n}" for b in spec.inputs for d, n in enumerate(b.shape) if (b.name, d) not in free]
    own = [f"{name}.shape[{d}] == {n}" for (name, d), n in spec.fixed.items()]
    return own + [f"{g.dimension[0]}.shape[{g.dimension[1]}] {g.test}" for g in guards(spec)]
