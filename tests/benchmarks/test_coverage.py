"""Programs of public repositories: what is left over is found wholly, definitions come without their files, tables from data."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


FILE = """
import nowhere
from nowhere.else_ import wonder
from test.help import half

TABLE = wonder()

@wonder
def scaled(x, by=2.0):
    return half(inner(x) * by)

def inner(x):
    return F.relu(x)

def unused(x):
    return missing(x)
"""


def test_definitions_come_without_what_their_file_imports_and_does(tmp_path):
    case = load("public.case")
    path = tmp_path / "test" / "some" / "test_scaled.py"
    path.parent.mkdir(parents=True)
    path.write_text(FILE)
    (tmp_path / "test" / "help.py").write_text("import nowhere\ndef half(x):\n    return x / 2\n")
    assert case.definitions(path, "scaled")(torch.tensor([-1.0, 3.0])).tolist() == [0.0, 3.0]
    with pytest.raises(case.Refused, match="has no other"):
        case.definitions(path, "other")


def test_a_program_that_fails_says_so_and_ends_no_other():
    coverage, case = load("coverage"), load("public.case")
    cases = [
        case.Case(lambda: (torch.relu, (torch.empty(3, 4),)), lambda: (torch.relu, (torch.randn(3, 4),))),
        case.Case(lambda: (torch.linalg.inv, (torch.empty(3, 3),))),
        case.Case(lambda: 1 / 0),
    ]
    rows = [coverage.measured("read", c, None) for c in cases]
    assert [r["status"] for r in rows] == ["read", "refused", "error"]
    assert "aten.linalg_inv_ex.default" in rows[1]["left"] and "ZeroDivisionError" in rows[2]["why"]
    wrong = coverage.error([torch.tensor([1.0, float("inf"), 2.5])], [torch.tensor([1.0, float("inf"), 2.0])])
    assert wrong == pytest.approx(0.25) and coverage.error([torch.tensor([1.0])], [torch.tensor([float("nan")])]) == float("inf")


ROWS = [
    {"set": "some", "commit": "1", "group": "level 1", "program": "a", "status": "read", "left": {}, "cpu_s": 0.5,
     "plan": {"kernels": 2, "library": 1, "us": 5.0, "baseline_us": 10.0, "bytes": 2, "baseline_bytes": 3}, "check": {"error": 1e-6, "eager": 2e-7}},
    {"set": "some", "commit": "1", "group": "level 1", "program": "b", "status": "refused", "left": {"aten.x": "no", "aten.y": "no"}, "cpu_s": 0.7},
    {"set": "some", "commit": "1", "group": "level 1", "program": "c", "status": "refused", "left": {"aten.x": "no"}, "cpu_s": 0.7},
    {"set": "some", "commit": "1", "group": "level 1", "program": "d", "status": "error", "left": {}, "why": "TraceError: data; cure"},
]  # fmt: skip


def test_table():
    environment = {
        "date": "2026-01-02T00:00:00",
        "torch": "2",
        "python": "3",
        "cores": 2,
        "cpu": "Some CPU",
        "load": 1,
        "commit": "abcdef0",
    }
    text = load("coverage_tables").coverage({"environment": environment, "target": "h200", "rows": ROWS}, None)
    assert "| some level 1 | 4 | 1 | 2 | 1 | 0.7 |" in text
    assert "| `aten.x` | 2 | 1 | some 2 |" in text and "| `aten.y` | 1 | 0 | some 1 |" in text
    assert "1 data." in text and "| some level 1 | 1 | 1 | 0 | 2 | 1 | 2.00 | 1.50 |" in text
    assert "1 programs of 1 tried" in text and "1.0e-06 (eager: 2.0e-07)" in text
