"""Kernels of a cover that share their loops become one, also where one reads what the other stores."""

import torch

import eqfuse


def scaled(x, *, both):
    """Images, each group of 4 channels divided by its deviation, and around its mean if ``both``."""
    var, mean = torch.var_mean(x.reshape(x.shape[0], -1, 4 * x.shape[2]), -1, correction=0)
    rows = x - mean.repeat_interleave(4, 1)[..., None] if both else x
    return rows * torch.rsqrt(var + 1e-5).repeat_interleave(4, 1)[..., None]


def stores(fn, shape):
    """Of each kernel how many values it stores."""
    x = torch.empty(shape, device="meta")
    return [len(k.stores) for k in eqfuse.optimize(fn, (x,), target="h200").plan.kernels]


def test_statistics_of_one_array_are_one_kernel():
    """The mean is read by the variance and by the result: one kernel makes all of it."""
    assert stores(lambda x: scaled(x, both=True), (8, 320, 4096)) == [1]


def test_what_only_the_joined_kernel_reads_is_not_stored():
    assert stores(lambda x: scaled(x, both=False), (8, 320, 4096)) == [1]


def test_joined_kernels_compute_the_same():
    """Each of six roundings (mean, difference, variance, its root, two products) is half a unit in the last place, some of them seen
    by several elements; eager rounds as often, and which of the two is luckier differs from draw to draw."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        x = torch.randn(2, 12, 9, generator=generator) + 3
        for both in (True, False):
            fused = eqfuse.optimize(lambda x, both=both: scaled(x, both=both), (x,), target="h200")
            report = fused.accuracy(x).outputs[0]
            assert report.ours_nonfinite == 0
            assert report.ours < 6 * 2**-24
