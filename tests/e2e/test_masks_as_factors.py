"""A truth value as a factor is a choice: masks that are multiplied, one-hot matrices."""

import pytest
import torch
from torch.nn import functional

import eqfuse

RANDOM = torch.Generator().manual_seed(0)


def meta(*shape, dtype=torch.float16):
    return torch.empty(*shape, dtype=dtype, device="meta")


def one_hot(table, i):
    return functional.one_hot(i, len(table)).to(table.dtype) @ table


def compared(table, i):
    return (i[:, None] == torch.arange(len(table))).float() @ table.float()


def chosen(table, i):
    return torch.where(i[:, None] == torch.arange(len(table)), 1.0, 0.0) @ table.float()


@pytest.mark.parametrize("f", [one_hot, compared, chosen], ids=lambda f: f.__name__)
def test_a_one_hot_product_is_a_gather(f):
    """Of a table of 32000 rows those are read that are asked for."""

    def on_meta(table, i):
        with torch.device("meta"):
            return f(table, i)

    args = meta(32000, 256), meta(512, dtype=torch.int64)
    plan = eqfuse.optimize(on_meta, args, target="h200").plan
    taken = eqfuse.optimize(lambda table, i: table[i], args, target="h200").plan
    assert plan.estimated_us <= 1.1 * taken.estimated_us
    table, i = torch.randn(9, 5, generator=RANDOM), torch.tensor([0, 8, 3, 3])
    c = eqfuse.optimize(f, (table, i), target="h200")
    for got in (c.simulate(table, i), c.interpret(table, i)):
        torch.testing.assert_close(got.float(), f(table, i))


def test_the_loss_of_one_hot_labels_costs_what_that_of_labels_costs():
    args = meta(1024, 32000), meta(1024, dtype=torch.int64)

    def by_product(x, y):
        return -(functional.one_hot(y, 32000) * torch.log_softmax(x.float(), -1)).sum(-1).mean()

    def by_index(x, y):
        return functional.cross_entropy(x.float(), y)

    ours, other = (eqfuse.optimize(f, args, target="h200").plan.estimated_us for f in (by_product, by_index))
    assert ours <= 1.1 * other


def test_what_is_masked_by_a_factor_is_zero():
    """Also where it is not finite: said in docs/limits.md."""
    x = torch.tensor([[1.0, float("inf"), 2.0], [float("nan"), 3.0, 4.0]])
    keep = torch.tensor([[True, False, True], [False, True, True]])

    def f(x, keep):
        return (x * keep.float()).sum(-1)

    c = eqfuse.optimize(f, (x, keep), target="h200")
    torch.testing.assert_close(c.interpret(x.nan_to_num(0.0, 0.0), keep), torch.tensor([3.0, 7.0]))
    found = c.interpret(x, keep)
    assert all(a == b or a.isnan() for a, b in zip(found, torch.tensor([3.0, 7.0]), strict=True)), "the sum of what is kept, or torch's NaN"
