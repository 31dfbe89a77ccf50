"""The packed form of a padded program, as a choice beside those that a saturation finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...ir.packing import packed
from ...ir.program import Program


@dataclass(frozen=True)
class Packed:
    """A program in packed form: the rows that count, one after the other (:mod:`eqfuse.ir.packing`)."""

    program: Program
    rules: tuple[str, ...] = ("packed_rows",)
    reports: tuple[()] = ()  # no rule of a saturation made it
    sized: bool = False

    def at(self, program: Program) -> Packed | None:
        """The same form of the program at other sizes; ``None`` if it has none."""
        found = packed(program)
        return None if found is None else Packed(found)


def packed_forms(program: Program) -> Iterator[Packed]:
    """The packed form of a program, if an example says how long its sequences are: without one, all rows may count."""
    found = packed(program) if program.samples else None
    if found is not None:
        yield Packed(found)
