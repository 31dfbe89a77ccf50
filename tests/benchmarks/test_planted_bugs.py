"""The table of planted faults, and what it is made from.  The libraries are not here; the substitutions in their text are made by hand."""

import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import planted_bugs

    yield planted_bugs
    for name in ("planted_bugs", "tables"):
        sys.modules.pop(name, None)


def test_every_kernel_has_two_faults_and_usual_arguments(planted):
    assert len(planted.FAULTS) >= 20 and planted.FAULTS.keys() == planted.TYPICAL.keys()
    for key, faults in planted.FAULTS.items():
        assert len(faults) == 2 and faults[0].pattern != faults[1].pattern, key
        assert all(isinstance(a, torch.Tensor) for a in planted._typical(key[1], key[0]))


def test_a_fault_is_planted_in_a_copy(planted, tmp_path):
    (tmp_path / "attorch").mkdir()
    source = tmp_path / "attorch" / "act_kernels.py"
    source.write_text("def silu(x):\n    return (1 / (1 + tl.exp(-input)))\n")
    fault = planted.FAULTS["attorch", "SiLU"][1]
    with planted.copy_of(tmp_path, "attorch") as copy:
        planted.plant(copy / "attorch" / fault.file, fault)
        assert fault.replacement in (copy / "attorch" / fault.file).read_text()
        with pytest.raises(AssertionError, match="has no"):
            planted.plant(copy / "attorch" / fault.file, fault)
    assert "tl.exp(-input)" in source.read_text() and not copy.exists()


def test_the_table(planted):
    import tables

    row = {"library": "a", "function": "f", "1e-4": False, "1e-2": False}
    rows = [row | {"fault": "as it is", "outcome": "passed"}, row | {"fault": "off by one", "outcome": "found", "1e-4": True}]
    rows += [
        row | {"fault": "a loop", "outcome": "found by what the warning says"},
        row | {"fault": "none", "outcome": "passed", "why": "it is none"},
    ]
    environment = {"date": "2026-01-02", "cores": 2, "cpu": "x", "load": 1}
    text = tables.planted({"planted": {"a": "0123456789"}, "environment": environment, "rows": rows})
    assert "2 of 3 faults in 1 kernels found, 1 of them by what a warning says; by a plain comparison at 1e-4 1, at 1e-2 0." in text
    assert "| a | f | off by one | found | found | - |" in text and "Not found: a f, none (it is none)." in text
    rows[0]["outcome"] = "found"
    assert "this says nothing" in tables.planted({"planted": {}, "environment": environment, "rows": rows})
