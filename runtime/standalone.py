"""A plan as a file that stands alone: its module, with equations in words and a test that runs when the file does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils import _pytree as pytree

from ..codegen.check import Check, with_check
from ..codegen.composed import ComposedSpec
from ..codegen.sizes import ModuleSpec
from ..errors import PlanError
from ..frontends.printed import reference_text
from ..ir.printing import equations
from ..ir.program import Program
from ..ir.terms import Input
from .composed import Composed
from .composed_sizes import small
from .generated import Generated, module_spec
from .small_sizes import Shapes, interpreted_seconds, small_shapes, tensors_of_program

if TYPE_CHECKING:
    from ..frontends import Traced

MOST_LINES = 40  # of equations in the docstring of a module


def standalone(traced: Traced, generated: Generated | Composed) -> str:
    """The text of the file."""
    try:
        check, why = _check(traced, generated), ""
    except PlanError as error:  # a reference that no text says
        check, why = None, error.message
    return with_check(generated.source, check, computes(traced.program), why)


def computes(program: Program) -> list[str]:
    """A program as equations, if that is no longer than a page; those of each kernel stand with it in any case."""
    lines = equations({o.name: o.term for o in program.outputs})
    return lines if len(lines) <= MOST_LINES and max(map(len, lines), default=0) <= 400 else []


def _check(traced: Traced, generated: Generated | Composed) -> Check:
    program, captured = traced.program, traced.graph
    if captured is None:
        raise PlanError("it was written in terms, and torch has no such program", where=program.name)
    shapes, seconds = tested_shapes(generated)
    if any(shapes[i.name] != _shape(i) for i in program.inputs):
        symbolic = traced.symbolic()
        assert symbolic is not None, "other sizes were found to be admitted by it"
        captured = symbolic.captured
    inputs = [i.name for i in program.inputs]
    results = tuple(r.name for r in program.results or program.outputs)
    lines: dict[str, None] = {}
    reference = reference_text(captured, inputs, stored_results(traced), lines)
    held = [s.name for s in captured.sources.values() if s.kind != "argument"]
    tensors, narrow = tensors_of_program(program, shapes, held), "tl.bfloat16" in generated.source
    return Check(tensors, results, reference, tuple(lines), "run", seconds, narrow)


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
