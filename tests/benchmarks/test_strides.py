"""The cases of benchmarks/strides.py compute what they say, at small odd sizes, in the interpreter."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import eqfuse

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def load():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("strides")
    finally:
        sys.path.remove(str(BENCHMARKS))


CASES = load().cases(lambda *shape: torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))), large=False)


@pytest.mark.parametrize("name", CASES)
def test_cases_are_right_at_small_odd_sizes(name):
    fn, args = CASES[name]
    found = eqfuse.optimize(fn, args, target="h200", time_budget=1.0).interpret(*args)
    exact = fn(*(x.double() if x.is_floating_point() else x for x in args))
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
