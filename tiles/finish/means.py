"""A running mean is one number: made at the end of a step, it is carried into the next one.

    d = sum' / n' - sum / n      -->      m' = sum' / n';  d = m' - m

where ``m`` is ``m'`` of the step before.  The moments of a loop are moved by ``d`` from what they were counted from to what they are
counted from next, so ``m`` has to be the very number that the step before took.  A device may divide by a product with a reciprocal, and a
compiler contract that product with the subtraction: then ``sum / n`` is not rounded here, where it was rounded there.  Around 1000
that is 3e-5 of a mean, and with every step more of the variance than its last digits.  It also is a division less.
"""

from __future__ import annotations

from dataclasses import replace

from ..program import Accumulator, Loop, Mean, Statement, TileProgram, Value, rewritten


def carry(program: TileProgram) -> TileProgram:
    """The program whose loops carry the means that they have both before and after a step."""

    def one(s: Statement) -> Statement:
        return _carrying(s) if isinstance(s, Loop) else s

    return replace(program, body=rewritten(program.body, one))


def _carrying(loop: Loop) -> Loop:
    """The loop with its means before a step as states.  Of nothing the sum is 0, and so is the mean."""
    olds = {s.src: s for s in loop.body if isinstance(s, Mean) and s.which == "old" and s.binding == loop.binding}
    news = {s.src: s for s in loop.body if isinstance(s, Mean) and s.which == "new" and s.binding == loop.binding}
    pairs = [(olds[a.old], news[a.new]) for a in loop.accumulators if a.start is None and a.old in olds and a.new in news]
    dropped: set[Value] = {old.dst for old, _ in pairs}
    states = tuple(Accumulator(old.dst, new.dst, "sum", 0.0) for old, new in pairs)
    body = tuple(s for s in loop.body if not (isinstance(s, Mean) and s.dst in dropped))
    return replace(loop, body=body, accumulators=(*loop.accumulators, *states))
