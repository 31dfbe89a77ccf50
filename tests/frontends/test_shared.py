"""A value with reductions that several positions read: it is computed once for each of its own elements."""

import math

import pytest
import torch

import eqfuse
from eqfuse.ir.terms import Reduce, View

from .test_corpus import agree

RANDOM = torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


def sums(program):
    """The extents of what each reduction gives."""
    return sorted(sorted(a.size for a in t.axes) for t in program.terms() if isinstance(t, Reduce))


class GroupedAttention(torch.nn.Module):
    """Attention of a model whose heads share keys and values, from its input to its heads' outputs."""

    def __init__(self, width=24, heads=6, kv=2, size=4):
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, size
        self.q = torch.nn.Linear(width, heads * size, bias=False)
        self.k, self.v = (torch.nn.Linear(width, kv * size, bias=False) for _ in range(2))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (p(x).view(b, s, n, self.size).transpose(1, 2) for p, n in ((self.q, self.heads), (self.k, self.kv), (self.v, self.kv)))
        k, v = (t.repeat_interleave(self.heads // self.kv, 1) for t in (k, v))
        return torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1) @ v


def test_keys_and_values_are_projected_once_for_the_heads_that_share_them():
    program = agree(GroupedAttention().double(), (randn(2, 5, 24),)).program
    assert sums(program).count([2, 2, 4, 5]) == 2, "keys and values of 2 rows of 5 have 2 heads of 4, not 6"


@pytest.mark.parametrize("read", [lambda s: s.repeat_interleave(3, 0), lambda s: s.repeat(3), lambda s: s.expand(4, 6).reshape(24)])
def test_repeated_sums(read):
    def f(x, y):
        return read(x.sum(-1)) * y

    n = read(torch.zeros(6)).shape[0]
    assert sums(agree(f, (randn(6, 7), randn(n))).program) == [[6]]


def test_two_results_of_one_op():
    def f(x):
        var, mean = torch.var_mean(x.reshape(3, 8), -1)
        return (x - mean.repeat_interleave(8)) * var.repeat_interleave(8)

    assert sums(agree(f, (randn(24),)).program) == [[3], [3]]


def test_only_the_part_that_is_read_is_computed():
    """One product for queries, keys and values: keys are a third of its columns."""

    def f(x, w):
        q, k = (x @ w).split([12, 6], -1)
        q, k = q.view(5, 4, 3).transpose(0, 1), k.view(5, 2, 3).transpose(0, 1).repeat_interleave(2, 0)
        return q @ k.transpose(-1, -2)

    assert sorted(map(math.prod, sums(agree(f, (randn(5, 7), randn(7, 18))).program))) == [5 * 6, 4 * 5 * 3, 4 * 5 * 5]

    def rows(x, w, z):
        return (x @ w)[:2].repeat_interleave(4, 0) * z

    assert sums(agree(rows, (randn(9, 7), randn(7, 3), randn(8, 3))).program) == [[2, 3]]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(-1)[2:5],  # fewer than there are
        lambda x: x.sum(-1).flip(0),
        lambda x: x.sum(-1).reshape(2, 3),  # every one once
        lambda x: x.sum(-1)[::2],
        lambda x: x.sum(-1)[1] * x.amax(0),
    ],
)
def test_what_each_position_has_for_itself_is_read_where_it_is_needed(f):
    program = agree(f, (randn(6, 7),)).program
    assert all(not isinstance(t.args[0], Reduce) for t in program.terms() if isinstance(t, View))


def test_a_plan_stores_what_is_shared():
    """8 heads of keys for 32 of queries: the projections are a quarter of what one for each head of queries would cost."""

    def f(x, w, q):
        k = (x @ w).view(2048, 8, 128).transpose(0, 1).repeat_interleave(4, 0)
        return q @ k.transpose(-1, -2)

    args = [torch.empty(s, dtype=torch.float16, device="meta") for s in ((2048, 4096), (4096, 1024), (32, 2048, 128))]
    flops = [k.cost.flops for k in eqfuse.optimize(f, args, target="h200").plan.kernels]
    assert sum(flops) < 1.1 * (2 * 2048 * 4096 * 1024 + 2 * 32 * 2048 * 2048 * 128)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_kernels_that_read_what_is_shared_are_as_accurate_as_eager(dtype):
    x = torch.randn(1, 19, 64, generator=RANDOM).to(dtype)
    fused = eqfuse.optimize(GroupedAttention(64, 8, 2, 16).to(dtype), (x,), target="h200")
    assert fused.accuracy(x, factor=2.0).outputs[0].ours_nonfinite == 0


