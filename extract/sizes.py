"""How large the values of a kernel are where its inputs are large or small: what overflows or vanishes in a plan, but not in its program.

Equations over the reals move factors: ``sum_k (s / sum_k s) v = (sum_k s v) / sum_k s`` multiplies s by v before the division makes it
small.  Ranges do not show that, for they start from inputs of any size.  So sizes are followed through both graphs instead, as powers of
two: a product adds them, a sum takes the larger one, a reciprocal turns the sign, and what is known of a value's range bounds its size.
One input runs through all sizes that float32 has, the others are at most 65504, at least its inverse, or about 1: what only two huge
inputs together can do is not looked for.  Nor is what only the length of a sum does: numbers so close to the largest one that their
count makes them overflow may do so earlier or later than in the program.

Where the program stays well inside float32, with every value that it computes, and an output of the plan does not, the plan has a hazard
that the program has not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..ir import dtypes, ops
from ..tiles.analysis import Facts
from ..tiles.kernel import Kernel

LARGEST, SMALLEST = 128.0, -126.0  # between these a float32 has all its digits
LOST = -138.0  # and here it has lost half of them
MARGIN = 6.0  # how far inside the program stays: sizes are not known better
ORDINARY = 16.0  # the others: powers of two up to those that float16 has
# what the input that may have any size is tried at; close together where high powers of it stay inside float32
SIZES = (*range(-124, -32, 4), *range(-32, 33), *range(36, 128, 4))
EXPONENTIALS = "an exponential"  # what exponentials of unbounded arguments are, all alike
MOST_PAIRS = 12  # inputs of which each is also tried with each


@dataclass(frozen=True)
class Escape:
    """Where a plan leaves float32 and its program does not: ``sizes`` is the power of two of each input there, ``node`` what leaves
    first, ``large`` whether it overflows."""

    node: int
    large: bool
    sizes: dict[str, float]


def sources_of(kernel: Kernel) -> dict[str, tuple[float, float]]:
    """The floating inputs that a kernel reads, with the smallest and largest power of two that their type has."""
    found = {}
    for n in kernel.nodes:
        if n.op == "load" and (d := kernel.buffers[n.attrs[0]].dtype).is_float:
            found[n.attrs[0]] = (-14.0, ORDINARY) if d is dtypes.float16 else (SMALLEST, LARGEST)
    return found


def escapes(plan: Facts, program: Facts) -> Iterator[Escape]:
    """The least extreme inputs for which the plan overflows, and those for which it vanishes, where the program does neither.

    That there are some is found without the lengths of sums; which ones, with them, as if all terms of a sum were alike.
    """
    sources = sources_of(program.kernel)
    if any(is_free_exponential(program, k) for k in range(len(program.nodes))):
        sources[EXPONENTIALS] = (SMALLEST, LARGEST)
    if not sources:  # a program of integers
        return
    tried = _assignments(sources)
    alone = {e.large for e in _least(plan, program, tried, lengths=False)}
    yield from (e for e in (_least(plan, program, tried, lengths=True) if alone else ()) if e.large in alone)


def _least(plan: Facts, program: Facts, tried: dict[str, np.ndarray], lengths: bool) -> Iterator[Escape]:
    want = _Sizes(program, tried, lengths)
    got = _Sizes(plan, tried, lengths)
    clean = ~want.left(MARGIN)
    outputs = {r.buffer: r.node for r in program.kernel.roots}
    lost = np.zeros_like(clean)
    for r in plan.kernel.roots:
        if r.buffer in outputs:
            kept, found = want.of[outputs[r.buffer]], got.of[r.node]
            lost |= clean & np.isfinite(kept) & ~np.isfinite(found)
    powers = np.abs(np.array(list(tried.values())))
    spread = powers.max(axis=0) + 1e-3 * powers.sum(axis=0)
    for large in (True, False):
        at = [(k, lost & (e if large else v)) for k, (e, v) in enumerate(zip(got.overflows, got.vanishes, strict=True))]
        some = [(float(np.min(spread[where])), k, where) for k, where in at if where.any()]
        if some:
            _, node, where = min(some, key=lambda s: s[:2])
            best = int(np.flatnonzero(where)[np.argmin(spread[where])])
            yield Escape(node, large, {name: float(v[best]) for name, v in tried.items()})


def _assignments(sources: dict[str, tuple[float, float]]) -> dict[str, np.ndarray]:
    """Powers of two for every source: one of any size, the others ordinary."""
    names = list(sources)
    rows: list[tuple[float, ...]] = []
    for k, name in enumerate(names):
        rest = [j for j in range(len(names)) if j != k]
        others = [dict.fromkeys(rest, size) for size in (0.0, ORDINARY, -ORDINARY)[: 3 if rest else 1]]
        if 2 < len(names) <= MOST_PAIRS:
            others += [{j: size} for j in rest for size in (ORDINARY, -ORDINARY)]
        lo, hi = sources[name]
        for size in (size for size in SIZES if lo <= size <= hi):
            for o in others:
                at = [o.get(j, 0.0) for j in range(len(names))]
                at[k] = float(size)
                rows.append(tuple(min(max(v, sources[n][0]), sources[n][1]) for n, v in zip(names, at, strict=True)))
    columns = np.array(rows, dtype=np.float64).reshape(-1, len(names))
    return {n: columns[:, j] for j, n in enumerate(names)}


def is_free_exponential(facts: Facts, node: int) -> bool:
    """An increasing op that turns sums into products, of an argument without a bound."""
    n = facts.nodes[node]
    if n.op != "map" or ("add", "mul") not in (o := ops.op(n.attrs[0])).turns or not o.increasing:
        return False
    return not o.numpy(np.float64(facts.range(n.args[0], finite_inputs=True).hi)) <= dtypes.float32.largest


def _added(facts: Facts) -> frozenset[int]:
    """Products that only sums read: they are added as they are, without being rounded."""
    users: dict[int, list[int]] = {}
    for k, n in enumerate(facts.nodes):
        for a in n.args:
            users.setdefault(a, []).append(k)
    sums = {k for k, n in enumerate(facts.nodes) if n.reduction == "sum"}
    return frozenset(k for k, n in enumerate(facts.nodes) if n.scalar == "mul" and k in users and sums.issuperset(users[k]))


class _Sizes:
    """The power of two of every node, for every assignment: -inf for zero, inf for what has overflowed."""

    def __init__(self, facts: Facts, tried: dict[str, np.ndarray], lengths: bool) -> None:
        self.facts, self.tried, self.lengths = facts, tried, lengths
        self.shape = next(iter(tried.values())).shape
        self.of: list[np.ndarray] = []
        self.overflows: list[np.ndarray] = []  # where the node is the one that leaves
        self.vanishes: list[np.ndarray] = []
        added = _added(facts)
        with np.errstate(invalid="ignore"):
            for k, n in enumerate(facts.nodes):
                size = self._bounded(k, np.broadcast_to(np.asarray(self._size(k), dtype=np.float64), self.shape))
                inside = n.op in ("const", "load") or facts.has_state(k)
                large, small = ((size > LARGEST) & np.isfinite(size), (size < LOST) & np.isfinite(size))
                self.overflows.append(large & (not inside))
                small &= k not in added
                self.vanishes.append(small & (not inside))
                self.of.append(np.where(large, np.inf, np.where(small, -np.inf, size)))

    def left(self, margin: float) -> np.ndarray:
        """Where any value lies outside of float32, or within a margin of its ends."""
        found = np.zeros(self.shape, dtype=bool)
        for k, (size, large, small) in enumerate(zip(self.of, self.overflows, self.vanishes, strict=True)):
            if self.facts.nodes[k].op not in ("const", "load"):
                found |= large | small | (np.isfinite(size) & ((size > LARGEST - margin) | (size < SMALLEST + margin)))
        return found

    def _size(self, node: int) -> np.ndarray | float:
        n = self.facts.nodes[node]
        if n.op == "load":
            return self.tried.get(n.attrs[0], np.zeros(self.shape))
        if n.op == "const":
            return _power(n.attrs[0])
        if n.op == "extent":
            return _power(n.attrs[0].size)
        if n.op == "index":
            return _power(max(map(abs, n.attrs[0].bounds())))
        if n.op == "acc":
            return -math.inf
        args = [self.of[a] for a in n.args]
        if n.op == "map":
            return self._of_op(node, ops.op(n.attrs[0]), args)
        if self.lengths and n.reduction == "sum":
            return args[0] + _power(n.attrs[1].size)
        if self.lengths and n.op == "scan" and n.attrs[0] == "sum":
            return args[0] + _power(n.attrs[1].size)
        return np.maximum.reduce(args) if n.in_order or n.op == "merge" else args[0]

    def _of_op(self, node: int, o: ops.ScalarOp, args: Sequence[np.ndarray]) -> np.ndarray | float:
        if o.result == "bool" or is_free_exponential(self.facts, node):
            return self.tried.get(EXPONENTIALS, np.zeros(self.shape)) if o.result != "bool" else 0.0
        if o.name in ("mul", "div"):
            x, y = args if o.name == "mul" else (args[0], -args[1])
            total = x + y
            return np.where(np.isnan(total), np.inf, total)
        if o.name == "where":
            return np.maximum(*args[1:])
        powers = {"square": 2.0, "recip": -1.0, "sqrt": 0.5, "rsqrt": -0.5}
        if o.name in powers:
            return args[0] * powers[o.name]
        if o.arity > 1 or o.name in ("neg", "abs", "floor", "round"):
            return np.maximum.reduce(list(args))
        return np.minimum(args[0], 0.0) if o.keeps_zero else 0.0  # as its argument where that is small, else of the size of 1

    def _bounded(self, node: int, size: np.ndarray) -> np.ndarray:
        """Not beyond what is known of the node's range; what has overflowed before stays so."""
        r = self.facts.range(node, finite_inputs=True)
        least = r.lo if r.lo > 0 else -r.hi if r.hi < 0 else 0.0
        known = np.clip(size, _power(least), _power(r.magnitude) if r.magnitude < math.inf else math.inf)
        return np.where(np.isposinf(size), size, known)


def _power(x: float) -> float:
    """log2 |x|; of what is no size (zero, infinity, NaN) that of zero."""
    return math.log2(abs(x)) if x and math.isfinite(x) else -math.inf
