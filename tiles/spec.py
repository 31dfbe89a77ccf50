"""What a tile program may be: the language of :mod:`.program` as a table of laws (:mod:`..ir.spec`).

This is what lowering promises its readers, the printers, the simulator and the counter of work: none of them looks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..ir import dtypes
from ..ir.dtypes import DTYPES
from ..ir.monoids import MONOIDS
from ..ir.spec import (
    ADD_MONOID,
    ADD_OP,
    ADD_SCAN,
    ADD_SPELLING,
    KNOWN_MONOID,
    KNOWN_OP,
    PRINTABLE_MONOID,
    SCANNED_MONOID,
    Row,
    Spec,
    carried,
    scanned,
    takes,
)
from .masks import access, padded
from .operations import FINISHED, operation
from .program import (
    Access,
    Accumulator,
    Binding,
    Cast,
    Count,
    Dim,
    Dot,
    ExtentValue,
    Fill,
    IndexValue,
    IsFirst,
    Let,
    Load,
    Loop,
    Lost,
    Mean,
    Permute,
    Reduce,
    Scan,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    edges_of,
    statement_text,
    uses,
)


@dataclass(frozen=True)
class _Scope:
    """Where a statement stands: the values and bindings that it can read, and the names that were given before it."""

    program: TileProgram
    values: Mapping[str, Value]
    bindings: Mapping[str, Binding]
    given: frozenset[str] | set[str]

    def sees(self, *values: Value | None) -> bool:
        """Whether values are defined here, as they are said to be."""
        return all(v is None or self.values.get(v.name) == v for v in values)

    def open(self, *bindings: Binding | None) -> bool:
        """Whether bindings run here."""
        return all(b is None or self.bindings.get(b.name) == b for b in bindings)


Judged = Statement | Accumulator | TileProgram


def _judged(program: TileProgram) -> Iterator[tuple[_Scope, Judged]]:
    """Everything that rows judge, in program order, each with its scope; the accumulators of a loop at the end of its body."""
    given: set[str] = set()

    def block(body: tuple[Statement, ...], values: dict[str, Value], bindings: dict[str, Binding]) -> Iterator[tuple[_Scope, Judged]]:
        scope = _Scope(program, values, bindings, given)
        for s in body:
            yield scope, s
            if isinstance(s, Loop):
                states = {a.old.name: a.old for a in s.accumulators}
                given.update(states)
                inner = {**values, **states}
                inside = {**bindings, s.binding.name: s.binding}
                yield from block(s.body, inner, inside)
                for a in s.accumulators:
                    yield _Scope(program, inner, inside, given), a
                values.update(states)
            elif not isinstance(s, Store):
                given.add(s.dst.name)
                values[s.dst.name] = s.dst

    yield _Scope(program, {}, {}, given), program
    yield from block(program.body, {}, {b.name: b for b in program.fixed})


def _reads(s: Statement) -> tuple[Value | None, ...]:
    """What a statement reads where it stands."""
    return (*s.edges, *(a.start for a in s.accumulators)) if isinstance(s, Loop) else uses(s)


def _named(s: Statement) -> list[str]:
    """The names that a statement gives."""
    return [a.old.name for a in s.accumulators] if isinstance(s, Loop) else [] if isinstance(s, Store) else [s.dst.name]


def _bindings(s: Statement) -> Iterator[Binding | None]:
    """The bindings that a statement mentions, but the one that it opens."""
    if isinstance(s, Load | Store):
        yield from (*s.access.bindings, *s.access.valid, *(s.once if isinstance(s, Store) else ()))
    elif isinstance(s, IndexValue | Where):
        yield from s.bindings
    elif isinstance(s, Count | IsFirst | Mean):
        yield s.binding
    elif isinstance(s, Loop):
        yield from (b for bound in s.bounds for e in edges_of(bound) for b, _, _ in e.terms)


def _dims(s: Statement | Accumulator) -> Iterator[Dim]:
    if isinstance(s, Load | Store):
        yield from s.access.dims
    elif isinstance(s, Loop):
        for a in s.accumulators:
            yield from a.old.dims
    elif not isinstance(s, Accumulator):
        yield from s.dst.dims


def _of_program(at: _Scope, s: Statement) -> bool:
    found = list(_dims(s))
    known = (*at.program.dims, *at.program.coarse)
    return all(d in known for d in found) and (isinstance(s, Loop) or len(set(found)) == len(found))


def _broadcast(s: Let) -> bool:
    """The dims of the result are those of its arguments, which have them in the same order."""
    fine = {d.axes: d for d in s.dst.dims if d.each == 1}  # a lane for several neighbours goes to each of them
    tiles = [tuple(fine.get(d.axes, d) for d in a.dims) for a in s.args if isinstance(a, Value)]
    return set(s.dst.dims) == {d for dims in tiles for d in dims} and all(
        tuple(d for d in s.dst.dims if d in dims) == dims for dims in tiles
    )


def _agree(s: Let) -> bool:
    """Truth values where an op asks for them; beside each other floats, in float32, or integers; and the result is what the op makes."""
    spec = operation(s.op)
    lead = 1 if s.op == "where" else len(s.args) if s.op in ("and", "or", "not") else 0
    values = [a for a in s.args[lead:] if isinstance(a, Value)]
    if any(isinstance(a, Value) and a.dtype != dtypes.bool_ for a in s.args[:lead]):
        return False
    if any(v.dtype != dtypes.float32 and v.dtype.kind != "int" for v in values) or len({v.dtype.kind for v in values}) > 1:
        return False
    if spec.result == "bool":
        return s.dst.dtype == dtypes.bool_
    whole = s.dst.dtype in (dtypes.int32, dtypes.int64)
    if spec.result in ("float", "int"):
        return (whole if spec.result == "int" else s.dst.dtype == dtypes.float32) and all(v.dtype.is_float != whole for v in values)
    return (whole or s.dst.dtype == dtypes.float32) and all(v.dtype.is_float != whole for v in values)


def _product(s: Dot) -> bool:
    if not (len(s.a.dims) == len(s.b.dims) == len(s.dst.dims) == 2):
        return False
    (m, k), (also, n) = s.a.dims, s.b.dims
    return k == also and s.dst.dims == (m, n) and (s.acc is None or set(s.acc.dims) == {m, n})


def _operands(s: Dot) -> bool:
    wide = s.a.dtype == dtypes.float32
    return s.a.dtype == s.b.dtype and s.a.dtype.is_float and (s.precision in ("ieee", "tf32") if wide else s.precision == "")


def _same(*values: Value | None) -> bool:
    """Tiles of one shape and type."""
    return len({(v.dims, v.dtype) for v in values if v is not None}) == 1


def printed(name: str) -> bool:
    """Whether tiles can be reduced by a monoid: one of several parts in any order, as a compiler does it."""
    m = MONOIDS[name]
    return bool(m.triton) if m.several is None else m.several.commutative


def _together(at: _Scope, s: Reduce | Scan) -> tuple[Dim, ...] | None:
    """The dims of what is reduced or scanned: of all parts of a state, of which the value is one."""
    parts, m = s.parts or (s.src,), MONOIDS[s.monoid]
    found = tuple(d for d in at.program.dims if any(d in v.dims for v in parts)) if s.parts else s.src.dims
    known = len(parts) == m.parts and parts[m.part] == s.src and s.dst.dtype == s.src.dtype
    ordered = all(v.dims == tuple(d for d in found if d in v.dims) for v in parts)
    whole = len(s.dim.axes) == 1 or (isinstance(s, Reduce) and m.idempotent)  # as edges take those of packed dims
    return found if known and ordered and s.dim in found and whole else None


def _left(s: Reduce, dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The dims that a reduction leaves."""
    if s.lanes is None:
        return tuple(d for d in dims if d != s.dim)
    by_lane = s.lanes.axes == s.dim.axes and s.lanes.each * s.lanes.size == s.dim.size and not s.parts
    return tuple(s.lanes if d == s.dim else d for d in dims) if by_lane else ()


