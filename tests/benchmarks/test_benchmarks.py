"""The benchmark runs without a GPU and prints the modelled side; tables come from data."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RESULT = {
    "environment": {
        "date": "2026-01-02T00:00:00+00:00", "device": "Some GPU", "torch": "2.13.0", "triton": "3.7.1", "python": "3.11.7",
        "cores": 2, "cpu": "Some CPU", "load": 0.5, "commit": "abcdef0",
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
            "measured": {
                "eqfuse": {"median_us": 10.0, "p10_us": 9.5, "p90_us": 11.25},
                "eager": {"median_us": 40.0, "p10_us": 39.0, "p90_us": 41.0},
                "torch.compile": {"failed": "RuntimeError: no"},
            },
            "measured_over_modelled": 2.0,
        },
    ],
}  # fmt: skip


def test_tables_from_data(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(RESULT))
    text = load("tables").section(path)
    assert "| rows | float16[8, 64] | 2 | 2 | 3.00 | 1.50 | 3.0 | 5.0 | 12.3 | 0.12 |" in text
    assert "| rows | 10.0 (9.5..11.2) | 40.0 (39.0..41.0) | - | - | 2.00 |" in text
    assert "Some GPU" in text
    assert "Not planned: other (PlanError: no kernel)" in text


@pytest.mark.slow
def test_runs_without_a_gpu(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "rmsnorm", "matmul", "--target", "h200", "--model-only"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert "torch 2" in lines[0]
    assert "load " in lines[0]
    rows = {line.split()[0]: line.split() for line in lines[2:]}
    assert set(rows) == {"rmsnorm", "matmul"}
    assert float(rows["rmsnorm"][4]) >= 1.0  # bytes over compulsory


def test_wrong_name_is_refused(tmp_path):
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "no such program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "attention" in done.stderr
