"""The unfused plan: what running the program op by op costs.  The yardstick that every plan must beat.

Each reduction (a contraction with its product folded in) and each pointwise op reads its arguments from memory and writes its
result in the type torch would give it.  Signs, constants, positions and views ride along for free, as they do in eager code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..ir.program import Program
from ..ir.strides import contiguous_strides, spread
from ..ir.terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Term, View, as_read
from .rates import matrix_us, multiplied
from .targets import Target

_FREE_MAPS = frozenset({"neg", "recip"})  # the second half of a subtraction or division


@dataclass(frozen=True)
class Baseline:
    """Kernels, bytes and modelled time of the unfused plan, and the bounds that no plan beats."""

    kernels: int
    dram_bytes: int
    us: float
    compulsory_bytes: int
    flops: dict[str, float]
    bound_us: float


def _elements(t: Term) -> int:
    return math.prod(a.size for a in t.axes)


def _bytes(t: Term) -> int:
    if isinstance(t, Const | Extent | Index):
        return 0
    return _elements(t) * (t.dtype.itemsize if t.dtype else 4)


def _source(t: Term) -> Term:
    """What an eager kernel would read for a term: through signs, reciprocals and views."""
    while isinstance(t, View) or _is_free(t):
        t = t.args[0]
    return t


def _is_free(t: Term) -> bool:
    """Whether eager code has no kernel for an operation."""
    return isinstance(t, Map) and (t.op in _FREE_MAPS or as_read(t) is not t)


def _seen(t: Term) -> Term:
    """What views show."""
    while isinstance(t, View):
        t = t.args[0]
    return t


def is_contraction(t: Term) -> bool:
    """A sum of a product whose sides have axes of their own: a matrix product."""
    if not (isinstance(t, Reduce) and t.monoid == "sum" and isinstance(t.args[0], Map) and t.args[0].op == "mul"):
        return False
    a, b = (x.axes for x in t.args[0].args)
    return t.axis in a and t.axis in b and bool(a - b) and bool(b - a)


def _input_bytes(program: Program, terms: list[Term]) -> int:
    """Bytes of the inputs that are read at all: of an input that is only looked at through views (a slice, say) what they see, in whole
    sectors."""
    whole: set[Term] = set()
    seen: dict[Term, int] = {}
    for t in (*terms, None):
        for a in terms if t is None else t.args:
            if not isinstance(a, Input):
                continue
            if isinstance(t, View):
                seen[a] = seen.get(a, 0) + round(_elements(t) * a.dtype.itemsize * _spread(program, t, a))
            elif isinstance(t, Gather) and a is t.args[0]:
                seen[a] = seen.get(a, 0) + _elements(t) * a.dtype.itemsize
            elif t is not None:
                whole.add(a)
            elif a not in seen:
                whole.add(a)  # an input that is itself an output
    inputs = {t: program.input_bytes(t) for t in terms if isinstance(t, Input)}
    return sum(n if i in whole else min(n, seen[i]) for i, n in inputs.items())


def _spread(program: Program, view: View, x: Input) -> float:
    """How many times as much memory moves for what a view sees of an input, because it skips elements of its sectors."""
    strides = program.strides.get(x.name) or contiguous_strides(x.shape)
    own = [s for s, n in zip(strides, x.shape, strict=True) if s and n > 1]
    steps = [abs(c) * s for a, s in zip(x.layout, strides, strict=True) if a == view.axis and s for _, c in view.index.terms]
    steps += [s for a, s in zip(x.layout, strides, strict=True) if a is not None and a != view.axis and s]
    return max(1.0, spread(min(steps), min(own), x.dtype.itemsize)) if steps and own else 1.0


def multiply_adds(t: Term) -> float:
    """How many a matrix product takes."""
    assert isinstance(t, Reduce)
    return float(_elements(t)) * t.axis.size


def contraction_us(t: Term, target: Target) -> float:
    """Microseconds of a matrix product at the device's peak: what no kernel beats."""
    return matrix_us(multiplied(t.args[0], target, least=True), multiply_adds(t), target)


def _eager_us(t: Term, target: Target) -> float:
    """The same of eager code, which multiplies in the type of the product, or in tf32 where it may."""
    declared = t.args[0].dtype
    in_tf32 = any(as_read(_seen(x)) is not _seen(x) for x in t.args[0].args)
    return 2 * multiply_adds(t) / (target.tensor_rate("tf32" if in_tf32 else declared.name if declared else "float32") * 1e6)


def eager_ops(program: Program) -> list[Term]:
    """The values that eager code makes by a kernel of their own."""
    terms = program.terms()
    folded = {id(t.args[0]) for t in terms if is_contraction(t)}
    looked_up = {id(_seen(t.args[0])) for t in terms if isinstance(t, Gather)}  # a kernel of its own reads these from memory

    def own(t: Term) -> bool:
        if id(t) in looked_up and isinstance(t, Map | Cast | Reduce):
            return True
        if isinstance(t, Input | Const | Extent | Index | View) or id(t) in folded:
            return False
        return bool(t.axes) and not _is_free(t) if isinstance(t, Map | Cast) else True

    return [t for t in terms if own(t)]


@dataclass(frozen=True)
class EagerOp:
    """A kernel of eager code: the value that it makes, the bytes that it moves, and its modelled time."""

    term: Term
    dram_bytes: int
    us: float


def eager_costs(program: Program, target: Target) -> list[EagerOp]:
    """The kernels of eager code with what each costs."""
    found = []
    for t in eager_ops(program):
        args = t.args[0].args if is_contraction(t) else t.args
        sources = [_source(a) for a in dict.fromkeys(args)]
        moved = sum(program.input_bytes(a) if isinstance(a, Input) else _bytes(a) for a in sources) + _bytes(t)
        if isinstance(t, Gather):  # of a table, what it reads
            moved -= max(_bytes(sources[0]) - _bytes(t), 0)
        work = _eager_us(t, target) if is_contraction(t) else 0.0
        found.append(EagerOp(t, moved, max(moved / (target.dram_gb_s * 1e3), work) + target.launch_us))
    return found


def baseline(program: Program, target: Target) -> Baseline:
    """Price the unfused plan and the lower bound."""
    terms = program.terms()
    ops = eager_costs(program, target)
    flops: dict[str, float] = {}
    for op in ops:
        if is_contraction(op.term):
            how = multiplied(op.term.args[0], target, least=True)
            flops[how.unit] = flops.get(how.unit, 0.0) + 2 * len(how.pairs) * multiply_adds(op.term)
    total, us = sum(op.dram_bytes for op in ops), math.fsum(op.us for op in ops)
    compulsory = _input_bytes(program, terms)
    compulsory += sum(math.prod(o.shape) * o.dtype.itemsize for o in program.outputs)
    bound = max(target.least_us(compulsory), sum(f / (target.tensor_rate(p) * 1e6) for p, f in flops.items()))
    return Baseline(len(ops), total, us, compulsory, flops, bound)
