"""Equality saturation of one program: run (:mod:`.run`), and refused if two constants have met."""

from __future__ import annotations

import math
from collections.abc import Collection

from ..ir.apart import apart
from ..ir.program import Program
from ..rewrites import registry
from ..rewrites.rule import Rule
from .audit import explained
from .claims import constants_met
from .frozen import FrozenGraph
from .run import Splits, for_kernels, for_programs, saturated


def saturate(
    program: Program,
    *,
    licence: str = "real",
    rules: Collection[Rule] | None = None,
    splits: Splits | None = None,
    node_budget: int = 20_000,
    time_budget: float = 10.0,
    deadline: float = math.inf,
    disabled: Collection[str] = (),
    enable: bool = True,
    shrink_seconds: float = 10.0,
    order: bool = False,
) -> FrozenGraph:
    """Every form of a program that the rules reach: forms of its kernels, or with ``order`` other programs (:data:`~.run.ORDERING`), of the
    program with its bound axes apart (:func:`~eqfuse.ir.apart.apart`).

    ``licence``: the equality that rules may use ("exact", "real" or "approx").  ``rules``: these instead of the registered ones.
    ``splits``: axis -> the number of outer parts, which are then the axes ``<name>_o`` and ``<name>_i``; or several of them, of which
    the second makes ``<name>_o2`` and ``<name>_i2``; or pairs of such axes.
    ``time_budget`` is in seconds of CPU, and as many e-nodes as they are enough for; ``deadline``: the process time to be done by, if that
    is earlier.
    ``enable=False`` applies no rule at all.  Raises :class:`~eqfuse.errors.UnsoundGraphError` if two constants meet in a class, with a
    minimal program as an audit gives it (``shrink_seconds``).
    """
    chosen = tuple(rules) if rules is not None else registry.active(licence, disabled)
    if rules is not None:
        chosen = tuple(r for r in chosen if r.name not in disabled)
    chosen = (for_programs if order else for_kernels)(chosen) if enable else ()
    program = apart(program) if order else program
    graph = saturated(program, chosen, splits or {}, node_budget, time_budget, deadline)
    wrong = constants_met(graph)
    if wrong is not None:
        raise explained(graph, wrong, chosen, shrink_seconds=shrink_seconds)
    return graph
