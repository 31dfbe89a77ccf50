"""What a page says of a compiled program, as data: JSON values alone, so that a page can be drawn from what another process has written.

Schema ``eqfuse.page/2``: ``graphs``, each a program with its *parts*: a piece that has kernels (``written``: the operations that eager code
runs as kernels of their own; ``steps``: what the plan runs instead), or an operator that torch runs, with the reason and the user's line.
A part that comes again (a layer) stands once, with how ``often``; ``order`` says in which order parts run, what repeats once.
``costs``: the kernels that take longest.  Bytes and microseconds are modelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..extract.plan import Block, Plan, TorchCall
from ..extract.targets import Target
from .parts import piece_data

SCHEMA = "eqfuse.page/2"
MOST_COSTS = 10


def page_data(graphs: Sequence[tuple[Block, Target] | dict[str, Any]]) -> dict[str, Any]:
    """Plans with the devices that they were made for, or graphs of :func:`graph_data`, as JSON values."""
    found = [g if isinstance(g, dict) else graph_data(*g) for g in graphs]
    return {"schema": SCHEMA, "graphs": found, "costs": _costs(found)}


def graph_data(
    plan: Block, target: Target, name: str = "", *, kind: str = "program", calls: int | None = None, reasons: Sequence[str] = (),
    others: Mapping[str, int] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A program: what runs, in order.  ``reasons``: why nothing of it was planned; ``others``: the bytes that other compilers would move,
    by their names."""
    parts: list[dict[str, Any]] = []
    known: dict[object, int] = {}
    order: list[int] = []
    for one, called, roles in _leaves(plan, {}, {}):
        key = (one.target, one.reason, one.where, one.bytes) if isinstance(one, TorchCall) else id(one)
        if key not in known:
            known[key] = len(parts)
            parts.append(_library(one) if isinstance(one, TorchCall) else piece_data(one, target, called, roles))
            parts[-1]["often"] = 0
        parts[known[key]]["often"] += 1
        order.append(known[key])
    steps = [s for p in parts for s in p.get("steps", ())]
    for number, s in enumerate(steps, 1):
        s["number"] = number
    return {
        "name": name or plan.name,
        "kind": kind,
        "target": target.name,
        "calls": calls,
        "reasons": list(reasons),
        "us": plan.estimated_us,
        "unfused_us": plan.baseline_us,
        "bytes": plan.dram_bytes,
        "unfused_bytes": plan.baseline_bytes,
        "compulsory_bytes": plan.compulsory_bytes if isinstance(plan, Plan) else None,
        "kernels": len(plan.steps),
        "unfused_kernels": plan.baseline_kernels,
        "library_bytes": plan.library_bytes,
        "parts": parts,
        "in_torch": _in_torch(parts),
        "order": repeats(order),
        "saved": [
            {"name": b.name, "shape": list(b.shape), "dtype": b.dtype.name, "bytes": b.bytes, "result": b.role == "output"}
            for b in plan.saved or ()
        ],
        "others": dict(others or {}),
        "roof": {"bytes_per_us": target.dram_gb_s * 1e3, "operations_per_us": _peak(steps, target) * 1e6},
        "equations": [str(p.program) for p in ([plan] if isinstance(plan, Plan) else (part.plan for part in plan.pieces))],
        "plan": str(plan) if plan.parts or plan.steps else "",
    }


Leaf = tuple[Plan | TorchCall, Mapping[str, str], Mapping[str, str]]


def _leaves(plan: Block, called: Mapping[str, str], roles: Mapping[str, str]) -> Iterator[Leaf]:
    """What runs, in order: plans without parts, and what torch runs; with what their tensors are called, and are, around it."""
    if isinstance(plan, Plan) and not plan.parts:
        yield plan, called, roles
    made = {n for p in plan.parts for n in p.makes}
    read = {n for p in plan.parts for n in p.reads}
    for p in plan.parts:
        if isinstance(p, TorchCall):
            yield p, called, roles
            continue
        known = plan.buffers if isinstance(plan, Plan) else {}
        usual = {n: known[n].role if n in known else _role(n, made, read) for n in p.tensors.values()}
        own = p.tensors.items()
        yield from _leaves(p.plan, {n: called.get(m, m) for n, m in own}, {n: roles.get(m, usual[m]) for n, m in own})


def _role(value: str, made: set[str], read: set[str]) -> str:
    if value not in made:
        return "input"
    return "temporary" if value in read else "output"


def _library(one: TorchCall) -> dict[str, Any]:
    return {
        "kind": "torch", "name": one.name, "operator": one.target, "reason": one.reason, "where": one.where or "",
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
