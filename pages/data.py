"""What a page says of a compiled program, as data: JSON values alone, so that a page can be drawn from what another process has written.

Schema ``eqfuse.page/2``: ``graphs``, each a program with its *parts*: a piece that has kernels (``written``: the operations that eager code
runs as kernels of their own; ``steps``: what the plan runs instead), or an operator that torch runs, with the reason and the user's line.
A part that comes again (a layer) stands once, with how ``often``; ``order`` says in which order parts run, what repeats once.
``costs``: the kernels that take longest.  Bytes and microseconds are modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..extract.plan import Plan, plan_text
from ..extract.targets import Target
from .parts import piece_data

SCHEMA = "eqfuse.page/2"
MOST_COSTS = 10


@dataclass(frozen=True, eq=False)
class Piece:
    """A program that has kernels, and what it and its tensors are called, and what they are, around it."""

    plan: Plan
    name: str = ""
    called: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class InTorch:
    """What torch runs, and why."""

    name: str
    operator: str
    reason: str
    where: str | None = None
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    bytes: int = 0


def page_data(graphs: Sequence[tuple[Plan, Target] | dict[str, Any]]) -> dict[str, Any]:
    """Plans with the devices that they were made for, or graphs of :func:`graph_data`, as JSON values."""
    found = [g if isinstance(g, dict) else graph_data(g[0].program.name, g[1], [Piece(g[0])]) for g in graphs]
    return {"schema": SCHEMA, "graphs": found, "costs": _costs(found)}


def graph_data(
    name: str, target: Target, sequence: Sequence[Piece | InTorch], *, kind: str = "program", calls: int | None = None,
    reasons: Sequence[str] = (), saved: Sequence[Mapping[str, Any]] = (), others: Mapping[str, int] | None = None, text: str = "",
) -> dict[str, Any]:  # fmt: skip
    """A program: what runs, in order.  ``reasons``: why nothing of it was planned; ``saved``: what a forward pass saves; ``others``: the
    bytes that other compilers would move, by their names; ``text``: the plan in words."""
    parts: list[dict[str, Any]] = []
    known: dict[object, int] = {}
    order: list[int] = []
    for one in _expanded(sequence):
        key = (one.operator, one.reason, one.where, one.bytes) if isinstance(one, InTorch) else id(one.plan)
        if key not in known:
            known[key] = len(parts)
            parts.append(_library(one) if isinstance(one, InTorch) else piece_data(one.plan, target, one.called, one.roles, one.name))
            parts[-1]["often"] = 0
        parts[known[key]]["often"] += 1
        order.append(known[key])
    plans = [p.plan for p in sequence if isinstance(p, Piece)]
    steps = [s for p in parts for s in p.get("steps", ())]
    for number, s in enumerate(steps, 1):
        s["number"] = number
    return {
        "name": name,
        "kind": kind,
        "target": target.name,
        "calls": calls,
        "reasons": list(reasons),
        "us": sum(p.estimated_us for p in plans),
        "unfused_us": sum(p.baseline_us for p in plans),
        "bytes": sum(p.dram_bytes for p in plans),
        "unfused_bytes": sum(p.baseline_bytes for p in plans),
        "compulsory_bytes": plans[0].compulsory_bytes if len(plans) == 1 and len(sequence) == 1 else None,
        "kernels": sum(len(p.steps) for p in plans),
        "unfused_kernels": sum(p.baseline_kernels for p in plans),
        "library_bytes": sum(one.bytes for one in sequence if isinstance(one, InTorch)),
        "parts": parts,
        "in_torch": _in_torch(parts),
        "order": repeats(order),
        "saved": [dict(s) for s in saved],
        "others": dict(others or {}),
        "roof": {"bytes_per_us": target.dram_gb_s * 1e3, "operations_per_us": _peak(steps, target) * 1e6},
        "equations": [str(p.program) for p in plans],
        "plan": text or "\n".join(map(plan_text, plans)),
    }


def _expanded(sequence: Sequence[Piece | InTorch]) -> list[Piece | InTorch]:
    """The same, with the regions of every plan in its place."""
    found: list[Piece | InTorch] = []
    for one in sequence:
        if isinstance(one, InTorch) or not one.plan.parts:
            found.append(one)
            continue
        for part in one.plan.parts:
            whole = one.plan.buffers
            roles = {n: one.roles.get(m, whole[m].role) for n, m in part.tensors.items() if m in whole}
            called = {n: one.called.get(m, m) for n, m in part.tensors.items()}
            found.append(Piece(part.plan, part.plan.program.name, called, roles))
    return found


def _library(one: InTorch) -> dict[str, Any]:
    return {
        "kind": "torch", "name": one.name, "operator": one.operator, "reason": one.reason, "where": one.where or "",
        "reads": list(one.reads), "makes": list(one.makes), "bytes": one.bytes,
    }  # fmt: skip


def _in_torch(parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What torch runs, by operator and reason, with the user's lines."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for p in parts:
        if p["kind"] == "torch":
            same = found.setdefault((p["operator"], p["reason"]), {
                "operator": p["operator"], "reason": p["reason"], "times": 0, "bytes": 0, "lines": [],
            })  # fmt: skip
            same["times"] += p["often"]
            same["bytes"] += p["bytes"] * p["often"]
            same["lines"] += [p["where"]] if p["where"] and p["where"] not in same["lines"] else []
    return list(found.values())


def repeats(order: Sequence[int]) -> list[dict[str, Any]]:
    """A sequence as runs: ``times`` the same ``parts`` one after the other.  Of the runs that begin at a place that which is longest."""
    found: list[dict[str, Any]] = []
    at = 0
    while at < len(order):
        best = (1, 1)  # how many parts, how often
        for period in range(1, (len(order) - at) // 2 + 1):
            times = 1
            while order[at + times * period : at + (times + 1) * period] == order[at : at + period]:
                times += 1
            if times > 1 and period * times > best[0] * best[1]:
                best = (period, times)
        period, times = best
        if times == 1 and found and found[-1]["times"] == 1:
            found[-1]["parts"].append(order[at])
        else:
            found.append({"times": times, "parts": list(order[at : at + period])})
        at += period * times
    return found


def _costs(graphs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The kernels that take longest, of all graphs: what is left to gain."""
    total = sum(g["us"] for g in graphs) or 1.0
    found = [
        {
            "graph": k, "kernel": s["name"], "number": s["number"], "often": p["often"], "us": s["us"] * p["often"],
            "share": s["us"] * p["often"] / total, "bytes": s["bytes"] * p["often"], "bound_by": s["bound_by"],
        }
        for k, g in enumerate(graphs) for p in g["parts"] for s in p.get("steps", ())
    ]  # fmt: skip
    return sorted(found, key=lambda c: -c["us"])[:MOST_COSTS]


def _peak(steps: Sequence[Mapping[str, Any]], target: Target) -> float:
    """The rate of the fastest unit that the steps use, in 1e12 operations a second."""
    matrix = any(s["tensor_operations"] for s in steps)
    return max(target.tensor_tflops.values(), default=0.0) if matrix and target.tensor_tflops else 2e-3 * target.simt_gops
