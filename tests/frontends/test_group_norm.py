"""Statistics of groups of channels: by torch's function, by its module, and as code that reshapes."""

import pytest
import torch

import eqfuse
from eqfuse.frontends import trace

from .test_corpus import agree

RANDOM = torch.Generator().manual_seed(0)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("shape", [(2, 6, 5), (3, 6, 4, 5), (1, 6, 2, 3, 2), (4, 12)], ids=str)
def test_it_computes_what_torch_computes(shape, groups):
    x, w, b = (torch.randn(s, generator=RANDOM, dtype=torch.float64) for s in (shape, shape[1:2], shape[1:2]))
    agree(lambda x, w, b: torch.nn.functional.group_norm(x, groups, w, b), (x, w, b))
    agree(lambda x, w: torch.nn.functional.group_norm(x, groups, w, eps=0.1), (x, w))
    agree(lambda x: torch.nn.functional.group_norm(x, groups), (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_its_kernel_is_as_accurate_as_eager(dtype):
    x = (torch.randn(2, 12, 5, 7, generator=RANDOM) + 10).to(dtype)
    module = torch.nn.GroupNorm(4, 12, dtype=dtype)
    assert eqfuse.optimize(module, (x,), target="h200").accuracy(x, factor=2.0).outputs[0].ours_nonfinite == 0


def test_the_group_of_a_channel_does_not_depend_on_the_pixel():
    """(c * 4096 + pixel) // 40960 is c // 10: statistics are no function of the pixel, and are computed once for all."""
    x = torch.empty(8, 320, 64, 64, dtype=torch.float16, device="meta")
    program = trace(lambda x: torch.nn.functional.group_norm(x, 32), (x,)).program
    means = [t for t in program.terms() if type(t).__name__ == "Reduce"]
    assert means and min(len(t.axes) for t in means) == 2
    plan = eqfuse.optimize(lambda x: torch.nn.functional.group_norm(x, 32), (x,), target="h200").plan
    assert plan.estimated_us < plan.baseline_us / 2
    assert len(plan.kernels) == 1 and plan.dram_bytes < 1.01 * plan.compulsory_bytes, "read once, written once"


def test_an_empty_batch_is_empty():
    x = torch.empty(0, 12, 3)
    assert eqfuse.optimize(lambda x: torch.nn.functional.group_norm(x, 3), (x,), target="h200")(x).shape == x.shape
