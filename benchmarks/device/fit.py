"""What a run says of the model and of the static times: the few constants of the device, rank correlation, and regret.

A static time is as good as the target's bandwidth (which is said to be reachable already) where device memory takes longest, and as its
clock otherwise; a launch is added.
So three numbers are fitted, the shares of bandwidth and clock that are reached and the time of a launch, on every other kernel; errors are
reported on the rest.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eqfuse.extract.targets import Target, load_target

from ..ranks import regret, spearman

SHARES = [k / 100 for k in range(50, 121, 2)]
LAUNCHES = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0]
MEMORY = "device memory"
Row = dict[str, Any]
Constants = tuple[float, float, float]


def fit(path: Path) -> int:
    """Print all of it; the manifest lies beside the results."""
    results = json.loads(path.read_text())
    manifest = json.loads((path.parent / "manifest.json").read_text())
    target = load_target(manifest["written"]["target"])
    rows = timed(manifest["cases"], results["rows"])
    device = results["rows"].get("device", {})
    print(f"{device.get('environment', {}).get('device')}, kernels of {manifest['written']['commit']} for {target.name}, {len(rows)} timed")
    if len(rows) < 4:
        print("too few to fit anything")
        return 1
    _constants(rows, device.get("constants", {}), target)
    print("\nkind                     n   rank: model  static   regret: model  static   measured / model  / static")
    for kind in dict.fromkeys(r["kind"] for r in rows):
        _kind(kind, [r for r in rows if r["kind"] == kind])
    _peers(manifest["cases"], results["rows"])
    return 0


def timed(cases: Sequence[Row], rows: dict[str, Row]) -> list[Row]:
    """The cases with what was measured of our kernels."""
    out = []
    for c in cases:
        found = rows.get(c["name"], {}).get("time", {}).get("ours", {})
        if "us" in found:
            out.append(c | {"us": found["us"]})
    return out


def predicted(row: Row, constants: Constants) -> float:
    """The static time of a case with these shares of bandwidth and clock, and this time of a launch."""
    bandwidth, clock, launch = constants
    floors = row["floors"]
    at = {unit: us / (bandwidth if unit == MEMORY else clock) for unit, us in floors.items()}
    first, then = max(floors.values()), max(at.values())
    return launch * row["launches"] + row["static_us"] * then / first


def _constants(rows: Sequence[Row], measured: Row, target: Target) -> None:
    print("measured by themselves:", ", ".join(f"{k} {v:.4g}" for k, v in measured.items() if v) or "nothing")
    known = [r for r in rows if r["static_us"]]
    if len(known) < 4:
        print("too few static times to fit constants")
        return
    found = fitted(known[::2])
    before = (1.0, 1.0, target.launch_us)
    bandwidth, clock = f"{found[0]:.2f} of {target.dram_gb_s:.0f} GB/s", f"{found[1]:.2f} of {target.clock_ghz} GHz"
    print(f"fitted to every other kernel: bandwidth {bandwidth}, clock {clock}, launch {found[2]} us")
    errors = [math.expm1(statistics.median(_errors(known[1::2], constants))) for constants in (before, found)]
    print(f"median error of static times on the others: {errors[0]:.0%} before, {errors[1]:.0%} after")


def fitted(rows: Sequence[Row]) -> Constants:
    """The constants by which the errors, as factors, are least in the mean."""
    return min(itertools.product(SHARES, SHARES, LAUNCHES), key=lambda c: statistics.fmean(_errors(rows, c)))


def _errors(rows: Sequence[Row], constants: Constants) -> list[float]:
    return [abs(math.log(r["us"] / predicted(r, constants))) for r in rows]


def _kind(kind: str, rows: Sequence[Row]) -> None:
    static = [r for r in rows if r["static_us"]]
    us = [r["us"] for r in rows]
    same = kind.startswith("tiles")  # kernels of one program: only of these one is chosen
    ranks = [
        f"{spearman([r[key] for r in of], [r['us'] for r in of]):5.2f}" if len(of) > 2 else "    -"
        for key, of in (("modelled_us", rows), ("static_us", static))
    ]
    chosen = [
        f"{regret([r['us'] for r in of], [r[key] for r in of]):5.2f}" if same and of else "    -"
        for key, of in (("modelled_us", rows), ("static_us", static))
    ]
    model = statistics.median(u / r["modelled_us"] for u, r in zip(us, rows, strict=True))
    machine = f"{statistics.median(r['us'] / r['static_us'] for r in static):.2f}" if static else "-"
    print(f"{kind:22s} {len(rows):3d}   {ranks[0]:>11s}   {ranks[1]:>5s}   {chosen[0]:>13s}   {chosen[1]:>5s}   {model:16.2f}    {machine}")


def _peers(cases: Sequence[Row], rows: dict[str, Row]) -> None:
    print("\nours against the best of the others, geometric mean over lengths (above 1: ours is faster)")
    for kind in dict.fromkeys(c["kind"] for c in cases if not c["alone"]):
        logs = []
        for c in cases:
            found = rows.get(c["name"], {})
            times = {**found.get("time", {}), **found.get("peers", {})}
            others = [t["us"] for name, t in times.items() if name != "ours" and "us" in t]
            if c["kind"] == kind and others and "us" in times.get("ours", {}):
                logs.append(math.log(min(others) / times["ours"]["us"]))
        if logs:
            print(f"{kind:22s} {len(logs):3d}   {math.exp(statistics.fmean(logs)):.2f}")
