"""Sums in C: floats within a block, blocks in double.

A float accumulator loses half a unit of its last place with every number that it takes, so n numbers one after the other lose up to
n * 2**-25 of their sum: 0.2 % of 65536.  Here it takes at most a block of them, and a double takes the blocks:

    double upto = 0;                                           sum of a row, in a loop of vectors
    for (first = 0; first < n; first += EQ_BLOCK) {            EQ_BLOCK: 32 numbers for each lane of a vector
      float sum = 0;
      for (l = first; l < least(first + EQ_BLOCK, n); l++) sum += x[l];
      upto += sum;
    }

A sum over another axis than the innermost has an array of floats, which takes :data:`ROWS` rows, and an array of doubles.  That costs a few
instructions for each block, and nothing where a tile is no longer than a block.  What is added one number after the other as it is, in a loop
that has other loops in it or a scan, is a double all along: it waits for the addition before, whatever the type.  So is what a scan carries.

The double is rounded once, when the sum is complete.  Integers are exact in any order, and are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.index import Axis
from ...ir.monoids import MONOIDS
from ...tiles.program import Reduce, Scan, TileProgram
from . import text
from .lines import Lines
from .values import dims_of

ROWS = 64  # rows that an array of floats takes: 32 cost 10 % where rows come from memory, 64 cost 4 %
FEWEST = 128  # lanes of the shortest EQ_BLOCK


def is_sum(s: Reduce | Scan) -> bool:
    """Whether floats are added up."""
    return not s.parts and s.dst.dtype.is_float and MONOIDS[s.monoid].combine == "add"


class Sums(Lines):
    """How sums are printed."""

    def __init__(self, program: TileProgram) -> None:
        super().__init__(program)
        self.wide: set[str] = set()  # sums that are doubles, or have one beside the block that they are in

    def inner(self, s: Reduce | Scan) -> tuple[Axis, ...]:
        """The axes inside of the one that is reduced."""
        run = self.values.runs(dims_of(s))
        return run[run.index(s.dim.axes[0]) + 1 :]

    def in_blocks(self, axis: Axis, growing: Sequence[Reduce | Scan], vectors: bool) -> list[Reduce]:
        """The sums of a loop over ``axis`` that have a float for each block of it; those that are doubles all along are known from now on,
        too.  ``vectors``: it is a loop of vectors."""
        found: list[Reduce] = []
        for s in growing:
            if isinstance(s, Reduce) and is_sum(s):
                if not (vectors or self.inner(s)):
                    self.wide.add(s.dst.name)
                elif self.kernel.tile(axis) > (FEWEST if vectors else ROWS):
                    self.wide.add(s.dst.name)
                    found.append(s)
        return found

    # -- what is carried -----------------------------------------------------------------------------------------------------
    def carried(self, s: Reduce | Scan) -> str:
        """What a scan has up to here, or a sum before this block."""
        inner = self.inner(s)
        if not inner:
            return f"upto_{text.variable(s.dst)}"
        array = self.values.array(f"{s.dst.name} upto", inner, 8 if is_sum(s) else max(s.dst.dtype.itemsize, 4))
        parts = [text.scaled(text.lane(a), array.strides[a]) for a in inner]
        return f"(({_carried_type(s)} *)(memory + {array.offset}))[{text.total(parts)}]"

    def begin_carried(self, s: Reduce | Scan) -> None:
        """What is carried to the first element."""
        inner = self.inner(s)
        if inner:
            self.write_pragma_over(inner)
        with self.lanes(inner):
            kind = "" if inner else f"{_carried_type(s)} "
            self.write(f"{kind}{self.carried(s)} = {text.number(MONOIDS[s.monoid].identity, s.dst.dtype)};")

    # -- blocks --------------------------------------------------------------------------------------------------------------
    @contextmanager
    def blocks(self, axis: Axis, sums: Sequence[Reduce], vectors: bool) -> Iterator[tuple[str, str]]:
        """A loop over blocks of an axis, if sums ask for it: the bounds of the lanes of one."""
        lane, n = text.lane(axis), text.count(axis)
        if not sums:
            yield "0", n
            return
        block = "EQ_BLOCK" if vectors else str(ROWS)
        with self.braces(f"for (int64_t first_{lane} = 0; first_{lane} < {n}; first_{lane} += {block})"):
            self.write(f"const int64_t end_{lane} = eq_least(first_{lane} + {block}, {n});")
            for s in sums:
                if not self.inner(s):
                    self.write(f"float {text.variable(s.dst)} = 0.0f;")
                    self.scopes[-1].add(s.dst.name)
            yield f"first_{lane}", f"end_{lane}"
            for s in sums:
                inner = self.inner(s)
                part = self.element(s.dst) if inner else text.variable(s.dst)
                if inner:
                    self.write_pragma_over(inner)
                with self.lanes(inner):
                    self.write(f"{self.carried(s)} += {part};")
                    if inner:
                        self.write(f"{part} = 0.0f;")

    def end_sum(self, s: Reduce | Scan) -> None:
        """The sum, where it is in a double."""
        if s.dst.name not in self.wide:
            return
        inner = self.inner(s)
        if inner:
            self.write_pragma_over(inner)
            with self.lanes(inner):
                self.write(f"{self.element(s.dst)} = (float){self.carried(s)};")
        else:
            self.write(f"const float {text.variable(s.dst)} = (float){self.carried(s)};")
            self.scopes[-1].add(s.dst.name)


def _carried_type(s: Reduce | Scan) -> str:
    return "double" if is_sum(s) else text.value_type(s.dst.dtype)
