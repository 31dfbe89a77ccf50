"""The order of axes in memory that a program suggests for values it does not store itself.

A temporary is written and read by kernels that tile the axes its neighbours have innermost in memory.  So its axes are put in the order
in which inputs and outputs have them: the dimensions of a tensor from the first to the last, and of a dimension that is read at
``h*128 + d`` the head before the feature, the position ``c // 10`` of a group where its members are.  Where two tensors disagree the
first one counts; what none of them orders stays in the order of the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.index import Axis, IndexExpr, index
from ..ir.program import Program
from ..ir.strides import nearest_first
from ..ir.terms import Const, Gather, Input, Map, Reduce, Term, View, as_read


def memory_order(program: Program) -> list[Axis]:
    """Every axis of a program, from those that run slowest in memory to those that run fastest."""
    read: dict[Axis, dict[IndexExpr, None]] = {}  # at what an axis is read
    for t in program.terms():
        if isinstance(t, View):
            read.setdefault(t.axis, {})[t.index] = None
        elif isinstance(t, Gather):
            read.setdefault(t.axis, {}).update((index(a), None) for a in sorted(t.args[1].axes))
    after: dict[Axis, set[Axis]] = {a: set() for a in program.every_axis}
    for layout in (*(in_memory(program, i) for i in program.inputs), *(o.layout for o in program.outputs)):
        before: dict[Axis, None] = {}
        for a in layout:
            if a is not None:
                own = list(dict.fromkeys(_axes_at(a, read, frozenset())))
                for k, b in enumerate(own):
                    for first in (*before, *own[:k]):
                        if first != b and not _leads(after, b, first):
                            after[first].add(b)
                before.update(dict.fromkeys(own))
    order: list[Axis] = []
    left = list(after)
    while left:
        first = next(a for a in left if not any(a in after[b] for b in left))
        order.append(first)
        left.remove(first)
    return order


def looked_at(t: Term) -> Term:
    """What an operand reads elsewhere, or in windows with zeros around."""
    while isinstance(t := as_read(t), View) or (isinstance(t, Map) and t.op == "where" and isinstance(t.args[2], Const)):
        t = t.args[0 if isinstance(t, View) else 1]
    return t


def summed_in_windows(program: Program) -> dict[Term, Axis]:
    """The operands of products that read one of them in windows, each with the axis that is summed: a tile of it has few positions of the
    others next to each other in memory, and as many as it likes of this one."""
    found: dict[Term, Axis] = {}
    for t in program.terms():
        product = t.args[0] if isinstance(t, Reduce) and t.monoid == "sum" else None
        if isinstance(t, Reduce) and isinstance(product, Map) and product.op == "mul":
            operands = {a: looked_at(a) for a in product.args}
            if any(x is not a and t.axis in x.axes and len(a.axes) > len(x.axes) for a, x in operands.items()):
                found.update((x, t.axis) for x in operands.values() if t.axis in x.axes)
    return found


def in_memory(program: Program, i: Input) -> list[Axis | None]:
    """The dimensions of an input, outermost in memory first, without those along which it repeats itself."""
    strides = program.strides.get(i.name)
    return list(i.layout) if strides is None else [i.layout[d] for d, _ in nearest_first(i.shape, strides)[::-1]]


def _axes_at(axis: Axis, read: dict[Axis, dict[IndexExpr, None]], seen: frozenset[Axis]) -> Iterator[Axis]:
    """The axes that a dimension is read at, the ones with the larger steps first, then itself."""
    for e in read.get(axis, ()) if axis not in seen else ():
        for atom, _ in sorted(e.terms, key=lambda t: -abs(t[1])):
            for a in (atom,) if isinstance(atom, Axis) else sorted(atom.numerator.axes()):
                yield from _axes_at(a, read, seen | {axis})
    yield axis


def _leads(after: dict[Axis, set[Axis]], a: Axis, b: Axis) -> bool:
    """Whether ``b`` comes after ``a`` already."""
    todo, seen = [a], {a}
    while todo:
        if b in after[found := todo.pop()]:
            return True
        new = after[found] - seen
        seen |= new
        todo.extend(new)
    return False
