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
SYMBOLIC = torch.SymInt | torch.SymFloat | torch.SymBool
TRACED = "traced"  # in a node's metadata: its value with symbols
TRIED = (2, 3, 4, 5, 7, 8, 64, 97, 1000, 4096, 1_000_003)  # sizes that tell what always holds


@dataclass(frozen=True)
class Symbolic:
    """A graph whose sizes are symbols of ``env``; ``captured`` has it, and the arguments that it was traced with."""

    captured: Captured
    env: Any  # torch's ShapeEnv

    @property
    def arguments(self) -> dict[int, Any]:
        """The arguments as they were traced, by their flat positions: tensors, and numbers that are symbols."""
        return {int(s.key): n.meta["val"] for n, s in self.captured.sources.items() if s.kind == "argument"}

    @property
    def symbols(self) -> dict[tuple[int, int], Any]:
        """The symbol of (flat argument, dimension), a number having one dimension; none for a length that is a number."""
        lengths = (((k, d), n) for k, value in self.arguments.items() for d, n in enumerate(_lengths(value)))
        return {where: n.node.expr for where, n in lengths if isinstance(n, SYMBOLIC) and n.node.expr.is_symbol}

    def sizes(self, leaves: Sequence[Any]) -> Sizes | None:
        """The size of each symbol where the arguments are these; ``None`` if the trace does not hold there."""
        found: dict[Any, int] = {}
        for (position, d), symbol in self.symbols.items():
            size = _lengths(leaves[position])[d]
            if found.setdefault(symbol, size) != size:
                return None
        known = dict(found)
        for position, value in self.arguments.items():
            if tuple(_number(n, known) for n in _lengths(value)) != tuple(_lengths(leaves[position])):
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
        except (ArithmeticError, ValueError, TypeError):  # in what is computed from sizes, or from data
            return None

    def of_sizes(self, sizes: Sizes) -> Captured | None:
        """The graph where its symbols have these sizes; ``None`` if the trace does not hold there."""
        known, leaves = dict(sizes), list(self.captured.leaves)
        for k, value in self.arguments.items():
            if isinstance(value, torch.Tensor):
                shape, strides = (tuple(_number(n, known) for n in ns) for ns in (value.shape, value.stride()))
                leaves[k] = replace(leaves[k], shape=shape, strides=strides)
            else:
                leaves[k] = _number(value, known)
        return self.at(leaves)

    def _at(self, leaves: Sequence[Any], sizes: Sizes) -> Captured | None:
        graph = torch.fx.Graph(self.captured.graph.owning_module)
        made: dict[torch.fx.Node, Any] = {}
        known = dict(sizes)
        for node in self.captured.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, SYMBOLIC | bool | int | float):
                made[node] = _number(value, known) if node.op == "placeholder" else _computed(node, made)
                continue
            copy = made[node] = graph.node_copy(node, made.__getitem__)
            copy.meta = dict(node.meta)
            if value is not None:
                copy.meta |= {"val": _concrete(value, known), TRACED: value}
        return replace(
            self.captured,
            graph=graph,
            sources={made[n]: s for n, s in self.captured.sources.items() if isinstance(made[n], torch.fx.Node)},
            outputs=tuple(made[o] if isinstance(o, torch.fx.Node) else o for o in self.captured.outputs),
            leaves=tuple(leaves),
        )


@dataclass(frozen=True)
class SymbolicPart(Symbolic):
    """A graph that was cut out of a ``whole`` one where that has the sizes ``here``.  At others it is what ``cut`` gives of the whole."""

    whole: Symbolic
    here: Sizes
    cut: Callable[[Captured], Captured | None]

    @property
    def arguments(self) -> dict[int, Any]:
        """As they were traced in the whole."""
        return {int(s.key): n.meta.get(TRACED, n.meta["val"]) for n, s in self.captured.sources.items()}

    def _at(self, leaves: Sequence[Any], sizes: Sizes) -> Captured | None:
        whole = self.whole.of_sizes({**self.here, **sizes})
        found = None if whole is None else self.cut(whole)
        alike = found is not None and [x.shape for x in found.leaves] == [x.shape for x in leaves]
        return found if alike else None


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


def _lengths(value: Any) -> Sequence[Any]:
    """Of a tensor or its spec; a number is its own only one."""
    return value.shape if isinstance(value, torch.Tensor | TensorSpec) else (value,)


def _number(n: Any, known: dict[Any, Any]) -> Any:
    """The number that a symbolic one is where those of some expressions are ``known``, among which it is from then on."""
    if not isinstance(n, SYMBOLIC):
        return n
    expr = n.node.expr
    if expr not in known:
        known[expr] = n.node.pytype(expr.xreplace(known))
    return known[expr]


def _concrete(value: Any, known: dict[Any, Any]) -> Any:
    """A tensor without data of the shape and strides that a value has, or several; what has no symbols is as it was."""
    if isinstance(value, list | tuple):
        return type(value)(_concrete(v, known) for v in value)
    if not isinstance(value, torch.Tensor) or not any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride())):
        return value
    shape, strides = ([_number(n, known) for n in ns] for ns in (value.shape, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")


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
