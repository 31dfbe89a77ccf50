"""A second printer: a finished tile program as plain C, one lane at a time, to see that nothing is left to decide in a printer.

A tile is a static array, a statement a nest of loops over its dims, the grid the outermost loops.  Values of 16 bits are not spelled here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eqfuse.ir.dtypes import DType
from eqfuse.ir.index import Axis, FloorDiv, IndexExpr
from eqfuse.ir.monoids import monoid
from eqfuse.tiles.names import extent_name, identifier
from eqfuse.tiles.program import (
    Access,
    Binding,
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
    Permute,
    Reduce,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
    uses,
)

OPS = {  # of numbers of one type, by tgmath.h
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "neg": "-{}", "recip": "1.0f / {}", "div": "{} / {}", "square": "{0} * {0}",
    "fma": "fma({}, {}, {})", "fms": "fma({}, {}, -{})",
    "maximum": "({0} != {0} || {0} > {1} ? {0} : {1})", "minimum": "({0} != {0} || {0} < {1} ? {0} : {1})",
    "abs": "fabs({})", "exp": "exp({})", "exp2": "exp2({})", "log": "log({})", "log1p": "log1p({})", "sqrt": "sqrt({})",
    "rsqrt": "1.0f / sqrt({})", "tanh": "tanh({})", "sigmoid": "1.0f / (1.0f + exp(-{}))", "erf": "erf({})", "sin": "sin({})",
    "cos": "cos({})", "sinh": "sinh({})", "cosh": "cosh({})", "floor": "floor({})", "round": "rint({})", "fmod": "fmod({}, {})", "bitand": "{} & {}", "bitor": "{} | {}",
    "bitxor": "{} ^ {}", "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}", "eq": "{} == {}", "ne": "{} != {}",
    "and": "{} && {}", "or": "{} || {}", "not": "!{}", "where": "{} ? {} : {}",
}  # fmt: skip
TYPES = {"float32": "float", "bool": "uint8_t", **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)}}
HEAD = """#include <stdint.h>
#include <tgmath.h>
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t modulo(int64_t a, int64_t b) { return (a % b + b) % b; }
static inline int64_t quotient(int64_t a, int64_t b) { return (a - modulo(a, b)) / b; }
"""


def print_c(program: TileProgram, name: str) -> str:
    """The kernel as a C function of its pointers and integers (tile sizes are numbers in it) and of how many tiles its grid has."""
    p = _Printer(program)
    takes = [
        f"{TYPES[x.dtype.name]} *{x.name}" if x.kind == "pointer" else f"int64_t {x.name}" for x in program.parameters if x.kind != "constexpr"
    ]
    with p.inside(f"void {name}({', '.join(takes)}, int64_t tasks)", "for (int64_t task = 0; task < tasks; task++)"):
        p.grid(program.grid)
        p.block(program.body)
    return "\n".join(p.lines) + "\n"


class _Printer:
    def __init__(self, program: TileProgram) -> None:
        self.program, self.kernel = program, program.kernel
        self.lines: list[str] = []
        self.depth = 0
        self.inplace: dict[str, str] = {}  # value name -> the accumulator whose place it takes
        self.strides = {(x.buffer, x.position): x.name for x in program.parameters if x.position is not None and not x.divides}
        self.pointers = {x.buffer: x.name for x in program.parameters if x.kind == "pointer"}

    # -- text ------------------------------------------------------------------------------------------------------------------
    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def inside(self, *heads: str) -> Iterator[None]:
        """Nested blocks."""
        for head in heads:
            self.write(f"{head} {{")
            self.depth += 1
        yield
        for _ in heads:
            self.depth -= 1
            self.write("}")

    def lanes(self, *dims: Dim) -> list[str]:
        """The heads of loops over the lanes of dims."""
        return [f"for (int l_{d.name} = 0; l_{d.name} < {d.size}; l_{d.name}++)" for d in dims]

    def number(self, value: float, dtype: DType) -> str:
        if not dtype.is_float:
            return f"INT64_C({int(dtype.number(value))})"
        return "NAN" if math.isnan(value) else f"{'-' * (value < 0)}INFINITY" if math.isinf(value) else f"{float(value)!r}f"

    # -- where things are --------------------------------------------------------------------------------------------------------
    def element(self, v: Value) -> str:
        """The present lane of a value."""
        at, stride = [], 1
        for d in reversed(v.dims):
            at.append(f"l_{d.name} * {stride}")
            stride *= d.size
        return f"{self.name(v)}[{' + '.join(at) or 0}]"

    def name(self, v: Value) -> str:
        return "v_" + self.inplace.get(v.name, v.name)

    def declare(self, v: Value) -> None:
        if v.name not in self.inplace:
            self.write(f"static {TYPES[v.dtype.name]} {self.name(v)}[{v.elements}];")

    def start(self, b: Binding) -> str:
        return "0" if b.kind == "resident" else f"{identifier(b.name)}_start"

    def position(self, b: Binding, dims: tuple[Dim, ...]) -> str:
        lane = next((f" + l_{d.name} / {d.stride(b.axis)} % {b.tile}" for d in dims if b.axis in d.axes), "")
        return f"({self.start(b)}{lane})"

    def index(self, e: IndexExpr, of: Callable[[Axis], str]) -> str:
        parts = [str(e.const)] if e.const or not e.terms else []
        for atom, c in e.terms:
            if isinstance(atom, Axis):
                parts.append(f"{c} * {of(atom)}")
            else:
                function = "quotient" if isinstance(atom, FloorDiv) else "modulo"
                parts.append(f"{c} * {function}({self.index(atom.numerator, of)}, {atom.divisor})")
        return " + ".join(parts)

    def valid(self, bindings: tuple[Binding, ...], dims: tuple[Dim, ...]) -> list[str]:
        return [f"{self.position(b, dims)} < {extent_name(b.axis)}" for b in bindings if not b.even]

    def access(self, at: Access) -> tuple[str, str]:
        """The place in memory, and the mask."""
        where = [self.index(e, lambda a: self.position(at.binding(a), at.dims)) for e in at.index]
        address = [f"({text}) * {self.strides[at.buffer, p]}" for p, (e, text) in enumerate(zip(at.index, where, strict=True)) if e.terms or e.const]
        mask = self.valid(at.valid, at.dims) + [f"{where[i.position]} >= 0" for i in at.inside if i.low]
        mask += [f"{where[i.position]} < {i.extent}" for i in at.inside if i.high]
        return f"{self.pointers[at.buffer]}[{' + '.join(address) or 0}]", " && ".join(mask) or "1"

    def seen(self, b: Binding, which: str) -> str:
        """Elements of an axis before a tile, up to its end, or in it."""
        end = f"least({self.start(b)} + {b.tile}, {extent_name(b.axis)})"
        return {"old": self.start(b), "new": end, "tile": f"({end} - {self.start(b)})"}[which]

    # -- statements --------------------------------------------------------------------------------------------------------------
    def grid(self, grid: tuple[Binding, ...]) -> None:
        self.write("int64_t rest = task;")
        for b in reversed(grid):
            tiles = f"(({extent_name(b.axis)} + {b.tile - 1}) / {b.tile})"
            self.write(f"int64_t {self.start(b)} = rest{f' % {tiles}' * (b != grid[0])} * {b.tile};")
            if b != grid[0]:
                self.write(f"rest /= {tiles};")

    def block(self, body: tuple[Statement, ...]) -> None:
        for s in body:
            if isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Store):
                place, mask = self.access(s.access)
                with self.inside(*(f"if ({self.start(b)} == 0)" for b in s.once), *self.lanes(*s.access.dims), f"if ({mask})"):
                    self.write(f"{place} = {self.element(s.src)};")
            else:
                self.declare(s.dst)
                with self.inside("", *self.lanes(*s.dst.dims)):
                    self.write(f"{self.element(s.dst)} = {self.value(s)};")

    def loop(self, s: Loop) -> None:
        for a in s.accumulators:
            self.declare(a.old)
            start = self.number(a.identity, a.old.dtype) if a.start is None else self.element(a.start)
            with self.inside(*self.lanes(*a.old.dims)):
                self.write(f"{self.element(a.old)} = {start};")
        at, tile, outside = self.start(s.binding), s.binding.tile, dict(self.inplace)
        first, stop = "0", extent_name(s.binding.axis)
        for e in s.starts:
            first = f"most({first}, {self.edge(e)})"
        for e in s.stops:
            stop = f"least({stop}, {self.edge(e)})"
        self.inplace |= {a.new.name: a.old.name for a in s.accumulators if a.inplace}
        with self.inside(f"for (int64_t {at} = {first} / {tile} * {tile}; {at} < {stop}; {at} += {tile})"):
            self.block(s.body)
            for a in s.accumulators:
                if not a.inplace:
                    with self.inside(*self.lanes(*a.old.dims)):
                        self.write(f"{self.element(a.old)} = {self.element(a.new)};")
        self.inplace = outside

    def edge(self, e: Edge) -> str:
        return " + ".join([str(e.const), *(f"{c} * ({self.start(b)} + {(b.tile - 1) * last})" for b, c, last in e.terms)])

    def folded(self, kind: str, start: str, over: Dim, step: str, result: str = "t") -> str:
        """What a loop over one dim, printed before the statement, makes of ``t``."""
        self.write(f"{kind} t = {start};")
        with self.inside(*self.lanes(over)):
            self.write(f"t = {step};")
        return result

    def value(self, s: Statement) -> str:
        """The present lane of the result of a statement."""
        if isinstance(s, Load):
            place, mask = self.access(s.access)
            return f"{mask} ? {place} : 0"
        if isinstance(s, Let):
            kind = next((a.dtype for a in s.args[s.op == "where" :] if isinstance(a, Value)), s.dst.dtype)
            return OPS[s.op].format(*(self.number(a.value, kind) if isinstance(a, Literal) else self.element(a) for a in s.args))
        if isinstance(s, Lost):
            new, kept, small = map(self.element, uses(s))
            return f"isfinite({new} - {kept} - {small}) ? ({new} - {kept}) - {small} : 0"
        if isinstance(s, Where):
            return f"{' && '.join(self.valid(s.bindings, s.src.dims)) or 1} ? {self.element(s.src)} : {self.number(s.fill, s.dst.dtype)}"
        if isinstance(s, Reduce):
            m = monoid(s.monoid)
            kind = "double" if s.dst.dtype.is_float else TYPES[s.dst.dtype.name]  # one lane after the other, where a device has a tree
            return self.folded(kind, self.number(m.identity, s.dst.dtype), s.dim, OPS[m.combine].format("t", self.element(s.src)))
        if isinstance(s, Dot):
            return self.folded("float", "0" if s.acc is None else self.element(s.acc), s.a.dims[1], f"t + {self.element(s.a)} * {self.element(s.b)}")
        if isinstance(s, Cast | Permute):
            return f"{self.element(s.src)}{' != 0' * (s.dst.dtype.kind == 'bool')}"
        if isinstance(s, Mean):
            count = extent_name(s.axis) if s.binding is None else self.seen(s.binding, s.which)
            return f"{self.element(s.src)} / most({count}, 1)"
        if isinstance(s, Count):
            return self.seen(s.binding, s.which)
        if isinstance(s, IsFirst):
            return f"{self.start(s.binding)} == 0"
        if isinstance(s, IndexValue):
            of = {b.axis: b for b in s.bindings}
            return self.index(s.expr, lambda a: self.position(of[a], s.dst.dims))
        if isinstance(s, ExtentValue):
            return extent_name(s.axis)
        assert isinstance(s, Fill)
        return self.number(s.value, s.dst.dtype)
