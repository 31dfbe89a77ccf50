"""The benchmarks run without a GPU; tables come from data, and the committed data says that nothing wrong got through."""

import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from eqfuse.rewrites import registry
from eqfuse.rewrites.library import FAMILIES
from eqfuse.testing.drawn_pairs import SEEDS
from eqfuse.testing.models import MODELS
from eqfuse.testing.pairs import PAIRS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "benchmarks"))  # its scripts import each other
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    return module


def run(*command, cwd):
    return subprocess.run([sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)


RESULT = {
    "environment": {
        "date": "2026-01-02T00:00:00+00:00", "device": "Some GPU", "torch": "2.13.0", "triton": "3.7.1", "python": "3.11.7",
        "cores": 2, "cpu": "Some CPU", "load": 0.5, "commit": "abcdef0", "first_call_cpu_s": 2.5, "first_call_torch_cpu_s": 1.5,
    },
    "target": "h200",
    "failed": {"other": "PlanError: no kernel\n  try: less"},
    "rows": [
        {
            "program": "rows", "shapes": ["float16[8, 64]"], "optimize_cpu_s": 0.1234, "saturation": {"cpu_ms": 12.34},
            "plan": {
                "kernels": [{"passes": {"j": 2}}, {"passes": {}}], "dram_bytes": 3_000_000, "compulsory_bytes": 2_000_000,
                "baseline_bytes": 9_000_000, "estimated_us": 5.0,
            },
        },
    ],
}  # fmt: skip


def test_tables_from_data(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(RESULT))
    text = load("tables").section(path)
    assert "| rows | float16[8, 64] | 2 | 2 | 3.00 | 1.50 | 3.0 | 5.0 | 12.3 | 0.12 |" in text
    assert "no GPU, modelled for h200" in text
    assert "The first `optimize` of a process took 2.5 s of CPU time, 1.5 s of it the import of torch's export machinery" in text
    assert "Not planned: other (PlanError: no kernel)" in text


LAYER = {
    "model": "one", "layers": 2, "terms": 90, "kernels": 18, "distinct_kernels": 9, "regions": 14, "distinct_regions": 7,
    "dram_bytes": 3_000_000, "compulsory_bytes": 2_000_000, "estimated_us": 5.0, "baseline_us": 10.0, "bound_us": 4.0, "scores_stored": 0,
    "optimize_cpu_s": 3.0, "trace_cpu_s": 0.5, "export_cpu_s": 0.25, "decompositions_cpu_s": 0.5, "peak_bytes": 12_000_000,
    "stopped": "exhausted", "again": {"optimize_cpu_s": 0.75}, "torch": {"compile_cpu_s": 1.5, "compiler_cpu_s": 6.0},
}  # fmt: skip


def test_table_of_layers(tmp_path):
    path = tmp_path / "2026-01-02-layers.json"
    failed = {"model": "three", "layers": 1, "failed": "ours: exit status 1"}
    slow = LAYER | {"model": "two", "scores_stored": 1, "stopped": "time", "torch": {"failed": "theirs: exit status 1"}}
    result = {"environment": RESULT["environment"], "target": "h200", "time_budget_s": None, "layers": [LAYER, failed], "stacks": [slow]}
    path.write_text(json.dumps(result))
    text = load("tables").section(path)
    assert "| one | 2 | 18 (9) | 14 (7) | 3.0 | 1.50 | 5.0 | 10.0 | 2.00 | 4.0 | 1.25 |" in text
    assert "| one | 2 | 90 | 3.00 | 0.50 | 2.50 | 12 | 0.75 | 0.25 | 0.50 | 1.50 | 6.00 |" in text
    assert "| two | 2 | 90 | 3.00 | 0.50 | 2.50 | 12 | 0.75 | 0.25 | 0.50 | - | - |" in text
    assert "A matrix of scores is stored in: two x2." in text
    assert "The search ended by its budget in: two x2." in text
    assert "Not planned: three x1 (ours: exit status 1)." in text


PLANNED = {"program": "one", "cpu_s": 0.5, "work": 900.5, "us": 6.0, "kernels": 2, "stopped": ["time"], "saturation": ["saturated"]}


def test_tables_of_planning(tmp_path):
    path = tmp_path / "2026-01-02-latency.json"
    first = {"program": "first", "cpu_s": 1.0, "to_reach_s": 0.9}
    bars = [PLANNED | {"to_reach_s": 0.5, "to_reach_us": 5.9}, PLANNED | {"to_reach_s": 0.5, "to_reach_us": None}, first]
    path.write_text(json.dumps({"environment": RESULT["environment"], "target": "h200", "rows": bars}))
    text = load("tables").section(path)
    assert "1 of 3 are reached" in text
    assert "| one | 0.50 | 0.5; 5.9 us | no | 900 | 6.0 | 2 |" in text
    assert "| one | 0.50 | 0.5 | yes | 900 | 6.0 | 2 |" in text
    assert "| first | 1.00 | 0.9 | no | - | - | - |" in text
    path = tmp_path / "2026-01-02-budget.json"
    row = PLANNED | {"budget_s": 0.1, "allowed": 400.0, "op_by_op_us": 5.5}
    path.write_text(json.dumps({"environment": RESULT["environment"], "target": "h200", "rows": [row]}))
    text = load("tables").section(path)
    assert "1 of 1 plans took more than 1.2 times the work allowed, 1 are dearer by 5 %" in text
    path = tmp_path / "2026-01-02-calls.json"
    row = {"program": "one", "us": {"eager": 2.0, "saved": 5.0}, "ratios": {"saved / eager": 2.5}}
    path.write_text(json.dumps({"environment": RESULT["environment"], "target": "cpu", "rows": [row]}))
    assert "| one | 2.0 | 5.0 | 2.50 |" in load("tables").section(path)
    assert "| one | 0.1 | 400 | 900 | 0.50 | 6.0 | 2 | 5.5 | saturated | time |" in text


def test_work_of_a_layer():
    """Two operations for each multiplication of the products, and of those of scores what a causal mask leaves."""
    layers, model = load("layers"), MODELS["gpt2"]
    s = model.sizes["bench"][0]
    products = 2 * s.batch * s.tokens * s.hidden * (4 * s.hidden + 2 * s.ff)
    seen = s.tokens * (s.tokens + 1) / 2
    assert layers.work(model, 3) == 3 * (products + 2 * 2 * s.batch * s.hidden * seen)


def test_layers_refuses_what_is_no_model(tmp_path):
    assert run(ROOT / "benchmarks" / "layers.py", "no such model", cwd=tmp_path).returncode == 2


def test_runs_without_a_gpu(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "rmsnorm", "matmul", "--target", "h200"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert "torch 2" in lines[0]
    assert "load " in lines[0]
    assert float(re.search(r"first_call_cpu_s ([\d.]+)", lines[0])[1]) > 0
    rows = {line.split()[0]: line.split() for line in lines[2:]}
    assert set(rows) == {"rmsnorm", "matmul"}
    assert float(rows["rmsnorm"][4]) >= 1.0  # bytes over compulsory


def test_wrong_name_is_refused(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "no such program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "attention" in done.stderr


# ---- what stands behind the rules ------------------------------------------------------------------------------------------------
def committed():
    """The newest committed result of trust.py and the log of random programs that it names."""
    result = json.loads(max(RESULTS.glob("*-trust.json")).read_text())
    return result, json.loads((RESULTS / result["fuzz_log"]).read_text())


def test_committed_data_of_the_rules():
    """Nothing here asks the clock: no rule refuted, every seeded and planted fault caught, nothing right blamed."""
    result, log = committed()
    rules, seeded, kernel = result["registry"], result["seeded_faults"], result["kernel_faults"]
    assert rules["failures"] == {}
    assert rules["examples_per_rule"] == 200
    assert rules["claiming"] > 100
    assert rules["rules"] == sum(f["rules"] for f in rules["families"].values())
    assert rules["examples"] == sum(f["examples"] for f in rules["families"].values()) > 100 * rules["claiming"]
    assert set(rules["families"]) == set(FAMILIES)
    assert seeded["missed"] == []
    assert set(seeded["families"]) == set(FAMILIES) - {"fusion"}, "fusion states nothing of values"
    assert all(f["caught"] == f["faults"] >= 5 for f in seeded["families"].values())
    assert seeded["caught"] == seeded["faults"] == sum(f["faults"] for f in seeded["families"].values())
    assert kernel["caught"] == kernel["faults"] >= 15
    assert kernel["passed"] == kernel["correct"] >= 5
    assert load("trust").faultless(result, log)


def test_committed_pairs():
    """Every pair of the package is there, half of them or more are drawn, and only named ones are planned slower than their best form."""
    rows = json.loads(max(RESULTS.glob("*-pairs.json")).read_text())["rows"]
    assert [r["pair"] for r in rows] == [*PAIRS, *(f"drawn {seed}" for seed in SEEDS)]
    assert len(rows) >= 60
    assert 2 * sum(r["kind"] == "drawn" for r in rows) >= len(rows)
    for r in rows:
        assert r["ratio"] <= (r["limit"] if r["why"] else 1.05), r["pair"]
        assert r["planned"] <= r["enumerated"] if r["kind"] == "drawn" else r["best_us"] > 0


def test_committed_log_of_random_programs():
    _, log = committed()
    assert log["findings"] == []
    assert log["passed"]["audit"] >= 2000
    assert log["passed"]["audit"] + sum(log["filtered"].values()) == log["programs"] == log["seeds"][1] - log["seeds"][0]
    assert log["audit"]["nodes"] > 10 * log["programs"]
    assert log["ops_not_drawn"] == []


def test_committed_table_is_what_the_data_says(tmp_path):
    done = run(ROOT / "benchmarks" / "tables.py", "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result, log = committed()
    text = (ROOT / "benchmarks" / "README.md").read_text()
    shown = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE))
    seeded = result["seeded_faults"]
    assert shown["seeded faults in rules caught"].startswith(f"{seeded['faults']} of {seeded['faults']},")
    assert shown["random programs audited"].startswith(f"{log['passed']['audit']} of {log['programs']} ")
    assert shown["findings in random programs"] == "0"


def test_architectures_compute_what_eager_code_does():
    """In the committed data: of those that finished, and as far as the others came."""
    for path in RESULTS.glob("*-architectures.json"):
        rows = json.loads(path.read_text())["rows"]
        assert rows
        for r in rows:
            checks = [c for n in r["eqfuse"]["lengths"].values() for c in n["checks"].values()]
            assert checks, r["architecture"]
            assert all(c["right"] for c in checks + ([r["eqfuse"]["weights"]] if "why" not in r["eqfuse"] else [])), r["architecture"]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is not None, reason="transformers is installed")
def test_architectures_say_what_is_missing(tmp_path):
    done = run(ROOT / "benchmarks" / "architectures.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "transformers is not installed" in done.stderr and "pip install transformers" in done.stderr


def test_a_log_of_random_programs_is_no_table_of_its_own(tmp_path):
    (tmp_path / "fuzz-2026-01-02.json").write_text("{}")
    (tmp_path / "2026-01-02-some-gpu.json").write_text(json.dumps(RESULT))
    text = load("tables").tables(tmp_path)
    assert text.count("### ") == 1
    assert load("trust").fuzz_log(tmp_path).name == "fuzz-2026-01-02.json"


def test_checks_and_faults_are_counted():
    """A tiny subset: two true rules, one that claims nothing, a false one; faults that are caught and one that is not."""
    trust, ticks = load("trust"), []
    mutants, by_check = trust.seeded_faults()
    false = next(m for m in mutants if m.family == "strength")
    rules = [r for r in registry.rules() if r.name in ("want_terms", "sum_divided_by_extent")]
    rules += [registry.rules("strength")[0], false.rule]
    seen = trust.checked(rules, examples=20, tick=ticks.append)
    assert ticks == [r.name for r in rules]
    assert (seen["rules"], seen["claiming"], list(seen["failures"])) == (4, 3, [false.name])
    assert seen["examples"] == sum(f["examples"] for f in seen["families"].values()) > 0
    assert seen["families"]["strength"]["failures"] == 1
    true = replace(false, rule=registry.rules("strength")[0])  # an alleged fault that is none
    found = trust.refuted([false, true], by_check)
    assert (found["faults"], found["caught"], found["missed"]) == (2, 1, [true.name])
    assert found["families"] == {"strength": {"faults": 2, "caught": 1}}


def test_kernels_are_counted(monkeypatch):
    """A correct kernel given out as faulty is a fault missed, a faulty one given out as correct is blamed, and a wrong reason does not count."""
    trust = load("trust")
    example = trust.kernels()
    f, _, args, options = example.CORRECT["softmax, a row in one tile"]
    fault = example.FAULTY["missing_mask"]
    monkeypatch.setitem(example.FAULTY, "sound", (f, args, options, *fault[3:]))
    monkeypatch.setitem(example.FAULTY, "missing_other", (*example.FAULTY["missing_other"][:-1], "another reason"))
    monkeypatch.setattr(example.planted, "sound", example.softmax.one_tile, raising=False)
    monkeypatch.setitem(example.CORRECT, "faulty", (fault[0], example.planted.missing_mask, fault[1], fault[2]))
    found = trust.compared(example, ["missing_mask", "missing_other", "sound"], ["softmax, a row in one tile", "faulty"])
    assert (found["faults"], found["caught"], list(found["missed"])) == (3, 1, ["missing_other", "sound"])
    assert (found["correct"], found["passed"], list(found["blamed"])) == (2, 1, ["faulty"])


def test_one_fault_missed_is_not_faultless():
    trust = load("trust")
    result, log = committed()
    assert not trust.faultless(result, log | {"findings": [{}]})
    assert not trust.faultless(result | {"seeded_faults": {**result["seeded_faults"], "missed": ["one"]}}, log)
    assert not trust.faultless(result | {"kernel_faults": {**result["kernel_faults"], "blamed": {"one": ""}}}, log)
    assert not trust.faultless(result | {"registry": {**result["registry"], "failures": {"one": ""}}}, log)


def test_trust_of_one_family(tmp_path):
    done = run(ROOT / "benchmarks" / "trust.py", "strength", "--examples", "20", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules refuted" in done.stdout
    assert "planted faults" not in done.stdout
    count = sum(1 for m in load("trust").seeded_faults()[0] if m.family == "strength")
    assert re.search(rf"seeded faults in rules caught +{count} of {count}, ", done.stdout)


@pytest.mark.parametrize("arguments", [["no such family"], ["strength", "--save"], ["--examples", "20", "--save"]])
def test_trust_refuses_what_makes_no_sense(arguments, tmp_path):
    assert run(ROOT / "benchmarks" / "trust.py", *arguments, cwd=tmp_path).returncode == 2


def test_layouts_agree_with_enumeration_in_the_committed_data():
    result = json.loads(max(RESULTS.glob("*-layouts.json")).read_text())
    found = result["summary"]
    assert found["draws"] >= 100_000 and not found["disagreements"] and not [r for r in result["properties"] if r["disagreements"]]
    assert found["mutants"] == found["mutants_caught"] == len(result["mutants"]) >= 20


def test_rules_on_layouts_agree_with_the_direct_algorithms_in_the_committed_data():
    rows = {r["property"]: r for r in json.loads(max(RESULTS.glob("*-layout-rules.json")).read_text())["properties"]}
    assert all(r["draws"] >= 1000 and not r["disagreements"] for r in rows.values())
    assert not rows["group"]["less"]
    assert max(rows[name]["of_the_bound"] for name in ("canonicalize", "canonicalize copies")) <= 1


def test_the_committed_placements_are_the_best_that_are_listed():
    """No condition makes a choice cheaper, and tensor parallelism is found where only that weights are spread is said."""
    rows = json.loads(max(RESULTS.glob("*-placements.json")).read_text())["rows"]
    assert {r["devices"] for r in rows} == {2, 4, 8} and all(c["optimal"] for r in rows for c in r["choices"] if "Llama" in r["case"])
    for r in rows:
        anywhere, everywhere = r["choices"]
        assert anywhere["us"] <= everywhere["us"] + 0.1
        assert all(everywhere["us"] <= a["us"] + 0.1 for a in r["alternatives"])
    found = {(r["case"].rpartition("weights ")[2], r["devices"]): r["choices"][1] for r in rows}
    for n in (2, 4, 8):
        assert found["wherever is best", n]["collectives"] == {"all-reduce": 2}
        assert found["wherever is best", n]["bytes"] == found["columns, then rows", n]["bytes"] == 4 * 2048 * 4096 * 2 * (n - 1) // n
