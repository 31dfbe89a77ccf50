"""A program: named outputs over named inputs.  What a front end produces and the rest of EqFuse consumes.

:class:`Program` can also be written by hand; :mod:`eqfuse.ir.build` has the functions for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .dtypes import DType
from .index import Axis
from .terms import Input, Term, postorder


@dataclass(frozen=True)
class Output:
    """A result: its term, the order of its dimensions (``None`` is a dimension of size 1) and its element type."""

    name: str
    term: Term
    layout: tuple[Axis | None, ...]
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(1 if a is None else a.size for a in self.layout)


@dataclass(frozen=True)
class Program:
    """Outputs as terms.

    ``sources`` maps terms to the user's line that made them, and ``names`` what the user calls values to their terms, in order of
    execution (a name that is assigned twice has two).  Both are for messages and questions; they carry no meaning.
    """

    name: str
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...]  # in argument order, unused ones included
    sources: Mapping[Term, str] = field(default_factory=dict, compare=False, repr=False)
    names: Mapping[str, tuple[Term, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis, in a stable order: inputs first, then as they appear."""
        found: dict[Axis, None] = {}
        for i in self.inputs:
            found.update((a, None) for a in i.layout if a is not None)
        for o in self.outputs:
            found.update((a, None) for a in o.layout if a is not None)
        for t in self.terms():
            found.update((a, None) for a in sorted(t.axes))
        return tuple(found)

    def terms(self) -> list[Term]:
        """All terms, arguments before users."""
        return postorder(*(o.term for o in self.outputs))

    def named(self, **values: Term) -> Program:
        """The same program with names for some of its values, to ask ``explain()`` about; an unknown term is a ValueError."""
        terms = set(self.terms())
        strange = [n for n, t in values.items() if t not in terms]
        if strange:
            raise ValueError(f"{self.name} does not compute {', '.join(strange)}")
        return replace(self, names={**self.names, **{n: (t,) for n, t in values.items()}})

    def __str__(self) -> str:
        from .printing import program_text

        return program_text(self)
