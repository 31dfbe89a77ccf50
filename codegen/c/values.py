"""What becomes of the values of a tile program in C: variables, arrays in a thread's memory, addresses, or nothing at all.

A tile in registers is no thing of a CPU; its registers hold a few numbers of one row. So a value is a variable of the loop that makes it
where all who read it are in that loop, and an array over those axes else whose loops they do not share. What costs no more to compute
than to read is computed again where it is read (*virtual*): what was just loaded is in the cache. Lanes past the end of an axis do not
exist, so masks of bindings vanish, but for loops that carry something lane by lane (*padded*), which has all lanes in the last step as
well. A value with its dims in another order is the same value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ...errors import PlanError
from ...ir import dtypes
from ...ir.index import Axis
from ...tiles.kernel import Kernel
from ...tiles.operations import operation
from ...tiles.program import (
    Access,
    Accumulator,
    Cast,
    Clear,
    Dim,
    Dot,
    Edge,
    ExtentValue,
    Extreme,
    Fill,
    IndexValue,
    Let,
    Load,
    Loop,
    Permute,
    Reduce,
    Scan,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    direct_uses,
    rewritten,
    uses,
    walk_statements,
)
from .order import loop_order

_DEPTH = 3  # operations that are computed again rather than kept
ROW = 32  # floats; rows of arrays are padded to it, so that products may write whole vectors


def padded(program: TileProgram) -> frozenset[str]:
    """The bindings of loops that carry values with lanes of their own axis."""
    loops = (s for s in program.statements() if isinstance(s, Loop))
    return frozenset(s.binding.name for s in loops if any(s.binding.axis in d.axes for a in s.accumulators for d in a.old.dims))


def simplified(program: TileProgram) -> TileProgram:
    """The program without what says nothing here: masks of bindings, orders of dims, casts to float32, extremes of the one lane that there
    is at a time."""
    same: dict[str, Value] = {}
    kept = padded(program)
    opened, _, _ = loop_order(program)

    def known(x: Any) -> Any:
        if isinstance(x, Value):
            return same.get(x.name, x)
        if isinstance(x, tuple):
            return tuple(known(y) for y in x)
        if isinstance(x, Access):
            return replace(x, looked=tuple(replace(k, at=known(k.at)) for k in x.looked))
        if isinstance(x, Accumulator):
            return replace(x, new=known(x.new), start=known(x.start))
        if isinstance(x, Edge):
            return replace(x, data=known(x.data))
        if isinstance(x, Extreme):
            return replace(x, of=known(x.of))
        if isinstance(x, Clear):
            return Clear(known(x.known), known(x.starts), known(x.stops))
        return x

    def one(s: Statement) -> Statement | None:
        fields = {"Loop": ("accumulators", "starts", "stops", "clear"), "Load": ("access",), "Store": ("src", "access")}
        names = fields.get(type(s).__name__, ("src", "parts", "args", "new", "kept", "small", "a", "b", "acc"))
        s = replace(s, **{n: known(getattr(s, n)) for n in names if hasattr(s, n)})
        widened = isinstance(s, Cast) and s.dst.dtype == dtypes.float32 and s.src.dtype.is_float
        if isinstance(s, Where):
            s = replace(s, bindings=tuple(b for b in s.bindings if b.name in kept))
        alone = isinstance(s, Reduce) and all(a in opened for a in s.dim.axes)
        if isinstance(s, Permute) or (isinstance(s, Where) and not s.bindings) or widened or alone:
            same[s.dst.name] = s.src  # type: ignore[union-attr]
            return None
        return s

    # a loop comes after what is in it, but what it reads from before it is known by then
    return replace(program, body=rewritten(program.body, one))


@dataclass(frozen=True)
class Array:
    """A part of a thread's memory: a value over ``axes``, at strides from each other."""

    offset: int  # bytes
    strides: dict[Axis, int]


