"""What a run on a device found, without what only the run needed: one file of benchmarks/results for all folders of a day."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eqfuse.extract.targets import load_target

RESULTS = Path(__file__).parents[1] / "results"
MEMORY = "device memory"
Row = dict[str, Any]


def keep(folders: Sequence[Path], also: Sequence[Path] = ()) -> int:
    """Write the file; ``also``: files of other numbers by name, which were measured the same day."""
    result = merged(folders)
    if "date" not in result["environment"]:
        print("no folder says which device it was run on")
        return 1
    result["experiments"] = {name: _digits(x) for path in also for name, x in json.loads(path.read_text()).items()}
    path = RESULTS / f"{result['environment']['date'][:10]}-{result['target']['name']}-device.json"
    rows = ",\n  ".join(map(json.dumps, result["rows"]))
    path.write_text(json.dumps(result | {"rows": []}, indent=1).replace('"rows": []', f'"rows": [\n  {rows}\n ]') + "\n")
    print(f"{path.name}: {len(result['rows'])} cases")
    return 0


def read(path: Path) -> Row:
    """What was kept, or of a folder's results what would be."""
    found = json.loads(path.read_text())
    return found if isinstance(found["rows"], list) else merged([path.parent])


def merged(folders: Sequence[Path]) -> Row:
    """Manifests and results of some folders together, which one device ran for one target (as its file is now: keep before it changes)."""
    environment: Row = {}
    constants: dict[str, list[float]] = {}
    written, rows, target = [], [], ""
    families = _families()
    for folder in folders:
        manifest, results = (json.loads((folder / f"{name}.json").read_text()) for name in ("manifest", "results"))
        assert results["manifest"] == manifest["written"], f"{folder}: results of other kernels"
        where = manifest["written"]
        assert target in ("", where["target"]), f"{folder}: kernels for {where['target']}, not for {target}"
        target = where["target"]
        device = results["rows"].get("device", {})
        environment = _same(folder, environment, device.get("environment", {}))
        for name, x in (device.get("constants") or {}).items():
            if isinstance(x, int | float):
                constants.setdefault(name, []).append(_digits(x))
        written.append({key: where[key] for key in ("commit", "triton", "torch", "date")} | {"cases": len(manifest["cases"])})
        rows += [_row(c, where["commit"], results["rows"].get(c["name"], {}), families) for c in manifest["cases"]]
    t = load_target(target)
    used = {"name": target, "launch_us": t.launch_us, "dram_gb_s": t.dram_gb_s, "clock_ghz": t.clock_ghz}
    return {"environment": environment, "target": used, "written": written, "constants": constants, "rows": rows}


def _same(folder: Path, before: Row, now: Row) -> Row:
    for key in before.keys() & now.keys() - {"date"}:
        assert before[key] == now[key], f"{folder}: {key} {now[key]}, not {before[key]}"
    return now | before


def _families() -> dict[str, str]:
    """The family of each program of which tiles are sampled."""
    newest = max(RESULTS.glob("*-static-ranking.json"), default=None)
    return {r["program"]: r["family"] for r in json.loads(newest.read_text())["rows"]} if newest else {}


def _row(case: Row, commit: str, found: Row, families: dict[str, str]) -> Row:
    floors = case["floors"]
    kept = {key: case[key] for key in ("name", "kind", "program", "alone")} | {"commit": commit}
    if case["kind"].startswith("tiles"):
        kept["family"] = families[case["program"]]
    if case["modelled_us"]:  # else nothing is said of its time
        kept |= {key: _digits(case[key]) for key in ("launches", "modelled_us", "static_us", "flops", "bytes")}
        kept["floors"] = {unit: _digits(us) for unit, us in floors.items() if us == _longest(floors, unit == MEMORY)}
    checks = found.get("check", {})
    times = {**found.get("time", {}), **found.get("peers", {})}
    kept["check"] = {size: [_output(o) for o in r] if isinstance(r, list) else r for size, r in checks.items()}
    kept["times"] = {name: _time(t) for name, t in times.items() if isinstance(t, dict)}
    return kept


def _longest(floors: Row, memory: bool) -> float:
    """Of device memory, or the longest of the other units: no time is made of the rest."""
    return max(us for unit, us in floors.items() if (unit == MEMORY) == memory)


def _output(o: Row) -> Row:
    more = {"lost": o["lost"]} if o["lost"] else {}
    return {"ours": _digits(o["ours"], 2), "eager": _digits(o["eager"], 2), "ok": o["ok"]} | more


def _time(t: Row) -> Row:
    if "failed" in t:
        return {"failed": t["failed"].split(". ")[0]}
    return {key: _digits(x) if isinstance(x, float) else x for key, x in t.items()}


def _digits(x: Any, digits: int = 5) -> Any:
    return float(f"{x:.{digits}g}") if isinstance(x, float) else x
