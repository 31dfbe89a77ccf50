"""Printing a finished tile program as a function in C99 with OpenMP.  A program of the grid is one turn of a parallel loop.

Statements between barriers (loops, products) become nests (:mod:`.nests`), whose innermost loops are ``omp simd``; products call the
micro-kernel of the runtime header (:mod:`.products`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ...errors import PlanError
from ...ir.index import Axis
from ...tiles.names import identifier
from ...tiles.program import (
    Access,
    Binding,
    Bound,
    Dot,
    Edge,
    Loop,
    Param,
    Reduce,
    Scan,
    Statement,
    Store,
    TileProgram,
    Value,
    evaluated,
    uses,
)
from . import text
from .bypass import CACHE, LINE, Bypass
from .expressions import arguments
from .nests import Nest, Path, nests, places, shared
from .sums import EIGHT, WIDE, is_sum
from .values import ROW, dims_of, tile_of


def function_name(program: TileProgram) -> str:
    """What a kernel is called in C."""
    return f"eq_{identifier(program.name)}"


def print_function(program: TileProgram) -> str:
    """The finished kernel as text.  Raises PlanError where there is no C for it."""
    return Printer(program).text()


class Printer(Bypass):
    """Prints one kernel."""

    def __init__(self, program: TileProgram) -> None:
        assert program.parameters, f"{program.name} is not finished"
        super().__init__(program)
        self.original = program
        self.around: list[Binding] = []  # of the loops around, outermost first
        for v in self.values.states.values():
            self.kept[v.name] = self.values.over(v)

    def text(self) -> str:
        self.preamble()
        with self.lanes(self.values.opened):
            self.block(self.program.body)
        body, self.lines, self.scopes = self.lines, [], [set()]
        names = [f"{self.declared(p)}" for p in arguments(self.original)]
        head = [f"void {function_name(self.program)}(int64_t programs, {', '.join(names)}) {{"]
        schedule = "schedule(dynamic, 1 + programs / 256)"
        loop = ["for (int64_t pid = 0; pid < programs; pid++) {"]
        loop += [f"char *memory = eq_memory({self.values.size}); (void)memory;"] if self.values.size else []
        loop += [*body, "}"]
        if self.bypasses:
            head += [f"const int bypass = programs * INT64_C({-(-self.moved // self.original.tasks)}) > INT64_C({CACHE});"]
            region = ['_Pragma("omp parallel if(programs > 1)")', "{", f'_Pragma("omp for {schedule}")', *loop, "eq_order_lines();", "}"]
        else:
            region = [f'_Pragma("omp parallel for {schedule} if(programs > 1)")', *loop]
        return "\n".join(_indented([*head, *region, "}"])) + "\n"

    def declared(self, p: Param) -> str:
        if p.kind == "int":
            return f"int64_t {p.name}"
        assert p.dtype is not None
        const = "" if p.buffer in self.values.written else "const "
        return f"{const}{text.memory_type(p.dtype)} *restrict {p.name}"

    def preamble(self) -> None:
        """Starts of the tiles of this program of the grid, and how many lanes there are."""
        grid = self.program.grid
        if grid:
            self.write("int64_t q = pid;")
        grouped = self.program.kernel.grouped
        if grouped:
            self.group(grid[-2], grid[-1], grouped)
        for b in reversed(grid[:-2] if grouped else grid):
            n = self.tiles(b)
            index = "q" if b is grid[0] else f"q % ({n})"
            if b in self.program.backwards:
                index = f"({n} - 1 - {index})"
            self.write(f"const int64_t {text.start(b)} = {text.scaled(index, b.tile)};" + ("" if b is grid[0] else f" q /= ({n});"))
        for b in self.program.fixed:
            self.count_lanes(b)
        carrying = [s.binding for s in self.values.statements if isinstance(s, Loop) and s.binding.name in self.values.padded]
        for b in {b.axis: b for b in carrying}.values():
            self.write(f"const int64_t {text.count(b.axis)} = {b.tile};")  # of what the loop carries

    def tiles(self, b: Binding) -> str:
        """How many tiles a grid axis has."""
        return f"({self.extent(b.axis)} + {b.tile - 1}) / {b.tile}" if b.tile > 1 else self.extent(b.axis)

    def group(self, outer: Binding, inner: Binding, grouped: int) -> None:
        """The tiles of the last two grid axes, which programs take in groups (:mod:`~eqfuse.tiles.launch_order`)."""
        self.write(f"const int64_t across = {self.tiles(inner)}, down = {self.tiles(outer)}, plane = q % (across * down);")
        self.write(f"const int64_t first = plane / ({grouped} * across) * {grouped}, within = plane % ({grouped} * across);")
        self.write(f"const int64_t height = eq_least({grouped}, down - first); q /= across * down;")
        self.write(f"const int64_t {text.start(inner)} = {text.scaled('(within / height)', inner.tile)};")
        self.write(f"const int64_t {text.start(outer)} = {text.scaled('(first + within % height)', outer.tile)};")

    def count_lanes(self, b: Binding, *, whole: bool = False) -> None:
        if b.axis in self.has_lanes and not (whole and b.name in self.values.padded):
            left = self.extent(b.axis) + ("" if b.kind == "resident" else f" - {text.start(b)}")
            self.write(f"const int64_t {text.count(b.axis)} = {b.tile if b.even or whole else f'eq_least({b.tile}, {left})'};")

    # -- blocks --------------------------------------------------------------------------------------------------------------
    def block(self, body: tuple[Statement, ...]) -> None:
        """Statements, cut at barriers into segments."""
        segment: list[Statement] = []
        for s in body:
            if isinstance(s, Loop | Dot):
                self.segment(segment)
                segment = []
                self.loop(s) if isinstance(s, Loop) else self.product(s)
            elif self.values.placed(s):
                segment.append(s)
        self.segment(segment)

    def segment(self, statements: list[Statement]) -> None:
        found = nests(statements, self.values.reads, self.runs)
        at = places(found)
        for s in statements:
            if not isinstance(s, Store | Loop):
                self.keep(s.dst, at[id(s)], found, at)
        for n in found:
            self.nest(n)

    def runs(self, s: Statement) -> tuple[Axis, ...]:
        return self.values.runs(dims_of(s))

    def keep(self, v: Value, here: Path, found: list[Nest], at: dict[int, Path] | object) -> None:
        """Decide over which axes a value has an array: those whose loops it does not share with all who read it."""
        assert isinstance(at, dict)
        over: set[Axis] = set()
        for r in self.values.consumers.get(v.name, ()):
            there = at.get(id(r))
            over |= set(self.values.over(v)) - (shared(found, here, there) if there is not None else frozenset())
        maker = self.values.maker[v.name]
        if isinstance(maker, Reduce):  # it grows in an array over the axes inside of the one that is reduced
            run = self.runs(maker)
            over |= set(run[run.index(maker.dim.axes[0]) + 1 :])
        self.kept[v.name] = tuple(a for a in self.values.over(v) if a in over)

    def nest(self, n: Nest) -> None:
        if n.axis is None:
            for s in n.statements:
                self.statement(s)
            return
        if n.axis == self.values.across and len(n.parts) == 1 and n.parts[0].axis is not None and n.parts[0].innermost:
            self.in_strips(n.axis, n.parts[0])
            return
        growing = [s for s in n.statements if isinstance(s, Reduce | Scan) and n.axis in s.dim.axes]

        def body() -> None:
            for p in n.parts:
                self.nest(p)

        inside = self.columns(n, growing)
        stored = self.bypassing(n) if not growing else None
        if inside:

            def columns() -> None:
                for p in inside[-1].parts:
                    self.nest(p)

            self.choose_rows(growing)
            self.begin_all(growing)
            self.in_eights(n.axis, growing, inside, columns)
            self.end_all(growing)
        elif stored is not None:
            self.in_lines(n.axis, stored, body)
        else:
            self.reduced(n.axis, growing, n.innermost, body)

    def columns(self, n: Nest, growing: list[Reduce | Scan]) -> list[Nest]:
        """The loops inside of one over rows, if sums of columns are all that it is for: eight rows can be taken together."""
        assert n.axis is not None
        found = [n]
        while not found[-1].innermost:
            if len(found[-1].parts) != 1:
                return []
            found.append(found[-1].parts[0])
        others = any(isinstance(s, Reduce | Scan) and n.axis not in s.dim.axes for s in n.statements)
        few = self.kernel.tile(n.axis) < EIGHT or len(found) == 1
        few |= self.kernel.tile(found[-1].axis or n.axis) >= WIDE and not any(isinstance(s, Scan) for s in growing)
        if few or others or not any(map(is_sum, growing)) or any(s.parts for s in growing) or self.bypassing(found[-1]):
            return []
        return found[1:]

    def in_strips(self, outer: Axis, n: Nest) -> None:
        """Strips of a loop, in each the loop over ``outer``: a transpose (:mod:`.order`)."""
        assert n.axis is not None
        stored = [self.kernel.buffers[s.access.buffer].dtype.itemsize for s in n.statements if isinstance(s, Store)]
        lanes = LINE // min(stored, default=4)
        lane, count = text.lane(n.axis), text.count(n.axis)
        with self.braces(f"for (int64_t first_{lane} = 0; first_{lane} < {count}; first_{lane} += {lanes})"):
            self.write(f"const int64_t end_{lane} = eq_least({count}, first_{lane} + {lanes});")
            with self.lanes((outer,)):
                self.write('_Pragma("omp simd")')
                with self.braces(f"for (int64_t {lane} = first_{lane}; {lane} < end_{lane}; {lane}++)"):
                    for p in n.parts:
                        self.nest(p)

    def loop(self, s: Loop) -> None:
        for v in s.edges:
            self.need(v)
        olds = {a.old.name for a in s.accumulators}
        if any(a.new.name in olds and a.new.name != a.old.name for a in s.accumulators):
            raise PlanError("no C for an accumulator that takes the value of another one")
        for a in s.accumulators:
            if not self.values.over(a.old):
                self.write(f"{text.value_type(a.old.dtype)} {text.variable(a.old)};")
                self.scopes[-1].add(a.old.name)
            self.copy(a.old, a.start if a.start is not None else None, text.number(a.identity, a.old.dtype))
        b = s.binding
        name, n = text.start(b), self.extent(b.axis)
        first, end = self.most("0", s.starts), self.least(n, s.stops)
        until = f"end_{name}"
        first = first if first == "0" else f"{first} / {b.tile} * {b.tile}"
        if s.part:
            self.stretch(s, first, end)
            return
        if b.name not in self.values.padded:
            with self.braces(f"for (int64_t {name} = {first}, {until} = {end}; {name} < {until}; {name} += {b.tile})"):
                self.count_lanes(b)
                self.step(s)
            return
        with self.braces(""):  # a ragged last tile has all lanes, and masks
            self.write(f"int64_t {name} = {first}; const int64_t {until} = {end};")
            with self.braces(f"for (; {name} < {until} && {name} + {b.tile} <= {n}; {name} += {b.tile})"):
                self.step(s)
            self.masked.add(b.name)
            with self.braces(f"if ({name} < {until})"):
                self.step(s)
            self.masked.discard(b.name)

    def stretch(self, s: Loop, first: str, end: str) -> None:
        """The tiles around the clear stretch of a loop, in one loop that jumps over it, or those in it."""
        assert s.clear is not None
        b, padded = s.binding, s.binding.name in self.values.padded
        name, until = text.start(b), f"end_{text.start(b)}"
        with self.braces(""):
            begin, last, clear = (f"{word}_{name}" for word in ("first", "last", "clear"))
            self.write(f"const int64_t {begin} = {first}, {last} = {end};")
            start = f"({self.most(begin, s.clear.starts)} + {b.tile - 1}) / {b.tile} * {b.tile}" if s.clear.starts else begin
            stop = f"{self.least(last, s.clear.stops)} / {b.tile} * {b.tile}"
            self.write(f"const int64_t {clear} = {start}, {until} = eq_most({stop}, {clear});")
            if s.part == "whole":
                with self.braces(f"for (int64_t {name} = {clear}; {name} < {until}; {name} += {b.tile})"):
                    self.count_lanes(b, whole=True)
                    self.step(s)
                return
            self.masked |= {b.name} if padded else set()
            with self.braces(f"for (int64_t {name} = {begin} < {clear} ? {begin} : {until}; {name} < {last};)"):
                if not padded:
                    self.count_lanes(b)
                self.step(s)
                self.write(f"{name} += {b.tile};")
                self.write(f"if ({name} == {clear}) {name} = {until};")
            self.masked.discard(b.name)

    def most(self, start: str, bounds: tuple[Bound, ...]) -> str:
        """The largest of some bounds, and of a position."""
        return functools.reduce("eq_most({}, {})".format, map(self.bound, bounds), start)

    def least(self, end: str, bounds: tuple[Bound, ...]) -> str:
        """The least of some bounds, and of a position."""
        return functools.reduce("eq_least({}, {})".format, map(self.bound, bounds), end)

    def bound(self, b: Bound) -> str:
        """The position of a bound."""
        return evaluated(b, self.edge, "eq_least({}, {})".format, "eq_most({}, {})".format)

    def step(self, s: Loop) -> None:
        """The body of a loop, and what it carries on."""
        self.around.append(s.binding)
        self.block(s.body)
        self.around.pop()
        for a in s.accumulators:
            if a.new.name != a.old.name and self.values.root.get(a.new.name) != a.old.name:
                self.copy(a.old, a.new, "")

    def edge(self, e: Edge) -> str:
        """The position of an edge."""
        parts = [text.scaled(f"({text.start(b)} + {(b.tile - 1) * last})", c) for b, c, last in e.terms]
        data = [] if e.data is None else [text.variable(e.data)]
        return f"({text.total([*parts, *data, str(e.const)])})"

    def copy(self, to: Value, value: Value | None, constant: str) -> None:
        """``to = value`` over all its lanes, or a constant."""
        over = self.values.over(to)
        if over:
            self.write_pragma_over(over)
        with self.lanes(over):
            if value is not None:
                self.need(value)
                constant = text.variable(value)
            self.write(f"{self.element(to) if over else text.variable(to)} = {constant};")

    # -- statements ----------------------------------------------------------------------------------------------------------
    def statement(self, s: Statement) -> None:
        for v in uses(s):
            self.need(v)
        if isinstance(s, Store):
            self.store(s)
        elif isinstance(s, Reduce | Scan) and s.parts:
            self.combine(s)
        elif isinstance(s, Reduce):
            self.reduce(s)
        elif not isinstance(s, Loop):
            kind, name = text.value_type(s.dst.dtype), text.variable(s.dst)
            value = self.scan(s) if isinstance(s, Scan) else self.expression(s)
            self.write(f"const {kind} {name} = {value};")
            self.scopes[-1].add(s.dst.name)
            if self.kept[s.dst.name]:
                self.write(f"{self.element(s.dst)} = {name};")

    def store(self, s: Store) -> None:
        dtype = self.kernel.buffers[s.access.buffer].dtype
        conditions = [f"{text.start(b)} == 0" for b in s.once] + self.masks(s.access)
        line = f"{'line[part]' if s is self.bypassed else self.place(s.access)} = {text.written(text.variable(s.src), dtype)};"
        self.write(f"if ({' && '.join(conditions)}) {line}" if conditions else line)

    # -- products ------------------------------------------------------------------------------------------------------------
    def product(self, s: Dot) -> None:
        """A contraction by the runtime's micro-kernel: ``dst`` is an array whose rows are along the last of its dims."""
        (k,) = (d for d in s.a.dims if d in s.b.dims)
        (m,) = (d for d in s.a.dims if d != k)
        (n,) = (d for d in s.b.dims if d != k)
        self.kept[s.dst.name] = (*m.axes, *n.axes)
        out = self.values.array(s.dst.name, self.kept[s.dst.name], 4)
        in_place = s.acc is not None and self.values.root.get(s.dst.name, s.dst.name) == self.values.root.get(s.acc.name, s.acc.name)
        if s.acc is not None and not in_place:
            self.copy(s.dst, s.acc, "")
        panel = self.values.memory(4 * k.size * (-(-n.size // ROW) * ROW))
        a, am, ak, _ = self.matrix(s.a, m.axes, k.axes, True)
        b, bn, bk, kind = self.matrix(s.b, n.axes, k.axes, False)
        rows, columns = self.lanes_of(m.axes), self.lanes_of(n.axes)
        c = f"(float *)(memory + {out.offset}), {out.strides[m.axes[-1]]}"
        self.write(
            f"eq_product_{kind}({rows}, {columns}, {self.lanes_of(k.axes)}, {a}, {am}, {ak}, {b}, {bk}, {bn}, {self.next_step(s.b)}, {c}, "
            f"{int(s.acc is not None)}, (float *)(memory + {panel}));"
        )

    def lanes_of(self, axes: tuple[Axis, ...]) -> str:
        """How many rows of a matrix there are, those of a pack that do not exist among them."""
        inner = tile_of(self.kernel, axes[1:])
        return text.count(axes[0]) if inner == 1 else f"{text.count(axes[0])} * {inner}"

    def matrix(self, v: Value, outer: tuple[Axis, ...], inner: tuple[Axis, ...], left: bool) -> tuple[str, str, str, str]:
        """An operand: where it begins, its strides along two dims, and what its elements are."""
        at = self.values.direct(v, left)
        if at is not None:
            strides = [self.apart(at, a) for (a,) in (outer, inner)]
            kinds = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
            return f"&{self.place(at, lanes=False)}", strides[0], strides[1], kinds[self.kernel.buffers[at.buffer].dtype.name]
        array = self.values.array(v.name, self.kept[v.name], 4)
        return f"(const float *)(memory + {array.offset})", str(array.strides[outer[-1]]), str(array.strides[inner[-1]]), "f32"

    def apart(self, at: Access, axis: Axis) -> str:
        """How many elements are between neighbours along an axis."""
        strides = [(str(self.strides.get((at.buffer, p), "1")), e.terms) for p, e in enumerate(at.index)]
        return text.total([text.scaled(stride, c) for stride, terms in strides for atom, c in terms if atom == axis])

    def next_step(self, v: Value) -> str:
        """How many elements the next step of the loop around is away in an operand from memory; 0 where there is none."""
        at = self.values.direct(v, False)
        return text.scaled(self.apart(at, self.around[-1].axis), self.around[-1].tile) if at is not None and self.around else "0"


def _indented(lines: list[str]) -> Iterator[str]:
    depth = 0
    for line in lines:
        depth -= line.startswith("}")
        yield "  " * depth + line
        depth += line.endswith("{")
