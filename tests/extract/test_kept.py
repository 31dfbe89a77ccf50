"""Plans on disk: a warm process plans the same without a saturation or a search, and believes nothing that is not as it was written."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse import work
from eqfuse.extract import kept
from eqfuse.extract.covers import extractor
from eqfuse.extract.kept import files, folder, versions
from eqfuse.extract.kept.codec import Unkept, decoded, encoded
from eqfuse.extract.targets import load_target
from eqfuse.ir import dtypes
from eqfuse.ir.build import axes, exp, program, sum_over, tensor
from eqfuse.ir.index import Axis, index
from eqfuse.planning import Request, active_rules, checked, exchanged, whole
from eqfuse.rewrites import registry
from eqfuse.rewrites.table import RULES
from eqfuse.testing.models import MODELS
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.kernel import Kernel, Node, Role

H200 = load_target("h200")


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("EQFUSE_CACHE", "1")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    for name in [r.name for r in RULES.values() if not r.builtin]:  # what another test has registered
        monkeypatch.delitem(RULES, name)
    return tmp_path / "plans"


@pytest.fixture
def unsearched(monkeypatch):
    """From here on nothing is saturated for a plan, and nothing searched."""

    def start():
        def refuse(*_, **__):
            raise AssertionError("planned again")

        for module, name in ((whole, "saturate"), (whole, "extract"), (exchanged, "saturate")):
            monkeypatch.setattr(module, name, refuse)

    return start


def plans(place):
    return sorted(p for p in place.iterdir() if p.suffix == ".plan")


def softmax(x):
    return torch.softmax(x, -1)


X = torch.empty(64, 300)


def planned(fn=softmax, args=(X,), **options):
    return eqfuse.optimize(fn, args, target="h200", **options)


def same(a, b):
    assert str(a.plan) == str(b.plan) and a.source == b.source
    assert a.plan == replace(b.plan, program=a.plan.program) or a.plan.parts
    assert [k.kernel for k in a.plan.kernels] == [k.kernel for k in b.plan.kernels]
    assert [k.tiles for k in a.plan.kernels] == [k.tiles for k in b.plan.kernels]


@pytest.mark.parametrize("name", ["row_softmax", "layernorm", "attention", "attention_decode", "cross_entropy"])
def test_a_warm_plan_is_the_cold_one(name, unsearched):
    case = PROGRAMS[name]
    cold = planned(case.fn, case.args())
    unsearched()
    same(planned(case.fn, case.args()), cold)


def test_a_layer_is_planned_without_a_search(unsearched):
    model = MODELS["llama"]
    module, args = model.module(), model.args()
    cold = planned(module, args)
    assert len(cold.planned.parts.different) > 1
    unsearched()
    same(planned(module, args), cold)


def test_a_better_order_is_found_again():
    a, b, c = (torch.empty(n, m) for n, m in ((512, 16), (16, 512), (512, 16)))
    cold = planned(lambda a, b, c: (a @ b) @ c, (a, b, c))
    assert cold.plan.rewritten
    warm = planned(lambda a, b, c: (a @ b) @ c, (a, b, c))
    same(warm, cold)
    assert "extract" not in dict(warm.planned.timings)


def test_questions_of_a_warm_plan():
    cold = planned()
    warm = planned()
    assert "cache" in dict(warm.planned.timings) and "saturate" not in dict(warm.planned.timings)
    assert str(warm.explain()) == str(cold.explain())
    assert str(warm.why("x", "out")) == str(cold.why("x", "out"))
    small = torch.empty(4, 30)
    same(warm.at(small), cold.at(small))
    same(warm.replan("a100"), cold.replan("a100"))
    assert warm.graph.classes == cold.graph.classes


def test_a_name_is_part_of_what_is_asked(place):
    planned()
    before = len(plans(place))
    other = planned(lambda scores: torch.softmax(scores, -1), name="other")
    assert len(plans(place)) > before
    assert "other" in str(other.plan) and "scores" in other.source and "softmax" not in str(other.plan)


# what is not kept -----------------------------------------------------------------------------------------------------------------------


def test_what_the_watchdog_ended_is_not_kept(place, monkeypatch):
    monkeypatch.setattr(extractor, "bitten", lambda: True)
    found = planned()
    assert found.plan.stopped == "clock"
    assert not plans(place)


@pytest.mark.parametrize("stopped", ["work", "time"])
def test_what_a_budget_ended_serves_no_larger_one(stopped):
    found = planned()
    key = replace(key_of(), seconds=1.0)
    kept.write_plan(key, replace(found.plan, stopped=stopped), False, 100.0)
    assert kept.read_plan(key, found.program).plan.stopped == stopped
    assert kept.read_plan(replace(key, seconds=2.0), found.program) is None


def test_a_plan_that_is_read_takes_from_the_budget_what_it_took_to_find():
    """Else what is planned after it would hang on what is kept."""
    found = []
    for _ in range(2):
        begun = work.now()
        planned()
        found.append(work.now() - begun)
    assert found[0] == found[1] > 0


def test_switched_off(place, monkeypatch):
    monkeypatch.setenv("EQFUSE_CACHE", "0")
    planned()
    assert not place.exists()


def key_of(**changed):
    request = checked(Request(softmax, (X,), None, "h200"))
    request = replace(request, **changed)
    return whole.key_of("plan", request, active_rules(request), request.trace().program, 10.0)


def test_the_key_hangs_on_what_a_plan_hangs_on():
    asked = [
        {}, {"target": load_target("a100")}, {"target": H200.with_level("dram", gb_s=1.0)}, {"licence": "exact"}, {"disable": ("repair",)},
        {"objective": "memory"}, {"memory_limit": 1e9}, {"node_budget": 100}, {"fusion": (("forbid", "x", "y"),)}, {"args": (torch.empty(64, 301),)},
        {"args": (X.half(),)}, {"name": "another"},
    ]  # fmt: skip
    names = [key_of(**changed).name for changed in asked]
    assert len(set(names)) == len(names)
    assert key_of().name == names[0]


@pytest.mark.parametrize("name", ["module.py", "kernels.h", "device.toml"])
def test_entries_hang_on_all_that_makes_them(name, tmp_path, monkeypatch):
    """A module, a header that every kernel in C includes, the file of a device: with another one in its place, what was kept is another
    entry; and none, where it is newer than the process that reads it."""
    path = tmp_path / "package" / "inner" / name
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    found = []
    for text in ("1", "2", "1"):
        path.write_text(text)
        os.utime(path, (0, 0))
        found.append(versions.made_by.__wrapped__(("package",), ()))
    assert found[0] == found[2] != found[1]
    os.utime(path, (versions._LOADED + 10, versions._LOADED + 10))
    assert versions.made_by.__wrapped__(("package",), ()) is None


def test_what_the_package_reads_of_its_own_is_a_source():
    """The headers of kernels and the devices that there are are among the files of the digest."""
    files_ = {
        p.relative_to(versions.ROOT)
        for s in versions.package_sources()
        if not s.endswith(".py")
        for p in versions._files(versions.ROOT / s)
    }
    assert {p.suffix for p in files_} == {".py", ".h", ".toml"}
    assert {p.name for p in files_} >= {"h200.toml", "states.py"}


def test_plans_that_rules_of_others_may_be_in_are_not_kept():
    theirs = replace(registry.rules()[0], name="theirs", builtin=False)
    p = checked(Request(softmax, (X,), None, "h200")).trace().program
    assert kept.key("plan", p, H200, (), (), 1.0) is not None
    assert kept.key("plan", p, H200, (theirs,), (), 1.0) is None
    assert kept.key("plan", p, H200, (), (theirs,), 1.0) is None


# what is not believed -------------------------------------------------------------------------------------------------------------------


def small():
    i, k = axes(i=8, k=512)
    x = tensor("x", i, k)
    return program("small", out=(sum_over(k, exp(x)), (i,)))


def truncated(path):
    path.write_bytes(path.read_bytes()[:-20])


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path):
    path.write_bytes(b"")


def of_another_format(path):
    path.write_bytes(path.read_bytes().replace(files.FORMAT, b"eqfuse-0"))


def of_another_entry(path):
    body = files.read_sealed(path, 1 << 20)
    path.write_bytes(body + files.seal("another.plan", body))


def writable_by_others(path):
    path.chmod(0o666)


def a_link(path):
    there = path.with_suffix(".there")
    path.rename(there)
    path.symlink_to(there)


def rewritten(change):
    """An entry whose digest is right, and whose data are others."""

    def spoil(path):
        data = json.loads(files.read_sealed(path, 1 << 20))
        change(data)
        folder.write(path.stem, data)

    return spoil


def cheaper(data):
    _, cost = data["kernels"][0]
    cost["Cost"][0] = {"float": (0.5).hex()}


def named_like_code(data):
    kernel, _ = data["kernels"][0]
    kernel["Kernel"][0] = "k():\n    import os\n#"


def warps_of_text(data):
    kernel, _ = data["kernels"][0]
    position = [f.name for f in Kernel.__dataclass_fields__.values()].index("warps")
    kernel["Kernel"][position] = "__import__('os')"


def nothing_known(data):
    data.clear()


def stored_elsewhere(data):
    data["plan"]["buffers"] = {"map": []}


def launched_sooner(data):
    data["plan"]["launches"][0]["Launch"][1] = {"float": (0.5).hex()}


def launched_twice(data):
    data["plan"]["launches"] *= 2


@pytest.mark.parametrize("change", [launched_sooner, launched_twice])
def test_launches_are_kept_and_checked(place, change):
    args = [torch.empty(s, device="meta", dtype=torch.bfloat16) for s in ((1, 4096), (4096, 1024), (4096, 1024))]
    cold = planned(lambda x, a, b: (x @ a, x @ b), args)
    assert [len(kernels) for kernels in cold.plan.launched] == [2]
    warm = planned(lambda x, a, b: (x @ a, x @ b), args)
    assert "cache" in dict(warm.planned.timings) and "extract" not in dict(warm.planned.timings)
    same(warm, cold)
    (entry,) = (p for p in plans(place) if b'"kernels"' in p.read_bytes())
    good = entry.read_bytes()
    rewritten(change)(entry)
    same(planned(lambda x, a, b: (x @ a, x @ b), args), cold)
    assert entry.read_bytes() == good


SPOILT = [
    truncated, flipped, empty, of_another_format, of_another_entry, writable_by_others, a_link,
    *(rewritten(c) for c in (cheaper, named_like_code, warps_of_text, nothing_known, stored_elsewhere)),
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT)
def test_what_is_not_as_it_was_written_is_ignored_and_written_again(place, spoil):
    cold = planned(small(), None)
    (entry,) = (p for p in plans(place) if b'"kernels"' in p.read_bytes())
    good = entry.read_bytes()
    spoil(entry)
    again = planned(small(), None)
    assert "extract" in dict(again.planned.timings)
    same(again, cold)
    assert entry.read_bytes() == good and not entry.is_symlink()
    assert "extract" not in dict(planned(small(), None).planned.timings)


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="giving a file away takes root")
def test_files_of_others_are_ignored(place):
    planned(small(), None)
    (entry,) = (p for p in plans(place) if b'"kernels"' in p.read_bytes())
    os.chown(entry, 12345, 12345)
    assert "extract" in dict(planned(small(), None).planned.timings)
    os.chown(place, 12345, 12345)
    assert folder.directory() is None


def test_a_folder_that_others_may_write_to_is_not_used(place):
    planned(small(), None)
    place.chmod(0o777)
    assert folder.directory() is None
    assert "extract" in dict(planned(small(), None).planned.timings)


def test_the_folder_is_private(place):
    planned(small(), None)
    assert place.stat().st_mode & 0o777 == 0o700
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in plans(place))


def test_no_folder_is_no_error(place):
    place.parent.mkdir(exist_ok=True)
    place.write_text("a file")
    planned(small(), None)
    assert kept.clear() == 0


# several processes, much of it ------------------------------------------------------------------------------------------------------------

WRITER = """
import sys
from eqfuse.extract.kept import files, folder, versions
for k in range(150):
    folder.write("shared", {"by": sys.argv[1], "k": k, "long": sys.argv[1] * 20000})
    data = folder.read("shared")
    assert data is not None and set(data["long"]) == {data["by"]}, data
