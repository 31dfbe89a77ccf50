"""Lanes of one program that meet in global memory without a barrier are named; lanes that have what they stored themselves are not."""

import pytest
import torch
import triton
import triton.language as tl

from eqfuse.testing import assert_equivalent

BARRIER = "needs tl.debug_barrier() between"


@triton.jit
def gather_kernel(x_ptr, y_ptr, N: tl.constexpr, KIND: tl.constexpr):
    """Every kind leaves twice the row in y."""
    row = tl.program_id(0) * N
    at = row + tl.arange(0, N)
    if KIND == "scalars" or KIND == "scalars, barrier" or KIND == "scalars, counted":
        for i in range(N):
            tl.store(y_ptr + row + i, tl.load(x_ptr + row + i))
        if KIND == "scalars, barrier":
            tl.debug_barrier()
        if KIND == "scalars, counted":
            tl.atomic_add(y_ptr + tl.num_programs(0) * N, 1.0)
        tl.store(y_ptr + at, 2 * tl.load(y_ptr + at))
    if KIND == "own" or KIND == "own, masked":
        mask = at < row + N // 2
        tl.store(y_ptr + at, tl.load(x_ptr + at), mask=mask)
        y = tl.load(y_ptr + at, mask=mask, other=0.0)
        tl.store(y_ptr + at, tl.where(mask, 2 * y, 2 * tl.load(x_ptr + at)))
    if KIND == "neighbours":
        tl.store(y_ptr + at, tl.load(x_ptr + at))
        other = row + (tl.arange(0, N) + 1) % N
        tl.store(y_ptr + other, 2 * tl.load(y_ptr + other))
    if KIND == "another shape":
        pairs = row + tl.arange(0, N // 2)[:, None] * 2 + tl.arange(0, 2)
        tl.store(y_ptr + pairs, tl.load(x_ptr + pairs))
        tl.store(y_ptr + at, 2 * tl.load(y_ptr + at))
    if KIND == "copies":
        copies = at[None, :] + tl.zeros((2, N), tl.int32)
        tl.store(y_ptr + copies, tl.load(x_ptr + copies))
        tl.store(y_ptr + copies, 2 * tl.load(y_ptr + copies))
    if KIND == "zeros first":
        tl.store(y_ptr + at, tl.zeros((N,), tl.float32))
        for i in range(N):
            tl.store(y_ptr + row + i, 2 * tl.load(x_ptr + row + i))
    if KIND == "the same twice":
        tl.store(y_ptr + at, 2 * tl.load(x_ptr + at))
        for i in range(N):
            tl.store(y_ptr + row + i, 2 * tl.load(x_ptr + row + i))


def doubled(kind):
    def launch(x):
        y = torch.zeros(x.numel() + 1)
        gather_kernel[(x.shape[0],)](x, y, x.shape[1], kind)
        return y[:-1].view(x.shape)

    return launch


def notes(kind):
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    return assert_equivalent(lambda x: 2 * x, doubled(kind), [x]).notes


@pytest.mark.parametrize("kind", ["scalars", "neighbours", "another shape", "zeros first"])
def test_lanes_that_meet_without_a_barrier_are_named(kind):
    (said,) = notes(kind)
    assert BARRIER in said
    assert "gather_kernel loads elements of y_ptr" in said or (
        kind == "zeros first" and "gather_kernel stores to elements of y_ptr" in said
    )


@pytest.mark.parametrize("kind", ["scalars, barrier", "scalars, counted", "own", "own, masked", "copies", "the same twice"])
def test_lanes_that_have_what_they_stored_are_not(kind):
    assert notes(kind) == ()
