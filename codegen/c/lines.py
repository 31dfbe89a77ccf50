"""The lines of a function while it is printed: braces, loops over lanes, what is declared where, and the places of values in arrays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ...ir.index import Axis
from ...tiles.program import TileProgram, Value, uses
from . import text
from .expressions import Expressions


class Lines(Expressions):
    """What has been printed of one kernel."""

    def __init__(self, program: TileProgram) -> None:
        super().__init__(program)
        self.lines: list[str] = []
        self.scopes: list[set[str]] = [set()]
        self.kept: dict[str, tuple[Axis, ...]] = {}  # the axes of the array of a value; none for a variable

    def write(self, line: str) -> None:
        self.lines.append(line)

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        self.write(f"{head} {{".lstrip())
        self.scopes.append(set())
        yield
        self.scopes.pop()
        self.write("}")

    def is_declared(self, name: str) -> bool:
        return any(name in s for s in self.scopes)

    @contextmanager
    def lanes(self, axes: tuple[Axis, ...]) -> Iterator[None]:
        """Loops over the lanes of axes."""
        with ExitStack() as loops:
            for a in axes:
                loops.enter_context(self.lane_from(a, "0", text.count(a)))
            yield

    @contextmanager
    def lane_from(self, axis: Axis, first: str, end: str) -> Iterator[None]:
        """A loop over some of the lanes of an axis."""
        lane = text.lane(axis)
        with self.braces(f"for (int64_t {lane} = {first}; {lane} < {end}; {lane}++)"):
            yield

    def write_pragma_over(self, over: tuple[Axis, ...]) -> None:
        if len(over) == 1:
            self.write('_Pragma("omp simd")')

    def element(self, v: Value) -> str:
        """The place of a value in its array, at the present lanes."""
        array = self.values.array(v.name, self.kept[v.name], max(v.dtype.itemsize, 4))
        parts = [text.scaled(text.lane(a), array.strides[a]) for a in self.kept[v.name]]
        return f"(({text.value_type(v.dtype)} *)(memory + {array.offset}))[{text.total(parts)}]"

    def need(self, v: Value) -> None:
        """Have a value in its variable here."""
        if self.is_declared(v.name):
            return
        maker = self.values.maker.get(v.name)
        name = f"const {text.value_type(v.dtype)} {text.variable(v)}"
        if maker is not None and self.values.virtual(v.name, 0):
            for x in uses(maker):
                self.need(x)
            self.write(f"{name} = {self.expression(maker)};")
        else:
            self.write(f"{name} = {self.element(v)};")
        self.scopes[-1].add(v.name)
