"""A function traced once with its sizes as symbols, and what it is at given sizes.

torch.export gives every dimension of an argument a symbol.  What the function computes from sizes (a scale ``q.shape[-1] ** -0.5``, where a
half begins) is then a node of the graph, and at given sizes it is computed with Python's own numbers, as tracing at these sizes computes
it.  Which sizes the trace holds for is what torch asked of the symbols on the way: its guards and ranges.  A length of 0 or 1 is a number
and no symbol: broadcasting decides by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..errors import EqFuseError
from .capture import Captured, capture
from .spec import TensorSpec

Sizes = Mapping[Any, int]  # of symbols
LARGEST = 1 << 62  # what torch takes for no bound
TRIED = (2, 3, 4, 5, 7, 8, 64, 97, 1000, 4096, 1_000_003)  # sizes that tell what always holds


@dataclass(frozen=True)
class Symbolic:
    """A graph whose sizes are symbols of ``env``; ``captured`` has it, and the arguments that it was traced with."""

    captured: Captured
    env: Any  # torch's ShapeEnv

    @property
    def symbols(self) -> dict[tuple[int, int], Any]:
        """The symbol of (flat argument, dimension); none for a length that is a number."""
        found = {}
        for node, source in self.captured.sources.items():
            if source.kind == "argument":
                for d, n in enumerate(node.meta["val"].shape):
                    if isinstance(n, torch.SymInt) and n.node.expr.is_symbol:
                        found[int(source.key), d] = n.node.expr
        return found

    def sizes(self, leaves: Sequence[Any]) -> Sizes | None:
        """The size of each symbol where the arguments are these; ``None`` if the trace does not hold there."""
        found: dict[Any, int] = {}
        for (position, d), symbol in self.symbols.items():
            if found.setdefault(symbol, leaves[position].shape[d]) != leaves[position].shape[d]:
                return None
        for node, source in self.captured.sources.items():
            if source.kind == "argument":
                shape = tuple(self._number(n, found) for n in node.meta["val"].shape)
                if shape != leaves[int(source.key)].shape:
                    return None
        ranges = ((s, r) for s, r in self.env.var_to_range.items() if s in found)
        if any(not r.lower <= found[s] <= r.upper for s, r in ranges):
            return None
        return found if all(self._holds(g.expr, found) for g in self.env.guards) else None

    @property
    def asked(self) -> frozenset[Any]:
        """The symbols that a guard asks more of than their ranges: the function may look at them.

        torch asks much that always holds (how strides of products of sizes are ordered).  A guard asks nothing of a symbol if it holds
        whatever that is in its range, of all kinds of sizes and of the numbers in the guard and beside them, and the others what was
        traced.
        """
        here = self.sizes(self.captured.leaves) or {}
        conditions = {self.env.replace(g.expr) for g in self.env.guards}
        return frozenset(s for c in conditions for s in c.free_symbols if not self._always(c, s, here))

    def range(self, symbol: Any) -> tuple[int, float]:
        """The smallest and the largest size that the trace holds for, as far as torch keeps a range; at least 2."""
        found = self.env.var_to_range.get(symbol)
        if found is None or not found.is_int:
            return 2, math.inf
        return max(int(found.lower), 2), int(found.upper) if found.upper < LARGEST else math.inf

    def _always(self, condition: Any, symbol: Any, here: Sizes) -> bool:
        numbers = {abs(int(n)) for n in condition.atoms() if n.is_Integer} | {n for s, n in here.items() if s in condition.free_symbols}
        near = (m for n in numbers for m in (n - 1, n, n + 1, 2 * n, 3 * n + 1))
        least, most = self.range(symbol)
        return all(self._holds(condition, {**here, symbol: n}) for n in {*TRIED, *near} if least <= n <= most)

    def _holds(self, condition: Any, sizes: Sizes) -> bool:
        try:
            return bool(self.env.replace(condition).xreplace(dict(sizes)) == True)  # noqa: E712 - sympy's truth, which may be undecided
        except ZeroDivisionError:
            return False

    def at(self, leaves: Sequence[Any]) -> Captured | None:
        """The graph for arguments of these sizes, as numbers; ``None`` if the trace does not hold there."""
        try:
            sizes = self.sizes(leaves)
            return None if sizes is None else self._at(leaves, sizes)
        except (ArithmeticError, ValueError):  # in what is computed from sizes
            return None

    def _at(self, leaves: Sequence[Any], sizes: Sizes) -> Captured:
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, Any] = {}
        for node in self.captured.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | bool | int | float):
                made[node] = _computed(node, made)
                continue
            copy = made[node] = graph.node_copy(node, made.__getitem__)
            copy.meta = dict(node.meta)
            if value is not None:
                copy.meta["val"] = self._concrete(value, sizes)
        return replace(
            self.captured,
            graph=graph,
            sources={made[n]: s for n, s in self.captured.sources.items()},
            outputs=tuple(made[o] if isinstance(o, torch.fx.Node) else o for o in self.captured.outputs),
            leaves=tuple(leaves),
        )

    def _concrete(self, value: Any, sizes: Sizes) -> Any:
        """A tensor without data of the shape that a value has, or several."""
        if isinstance(value, list | tuple):
            return type(value)(self._concrete(v, sizes) for v in value)
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty([self._number(n, sizes) for n in value.shape], dtype=value.dtype, device="meta")

    def _number(self, n: Any, sizes: Sizes) -> int:
        if not isinstance(n, torch.SymInt):
            return int(n)
        return sizes[n.node.expr] if n.node.expr in sizes else int(n.node.expr.xreplace(dict(sizes)))


class Later:
    """A trace with symbols that is made when it is asked for, which takes longer than one with numbers."""

    def __init__(self, make: Callable[[], Symbolic | None]) -> None:
        self._make, self._found = make, list[Symbolic | None]()

    @property
    def made(self) -> bool:
        """Whether it was asked for."""
        return bool(self._found)

    def __call__(self) -> Symbolic | None:
        if not self._found:
            self._found.append(self._make())
        return self._found[0]


NONE = Later(lambda: None)


def trace_symbolic(obj: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Symbolic | None:
    """A function on arguments whose sizes are symbols; ``None`` where torch cannot follow it so.  Its user's code runs once."""
    try:
        captured = capture(obj, tuple(args), dict(kwargs), symbolic=True)
    except EqFuseError:  # what was traced with numbers may need them
        return None
    return symbolic_of(captured)


def symbolic_of(captured: Captured) -> Symbolic | None:
    """A graph with its symbols; ``None`` if all its sizes are numbers."""
    mode = torch._guards.detect_fake_mode([n.meta["val"] for n in captured.sources])
    found = Symbolic(captured, mode.shape_env) if mode is not None and mode.shape_env is not None else None
    return found if found is not None and found.symbols else None


def _computed(node: torch.fx.Node, made: Mapping[torch.fx.Node, Any]) -> Any:
    """A number of the graph, from the numbers and shapes that it is computed from."""

    def known(n: torch.fx.Node) -> Any:
        found = made[n]
        return found.meta["val"] if isinstance(found, torch.fx.Node) else found

    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known)
    target: Callable[..., Any] = node.target
    return target(*args, **kwargs)


def same_arguments(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether arguments differ in the sizes of tensors alone."""
    return len(a) == len(b) and all(
        isinstance(x, TensorSpec) and isinstance(y, TensorSpec) and x.dtype == y.dtype and len(x.shape) == len(y.shape)
        if isinstance(x, TensorSpec) or isinstance(y, TensorSpec)
        else repr(x) == repr(y) and type(x) is type(y)
        for x, y in zip(a, b, strict=True)
    )
