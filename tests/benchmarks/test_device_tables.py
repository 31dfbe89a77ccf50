"""What a device ran is kept as data without what only the run needed, and tables are made of it."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture(scope="module")
def package():
    """The modules of benchmarks/device and the tables, which are no part of the installed package."""
    sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
    try:
        import device_tables

        from benchmarks.device import fit, keep, kept

        yield {"fit": fit, "keep": keep, "kept": kept, "tables": device_tables}
    finally:
        del sys.path[:2]


def newest():
    return max(RESULTS.glob("*-device.json"))


WRITTEN = {"target": "h100", "arch": "sm_90", "commit": "abcdef0", "torch": "2.13.0", "triton": "3.7.1", "date": "2026-01-02 00:00:00"}


def case(name, kind="corpus", **more):
    files = {"bench": {"file": "kernels/one.py", "arguments": []}}
    return {
        "name": name, "kind": kind, "source": "programs", "program": "one", "alone": False, "files": files, "flops": 2e9, "launches": 2,
        "modelled_us": 10.0, "static_us": 4.0, "floors": {"issue": 2.0, "shared": 3.0, "device memory": 1.0}, "bytes": 64,
    } | more  # fmt: skip


def folder(path, commit, cases, rows):
    path.mkdir()
    written = WRITTEN | {"commit": commit}
    (path / "manifest.json").write_text(json.dumps({"written": written, "cases": cases, "failed": {}}))
    environment = {"date": "2026-01-03T00:00:00+00:00", "device": "Some GPU", "torch": "2.11.0"}
    rows = {"device": {"environment": environment, "constants": {"copy_gb_s": 2400.04, "clock_ghz": None}}} | rows
    (path / "results.json").write_text(json.dumps({"manifest": written, "rows": rows}))
    return path


def test_folders_are_kept_as_one_file(package, tmp_path, monkeypatch, capsys):
    keep, kept = package["keep"], package["kept"]
    good = {"ours": 1.23456e-4, "eager": 2e-4, "lost": 0, "ok": True}
    times = {"ours": {"us": 20.0, "p10": 19.0, "p90": 21.0, "n": 40, "how": "graph"}, "eager": {"failed": "Error: all. At /some/where"}}
    rows = {
        "corpus one": {"check": {"bench": [good]}, "time": times, "warm": True, "peers": {"flex": {"us": 15.0}, "sdpa math": {"us": 30.0}}}
    }
    first = folder(tmp_path / "first", "abcdef0", [case("corpus one")], rows)
    random = case("random 1 tiles", "random", alone=True, modelled_us=0.0, static_us=None, floors={})
    wrong = {"random 1 tiles": {"check": {"small": [good | {"ok": False, "lost": 1}]}}}
    second = folder(tmp_path / "second", "abcdef1", [random, case("corpus two")], wrong)
    (tmp_path / "more.json").write_text('{"sum gb/s": 3000.123456}')
    monkeypatch.setattr(keep, "RESULTS", tmp_path)
    assert keep.keep([first, second], [tmp_path / "more.json"]) == 0
    path = tmp_path / "2026-01-03-h100-device.json"
    assert "3 cases" in capsys.readouterr().out
    assert "/some/where" not in path.read_text(), "no paths of a machine"
    found = json.loads(path.read_text())
    one, two, three = found["rows"]
    assert [w["commit"] for w in found["written"]] == ["abcdef0", "abcdef1"]
    assert found["constants"] == {"copy_gb_s": [2400.0, 2400.0]} and found["experiments"] == {"sum gb/s": 3000.1}
    assert one["floors"] == {"shared": 3.0, "device memory": 1.0}, "what a static time is made of"
    assert "modelled_us" not in two and two["check"]["small"][0]["lost"] == 1
    assert kept.right(one) and not kept.right(two) and not kept.right(three), "what was not checked is not right"
    (timed,) = kept.timed(found)
    assert (timed["us"], timed["whole_us"]) == (20.0, 4.0 + 2 * found["target"]["launch_us"])
    assert kept.best_other(timed) == (15.0, "flex") and kept.time_of(timed, kept.SDPA) == 30.0
    assert keep.read(path) == found
    assert {k: v for k, v in found.items() if k != "experiments"} == keep.merged([first, second])
    other = folder(tmp_path / "other", "abcdef2", [], {"device": {"environment": {"device": "Another GPU"}}})
    with pytest.raises(AssertionError, match="device"):
        keep.merged([first, other])


def test_committed_data_of_a_device(package, capsys):
    """Nothing wrong was timed, what was timed has a prediction, and what the text says of losses is all of them."""
    kept, tables = package["kept"], package["tables"]
    result = json.loads(newest().read_text())
    rows = kept.timed(result)
    assert len(rows) > 200 and all(kept.right(r) and r["modelled_us"] > 0 for r in rows)
    assert {r["name"] for r in result["rows"] if not r["times"] and not r["alone"]} == {
        r["name"] for r in result["rows"] if not kept.right(r) and not r["alone"]
    }
    text = tables.device(result, newest())
    lost = [r for r in rows if (best := kept.best_other(r)) and best[0] < r["us"]]
    assert tables.losses(rows).count("\n") == len(lost) + 1
    for r in result["rows"]:
        assert kept.right(r) or f"{r['name']} (" in text
    assert package["fit"].fit(newest()) == 0
    out = capsys.readouterr().out
    assert f"{len(rows)} timed" in out and "fitted to every other kernel" in out
    for name in kept.tiles(rows):
        assert f"\n{name} " in out and f"\n| {name} | " in text
