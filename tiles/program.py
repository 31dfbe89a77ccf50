"""The tile program: what one program instance of a kernel does, as a tree of loops over tile values.

It has three readers with one meaning: :mod:`.simulate` runs it in numpy, :mod:`.walk` counts its work, and the code generator prints
it.  Nothing is left to decide here: every value has its dimensions in order and its element type, every memory access its index
expressions, its mask and what to tell the cache, every loop its accumulators, every contraction its operand type and precision; and
once it is finished (:mod:`.finish`) every operation is one of a machine, and the kernel has its parameters.

A *dim* is a dimension of a tile; it holds one axis, or several merged by index arithmetic (a pack).  A *binding* is one variable that
runs over an axis: the program index of a grid axis, the single tile of a resident axis, or a loop.  One axis may be bound by several
loops, one inside the other even, so statements name bindings and never axes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal as OneOf
from typing import TypeVar

from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr
from .kernel import Kernel


@dataclass(frozen=True)
class Dim:
    """A dimension of a tile: its axes, slowest first, with the tile size of each.  ``each``: how many neighbours along its axis, of which
    it has one, each of its lanes is for (:mod:`.lanes`)."""

    name: str
    axes: tuple[Axis, ...]
    tiles: tuple[int, ...]
    size: int  # the product of the tiles
    each: int = 1

    def stride(self, axis: Axis) -> int:
        """Lanes between neighbouring positions of one axis of a pack."""
        at, inner = self.axes.index(axis), 1
        for t in self.tiles[at + 1 :]:
            inner *= t
        return inner


@dataclass(frozen=True)
class Binding:
    """A variable over an axis.  Position of lane l: ``start + l``; ``start`` advances by ``tile``.  ``even``: no lane is ever padded."""

    name: str
    axis: Axis
    tile: int
    kind: OneOf["grid", "stream", "resident"]
    even: bool


@dataclass(frozen=True)
class Value:
    """A tile in registers.  ``dtype`` is float32 for all float arithmetic."""

    name: str
    dims: tuple[Dim, ...]
    dtype: DType

    @property
    def elements(self) -> int:
        """Number of lanes, padding included."""
        n = 1
        for d in self.dims:
            n *= d.size
        return n


@dataclass(frozen=True)
class Literal:
    """A number as an operand."""

    value: float


Operand = Value | Literal
CacheHint = OneOf["", "keep", "drop"]  # to the L2: hold it for a later load, or let it go first


@dataclass(frozen=True)
class Inside:
    """The mask ``0 <= expr < extent`` of an index expression that can leave its buffer dimension ``position``; ``axis``: one whose length
    this is, to be read at run time."""

    expr: IndexExpr
    position: int
    extent: int
    low: bool  # the expression can be negative
    high: bool  # the expression can reach the extent
    axis: Axis | None = None


@dataclass(frozen=True)
class Looked:
    """An axis of index expressions that is read where a value says; ``over``: the axes that the value depends on."""

    axis: Axis
    at: Value
    over: frozenset[Axis]


@dataclass(frozen=True)
class Access:
    """A tile of a buffer: one index expression per buffer dimension, over the axes of ``bindings``.

    ``valid``: bindings whose padded lanes are masked off; ``inside``: expressions with a mask of their own.  ``wide``: lanes need offsets
    of 64 bits (:mod:`.finish.offsets`).  ``looked``: axes of the expressions that are read where values say, masked where these are no
    positions; their lanes have offsets of 64 bits, whatever the others have.  One that no expression mentions has length 1, and masks.
    """

    buffer: str
    index: tuple[IndexExpr, ...]
    bindings: tuple[Binding, ...]
    dims: tuple[Dim, ...]
    valid: tuple[Binding, ...]
    inside: tuple[Inside, ...]
    wide: bool = False
    looked: tuple[Looked, ...] = ()

    @property
    def places(self) -> dict[Axis, Value]:
        """The values at which axes are read."""
        return {x.axis: x.at for x in self.looked}

    def binding(self, axis: Axis) -> Binding:
        """The binding of an axis here."""
        return next(b for b in self.bindings if b.axis is axis or b.axis == axis)


# -- statements --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """``dst = buffer[index]``, zero where masked.  ``hint``: :mod:`.finish.hints`.  ``block``: the elements along each dimension of the
    buffer of a block that a tensor descriptor loads if a call has one (:mod:`.finish.descriptors`); empty: by pointers."""

    dst: Value
    access: Access
    hint: CacheHint = ""
    block: tuple[int, ...] = ()


@dataclass(frozen=True)
class IndexValue:
    """``dst =`` the value of an index expression."""

    dst: Value
    expr: IndexExpr
    bindings: tuple[Binding, ...]


@dataclass(frozen=True)
class ExtentValue:
    """``dst =`` the length of an axis."""

    dst: Value
    axis: Axis


@dataclass(frozen=True)
class Count:
    """``dst =`` how many elements of a streamed axis were seen before this tile (old), with it (new), or are in it (tile)."""

    dst: Value
    binding: Binding
    which: OneOf["old", "new", "tile"]


@dataclass(frozen=True)
class IsFirst:
    """``dst =`` whether this is the first step of the loop."""

    dst: Value
    binding: Binding


@dataclass(frozen=True)
class Fill:
    """``dst =`` a constant tile."""

    dst: Value
    value: float


@dataclass(frozen=True)
class Let:
    """``dst = op(args)`` lane by lane, broadcast by dims; ``op`` as in :mod:`.operations`.

    ``contracted``: a product that a compiler computes in the same instruction as the sum that reads it.  ``stored``: the program that the
    kernel comes from keeps no more than 16 bits of the result.
    """

    dst: Value
    op: str
    args: tuple[Operand, ...]
    contracted: bool = False
    stored: bool = False


@dataclass(frozen=True)
class Lost:
    """``dst = (new - kept) - small``: what rounding added to ``new = kept + small``; zero where it is not finite."""

    dst: Value
    new: Value
    kept: Value
    small: Value


@dataclass(frozen=True)
class Mean:
    """``dst = src / count``: a mean from its sum.  ``binding`` is the loop, ``None`` when the whole axis has been seen."""

    dst: Value
    src: Value
    axis: Axis
    binding: Binding | None
    which: OneOf["old", "new", "final"]


@dataclass(frozen=True)
class Where:
    """``dst = src`` on valid lanes of the bindings, ``fill`` (a monoid's identity) on padded ones."""

    dst: Value
    src: Value
    bindings: tuple[Binding, ...]
    fill: float


@dataclass(frozen=True)
class Reduce:
    """``dst =`` the reduction of ``src`` over one dim.  ``parts``: of a state of several, what all of them are made of, ``src`` one of
    these; those that do not vary along a dim that others have lack it.  ``lanes``: the dim of which each lane has the reduction of its own
    neighbours, in place of one for all."""

    dst: Value
    monoid: str  # sum | max | min
    dim: Dim
    src: Value
    parts: tuple[Value, ...] = ()
    lanes: Dim | None = None


@dataclass(frozen=True)
class Scan:
    """``dst =`` the reductions of all prefixes of ``src`` along one dim.  What is after the end of an axis is in no prefix before it.
    ``parts``: as of a reduction.  ``wide``: sums are made in float64 and rounded once."""

    dst: Value
    monoid: str
    dim: Dim
    src: Value
    parts: tuple[Value, ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Dot:
    """``dst[m, n] = sum_k a[m, k] * b[k, n] (+ acc)`` on the matrix unit, accumulated in float32.

    ``precision``: ``ieee`` or ``tf32`` for float32 operands, empty for 16-bit ones.  ``loaded``: which operands come straight
    from memory.
    """

    dst: Value
    a: Value
    b: Value
    acc: Value | None
    precision: str
    loaded: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class Permute:
    """``dst = src`` with its dims in another order."""

    dst: Value
    src: Value


@dataclass(frozen=True)
class Cast:
    """``dst = src`` rounded to ``dst.dtype``."""

    dst: Value
    src: Value


@dataclass(frozen=True)
class Store:
    """``buffer[index] = src`` rounded to the buffer's type.  ``once``: grid bindings of which only the first program stores."""

    src: Value
    access: Access
    once: tuple[Binding, ...]
    hint: CacheHint = ""


@dataclass(frozen=True)
class Accumulator:
    """A value carried around a loop: ``identity`` before it, ``old`` at the start of a step and after the loop, ``new`` at the end.

    ``start``: a value that it goes on from in place of the identity: of the loop around it, or what a loop before has made
    (:mod:`.finish.starts`).  ``inplace``: the new value takes the place of the old one where it is computed, not at the end.
    """

    old: Value
    new: Value
    monoid: str
    identity: float
    start: Value | None = None
    inplace: bool = False


@dataclass(frozen=True)
class Edge:
    """A position on the axis of a loop: ``const`` plus multiples of positions of other bindings, (binding, coefficient, last), each at
    the first lane of its tile or at the last one, plus ``data``: a number that the statements around the loop have made."""

    terms: tuple[tuple[Binding, int, bool], ...]
    const: int
    data: Value | None = None


@dataclass(frozen=True)
class Extreme:
    """The least or the largest of several positions."""

    largest: bool
    of: tuple[Bound, ...]


Bound = Edge | Extreme
T = TypeVar("T")


def edges_of(bound: Bound) -> Iterator[Edge]:
    """The edges in a bound."""
    if isinstance(bound, Edge):
        yield bound
    else:
        for b in bound.of:
            yield from edges_of(b)


def evaluated(bound: Bound, edge: Callable[[Edge], T], least: Callable[[T, T], T], largest: Callable[[T, T], T]) -> T:
    """A bound in terms of what its edges are."""
    if isinstance(bound, Edge):
        return edge(bound)
    return functools.reduce(largest if bound.largest else least, [evaluated(b, edge, least, largest) for b in bound.of])


@dataclass(frozen=True)
class Clear:
    """A stretch of a loop in which conditions are ``known``: tiles all of whose elements are at or above every bound of ``starts``, below
    every one of ``stops``, and exist.  In others they may be anything."""

    known: tuple[tuple[Value, bool], ...]
    starts: tuple[Bound, ...]
    stops: tuple[Bound, ...]


@dataclass(frozen=True)
class Loop:
    """Steps over the tiles of a streamed axis.  ``level``: how many loops over this axis ran before it.

    Only tiles with an element at or above every bound of ``starts`` and below every bound of ``stops`` are visited: the others would
    change nothing (:mod:`.skipping`).  Of these ``part`` leaves the tiles of the clear stretch (``whole``) or those around it (``edges``,
    in order); a loop that is not parted visits all of them (:mod:`.finish.parts`).
    """

    binding: Binding
    level: int
    accumulators: tuple[Accumulator, ...]
    body: tuple[Statement, ...]
    starts: tuple[Bound, ...] = ()
    stops: tuple[Bound, ...] = ()
    clear: Clear | None = None
    part: OneOf["", "edges", "whole"] = ""

    @property
    def innermost(self) -> bool:
        """It contains no other loop."""
        return not any(isinstance(s, Loop) for s in self.body)

    @property
    def peeled(self) -> bool:
        """Full tiles run without masks, and the ragged last tile in a copy of the body with masks."""
        return not self.binding.even and self.innermost and not self.part

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """All bounds that say which tiles it visits."""
        return self.starts + self.stops + (self.clear.starts + self.clear.stops if self.clear is not None and self.part else ())

    @property
    def edges(self) -> tuple[Value, ...]:
        """What its bounds and those of its clear stretch are made of, beside positions."""
        clear = () if self.clear is None else self.clear.starts + self.clear.stops
        data = (e.data for b in (*self.starts, *self.stops, *clear) for e in edges_of(b))
        return tuple(dict.fromkeys(v for v in data if v is not None))


Statement = (
    Load
    | IndexValue
    | ExtentValue
    | Count
    | IsFirst
    | Fill
    | Let
    | Lost
    | Mean
    | Where
    | Reduce
    | Scan
    | Dot
    | Permute
    | Cast
    | Store
    | Loop
)


@dataclass(frozen=True)
class Param:
    """One parameter of a printed kernel.

    ``value`` is the constant of a ``constexpr`` and the planned value of an ``int``.  A pointer belongs to ``buffer``; a stride to
    ``buffer`` and its dimension ``position``; an extent or a tile size to ``axis``.  ``dtype`` is the pointee of a pointer.
    A descriptor is of blocks of its ``buffer`` with the shape ``block``, and nothing where a call cannot have one.
    A unit (:mod:`.finish.parameters`) ``divides`` others; its ``value`` is the logarithm of the planned one.
    """

    name: str
    kind: OneOf["pointer", "descriptor", "int", "constexpr"]
    dtype: DType | None
    value: int | None
    buffer: str | None = None
    axis: Axis | None = None
    position: int | None = None
    divides: tuple[Param, ...] = ()
    block: tuple[int, ...] = ()


@dataclass(frozen=True)
class TileProgram:
    """A lowered kernel.  ``fixed`` are the grid and resident bindings, grid ones in launch order, slowest first.

    ``split``: loops could not be shared by axis without a cycle, so they were placed by one global reduction depth.
    ``contracts``: the compiler may make one operation of a product and a sum.  ``parameters``: what a printed kernel takes, in order;
    none before the program is finished.  ``backwards``: grid bindings whose tiles are taken from the last to the first.  ``coarse``: dims
    whose lanes are for several neighbours each, beside ``dims``.
    """

    kernel: Kernel
    dims: tuple[Dim, ...]
    fixed: tuple[Binding, ...]
    body: tuple[Statement, ...]
    split: bool = False
    contracts: bool = True
    parameters: tuple[Param, ...] = ()
    backwards: tuple[Binding, ...] = ()
    coarse: tuple[Dim, ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name

    @property
    def grid(self) -> tuple[Binding, ...]:
        """The grid bindings, slowest first."""
        return tuple(b for b in self.fixed if b.kind == "grid")

    @property
    def tasks(self) -> int:
        """How many tiles the grid has."""
        return math.prod(-(-b.axis.size // b.tile) for b in self.grid)

    def statements(self) -> Iterator[Statement]:
        """All statements in program order, a loop before its body."""
        return walk_statements(self.body)

    def loads(self) -> tuple[str, ...]:
        """The buffers it reads, each once, in order of first use."""
        return tuple(dict.fromkeys(s.access.buffer for s in self.statements() if isinstance(s, Load)))

    def stores(self) -> tuple[str, ...]:
        """The buffers it writes, each once, in the order of the roots."""
        return tuple(dict.fromkeys(r.buffer for r in self.kernel.roots))

    def __str__(self) -> str:
        return program_text(self)


def walk_statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements of a body in order, a loop before its body."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from walk_statements(s.body)


def rewritten(body: tuple[Statement, ...], one: Callable[[Statement], Statement | None]) -> tuple[Statement, ...]:
    """The body with every statement replaced, or left out for ``None``; a loop after what is in it."""
    found: list[Statement] = []
    for s in body:
        t = one(replace(s, body=rewritten(s.body, one)) if isinstance(s, Loop) else s)
        if t is not None:
            found.append(t)
    return tuple(found)


def defines(s: Statement) -> tuple[Value, ...]:
    """The values that a statement makes visible to the statements after it."""
    if isinstance(s, Loop):
        return tuple(a.old for a in s.accumulators)
    return () if isinstance(s, Store) else (s.dst,)


def uses(s: Statement) -> tuple[Value, ...]:
    """The values that a statement reads; for a loop, those from outside it."""
    if isinstance(s, Load):
        return tuple(x.at for x in s.access.looked)
    if isinstance(s, IndexValue | ExtentValue | Count | IsFirst | Fill):
        return ()
    if isinstance(s, Let):
        return tuple(a for a in s.args if isinstance(a, Value))
    if isinstance(s, Lost):
        return (s.new, s.kept, s.small)
    if isinstance(s, Dot):
        return (s.a, s.b) if s.acc is None else (s.a, s.b, s.acc)
    if isinstance(s, Reduce | Scan) and s.parts:
        return s.parts
    if isinstance(s, Loop):
        inner = {v.name for t in s.body for v in defines(t)} | {a.old.name for a in s.accumulators}
        found = {v.name: v for t in s.body for v in uses(t) if v.name not in inner}
        found.update({v.name: v for a in s.accumulators for v in (a.new, a.start) if v is not None and v.name not in inner})
        found.update({v.name: v for v in s.edges})
        return tuple(found.values())
    return (s.src,)


def direct_uses(s: Statement) -> tuple[Value, ...]:
    """What a statement reads; for a loop, its edges and the values that its accumulators start from and take at the end of a step."""
    if isinstance(s, Loop):
        return s.edges + tuple(v for a in s.accumulators for v in (a.start, a.new) if v is not None)
    return uses(s)


# text: one statement to a line, for people and for tests, not for a compiler -----------------------------------------------------------
def program_text(program: TileProgram) -> str:
    """The whole program."""
    grid = ", ".join(f"{b.name}/{b.tile}{' backwards' * (b in program.backwards)}" for b in program.grid)
    return "\n".join([f"{program.name}[{grid}]", *_block(program.body, 1)])


def _block(body: tuple[Statement, ...], depth: int) -> list[str]:
    lines = []
    for s in body:
        lines.append("  " * depth + statement_text(s))
        if isinstance(s, Loop):
            lines += _block(s.body, depth + 1)
            lines += ["  " * (depth + 1) + f"{a.old.name} <- {a.new.name}{' in place' * a.inplace}" for a in s.accumulators]
    return lines


def _value(v: Value) -> str:
    return f"{v.name}: {v.dtype.short}[{', '.join(f'{d.name}/{d.size}' for d in v.dims)}]"


def _operand(v: Operand) -> str:
    return repr(v.value) if isinstance(v, Literal) else v.name


def _access(a: Access) -> str:
    masks = [f"{b.name} ok" for b in a.valid]
    masks += [f"{'0 <= ' if i.low else ''}{i.expr}{f' < {i.extent}' if i.high else ''}" for i in a.inside]
    places = [f"{x.axis.name} = {x.at.name}" for x in a.looked]
    at = f" at {', '.join(places)}" if places else ""
    return f"{a.buffer}[{', '.join(map(str, a.index))}]{at}" + (f" where {', '.join(masks)}" if masks else "")


def _hint(hint: str) -> str:
    return f", {hint} it cached" if hint == "keep" else ", drop it from the cache" if hint else ""


def _bound(b: Bound) -> str:
    return evaluated(b, _edge, "min({}, {})".format, "max({}, {})".format)


def _edge(e: Edge) -> str:
    data = () if e.data is None else (e.data.name,)
    return " + ".join([*(f"{c} * {'last' if last else 'first'}({b.name})" for b, c, last in e.terms), *data, str(e.const)])


def statement_text(s: Statement) -> str:
    """One statement; of a loop, its head."""
    if isinstance(s, Loop):
        states = ", ".join(f"{_value(a.old)} = {a.identity if a.start is None else a.start.name}" for a in s.accumulators)
        edges = "".join(f" from {_bound(e)}" for e in s.starts) + "".join(f" to {_bound(e)}" for e in s.stops)
        if s.clear is not None:
            inner = "".join(f" from {_bound(e)}" for e in s.clear.starts) + "".join(f" to {_bound(e)}" for e in s.clear.stops)
            facts = ", ".join(f"{v.name}" if truth else f"not {v.name}" for v, truth in s.clear.known)
            words = {"": f"; {facts} in whole tiles{inner}", "edges": f" without whole tiles{inner}", "whole": f"; whole tiles{inner}"}
            edges += words[s.part]
        return f"for {s.binding.name}/{s.binding.tile}{edges} (level {s.level})" + (f" carrying {states}" if states else "")
    if isinstance(s, Store):
        once = f" once per {', '.join(b.name for b in s.once)}" if s.once else ""
        return f"{_access(s.access)} = {s.src.name}{once}{_hint(s.hint)}"
    return f"{_value(s.dst)} = {_right(s)}"


def _right(s: Statement) -> str:
    if isinstance(s, Load):
        return _access(s.access) + _hint(s.hint)
    if isinstance(s, Let):
        return f"{s.op}({', '.join(map(_operand, s.args))}){' in the sum' * s.contracted}"
    if isinstance(s, Lost):
        return f"lost in {s.new.name} = {s.kept.name} + {s.small.name}"
    if isinstance(s, Where):
        return f"{s.src.name} where {', '.join(b.name for b in s.bindings)} ok else {s.fill}"
    if isinstance(s, Reduce):
        to = f" by {s.lanes.each}" if s.lanes else ""
        return f"{s.monoid} {s.dim.name}{to} of {', '.join(v.name for v in s.parts or (s.src,))}"
    if isinstance(s, Scan):
        return f"{s.monoid} up to {s.dim.name} of {', '.join(v.name for v in s.parts or (s.src,))}"
    if isinstance(s, Dot):
        words = [f"+ {s.acc.name}" if s.acc else "", s.precision]
        return " ".join(w for w in (f"dot({s.a.name}, {s.b.name})", *words) if w)
    if isinstance(s, Permute | Cast):
        return f"{type(s).__name__.lower()}({s.src.name})"
    if isinstance(s, Mean):
        return f"{s.src.name} / seen({s.axis.name}, {s.which})"
    if isinstance(s, Count):
        return f"seen({s.binding.name}, {s.which})"
    if isinstance(s, IsFirst):
        return f"first({s.binding.name})"
    if isinstance(s, IndexValue):
        return f"position {s.expr}"
    if isinstance(s, ExtentValue):
        return f"extent {s.axis.name}"
    assert isinstance(s, Fill)
    return repr(s.value)
