"""The smallest program, and the fewest rules, that make an audit fail: printed as code that runs.

The program is made smaller, and rules are left out, as long as the rules that are to blame still match and something is still false.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ..ir.index import Axis
from ..ir.program import Program
from ..ir.shrink import shrink
from ..ir.source import program_source
from ..rewrites.rule import Rule
from .claims import Finding
from .frozen import FrozenGraph
from .saturate import saturate

SMALL = 2000  # e-nodes that a candidate may have: a minimal program has few
FEW = 24  # elements of inputs that are worth printing

Data = Mapping[str, np.ndarray] | None


def minimal(
    graph: FrozenGraph,
    pool: tuple[Rule, ...],
    culprits: frozenset[str],
    findings: Callable[[FrozenGraph, Data], Iterator[Finding]],
    inputs: Data,
    seed: int,
    masked: bool,
    seconds: float,
) -> str:
    """The smallest program and the fewest rules of ``pool`` found with which the culprits still make an audit fail, as code.

    ``findings``: what an audit of a graph at some data finds.  Data that were given are cut to the sizes of a candidate; without them, and
    if they are not needed, the audit draws its own.
    """
    parts = {axis.name: outer.size for axis, outer, _ in graph.facts.get("split", ())}
    fixed = [i.name for i in graph.program.inputs]
    deadline = time.process_time() + seconds

    def splits(p: Program) -> dict[Axis, int]:
        return {a: parts[a.name] for a in p.axes if parts.get(a.name, a.size) < a.size}

    def data(p: Program) -> dict[str, np.ndarray] | None:
        if inputs is None:
            return None
        found = {}
        for i in p.inputs:
            shape = [1 if a is None else a.size for a in i.layout]
            x = np.asarray(inputs[i.name]) if i.name in fixed else np.ones(())
            fits = x.ndim == len(shape) and all(n <= m for n, m in zip(shape, x.shape, strict=True))
            found[i.name] = (
                x[tuple(slice(n) for n in shape)] if fits else np.random.default_rng(seed).normal(size=shape).round(2)
            )
        return found

    def disagrees(p: Program, chosen: tuple[Rule, ...]) -> bool:
        try:
            small = saturate(p, rules=chosen, splits=splits(p), node_budget=SMALL, time_budget=2.0)
            matched = {r.rule for r in small.report.rules if r.matches}
            return (not culprits or bool(culprits & matched)) and next(findings(small, data(p)), None) is not None
        except Exception:  # a candidate that is no program
            return False

    if not disagrees(graph.program, pool):
        strange = sorted({r.rule for r in graph.report.rules if r.matches} - {r.name for r in pool})
        why = f"these rules are not registered, pass rules=: {', '.join(strange)}" if strange else "its rules alone do not show it again"
        return f"\n  no minimal program: {why}"
    if inputs is not None:
        given, inputs = inputs, None
        if not disagrees(graph.program, pool):
            inputs = given
    program = shrink(graph.program, lambda p: disagrees(p, pool), seconds=seconds * 0.6)
    kept = _fewest(pool, lambda chosen: disagrees(program, chosen), deadline)
    program = shrink(program, lambda p: disagrees(p, kept), seconds=max(0.0, deadline - time.process_time()))
    return "\n  minimal program:\n\n" + _code(program, kept, splits(program), seed, masked, data(program))


def _fewest(rules: tuple[Rule, ...], fails: Callable[[tuple[Rule, ...]], bool], deadline: float) -> tuple[Rule, ...]:
    """Fewer rules that still fail: halves are left out, then quarters, then single ones."""
    size = (len(rules) + 1) // 2
    while size and time.process_time() < deadline:
        k = 0
        while k < len(rules) and time.process_time() < deadline:
            fewer = rules[:k] + rules[k + size :]
            if fewer and fails(fewer):
                rules = fewer
            else:
                k += size
        size //= 2
    return rules


def _code(
    program: Program, rules: tuple[Rule, ...], splits: Mapping[Axis, int], seed: int, masked: bool, inputs: Mapping[str, np.ndarray] | None
) -> str:
    """A script that repeats the failing audit; its rules are those of the registry."""
    options = f"seed={seed}, masked={masked}"
    lines = [program_source(program).rstrip(), "", "from eqfuse.egraph import audit, saturate", "from eqfuse.rewrites import registry"]
    if inputs is not None and sum(x.size for x in inputs.values()) <= FEW:
        inf = "from math import inf" if any(np.isinf(x).any() for x in inputs.values()) else None
        lines += [inf] if inf else []
        lines.append(f"inputs = {{{', '.join(f'{n!r}: {np.asarray(x).tolist()}' for n, x in inputs.items())}}}")
        options += ", inputs=inputs"
    names = ", ".join(repr(r.name) for r in rules)
    parts = ", ".join(f"Axis({a.name!r}, {a.size}): {n}" for a, n in splits.items())
    lines.append(f"names = {{{names}}}")
    lines.append("rules = [r for r in registry.rules() if r.name in names]")
    lines.append(f"audit(saturate(p, rules=rules, splits={{{parts}}}), {options})")
    return "".join(f"    {line}\n" if line else "\n" for line in "\n".join(lines).split("\n"))