class Values:
    """The values of one (simplified) program."""

    def __init__(self, program: TileProgram) -> None:
        self.program, self.kernel = program, program.kernel
        self.padded = padded(program)
        self.opened, self.loops, self.across = loop_order(program)
        self.statements = tuple(program.statements())
        self.states = {a.old.name: a.old for s in self.statements if isinstance(s, Loop) for a in s.accumulators}
        self.maker = {s.dst.name: s for s in self.statements if not isinstance(s, Loop | Store)}
        self.written = frozenset(program.stores())
        self.readers: dict[str, list[Statement]] = {}
        for s in self.statements:
            for v in direct_uses(s):
                self.readers.setdefault(v.name, []).append(s)
        self.virtual = cache(self._virtual)
        self.consumers: dict[str, list[Statement]] = {}
        for s in self.statements:
            if self.placed(s):
                for name in self.reads(s):
                    self.consumers.setdefault(name, []).append(s)
        self.root = self._in_place()
        self._arrays: dict[str, Array] = {}
        self.size = 0
        self._check_bindings(program.body, frozenset())

    def over(self, v: Value) -> tuple[Axis, ...]:
        """The axes of the loops in which a value is made, outermost first."""
        return self.runs(v.dims)

    def runs(self, dims: tuple[Dim, ...]) -> tuple[Axis, ...]:
        """The axes of the loops over the lanes of dims, outermost first."""
        lanes = {a for d in dims for a in d.axes}
        return tuple(a for a in self.loops if a in lanes)

    # -- what is computed again ----------------------------------------------------------------------------------------------
    def placed(self, s: Statement) -> bool:
        """Whether a statement has a place of its own."""
        if isinstance(s, Loop | Store):
            return True
        return not self.virtual(s.dst.name, 0) and not self.unread(s.dst.name)

    def unread(self, name: str) -> bool:
        """All who read a value read it from memory themselves."""
        return all(isinstance(r, Dot) and self._from_memory(r, name) for r in self.readers.get(name, ()))

    def _from_memory(self, s: Dot, name: str) -> bool:
        acc = s.acc is not None and s.acc.name == name
        return not acc and any(v.name == name and self.direct(v, at == 0) is not None for at, v in enumerate((s.a, s.b)))

    def _virtual(self, name: str, depth: int) -> bool:
        s = self.maker.get(name)
        if s is None or isinstance(s, Loop | Store) or not self.over(s.dst) or depth > _DEPTH:
            return False
        if any(isinstance(r, Loop) or (isinstance(r, Dot) and not self._from_memory(r, name)) for r in self.readers.get(name, ())):
            return False
        if isinstance(s, Load):
            return not s.access.looked and s.access.buffer not in self.written
        if isinstance(s, IndexValue | Fill | ExtentValue):
            return True
        if not isinstance(s, Let | Cast | Where):
            return False
        if isinstance(s, Let) and (operation(s.op).cost > 1.0 or operation(s.op).special):
            return False
        if isinstance(s, Cast) and s.dst.dtype.is_float and s.dst.dtype.itemsize < 4:
            return False
        return all(self.virtual(v.name, depth + 1) for v in uses(s) if v.dims == s.dst.dims)

    def reads(self, s: Statement) -> tuple[str, ...]:
        """The values that must be there where a statement is: what it reads, in place of what is virtual that from which this is made."""
        found: dict[str, None] = {}
        stack = list(direct_uses(s))
        while stack:
            v = stack.pop()
            if isinstance(s, Dot) and self._from_memory(s, v.name):
                continue
            maker = self.maker.get(v.name)
            if maker is not None and self.virtual(v.name, 0):
                stack += uses(maker)
            else:
                found[v.name] = None
        return tuple(found)

    # -- products ------------------------------------------------------------------------------------------------------------
    @cache  # noqa: B019 - lives as long as a printer
    def direct(self, v: Value, left: bool) -> Access | None:
        """The access by which a product can read an operand from memory: nothing masked or looked up, and every axis at a stride.
        The left one is read as it is, so it has to be float32."""
        s = self.maker.get(v.name)
        if not isinstance(s, Load) or s.access.inside or s.access.looked or s.access.buffer in self.written:
            return None
        if any(b.name in self.padded for b in s.access.valid):
            return None
        stored = self.kernel.buffers[s.access.buffer].dtype
        if stored != dtypes.float32 and (left or stored.itemsize != 2 or not stored.is_float):
            return None
        lanes = {a for d in v.dims for a in d.axes}
        if any(len(d.axes) > 1 for d in v.dims):
            return None
        compound = any(not isinstance(atom, Axis) and lanes & atom.numerator.axes() for e in s.access.index for atom, _ in e.terms)
        return None if compound else s.access

    # -- arrays --------------------------------------------------------------------------------------------------------------
    def array(self, name: str, over: tuple[Axis, ...], itemsize: int) -> Array:
        """The array of a value, made when it is first asked for."""
        name = self.root.get(name, name)
        if name not in self._arrays:
            strides, n = {}, 1
            last = next((d for d in reversed(self.program.dims) if over and over[-1] in d.axes), None)
            for a in reversed(over):
                if last is not None and a not in last.axes:
                    n, last = -(-n // ROW) * ROW, None
                strides[a] = n
                n *= self.kernel.tile(a)
            self._arrays[name] = Array(self.size, strides)
            self.size += -(-(n + ROW) * itemsize // 64) * 64
        return self._arrays[name]

    def memory(self, size: int) -> int:
        """The offset of so many bytes."""
        at, self.size = self.size, self.size + -(-size // 64) * 64
        return at

    def _in_place(self) -> dict[str, str]:
        """Values in the place of an accumulator: its new value, and what this is made of, lane by lane, from the old one that nothing else
        reads."""
        found: dict[str, str] = {}
        for loop in (s for s in self.statements if isinstance(s, Loop)):
            for a in loop.accumulators:
                chain, v, reader = [], a.new, loop
                while v.name != a.old.name:
                    maker = self.maker.get(v.name)
                    if self.consumers.get(v.name) != [reader] or v.name in found or not isinstance(maker, Let | Dot):
                        break
                    candidates = (maker.acc,) if isinstance(maker, Dot) else maker.args
                    same = [x for x in candidates if isinstance(x, Value) and x.dims == a.old.dims and x.dtype == a.old.dtype]
                    before = [x for x in same if x.name == a.old.name] or [x for x in same if x.name in self.maker]
                    if len(before) != 1 or not self.over(a.old):
                        break
                    chain.append(v.name)
                    v, reader = before[0], maker  # type: ignore[assignment]
                else:
                    if self.consumers.get(a.old.name, []).count(reader) == 1 and self._only(a.old.name, reader, loop):
                        found.update(dict.fromkeys(chain, a.old.name))
        return found

    def _only(self, name: str, reader: Statement, loop: Loop) -> bool:
        """Within its loop, a state is read by one statement."""
        inside = list(walk_statements(loop.body))
        return all(r is reader or not any(r is s for s in inside) for r in self.consumers[name])

    def _check_bindings(self, body: tuple[Statement, ...], outer: frozenset[Axis]) -> None:
        """The lanes of an axis are those of one tile: a loop over it inside of another one sees nothing with lanes of the outer tile."""
        for s in body:
            if isinstance(s, Loop):
                axis = s.binding.axis
                if axis in outer and (s.binding.name in self.padded or any(axis in self.over(v) for v in uses(s))):
                    raise PlanError(f"no C for a loop over {axis.name} inside of another one whose tile it reads")
                self._check_bindings(s.body, outer | {axis})
            elif isinstance(s, Reduce | Scan) and len(s.dim.axes) > 1:
                raise PlanError("no C for reductions over packed axes")


def dims_of(s: Statement) -> tuple[Dim, ...]:
    """The dims that a statement runs over."""
    if isinstance(s, Store):
        return s.access.dims
    if isinstance(s, Reduce):
        return tuple({d: None for x in s.parts or (s.src,) for d in x.dims})
    return s.dst.dims if not isinstance(s, Loop) else ()


def tile_of(kernel: Kernel, axes: tuple[Axis, ...]) -> int:
    """Lanes of several axes."""
    n = 1
    for a in axes:
        n *= kernel.tile(a)
    return n
