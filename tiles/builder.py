"""What any part of lowering may do: make values in blocks, each once and where it belongs, and ask for the value of a node.

:class:`Builder` knows the dims, bindings and names of one kernel and puts statements into blocks; it decides nothing about nodes.  How a
node becomes a value (``emit``) is :mod:`.lower`; contractions, guards and sums that carry what they lose are written against the builder
alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PlanError
from ..ir import dtypes, ops
from ..ir.bounds import LARGEST_EXTENT
from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr, index
from ..ir.recursion import Steps
from .analysis import Facts
from .blocks import Block, OpenAccumulator, OpenLoop
from .kernel import Kernel
from .masks import access
from .names import Names
from .operations import operation
from .program import (
    Binding,
    Cast,
    Count,
    Dim,
    ExtentValue,
    Fill,
    IndexValue,
    Let,
    Literal,
    Load,
    Looked,
    Operand,
    Permute,
    Value,
    Where,
)

INT32_MAX = 2**31 - 1
POSITIONS = 2 * LARGEST_EXTENT  # positions are kept in 32 bits, as if no axis were longer than 2**29: so are their sums and differences
FAR = 2.0**64  # what numbers beyond float32 are taken apart by
FARTHEST_DIGITS = 2.0**-126  # the smallest number with all digits
RING = ("add", "mul", "neg", "square")  # what is the same modulo 2**32 whatever the digits above


@dataclass(frozen=True, eq=False)
class Mode:
    """Running values wanted: ``kind`` of the loop whose body is ``block``; without a loop, the final value made safe."""

    kind: str  # "old" | "new"
    block: Block | None

    @property
    def key(self) -> tuple[str, int]:
        """For memoisation: modes of the same kind and loop are the same."""
        return self.kind, id(self.block)

    @property
    def axis(self) -> Axis | None:
        """The axis of the loop."""
        return None if self.block is None or self.block.loop is None else self.block.loop.binding.axis

    @property
    def level(self) -> int:
        """The level of the loop."""
        assert self.block is not None
        assert self.block.loop is not None
        return self.block.loop.level


class Builder(ABC):
    """Statements of one kernel, in blocks."""

    def __init__(self, kernel: Kernel, facts: Facts, min_dot_k: int) -> None:
        self.kernel, self.nodes, self.facts, self.min_dot_k = kernel, kernel.nodes, facts, min_dot_k
        self.names = Names(kernel)
        self.dims = tile_dims(kernel)
        self.dim_of = {a: d for d in self.dims for a in d.axes}
        self.fixed = _fixed_bindings(kernel)
        self._fixed_of = {b.axis: b for b in self.fixed}
        self._dims_of: dict[frozenset[Axis], tuple[Dim, ...]] = {}
        self._home_of: dict[str, Block] = {}  # value name -> block that defines it
        self._negations: set[str] = set()  # values that are negations: sums with them are named differences
        self._narrow: dict[str, Value] = {}  # what wider values were before they were widened
        self.root = Block()
        self.readers = Counter(a for n in self.nodes for a in n.args)
        self.readers.update(r.node for r in kernel.roots)

    @abstractmethod
    def emit(self, node: int, block: Block, mode: Mode | None = None, state: OpenAccumulator | None = None) -> Steps[Operand] | Operand:
        """The value of a node for use in a block.  ``state``: the accumulator that ``acc`` stands for."""

    def dims_of(self, axes: frozenset[Axis]) -> tuple[Dim, ...]:
        """The tile dims of a value that depends on some axes, in the kernel's order."""
        found = self._dims_of.get(axes)
        if found is None:
            found = self._dims_of[axes] = tuple(d for d in self.dims if any(a in axes for a in d.axes))
        return found

    def value(self, hint: str, dims: tuple[Dim, ...], dtype: DType) -> Value:
        """A new value with a name like the hint."""
        return Value(self.names.fresh(hint), dims, dtype)

    def put(self, block: Block, statement: Any) -> Value:
        """Append a statement; returns its value."""
        block.statements.append(statement)
        dst: Value = statement.dst
        self.define(dst, block)
        return dst

    def define(self, v: Value, block: Block) -> None:
        """Note which block defines a value."""
        self._home_of[v.name] = block

    def once(self, v: Value, key: tuple[Any, ...], make: Callable[[Value], Any], user: Block | None = None) -> Value:
        """A statement on one value, emitted where the value is defined and only once.

        An accumulator has one name for two values: in its loop the old state, after it the final one; ``user`` tells which.
        """
        block, full = self._home_of[v.name], (*key, v.name)
        if user is not None and block.parent is not None and all(b is not block for b in user.chain()):
            block = block.parent
        if full not in block.memo:
            block.memo[full] = self.put(block, make(v))
        found = block.memo[full]
        assert isinstance(found, Value)
        return found

    def binding(self, axis: Axis, block: Block) -> Binding:
        """The innermost binding of an axis that is open in a block."""
        if axis in self._fixed_of:
            return self._fixed_of[axis]
        body = block.enclosing(axis)
        if body is None or body.loop is None:
            raise PlanError(f"axis {axis.name} is streamed, but a value that depends on it is needed outside its loop")
        return body.loop.binding

    def bindings(self, axes: frozenset[Axis], block: Block) -> tuple[Binding, ...]:
        """The bindings of some axes, in a stable order."""
        return tuple(self.binding(a, block) for a in sorted(axes))

    def home(self, node: int, block: Block, mode: Mode | None) -> Block:
        """The outermost block in which everything that the node needs is bound."""
        target = self.root
        for axis in self.nodes[node].axes:
            if axis in self.facts.streamed:
                body = block.enclosing(axis)
                if body is None:
                    raise PlanError(f"axis {axis.name} is streamed, but a value that depends on it is needed outside its loop")
                if body.depth > target.depth:
                    target = body
        for axis in self.facts.running(node):
            body = block.enclosing(axis)
            if body is not None and body.depth > target.depth:
                target = body
        if mode is not None and mode.block is not None and mode.block.depth > target.depth:
            target = mode.block
        return target

    def loop(self, block: Block, axis: Axis, level: int) -> OpenLoop:
        """The loop over an axis at a level, directly inside a block."""
        found = block.loops.get((axis, level))
        if found is None:
            role = self.kernel.roles[axis]
            binding = Binding(self.names.binding(axis), axis, role.tile, "stream", self.kernel.even(axis))
            body = Block(block, depth=block.depth + 1)
            found = body.loop = block.loops[(axis, level)] = OpenLoop(binding, level, body)
            block.statements.append(found)
        return found

    def as_value(self, v: Operand, block: Block) -> Value:
        """The operand as a value; numbers become scalar values."""
        return v if isinstance(v, Value) else self.put(block, Fill(self.value("c", (), dtypes.float32), v.value))

    def as_float(self, v: Operand, user: Block) -> Operand:
        """The operand in float32, the type of all arithmetic, for use in a block."""
        if isinstance(v, Literal) or v.dtype == dtypes.float32:
            return v
        return self.cast(v, dtypes.float32, user, hint=v.name + "_f")

    def as_place(self, v: Operand, block: Block) -> Value:
        """The operand as a position, in 32 or 64 bits."""
        if isinstance(v, Literal):
            return self.put(block, Fill(self.value("c", (), dtypes.int64), v.value))
        return v if v.dtype in (dtypes.int32, dtypes.int64) else self.cast(v, dtypes.int32, block)

    def as_bool(self, v: Operand, user: Block) -> Operand:
        """The operand as a truth value, for use in a block."""
        if isinstance(v, Literal):
            return Literal(float(v.value != 0))
        if v.dtype == dtypes.bool_:
            return v
        return self.once(v, ("bool",), lambda s: Let(self.value("cond", s.dims, dtypes.bool_), "ne", (s, Literal(0.0))), user)

    def as_integer(self, v: Operand, dtype: DType, user: Block) -> Operand:
        """The operand in an integer type of 32 or 64 bits, for use in a block; a number stays one."""
        if isinstance(v, Literal) or v.dtype == dtype:
            return v
        return self.cast(v, dtype, user)

    def let(
        self, block: Block, op: str, args: tuple[Operand, ...], hint: str | None = None, dtype: DType | None = None, stored: bool = False
    ) -> Operand:
        """A scalar op on operands: constants are folded, integers stay integers, everything else is float32.

        ``dtype``: the type that the program gives the result; ``stored``: which it keeps in 16 bits.
        """
        spec = operation(op)
        numbers = [a.value for a in args if isinstance(a, Literal)]
        if len(numbers) == len(args):
            return Literal(float(spec.numpy(*map(np.float64, numbers))))
        if op in ("and", "or") and numbers:  # printed, the number would be no truth value
            other = next(a for a in args if isinstance(a, Value))
            return self.as_bool(other, block) if (numbers[0] != 0) == (op == "and") else Literal(float(numbers[0] != 0))
        if op == "mul" and numbers and not self.kernel.exact and (by := _apart(numbers[0])) is not None:
            value = next(a for a in args if isinstance(a, Value))
            if value.dtype.is_float:
                return self.let(block, op, (self.let(block, op, (value, Literal(by))), Literal(numbers[0] / by)), hint, dtype, stored)
        typed, dtype = self._operands(spec, args, dtype, block)
        if op == "where" and isinstance(args[0], Literal):
            return typed[1] if args[0].value else typed[2]
        dims = {d for a in typed if isinstance(a, Value) for d in a.dims}
        if op == "add" and hint is None and any(isinstance(a, Value) and a.name in self._negations for a in typed):
            hint = "diff"
        dst = self.value(hint or op.rstrip("_"), tuple(d for d in self.dims if d in dims), dtype)
        if op == "neg":
            self._negations.add(dst.name)
        return self.put(block, Let(dst, op, typed, stored=stored))

    def _operands(self, spec: ops.ScalarOp, args: tuple[Operand, ...], of: DType | None, user: Block) -> tuple[tuple[Operand, ...], DType]:
        """Arguments converted to the types that an op works in, and the type of its result."""
        if spec.name in ("and", "or", "not"):
            return tuple(self.as_bool(a, user) for a in args), dtypes.bool_
        lead: tuple[Operand, ...] = (self.as_bool(args[0], user),) if spec.name == "where" else ()
        rest = args[len(lead) :]
        values = [a for a in rest if isinstance(a, Value)]
        whole = all(float(a.value).is_integer() for a in rest if isinstance(a, Literal))
        kinds = {v.dtype.kind for v in values}
        if whole and spec.result != "float" and "int" in kinds and "float" not in kinds:
            rest, wide = self._integers(spec, rest, of, user)
            return lead + rest, dtypes.bool_ if spec.result == "bool" else wide
        return lead + tuple(self.as_float(a, user) for a in rest), dtypes.bool_ if spec.result == "bool" else dtypes.float32

    def _integers(self, spec: ops.ScalarOp, args: tuple[Operand, ...], of: DType | None, user: Block) -> tuple[tuple[Operand, ...], DType]:
        """Integers and truth values in the type that an op computes them in: 64 bits if one of them has more than 32, else 32.

        What a sum, product or negation of 32 bits is modulo 2**32 does not depend on the digits above, nor one of 64 bits on those above
        these; numbers are cut to it.
        """
        values = [a for a in args if isinstance(a, Value)]
        numbers = [int(a.value) for a in args if isinstance(a, Literal)]
        narrow = all(v.dtype != dtypes.int64 for v in values)
        if narrow and spec.name in RING and of is not None and of.itemsize <= 4:
            args = _cut(args, 32)
        elif of == dtypes.int64 or not all(-(2**31) <= n < 2**31 for n in numbers):
            return tuple(self.as_integer(a, dtypes.int64, user) for a in (_cut(args, 64) if spec.name in RING else args)), dtypes.int64
        wide = dtypes.int32 if narrow else dtypes.int64
        # Triton widens a type of 32 bits beside one of 64 by itself
        keep = (dtypes.int32, dtypes.int64)
        return tuple(a if isinstance(a, Literal) or a.dtype in keep else self.as_integer(a, wide, user) for a in args), wide

    def masked(self, block: Block, v: Value, bindings: tuple[Binding, ...], fill: float) -> Value:
        """The value with its padded lanes along the bindings replaced."""
        if not bindings:
            return v
        key = ("where", v.name, bindings, fill)
        if key not in block.memo:
            block.memo[key] = self.put(block, Where(self.value(v.name + "_ok", v.dims, v.dtype), v, bindings, fill))
        found = block.memo[key]
        assert isinstance(found, Value)
        return found

    def laid_out(self, v: Operand, axis: Axis, fill: float, where: Block) -> Value:
        """A value that does not vary along an axis as a tile of equal ones along it, with ``fill`` on padded lanes."""
        of = v.dtype if isinstance(v, Value) else dtypes.float32
        inside = self.let(where, "lt", (self.index(index(axis), where), self.extent(axis, dtypes.int32)), hint="inside")
        found = self.let(where, "where", (inside, v, Literal(of.number(fill))), hint=f"over_{axis.name}", dtype=of)
        assert isinstance(found, Value)
        return found

    def state_of(self, node: int, body: Block) -> Value | None:
        """The accumulator of a reduction in a loop, if it is at its identity where the reduction is."""
        state = body.states.get((node, None))
        return None if state is None or self.nodes[node].attrs[0] == "mean" else state.old

    def cast(self, v: Value, to: DType, user: Block | None = None, hint: str = "") -> Value:
        """The value in another type, for use in a block; one that was widened from that type is what it was."""
        narrow = self._narrow.get(v.name)
        if narrow is not None and narrow.dtype == to:
            return narrow
        found = self.once(v, ("cast", to), lambda s: Cast(self.value(hint or f"{s.name}_{to.short}", s.dims, to), s), user)
        if v.dtype.is_float and to == dtypes.float32:
            self._narrow[found.name] = v
        return found

    def extent(self, axis: Axis, dtype: DType = dtypes.float32) -> Value:
        """The length of an axis as a scalar."""
        key = ("extent", axis, dtype)
        if key not in self.root.memo:
            dst = self.value(f"n_{axis.name}", (), dtype)
            self.root.memo[key] = self.put(self.root, ExtentValue(dst, axis))
        found = self.root.memo[key]
        assert isinstance(found, Value)
        return found

    def index(self, expr: IndexExpr, where: Block) -> Operand:
        axes = expr.axes()
        if not axes:
            return Literal(float(expr.const))
        lo, hi = expr.bounds()
        dtype = dtypes.int32 if lo >= -INT32_MAX // 2 and hi <= INT32_MAX // 2 else dtypes.int64
        axis = expr.as_axis()
        dst = self.value(f"at_{axis.name}" if axis else "at", self.dims_of(axes), dtype)
        return self.put(where, IndexValue(dst, expr, self.bindings(axes, where)))

    def load(self, node: int, where: Block, dims: tuple[Dim, ...] | None = None) -> Steps[Value]:
        """A loaded tile with its dims in the canonical or a given order."""
        n = self.nodes[node]
        name, index, along = n.attrs
        canonical = self.dims_of(n.axes)
        dims = dims or canonical
        key = ("load", node, dims)
        if key not in where.memo:
            other = where.memo.get(("load", node, canonical))
            if isinstance(other, Value):
                return self.once(other, ("permute", dims), lambda s: Permute(self.value(s.name + "_t", dims, s.dtype), s))
            buffer = self.kernel.buffers[name]
            looked: list[Looked] = []
            for axis, x in zip(along, n.args, strict=True):
                looked.append(Looked(axis, self.as_place((yield self.emit(x, where)), where), self.nodes[x].axes))
            at = access(self.kernel, name, index, self.bindings(n.axes, where), dims, tuple(looked))
            where.memo[key] = self.put(where, Load(self.value(name, dims, buffer.dtype), at))
        found = where.memo[key]
        assert isinstance(found, Value)
        return found

    def count(self, body: Block, which: str, dtype: DType = dtypes.float32) -> Value:
        key = ("count", which, dtype)
        if key not in body.memo:
            assert body.loop is not None
            b = body.loop.binding
            dst = self.value({"old": "seen", "new": "seen_now", "tile": "here"}[which] + f"_{b.name}", (), dtype)
            body.memo[key] = self.put(body, Count(dst, b, which))  # type: ignore[arg-type]
        found = body.memo[key]
        assert isinstance(found, Value)
        return found