def _indexed(at: _Scope, access: Access) -> bool:
    """An index for each dimension, over the axes of the bindings and no others."""
    axes = {a for e in access.index for a in e.axes()}
    bound = {b.axis for b in access.bindings}
    if len(access.index) != len(at.program.kernel.buffers[access.buffer].shape) or not axes - access.places.keys() <= bound:
        return False
    lanes = {d for v in access.places.values() for d in v.dims}
    return lanes <= set(access.dims) if access.looked else axes == bound


def _looked(access: Access) -> bool:
    """What says where an axis is read is whole numbers, whose dims the access has in their order."""
    return all(
        v.dtype in (dtypes.int32, dtypes.int64) and v.dims == tuple(d for d in access.dims if d in v.dims) for v in access.places.values()
    )


def _bounded(at: _Scope, a: Access) -> bool:
    needed = access(at.program.kernel, a.buffer, a.index, a.bindings, a.dims).inside
    return set(needed) <= set(a.inside)


def _bound(at: _Scope, s: Loop) -> bool:
    """A loop runs over a streamed axis under a name of its own."""
    b = s.binding
    return b.kind == "stream" and b.name not in at.bindings and s.level >= 0


def _tiled(program: TileProgram) -> bool:
    """Bindings have the tiles of the roles, and are even where no lane is padded."""
    loops = (s.binding for s in program.statements() if isinstance(s, Loop))
    roles = program.kernel.roles
    bindings = (*program.fixed, *loops)
    return all(b.axis in roles and b.tile == roles[b.axis].tile and b.even == program.kernel.even(b.axis) for b in bindings)


