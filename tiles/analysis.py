"""What lowering needs to know about nodes: ranges, running state, levels, element types, zeros in padded lanes.

All are functions of the concrete node graph and the roles, computed once per kernel on demand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np

from ..ir import dtypes, nodes, ops
from ..ir.dtypes import DType, Numbers
from ..ir.index import Axis
from ..ir.recursion import by_arguments, evaluated
from .kernel import Kernel, Node
from .relations import Ranges


class Facts(Ranges):
    """Facts about the nodes of one kernel.  ``split=True`` levels loops by one global depth instead of per axis."""

    def __init__(self, kernel: Kernel, split: bool = False) -> None:
        super().__init__(kernel)
        self.split = split
        self.streamed = frozenset(a for a, r in kernel.roles.items() if r.kind == "stream")
        self._running: list[frozenset[Axis]] = []
        self._state: list[bool] = []
        self._levels: list[Mapping[Axis, int] | int] = []
        self.read_running = frozenset(self._read_running())
        for n in self.nodes:
            self._running.append(self._running_of(n))
            self._state.append(
                n.op == "acc"
                or (n.op in ("map", "cast", "reduce", "scan", "merge") and any(self._state[x] for x in n.args))
                or (n.op == "roll" and self._state[n.args[0]])
            )
            self._levels.append(self._depth_of(n) if split else self._level_of(n))
        self.singular: frozenset[int] | None = None  # see guards

    # -- running state and levels --------------------------------------------------------------------------------------------
    def _running_of(self, n: Node) -> frozenset[Axis]:
        if n.op == "ref":  # a reference over an axis that is not streamed is just the value
            inner = self._running[n.args[0]]
            return inner | {n.attrs[1]} if n.attrs[1] in self.streamed else inner
        if n.op == "pre":
            return self._running[n.args[0]] | {n.attrs[0]}
        if not n.args:
            return frozenset()
        found = frozenset().union(*(self._running[x] for x in n.args))
        return found - {n.attrs[1]} if n.op in ("reduce", "roll") else found

    def running(self, node: int) -> frozenset[Axis]:
        """The axes of loops whose running state the node mentions."""
        return self._running[node]

    def has_state(self, node: int) -> bool:
        """The node mentions the state of the enclosing roll."""
        return self._state[node]

    def _level_of(self, n: Node) -> Mapping[Axis, int]:
        if not n.args:
            return {}
        level = dict(self._levels[n.args[0]])  # type: ignore[arg-type]
        for x in n.args[1:]:
            for a, loops in self._levels[x].items():  # type: ignore[union-attr]
                level[a] = max(loops, level.get(a, 0))
        axis = self._loop_axis(n)
        if axis is not None:
            if n.op in ("reduce", "roll"):
                level[axis] = level.get(axis, 0) + 1
            elif level.get(axis, 0):
                level[axis] -= 1
        return level

    def _depth_of(self, n: Node) -> int:
        depth = max((self._levels[x] for x in n.args), default=0)  # type: ignore[type-var]
        if self._loop_axis(n) is None:
            return depth  # type: ignore[return-value]
        return depth + 1 if n.op in ("reduce", "roll") else max(depth - 1, 0)  # type: ignore[operator]

    def _loop_axis(self, n: Node) -> Axis | None:
        if n.op in ("reduce", "roll", "ref"):
            axis = n.attrs[1]
        elif n.op == "pre":
            axis = n.attrs[0]
        else:
            return None
        return axis if axis in self.streamed else None

    def level(self, node: int, axis: Axis) -> int:
        """How many loops over the axis must be complete before the node is available."""
        level = self._levels[node]
        return level if self.split else level.get(axis, 0)  # type: ignore[union-attr,return-value]

    def runs_along(self, node: int, axis: Axis) -> bool:
        """The value differs from step to step of a loop over the axis."""
        return axis in self.nodes[node].axes or axis in self._running[node]

    def _read_running(self) -> Iterator[int]:
        """The reductions that loops may read while they run: those that references ask for."""
        for n in self.nodes:
            if n.op in ("ref", "pre"):
                axis, stack = n.attrs[-1], list(n.args)
                while stack:
                    m = self.nodes[x := stack.pop()]
                    if m.op in ("reduce", "roll") and m.attrs[1] == axis:
                        yield x
                    else:
                        stack.extend(m.args)

    @cached_property
    def readers_at_once(self) -> Mapping[int, int]:
        """How many nodes read a node's value as of one moment: the final one, or that before or after a step of one loop.  References to
        the running value are no readers of the final one."""
        asked = [set[Any]() for _ in self.nodes]  # moments; a reference asks for its own, and a loop is for all that its reduction has
        found = Counter[tuple[int, Any]]()
        for r in self.kernel.roots:
            asked[r.node].add(None)
            found[r.node, None] += 1
        for i, n in reversed([*enumerate(self.nodes)]):
            loops = n.op in ("reduce", "roll") and n.attrs[1] in self.streamed
            moments = {n.attrs} if n.op == "ref" else {None} if loops else asked[i]
            for x in n.args:
                asked[x] |= moments
                found.update((x, m) for m in moments)
        most: dict[int, int] = {}
        for (x, _), count in found.items():
            most[x] = max(count, most.get(x, 0))
        return most

    # -- types ---------------------------------------------------------------------------------------------------------------
    @by_arguments
    def dtype(self, node: int) -> DType | None:
        """The element type that the term language gives the node; ``None`` for a weakly typed number."""
        n = self.nodes[node]
        if n.op == "load":
            buffer = self.kernel.buffers[n.attrs[0]]
            return buffer.narrow or buffer.dtype
        fraction = [self.nodes[x].op == "const" and not float(self.nodes[x].attrs[0]).is_integer() for x in n.args]
        return nodes.dtype(n.op, n.attrs, [self.dtype(x) for x in n.args], fraction)

    @by_arguments
    def held(self, node: int) -> Numbers:
        """The numbers that the node is surely one of, in the program and in a kernel (:func:`~eqfuse.ir.nodes.held`).  Arithmetic is in
        float32, unless the program keeps its result in a narrower type; what is read has the type of its buffer."""
        n, own = self.nodes[node], self.dtype(node)
        kept = n.stored or (self.kernel.buffers[n.attrs[0]].dtype if n.op == "load" else own)
        if n.stored is None and n.op not in ("load", "cast") and (kept is None or kept.is_float):
            kept = dtypes.float32
        assert kept is not None
        return nodes.held(n.op, n.attrs, kept, [self.held(x) for x in n.args])

    # -- padded lanes --------------------------------------------------------------------------------------------------------
    @by_arguments
    def zero_padded(self, node: int, axis: Axis) -> bool:
        """Every padded lane along the axis is exactly zero (loads are zero there)."""
        n = self.nodes[node]
        if n.op == "load":
            return axis in n.axes
        if n.op == "cast":
            return self.zero_padded(n.args[0], axis)
        if n.op == "map" and n.attrs[0] == "mul":  # zero times infinity is NaN: the other factor must be finite
            return any(self.zero_padded(x, axis) and (self.zero_padded(y, axis) or self.harmless(y)) for x, y in (n.args, n.args[::-1]))
        if n.op == "map" and n.attrs[0] == "where":
            return all(self.zero_padded(x, axis) or self._is_zero(x) for x in n.args[1:])
        if n.op == "map":
            return ops.OPS[n.attrs[0]].keeps_zero and all(self.zero_padded(x, axis) for x in n.args)
        return False

    def harmless(self, node: int) -> bool:
        """What stands on padded lanes is finite: its product with zero is zero."""
        return self._bounded(node) and self._is_number(node)

    def _bounded(self, node: int) -> bool:
        return self.range(node, padded=True).magnitude <= dtypes.float32.largest

    @by_arguments
    def _is_number(self, node: int) -> bool:
        """No padded lane is NaN where the data are finite: a range alone does not tell, the sine of 1/0 is between -1 and 1."""
        n = self.nodes[node]
        if n.op == "cast":
            return self._is_number(n.args[0])
        if n.op != "map":
            return True
        if not all(self._is_number(x) for x in n.args):
            return False
        op = ops.OPS[n.attrs[0]]
        inside = op.domain == "real" and all(self.nodes[x].op == "load" or self._bounded(x) for x in n.args)
        return inside or _total(n.attrs[0])

    def _is_zero(self, node: int) -> bool:
        n = self.nodes[node]
        return n.op == "const" and n.attrs[0] == 0

    # -- walks ---------------------------------------------------------------------------------------------------------------
    def factors(self, node: int) -> list[int]:
        """The factors of a product, flattened."""
        found, stack = [], [node]
        while stack:
            n = self.nodes[x := stack.pop()]
            if n.op == "map" and n.attrs[0] == "mul":
                stack.extend(reversed(n.args))
            else:
                found.append(x)
        return found

    def evaluate(self, node: int, leaf: Callable[[int, Node, Any], float | None], context: Any = None) -> float:
        """One number for a node: ``leaf`` answers for the nodes it knows, scalar ops do the rest.  For plan-time probes."""

        def apply(x: int, args: list[float]) -> float:
            n = self.nodes[x]
            return float(ops.OPS[n.attrs[0]].numpy(*map(np.float64, args))) if n.op == "map" else args[0]

        return evaluated(node, self.below, lambda x: leaf(x, self.nodes[x], context), apply, {})


@cache
def _total(op: str) -> bool:
    """Whether an op gives a number for every number and infinity, as exp does and sin does not."""
    o = ops.OPS[op]
    samples = np.array([-np.inf, -1e30, -1.0, -0.5, 0.0, 0.5, 1.0, 1e30, np.inf])
    grid = np.meshgrid(*[samples] * o.arity)
    with np.errstate(all="ignore"):
        return not np.isnan(np.asarray(o.numpy(*grid), dtype=np.float64)).any()
