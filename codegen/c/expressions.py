"""Statements and accesses as expressions in C, at the present lanes: what has no loop and declares nothing."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import PlanError
from ...ir.index import Axis
from ...tiles.names import pointer_name
from ...tiles.operations import operation
from ...tiles.program import (
    Access,
    Binding,
    Cast,
    Count,
    ExtentValue,
    Fill,
    IndexValue,
    IsFirst,
    Let,
    Load,
    Lost,
    Mean,
    Operand,
    Param,
    Statement,
    TileProgram,
    Value,
    Where,
)
from . import text
from .values import Values, simplified


def arguments(program: TileProgram) -> tuple[Param, ...]:
    """What the function takes after the number of its programs: pointers and whole numbers; neighbours are at a distance of 1."""
    return tuple(
        p
        for p in program.parameters
        if p.kind == "pointer" or (p.kind == "int" and not (p.buffer is not None and unit(program, p.buffer) == p.position))
    )


def unit(program: TileProgram, buffer: str) -> int | None:
    """The dimension of a buffer whose neighbours are neighbours in memory, by which loops are vectorised."""
    return program.kernel.buffers[buffer].fastest


class Expressions:
    """The expressions of one kernel."""

    def __init__(self, program: TileProgram) -> None:
        self.program = simplified(program)
        self.kernel, self.values = program.kernel, Values(self.program)
        self.extents = {p.axis: p.name for p in program.parameters if p.kind == "int" and p.axis is not None}
        self.strides = {(p.buffer, p.position): p.name for p in arguments(program) if p.position is not None}
        self.has_lanes = {a for d in program.dims for a in d.axes}
        self.masked: set[str] = set()  # bindings with lanes here that do not exist

    def extent(self, a: Axis) -> str:
        """The length of an axis."""
        return self.extents.get(a, str(a.size))

    def operand(self, v: Operand, *, like: Value | None = None) -> str:
        return text.variable(v) if isinstance(v, Value) else text.number(v.value, like.dtype if like is not None else None)

    def expression(self, s: Statement) -> str:
        """The right-hand side of a statement."""
        if isinstance(s, Load):
            masks = self.masks(s.access)
            value = text.read(self.place(s.access), self.kernel.buffers[s.access.buffer].dtype)
            return f"({' & '.join(masks)}) ? {value} : 0" if masks else value
        if isinstance(s, Let):
            values = [a for a in s.args[s.op == "where" :] if isinstance(a, Value)]
            whole = bool(values) and all(a.dtype.kind == "int" for a in values)
            wide = max(values, key=lambda v: v.dtype.itemsize) if whole else None
            if wide is not None and s.op in ("eq", "ne") and len({v.dtype.itemsize for v in values}) == 2:
                return self.compared(s.op, min(values, key=lambda v: v.dtype.itemsize), wide)
            return spelled(s.op).format(*(self.operand(a, like=wide) for a in s.args))
        if isinstance(s, Lost):
            new, kept, small = (text.variable(v) for v in (s.new, s.kept, s.small))
            return f"eq_finite(({new} - {kept}) - {small})"
        if isinstance(s, Where):
            conditions = self.valid(s.bindings)
            src = text.variable(s.src)
            return f"{' & '.join(conditions)} ? {src} : {text.number(s.fill, s.dst.dtype)}" if conditions else src
        if isinstance(s, Cast):
            return _cast(s)
        if isinstance(s, Mean):
            n = self.extent(s.axis) if s.binding is None else self.seen(s.binding, "old" if s.which == "old" else "new")
            return f"{text.variable(s.src)} / (float)eq_most({n}, 1)"
        if isinstance(s, Count):
            return f"({text.value_type(s.dst.dtype)})({self.seen(s.binding, s.which)})"
        if isinstance(s, IsFirst):
            return f"{text.start(s.binding)} == 0"
        if isinstance(s, ExtentValue):
            return f"({text.value_type(s.dst.dtype)}){self.extent(s.axis)}"
        if isinstance(s, Fill):
            return text.number(s.value, s.dst.dtype)
        assert isinstance(s, IndexValue), f"no C for {type(s).__name__}"
        position = text.positions({b.axis: b for b in s.bindings}, {a for d in s.dst.dims for a in d.axes}.__contains__)
        return f"({text.value_type(s.dst.dtype)})({text.expression(s.expr, position)})"

    def compared(self, op: str, narrow: Value, wide: Value) -> str:
        """Whether integers of two widths are equal, compared in the narrow one, of which a vector holds more; what is left to ask of the
        wide one is often asked once for a row."""
        a, b, kind = text.variable(narrow), text.variable(wide), text.value_type(narrow.dtype)
        return f"(({a} == ({kind}){b}) & ({b} == ({kind}){b}))" if op == "eq" else f"(({a} != ({kind}){b}) | ({b} != ({kind}){b}))"

    def seen(self, b: Binding, which: str) -> str:
        """Elements of an axis before a tile, up to its end, or in it."""
        end = f"eq_least({text.start(b)} + {b.tile}, {self.extent(b.axis)})"
        return {"old": text.start(b), "new": end, "tile": f"{end} - {text.start(b)}"}[which]

    # -- memory --------------------------------------------------------------------------------------------------------------
    def place(self, at: Access, lanes: bool = True) -> str:
        """An element of a buffer; without ``lanes``, that of the first lane."""
        position = self.position(at, lanes)
        parts = []
        for p, e in enumerate(at.index):
            if e.terms or e.const:
                parts.append(text.scaled(text.expression(e, position), self.strides.get((at.buffer, p), "1")))
        return f"{pointer_name(at.buffer)}[{text.total(parts)}]"

    def position(self, at: Access, lanes: bool = True) -> Callable[[Axis], str]:
        """Where an access is on an axis: at the present lane, or where a value says."""
        over = {a for d in at.dims for a in d.axes} if lanes else set()
        known = text.positions({b.axis: b for b in at.bindings}, over.__contains__)
        looked = at.places
        return lambda a: f"(int64_t){text.variable(looked[a])}" if a in looked else known(a)

    def masks(self, at: Access) -> list[str]:
        """The conditions under which an element is accessed; lanes that do not exist are not there."""
        found = self.valid(at.valid)
        for a, v in at.places.items():
            found += [f"({text.variable(v)} >= 0)", f"({text.variable(v)} < {self.extent(a)})"]
        for i in at.inside:
            value = text.expression(i.expr, self.position(at))
            found += [f"({value} >= 0)"] if i.low else []
            found += [f"({value} < {self.extent(i.axis) if i.axis else i.extent})"] if i.high else []
        return found

    def valid(self, bindings: tuple[Binding, ...]) -> list[str]:
        """The conditions of lanes that may not exist here."""
        return [f"({text.start(b)} + {text.lane(b.axis)} < {self.extent(b.axis)})" for b in bindings if b.name in self.masked]


def spelled(op: str) -> str:
    """The format string of an op."""
    found = operation(op).spellings.get("c")
    if found is None:
        raise PlanError(f"op {op} has no spelling in C", cure='give it one: eqfuse.op(..., c="expf({}) + 1.0f")')
    return f"({found.text})"


def _cast(s: Cast) -> str:
    name, to = text.variable(s.src), s.dst.dtype
    if to.is_float:
        return text.read(text.written(name, to), to) if to.itemsize == 2 else f"(float){name}"
    if to.kind == "bool":
        return f"{name} != 0"
    return f"({text.value_type(to)})" + (f"eq_whole({name})" if s.src.dtype.is_float else name)
