"""Lowering: from a kernel (nodes and decisions) to its tile program, by demand-driven emission into blocks.

``emit(node, block, mode)`` returns the value of a node for use in a block.  Four rules make everything else fall out:

- A value lives in its *home*: the outermost block that is inside the innermost open loop of every axis it needs.  Hoisting is that.
- A reduction over a streamed axis gets or creates the loop (axis, level) in its home, and an accumulator in that loop.  Reductions at
  the same level share the loop; a reduction that needs the result of another is one level higher and gets a later loop.
- A *mode* says that running values are wanted: the value as of before (old) or after (new) the present step of one loop.  Reductions
  that accumulate in that loop are read from their accumulators; whatever was complete before the loop is just its value.
- Demand order is not program order: every block is sorted by dependency when it is closed.

Whoever asks for the value of another node is a generator that yields the request (:func:`eqfuse.ir.recursion.completed`): the way from
a root to a leaf is as long as the program.

If loops that were shared by axis turn out to need each other, the kernel is lowered again with one global reduction depth in place of
the levels per axis, which cannot be cyclic but may take more passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import PlanError
from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr
from ..ir.monoids import MONOIDS, Monoid
from ..ir.ops import OPS
from ..ir.recursion import Steps, completed
from ..ir.spec import wanted
from . import compensation, dots, guards, scans, states
from .analysis import Facts
from .blocks import Block, LoopCycle, OpenAccumulator, close
from .builder import POSITIONS, Builder, Mode
from .finish import PRICED
from .kernel import Kernel, Node
from .kernel_spec import check_kernel
from .lanes import by_lanes
from .masks import access, padded
from .program import (
    Access,
    Dim,
    Fill,
    IndexValue,
    Literal,
    Mean,
    Operand,
    Reduce,
    Store,
    TileProgram,
    Value,
)
from .quotients import product
from .skipping import Skipping
from .spec import check_tiles


def lower(kernel: Kernel, *, min_dot_k: int = dots.MIN_DOT_K) -> TileProgram:
    """Lower a kernel that is to be run.  ``min_dot_k``: the shortest contraction given to the matrix unit (smaller ones are products and
    sums).

    Raises :class:`~eqfuse.errors.PlanError` if the roles are illegal for the nodes: a grid axis that is reduced, a roll over an axis
    that is not streamed, a root without an axis it depends on.  With ``EQFUSE_SPEC=1``, SpecError for a kernel or a tile program that is
    not valid.
    """
    if not wanted():
        return lowered(kernel, min_dot_k=min_dot_k)
    check_kernel(kernel)
    program = lowered(kernel, min_dot_k=min_dot_k)
    check_tiles(program)
    return program


def lowered(kernel: Kernel, *, min_dot_k: int = dots.MIN_DOT_K, facts: Callable[[bool], Facts] | None = None) -> TileProgram:
    """As :func:`lower`, but unchecked: for candidates, which a search makes by the hundred.  ``facts``: what is known of its nodes
    already, with levels per axis (False) or by one global depth (True)."""
    facts = facts or (lambda split: Facts(kernel, split))
    try:
        return Lowering(kernel, facts(False), min_dot_k).program()
    except LoopCycle:
        return Lowering(kernel, facts(True), min_dot_k).program()


class Lowering(Builder):
    """One lowering of one kernel."""

    def __init__(self, kernel: Kernel, facts: Facts, min_dot_k: int = dots.MIN_DOT_K) -> None:
        super().__init__(kernel, facts, min_dot_k)
        self.contractions = dots.found(self)
        self.compensates = compensation.worthwhile(kernel, self.contractions)

    def program(self) -> TileProgram:
        """Emit all roots and close the blocks."""
        for i in range(len(self.kernel.roots)):
            self._store(i)
        body = close(self.root)
        if not self.kernel.exact:
            temporary = {name for name, b in self.kernel.buffers.items() if b.role == "temporary"}
            body = Skipping(temporary, self.dims, self.value).program(body, self.fixed)
        made = TileProgram(self.kernel, self.dims, self.fixed, body, self.facts.split)
        if self.kernel.lanes:
            made = by_lanes(made)
        for decide in PRICED:
            made = decide(made)
        return made

    # -- emission ------------------------------------------------------------------------------------------------------------
    def emit(self, node: int, block: Block, mode: Mode | None = None, state: OpenAccumulator | None = None) -> Steps[Operand] | Operand:
        """The value of a node, made once and in its home.  Modes and states that do not matter to it are dropped."""
        if self.nodes[node].op == "acc":
            assert state is not None, "acc outside a roll"
            return state.old
        if mode is not None and not self._runs(node, mode):
            mode = None
        if state is not None and not self.facts.has_state(node):
            state = None
        where = block if state is not None else self.home(node, block, mode)
        key = (node, mode and mode.key, state and state.old.name)
        found = where.memo.get(key)
        return self._made(key, node, where, mode, state) if found is None else found

    def _made(self, key: Any, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Steps[Operand]:
        where.memo[key] = yield self._emit(node, where, mode, state)
        return where.memo[key]

    def mode_of(self, ref: Node, where: Block) -> Mode:
        """The mode that a reference asks for."""
        return Mode(ref.attrs[0], where.enclosing(ref.attrs[1]))

    def _runs(self, node: int, mode: Mode) -> bool:
        """The mode matters to a node: it is not complete before the loop, or an empty reference in it must be made safe."""
        if mode.block is not None and mode.axis is not None and self.facts.level(node, mode.axis) > mode.level:
            return True
        return mode.kind == "new" and guards.needs_safe(self.facts, node)

    def _emit(self, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Steps[Operand]:
        n = self.nodes[node]
        if n.op == "const":
            return Literal(n.attrs[0])
        if n.op == "extent":
            return self.extent(n.attrs[0])
        if n.op == "index":
            return self.index(n.attrs[0], where)
        if n.op == "load":
            return (yield self.load(node, where))
        if n.op == "ref":
            return (yield self.emit(n.args[0], where, self.mode_of(n, where)))
        if n.op == "pre":
            return (yield self._prefix(n.args[0], n.attrs[0], where))
        if n.op in ("reduce", "scan") and MONOIDS[n.attrs[0]].several:
            return (yield states.emit(self, node, where, mode))
        if n.op == "merge":
            return (yield states.merged(self, node, where, mode))
        if n.op in ("reduce", "roll"):
            return (yield self._reduction(node, where, mode))
        if n.op == "scan":
            return (yield scans.emit(self, node, self.state_type(node), where, mode, digits=self.compensates))
        if n.scalar == "mul" and any(self.nodes[x].scalar == "recip" for x in n.args):
            return (yield product(self, n.args, where, mode, state, stored=n.stored is not None))
        whole = self._integers_of(n)
        args: list[Operand] = []
        for x in n.args:
            if whole is not None and self.nodes[x].op == "extent":
                args.append(self.extent(self.nodes[x].attrs[0], whole))
            else:
                args.append((yield self.emit(x, where, mode, state)))
        if n.op == "map" and OPS[n.attrs[0]].holds is not None and self.facts.dtype(n.args[0]) is dtypes.float32:
            return args[0]  # what a matrix unit may round is itself everywhere else
        if n.op == "map":
            dtype = self.facts.dtype(node)
            if dtype == dtypes.int64 and self.facts.range(node).magnitude <= POSITIONS:
                dtype = None  # 32 bits are enough where the operands have no more
            return self.let(where, n.attrs[0], tuple(args), dtype=dtype, stored=n.stored is not None)
        assert n.op == "cast", f"unknown node op {n.op!r}"
        return self._cast(node, args[0], where)

    def _integers_of(self, n: Node) -> DType | None:
        """The type of integers that lengths have beside the other arguments, if an op takes nothing else: a float may not hold them."""
        if n.op != "map" or OPS[n.attrs[0]].result == "float":
            return None
        values = n.args[n.attrs[0] == "where" :]
        kinds = {d for x in values if self.nodes[x].op not in ("extent", "const") and (d := self.facts.dtype(x)) is not None}
        if not kinds or any(d.kind != "int" for d in kinds):
            return None
        return dtypes.int64 if dtypes.int64 in kinds else dtypes.int32

    def _cast(self, node: int, v: Operand, where: Block) -> Operand:
        """A conversion as torch does it (:func:`~eqfuse.ir.dtypes.cast`)."""
        to = self.nodes[node].attrs[0]
        if to.is_float:
            v = self.as_value(v, where)
            if not v.dtype.is_float and to.itemsize == 2:  # by way of float32
                v = self.cast(v, dtypes.float32, where)
            return v if v.dtype == to else self.cast(v, to, where)
        if to.kind == "bool":
            return self.as_bool(v, where)
        if isinstance(v, Literal):
            return self.put(where, Fill(self.value("c", (), to), float(dtypes.cast(np.asarray(v.value), to))))
        if v.dtype.is_float and to.itemsize < 8:  # a device has no meaning for what the type does not hold; 64 bits wrap
            size = self.facts.range(self.nodes[node].args[0], finite_inputs=True)
            inside = size.lo >= -(2.0**31) and size.hi < 2.0**31
            v = self.cast(v, dtypes.int32 if inside else dtypes.int64, where)
        return v if v.dtype == to else self.cast(v, to, where)

    # -- reductions ----------------------------------------------------------------------------------------------------------
    def _reduction(self, node: int, where: Block, mode: Mode | None) -> Steps[Operand]:
        n, facts = self.nodes[node], self.facts
        monoid, axis = n.attrs
        if n.op == "reduce" and MONOIDS[monoid].copies and not facts.runs_along(n.args[0], axis):
            return (yield self._repetition(node, where, mode))
        if axis not in facts.streamed:
            if self.kernel.roles[axis].kind == "grid":
                raise PlanError(f"axis {axis.name} is reduced, so it cannot be a grid axis")
            if n.op == "roll":
                raise PlanError(f"a rolling reduction over {axis.name} needs the axis to be streamed")
            v = yield self._tile(n.args[0], axis, monoid, where, mode, None, kind=self.state_type(node))
            if monoid == "mean":
                assert isinstance(v, Value)
                v = self.put(where, Mean(self.value(f"mean_{axis.name}", v.dims, dtypes.float32), v, axis, None, "final"))
            return self._safe(node, v, where, mode)
        level = max(facts.level(x, axis) for x in n.args)
        if mode is not None and mode.block is not None and mode.axis == axis and level >= mode.level:
            if level > mode.level:
                raise PlanError(f"a reference over {axis.name} is to a reduction of a later loop")
            self._check_same_tile(node, where, mode.block)
            state = yield self._accumulator(node, mode.block, None)
            return self._safe(node, self._read(node, state, where, mode.kind, mode.block), where, mode)
        if mode is not None and mode.block is not None and facts.level(node, mode.axis) <= mode.level:  # type: ignore[arg-type]
            return self._safe(node, (yield self.emit(node, where)), where, mode)
        if mode is not None and mode.block is None:
            return self._safe(node, (yield self.emit(node, where)), where, mode)
        loop = self.loop(where, axis, level)
        state = yield self._accumulator(node, loop.body, mode)
        return self._safe(node, self._read(node, state, where, "final", loop.body), where, mode)

    def _safe(self, node: int, v: Operand, where: Block, mode: Mode | None) -> Operand:
        """A new reference that cannot be the identity: a harmless value where nothing contributes yet."""
        harmless = guards.safe_value(self.facts, node) if mode is not None and mode.kind == "new" else None
        if harmless is None:
            return v
        identity = MONOIDS[self.nodes[node].attrs[0]].identity
        empty = self.let(where, "eq", (v, Literal(identity)), hint="empty")
        return self.let(where, "where", (empty, Literal(harmless), v), hint="safe")

    def _repetition(self, node: int, where: Block, mode: Mode | None) -> Steps[Operand]:
        """A reduction of a value that does not depend on the axis: a multiple of it for a sum, itself otherwise."""
        n = self.nodes[node]
        monoid, axis = n.attrs
        times = MONOIDS[monoid].copies == "times"
        if not times and axis.size == 0:
            return Literal(MONOIDS[monoid].identity)
        v: Operand = yield self.emit(n.args[0], where, mode)
        if MONOIDS[monoid].of_integers and mode is None:
            kind = self.state_type(node)
            return self.let(where, "mul", (self.as_integer(v, kind, where), self.extent(axis, kind)), dtype=kind) if times else v
        running = mode is not None and mode.block is not None and mode.axis == axis and self.facts.level(node, axis) > mode.level
        if not running:
            return self.let(where, "mul", (self.as_float(v, where), self.extent(axis))) if times else v
        assert mode is not None
        assert mode.block is not None
        if times:
            return self.let(where, "mul", (self.as_float(v, where), self.count(mode.block, mode.kind)))
        if mode.kind == "new":
            return v
        return self.let(where, "where", (guards.first_step(self, mode.block), Literal(MONOIDS[monoid].identity), self.as_float(v, where)))

    def state_type(self, node: int) -> DType:
        """The type that a reduction accumulates in."""
        if not MONOIDS[self.nodes[node].attrs[0]].of_integers:
            return dtypes.float32
        return dtypes.int64 if self.facts.dtype(node) == dtypes.int64 else dtypes.int32

    def _prefix(self, reduction: int, axis: Axis, where: Block) -> Steps[Operand]:
        """The sum in this loop before the present step, whatever other loops have completed."""
        body = where.enclosing(axis)
        if body is None:
            raise PlanError(f"a prefix over {axis.name} is needed outside a loop over it")
        n = self.nodes[reduction]
        if n.op == "reduce" and n.attrs[0] == "sum" and not self.facts.runs_along(n.args[0], axis):
            return self.let(where, "mul", (self.as_float((yield self.emit(n.args[0], where)), where), self.count(body, "old")))
        self._check_same_tile(reduction, where, body)
        return self._read(reduction, (yield self._accumulator(reduction, body, None)), where, "old", body)

    def _check_same_tile(self, node: int, where: Block, body: Block) -> None:
        """A running value belongs to the tile that its own loop is at.  A loop in between that opens one of its axes a second time
        is at another tile, for which no running value exists."""
        for axis in self.nodes[node].axes & self.facts.streamed:
            if where.enclosing(axis) is not body.enclosing(axis):
                raise PlanError(f"a running value depends on {axis.name}, which a loop inside its own opens again")

    def _accumulator(self, node: int, body: Block, mode: Mode | None) -> Steps[OpenAccumulator]:
        """The accumulator of a reduction in a loop; ``mode`` if its elements are running values of an outer loop."""
        key = (node, mode and mode.key)
        if key in body.states:
            return body.states[key]
        assert body.loop is not None
        n = self.nodes[node]
        monoid, axis = n.attrs
        m = MONOIDS[MONOIDS[monoid].state]
        lanes = self._lanes(node)
        name, axes = m.name.removeprefix("i"), n.axes if lanes is None else n.axes | {axis}
        hint = f"{name}_{axis.name}" if lanes is None else f"{name}_lanes_{axis.name}"
        old = self.value(hint, self.dims_of(axes), self.state_type(node))
        state = body.states[key] = OpenAccumulator(old, m.name, m.identity, node, lanes=lanes)
        body.loop.accumulators.append(state)
        self.define(old, body)
        form = compensation.update_of(self.facts, node)
        if form is not None and self._compensated(node):

            def tile() -> Steps[Operand]:
                return self._tile(n.args[0], axis, monoid, body, mode, None, hint="tile_sum")

            state.new = yield compensation.step(self, node, form, state, body, mode, tile)
            return state
        hint = old.name + "_new"
        if lanes is not None:
            assert form is not None
            kept = (yield compensation.factor(self, node, form, state, body, mode)).of(self, old, body)
            new = self.let(body, m.combine, (kept, (yield self._elements(n.args[0], axis, m, body, mode, old.dtype))), hint=hint)
        else:
            found = dots.match(self, n.args[0], axis) if m.name == "sum" else None
            if found is not None and form is not None and not form.terms:
                state.scale = found.how.scale
            update: Operand = old
            if n.op == "roll":
                update = yield self.emit(n.args[1], body, mode, state)
                untouched = guards.untouched(self, node, state, body)
                if untouched is not None:
                    update = self.let(body, "where", (untouched, old, update))
            new = yield self._tile(n.args[0], axis, monoid, body, mode, update, hint=hint, kind=old.dtype, scale=state.scale)
        assert isinstance(new, Value)
        assert new.dims == old.dims, f"accumulator {old.name} has dims {old.dims}, its update {new.dims}"
        state.new = new
        return state

    def _lanes(self, node: int) -> Dim | None:
        """The dim of the lanes that a reduction in a loop keeps: one state for each, and one reduction of them after the loop.

        So in no step do the threads of a program wait for each other.  Not where the loop reads the running value, nor where an update adds
        to it what belongs to no lane, nor of sums that carry what they lose; nor beside contractions, which need the registers.
        """
        n = self.nodes[node]
        monoid, axis = n.attrs
        dim = self.dim_of.get(axis)
        if self.contractions or node in self.facts.read_running or self._compensated(node):
            return None
        if dim is None or len(dim.axes) > 1 or axis not in self.nodes[n.args[0]].axes:
            return None
        if n.op == "roll" and not ((update := compensation.update_of(self.facts, node)) and not update.terms):
            return None
        return None if MONOIDS[monoid].state == "sum" and self._pick(n.args[0], axis) is not None else dim

    def _compensated(self, node: int) -> bool:
        """Whether a reduction is a sum that carries what its additions lose."""
        n = self.nodes[node]
        body, (monoid, axis) = n.args[0], n.attrs
        if MONOIDS[monoid].state != "sum" or not self.compensates or dots.match(self, body, axis) is not None:
            return False
        return not self._goes_on(body, axis) and compensation.update_of(self.facts, node) is not None

    def _read(self, node: int, state: OpenAccumulator, where: Block, which: str, body: Block) -> Operand:
        assert body.loop is not None
        v = state.old
        if which == "new":
            if state.new is None:
                raise PlanError("a rolling reduction refers to its own new value")
            v = state.new
        if state.lanes is not None:
            assert which == "final", "a running value is read, whose state is kept by lanes"
            v = self._over_lanes(node, v, state.lanes, where)
        if state.scale != 1:
            key = ("unscaled", v.name, which)
            if key not in where.memo:
                where.memo[key] = self.let(where, "mul", (v, Literal(1 / state.scale)))
            v = self.as_value(where.memo[key], where)
        if self.nodes[node].attrs[0] != "mean":
            return v
        b = body.loop.binding
        key = ("mean", v.name, which)
        if key not in where.memo:
            dst = self.value(f"mean_{b.axis.name}", v.dims, dtypes.float32)
            kind = {"final": "final", "old": "old", "new": "new"}[which]
            where.memo[key] = self.put(where, Mean(dst, v, b.axis, None if which == "final" else b, kind))  # type: ignore[arg-type]
        return where.memo[key]

    def _over_lanes(self, node: int, v: Value, lanes: Dim, where: Block) -> Value:
        """The reduction of a state that was kept by lanes."""
        key = ("lanes", v.name)
        if key not in where.memo:
            monoid, axis = self.nodes[node].attrs
            name = MONOIDS[monoid].state
            dst = self.value(f"{name.removeprefix('i')}_{axis.name}", tuple(d for d in v.dims if d != lanes), v.dtype)
            where.memo[key] = self.put(where, Reduce(dst, name, lanes, v))
        found = where.memo[key]
        assert isinstance(found, Value)
        return found

    def _elements(self, body: int, axis: Axis, m: Monoid, where: Block, mode: Mode | None, kind: DType) -> Steps[Operand]:
        """What a tile along an axis has for a reduction, padded lanes included."""
        v = yield self.emit(body, where, mode)
        v = self.as_float(v, where) if kind.is_float else self.as_integer(self.as_value(v, where), kind, where)
        if not m.copies and axis not in self.nodes[body].axes:
            return self.laid_out(v, axis, m.identity, where)
        dim = self.dim_of.get(axis)
        if not isinstance(v, Value) or dim is None or dim not in v.dims:
            return v
        if len(dim.axes) > 1:
            raise PlanError(f"axis {axis.name} is packed, so it cannot be reduced")
        if m.combine == "add" and self.facts.zero_padded(body, axis):
            return v
        return self.masked(where, v, padded((self.binding(axis, where),)), m.identity)

    def _tile(
        self,
        body: int,
        axis: Axis,
        monoid: str,
        where: Block,
        mode: Mode | None,
        acc: Operand | None,
        hint: str | None = None,
        kind: DType = dtypes.float32,
        scale: float = 1.0,
    ) -> Steps[Operand]:
        """The reduction of one tile along an axis, in a type, combined with ``acc`` if there is one; ``scale`` times that."""
        m = MONOIDS[MONOIDS[monoid].state]
        if m.name == "sum":
            found = dots.match(self, body, axis)
            if found is not None:
                accumulator = acc if isinstance(acc, Value) and scale == found.how.scale else None
                dot = yield dots.emit(self, found, axis, where, mode, accumulator, hint or f"dot_{axis.name}")
                if scale != found.how.scale:
                    dot = self.let(where, "mul", (dot, Literal(scale / found.how.scale)))
                return dot if acc is accumulator else self.let(where, "add", (acc, dot), hint=hint)  # type: ignore[arg-type]
            if mode is None and isinstance(acc, Value) and self._goes_on(body, axis):
                return (yield self._summed_on(body, where, acc, hint))
        dim = self.dim_of.get(axis)
        lanes = dim is not None and len(dim.axes) == 1
        picked = (yield self._picked(body, axis, where, mode, kind)) if m.combine == "add" and lanes else None
        if picked is not None:
            return picked if acc is None else self.let(where, "add", (acc, picked), hint=hint)
        v = yield self._elements(body, axis, m, where, mode, kind)
        if m.copies and axis not in self.nodes[body].axes:  # runs along the loop, but is one value per tile
            if m.copies == "times":
                loop_body = where.enclosing(axis)
                assert loop_body is not None
                v = self.let(where, "mul", (v, self.count(loop_body, "tile", kind)))
        elif dim is not None and isinstance(v, Value) and dim in v.dims:
            dims = tuple(d for d in v.dims if d != dim)
            called = m.name.removeprefix("i") if m.of_integers else m.name
            name = f"tile_{called}" if acc is not None else hint or f"{called}_{axis.name}"
            v = self.put(where, Reduce(self.value(name, dims, kind), m.name, dim, v))
        return v if acc is None else self.let(where, m.combine, (acc, v), hint=hint)

    def _goes_on(self, node: int, axis: Axis) -> bool:
        """Whether a sum over an axis may add to its own state what the node sums: products on the matrix unit, over one axis or several,
        that nothing else reads."""
        n = self.nodes[node]
        if axis in self.dim_of or axis not in n.axes or n.op != "reduce" or n.attrs[0] != "sum" or self.readers[node] != 1:
            return False
        product = dots.match(self, n.args[0], n.attrs[1])
        return not self.kernel.exact and (self._goes_on(n.args[0], n.attrs[1]) if product is None else product.how.scale == 1)

    def _summed_on(self, node: int, where: Block, acc: Value, hint: str | None) -> Steps[Value]:
        """A sum of products added to ``acc`` as it is summed: one accumulator for all axes of a matrix product whose rows have several."""
        n = self.nodes[node]
        axis = n.attrs[1]
        if axis not in self.facts.streamed:
            found = yield self._tile(n.args[0], axis, "sum", where, None, acc, hint=hint)
            assert isinstance(found, Value)
            return found
        loop = self.loop(where, axis, self.facts.level(n.args[0], axis))
        old = self.value(f"sum_{axis.name}", acc.dims, dtypes.float32)
        state = loop.body.states[(node, None)] = OpenAccumulator(old, "sum", 0.0, node, start=acc)
        loop.body.loop.accumulators.append(state)  # type: ignore[union-attr]
        self.define(old, loop.body)
        new = yield self._tile(n.args[0], axis, "sum", loop.body, None, old, hint=old.name + "_new")
        assert isinstance(new, Value)
        state.new = new
        return old

    def _pick(self, body: int, axis: Axis) -> tuple[int, int, int] | None:
        """j + c, y and x of where(j + c == y, x, 0), for whole y, and x and c free of the axis j."""
        nodes = self.nodes
        n = nodes[body]
        if n.op != "map" or n.attrs[0] != "where":
            return None
        choice, x, zero = n.args
        c = nodes[choice]
        if c.op != "map" or c.attrs[0] != "eq" or nodes[zero].op != "const" or nodes[zero].attrs[0] != 0 or axis in nodes[x].axes:
            return None
        place, y = c.args if nodes[c.args[0]].op == "index" else c.args[::-1]
        if nodes[place].op != "index" or axis in nodes[y].axes or not _shifts(nodes[place].attrs[0], axis):
            return None
        dtype = self.facts.dtype(y)
        return (place, y, x) if dtype is not None and dtype.kind == "int" else None

    def _picked(self, body: int, axis: Axis, where: Block, mode: Mode | None, kind: DType) -> Steps[Operand | None]:
        """sum_j where(j + c == y, x, 0) over one tile: x if y is a position of this tile, else 0.

        One comparison for each y, in place of a tile of them (whose sum a compiler would lay out by itself, unlike the tiles beside it).
        """
        found = self._pick(body, axis)
        if found is None:
            return None
        place, y, x = found
        wanted = yield self.emit(y, where, mode)
        if not isinstance(wanted, Value) or wanted.dtype.kind != "int":
            return None
        expr = self.nodes[place].attrs[0]
        axes = expr.axes()
        # without lanes for the axis, the position of the first element of the tile
        dst = self.value("first", self.dims_of(axes - {axis}), dtypes.int64)
        first = self.put(where, IndexValue(dst, expr, self.bindings(axes, where)))
        after = self.let(where, "add", (wanted, self.let(where, "neg", (first,))), hint="after")
        loop = where.enclosing(axis) if axis in self.facts.streamed else None
        count = self.extent(axis) if loop is None else self.count(loop, "tile")
        here = self.let(where, "and", (self.let(where, "ge", (after, Literal(0.0))), self.let(where, "lt", (after, count))), hint="here")
        v = self.let(where, "where", (here, (yield self.emit(x, where, mode)), Literal(0.0)))
        return self.as_float(v, where) if kind.is_float else self.as_integer(self.as_value(v, where), kind, where)

    # -- roots ---------------------------------------------------------------------------------------------------------------
    def _store(self, position: int) -> None:
        root, kernel = self.kernel.roots[position], self.kernel
        axes = frozenset(a for e in root.index for a in e.axes())
        missing = self.nodes[root.node].axes - axes
        if missing:
            raise PlanError(f"{root.buffer} lacks the axes {sorted(a.name for a in missing)} that its value depends on")
        block = self.root
        for axis in kernel.roles:
            if axis in axes and axis in self.facts.streamed:
                block = self.loop(block, axis, self.facts.level(root.node, axis)).body
        v = self.as_value(completed(self.emit(root.node, block)), block)  # type: ignore[arg-type]
        at: Access = access(kernel, root.buffer, root.index, self.bindings(axes, block), self.dims_of(axes))
        once = tuple(b for b in self.fixed if b.kind == "grid" and b.axis not in axes)
        block.statements.append(Store(v, at, once))


def _shifts(expr: IndexExpr, axis: Axis) -> bool:
    """Whether an index expression is the position on an axis plus what is free of it."""
    own = [(atom, c) for atom, c in expr.terms if (atom == axis if isinstance(atom, Axis) else axis in atom.numerator.axes())]
    return own == [(axis, 1)]
