"""Which gathers of a program a loop has anyway: those are the sums that select their elements."""

from __future__ import annotations

from dataclasses import replace

from .program import Program
from .terms import Gather, Reduce, Term, selected


def one_of_each(program: Program, t: Gather) -> bool:
    """Whether a gather reads one element of each row along an axis that something else reduces over, so that the loop has it anyway."""
    x, at = t.args
    return at.axes <= x.axes and any(isinstance(r, Reduce) and r.axis == t.axis for r in program.terms())


def summed(program: Program) -> Program:
    """The program with the sum in the place of such gathers of floats; itself if there are none.  Of integers a sum has a range and a
    type of its own."""
    mine = {t for t in program.terms() if isinstance(t, Gather) and t.dtype is not None and t.dtype.is_float and one_of_each(program, t)}
    if not mine:
        return program
    new: dict[Term, Term] = {}
    for t in program.terms():
        made = t.over([new[a] for a in t.args]) if t.args else t
        new[t] = selected(Gather(*made.parts)) if t in mine else made
    sources: dict[Term, str] = {}
    for t in mine:  # what the sum is made of stands in the same line
        todo = [new[t]]
        while todo and t in program.sources:
            x = todo.pop()
            if x not in sources and x.args:
                sources[x] = program.sources[t]
                todo += x.args
    made = program.over(new)
    return replace(made, sources={**sources, **made.sources})
