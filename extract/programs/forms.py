"""Forms of a program that no rule of a saturation makes, as choices beside those that one finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...ir.grouping import by_matrix, sorted_by_matrix
from ...ir.packing import packed
from ...ir.program import Program
from ...ir.spans import spanned

FORMS: dict[str, Callable[[Program], Program | None]] = {"packed_rows": packed, "spans_of_masks": spanned, "sorted_rows": sorted_by_matrix, "sum_over_matrices": by_matrix}


@dataclass(frozen=True)
class Form:
    """A program in another form, made by the function of this name in :data:`FORMS`."""

    program: Program
    name: str
    reports: tuple[()] = ()  # no rule of a saturation made it
    sized: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """What made it, as a plan says it."""
        return (self.name,)

    def at(self, program: Program) -> Form | None:
        """The same form of the program at other sizes; ``None`` if it has none."""
        found = FORMS[self.name](program)
        return None if found is None else Form(found, self.name)


def forms(program: Program) -> Iterator[Form]:
    """The forms of a program, if an example says what its lengths and the like are: without one, nothing is left out in any of them."""
    for name in FORMS if program.samples else ():
        if (found := FORMS[name](program)) is not None:
            yield Form(found, name)
