"""The violations that are known, which may shrink and not grow: the list of work, by excess."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .law import Outcome

SLACK = 1.02  # by which a violation may be larger than it was: plans of other releases of libraries
Known = Mapping[str, Mapping[str, Any]]


def read(path: Path) -> dict[str, dict[str, Any]]:
    """What is known: law and target -> ``ratio`` (``null`` where there is no plan) and ``reason``."""
    found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return found


def judged(outcomes: Iterable[Outcome], known: Known) -> list[str]:
    """What is to be said of outcomes: violations that are new or larger, and known ones that are gone or smaller."""
    said = []
    for o in outcomes:
        before = known.get(o.key)
        limit = 0.0 if before is None else math.inf if before["ratio"] is None else SLACK * before["ratio"]
        if not o.holds and o.ratio > limit:
            said.append(f"{o.key}: {o.us:.1f} us, at most {o.most:.1f}: {o.ratio:.2f} times what it may take")
        if before is not None and (o.holds or SLACK * o.ratio < limit / SLACK):
            said.append(f"{o.key}: {o.ratio:.2f}, and {before['ratio']} is written down: write it anew")
    return said


def updated(outcomes: Iterable[Outcome], known: Known) -> str:
    """The list as text, the largest excess first, with what these outcomes say.  Reasons stay; a new violation has none, which somebody has
    to find."""
    outcomes = list(outcomes)
    seen = {o.key for o in outcomes}
    found = {k: v for k, v in known.items() if k not in seen}
    for o in outcomes:
        if not o.holds:
            us, ratio = (round(x, 3) if math.isfinite(x) else None for x in (o.us, o.ratio))
            found[o.key] = {"us": us, "ratio": ratio, "reason": known.get(o.key, {}).get("reason", "")}
    return json.dumps(dict(sorted(found.items(), key=lambda item: (-_excess(item[1]), item[0]))), indent=1) + "\n"


def _excess(violation: Mapping[str, Any]) -> float:
    """Microseconds above what a law allows; infinite where there is no plan."""
    us, ratio = violation["us"], violation["ratio"]
    return math.inf if us is None or ratio is None else us - us / ratio
