"""Loops of kernels that no example made run twice: they are made to, or warned of; constants of modules, for the time of a test."""

import re
import warnings

import pytest
import torch
import triton
import triton.language as tl
import triton.runtime.interpreter  # the module that a cure names

import eqfuse.errors
from eqfuse.errors import AccuracyError, CoverageWarning, OptionError
from eqfuse.testing import assert_equivalent, interpreted_kernels, size, tensors

LARGEST_BLOCK = 256
STEP = tl.constexpr(4)


@triton.jit
def logsumexp_kernel(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr, RESCALED: tl.constexpr):
    x_ptr += tl.program_id(0).to(tl.int64) * stride
    m = float("-inf")
    d = 0.0
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=float("-inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, axis=0))
        d = (d * tl.exp(m - new) if RESCALED else d) + tl.sum(tl.exp(x - new), axis=0)
        m = new
    tl.store(y_ptr + tl.program_id(0), m + tl.log(d))


def logsumexp(x, rescaled=True):
    x = x.contiguous()
    y = torch.empty(x.shape[0])
    block = min(LARGEST_BLOCK, triton.next_power_of_2(x.shape[1]))
    logsumexp_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), BLOCK=block, RESCALED=rescaled)
    return y


def not_rescaled(x):
    return logsumexp(x, False)


def expected(x):
    return torch.logsumexp(x, -1)


def rows(columns):
    return [tensors(torch.float32, (size("rows", 1, 3), columns), values="normal")]


def test_a_size_without_a_bound_grows_until_the_loop_runs_twice():
    """A block grows with the size, up to its bound: what is drawn fits into one."""
    with pytest.raises(
        AccuracyError,
        match=r"(?s)output 0: error .*seen: only in examples where the loop `for .* example 1\d, shrunk from \(\d, 321\) to \(1, \d\d\d\)",
    ):
        assert_equivalent(expected, not_rescaled, rows("columns"), examples=10, shrink_seconds=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = assert_equivalent(expected, logsumexp, rows("columns"), examples=10)
    assert found.examples > 10 and not found.warnings


def test_a_size_with_a_bound_stays_and_the_loop_is_named():
    """What the warning says finds the fault."""
    said = r"test_loops.py:\d+, logsumexp_kernel: the loop `for i in range\(0, n, BLOCK\)` ran at most once in all examples"
    with pytest.warns(CoverageWarning, match=said) as caught:
        found = assert_equivalent(expected, not_rescaled, rows(size("columns", 1, 60)), examples=10)
    (warning,) = found.warnings
    assert str(caught[0].message) == warning and caught[0].filename == __file__
    assert "try: sizes above 64, its step; or smaller blocks" in warning
    name = re.search(r'constants=\{"?\'?([\w.]+)', warning)[1]
    assert name.endswith("test_loops.LARGEST_BLOCK")
    with pytest.raises(AccuracyError, match=r"constants=\{'LARGEST_BLOCK': 16\}"):
        assert_equivalent(
            expected, not_rescaled, rows(size("columns", 1, 60)), examples=10, constants={"LARGEST_BLOCK": 16}, shrink_seconds=1
        )
    assert LARGEST_BLOCK == 256
    assert not assert_equivalent(expected, logsumexp, rows(size("columns", 1, 60)), examples=10, constants={"LARGEST_BLOCK": 16}).warnings


def test_one_call_is_warned_of_too():
    with pytest.warns(CoverageWarning, match="sizes above 8, its step"):
        assert_equivalent(expected, logsumexp, (torch.randn(2, 8),))


@triton.jit
def nested_kernel(y_ptr, n, m, ONCE: tl.constexpr):
    total = 0
    k = 0
    while k < n:
        for _ in range(m):
            total += 1
        k += 1
    for _ in tl.static_range(ONCE):
        total += helper(m)
    tl.store(y_ptr, total)


@triton.jit
def helper(m):
    total = 0
    for _ in tl.range(0, m, STEP):
        total += 1
    return total


def test_loops_are_counted():
    def run(n, m, once):
        y = torch.zeros(1, dtype=torch.int32)
        nested_kernel[(1,)](y, n, m, ONCE=once)
        return y.item()

    def counts(launches):
        return {loop.text: turns for loop, turns in launches.loops.most.items()}

    with interpreted_kernels() as launches:
        assert run(3, 0, 1) == 0
        assert counts(launches) == {
            "while k < n": 3,
            "for _ in range(m)": 0,
            "for _ in tl.static_range(ONCE)": 1,
            "for _ in tl.range(0, m, STEP)": 0,
        }
        assert run(1, 9, 2) == 9 + 2 * 3
        assert [(loop.text, loop.kernel) for loop in launches.loops.once()] == []
        assert {loop.text: step for loop, step in launches.loops.steps.items()}["for _ in tl.range(0, m, STEP)"] == 4
    assert counts(launches) == {
        "while k < n": 3,
        "for _ in range(m)": 9,
        "for _ in tl.static_range(ONCE)": 2,
        "for _ in tl.range(0, m, STEP)": 3,
    }
    with interpreted_kernels() as launches:
        run(0, 1, 1)
    assert [loop.text for loop in launches.loops.once()] == [
        "while k < n",
        "for _ in tl.static_range(ONCE)",
        "for _ in tl.range(0, m, STEP)",
    ]


def step():
    def run(x):
        y = torch.zeros(1, dtype=torch.int32)
        nested_kernel[(1,)](y, 2, 9, ONCE=2)
        return y + STEP.value

    return run


def test_constants():
    def of(n):
        return lambda x: torch.tensor([18 + 2 * -(-9 // n) + n], dtype=torch.int32)

    x = torch.ones(1)
    assert_equivalent(of(4), step(), (x,))
    assert_equivalent(of(2), step(), (x,), constants={"STEP": 2})  # of the kernel; it is a constexpr, and stays one
    assert_equivalent(of(2), step(), (x,), constants={"STEP": tl.constexpr(2)})
    assert STEP.value == 4


def test_constants_of_other_modules(monkeypatch):
    def g(x):
        return x + eqfuse.errors.NOTHING

    monkeypatch.setattr(eqfuse.errors, "NOTHING", 0, raising=False)
    assert_equivalent(lambda x: x, g, (torch.ones(1),))
    with pytest.raises(AccuracyError, match=r"constants=\{'eqfuse.errors.NOTHING': 1\}"):
        assert_equivalent(lambda x: x, g, [tensors(torch.float32, ("n",))], constants={"eqfuse.errors.NOTHING": 1}, shrink_seconds=0.5)
    assert eqfuse.errors.NOTHING == 0


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"NONE_SUCH": 1}, "constants names 'NONE_SUCH', but there is no NONE_SUCH in the module of the second function"),
        ({"eqfuse.errors.NONE_SUCH": 1}, "there is no NONE_SUCH in eqfuse.errors"),
        ({"no_such_module.A": 1}, "no_such_module cannot be imported"),
        ({"a b": 1}, "constants names 'a b'"),
        ({3: 1}, "constants names 3"),
        ({"GridExecutor": 1}, 'there is no GridExecutor in the module(?s:.)*try: "triton.*.GridExecutor"'),
    ],
)
def test_constants_that_there_are_not(constants, said):
    with pytest.raises(OptionError, match=said):
        assert_equivalent(torch.sin, logsumexp, (torch.ones(2, 2),), constants=constants)
