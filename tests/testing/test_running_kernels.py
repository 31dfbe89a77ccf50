"""Hand-written kernels run on CPU tensors as their launchers call them, and leave nothing behind."""

import math
import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from eqfuse.errors import KernelBug
from eqfuse.testing import assert_equivalent, interpreted_kernels, lay_out
from eqfuse.testing.kernels import never_written, unwritten_memory

SCALE = tl.constexpr(3)


@triton.jit
def half_of(x):
    return x * 0.5


@triton.jit
def combine_max(a, b):
    return tl.maximum(a, b)


@triton.jit
def scale_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, half_of(x) * SCALE, mask=at < n)


def scale(x, block=8):
    y = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y


def test_a_launcher_runs_on_cpu_tensors_and_only_inside():
    before = dict(vars(JITFunction)), set(globals()), tl.tensor.sum
    with interpreted_kernels() as launches:
        assert torch.equal(scale(torch.ones(20)), torch.full((20,), 1.5))
    assert launches.count == 1
    assert (dict(vars(JITFunction)), set(globals()), tl.tensor.sum) == before  # the interpreter's own names stay out of this module
    with pytest.raises(RuntimeError):
        scale(torch.ones(20))


def test_methods_closures_and_own_combinations():
    shift = 2

    @triton.jit
    def local_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, BLOCK))
        tl.store(y_ptr, x.sum(axis=0) + x.max(axis=0) + tl.reduce(x, 0, combine_max) + shift)

    def run(x):
        y = torch.empty(1)
        local_kernel[(1,)](x, y, BLOCK=8)
        return y

    with interpreted_kernels():
        assert run(torch.arange(8.0)).item() == 28 + 7 + 7 + 2
        shift = 5
        assert run(torch.arange(8.0)).item() == 28 + 7 + 7 + 5  # closures and globals are looked up again


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (4, 8, 16)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) + BLOCK + EVEN * 0.5, mask=at < n)


def test_an_autotuned_kernel_runs_with_each_configuration():
    def run(x):
        y = torch.empty_like(x)
        tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
        return y[0].item()

    with interpreted_kernels():
        assert [run(torch.zeros(8)) for _ in range(4)] == [4.5, 8.5, 16.0, 4.5]


@triton.jit
def order_kernel(count_ptr, y_ptr):
    tl.store(y_ptr + tl.program_id(0), tl.atomic_add(count_ptr, 1))


def order(n, seed):
    count, y = torch.zeros(1, dtype=torch.int32), torch.empty(n, dtype=torch.int32)
    with interpreted_kernels(order=seed):
        order_kernel[(n,)](count, y)
    return y.tolist()


def test_programs_run_in_a_random_order():
    assert order(20, None) == list(range(20))
    assert order(20, 1) != list(range(20)) and sorted(order(20, 1)) == list(range(20))
    assert order(20, 1) == order(20, 1) != order(20, 2)


@triton.jit
def sum_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK)), axis=0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sums_of_narrow_values_round_at_each_step(dtype):
    differs = 0
    for seed in range(8):
        x = torch.randn(64, generator=torch.Generator().manual_seed(seed)).to(dtype)
        y = torch.empty(1, dtype=dtype)
        with interpreted_kernels():
            sum_kernel[(1,)](x, y, BLOCK=64)
        tree = x
        while tree.numel() > 1:
            tree = tree[: tree.numel() // 2] + tree[tree.numel() // 2 :]  # torch rounds each sum
        assert y.item() == tree.item()
        differs += y.item() != x.double().sum().to(dtype).item()
    assert differs


@triton.jit
def toward_zero_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at).to(tl.bfloat16, fp_downcast_rounding="rtz"))


def test_truncating_casts_truncate():
    x = torch.tensor([1.0, 1.00781, -1.0078, 3.99])
    y = torch.empty(4, dtype=torch.bfloat16)
    with interpreted_kernels():
        toward_zero_kernel[(1,)](x, y, BLOCK=4)
    assert (y.float().abs() <= x.abs()).all() and not torch.equal(y, x.bfloat16())


@triton.jit
def gap_kernel(x_ptr, y_ptr, stride, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + row, tl.sum(tl.load(x_ptr + row * stride + at, mask=at < COLUMNS, other=0.0), axis=0))


def test_reads_between_the_rows_of_a_view():
    x, y = lay_out(torch.ones(4, 8), "rows"), torch.empty(4)
    with interpreted_kernels():
        gap_kernel[(4,)](x, y, x.stride(0), COLUMNS=8, BLOCK=16)
        with pytest.raises(KernelBug, match="1 of 9 lanes between the elements of x_ptr, which is a view with gaps"):
            gap_kernel[(3,)](x, y, x.stride(0), COLUMNS=9, BLOCK=16)


@triton.jit
def masked_kernel(x_ptr, y_ptr, n, OTHER: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n, other=OTHER))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32], ids=str)
def test_masked_lanes_can_be_given_a_value(dtype):
    x, floats = torch.ones(4, dtype=dtype), dtype.is_floating_point
    for value in (0.0, -math.inf) if floats else (7.0,):
        y = torch.empty(8, dtype=dtype)
        with interpreted_kernels(masked=value):
            masked_kernel[(1,)](x, y, 4, OTHER=3, BLOCK=8)
        assert y.tolist() == [1] * 4 + [value if floats else 3] * 4
    with interpreted_kernels():  # and it is over then
        masked_kernel[(1,)](x, y, 4, OTHER=3, BLOCK=8)
    assert y.tolist() == [1] * 4 + [3] * 4


