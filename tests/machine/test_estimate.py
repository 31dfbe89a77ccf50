"""Estimates of compiled kernels: the work of the plan tells how often loops run; times are never below what units need."""

import pytest
import torch

import eqfuse
from eqfuse.extract.targets import load_target
from eqfuse.machine import disassemble
from eqfuse.machine.estimate import extrapolated
from eqfuse.machine.flow import loops
from eqfuse.testing.programs import PROGRAMS


def half(*shape):
    return torch.empty(*shape, device="meta", dtype=torch.float16)


@pytest.mark.parametrize("target", ["a100", "h100", "b200"])
def test_the_keys_of_a_loop_are_counted_by_the_work(target):
    c = eqfuse.optimize(PROGRAMS["attention"].fn, (half(1, 32, 4096, 128),) * 3, target=target)
    (found,) = c.estimates()
    step = next(role.tile for axis, role in c.plan.kernels[0].kernel.roles.items() if role.kind == "stream")
    assert found.static is not None
    assert found.static.trips == pytest.approx(4096 / step, abs=1.5)  # the compiler begins some before the loop
    assert found.static.us >= found.static.floor[1] > 0
    assert {"matrix", "issue", "special", "shared", "second level", "device memory"} <= set(found.static.floors)
    assert "us static" in str(found) and "modelled" in str(found)


def test_a_kernel_without_loops_takes_what_memory_takes():
    x = half(4096, 4096)
    (found,) = eqfuse.optimize(lambda x: torch.softmax(x, -1), (x,), target="h100").estimates()
    assert found.static.trips <= 1
    assert found.static.floor[0] == "device memory"
    assert found.static.us == pytest.approx(found.static.floor[1], rel=0.15)


def test_of_amd_there_are_floors():
    q = half(1, 32, 1024, 128)
    c = eqfuse.optimize(PROGRAMS["attention"].fn, (q, q, q), target="mi300x")
    (found,) = c.estimates()
    assert found.static.us is None and "not simulated" in str(found)
    step = next(role.tile for axis, role in c.plan.kernels[0].kernel.roles.items() if role.kind == "stream")
    assert found.static.trips == pytest.approx(1024 / step, abs=1.5)  # where waves repeat products, by bytes
    assert {"matrix", "vector", "special", "shared", "second level", "device memory"} <= set(found.static.floors)
    assert found.static.floors["matrix"] >= 4e-6 * 32 * 1024 * 1024 * 128 / 1307.4


def test_sectors_that_are_partly_used_count():
    x = half(1024, 2048)
    (found,) = eqfuse.optimize(lambda x: x[:, ::2] + 1, (x,), target="a100").estimates()
    plain = 2e-3 * 2 * 1024 * 1024 / load_target("a100").l2_gb_s
    assert found.static.floors["second level"] == pytest.approx(1.5 * plain, rel=0.01)  # it loads half of each sector


def test_scoreboards_of_loads_are_waited_for():
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (half(64, 512),), target="h100")
    code = disassemble(c.compile()[0].machine_code)
    assert not loops(code)
    first = next(i for i, x in enumerate(code.instructions) if x.name == "LDG")
    (board,) = code[first].sets
    assert any(board in x.waits for x in code.instructions[first + 1 :])


def test_time_is_linear_between_the_points():
    assert extrapolated(lambda o, i: 5 + o * (3 + 2 * i), (10.0, 100.0), ((1, 2), (4, 8))) == pytest.approx(5 + 10 * 203)
    assert extrapolated(lambda o, i: o * i * i, (1, 7), ((1, 2), (4, 8))) == 49  # few trips are run, not extrapolated