def _made_of(program: TileProgram) -> bool:
    """A dim is made of axes with their tiles, no axis in two."""
    axes = [a for d in program.dims for a in d.axes]
    sizes = all(
        d.tiles == tuple(program.kernel.tile(a) for a in d.axes) and d.size == d.stride(d.axes[0]) * d.tiles[0] for d in program.dims
    )
    coarse = all(
        any((d.axes, d.tiles[0]) == (f.axes, f.size // d.each) for f in program.dims) and d.tiles == (d.size,) and d.each > 1
        for d in program.coarse
    )
    return len(set(axes)) == len(axes) and sizes and coarse


def _complete(program: TileProgram) -> bool:
    stored = {s.access.buffer for s in program.statements() if isinstance(s, Store)}
    return stored == set(program.stores())


def _read_after(s: Loop, a: Accumulator) -> bool:
    """Whether the body reads the old value of an accumulator after the statement that makes the new one."""
    known = False
    for t in s.body:
        if known and a.old in uses(t):
            return True
        known = known or (not isinstance(t, Store | Loop) and t.dst.name == a.new.name)
    return False


_PLACES: tuple[Any, ...] = (Count, IsFirst, ExtentValue)  # one number, whatever the lane
STATEMENTS: tuple[Any, ...] = (*(Load, IndexValue, *_PLACES, Fill, Let, Lost, Mean, Where, Reduce, Scan, Dot, Permute, Cast, Store, Loop),)

TILES: Spec = Spec(
    "tile program",
    (
        Row(
            "dims of axes",
            "the dims are made of axes with the tiles of their roles, no axis in two",
            lambda at, p: _made_of(p),
            (TileProgram,),
        ),
        Row(
            "tiles of roles",
            "a binding has the tile of its axis's role, and knows whether lanes are padded",
            lambda at, p: _tiled(p),
            (TileProgram,),
        ),
        Row("complete", "every root of the kernel is stored, and nothing else", lambda at, p: _complete(p), (TileProgram,)),
        Row("word", "a statement is one of the language", lambda at, s: type(s) in TILES.kinds),
        Row(
            "defined before use",
            "a value that is read is defined before, in this block or one around it",
            lambda at, s: at.sees(*_reads(s)),
            STATEMENTS,
        ),
        Row(
            "named once",
            "a name is given to one value",
            lambda at, s: at.given.isdisjoint(_named(s)) and len(set(_named(s))) == len(_named(s)),
            STATEMENTS,
        ),
        Row("open bindings", "a binding that is mentioned runs here", lambda at, s: at.open(*_bindings(s)), STATEMENTS),
        Row(
            "dims",
            "the dims of a tile are the program's, each once",
            lambda at, s: _of_program(at, s),
            STATEMENTS,
        ),
        Row("known op", KNOWN_OP, lambda at, s: takes(s.op, len(s.args), FINISHED), (Let,), ADD_OP),
        Row("known monoid", KNOWN_MONOID, lambda at, s: carried(s.monoid), (Reduce, Scan, Accumulator), ADD_MONOID),
        Row("printable monoid", PRINTABLE_MONOID, lambda at, s: printed(s.monoid), (Reduce,), ADD_SPELLING),
        Row("scanned monoid", SCANNED_MONOID, lambda at, s: scanned(s.monoid), (Scan,), ADD_SCAN),
        Row(
            "known buffer",
            "what is loaded or stored is a buffer of the kernel; it does not store an input, nor load what it stores",
            lambda at, s: (
                (b := at.program.kernel.buffers.get(s.access.buffer)) is not None
                and (b.name not in at.program.stores() if isinstance(s, Load) else b.role != "input")
            ),
            (Load, Store),
        ),
        Row(
            "index",
            "memory has an index for each dimension, over the axes of the bindings",
            lambda at, s: _indexed(at, s.access),
            (Load, Store),
        ),
        Row(
            "looked up",
            "a load reads axes where whole numbers say, a store does not",
            lambda at, s: _looked(s.access) if isinstance(s, Load) else not s.access.looked,
            (Load, Store),
        ),
        Row(
            "masks",
            "padded lanes are masked in memory",
            lambda at, s: set(s.access.valid) == set(padded(s.access.bindings)),
            (Load, Store),
        ),
        Row(
            "bounds",
            "an index that can leave its dimension is masked where it does",
            lambda at, s: _bounded(at, s.access),
            (Load, Store),
        ),
        Row(
            "lanes",
            "the tile of an access has the dims of its bindings that have lanes",
            lambda at, s: set(s.access.dims) == {d for d in at.program.dims if any(b.axis in d.axes for b in s.access.bindings)},
            (Load, Store),
        ),
        Row(
            "loaded tile",
            "a loaded tile has the dims of the access and the type of the buffer",
            lambda at, s: s.dst.dims == s.access.dims and s.dst.dtype == at.program.kernel.buffers[s.access.buffer].dtype,
            (Load,),
        ),
        Row(
            "stored tile",
            "a stored tile has dims of the access, in its order",
            lambda at, s: tuple(d for d in s.access.dims if d in s.src.dims) == s.src.dims,
            (Store,),
        ),
        Row("one number", "what does not depend on lanes has no dims", lambda at, s: not s.dst.dims, _PLACES),
        Row(
            "position",
            "a position is over axes of its bindings, and has dims of theirs",
            lambda at, s: (
                {b.axis for b in s.bindings} == s.expr.axes()
                and all(any(a in s.expr.axes() for a in d.axes) for d in s.dst.dims)
                and s.dst.dtype.kind == "int"
            ),
            (IndexValue,),
        ),
        Row("broadcast", "the result of an op has the dims of its arguments, in one order", lambda at, s: _broadcast(s), (Let,)),
        Row(
            "types agree",
            "the arguments of an op are of one kind, floats in float32, and its result is of the type that it makes",
            lambda at, s: _agree(s),
            (Let,),
        ),
        Row(
            "same tile",
            "the value and what it is made from have one shape and type",
            lambda at, s: _same(s.dst, *((s.src,) if isinstance(s, Where) else _reads(s))),
            (Where, Lost),
        ),
        Row(
            "padded along",
            "what replaces padded lanes names bindings of dims that the tile has",
            lambda at, s: s.bindings and all(any(b.axis in d.axes for d in s.dst.dims) for b in s.bindings),
            (Where,),
        ),
        Row(
            "reduced dim",
            "a reduction takes one dim away, of one axis unless it is an extremum's, or leaves a lane for so many of its neighbours",
            lambda at, s: (dims := _together(at, s)) is not None and s.dst.dims == _left(s, dims),
            (Reduce,),
        ),
        Row(
            "scanned dim",
            "a scan runs along one dim of one axis, which it keeps",
            lambda at, s: _together(at, s) == s.dst.dims,
            (Scan,),
        ),
        Row(
            "mean",
            "a mean is float32, of the shape of its sum, and final where no loop is named",
            lambda at, s: _same(s.dst, s.src) and s.dst.dtype == dtypes.float32 and (s.binding is None) == (s.which == "final"),
            (Mean,),
        ),
        Row(
            "block",
            "a block has a length along each dimension of its buffer, and its kernel has descriptors",
            lambda at, s: not s.block or (at.program.kernel.descriptors and len(s.block) == len(s.access.index)),
            (Load,),
        ),
        Row("product", "a product is of rows and columns: [m, k] by [k, n]", lambda at, s: _product(s), (Dot,)),
        Row(
            "precision",
            "the operands of a product have one float type, its precision is of that type, and it sums in float32",
            lambda at, s: _operands(s) and s.dst.dtype == dtypes.float32 and (s.acc is None or s.acc.dtype == dtypes.float32),
            (Dot,),
        ),
        Row(
            "other order",
            "a permutation has the same dims and type",
            lambda at, s: set(s.dst.dims) == set(s.src.dims) and s.dst.dtype == s.src.dtype,
            (Permute,),
        ),
        Row(
            "other type",
            "a cast keeps the dims, and its type is one of the table",
            lambda at, s: s.dst.dims == s.src.dims and DTYPES.get(s.dst.dtype.name) == s.dst.dtype,
            (Cast,),
        ),
        Row(
            "parameters",
            "a parameter has a name of its own",
            lambda at, p: len({x.name for x in p.parameters}) == len(p.parameters),
            (TileProgram,),
        ),
        Row(
            "in place",
            "nothing reads the old value of an accumulator once a new one has its place",
            lambda at, s: not any(a.inplace and _read_after(s, a) for a in s.accumulators),
            (Loop,),
        ),
        Row(
            "edges of data",
            "the data of an edge are one integer of 32 bits",
            lambda at, s: all(v.dtype == dtypes.int32 and not v.dims for v in s.edges),
            (Loop,),
        ),
        Row("loop", "a loop runs over a streamed axis, under a name that nothing around it has", _bound, (Loop,)),
        Row(
            "state at the end",
            "the new value of an accumulator is defined at the end of the body",
            lambda at, a: at.sees(a.new),
            (Accumulator,),
        ),
        Row("state", "an accumulator keeps its shape and type", lambda at, a: _same(a.old, a.new, a.start), (Accumulator,)),
        Row(
            "identity",
            "an accumulator begins with the identity of its monoid, one that chooses perhaps with a bound, or goes on from a value",
            lambda at, a: a.start is not None or MONOIDS[a.monoid].idempotent or a.identity == MONOIDS[a.monoid].identity,
            (Accumulator,),
        ),
    ),
    type,
    lambda at, s: (
        f"{len(s.body)} statements"
        if isinstance(s, TileProgram)
        else f"{s.old.name} <- {s.new.name}"
        if isinstance(s, Accumulator)
        else statement_text(s)
        if type(s) in TILES.kinds
        else repr(s)
    ),
)


def check_tiles(program: TileProgram) -> None:
    """Raise SpecError unless a tile program is valid."""
    TILES.check(program.name, _judged(program))