def rolled(x, w, cos, sin):
    """Heads and, beside them, their halves the other way round (rotary embedding), of a projection."""
    q = (x @ w).view(x.shape[0], -1, cos.shape[-1])
    sign = torch.where(torch.arange(cos.shape[-1]) < cos.shape[-1] // 2, -1.0, 1.0).to(x.dtype)
    return q * cos[:, None] + q.roll(cos.shape[-1] // 2, -1) * sign * sin[:, None]


def flipped(x, w, cos, sin):
    q = (x @ w).view(x.shape[0], -1, 2, cos.shape[-1] // 2)
    return q * cos.view(-1, 1, 2, cos.shape[-1] // 2) + q.flip(2) * sin.view(-1, 1, 2, cos.shape[-1] // 2)


def shifted(x, w, cos, sin):
    """Windows that overlap."""
    y = x @ w
    return y[:, 1:] * y[:, :-1] + cos[:, :1] * sin[:, :1]


def transposed(x, w, cos, sin):
    y = (x @ w) @ w.T[:, : x.shape[0]]
    return y * y.T + cos[:, :1] * sin[:, :1]


def concatenated(x, w, cos, sin):
    """As models write it."""
    q = (x @ w).view(x.shape[0], -1, cos.shape[-1])
    half = cos.shape[-1] // 2
    return q * cos[:, None] + torch.cat((-q[..., half:], q[..., :half]), -1) * sin[:, None]


@pytest.mark.parametrize("f", [rolled, flipped, concatenated, shifted], ids=lambda f: f.__name__)
def test_a_product_that_is_read_at_two_indices_is_one_product(f):
    program = agree(f, (randn(5, 6), randn(6, 12), randn(5, 4), randn(5, 4))).program
    assert len(sums(program)) == 1


def test_a_product_and_its_transpose():
    program = agree(transposed, (randn(5, 6), randn(6, 12), randn(5, 4), randn(5, 4))).program
    assert len(sums(program)) == 2


def test_parts_that_do_not_overlap_are_products_of_their_own():
    def f(x, w):
        q, k = (x @ w).chunk(2, -1)
        return q * k

    assert sums(agree(f, (randn(5, 6), randn(6, 12))).program) == [[5, 6], [5, 6]]


def test_names_that_a_value_had_for_a_moment_are_gone():
    """The product is read at its own dimensions first and elsewhere then: one View, of the product itself."""
    program = agree(concatenated, (randn(5, 6), randn(6, 12), randn(5, 4), randn(5, 4))).program
    assert not any(isinstance(t, View) and isinstance(t.args[0], View) for t in program.terms())


@pytest.mark.parametrize("f", [rolled, concatenated], ids=lambda f: f.__name__)
def test_the_rotated_projection_costs_the_projection_and_a_pass(f):
    shapes = (2048, 4096), (4096, 4096), (2048, 128), (2048, 128)
    args = [torch.empty(s, dtype=torch.float16, device="meta") for s in shapes]
    plan = eqfuse.optimize(f, args, target="h200").plan
    alone = eqfuse.optimize(lambda x, w: x @ w, args[:2], target="h200").plan
    assert plan.estimated_us < 1.25 * alone.estimated_us


def attends_twice(x, mask):
    """What the second attention reads at the positions of its keys is what the first one made, over the same positions of the mask."""
    for _ in range(2):
        x = torch.softmax(x @ x.transpose(-1, -2) + mask, -1) @ x + x
    return x


def normalised_on_both_sides(a):
    """A sum that is read under the name of the axis that it is over, which is a result's, too."""
    degree = a.sum(-1)
    return a / degree[:, None] / degree[None, :]


def test_a_value_that_binds_the_name_it_is_read_under():
    """The second attention binds another axis, so that the first one is one value."""
    program = agree(attends_twice, (randn(3, 5, 4), randn(5, 5))).program
    products = [t for t in program.terms() if isinstance(t, Reduce) and t.monoid == "sum" and t.axis.size == 4]
    assert len(products) == 2, "scores of the first and of the second"
    agree(normalised_on_both_sides, (randn(6, 6),))


@pytest.mark.parametrize("f", [attends_twice, normalised_on_both_sides], ids=lambda f: f.__name__)
def test_kernels_of_such_a_value(f):
    shapes = ((2, 19, 16), (19, 19)) if f is attends_twice else ((37, 37),)
    args = [torch.rand(s, generator=RANDOM) for s in shapes]
    for options in ({}, {"node_budget": 0}):
        assert eqfuse.optimize(f, args, target="h200", **options).accuracy(*args, factor=2.0).outputs[0].ours_nonfinite == 0


def test_heads_that_are_read_as_one_dimension_and_by_groups():
    """Scores at 6 heads for one result, at 2 groups of 3 for the other: the results have the groups, too."""

    def f(q, k, v):
        weights = torch.softmax(q @ k.repeat_interleave(3, 0).transpose(-1, -2), -1)
        return weights @ v, weights.view(2, 3, 4, 5).sum(1)

    program = agree(f, (randn(6, 4, 7), randn(2, 5, 7), randn(6, 5, 3))).program
    assert [t.monoid for t in program.terms() if isinstance(t, Reduce)].count("max") == 1
