"""How much of what a multiprocessor has to do happens at the same time.

A step of a program has phases, one after the other: matrix products, for which operands come from shared memory meanwhile, and arithmetic
on their results, which the special unit does beside the others.  Within a phase the busiest unit counts; phases, and what is waited for,
add up for a program that is alone and in step.  Programs that run on a multiprocessor at a time are the customers of a closed queue, whose
stations are the units (Zahorjan et al., Balanced Job Bound Analysis of Queueing Networks, 1982): if each by itself takes ``s``, ``d`` of it
at the busiest station, ``n`` of them take ``n d + (s - d)``.  So overlap is earned, by other programs on the multiprocessor; for memory
it is earned by loads ahead, and by others that work while one waits.
"""

from __future__ import annotations

from collections.abc import Mapping

MEMORY = ("dram", "l2")
PHASES = (("tensor", "shared"), ("issue", "special"), MEMORY)  # matrix products; arithmetic; memory
# shares of the lesser one of two that show, for a program that is alone (fitted to times measured on an H100: docs/decisions/cost_model.md)
BESIDE = (0.0, 0.14, 0.05)  # of two units of a phase; of memories so much that of equal times the one with less traffic is less
WAITED, AHEAD = 0.7, 0.03  # of memory and the chip, for data that are waited for and for those that are loaded ahead


def contributions(terms: Mapping[str, float], at_a_time: float, ahead: float, parts: float = 1.0) -> dict[str, float]:
    """What each term adds to the time of a kernel, of whose programs so many are on a multiprocessor at a time; they add up to it.
    ``terms``: microseconds of each by itself; "latency" is that of one program after the other.  ``ahead``: the share of the steps of loops
    that find their data loaded.  ``parts``: into how many a program falls whose phases are not in step."""
    matrix, arithmetic, memory = (_phase(terms, pair, beside) for pair, beside in zip(PHASES, BESIDE, strict=True))
    units = matrix | arithmetic
    busiest = max(units, key=lambda t: units[t])
    chip = {t: us if t == busiest else us / (at_a_time * parts) for t, us in units.items()}
    chip["latency"] = terms.get("latency", 0.0) / at_a_time
    return _joined(chip, memory, (ahead * AHEAD + (1.0 - ahead) * WAITED) / (at_a_time * parts) ** 2)


def _phase(terms: Mapping[str, float], pair: tuple[str, str], beside: float) -> dict[str, float]:
    lesser, longer = sorted(pair, key=lambda t: terms.get(t, 0.0))
    return {longer: terms.get(longer, 0.0), lesser: beside * terms.get(lesser, 0.0)}


def _joined(a: Mapping[str, float], b: Mapping[str, float], shown: float) -> dict[str, float]:
    shorter, longer = sorted((a, b), key=lambda parts: sum(parts.values()))
    return dict(longer) | {t: us * shown for t, us in shorter.items()}
