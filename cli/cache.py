"""The command ``cache``: what is kept on disk."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from .tables import show_table

if TYPE_CHECKING:
    from ..extract.kept.folder import Entry


def cache_command(args: argparse.Namespace) -> int:
    """``eqfuse cache``."""
    from ..extract.kept import files, folder

    where = folder.directory()
    if where is None:
        why = "there is no folder that only you can write to; EQFUSE_CACHE_DIR names another"
        why = why if files.kept("plans") else f"EQFUSE_CACHE={os.environ['EQFUSE_CACHE']}"
        print(json.dumps({"folder": None, "why": why}) if args.json else f"no plans are kept: {why}")
        return 0
    if args.action == "clear":
        count = folder.clear()
        print(json.dumps({"folder": str(where), "removed": count}) if args.json else f"removed {count} entries from {where}")
        return 0
    found = list(folder.entries())
    if args.json:
        rows = [{"name": e.name, "bytes": e.bytes, "read": e.read, "kind": _kind(e), **_of(e)} for e in found]
        print(json.dumps({"folder": str(where), "entries": rows}, indent=2))
        return 0
    print(f"{where}: {len(found)} entries, {sum(e.bytes for e in found):,} bytes")
    if found:
        show_table(("program", "target", "plans", "orders", "judged", "graphs", "damaged", "bytes", "last read"), _rows(found))
    return 0


def _of(entry: Entry) -> dict[str, str]:
    """The program and the target that an entry is for."""
    of = entry.data.get("of") if isinstance(entry.data, dict) else None
    known = of if isinstance(of, dict) else {}
    return {key: str(known.get(key, "?")) for key in ("program", "target")}


def _kind(entry: Entry) -> str:
    """A plan; what a graph of torch.compile became; the note that no other order of a program is better; what a compiler or a clock said of
    kernels; or a file that is not as it was
    written, and is never read."""
    if not isinstance(entry.data, dict):
        return "damaged"
    kinds = {"plan": "plan", "best": "order", "judged": "judged", "refined": "judged"}
    return next((kind for key, kind in kinds.items() if key in entry.data), "graph")


def _rows(found: Sequence[Entry]) -> list[tuple[str, ...]]:
    """A line for each program and target, the last read first."""
    groups: defaultdict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for e in found:
        groups[tuple(_of(e).values())].append(e)
    rows = []
    for of, group in sorted(groups.items(), key=lambda g: -max(e.read for e in g[1])):
        kinds = Counter(map(_kind, group))
        when = datetime.fromtimestamp(max(e.read for e in group)).astimezone().strftime("%Y-%m-%d %H:%M")
        counts = (str(kinds[k]) for k in ("plan", "order", "judged", "graph", "damaged"))
        rows.append((*of, *counts, f"{sum(e.bytes for e in group):,}", when))
    return rows
