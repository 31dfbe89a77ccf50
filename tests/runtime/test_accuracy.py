"""Errors of eager code in other orders of its sums: which axes may move, and what the report makes of them."""

import pytest
import torch

import eqfuse
from eqfuse.errors import AccuracyError
from eqfuse.runtime.accuracy import OutputError, free_axes, reordered

G = torch.Generator().manual_seed(0)
A, B, X = torch.randn(4, 6, generator=G), torch.randn(6, 5, generator=G), torch.randn(8, 8, generator=G)
LABELS = torch.tensor([0, 3, 5, 1])


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6))

    def forward(self, x):
        return (x * self.weight).sum(-1)


@pytest.mark.parametrize(
    ("fn", "args", "lengths"),
    [
        (lambda a, b: a @ b, (A, B), [6]),
        (lambda a: torch.softmax(a, -1), (A,), [6]),  # an axis of the output goes back into its order
        (lambda a: a.exp(), (A,), []),  # nothing is summed
        (lambda a: a.sum(0) + torch.arange(6), (A,), [4]),
        (lambda a: (a * torch.arange(6)).sum(-1), (A,), []),  # by position
        (lambda a: a[:, :5].sum(-1), (A,), []),
        (lambda a: (a * a.flip(-1)).sum(-1), (A,), []),
        (lambda a, y: torch.nn.functional.cross_entropy(a, y, reduction="none"), (A, LABELS), []),
        (lambda x, y: x @ y.T, (X, X), [8]),  # one tensor passed twice, summed over the same dimension
        (lambda x, y: x @ y, (X, X), []),  # and over different ones
        (lambda x: x @ x.T, (X,), [8]),
        (Scaled(), (A,), []),  # a parameter is no argument
        (lambda x: (x * X).sum(-1), (X,), []),  # passed and captured
    ],
)
def test_axes_whose_order_means_nothing(fn, args, lengths):
    compiled = eqfuse.optimize(fn, args, target="h200", licence="exact")
    assert [a.size for a in free_axes(compiled, args, {})] == lengths


def test_other_orders_are_the_same_program():
    """In float32 the outputs differ by rounding, and where they stand is not changed."""
    args = (torch.randn(4, 600, generator=G),)
    compiled = eqfuse.optimize(lambda a: (torch.softmax(a, -1), a.sum(-1)), args, target="h200")
    eager = compiled.in_order(compiled.eager(*args))
    found = list(reordered(compiled, args, {}, 5))
    assert len(found) == 5
    for outputs in found:
        for x, y in zip(outputs, eager, strict=True):
            torch.testing.assert_close(x, y)
    assert len({tuple(y.tolist()) for _, y in found}) > 1, "sums are added up in other orders"


def test_keyword_arguments_and_programs_in_terms():
    x = torch.randn(4, 300, generator=G)
    compiled = eqfuse.optimize(lambda x, *, shift: (x + shift).sum(-1), (x,), kwargs={"shift": x[0]}, target="h200")
    (row,) = compiled.accuracy(x, shift=x[0], orders=3).outputs
    assert len(row.reordered) == 3
    written = eqfuse.optimize(compiled.program, [x, x[0]], target="h200")
    (row,) = written.accuracy(x, x[0], orders=3).outputs
    assert len(row.reordered) == 3
    assert max(row.reordered) < 1e-5


def test_a_report_with_orders():
    x = torch.randn(9, 300, generator=G)
    compiled = eqfuse.optimize(lambda x: x.sum(-1), (x,), target="h200")
    (plain,) = compiled.accuracy(x).outputs
    report = compiled.accuracy(x, orders=4, factor=2.0)
    (row,) = report.outputs
    assert plain.reordered == ()
    assert (row.ours, row.eager) == (plain.ours, plain.eager)
    assert row == compiled.accuracy(x, orders=4).outputs[0], "the orders are the same ones every time"
    assert "in other orders" in str(report)
    with pytest.raises(AccuracyError):
        compiled.accuracy(x, orders=4, factor=1e-9)


def test_the_largest_of_eagers_errors_is_the_bar():
    row = OutputError("y", "float32", 5e-6, 1e-6, 0, 0)
    assert not row.within(2.0)
    assert OutputError("y", "float32", 5e-6, 1e-6, 0, 0, (2e-6, 3e-6)).within(2.0)
    assert not OutputError("y", "float32", 5e-6, 1e-6, 0, 0, (2e-6,)).within(2.0)
    assert not OutputError("y", "float32", 5e-6, 1e-6, 1, 0, (1.0,)).within(2.0)
    assert not OutputError("y", "float32", 5e-6, 1e-6, 0, 0, (float("inf"),)).within(2.0), "an order in which eager overflows is no bar"
