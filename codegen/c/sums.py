"""Sums in C: a float takes a few numbers, a double takes the floats, and it is rounded once, when the sum is complete.

A float that takes n numbers one after the other loses up to n * 2**-25 of their sum, which is 0.2 % of 65536.  So no float takes more than
a block of them.  What a block is depends on the loop:

========  ==================================  ===========================================================================================
vectors   ``x.sum(-1)``                       ``EQ_BLOCK`` numbers of a row: 32 for each lane of a vector
rows      ``x.sum(0)``                        :data:`EIGHT` rows, taken together in one loop over the columns (:meth:`Sums.in_eights`)
array     ``(x - x.mean(1)[:, None]).sum(0)``  :data:`ROWS` rows, added up in an array, where rows have loops of their own or are wide
sequence  ``x.cumsum(-1)``, elements that     :data:`EIGHT` numbers, in double: only the blocks wait for each other
          lie at ``k // 12``
number    ``x.mean((1, 2))``, its second sum  one: the sum of each row goes into the double as it is
========  ==================================  ===========================================================================================

    double upto = 0;                                                                              (vectors)
    for (first = 0; first < n; first += EQ_BLOCK) {
      float sum = 0;
      for (l = first; l < least(first + EQ_BLOCK, n); l++) sum += x[l];
      upto += sum;
    }

A block costs a few instructions, and nothing where a tile is no longer than one.  Eight rows at a time are faster than one: the sums of
columns are read and written once for all eight.  Integers are exact in any order, and are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Literal

from ...ir.index import Axis
from ...ir.monoids import MONOIDS
from ...tiles.program import Load, Reduce, Scan, TileProgram, uses
from . import text
from .lines import Lines
from .nests import Nest
from .values import dims_of

EIGHT = 8  # rows or numbers that are taken together
WIDE = 256  # columns of rows that are read one by one: eight at a time are slower by 12 % where they come from memory
ROWS = 64  # rows that an array of floats takes: 32 cost 10 % where rows come from memory, 64 cost 4 %
FEWEST = 128  # numbers of the shortest EQ_BLOCK
Form = Literal["vectors", "rows", "array", "sequence", "number"]


def is_sum(s: Reduce | Scan) -> bool:
    """Whether floats are added up."""
    return not s.parts and s.dst.dtype.is_float and MONOIDS[s.monoid].combine == "add"


class Sums(Lines):
    """How sums and their scans are printed.  What others reduce or scan with is :mod:`.reductions`."""

    def __init__(self, program: TileProgram) -> None:
        super().__init__(program)
        self.form: dict[str, Form] = {}  # of the sums that are in double, by their names

    def inner(self, s: Reduce | Scan) -> tuple[Axis, ...]:
        """The axes inside of the one that is reduced."""
        run = self.values.runs(dims_of(s))
        return run[run.index(s.dim.axes[0]) + 1 :]

    def choose_rows(self, growing: Sequence[Reduce | Scan]) -> None:
        """Have the sums of a loop take eight rows at a time."""
        self.form.update((s.dst.name, "rows") for s in growing if is_sum(s))

    def divides(self, axis: Axis, growing: Sequence[Reduce | Scan]) -> bool:
        """Whether sums are of elements whose places are quotients of positions along an axis: compilers make no vectors of these loops."""
        todo, seen = [s.src.name for s in growing if is_sum(s)], set[str]()
        while todo:
            name = todo.pop()
            s = self.values.maker.get(name)
            if s is None or name in seen:
                continue
            seen.add(name)
            if isinstance(s, Load) and any(
                not isinstance(a, Axis) and axis in a.numerator.axes() for e in s.access.index for a, _ in e.terms
            ):
                return True
            todo += [v.name for v in uses(s)]
        return False

    def choose_forms(self, axis: Axis, growing: Sequence[Reduce | Scan], *, vectors: bool, innermost: bool) -> None:
        """Decide how the sums of a loop over ``axis`` are added up.  ``vectors``: it is a loop of vectors."""
        for s in growing:
            if not is_sum(s):
                continue
            if vectors or (self.inner(s) and isinstance(s, Reduce)):
                form, shortest = ("vectors", FEWEST) if vectors else ("array", ROWS)
                if self.kernel.tile(axis) <= shortest:
                    continue
            else:
                form = "sequence" if innermost else "number"
            self.form[s.dst.name] = form  # type: ignore[assignment]

    # -- what is carried -----------------------------------------------------------------------------------------------------
    def carried(self, s: Reduce | Scan) -> str:
        """What a scan has up to here; of a sum in double, before this block."""
        inner = self.inner(s)
        if not inner:
            return f"upto_{text.variable(s.dst)}"
        array = self.values.array(f"{s.dst.name} upto", inner, 8 if is_sum(s) else max(s.dst.dtype.itemsize, 4))
        parts = [text.scaled(text.lane(a), array.strides[a]) for a in inner]
        return f"(({_type(s)} *)(memory + {array.offset}))[{text.total(parts)}]"

    def begin_carried(self, s: Reduce | Scan) -> None:
        """What is carried to the first element."""
        inner = self.inner(s)
        with self.over_inner(inner):
            kind = "" if inner else f"{_type(s)} "
            self.write(f"{kind}{self.carried(s)} = {text.number(MONOIDS[s.monoid].identity, s.dst.dtype)};")

    @contextmanager
    def over_inner(self, inner: tuple[Axis, ...]) -> Iterator[None]:
        """Loops over the lanes of a sum."""
        if inner:
            self.write_pragma_over(inner)
        with self.lanes(inner):
            yield

    def partial(self, s: Reduce | Scan) -> str:
        """What a sum has of this block."""
        return f"partial_{text.variable(s.dst)}"

    def declare_partial(self, s: Reduce | Scan, kind: str, value: str) -> None:
        self.write(f"{kind} {self.partial(s)} = {value};")
        self.scopes[-1].add(f"{s.dst.name} partial")

    def add(self, s: Reduce | Scan) -> None:
        """A step of a sum that has a form; without a block, the double takes it."""
        place = self.element(s.dst) if self.form[s.dst.name] == "array" else self.carried(s)
        self.write(f"{self.partial(s) if self.is_declared(f'{s.dst.name} partial') else place} += {text.variable(s.src)};")

    def up_to_here(self, s: Scan) -> str:
        """What a scan has after its step."""
        if not self.is_declared(f"{s.dst.name} partial"):
            return self.carried(s)
        return self.partial(s) if self.form[s.dst.name] == "rows" else f"{self.carried(s)} + {self.partial(s)}"

    # -- blocks --------------------------------------------------------------------------------------------------------------
    @contextmanager
    def blocks(self, axis: Axis, growing: Sequence[Reduce | Scan]) -> Iterator[tuple[str, str]]:
        """A loop over blocks of an axis, if sums ask for it: the bounds of the lanes of one."""
        lane, n = text.lane(axis), text.count(axis)
        sums = [s for s in growing if self.form.get(s.dst.name, "number") != "number"]
        if not sums:
            yield "0", n
            return
        forms = {self.form[s.dst.name] for s in sums}
        block = "EQ_BLOCK" if forms == {"vectors"} else str(ROWS if forms == {"array"} else EIGHT)
        with self.braces(f"for (int64_t first_{lane} = 0; first_{lane} < {n}; first_{lane} += {block})"):
            self.write(f"const int64_t end_{lane} = eq_least(first_{lane} + {block}, {n});")
            for s in sums:
                if self.form[s.dst.name] != "array":
                    self.declare_partial(s, "double" if self.form[s.dst.name] == "sequence" else "float", "0.0f")
            yield f"first_{lane}", f"end_{lane}"
            for s in sums:
                if self.form[s.dst.name] != "array":
                    self.write(f"{self.carried(s)} += {self.partial(s)};")
                    continue
                with self.over_inner(self.inner(s)):
                    self.write(f"{self.carried(s)} += {self.element(s.dst)};")
                    self.write(f"{self.element(s.dst)} = 0.0f;")

    def in_eights(self, axis: Axis, growing: Sequence[Reduce | Scan], inside: Sequence[Nest], body: Callable[[], None]) -> None:
        """A loop over rows that has nothing in it but the loops ``inside``, of which the innermost takes eight rows at a time.

        for (; row + 8 <= n; row += 8)
          for (column) { float sum = 0; for (k < 8) sum += x[row + k][column]; upto[column] += sum; }
        for (; row < n; row++)
          for (column) upto[column] += x[row][column];
        """
        sums = [s for s in growing if is_sum(s)]
        lane, n = text.lane(axis), text.count(axis)

        @contextmanager
        def columns() -> Iterator[None]:
            with ExitStack() as loops:
                for p in inside:
                    assert p.axis is not None
                    if p is inside[-1]:
                        self.write('_Pragma("omp simd")')
                    loops.enter_context(self.lane_from(p.axis, "0", text.count(p.axis)))
                yield

        with self.braces(""):
            self.write(f"int64_t row_{lane} = 0;")
            with self.braces(f"for (; row_{lane} + {EIGHT} <= {n}; row_{lane} += {EIGHT})"), columns():
                for s in sums:
                    self.declare_partial(s, *(("float", "0.0f") if isinstance(s, Reduce) else ("double", self.carried(s))))
                self.write("EQ_UNROLL")
                with self.braces(f"for (int k = 0; k < {EIGHT}; k++)"):
                    self.write(f"const int64_t {lane} = row_{lane} + k;")
                    body()
                for s in sums:
                    self.write(f"{self.carried(s)} {'+=' if isinstance(s, Reduce) else '='} {self.partial(s)};")
            with self.lane_from(axis, f"row_{lane}", n), columns():
                body()

    def end_sum(self, s: Reduce | Scan) -> None:
        """The sum, once it is complete."""
        if s.dst.name not in self.form or isinstance(s, Scan):
            return
        inner = self.inner(s)
        with self.over_inner(inner):
            to = self.element(s.dst) if inner else f"const float {text.variable(s.dst)}"
            self.write(f"{to} = (float){self.carried(s)};")
        if not inner:
            self.scopes[-1].add(s.dst.name)


def _type(s: Reduce | Scan) -> str:
    return "double" if is_sum(s) else text.value_type(s.dst.dtype)
