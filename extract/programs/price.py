"""The price of a program before its kernels are known: microseconds.

Every reduction is a stage, reductions nested in each other are one, and so is the pointwise work of an output.  A stage takes as long as
the slower of arithmetic and memory: arithmetic is matrix products at the rate of their operands' type and, as far as these do not hide
them, instructions or special functions; memory is the leaves that it reads (inputs and results of other stages, looked up through what
is pointwise) and what it writes.  Pointwise work is counted in the first stage that needs it.  Stages that no other one comes between may
be one kernel: they read a leaf once, and are launched together; one with a long sum and few results is launched twice, for parts and
their sum.

Whether the result of a stage goes through memory is decided later, kernel by kernel: ``View.stored`` is the share of that traffic
that counts, and programs are compared under several views.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ...ir import dtypes, ops
from ...ir.index import Axis
from ...ir.products import IN_TF32, Operands
from ...ir.program import Output
from ...ir.terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Term, View, postorder
from ..rates import matrix_us, multiplied
from ..targets import Target

Wide = Collection[Term]


@dataclass(frozen=True)
class Look:
    """How programs are looked at: the share of results between stages that goes through memory, and microseconds for each launch."""

    stored: float
    launch: float


LONG = 2**16  # elements of a reduction that one program does not reduce
BESIDE = 0.6  # of the pointwise work of a stage with a product, how much the product does not hide (assumption)
LOOKS = (Look(1.0, 1.0), Look(0.0, 0.0), Look(0.3, 3.0))  # all is stored; all stays on chip; something between


def size(axes: Collection[Axis]) -> float:
    """The number of elements over some axes."""
    return math.prod(a.size for a in axes)


def stored_bytes(t: Term, wide: Wide) -> float:
    """Bytes of a value in memory; ``wide``: values that are kept in float32 whatever their type."""
    own = t.dtype.itemsize if t.dtype is not None else 4
    return size(t.axes) * (max(own, 4) if t in wide else own)


class _Stages:
    """The stages of some outputs, priced."""

    def __init__(self, outputs: Sequence[Output], terms: Sequence[Term], target: Target, look: Look, wide: Wide) -> None:
        self.target, self.look, self.wide = target, look, wide
        self.outputs = {t: o for o, t in zip(outputs, terms, strict=True)}
        self.order = postorder(*terms)
        self.readers = Counter(a for t in self.order for a in set(t.args)) + Counter(terms)
        self.counted: set[Term] = set()  # pointwise work
        self.depth: dict[Term, int] = {}  # launches until the result of a stage is there
        self.read: set[tuple[int, Term]] = set()  # leaves, by launch

    def us(self) -> float:
        """All stages, and the launches one after the other."""
        found, inside = 0.0, set[Term]()
        for t in reversed(self.order):  # a nest is met from outside
            if isinstance(t, Reduce) and t not in inside:
                nest = list(self.nest(t))
                inside |= {*nest[1:]}
        for t in self.order:
            if isinstance(t, Reduce) and t not in inside:
                found += self.reduction(t)
        for t in self.outputs:
            if not isinstance(t, Reduce):
                found += self.stage(t, t, self.written(t), 0.0, 0.0)
        return found + self.look.launch * max(self.depth.values(), default=0)

    def nest(self, t: Reduce) -> Iterator[Reduce]:
        """Reductions by one monoid directly in each other, which nothing else reads."""
        yield t
        while isinstance(x := t.args[0], Reduce) and x.monoid == t.monoid and self.readers[x] == 1:
            yield (t := x)

    def reduction(self, t: Reduce) -> float:
        """A nest of reductions."""
        nest = list(self.nest(t))
        body, summed = nest[-1].args[0], frozenset(r.axis for r in nest)
        work = size(body.axes | summed)
        product = t.monoid == "sum" and _is_product(body, summed)
        tensor = matrix_us(self.multiplied(body), work, self.target) if product else 0.0
        if product:  # the matrix unit multiplies
            self.counted |= {f for f in _products(body) if len(f.axes) == len(body.axes)}
        return self.stage(t, body, self.written(t), tensor, 0.0 if product else work, work > LONG and size(t.axes) < self.target.sm_count)

    def written(self, t: Term) -> float:
        """Bytes of a result."""
        if t in self.outputs:
            return size(t.axes) * self.outputs[t].dtype.itemsize
        return self.look.stored * stored_bytes(t, self.wide)

    def stage(self, result: Term, body: Term, moved: float, tensor: float, instructions: float, split: bool = False) -> float:
        """What is pointwise below, down to inputs and other stages."""
        special = 0.0
        stack, seen, leaves = [body], set[Term](), list[Term]()
        while stack:
            t = stack.pop()
            if t in seen:
                continue
            seen.add(t)
            if isinstance(t, Reduce) or _is_read(t):
                leaves.append(t)
                stack.extend(_places(t))
            else:
                stack.extend(t.args)
                if t not in self.counted and isinstance(t, Map):
                    instructions += size(t.axes) * ops.OPS[t.op].cost
                    special += size(t.axes) * ops.OPS[t.op].special
                self.counted.add(t)
        depth = self.depth[result] = 1 + split + max((self.depth[t] for t in leaves if t in self.depth), default=0)
        for t in leaves:
            if (depth, t) not in self.read:
                self.read.add((depth, t))
                moved += stored_bytes(t, self.wide) * (self.look.stored if isinstance(t, Reduce) else 1.0)
        vector = max(instructions / (self.target.simt_gops * 1e3), special / (self.target.special_gops * 1e3))
        return max(tensor + vector * (BESIDE if tensor else 1.0), moved / (self.target.dram_gb_s * 1e3))

    def multiplied(self, body: Term) -> Operands:
        """How the operands of a product are multiplied: those of float16 that may exceed it in tf32."""
        if body.dtype is dtypes.float16 and any(f in self.wide for f in _factors(body)):
            return IN_TF32
        return multiplied(body, self.target)


def program_us(outputs: Sequence[Output], terms: Sequence[Term], target: Target, look: Look, wide: Wide = frozenset()) -> float:
    """The price of a program that computes these terms for the outputs."""
    return _Stages(outputs, terms, target, look, wide).us()


def _is_read(t: Term) -> bool:
    return isinstance(t, Input | Const | Extent | Index) or (isinstance(t, View | Gather | Cast) and _is_read(t.args[0]))


def _places(t: Term) -> Iterator[Term]:
    """What says where something is read."""
    while isinstance(t, View | Gather | Cast):
        yield from t.args[1:]
        t = t.args[0]


def _products(body: Term) -> Iterator[Term]:
    """The products of a chain of them."""
    stack = [body]
    while stack:
        t = stack.pop()
        if isinstance(t, Map) and t.op == "mul":
            yield t
            stack.extend(t.args)


def _factors(body: Term) -> list[Term]:
    """The factors of a chain of products, without their signs."""
    return [a for t in _products(body) for f in t.args if not (isinstance(a := _unsigned(f), Map) and a.op == "mul")]


def _unsigned(t: Term) -> Term:
    while isinstance(t, Map) and t.op == "neg":
        t = t.args[0]
    return t


def _is_product(body: Term, summed: frozenset[Axis]) -> bool:
    """Factors with axes of their own that share a summed axis: the matrix unit can do it."""
    if not (isinstance(body, Map) and body.op == "mul"):
        return False
    a, b = (x.axes for x in body.args)
    return bool(a & b & summed) and bool((a - b) - summed) and bool((b - a) - summed)


def node_us(
    axes: frozenset[Axis],
    body: frozenset[Axis],
    factors: Sequence[Sequence[frozenset[Axis]]],
    reduced: Axis,
    operand: str,
    itemsize: int,
    target: Target,
    look: Look,
) -> float:
    """A reduction by itself, as far as it can be said without knowing what is below: ``factors`` are the ways to write its body as a
    product of two values with these axes."""
    bandwidth = target.dram_gb_s * 1e3
    work = size(body | {reduced})
    out = look.stored * size(axes) * itemsize
    found = max(work / (target.simt_gops * 1e3), (size(body) * itemsize + out) / bandwidth)
    for a, b in factors:
        tensor = reduced in a & b and bool(a - b) and bool(b - a)
        us = 2 * work / (target.tensor_rate(operand) * 1e6) if tensor else work / (target.simt_gops * 1e3)
        found = min(found, max(us, ((size(a) + size(b)) * itemsize + out) / bandwidth))
    return found
