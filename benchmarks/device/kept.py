"""What is asked of the data kept of a device.  The tables are made with it, too, so it needs the standard library alone."""

import json
import math
import statistics

SDPA = "sdpa "  # a backend of torch's own operation
FAMILIES = {"corpus": "corpus", "kinds": "kinds of attention"}


def family(row):
    """A row's family: that of its program for tiles; operators are of prefill or of decode."""
    return row.get("family") or FAMILIES.get(row["kind"]) or f"operators, {row['kind'].split('_')[-1]}"


def right(row):
    """Whether every check that was made found every output right."""
    return bool(row["check"]) and all(isinstance(found, list) and all(o["ok"] for o in found) for found in row["check"].values())


def timed(result):
    """The rows whose kernels were timed, with ``us``, and with launches added to the static time (``whole_us``), as the model has them."""
    launch = result["target"]["launch_us"]
    return [
        r | {"us": us, "whole_us": None if r["static_us"] is None else r["static_us"] + launch * r["launches"]}
        for r in result["rows"]
        if "modelled_us" in r and (us := time_of(r, "ours"))
    ]


def priced_now(rows, results, target):
    """The rows of tiles with what the model says of them now (``now_us``), by the file of their kernels, which has their prices."""
    count, found = {}, {}
    for r in json.loads(max(results.glob("*-static-ranking.json")).read_text())["rows"]:
        if r["target"] == target["name"] and "static_us" in r:
            count[r["program"]] = count.get(r["program"], 0) + 1
            found[f"tiles {r['program']} {count[r['program']]}"] = r["model_us"] + target["launch_us"]
    return [r | {"now_us": found.get(r["name"])} for r in rows]


def time_of(row, name):
    """Microseconds of a contender; the best of those whose names begin so."""
    times = [t["us"] for peer, t in row["times"].items() if "us" in t and (peer == name or (name == SDPA and peer.startswith(SDPA)))]
    return min(times, default=None)


def best_other(row):
    """(microseconds, name) of the fastest of the others that ran."""
    return min(((t["us"], name) for name, t in row["times"].items() if name != "ours" and "us" in t), default=None)


def tiles(rows):
    """Family -> program -> its kernels, of those that differ in tiles, warps and stages alone."""
    found = {}
    for r in rows:
        if r["kind"].startswith("tiles"):
            found.setdefault(family(r), {}).setdefault(r["program"], []).append(r)
    return found


def geomean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))
