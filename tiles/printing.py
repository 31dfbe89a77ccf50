"""Kernels and tile programs as text, one node or statement to a line: for people and for tests, not for a compiler."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr
from .kernel import Kernel, Node, Root
from .program import (
    Access,
    Cast,
    Count,
    Dot,
    Edge,
    ExtentValue,
    Fill,
    IndexValue,
    IsFirst,
    Let,
    Literal,
    Load,
    Loop,
    Lost,
    Mean,
    Operand,
    Permute,
    Reduce,
    Rest,
    Statement,
    Store,
    TileProgram,
    Value,
    Where,
)


def program_text(program: TileProgram) -> str:
    """The whole program."""
    grid = ", ".join(f"{b.name}/{b.tile}" for b in program.grid)
    return "\n".join([f"{program.name}[{grid}]", *_block(program.body, 1)])


def _block(body: tuple[Statement, ...], depth: int) -> list[str]:
    lines = []
    for s in body:
        lines.append("  " * depth + statement_text(s))
        if isinstance(s, Loop):
            lines += _block(s.body, depth + 1)
            lines += ["  " * (depth + 1) + f"{a.old.name} <- {a.new.name}{' in place' * a.inplace}" for a in s.accumulators]
    return lines


def _value(v: Value) -> str:
    return f"{v.name}: {v.dtype.short}[{', '.join(f'{d.name}/{d.size}' for d in v.dims)}]"


def _operand(v: Operand) -> str:
    return repr(v.value) if isinstance(v, Literal) else v.name


def _access(a: Access) -> str:
    masks = [f"{b.name} ok" for b in a.valid]
    masks += [f"{'0 <= ' if i.low else ''}{i.expr}{f' < {i.extent}' if i.high else ''}" for i in a.inside]
    return f"{a.buffer}[{', '.join(map(str, a.index))}]" + (f" where {', '.join(masks)}" if masks else "")


def _hint(hint: str) -> str:
    return f", {hint} it cached" if hint == "keep" else ", drop it from the cache" if hint else ""


def _edge(e: Edge) -> str:
    return " + ".join([*(f"{c} * {'last' if last else 'first'}({b.name})" for b, c, last in e.terms), str(e.const)])


def statement_text(s: Statement) -> str:
    """One statement; of a loop, its head."""
    if isinstance(s, Loop):
        states = ", ".join(f"{_value(a.old)} = {a.identity if a.start is None else a.start.name}" for a in s.accumulators)
        edges = "".join(f" from {_edge(e)}" for e in s.starts) + "".join(f" to {_edge(e)}" for e in s.stops)
        return f"for {s.binding.name}/{s.binding.tile}{edges} (level {s.level})" + (f" carrying {states}" if states else "")
    if isinstance(s, Store):
        once = f" once per {', '.join(b.name for b in s.once)}" if s.once else ""
        return f"{_access(s.access)} = {s.src.name}{once}{_hint(s.hint)}"
    return f"{_value(s.dst)} = {_right(s)}"


def _right(s: Statement) -> str:
    if isinstance(s, Load):
        return _access(s.access) + _hint(s.hint)
    if isinstance(s, Let):
        return f"{s.op}({', '.join(map(_operand, s.args))}){' in the sum' * s.contracted}"
    if isinstance(s, Lost):
        return f"lost in {s.new.name} = {s.kept.name} + {s.small.name}"
    if isinstance(s, Where):
        return f"{s.src.name} where {', '.join(b.name for b in s.bindings)} ok else {s.fill}"
    if isinstance(s, Reduce):
        return f"{s.monoid} {s.dim.name} of {s.src.name}"
    if isinstance(s, Rest):
        return f"lost in {s.total.name} = sum {s.dim.name} of {' * '.join(v.name for v in s.factors or (s.src,))}"
    if isinstance(s, Dot):
        words = [f"+ {s.acc.name}" if s.acc else "", s.precision]
        return " ".join(w for w in (f"dot({s.a.name}, {s.b.name})", *words) if w)
    if isinstance(s, Permute | Cast):
        return f"{type(s).__name__.lower()}({s.src.name})"
    if isinstance(s, Mean):
        total = s.src.name if s.lost is None else f"({s.src.name} - {s.lost.name})"
        more = f" * (1 + {s.excess})" if s.excess else ""
        return f"{total} / seen({s.axis.name}, {s.which}){more}"
    if isinstance(s, Count):
        return f"seen({s.binding.name}, {s.which})"
    if isinstance(s, IsFirst):
        return f"first({s.binding.name})"
    if isinstance(s, IndexValue):
        return f"position {s.expr}"
    if isinstance(s, ExtentValue):
        return f"extent {s.axis.name}"
    assert isinstance(s, Fill)
    return repr(s.value)


# -- kernels -------------------------------------------------------------------------------------------------------------------
def kernel_text(kernel: Kernel) -> str:
    """The whole kernel: what it does with its axes, its buffers, its nodes in order, and what it stores.

    A node names its number, the axes that it depends on, its op with attributes and arguments, and the rule that made it.
    """
    launch = f"{kernel.warps} warps, {kernel.stages} stages" + (f", {kernel.persistent} persistent programs" if kernel.persistent else "")
    flags = ", exact" if kernel.exact else ", stepwise" if kernel.stepwise else ""
    roles = [f"  {a.name} of {a.size}: {r}" for a, r in kernel.roles.items()]
    lists = [f"grid {_names(kernel.grid)}; dims {_names(kernel.order)}", *(f"packed {_names(p)}" for p in kernel.packs)]
    buffers = [f"  {b.role} {b.name}: {b.dtype.short}[{', '.join(map(str, b.shape))}]" for b in kernel.buffers.values()]
    nodes = [f"  {node_text(i, n)}" + (f"  # {n.rule}" if n.rule else "") for i, n in enumerate(kernel.nodes)]
    return "\n".join(
        [f"{kernel.name}: {launch}{flags}", *roles, f"  {'; '.join(lists)}", *buffers, *nodes, *(f"  {root_text(r)}" for r in kernel.roots)]
    )


def node_text(position: int, n: Node) -> str:
    """One node of a kernel: ``%3[i, k] = mul(%1, %2)``."""
    args = ", ".join(f"%{a}" for a in n.args)
    attrs = " ".join(map(_attribute, n.attrs))
    if n.op == "load":
        right = f"{n.attrs[0]}[{', '.join(map(str, n.attrs[1]))}]"
    elif n.op == "map":
        right = f"{attrs}({args})"
    else:
        right = " ".join(w for w in (n.op, attrs, f"({args})" if args else "") if w)
    return f"%{position}[{_names(sorted(n.axes))}] = {right}"


def root_text(r: Root) -> str:
    """What a kernel stores: ``out[i, 0] = %7``."""
    return f"{r.buffer}[{', '.join(map(str, r.index))}] = %{r.node}"


def _names(axes: Iterable[Axis]) -> str:
    return ", ".join(a.name for a in axes)


def _attribute(x: object) -> str:
    return x.name if isinstance(x, Axis | DType) else str(x) if isinstance(x, IndexExpr | str) else repr(x)
