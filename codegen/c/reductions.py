"""Reductions and scans of nests: what they begin with, a step, and what is made of it after the loop.  Sums are those of :mod:`.sums`.

A reduction over the innermost axis is one of a loop of vectors, with one vector of partial results, which never leave their register: an
array of several would make sums of rows in the nearest cache faster by a sixth, but what is read back from it waits until the row that was
stored before has reached its cache, which costs a fifth of all where rows come from memory.  A reduction over another axis has a place for
every lane of the axes inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.index import Axis
from ...ir.monoids import MONOIDS
from ...tiles.program import Reduce, Scan, TileProgram
from . import text
from .expressions import spelled
from .states import Group, groups
from .sums import Sums

_CLAUSES = {"add": "+", "mul": "*", "maximum": "max", "minimum": "min", "bitand": "&", "bitor": "|", "bitxor": "^"}  # of OpenMP


def separate_nan(s: Reduce | Scan) -> bool:
    """The largest is found by an instruction that loses NaN, beside whether there is one."""
    return s.dst.dtype.is_float and _combine(s) in ("maximum", "minimum")


def _combine(s: Reduce | Scan) -> str:
    return MONOIDS[s.monoid].combine


class Reductions(Sums):
    """How reductions and scans are printed."""

    def __init__(self, program: TileProgram) -> None:
        super().__init__(program)
        read = [s.dst.name for s in self.values.maker.values() if self.values.placed(s)]
        self.groups = groups(self.values.statements, read)  # by the value of each part

    def combined(self, monoid: str, a: str, b: str) -> str:
        return spelled(MONOIDS[monoid].combine).format(a, b)

    # -- loops ---------------------------------------------------------------------------------------------------------------
    def reduced(self, axis: Axis, growing: Sequence[Reduce | Scan], innermost: bool, body: Callable[[], None]) -> None:
        """A loop over an axis, with all that grows in it."""
        lanes = not any(isinstance(s, Scan) or s.parts or _combine(s) not in _CLAUSES for s in growing)
        vectors = innermost and lanes and not self.divides(axis, growing)
        self.choose_forms(axis, growing, vectors=vectors, innermost=innermost)
        self.begin_all(growing)
        with self.blocks(axis, growing) as bounds:
            if vectors:
                self.write(f'_Pragma("omp simd{self._clauses(growing)}")')
            with self.lane_from(axis, *bounds):
                body()
        self.end_all(growing)

    def _clauses(self, growing: Sequence[Reduce | Scan]) -> str:
        """What a loop of vectors carries from lane to lane."""
        found = ""
        for s in growing:
            if isinstance(s, Reduce) and not self.inner(s):
                name = self.partial(s) if s.dst.name in self.form else text.variable(s.dst)
                found += f" reduction({_CLAUSES[_combine(s)]}:{name})"
                found += f" reduction(|:nan_{name})" if separate_nan(s) else ""
        return found

    # -- what grows ----------------------------------------------------------------------------------------------------------
    def begin_all(self, growing: Sequence[Reduce | Scan]) -> None:
        """Before a loop, what grows in it."""
        for s in growing:
            if not s.parts:
                self.grow(s)
            elif s is self.groups[s.dst.name].leader:
                self.begin(self.groups[s.dst.name])

    def end_all(self, growing: Sequence[Reduce | Scan]) -> None:
        """After the loop, what has grown."""
        for s in growing:
            self.end_sum(s)
            if isinstance(s, Scan) or self.inner(s):
                continue
            if s.parts:
                self.take_part(s)
                continue
            name = text.variable(s.dst)
            if separate_nan(s):
                self.write(f"{name} = nan_{name} ? NAN : {name};")
            if self.kept[s.dst.name]:
                self.write(f"{self.element(s.dst)} = {name};")

    def grow(self, s: Reduce | Scan) -> None:
        """What a reduction or a scan begins with."""
        form = self.form.get(s.dst.name)
        if isinstance(s, Scan) or form:
            self.begin_carried(s)
        if isinstance(s, Scan) or form not in (None, "array"):
            return
        identity, name, inner = text.number(MONOIDS[s.monoid].identity, s.dst.dtype), text.variable(s.dst), self.inner(s)
        if inner:
            with self.over_inner(inner):
                self.write(f"{self.element(s.dst)} = {identity};")
            return
        self.write(f"{text.value_type(s.dst.dtype)} {name} = {identity};")
        self.scopes[-1].add(s.dst.name)
        if separate_nan(s):
            self.write(f"int32_t nan_{name} = 0;")

    def reduce(self, s: Reduce) -> None:
        """A step of a reduction."""
        x, name = text.variable(s.src), text.variable(s.dst)
        if s.dst.name in self.form:
            self.add(s)
        elif self.inner(s):
            self.write(f"{self.element(s.dst)} = {self.combined(s.monoid, self.element(s.dst), x)};")
        elif separate_nan(s):
            self.write(f"{name} = {x} {'>' if _combine(s) == 'maximum' else '<'} {name} ? {x} : {name};")
            self.write(f"nan_{name} |= {x} != {x};")
        else:
            self.write(f"{name} = {self.combined(s.monoid, name, x)};")

    def scan(self, s: Scan) -> str:
        """A step of a scan: what it has up to here."""
        if s.dst.name in self.form:
            self.add(s)
            return self.up_to_here(s)
        self.write(f"{self.carried(s)} = {self.combined(s.monoid, self.carried(s), text.variable(s.src))};")
        return self.carried(s)

    # -- states of several parts ---------------------------------------------------------------------------------------------
    def begin(self, group: Group) -> None:
        """What a state of several parts begins with."""
        inner = self.inner(group.leader)
        if inner:
            self.write_pragma_over(inner)
        with self.lanes(inner):
            for part in group.asked:
                kind = "" if inner else f"{group.kind(part)} "
                self.write(f"{kind}{self.part(group, part)} = {group.start(part)};")

    def part(self, group: Group, part: int) -> str:
        """A part of the state up to here."""
        s, inner = group.leader, self.inner(group.leader)
        name = f"part{part}_{text.variable(s.dst)}"
        if not inner:
            return name
        array = self.values.array(f"{s.dst.name} part {part}", inner, group.itemsize(part))
        parts = [text.scaled(text.lane(a), array.strides[a]) for a in inner]
        return f"(({group.kind(part)} *)(memory + {array.offset}))[{text.total(parts)}]"

    def take_part(self, s: Reduce | Scan) -> None:
        """The value of a part, in its variable and its array."""
        group = self.groups[s.dst.name]
        part = next(k for k in group.asked if group.member(k) is s)
        self.write(f"const {text.value_type(s.dst.dtype)} {text.variable(s.dst)} = {self.part(group, part)};")
        self.scopes[-1].add(s.dst.name)
        if self.kept[s.dst.name]:
            self.write(f"{self.element(s.dst)} = {text.variable(s.dst)};")

    def combine(self, s: Reduce | Scan) -> None:
        """The next element of a state of several parts."""
        group = self.groups[s.dst.name]
        if s is group.leader:
            for line in group.combined({k: self.part(group, k) for k in group.asked}, text.lane(s.dim.axes[0])):
                self.write(line)
        if isinstance(s, Reduce) and self.inner(s):
            self.write(f"{self.element(s.dst)} = {self.part(group, next(k for k in group.asked if group.member(k) is s))};")
        elif isinstance(s, Scan):
            self.take_part(s)
