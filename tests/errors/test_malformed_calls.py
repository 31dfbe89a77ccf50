"""A sample of benchmarks/malformed_calls.py: malformed calls of everything that is public return, or say what is wrong and what to do."""

import importlib
import sys
from pathlib import Path

import pytest

from eqfuse.errors import OptionError

COUNT, SEED = 120, 1


@pytest.fixture(scope="module")
def malformed():
    folder = str(Path(__file__).resolve().parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("malformed_calls")
    finally:
        sys.path.remove(folder)


def test_a_sample_of_malformed_calls(malformed):
    todo = malformed.drawn(COUNT, SEED)
    assert len({call["entry"] for call in todo}) > 20
    verdicts = malformed.run_all(todo)
    assert len(verdicts) == COUNT
    assert not [(call, *v) for call, v in zip(todo, verdicts, strict=True) if v[0] not in malformed.FINE]
    assert sum(v == "refused" for v, _ in verdicts) > COUNT / 2


def refuse(cure):
    raise OptionError("no", cure=cure)


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (lambda: 1 / 0, "raised"), (lambda: refuse(None), "no cure"), (lambda: refuse("yes"), "refused"), (lambda: None, "returned"),
        (lambda: len(), "raised"), (lambda: exit(3), "raised"),
    ],
)  # fmt: skip
def test_what_is_a_finding(malformed, call, verdict):
    assert malformed.judged(call)[0] == verdict