@triton.jit
def overlap_kernel(y_ptr, BLOCK: tl.constexpr, SAME: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at // 2, at * (1 - SAME))


def test_lanes_of_one_store_that_disagree():
    y = torch.zeros(8, dtype=torch.int32)
    with interpreted_kernels():
        overlap_kernel[(1,)](y, BLOCK=8, SAME=1)
        with pytest.raises(KernelBug, match="race: lanes of one store write different values to 4 elements of y_ptr"):
            overlap_kernel[(1,)](y, BLOCK=8, SAME=0)


@triton.jit
def flag_kernel(y_ptr, ADD: tl.constexpr):
    tl.store(y_ptr, 1 + tl.program_id(0) * ADD)


def test_stores_of_one_value_are_no_race_and_of_two_are():
    y = torch.zeros(1, dtype=torch.int32)
    with interpreted_kernels():
        flag_kernel[(4,)](y, ADD=0)
        with pytest.raises(KernelBug, match="race: stores 1 elements of y_ptr that program"):
            flag_kernel[(4,)](y, ADD=1)


@triton.jit
def last_program_kernel(x_ptr, part_ptr, count_ptr, y_ptr, SEM: tl.constexpr, BLOCK: tl.constexpr):
    me = tl.program_id(0)
    tl.store(part_ptr + me, tl.sum(tl.load(x_ptr + me * BLOCK + tl.arange(0, BLOCK)), axis=0))
    if tl.atomic_add(count_ptr, 1, sem=SEM) == tl.num_programs(0) - 1:
        tl.store(y_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, 4)), axis=0))


def test_what_an_atomic_puts_in_order_is_no_race():
    def run(sem):
        part, count, y = torch.empty(4), torch.zeros(1, dtype=torch.int32), torch.empty(1)
        last_program_kernel[(4,)](torch.ones(32), part, count, y, SEM=sem, BLOCK=8)
        return y.item()

    with interpreted_kernels():
        assert run("acq_rel") == 32
        with pytest.raises(KernelBug, match="race: loads"):
            run("relaxed")


@triton.jit
def dot_kernel(x_ptr, w_ptr, y_ptr, n, GUARDED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if GUARDED:
        x = tl.where(at < n, x, 0.0)
    tl.store(y_ptr, tl.sum(x * tl.load(w_ptr + at, mask=at < n, other=0.0)))


def test_a_product_with_zero_does_not_hide_undefined_lanes():
    def dot(x, w, guarded):
        y = x.new_empty(())
        dot_kernel[(1,)](x, w, y, x.numel(), GUARDED=guarded, BLOCK=triton.next_power_of_2(x.numel()))
        return y

    def both(n, guarded):
        assert_equivalent(torch.dot, lambda x, w: dot(x, w, guarded), [torch.linspace(1, 2, n), torch.linspace(3, 4, n)])

    both(13, True)
    both(16, False)
    with pytest.raises(KernelBug, match=r"undefined lanes: .* the load at test_running_kernels.py:\d+ .* no `other`"):
        both(13, False)


def test_uninitialised_reads():
    with interpreted_kernels(), unwritten_memory():
        x, y = torch.empty(8), torch.empty(1)
        with pytest.raises(KernelBug, match="uninitialised read: loads 8 elements of x_ptr that nothing has written"):
            sum_kernel[(1,)](x, y, BLOCK=8)
        sum_kernel[(1,)](x.fill_(1.0), y, BLOCK=8)
    assert y.item() == 8


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64], ids=str)
def test_unwritten_memory_is_known_again(dtype):
    with unwritten_memory():
        made = torch.empty(3, 4, dtype=dtype), torch.empty_like(torch.ones(3, 4, dtype=dtype)), torch.ones(1, dtype=dtype).new_empty(3, 4)
    for x in made:
        assert never_written(x).all()
        x[1] = 1
        assert never_written(x).sum() == 8
    assert not never_written(torch.empty(3, 4).fill_(torch.nan)).any()


@triton.jit
def narrow_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + (row + 4) * n + at))


@pytest.mark.parametrize("wide", [False, True])
def test_offsets_that_wrap(wide):
    from eqfuse.testing import sample

    x = sample(torch.float16, (5, 8), layout="huge")

    def run(x):
        y = torch.empty(8, dtype=x.dtype)
        narrow_kernel[(1,)](x, y, x.stride(0), BLOCK=8, WIDE=wide)
        return y

    if wide:
        assert_equivalent(lambda x: x[4] * 1, run, (x,))
    else:
        said = r"test_running_kernels.py:\d+, narrow_kernel.*int32 offset overflow: a product at test_running_kernels.py:\d+ is 2147483648"
        with pytest.raises(KernelBug, match=said):
            assert_equivalent(lambda x: x[4] * 1, run, (x,))


def test_kernels_that_were_made_for_interpretation():
    """With TRITON_INTERPRET set, kernels are other objects."""
    code = f"""
import os
os.environ["TRITON_INTERPRET"] = "1"
import sys, importlib.util
import torch
spec = importlib.util.spec_from_file_location("under_test", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from eqfuse.testing import assert_equivalent
from eqfuse.errors import KernelBug
assert_equivalent(lambda x: x * 1.5, module.scale, (torch.randn(20),))
try:
    assert_equivalent(lambda x: x * 1.5, lambda x: module.scale(x[::2]), (torch.randn(20),))
except KernelBug as bug:
    print(bug)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "out-of-bounds load" in done.stdout or "between the elements" in done.stdout


def test_interpreting_and_compiling_do_not_disturb_each_other():
    """The kernel object is the same before and after; its source and its cache key, too."""
    key = scale_kernel.cache_key
    with interpreted_kernels():
        scale(torch.ones(8))
    assert scale_kernel.cache_key == key
