"""What a run says of the model and of the static times: the few constants of the device, rank correlation, and regret.

A static time is as good as the target's bandwidth (which is said to be reachable already) where device memory takes longest, and as its
clock otherwise; a launch is added.
So three numbers are fitted, the shares of bandwidth and clock that are reached and the time of a launch, on every other kernel; errors are
reported on the rest.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..ranks import judged, regret, spearman  # noqa: F401  # regret is asked for here
from .keep import MEMORY, read
from .kept import best_other, family, geomean, tiles, timed

SHARES = [k / 100 for k in range(50, 121, 2)]
LAUNCHES = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0]
Row = dict[str, Any]
Constants = tuple[float, float, float]


def fit(path: Path) -> int:
    """Print all of it, of what was kept or of the results in a folder."""
    result = read(path)
    rows, target = timed(result), result["target"]
    commits = ", ".join(dict.fromkeys(w["commit"] for w in result["written"]))
    print(f"{result['environment'].get('device')}, kernels of {commits} for {target['name']}, {len(rows)} timed")
    if len(rows) < 4:
        print("too few to fit anything")
        return 1
    _constants(rows, result["constants"], target)
    head = "  n   rank: model  static   in order          regret             measured / model, / static"
    print(f"\n{'tiles, warps and stages of a program':44s} {head}")
    for name, programs in tiles(rows).items():
        _judged(name, programs)
        for program, of in programs.items():
            _judged(f"  {program}", {program: of})
    print(f"\n{'different programs':44s}   n   rank: model  static   measured / model  / static")
    rest = [r for r in rows if not r["kind"].startswith("tiles")]
    for name in dict.fromkeys(map(family, rest)):
        of = [r for r in rest if family(r) == name]
        ranks = [_rank(of, "modelled_us"), _rank([r for r in of if r["whole_us"]], "whole_us")]
        print(f"{name:44s} {len(of):3d} {ranks[0]:13s} {ranks[1]:7s} {_ratio(of, 'modelled_us'):18s} {_ratio(of, 'whole_us'):9s}")
    _peers(rows)
    return 0


def _judged(name: str, programs: dict[str, list[Row]]) -> None:
    """A line of a family or a program, of its kernels with a static time."""
    known = {p: [r for r in of if r["whole_us"]] for p, of in programs.items()}
    if not any(known.values()):
        return
    model, static = (judged({p: of for p, of in known.items() if of}, key, "us") for key in ("modelled_us", "whole_us"))
    pairs = [f"{model[i]:8.2f} {static[i]:7.2f}" for i in (1, 3, 4, 5)]
    print(f"{name:44s} {model[0]:3d}   {'   '.join(pairs)}")


def _rank(rows: Sequence[Row], key: str) -> str:
    return f"{spearman([r[key] for r in rows], [r['us'] for r in rows]):13.2f}" if len(rows) > 2 else f"{'-':>13s}"


def _ratio(rows: Sequence[Row], key: str) -> str:
    found = [r["us"] / r[key] for r in rows if r[key]]
    return f"{statistics.median(found):9.2f}" if found else "-"


def predicted(row: Row, constants: Constants) -> float:
    """The static time of a case with these shares of bandwidth and clock, and this time of a launch."""
    bandwidth, clock, launch = constants
    floors = row["floors"]
    at = {unit: us / (bandwidth if unit == MEMORY else clock) for unit, us in floors.items()}
    first, then = max(floors.values()), max(at.values())
    return launch * row["launches"] + row["static_us"] * then / first


def _constants(rows: Sequence[Row], measured: Row, target: Row) -> None:
    print("measured by themselves:", ", ".join(f"{k} {statistics.median(v):.4g}" for k, v in measured.items()) or "nothing")
    known = [r for r in rows if r["static_us"]]
    if len(known) < 4:
        print("too few static times to fit constants")
        return
    found = fitted(known[::2])
    before = (1.0, 1.0, target["launch_us"])
    bandwidth, clock = f"{found[0]:.2f} of {target['dram_gb_s']:.0f} GB/s", f"{found[1]:.2f} of {target['clock_ghz']} GHz"
    print(f"fitted to every other kernel: bandwidth {bandwidth}, clock {clock}, launch {found[2]} us")
    errors = [math.expm1(statistics.median(_errors(known[1::2], constants))) for constants in (before, found)]
    print(f"median error of static times on the others: {errors[0]:.0%} before, {errors[1]:.0%} after")


def fitted(rows: Sequence[Row]) -> Constants:
    """The constants by which the errors, as factors, are least in the mean."""
    return min(itertools.product(SHARES, SHARES, LAUNCHES), key=lambda c: statistics.fmean(_errors(rows, c)))


def _errors(rows: Sequence[Row], constants: Constants) -> list[float]:
    return [abs(math.log(r["us"] / predicted(r, constants))) for r in rows]


def _peers(rows: Sequence[Row]) -> None:
    print("\nours against the best of the others, geometric mean (above 1: ours is faster)")
    for kind in dict.fromkeys(r["kind"] for r in rows if not r["alone"]):
        found = [best[0] / r["us"] for r in rows if r["kind"] == kind and (best := best_other(r))]
        if found:
            print(f"{kind:22s} {len(found):3d}   {geomean(found):.2f}")
