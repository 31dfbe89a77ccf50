"""Which lengths a module reads from its arguments, and what its kernels need of them.

*Which sizes may vary.*  An axis that always indexes whole buffer dimensions takes its length from an argument; axes that index the same
dimension have the same length.  So does an axis that is taken in parts: these keep the length that was planned for, and as many are
launched as it takes.  An axis inside any other compound index expression (a reshape, a shift) keeps its own.
So does one on whose length the program itself depends, which kernels do not show: the caller finds these (``ModuleSpec.fixed``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ..ir.index import Axis, IndexExpr
from ..ir.index import index as as_index
from ..ir.program import Result
from ..tiles.kernel import Buffer
from ..tiles.names import identifier
from ..tiles.outside import OutsideCall
from ..tiles.program import ExtentValue, IndexValue, Load, Store, TileProgram

Dimension = tuple[str, int]  # of a buffer, by its name


@dataclass(frozen=True)
class Language:
    """What kernels are printed in.  ``kernels``: the module without its host function, ``helpers``: what that calls in every module,
    ``host``: itself, of a given name."""

    helpers: str
    kernels: Callable[[ModuleSpec], str]
    host: Callable[[ModuleSpec, str], str]


@dataclass(frozen=True)
class ModuleSpec:
    """What a module is made from.  ``inputs`` in argument order; ``kernels`` in execution order; ``header`` is the docstring;
    ``calls`` are outside implementations, each with the number of kernels that run before it.  ``fixed``: the lengths of
    dimensions of inputs on which the program depends; ``equal``: dimensions of inputs that must have the length of another one;
    ``ranges``: the smallest and the largest length of others."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    kernels: tuple[TileProgram, ...]
    header: str = ""
    calls: tuple[tuple[int, OutsideCall], ...] = ()
    results: tuple[Result, ...] = ()  # what outputs are parts of; none if each is returned as it is
    fixed: Mapping[Dimension, int] = field(default_factory=dict)
    equal: tuple[tuple[Dimension, Dimension], ...] = ()
    ranges: tuple[tuple[Dimension, tuple[int, float]], ...] = ()
    launches: tuple[int, ...] = ()  # how many kernels each launch has, of all in order; none if each is one by itself
    language: Language | None = None  # Triton, if none is said

    @property
    def launched(self) -> tuple[tuple[TileProgram, ...], ...]:
        """The kernels, those together that are one launch."""
        rest = iter(self.kernels)
        return tuple(tuple(islice(rest, n)) for n in self.launches or (1,) * len(self.kernels))


@dataclass(frozen=True)
class Length:
    """A number that ``run`` reads from the shape of an argument: the dimensions of inputs and the axes that have it."""

    dimensions: tuple[Dimension, ...]
    axes: frozenset[str]


