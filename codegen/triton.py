"""Printing a finished tile program as a Triton kernel.  Every decision is in the tile program already.

Conventions of the printed text, for an axis ``i``: ``N_i`` is its length and ``T_i`` its tile size, ``i0`` the start of the tile,
``r_i`` the lanes ``0 .. T_i - 1``, ``i_ok`` which of them exist.  Addresses are a scalar 64-bit base plus 32-bit lane offsets; all
floating point arithmetic is float32 with explicit casts; every masked load says what masked lanes hold.  A streamed axis that its tile
does not divide runs a main loop without masks, then its last tile with them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from ..ir import dtypes
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..tiles.names import extent_name, identifier, pointer_name, tile_name
from ..tiles.operations import operation
from ..tiles.program import (
    Access,
    Binding,
    Bound,
    CacheHint,
    Cast,
    Count,
    Dim,
    Dot,
    Edge,
    ExtentValue,
    Fill,
    IndexValue,
    IsFirst,
    Let,
    Literal,
    Load,
    Loop,
    Lost,
    Mean,
    Operand,
    Permute,
    Reduce,
    Scan,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    evaluated,
)
from . import states as states_text
from .text import broadcast, number, position, product, split_index, total, type_name, wrap

_HINTS = {"keep": "evict_last", "drop": "evict_first"}
_Places = tuple[Callable[[Axis], bool], Callable[[Axis], str | None], Callable[[Axis], str]]  # has lanes, start of its tile, its lanes
LINE = 128  # longest line before a call is broken


# what rounding added to new = kept + small: see tiles/compensation.py
LOST = '''
@triton.jit
def _lost_digits(new, kept, small):
    """What rounding added to new = kept + small; nothing where it is not finite."""
    lost = (new - kept) - small
    return tl.where(tl.abs(lost) < float("inf"), lost, 0.0)
'''


def print_kernel(program: TileProgram, member: bool = False) -> str:
    """The finished kernel as text: a ``@triton.jit`` function.  Helpers that it calls are in :func:`helpers`.  ``member``: of a launch of
    several kernels (:mod:`.joint`), so that it is told which of its programs it is."""
    return KernelPrinter(program, member).text


def helpers(programs: tuple[TileProgram, ...]) -> str:
    """The helper functions that some kernels call, each once."""
    statements = [s for p in programs for s in p.statements()]
    reduced = [m for m in MONOIDS.values() if m.prelude and any(isinstance(s, Reduce) and s.monoid == m.name for s in statements)]
    used = {s.op for s in statements if isinstance(s, Let)} | {m.combine for m in reduced}
    used |= {MONOIDS[s.monoid].combine for s in statements if isinstance(s, Scan) and not s.parts}
    states = {of.name: of for s in statements if isinstance(s, Reduce | Scan) and (of := MONOIDS[s.monoid].several) is not None}
    used |= {op for of in states.values() for op in of.operations}
    texts = [text for o in sorted(used) if (text := operation(o).spellings["triton"].helpers)]
    texts += [m.prelude for m in reduced]
    texts += [states_text.combining(states[name]) for name in sorted(states)]
    texts += [LOST] if any(isinstance(s, Lost) for s in statements) else []
    return "\n\n\n".join(t.strip("\n") for t in texts)


class KernelPrinter:
    """Prints one kernel; ``text`` is the result."""

    def __init__(self, program: TileProgram, member: bool = False) -> None:
        assert program.parameters, f"{program.name} is not finished"
        self.member = member
        self.program, self.kernel, self.exact = program, program.kernel, program.kernel.exact
        self.dim_of = {a: d for d in program.dims for a in d.axes}
        self.indent = 2 if self.kernel.persistent else 1
        self.lines: list[str] = []
        self.names: dict[str, str] = {}  # value name -> printed name, where another value's name serves
        self.full: set[str] = set()  # bindings that have no padded lanes here
        self.strides = {(p.buffer, p.position): p.name for p in program.parameters if p.position is not None and not p.divides}
        self.descriptors = {(p.buffer, p.block): p.name for p in program.parameters if p.kind == "descriptor"}
        self.lanes_used: dict[Axis, None] = {}
        self.masks_used: dict[str, Binding] = {}
        self.block(program.body)
        body, self.lines, self.indent = self.lines, [], 1
        self.preamble()
        head, self.lines = self.lines, []
        self.text = "\n".join([*self.header(), *self.in_units(), *head, *body]) + "\n"

    # -- the function around the body ----------------------------------------------------------------------------------------
    def header(self) -> list[str]:
        kinds = {"pointer": "{}", "descriptor": "{}", "int": "{}", "constexpr": "{}: tl.constexpr"}
        groups = ["pid"] if self.member else []
        for kind in kinds:
            words = [kinds[kind].format(p.name) for p in self.program.parameters if p.kind == kind]
            groups += wrap(words, 120)
        lines = ["@triton.jit", f"def {identifier(self.program.name)}("]
        lines += [f"    {g}," for g in groups]
        lines.append("):")
        notes = [f"{k}: {v}" if k else v for k, v in self.kernel.notes.items()]
        words = [line for note in (notes or [f"{self.program.name}."]) for line in note.splitlines()]
        quoted = [line.replace("\\", "\\\\").replace('"""', "'''") for line in words]
        if len(quoted) == 1:
            lines.append(f'    """{quoted[0]}"""')
        else:
            lines += [f'    """{quoted[0]}', *(f"    {line}".rstrip() for line in quoted[1:]), '    """']
        return lines

    def in_units(self) -> list[str]:
        """Lengths as multiples of what divides them."""
        lines = [f"    {p.name} = {p.name} >> {u.name} << {u.name}" for u in self.program.parameters for p in u.divides]
        return ["    # for the compiler, which does not know that these are multiples of 2**S", *lines] if lines else []

    def preamble(self) -> None:
        """Program indices, lanes and masks that the body uses."""
        grid = self.program.grid
        for b in self.masks_used.values():
            self.lanes_used[b.axis] = None
        if self.kernel.persistent:
            self.write_lanes()
            self.write_masks("resident")
            self.write(f"tasks = {product([self.blocks(b) for b in grid])}")
            # one stage: it is the loops inside that are pipelined
            self.write("for task in tl.range(tl.program_id(0), tasks, tl.num_programs(0), num_stages=1):")
            self.indent += 1
            self.write("pid = task")
        elif grid and not self.member:
            self.write("pid = tl.program_id(0)")
        if self.kernel.grouped:
            self.write_group(grid[-2], grid[-1], alone=len(grid) == 2)
        for b in reversed(grid[:-2] if self.kernel.grouped else grid):
            name, first = self.start_name(b), b is grid[0]
            blocks = self.blocks(b)
            index = "pid" if first else f"(pid % {blocks})"
            if b in self.program.backwards:
                index = f"({blocks} - 1 - {index})"
            self.write(f"{name} = {index}.to(tl.int64)" + self.scaled(b))
            if not first:
                self.write(f"pid = pid // {blocks}")
        if not self.kernel.persistent:
            self.write_lanes()
            self.write_masks("grid", "resident")
        else:
            self.write_masks("grid")
            self.indent -= 1

    def write_group(self, outer: Binding, inner: Binding, alone: bool) -> None:
        """The tiles of the last two grid axes, which programs take in groups (:mod:`~eqfuse.tiles.launch_order`)."""
        n, group = self.blocks(inner), self.kernel.grouped
        plane = "pid"
        self.write(f"# {group} tiles along {outer.axis.name}, then the next along {inner.axis.name}: what they load stays in the cache")
        if not alone:
            plane = "plane"
            self.write(f"{plane} = pid % ({self.blocks(outer)} * {n})")
            self.write(f"pid = pid // ({self.blocks(outer)} * {n})")
        self.write(f"first = {plane} // ({group} * {n}) * {group}")
        self.write(f"height = tl.minimum({self.blocks(outer)} - first, {group})")
        within = f"{plane} % ({group} * {n})"
        self.write(f"{self.start_name(inner)} = ({within} // height).to(tl.int64)" + self.scaled(inner))
        self.write(f"{self.start_name(outer)} = (first + {within} % height).to(tl.int64)" + self.scaled(outer))

    def scaled(self, b: Binding) -> str:
        """What makes the start of a tile of its number."""
        return f" * {self.tile(b.axis)}" if b.tile > 1 else ""

    def blocks(self, b: Binding) -> str:
        """How many tiles a grid axis has."""
        return f"tl.cdiv({extent_name(b.axis)}, {self.tile(b.axis)})" if b.tile > 1 else extent_name(b.axis)

    def write_lanes(self) -> None:
        for a in self.kernel.roles:
            if a in self.lanes_used:
                self.write(f"{self.lanes_name(a)} = {self.lanes_text(a)}")

    def write_masks(self, *kinds: str) -> None:
        for b in self.masks_used.values():
            if b.kind in kinds:
                start = f"{self.start_name(b)} + " if b.kind == "grid" else ""
                self.write(f"{self.mask_name(b)} = {start}{self.lanes_name(b.axis)} < {extent_name(b.axis)}")

    def write(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    # -- names ---------------------------------------------------------------------------------------------------------------
    def name(self, v: Value) -> str:
        return self.names.get(v.name, v.name)

    def start_name(self, b: Binding) -> str:
        return f"{identifier(b.name)}_start"

    def lanes_name(self, axis: Axis) -> str:
        return f"r_{identifier(axis.name)}"

    def mask_name(self, b: Binding) -> str:
        return f"{identifier(b.name)}_ok"

    def tile(self, axis: Axis) -> str:
        return tile_name(axis) if self.kernel.tile(axis) > 1 else "1"

    def dim_size(self, d: Dim) -> str:
        return product([self.tile(a) for a in d.axes]) + (f" // {d.each}" if d.each > 1 else "")

    def shape(self, dims: tuple[Dim, ...]) -> str:
        return "[" + ", ".join(self.dim_size(d) for d in dims) + "]"

    def shape_apart(self, dims: tuple[Dim, ...]) -> str:
        """The shape of a tile with what each lane is for in a dim of its own, behind that of the lane."""
        return "[" + ", ".join(self.dim_size(d) + (f", {d.each}" if d.each > 1 else "") for d in dims) + "]"

    def spread(self, v: Value, dims: tuple[Dim, ...]) -> str:
        """A tile expanded to other dims, each of its lanes for its neighbours."""
        coarse = next((d for d in v.dims if d.each > 1 and d not in dims), None)
        if coarse is None:
            return broadcast(self.name(v), v.dims, dims)
        own = {d.axes for d in v.dims}
        fine = tuple(d for d in dims if d.axes in own)
        apart = ", ".join(":, None" if d == coarse else ":" for d in v.dims)
        text = f"tl.reshape(tl.broadcast_to({self.name(v)}[{apart}], {self.shape_apart(v.dims)}), {self.shape(fine)})"
        return broadcast(text, fine, dims)

    def lanes_text(self, axis: Axis) -> str:
        d = self.dim_of[axis]
        text = f"tl.arange(0, {self.dim_size(d)})"
        if len(d.axes) == 1:
            return text
        at = d.axes.index(axis)
        inner = product([self.tile(a) for a in d.axes[at + 1 :]])
        text += "" if inner == "1" else f" // {inner}" if "*" not in inner else f" // ({inner})"
        return text + (f" % {self.tile(axis)}" if at else "")

    def has_lanes(self, axis: Axis) -> bool:
        return axis in self.dim_of

    def lanes(self, axis: Axis, dims: tuple[Dim, ...], *, wide: bool = False) -> str:
        """The lanes of an axis, broadcast over dims."""
        self.lanes_used[axis] = None
        name = self.lanes_name(axis)
        text = broadcast(name, (self.dim_of[axis],), dims)
        return f"{text}.to(tl.int64)" if wide else text

    def valid(self, bindings: tuple[Binding, ...], dims: tuple[Dim, ...]) -> list[str]:
        """Masks of bindings, without those that cannot be false here."""
        out = []
        for b in bindings:
            if b.even or b.name in self.full:
                continue
            self.masks_used[b.name] = b
            out.append(broadcast(self.mask_name(b), (self.dim_of[b.axis],), dims))
        return out

    def is_full(self, b: Binding) -> bool:
        return b.even or b.name in self.full

    # -- memory --------------------------------------------------------------------------------------------------------------
    def base(self, b: Binding) -> str | None:
        """The start of a tile as a 64-bit scalar; nothing for a resident axis."""
        if b.kind == "resident":
            return None
        return self.start_name(b) if b.kind == "grid" else f"tl.cast({self.start_name(b)}, tl.int64)"

    def address(self, at: Access) -> str:
        """A pointer tile."""
        scalars, vectors = [], []
        for p, e in enumerate(at.index):
            if not e.terms and not e.const:
                continue
            s, v = split_index(e, *self.places(at))
            step = self.strides[at.buffer, p]
            scalars += [f"{_grouped(s)} * {step}"] if s else []
            vectors += [f"{_grouped(v)} * {step}"] if v else []
        for a, place in at.places.items():
            if place.dims and all(a not in e.axes() for e in at.index):  # of length 1: nothing but the mask hangs on it
                vectors.append(f"{broadcast(self.name(place), place.dims, at.dims)} * 0")
        parts = [pointer_name(at.buffer)]
        parts += [f"({total(scalars)})"] if len(scalars) > 1 and vectors else scalars
        parts += [f"({total(vectors)})"] if len(vectors) > 1 else vectors
        return " + ".join(parts)

    def block_of(self, s: Load) -> str:
        """A block that a descriptor loads, with the dims of the tile."""
        at, starts = s.access, list[str]()
        for e in at.index:
            moving = (at.binding(a) for a in e.axes())
            parts = [f"tl.cast({self.start_name(b)}, tl.int32)" for b in moving if b.kind != "resident"]
            starts.append(total([*parts, str(e.const)] if e.const or not parts else parts))
        axes = [a for e in at.index for a in e.axes()]
        dims = [next(d for d in at.dims if a in d.axes) for a in axes if a in self.dim_of and self.dim_of[a] in at.dims]
        text = f"{self.descriptors[at.buffer, s.block]}.load([{', '.join(starts)}])"
        text += f".reshape({self.shape(tuple(dims))})" if len(dims) < len(at.index) else ""
        order = [dims.index(d) for d in at.dims]
        return text if order == sorted(order) else f"tl.permute({text}, ({', '.join(map(str, order))}))"

    def places(self, at: Access, *, wide: bool | None = None) -> _Places:
        """How an access reads along an axis.  What is looked up is a start or lanes, of 64 bits."""
        looked, wide = at.places, at.wide if wide is None else wide

        def lanes(a: Axis) -> bool:
            return bool(looked[a].dims) if a in looked else self.has_lanes(a)

        def start(a: Axis) -> str | None:
            if a in looked:
                return None if looked[a].dims else f"{self.name(looked[a])}.to(tl.int64)"
            return self.base(at.binding(a))

        def along(a: Axis) -> str:
            if a in looked:
                return f"{broadcast(self.name(looked[a]), looked[a].dims, at.dims)}.to(tl.int64)"
            return self.lanes(a, at.dims, wide=wide)

        return lanes, start, along

    def mask(self, at: Access) -> str:
        """The mask of an access; empty if nothing can be masked."""
        parts = self.valid(at.valid, at.dims)
        for a, v in at.places.items():
            text = broadcast(self.name(v), v.dims, at.dims)
            parts += [f"({text} >= 0)", f"({text} < {extent_name(a)})"]
        for i in at.inside:
            text = position(i.expr, *self.places(at, wide=False))
            parts += [f"({text} >= 0)"] if i.low else []
            parts += [f"({text} < {extent_name(i.axis) if i.axis else i.extent})"] if i.high else []
        return " & ".join(parts)

    # -- statements ----------------------------------------------------------------------------------------------------------
    def block(self, body: tuple[Statement, ...]) -> None:
        made: dict[tuple[str, ...], None] = {}
        for s in body:
            if isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Where) and all(self.is_full(b) for b in s.bindings):
                self.names[s.dst.name] = self.name(s.src)
            elif isinstance(s, Reduce | Scan) and s.parts:
                self.states(s, body, made)
            else:
                self.assign(self.name(s.dst), s)

    def assign(self, name: str, s: Statement) -> None:
        """``name = expression``; a long memory access is broken into lines."""
        if isinstance(s, Load) and s.block:
            self.write(f"if {self.descriptors[s.access.buffer, s.block]} is not None:")
            self.write(f"    {name} = {self.block_of(s)}")
            self.write("else:")
            self.indent += 1
            self.assign(name, replace(s, block=()))
            self.indent -= 1
        elif isinstance(s, Load):
            mask = self.mask(s.access)
            zero = {"float": "0.0", "int": "0", "bool": "False"}[s.dst.dtype.kind]
            masked = (f"mask={mask}", f"other={zero}") if mask else ()
            self.call(f"{name} = tl.load", self.address(s.access), *masked, _eviction(s.hint))
        else:
            self.write(f"{name} = {self.expression(s)}")

    def states(self, s: Reduce | Scan, body: tuple[Statement, ...], made: dict[tuple[str, ...], None]) -> None:
        """All parts of a state at once, where the first of them stands."""
        parts, of = (t for t in body if type(t) is type(s) and t.parts == s.parts and t.dim == s.dim), MONOIDS[s.monoid].several
        assert of is not None
        whole = [t for t in parts if isinstance(t, Reduce | Scan) and MONOIDS[t.monoid].several == of]
        if (key := tuple(t.dst.name for t in whole)) in made:
            return
        made[key] = None
        names = {MONOIDS[t.monoid].part: self.name(t.dst) for t in whole}
        dims = {d for v in s.parts for d in v.dims}
        shape = tuple(d for d in self.program.dims if d in dims)
        tiles = [(v, broadcast(self.name(v), v.dims, shape)) for v in s.parts]
        given = ", ".join(text if v.dims == shape else f"tl.broadcast_to({text}, {self.shape(shape)})" for v, text in tiles)
        to = ", ".join(names.get(k, "_") for k in range(len(s.parts)))
        how = "reduce" if isinstance(s, Reduce) else "associative_scan"
        self.write(f"{to} = tl.{how}(({given}), {shape.index(s.dim)}, {states_text.name_of(of)})")

    def call(self, head: str, *arguments: str) -> None:
        """A call on one line, or one argument to a line if it is too long."""
        given = [a for a in arguments if a]
        line = f"{head}({', '.join(given)})"
        if 4 * self.indent + len(line) <= LINE:
            self.write(line)
            return
        self.write(f"{head}(")
        for a in given:
            self.write(f"    {a},")
        self.write(")")

    def loop(self, s: Loop) -> None:
        b = s.binding
        name, n, tile = self.start_name(b), extent_name(b.axis), self.tile(b.axis)
        outside = dict(self.names)
        for a in s.accumulators:
            of, start = type_name(a.old.dtype), a.old.dtype.number(a.identity)
            fill = f"tl.zeros({{}}, {of})" if start == 0 else f"tl.full({{}}, {number(start, whole=not a.old.dtype.is_float)}, {of})"
            self.write(f"{a.old.name} = {fill.format(self.shape(a.old.dims)) if a.start is None else self.name(a.start)}")
        inplace = {a.new.name: a.old.name for a in s.accumulators if a.inplace}
        first, end = "0", n
        # the compiler pipelines a loop by itself only if it has a contraction
        deep = s.innermost and self.kernel.stages > 1 and not any(isinstance(t, Dot) for t in self.program.statements())
        stages = f", num_stages={self.kernel.stages}" if deep else ""
        if s.starts and s.part != "whole":
            first = self.scalar(f"{identifier(b.name)}_from", f"{self.most('0', s.starts)} // {tile} * {tile}")
        if s.stops and s.part != "whole":
            end = self.scalar(f"{identifier(b.name)}_to", self.nested("tl.minimum", [n, *map(self.bound, s.stops)]))
        if s.part:
            self.stretch(s, first, end, inplace, stages)
        elif s.peeled:
            stop = f"{identifier(b.name)}_full"
            self.write(f"{stop} = {n} // {tile} * {tile}")
            self.full.add(b.name)
            until = f"tl.minimum({stop}, {end})" if s.stops else stop
            self.one_loop(s, f"for {name} in tl.range({first}, {until}, {tile}{stages}):", inplace)
            self.full.discard(b.name)
            self.names = dict(outside)
            since = f"tl.maximum({stop}, {first})" if s.starts else stop
            self.one_loop(s, f"for {name} in tl.range({since}, {end}, {tile}, num_stages=1):  # the ragged last tile", inplace)
        else:
            self.one_loop(s, f"for {name} in tl.range({first}, {end}, {tile}{stages}):", inplace)
        self.names = outside

    def stretch(self, s: Loop, first: str, end: str, inplace: dict[str, str], stages: str) -> None:
        """The tiles around the clear stretch of a loop, in one loop that jumps over it, or those in it."""
        assert s.clear is not None
        b, tile = s.binding, self.tile(s.binding.axis)
        name, clear, until = (f"{identifier(b.name)}_{word}" for word in ("start", "clear", "clear_to"))
        if s.part == "whole":
            self.full.add(b.name)
            self.one_loop(s, f"for {name} in tl.range({clear if s.clear.starts else self.first_of(s)}, {until}, {tile}{stages}):", inplace)
            self.full.discard(b.name)
            return
        start = self.scalar(clear, f"tl.cdiv({self.most(first, s.clear.starts)}, {tile}) * {tile}") if s.clear.starts else first
        stop = self.nested("tl.minimum", [end, *map(self.bound, s.clear.stops)])
        self.scalar(until, f"tl.maximum({stop} // {tile} * {tile}, {start})")
        if not s.clear.starts:
            self.one_loop(s, f"for {name} in tl.range({until}, {end}, {tile}{stages}):", inplace)
        else:
            step = f"{identifier(b.name)}_step"
            jump = f"{name} = {step} + tl.where({step} < {start}, 0, {until} - {start})"
            self.one_loop(s, f"for {step} in tl.range({first}, {end} - ({until} - {start}), {tile}{stages}):", inplace, jump)

    def first_of(self, s: Loop) -> str:
        return f"{identifier(s.binding.name)}_from" if s.starts else "0"

    def scalar(self, name: str, text: str) -> str:
        """A position under a name."""
        self.write(f"{name} = ({text}).to(tl.int32)")
        return name

    def most(self, least: str, bounds: tuple[Bound, ...]) -> str:
        """The largest of some bounds, and of a position."""
        return self.nested("tl.maximum", [*map(self.bound, bounds), least])

    def nested(self, function: str, parts: list[str]) -> str:
        """A function of two arguments over several."""
        return functools.reduce(f"{function}({{}}, {{}})".format, parts)

    def bound(self, b: Bound) -> str:
        """The position of a bound."""
        return evaluated(b, self.edge, "tl.minimum({}, {})".format, "tl.maximum({}, {})".format)

    def edge(self, e: Edge) -> str:
        """The position of an edge."""
        const, text = e.const, ""
        for b, c, last in e.terms:
            const -= c * last  # the last lane is a tile minus one from the first
            parts = [self.start_name(b)] * (b.kind != "resident") + [self.tile(b.axis)] * last
            for p in parts:
                sign = ("-" if c < 0 else "") if not text else " - " if c < 0 else " + "
                text += sign + (p if abs(c) == 1 else f"{abs(c)} * {p}")
        if e.data is not None:
            text += f"{' + ' * bool(text)}{self.name(e.data)}"
        return f"{text} {'+-'[const < 0]} {abs(const)}" if text and const else text or str(const)

    def one_loop(self, s: Loop, head: str, inplace: dict[str, str], first: str = "") -> None:
        """``first``: a line at the beginning of a step."""
        b = s.binding
        self.write(head)
        self.indent += 1
        if first:
            self.write(first)
        mask_at = len(self.lines)
        self.names.update(inplace)
        outer_masks, self.masks_used = self.masks_used, {}
        self.block(s.body)
        if b.name in self.masks_used:
            del self.masks_used[b.name]
            self.lanes_used[b.axis] = None
            line = f"{self.mask_name(b)} = {self.start_name(b)} + {self.lanes_name(b.axis)} < {extent_name(b.axis)}"
            self.lines.insert(mask_at, "    " * self.indent + line)
        self.masks_used = {**outer_masks, **self.masks_used}
        for a in s.accumulators:
            if a.new.name not in inplace:
                self.write(f"{a.old.name} = {self.name(a.new)}")
        self.indent -= 1

    def store(self, s: Store) -> None:
        dtype = self.kernel.buffers[s.access.buffer].dtype
        value = broadcast(self.name(s.src), s.src.dims, s.access.dims)
        value = value if s.src.dtype == dtype else f"{value}.to({type_name(dtype)})"
        mask = self.mask(s.access)
        for b in s.once:  # a value that does not vary along this grid axis: its first program stores
            self.write(f"if {self.start_name(b)} == 0:")
            self.indent += 1
        self.call("tl.store", self.address(s.access), value, f"mask={mask}" if mask else "", _eviction(s.hint))
        self.indent -= len(s.once)

    def operand(self, v: Operand, dims: tuple[Dim, ...], *, whole: bool = False) -> str:
        return number(v.value, whole=whole) if isinstance(v, Literal) else self.spread(v, dims)

    def expression(self, s: Statement) -> str:
        """The right-hand side of a statement."""
        if isinstance(s, Let):
            values = [a for a in s.args[s.op == "where" :] if isinstance(a, Value)]
            whole = all(a.dtype.kind == "int" for a in values or (s.dst,))
            spelling = operation(s.op).spellings["triton"]
            rounded_once = self.exact or operation(s.op).selects  # what rounds nothing has no other digits, and keeps the sign of a zero
            text = rounded_once and s.dst.dtype.is_float and spelling.exact or spelling.text
            return text.format(*(self.operand(a, s.dst.dims, whole=whole) for a in s.args))
        if isinstance(s, Lost):
            return f"_lost_digits({', '.join(self.operand(v, s.dst.dims) for v in (s.new, s.kept, s.small))})"
        if isinstance(s, Where):
            fill = number(s.dst.dtype.number(s.fill), whole=s.dst.dtype.kind == "int")
            return f"tl.where({' & '.join(self.valid(s.bindings, s.src.dims))}, {self.name(s.src)}, {fill})"
        if isinstance(s, Reduce) and s.lanes:
            src = f"tl.reshape({self.name(s.src)}, {self.shape_apart(s.dst.dims)})"
            return MONOIDS[s.monoid].triton.format(src, s.dst.dims.index(s.lanes) + 1)
        if isinstance(s, Reduce):
            return MONOIDS[s.monoid].triton.format(self.name(s.src), s.src.dims.index(s.dim))
        if isinstance(s, Scan):
            prefixes = MONOIDS[s.monoid].prefixes
            assert prefixes is not None
            of, rounded = (f"{self.name(s.src)}.to(tl.float64)", ".to(tl.float32)") if s.wide else (self.name(s.src), "")
            return prefixes.triton.format(of, s.src.dims.index(s.dim)) + rounded
        if isinstance(s, Dot):
            acc = f", {self.name(s.acc)}" if s.acc is not None else ""
            precision = f', input_precision="{s.precision}"' if s.precision else ""
            return f"tl.dot({self.name(s.a)}, {self.name(s.b)}{acc}{precision}, out_dtype=tl.float32)"
        if isinstance(s, Cast):
            return f"{self.name(s.src)}.to({type_name(s.dst.dtype)})"
        if isinstance(s, Permute):
            return f"tl.permute({self.name(s.src)}, ({', '.join(str(s.src.dims.index(d)) for d in s.dst.dims)}))"
        if isinstance(s, Mean):
            sum_, count = self.name(s.src), self.mean_count(s)
            return f"tl.div_rn({sum_}, {count})"  # of n equal numbers it is the number
        if isinstance(s, Count):
            return self.count(s.binding, s.which, type_name(s.dst.dtype))
        if isinstance(s, IsFirst):
            return f"tl.cast({self.start_name(s.binding)}, tl.int32) == 0"
        if isinstance(s, ExtentValue):
            return f"tl.full([], {extent_name(s.axis)}, {type_name(s.dst.dtype)})"
        if isinstance(s, Fill):
            return f"tl.full({self.shape(s.dst.dims)}, {number(s.value, whole=s.dst.dtype.kind == 'int')}, {type_name(s.dst.dtype)})"
        assert isinstance(s, IndexValue)
        return self.index_value(s)

    def mean_count(self, s: Mean) -> str:
        if s.binding is None:
            return f"tl.cast(tl.maximum({extent_name(s.axis)}, 1), tl.float32)"
        if s.which == "old":
            return f"tl.cast(tl.maximum({self.start_name(s.binding)}, 1), tl.float32)"
        return self.count(s.binding, "new")

    def count(self, b: Binding, which: str, of: str = "tl.float32") -> str:
        """Elements of an axis before a tile, up to its end, or in it."""
        start, tile = self.start_name(b), self.tile(b.axis)
        if which == "old":
            return f"tl.cast({start}, {of})"
        if which == "new":
            end = f"{start} + {tile}" if self.is_full(b) else f"tl.minimum({start} + {tile}, {extent_name(b.axis)})"
            return f"tl.cast({end}, {of})"
        if self.is_full(b):
            return f"tl.full([], {tile}, {of})"
        return f"tl.cast(tl.minimum({tile}, {extent_name(b.axis)} - {start}), {of})"

    def index_value(self, s: IndexValue) -> str:
        of = {b.axis: b for b in s.bindings}
        scalars, vectors = split_index(
            s.expr,
            lambda a: self.has_lanes(a) and self.dim_of[a] in s.dst.dims,  # without them, the start of the tile
            lambda a: None if of[a].kind == "resident" else self.start_name(of[a]),
            lambda a: self.lanes(a, s.dst.dims),
        )
        kind = type_name(s.dst.dtype)
        if vectors and s.dst.dtype == dtypes.int32 and all(isinstance(a, Axis) for a, _ in s.expr.terms):
            # starts of tiles may be 64 bits wide; a tile of positions need not be, and a compiler keeps it in registers through a loop
            return total([f"tl.cast({total(scalars)}, {kind})", *vectors] if scalars else vectors)
        return f"tl.cast({total([*scalars, *vectors])}, {kind})"


def _eviction(hint: CacheHint) -> str:
    return f'eviction_policy="{_HINTS[hint]}"' if hint else ""


def _grouped(parts: list[str]) -> str:
    text = total(parts)
    return f"({text})" if len(parts) > 1 or "*" in text else text
