"""Blocks under construction: where statements go while a kernel is being lowered, and how they are put in order at the end.

A block is the body of the kernel or of a loop.  Statements are emitted on demand, in whatever order values are asked for; a stable
topological sort by definition and use then gives program order.  Two loops that were merged because they run over the same axis at
the same level can turn out to need each other; the sort detects that.

In a block that holds a loop, what can be computed at any time (from positions, from memory, and from values outside the block, which are
kept in registers all the while) is computed when it is needed: a mask or a tile of another operand that is made before the loop and read
after it would take registers from the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..ir.index import Axis
from .program import Accumulator, Binding, Cast, Dim, Dot, Loop, Operand, Statement, Store, Value, defines, uses


class LoopCycle(Exception):
    """Loops shared by axis and level depend on each other."""


@dataclass(eq=False)
class OpenAccumulator:
    """An accumulator whose new value may not be known yet."""

    old: Value
    monoid: str
    identity: float
    node: int
    new: Value | None = None
    start: Value | None = None  # of a sum: the value that it goes on from
    lanes: Dim | None = None  # it has a state for each lane of this dim, which are reduced after the loop
    scale: float = 1.0  # so many times the value


@dataclass(eq=False)
class OpenLoop:
    """A loop whose body is being filled."""

    binding: Binding
    level: int
    body: Block
    accumulators: list[OpenAccumulator] = field(default_factory=list)


@dataclass(eq=False)
class Block:
    """A sequence of statements.  ``memo``: node and mode -> value; ``loops``: (axis, level) -> loop; ``states``: its own accumulators;
    ``operands``: of products, by their factors; ``several``: the parts of states, which are made together."""

    parent: Block | None = None
    loop: OpenLoop | None = None
    statements: list[Statement | OpenLoop] = field(default_factory=list)
    memo: dict[Any, Operand] = field(default_factory=dict)
    loops: dict[tuple[Any, ...], OpenLoop] = field(default_factory=dict)
    states: dict[Any, OpenAccumulator] = field(default_factory=dict)
    operands: dict[Any, tuple[tuple[Value, ...], bool]] = field(default_factory=dict)
    several: dict[Any, list[Operand]] = field(default_factory=dict)
    depth: int = 0

    def chain(self) -> Iterator[Block]:
        """The block and those around it, innermost first."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    def enclosing(self, axis: Axis) -> Block | None:
        """The body of the innermost open loop over an axis."""
        block: Block | None = self
        while block is not None and (block.loop is None or block.loop.binding.axis != axis):
            block = block.parent
        return block


def close(block: Block) -> tuple[Statement, ...]:
    """The block's statements, loops closed, in an order where definitions come before uses; the order of demand otherwise, but that
    what can be computed at any time comes late in a block with a loop.  Casts that were taken back are left out."""
    statements: list[Statement] = [
        Loop(
            s.binding,
            s.level,
            tuple(Accumulator(a.old, _known(a), a.monoid, a.identity, a.start) for a in s.accumulators),
            close(s.body),
        )
        if isinstance(s, OpenLoop)
        else s
        for s in block.statements
    ]
    owner = {v.name: i for i, s in enumerate(statements) for v in defines(s)}
    looped = any(isinstance(s, Loop) for s in statements)
    above = [{owner[v.name] for v in uses(s) if v.name in owner} for s in statements]
    late = _any_time(statements, above) if looped else set()
    needs = [sorted(found, key=lambda j: (j in late, j)) for found in above]
    ordered: list[Statement] = []
    state = [0] * len(statements)  # 1: on the path, 2: placed

    def place(first: int) -> None:
        path = [first] if state[first] == 0 else []
        while path:
            state[i := path[-1]] = 1
            j = next((j for j in needs[i] if state[j] != 2), None)
            if j is None:
                state[i] = 2
                ordered.append(statements[path.pop()])
            elif state[j] == 1:
                raise LoopCycle
            else:
                path.append(j)

    read = {v.name for s in statements for v in uses(s)} | {_known(a).name for a in (block.loop.accumulators if block.loop else ())}
    unread = {i for i, s in enumerate(statements) if isinstance(s, Cast) and s.dst.name not in read}
    for i in (*(i for i in range(len(statements)) if i not in late), *sorted(late)):
        if i not in unread:
            place(i)
    return tuple(ordered)


def _any_time(statements: list[Statement], needs: list[set[int]]) -> set[int]:
    """The statements that depend on no contraction or loop of their block."""
    fixed = {i for i, s in enumerate(statements) if isinstance(s, Dot | Loop | Store)}
    while more := {i for i, before in enumerate(needs) if i not in fixed and not fixed.isdisjoint(before)}:
        fixed |= more
    return set(range(len(statements))) - fixed


def _known(a: OpenAccumulator) -> Value:
    assert a.new is not None, f"accumulator {a.old.name} was never completed"
    return a.new