@dataclass(frozen=True)
class Guard:
    """What kernels need of a length: ``dimension`` of an input shows it, ``relation`` is ``==``, ``%`` (divisible by), ``<=`` or ``>``."""

    axis: str
    dimension: Dimension
    relation: str
    number: int

    def holds(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Whether inputs of these shapes, by name, satisfy it."""
        return self.admits(shapes[self.dimension[0]][self.dimension[1]])

    def admits(self, size: int) -> bool:
        """Whether a length satisfies it."""
        match self.relation:
            case "==":
                return size == self.number
            case "%":
                return size % self.number == 0
            case "<=":
                return size <= self.number
            case _:
                return size > self.number

    @property
    def test(self) -> str:
        """The comparison as Python writes it behind the length."""
        return f"% {self.number} == 0" if self.relation == "%" else f"{self.relation} {self.number}"

    @property
    def requirement(self) -> str:
        """The same in words."""
        if self.relation == "==":
            return f"of {self.number}" if self.number else "without elements"
        words = {"%": f"divisible by {self.number}", "<=": f"of at most {self.number}", ">": f"of at least {self.number + 1}"}
        return words[self.relation]

    def __str__(self) -> str:
        return f"{self.axis} {self.requirement}"


def admits(spec: ModuleSpec, axes: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether ``run`` is right where axes, by name, have these lengths, and inputs and outputs these shapes: they agree, and what it
    reads from shapes satisfies the guards."""
    return agrees(spec, axes, shapes) and all(g.holds(shapes) for g in guards(spec))


def agrees(spec: ModuleSpec, axes: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether these are the lengths that ``run`` would use: one number where it reads one, and the planned number everywhere else."""
    sizes = Sizes(spec)
    used = {name for name, _ in accesses(spec)}
    extents = (s.axis for k in spec.kernels for s in k.statements() if isinstance(s, ExtentValue))
    there: list[tuple[object, int, int]] = [
        (a, a.size, axes.get(a.name, a.size)) for a in {*sizes.axes, *extents} if sizes.root(a) not in sizes.counted
    ]
    for b in (*spec.inputs, *spec.outputs):
        if b.name in used:
            there += (((b.name, d), n, shapes[b.name][d]) for d, n in enumerate(b.shape))
    read: dict[object, int] = {}
    for thing, planned, n in there:
        root = sizes.root(thing)
        if n != (read.setdefault(root, n) if sizes.variable(root) else planned):
            return False
    return True


def guards(spec: ModuleSpec) -> tuple[Guard, ...]:
    """What kernels need of the lengths that ``run`` reads from shapes."""
    sizes = Sizes(spec)
    fixed = {sizes.root(x) for x in spec.fixed}
    found: dict[Guard, None] = {}
    for k in spec.kernels:
        for axis, role in k.kernel.roles.items():
            a, part = sizes.counted.get(sizes.root(axis), (axis, 1))  # so many elements of ``a`` are one of ``axis``
            root = sizes.root(a)
            if root not in sizes.source or (root in fixed and a.size > 0):
                continue
            even = k.kernel.even(axis)  # loaded without a mask
            once = any(b.axis == axis for s in k.statements() if isinstance(s, Store) for b in s.once)
            relations: list[tuple[str, int]] = []
            if part > 1 and a.size % part == 0:
                relations.append(("%", part))
            if a.size == 0:
                relations.append(("==", 0))
            elif role.kind == "resident" and even and part == 1:
                relations.append(("==", role.tile))
            else:
                if role.kind != "grid" or once:  # equations and ranges were used that hold if there are elements; some program must store
                    relations.append((">", 0))
                if even and role.tile > 1:
                    relations.append(("%", role.tile))
                elif role.kind == "resident":
                    relations.append(("<=", role.tile * part))
            found.update((Guard(a.name, sizes.source[root], *r), None) for r in relations)
    for a, most in sizes.within.items():
        if (root := sizes.root(a)) in sizes.source and root not in fixed:
            found[Guard(a.name, sizes.source[root], "<=", most)] = None
    return tuple(found)


def lengths(spec: ModuleSpec) -> tuple[Length, ...]:
    """What ``run`` takes from the shapes of its arguments.  Every other length in it is a number, the planned one."""
    sizes = Sizes(spec)
    dimensions = [(b.name, d) for b in spec.inputs for d in range(len(b.shape)) if (b.name, d) in sizes.dimensions]
    return tuple(
        Length(tuple(x for x in dimensions if sizes.root(x) == r), frozenset(a.name for a in sizes.axes if sizes.root(a) == r))
        for r in sizes.source
        if r in sizes.names
    )


class Sizes:
    """Which axes and dimensions have the same length, and where that length is read."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._parent: dict[object, object] = {}
        self._fixed: set[object] = set()
        self.within: dict[Axis, int] = {}  # axes that look at a part of a dimension of a length of its own, and how long they can be
        self._splits = dict.fromkeys(s for k in spec.kernels for s in k.kernel.splits)
        self._wholes = {as_index(outer) * inner.size + as_index(inner): a for a, outer, inner in self._splits}
        axes = [a for k in spec.kernels for a in k.kernel.roles] + [a for _, c in spec.calls for a in c.axes]
        axes += [a for k in spec.kernels for n in k.kernel.nodes if n.op == "load" for a in n.attrs[2]]
        self.axes = tuple(dict.fromkeys([*axes, *(a for a, _, _ in self._splits)]))
        buffers = {b.name: b for b in (*spec.inputs, *spec.temporaries, *spec.outputs)}
        for buffer, index in accesses(spec):
            for d, e in enumerate(index):
                self._relate((buffer, d), e, buffers[buffer].shape[d])
        for k in spec.kernels:
            for s in k.statements():
                if isinstance(s, IndexValue) and k.kernel.whole(s.expr) is None:
                    self._fix(*s.expr.axes())
        fixed = {self.root(x) for x in self._fixed}
        for a, outer, inner in self._splits:  # lengths that are known from one another, or all fixed
            if {self.root(a), self.root(outer)} & fixed or outer.size != -(-a.size // max(inner.size, 1)):
                fixed |= {self.root(a), self.root(outer)}
        self.dimensions = frozenset(x for x in self._parent if isinstance(x, tuple))  # those that something indexes
        self.source: dict[object, Dimension] = {}  # class -> input dimension that gives its length
        for b in spec.inputs:
            for d in range(len(b.shape)):
                r = self.root((b.name, d))
                if (b.name, d) in self._parent and r not in fixed:
                    self.source.setdefault(r, (b.name, d))
        self.counted = {  # class of what says in how many parts an axis is taken -> that axis, and the length of a part
            self.root(outer): (a, inner.size) for a, outer, inner in self._splits if self.root(a) in self.source
        }
        self.names: dict[object, str] = {}
        self.axis_names: dict[object, str] = {}
        for a in self.axes:
            self.names.setdefault(self.root(a), f"N_{identifier(a.name)}")
            self.axis_names.setdefault(self.root(a), a.name)

    def _relate(self, dimension: Dimension, e: IndexExpr, extent: int) -> None:
        axis = self._wholes.get(e) or e.as_axis()
        self._parent.setdefault(dimension, dimension)
        if axis is not None and axis.size == extent:
            self._parent.setdefault(axis, axis)
            self._parent[self.root(axis)] = self.root(dimension)
            return
        if e == as_index(0) and extent > 1:  # the first position is there whatever the length
            return
        part = (e - e.const).as_axis()
        if part is not None and e.const >= 0:
            self._parent.setdefault(part, part)
            self.within[part] = min(extent - e.const, self.within.get(part, extent))
            self._fix(dimension)
            return
        self._fix(dimension, *e.axes())

    def _fix(self, *things: object) -> None:
        for t in things:
            self._parent.setdefault(t, t)
            self._fixed.add(t)

    def root(self, x: object) -> object:
        """The representative of a class of equal lengths."""
        while self._parent.setdefault(x, x) != x:
            x = self._parent[x]
        return x

    def variable(self, root: object) -> bool:
        """Whether the length of a class is one that ``run`` reads, or computes from such."""
        return root in self.names and (root in self.source or root in self.counted)

    def of_axis(self, axis: Axis) -> str:
        """The length of an axis in the host function: a variable or a number."""
        r = self.root(axis)
        return self.names[r] if self.variable(r) else str(axis.size)

    def of_dimension(self, buffer: Buffer, d: int) -> str:
        """The length of a buffer dimension in the host function."""
        r = self.root((buffer.name, d))
        return self.names[r] if self.variable(r) else str(buffer.shape[d])


def accesses(spec: ModuleSpec) -> Iterator[tuple[str, tuple[IndexExpr, ...]]]:
    """Every buffer that kernels and calls touch, with the index of each of its dimensions."""
    for k in spec.kernels:
        for s in k.statements():
            if isinstance(s, Load | Store):
                yield s.access.buffer, s.access.index
    for _, call in spec.calls:
        for o in (*call.reads, call.result):
            yield o.buffer.name, tuple(as_index(0 if a is None else a) for a in o.dims)
