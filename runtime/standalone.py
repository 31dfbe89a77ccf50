"""A plan as a file that stands alone: its module, with equations in words and a test that runs when the file does.

Plans for several ranges of sizes are one file, too: ``run`` calls the first one whose range has the sizes of its arguments, or else the
first one whose kernels take them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch.utils import _pytree as pytree

from ..codegen.check import Check, with_check
from ..codegen.composed import ComposedSpec, Spec, emit
from ..codegen.sizes import guards
from ..errors import PlanError
from ..frontends.printed import reference_text
from ..ir.printing import equations
from ..ir.program import Program
from ..tiles.program import TileProgram
from .composed import Composed
from .composed_sizes import small
from .generated import Generated, module_spec
from .small_sizes import Given, Shapes, interpreted_seconds, positions, small_shapes, tensors_of, tensors_of_program

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
    return _with_test(generated.source, traced, [("run", generated)])


def standalone_range(served: Sequence[Served], header: str) -> str:
    """The text of the file for several plans of one program."""
    plans: dict[str, Spec] = {f"_plan_{k}": _renamed(s.generated.saved_spec, k) for k, s in enumerate(served, 1)}
    module = emit(served[0].traced.program.name, header, plans, [_choice(served, plans)])
    cases = [(name, s.generated) for name, s in zip(plans, served, strict=True)]
    return _with_test(module, served[0].traced, cases)


def with_test(module: str, test: Callable[[], Check], computes: Sequence[str] = ()) -> str:
    """A module with its test, or with the reason why no text says what it is compared with; ``computes``: equations."""
    try:
        return with_check(module, test(), computes)
    except PlanError as error:
        return with_check(module, None, computes, error.message)


def planned_test(
    called: str, given: Given, held: Collection[str], results: Sequence[str], reference: str, lines: Iterable[str],
    plans: Sequence[tuple[Program, Generated | Composed]], *, on_cpu: bool,
) -> Check:  # fmt: skip
    """The test of a function that runs several plans, at the planned sizes."""
    bounds: dict[str, int] = {}
    for program, _ in plans:
        for name, n in positions(program, {i.name: i.shape for i in program.inputs}).items():
            bounds[name] = min(n, bounds.get(name, n))
    seconds = sum(_planned_seconds(generated) for _, generated in plans)
    return Check(((called, tensors_of(given, bounds, held)),), tuple(results), reference, tuple(lines), seconds, on_cpu)


def _with_test(module: str, traced: Traced, cases: Sequence[tuple[str, Generated | Composed]]) -> str:
    return with_test(module, lambda: _check(traced, cases), computes(traced.program))


def computes(program: Program) -> list[str]:
    """A program as equations, if that is no longer than a page; those of each kernel stand with it in any case."""
    lines = equations({o.name: o.term for o in program.outputs})
    return lines if len(lines) <= MOST_LINES and max(map(len, lines), default=0) <= 400 else []


def _check(traced: Traced, cases: Sequence[tuple[str, Generated | Composed]]) -> Check:
    program, captured = traced.program, traced.graph
    if captured is None:
        raise PlanError("it was written in terms, and torch has no such program", where=program.name)
    found = [(name, *tested_shapes(generated)) for name, generated in cases]
    if any(shapes[i.name] != i.shape for _, shapes, _ in found for i in program.inputs):
        symbolic = traced.symbolic()
        assert symbolic is not None, "other sizes were found to be admitted by it"
        captured = symbolic.captured
    results = tuple(r.name for r in program.results or program.outputs)
    lines: dict[str, None] = {}
    reference = reference_text(captured, [i.name for i in program.inputs], stored_results(traced), lines)
    held = [s.name for s in captured.sources.values() if s.kind != "argument"]
    native = any(generated.plan.on_cpu for _, generated in cases)
    tested = tuple((name, tensors_of_program(program, shapes, held)) for name, shapes, _ in found)
    return Check(tested, results, reference, tuple(lines), sum(seconds for *_, seconds in found), native)


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
    return {i.name: i.shape for i in there.partition.program.inputs}, seconds


def _planned_seconds(generated: Generated | Composed) -> float:
    """What the kernels of a module take in the interpreter at the planned sizes, about."""
    whole = generated.exact_spec
    specs = [whole.plans[c.at] for c in whole.calls] if isinstance(whole, ComposedSpec) else [whole]
    return sum(interpreted_seconds(p, {b.name: b.shape for b in p.inputs}) for p in specs)


# several plans ------------------------------------------------------------------------------------------------------------------------


def _renamed(spec: Spec, number: int) -> Spec:
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


def _choice(served: Sequence[Served], plans: Mapping[str, Spec]) -> str:
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


def _taken(spec: Spec) -> list[str]:
    """What a plan needs of lengths."""
    if isinstance(spec, ComposedSpec):
        free = {x for f in spec.free for x in f.dimensions}
        return [f"{b.name}.shape[{d}] == {n}" for b in spec.inputs for d, n in enumerate(b.shape) if (b.name, d) not in free]
    own = [f"{name}.shape[{d}] == {n}" for (name, d), n in spec.fixed.items()]
    return own + [f"{g.dimension[0]}.shape[{g.dimension[1]}] {g.test}" for g in guards(spec)]
