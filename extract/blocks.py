"""Plans that run one after the other as one block: what they cost, say and hold together.

Memory is counted once, for the whole: a tensor between parts lives from the one that makes it to the last one that reads it, and a part
holds its own temporaries while it runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..tiles.kernel import Buffer
from .plan import Decision, Launch, Part, Plan, Share, StepPlan, TorchCall
from .targets import Target

STOPPED = ("bound", "exhausted", "like", "work", "time", "clock")  # the later ones are said of the whole if they hold for a part
SATURATED = ("saturated", "off", "nodes", "time", "clock")
SUMMED = ("dram_bytes", "compulsory_bytes", "baseline_bytes", "baseline_kernels", "estimated_us", "baseline_us")


def block_fields(parts: Sequence[Part | TorchCall], target: Target) -> dict[str, Any]:
    """The fields of a block in parts."""
    pieces = [p for p in parts if isinstance(p, Part)]
    plans = [p.plan for p in pieces]
    different: dict[int, Part] = {}
    for p in pieces:
        different.setdefault(id(p.plan), p)
    first = different.values()

    def said(field: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(line for p in first for line in getattr(p.plan, field)))

    return {
        "target": target.name,
        "on_cpu": target.on_cpu,
        "measured": target.measured,
        "parts": tuple(parts),
        "steps": tuple(step for p in plans for step in p.steps),
        **{field: sum(getattr(p, field) for p in plans) for field in SUMMED},
        "stopped": max((p.stopped for p in plans), key=STOPPED.index, default="exhausted"),
        "saturation": max((p.saturation for p in plans), key=SATURATED.index, default="saturated"),
        **{field: said(field) for field in ("refused", "notes", "unsure", "compiled")},
        "accuracy": tuple(f"{p.name}: {tried}" for p in first for tried in p.plan.accuracy),
        "rewritten": tuple(sorted(said("rewritten"))),
        "written_us": sum(p.written_us or p.estimated_us for p in plans) if any(p.written_us for p in plans) else 0.0,
        "decisions": tuple(d for p in first for d in p.plan.decisions),
        "launches": _launches(plans) if any(p.launches for p in plans) else (),
    }


def step_plan(
    name: str, target: Target, parts: Sequence[Part | TorchCall], decisions: tuple[Decision, ...] = (), *, temporary_bytes: int = 0,
    saved: tuple[Buffer, ...] | None = None, share: Share | None = None,
) -> StepPlan:  # fmt: skip
    """The plan of parts that are no single program; ``decisions``: beside those of the parts."""
    fields = block_fields(parts, target)
    fields |= {"decisions": (*fields["decisions"], *decisions), "temporary_bytes": temporary_bytes, "saved": saved}
    return StepPlan(title=name, device=target, share=share or Share(), **fields)


def _launches(plans: Sequence[Plan]) -> tuple[Launch, ...]:
    """Those of the parts: kernels of different parts are not launched together."""
    before = itertools.accumulate((len(p.steps) for p in plans), initial=0)
    return tuple(Launch(tuple(at + k for k in one.steps), one.us) for at, p in zip(before, plans, strict=False) for one in p.every_launch)


def bytes_held(steps: Iterable[tuple[Mapping[str, int], Collection[str], int]]) -> list[int]:
    """The bytes held while each step runs: each with the bytes of what it makes and is not returned, what it reads, and what it holds
    itself.  A tensor goes when its last reader has run."""
    order = list(steps)
    last = {name: at for at, (_, reads, _) in enumerate(order) for name in reads}
    found, live = list[int](), dict[str, int]()
    for at, (makes, _, own) in enumerate(order):
        live |= makes
        found.append(sum(live.values()) + own)
        live = {name: n for name, n in live.items() if last.get(name, at) > at}
    return found
