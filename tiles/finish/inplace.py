"""Accumulators in place: the new value takes the storage of the old one as soon as it is known, where nothing reads the old one later."""

from __future__ import annotations

from dataclasses import replace

from ..program import Accumulator, Loop, Statement, TileProgram, defines, rewritten, uses


def overwrite(program: TileProgram) -> TileProgram:
    """Decide ``Accumulator.inplace`` in every loop."""

    def one(s: Statement) -> Statement:
        if not isinstance(s, Loop):
            return s
        return replace(s, accumulators=tuple(replace(a, inplace=_overwritable(s, a)) for a in s.accumulators))

    return replace(program, body=rewritten(program.body, one))


def _overwritable(s: Loop, a: Accumulator) -> bool:
    """Whether a statement of the loop itself computes the new value, and nothing reads the old value after it."""
    defined = next((i for i, t in enumerate(s.body) if a.new in defines(t)), None)
    if defined is None or isinstance(s.body[defined], Loop):
        return False
    return not any(v.name == a.old.name for t in s.body[defined + 1 :] for v in uses(t))