"""


def test_processes_that_write_one_entry_at_a_time(place):
    running = [subprocess.Popen([sys.executable, "-c", WRITER, by], stderr=subprocess.PIPE) for by in "ab"]
    assert [(p.communicate()[1], p.returncode) for p in running] == [(b"", 0)] * 2
    assert folder.read("shared")["k"] == 149
    assert [p.name for p in place.iterdir()] == ["shared.plan"]


def test_the_entries_read_longest_ago_go(place, monkeypatch):
    monkeypatch.setattr(folder, "MOST_FILES", 3)
    monkeypatch.setattr(folder, "LOOK", 1)
    for k in range(6):
        folder.write(f"e{k}", k)
        os.utime(place / f"e{k}.plan", (k, k))
        if k == 2:
            os.utime(place / "e0.plan", (10, 10))
    assert {p.stem for p in plans(place)} == {"e0", "e4", "e5"}
    assert kept.clear() == 3 and not plans(place)


# the codec ------------------------------------------------------------------------------------------------------------------------------

A = Axis("a", 6, 1)


@pytest.mark.parametrize(
    "value",
    [0.1, math.inf, -math.inf, -0.0, 5e-324, (1, (2.0, "x")), {"k": (True, None)}, frozenset((A,)), index(A) // 2 + 1, dtypes.bfloat16,
     Node("map", ("mul",), (0, 1), frozenset((A,)), stored=dtypes.float16, cls=3), {A: Role("grid", 4)}],
)  # fmt: skip
def test_values_come_back(value):
    back = decoded(json.loads(json.dumps(encoded(value), allow_nan=False)))
    assert back == value and repr(back) == repr(value)
    assert getattr(back, "cls", None) == getattr(value, "cls", None)


def test_nan_comes_back():
    assert math.isnan(decoded(encoded(math.nan)))


@pytest.mark.parametrize("value", [object(), len, 1j, b"x", H200, [1], replace(dtypes.float16, largest=1.0)])
def test_other_values_are_not_kept(value):
    with pytest.raises(Unkept):
        encoded(value)


@pytest.mark.parametrize(
    "data",
    [{"Path": ["/"]}, {"Axis": ["a", "6", 1]}, {"Axis": ["a", True, 1]}, {"Axis": ["a", 6]}, {"Role": ["loop", 4]}, {"os.system": ["true"]},
     {"Axis": ["a", 6, 1], "Role": []}, {"dtype": "float8"}, {"float": 1}, 1.5],
)  # fmt: skip
def test_other_data_are_no_values(data):
    with pytest.raises(Unkept):
        decoded(data)
