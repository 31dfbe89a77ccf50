"""Forms of a program that no rule of a saturation makes, as choices beside those that one finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...egraph.frozen import RuleCount
from ...ir.grouping import by_matrix, choosing, sorted_by_matrix
from ...ir.packing import packed
from ...ir.pieces import aligned, joints, powers
from ...ir.program import Program
from ...ir.samples import compared
from ...ir.spans import masking, spanned
from ...ir.terms import Input


class Kind(NamedTuple):
    """``make``: the form of a program, ``None`` if it has none.  ``data``: inputs of which an example has to say what they hold, for what
    the form leaves out hangs on them; ``sized``: whether it is another one at other lengths of axes."""

    make: Callable[[Program], Program | None]
    data: Callable[[Program], Iterable[Input]] = lambda program: ()
    sized: bool = False


FORMS = {
    "packed_rows": Kind(packed, lambda program: compared(program.terms())),
    "spans_of_masks": Kind(spanned, masking),
    "sorted_rows": Kind(sorted_by_matrix, choosing),
    "sum_over_matrices": Kind(by_matrix),
    "pieces_of_powers": Kind(powers, sized=True),
    "pieces_of_choices": Kind(joints, sized=True),
    "aligned_rows": Kind(aligned, sized=True),
}


@dataclass(frozen=True)
class Form:
    """A program in another form, of the kind that has this name in :data:`FORMS`."""

    program: Program
    name: str

    @property
    def sized(self) -> bool:
        """Whether it is another form at other lengths of axes."""
        return FORMS[self.name].sized

    @property
    def reports(self) -> tuple[RuleCount, ...]:
        """As a rule's that made it."""
        return (RuleCount(self.name, 1, self.sized),)

    @property
    def rules(self) -> tuple[str, ...]:
        """What made it, as a plan says it."""
        return (self.name,)

    def at(self, program: Program) -> Form | None:
        """The same form of the program at other sizes; ``None`` if it has none."""
        found = FORMS[self.name].make(program)
        return None if found is None else Form(found, self.name)


def forms(program: Program) -> Iterator[Form]:
    """The forms that a program has, if there is an example of the data that they hang on."""
    for name, kind in FORMS.items():
        if all(x.name in program.samples for x in kind.data(program)) and (found := kind.make(program)) is not None:
            yield Form(found, name)
