"""benchmarks/cpu: torch's own operations compute what the functions do, a case that ends its process ends no other, tables come from data."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from eqfuse.runtime.native import compiler

ROOT = Path(__file__).resolve().parents[2]


def module(name, folder=ROOT, package="benchmarks.cpu."):
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(package + name)
    finally:
        sys.path.remove(str(folder))


CASES = module("cases").cases()
SMALLER = {
    4: 1,
    300: 23,
    512: 24,
    777: 19,
    1000: 17,
    1024: 48,
    2816: 44,
    3072: 36,
    4096: 40,
    8192: 56,
    16000: 72,
    32000: 88,
}  # masks keep 2048


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if "torch" in c.library])
def test_what_torch_has_of_its_own_is_the_same(name):
    case = CASES[name]
    shapes = tuple(
        replace(a, shape=tuple(SMALLER.get(n, n) for n in a.shape), labels=a.labels and SMALLER.get(a.labels, a.labels))
        for a in case.shapes
    )
    args = replace(case, shapes=shapes).args()
    want = case.function(*args)
    for name_of_own, own in case.library.items():
        if name_of_own != "flex_attention":  # which takes seconds to compile, and is compared in the run
            assert torch.allclose(own(*args), want, rtol=1e-4, atol=1e-5)


def test_quick_cases_are_of_every_bar_that_can_be_had_in_a_minute():
    assert set(module("cases").QUICK) <= set(CASES)


class Process:
    """Ends in the middle of the second case that it is given, if it is given as many."""

    given: ClassVar = []

    def __init__(self, command, **options):
        self.stdin, self.returncode = self, 0

    def write(self, text):
        names = json.loads(text)
        Process.given.append(names)
        self.stdout = ["a compiler says something\n"]
        for at, name in enumerate(names):
            self.stdout.append(json.dumps({"start": name}) + "\n")
            if at == 1:
                self.returncode = -11
                return
            self.stdout += [json.dumps({"part": 0.5}) + "\n", json.dumps({"row": {"case": name}}) + "\n"]

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def test_a_case_that_ends_its_process_ends_no_other(monkeypatch):
    main = module("__main__")
    monkeypatch.setattr(main.subprocess, "Popen", Process)
    names, ticks = list(CASES)[:3], []
    options = type("Options", (), {"seconds": 0.1})
    rows = list(main.child(names, 2, options, False, "/nowhere", lambda done, text: ticks.append(done)))
    assert [(r["case"], r.get("ended")) for r in rows] == [(names[0], None), (names[1], "its process ended with -11"), (names[2], None)]
    assert Process.given == [names, names[2:]]
    assert max(ticks) == 2.5


def timed(case, threads, **ms):
    return {
        "case": case, "family": CASES[case].family.name, "threads": threads, "absent": {}, "plan": {"kernels": 1, "calls": 0, "estimated_us": 1.0},
        "errors": {"eqfuse": 2e-7, "eager": 1e-7},
        "times_ms": {name.replace("_", "."): {"median": t, "low": t - 0.5, "high": t + 0.5, "samples": 9} for name, t in ms.items()},
    }  # fmt: skip


def test_tables_from_data(tmp_path):
    main = module("__main__")
    rows = [
        timed("softmax 4096x4096", 1, eager=8.0, torch=4.0, torch_compile=3.0, eqfuse=2.0),
        timed("softmax 8192x512", 1, eager=8.0, torch=1.0, torch_compile=3.0, eqfuse=2.0),
        timed("softmax 8192x512", 2, eager=8.0, torch=1.0, eqfuse=1.0) | {"absent": {"torch.compile": "no C++ compiler"}},
        {"case": "softmax 4096x4096", "family": "rows", "threads": 2, "ended": "its process ended with -11"},
        timed("linear + cross-entropy 1024x512x16000", 1, eager=5.0, eqfuse=4.0)
        | {"added_bytes": {"eager": 65_000_000, "torch.compile": None, "eqfuse": 4096}},
    ]
    means = main.geomeans(rows)
    assert [(g["family"], g["peer"], g["threads"], round(g["geomean"], 3), g["least"]) for g in means] == [
        ("rows", "torch", 1, 1.0, 0.5), ("rows", "torch", 2, 1.0, 1.0), ("rows", "torch.compile", 1, 1.5, 1.5),
        ("linear + cross-entropy", "eager", 1, 1.25, 1.25),
    ]  # fmt: skip
    rates = {"copy": {"median": 50.0}, "by hand": {"median": 100.0}, "AB": {"median": 60.0}}
    found = {
        "theirs": module("structured").THEIRS, "caches": {"1": 32768},
        "moves": [{"level": "L1", "rows": 96, "columns": 32, "gb_s": rates, "absent": {"transpose": "PlanError: no"}}],
        "products": [{"size": 192, "gflop_s": rates, "absent": {}}],
    }  # fmt: skip
    env = {"date": "2026-01-02T00:00:00+00:00", "torch": "2.13.0", "python": "3.11.7", "compiler": "cc 12", "cores": 2, "cpu": "Some CPU", "load": 0.5,
           "load_at_the_end": 1.5, "commit": "abcdef0"}  # fmt: skip
    path = tmp_path / "2026-01-02-cpu.json"
    path.write_text(json.dumps({"environment": env, "rows": rows, "geomeans": means, "structured": found}))
    text = module("tables", ROOT / "benchmarks", "").section(path)
    assert "2 cores of Some CPU, load 0.5 before and 1.5 at the end; commit abcdef0." in text
    assert (
        "| softmax 8192x512 | 1 kernel | 2.00 (1.50..2.50) | 4.00 | 0.50 | 1.50 | 1.00 (0.50..1.50) | 8.00 | 1.00 | - | - | 2e-07 | 1e-07 |"
        in text
    )
    assert "softmax 8192x512, 2 threads: torch.compile (no C++ compiler)" in text
    assert "softmax 4096x4096, 2 threads: its process ended with -11" in text
    assert "| rows | torch | 1 | 2 | 1.00 | 1.00 | yes | 1.30 | 0.50 |" in text
    assert "| linear + cross-entropy 1024x512x16000 | 1 | 65.0 | - | below 0.5 |" in text
    assert "| L1 | 96x32 | 100 | 50 (50 %); 289 GB/s | -; 30-60 % (to 109 GB/s) |" in text
    assert "| 192 | 100 | 50 (50 %) | 60 (60 %) |" in text
    assert "transpose at L1 (PlanError: no)" in text


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_loops_by_hand_do_what_their_rates_assume(monkeypatch):
    """Copies copy, and multiply-adds take as long as four times a quarter of them: none is left out by the compiler."""
    structured = module("structured")
    peaks = structured._peaks()
    x, y = torch.randn(512), torch.zeros(512)
    peaks.peak_copy(x.data_ptr(), y.data_ptr(), 512, 2)
    assert torch.equal(x, y)
    assert peaks.peak_operations() >= 64
    sample = structured.sampler("cpu", 1)
    few, many = (min(sample(lambda n=n: peaks.peak_fma(n), 1) for _ in range(9)) for n in (20_000, 80_000))
    assert many > 2 * few


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_kernels_are_called_from_c_with_their_planned_arguments():
    structured = module("structured")
    x = torch.randn(24, 40)
    call, why = structured.repeated(lambda x: x.t().contiguous(), (x,))  # compares the result with torch
    assert why is None
    call(3)
    with pytest.raises(ArithmeticError, match="error"):
        structured.repeated(Wrong(), (x,))


class Wrong:
    """Another function each time that it is called with numbers."""

    __name__ = "wrong"

    def __call__(self, x):
        return -x if x.dtype == torch.float64 else x * 2