def _apart(number: float) -> float | None:
    """A factor of a number that float32 does not hold with all its digits, by which a value is multiplied before the rest of the number:
    of x / 1e-40, which is x * 1e40."""
    size = abs(number)
    if 0 < size < FARTHEST_DIGITS:
        return 1 / FAR
    return FAR if dtypes.float32.largest < size < math.inf else None


def _cut(args: tuple[Operand, ...], bits: int) -> tuple[Operand, ...]:
    """Operands with whole numbers modulo a power of two, as numbers with a sign."""
    half, all_ = 1 << bits - 1, 1 << bits
    return tuple(Literal(float((int(a.value) + half) % all_ - half)) if isinstance(a, Literal) else a for a in args)


def tile_dims(kernel: Kernel) -> tuple[Dim, ...]:
    """The tile dims in canonical order."""
    pack_of = {a: p for p in kernel.packs for a in p}
    dims: list[Dim] = []
    done: set[Axis] = set()
    for axis in (*kernel.order, *kernel.roles):
        if axis in done:
            continue
        pack = pack_of.get(axis, (axis,))
        done.update(pack)
        axes = tuple(a for a in pack if kernel.tile(a) > 1)
        if axes:
            tiles = tuple(kernel.tile(a) for a in axes)
            size = 1
            for t in tiles:
                size *= t
            dims.append(Dim("_".join(a.name for a in axes), axes, tiles, size))
    return tuple(dims)


def _fixed_bindings(kernel: Kernel) -> tuple[Binding, ...]:
    """Grid bindings in launch order, then resident ones."""
    grid = [a for a in kernel.grid if kernel.roles[a].kind == "grid"]
    grid += [a for a, r in kernel.roles.items() if r.kind == "grid" and a not in grid]
    resident = [a for a, r in kernel.roles.items() if r.kind == "resident"]
    for a in resident:
        if kernel.tile(a) < a.size:
            raise PlanError(f"axis {a.name} is resident but its tile {kernel.tile(a)} is smaller than its length {a.size}")
        if a.size == 0 and kernel.tile(a) < 2:
            raise PlanError(f"axis {a.name} is resident and has no elements: its tile must be 2 or more, so that its lanes are masked")
    return tuple(
        Binding(a.name, a, kernel.tile(a), "grid" if kernel.roles[a].kind == "grid" else "resident", kernel.even(a))
        for a in (*grid, *resident)
    )
