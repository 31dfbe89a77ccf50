"""``constants=`` reaches local constants of launchers, however these are written, and takes them back."""

import functools

import pytest
import torch
import triton
import triton.language as tl

from eqfuse.errors import CoverageWarning, OptionError
from eqfuse.testing import assert_equivalent, size, tensors

HERE = __name__
SHAPES = [tensors(torch.float32, (size("rows", 1, 2), size("columns", 1, 40)), values="normal", layouts="contiguous")]


@triton.jit
def total_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * N + at, mask=at < N, other=0.0), axis=0)
    tl.store(y_ptr + row, total)


def total(x, block):
    y = torch.empty(x.shape[0])
    total_kernel[(x.shape[0],)](x.contiguous(), y, x.shape[1], BLOCK=block)
    return y


def as_liger_has_it(x):
    MAX_FUSED_SIZE = 65536 // x.element_size()
    block = min(MAX_FUSED_SIZE, triton.next_power_of_2(x.shape[1]))
    return total(x, block)


def settings(n):
    return max(64, triton.next_power_of_2(n)), 4


def kept(fn):
    @functools.wraps(fn)
    def call(*args):
        return fn(*args)

    return call


class InPieces(torch.autograd.Function):
    @staticmethod
    @kept
    def forward(ctx, x):
        WIDTH, warps = settings(x.shape[1])
        if warps > 2:
            WIDTH = max(WIDTH, 32)
        ctx.columns = x.shape[1]
        return total(x, (lambda: WIDTH)())

    @staticmethod
    def backward(ctx, g):
        return g[:, None].expand(-1, ctx.columns)


@pytest.mark.parametrize(
    ("g", "names"),
    [
        (as_liger_has_it, ["MAX_FUSED_SIZE", f"{HERE}.MAX_FUSED_SIZE"]),
        (InPieces.apply, ["WIDTH", f"{HERE}.WIDTH"]),
    ],
)
def test_the_loop_runs_as_often_as_the_constant_says(g, names):
    with pytest.warns(CoverageWarning, match="ran at most once"):
        assert_equivalent(lambda x: x.sum(-1), g, SHAPES, examples=4)
    for name in names:
        agreement = assert_equivalent(lambda x: x.sum(-1), g, SHAPES, examples=4, constants={name: 4})
        assert agreement.warnings == ()
    with pytest.warns(CoverageWarning, match="ran at most once"):  # and the constant is what it was
        assert_equivalent(lambda x: x.sum(-1), g, SHAPES, examples=4)


def test_inner_functions_and_what_they_close_over():
    scale = 2

    def launcher(x):
        PIECE = 1 << 14
        return total(x * scale, min(PIECE, triton.next_power_of_2(x.shape[1])))

    agreement = assert_equivalent(lambda x: 2 * x.sum(-1), launcher, SHAPES, examples=4, constants={"PIECE": 4})
    assert agreement.warnings == ()
    assert launcher.__code__.co_freevars == ("scale",)


def test_a_warning_names_the_constant():
    with pytest.warns(CoverageWarning, match=rf"'{HERE}\.MAX_FUSED_SIZE': 16"):
        assert_equivalent(lambda x: x.sum(-1), as_liger_has_it, SHAPES, examples=2)


def test_what_cannot_be_given():
    with pytest.raises(OptionError, match="as_liger_has_it cannot be given"):
        assert_equivalent(lambda x: x.sum(-1), as_liger_has_it, SHAPES, constants={"MAX_FUSED_SIZE": object()})
    with pytest.raises(OptionError, match="there is no BLOCK in the module"):  # a parameter of the kernel, and no local constant
        assert_equivalent(lambda x: x.sum(-1), as_liger_has_it, SHAPES, constants={"BLOCK": 16})
