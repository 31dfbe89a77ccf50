"""Plans are made once per program and type, for the bench shapes, and shared by the tests of a worker; so are hard arguments.

They are the fused plans, those for little memory: where there is much, storing something between two kernels may be faster.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

import eqfuse
from eqfuse.compiled import Compiled
from eqfuse.testing.programs import PROGRAMS

sys.path.insert(0, str(Path(__file__).parent))  # for ``adversarial``


LITTLE = 4 << 20  # bytes: statistics and parts of sums, and no matrix


@functools.cache
def _planned(name: str, dtype: str, target: str) -> Compiled:
    case = PROGRAMS[name]
    return eqfuse.optimize(case.fn, case.args("bench", dtype, device="meta"), memory_limit=LITTLE, target=target, name=name)


@pytest.fixture
def planned():
    """``planned(name, dtype="float16", target="h200")``: the program planned for its bench shapes."""

    def plan(name: str, dtype: str = "float16", target: str = "h200") -> Compiled:
        return _planned(name, dtype, target)

    return plan


@functools.cache
def _resized(name: str, dtype: str) -> Compiled:
    return _planned(name, dtype, "h200").at(*PROGRAMS[name].args("check", dtype, device="meta"))


@pytest.fixture
def at_check():
    """``at_check(name, dtype)``: the same kernels for the check shapes, which no tile divides."""
    return _resized
