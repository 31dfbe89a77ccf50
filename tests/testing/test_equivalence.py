"""``assert_equivalent`` accepts what is equal up to rounding, and nothing else."""

import math

import pytest
import torch

import eqfuse
from eqfuse.errors import AccuracyError
from eqfuse.testing import assert_equivalent

G = torch.Generator().manual_seed(0)
X = torch.randn(16, 33, generator=G)
LABELS = torch.randint(0, 33, (16,), generator=G)


def softmax(x):
    return torch.softmax(x, -1)


def softmax_by_hand(x):
    """In float32, rounded once: as a kernel does it."""
    y = x if x.dtype == torch.float64 else x.float()
    e = torch.exp(y - y.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def loss(x, labels):
    return torch.nn.functional.cross_entropy(x, labels, reduction="none")


def loss_by_hand(x, labels):
    return torch.logsumexp(x, -1) - x.gather(1, labels[:, None])[:, 0]


def refused(f, g, args, text, **options):
    with pytest.raises(AccuracyError, match=text):
        assert_equivalent(f, g, args, **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_equal_functions(dtype):
    x = X.to(dtype)
    assert_equivalent(softmax, softmax_by_hand, (x,))
    assert_equivalent(softmax, softmax, (x,), factor=1.0, roundings=0.0)
    assert_equivalent(loss, loss_by_hand, (x, LABELS))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_generated_kernels(dtype):
    x = X.to(dtype)
    for fn, args in ((softmax, (x,)), (loss, (x, LABELS))):
        assert_equivalent(fn, eqfuse.optimize(fn, args, target="h200").interpret, args)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_wrong_values(dtype):
    x = X.to(dtype)
    refused(softmax, lambda x: softmax(x * 1.1), (x,), r"output 0: error .* exceeds .*worst at \(\d+, \d+\)")
    refused(loss, lambda x, t: loss_by_hand(x, (t + 1) % 33), (x, LABELS), "output 0: error")

    def one_element(x):
        y = softmax(x).clone()
        y[3, 5] += 0.05
        return y

    refused(softmax, one_element, (x,), r"worst at \(3, 5\)")


def test_lost_digits():
    """Right in the mathematics, wrong in the numbers."""
    x = X + 1000

    def var(x):
        return x.var(-1, correction=0)

    refused(var, lambda x: x.square().mean(-1) - x.mean(-1).square(), (x,), "exceeds")
    assert_equivalent(var, lambda x: x.square().mean(-1) - x.mean(-1).square(), (x,), roundings=1e7)


def test_not_finite():
    big = X * 1e4
    refused(softmax, lambda x: x.exp() / x.exp().sum(-1, keepdim=True), (big,), "not finite where they should be")
    refused(softmax, lambda x: softmax(x) * math.nan, (X,), "528 elements are not finite where they should be")
    masked = X.clone()
    masked[2] = -math.inf
    assert_equivalent(softmax, softmax_by_hand, (masked,))
    refused(softmax, lambda x: softmax(x).nan_to_num(), (masked,), r"33 elements are finite where they should not be; first at \(2, 0\)")
    refused(lambda x: x.log(), lambda x: x.log().nan_to_num(neginf=-1e9), (X.relu(),), "finite where they should not be")
    refused(lambda x: x.log(), lambda x: -x.log(), (torch.zeros(3),), "not finite where they should be")


def test_where_the_first_function_overflows_the_second_may_be_right():
    x = torch.full((4,), 300.0, dtype=torch.float16)

    def half_square(x):
        return (x * x) * 0.5

    assert not half_square(x).isfinite().any()
    assert_equivalent(half_square, lambda x: (x * 0.5) * x, (x,))
    refused(lambda x: (x * 0.5) * x, half_square, (x,), "4 elements are not finite")


def test_shapes_types_and_numbers_of_outputs():
    refused(softmax, lambda x: softmax(x).T, (X,), r"output 0 has shape \(33, 16\), not \(16, 33\)")
    refused(softmax, lambda x: softmax(x)[None], (X,), r"shape \(1, 16, 33\)")
    refused(softmax, lambda x: softmax(x).half(), (X,), r"output 0 has type torch\.float16, not torch\.float32")
    refused(softmax, lambda x: (softmax(x), x), (X,), "the second function has 2 outputs, the first 1")
    refused(lambda x: (x * 2, x + 1), lambda x: x * 2, (X,), "the second function has 1 output, the first 2")


def test_tuples_and_dicts():
    def both(x):
        return softmax(x), torch.logsumexp(x, -1)

    assert_equivalent(both, lambda x: (softmax_by_hand(x), torch.logsumexp(x, -1)), (X,))
    assert_equivalent(lambda x: {"p": softmax(x)}, lambda x: {"p": softmax_by_hand(x)}, (X,))
    refused(both, lambda x: (softmax(x), torch.logsumexp(x, -1) + 0.1), (X,), "output 1: error")


def test_integers_and_truth_values_are_exact():
    big = LABELS + 2**60
    assert_equivalent(lambda t: t * 2, lambda t: t + t, (LABELS,))
    refused(lambda t: t + 1, lambda t: torch.where(t == t[0], t, t + 1), (big,), "are not equal")
    assert_equivalent(lambda x: x > 0, lambda x: ~(x <= 0), (X,))
    refused(lambda x: x > 0, lambda x: x > 0.5, (X,), "are not equal")


def test_empty_outputs():
    assert_equivalent(softmax, softmax_by_hand, (X[:0],))
