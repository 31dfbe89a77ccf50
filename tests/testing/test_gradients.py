"""Gradients: of some arguments, at kinks, where there are none, and of functions whose backward works in place."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from eqfuse.errors import AccuracyError, EmptyProgramError, OptionError
from eqfuse.testing import assert_equivalent, sample, size, tensors
from eqfuse.testing.judge import Difference, Oracle, Result, judge

N = size("N", 1, 12)
X, Y = (tensors(torch.float32, ("B", N)) for _ in range(2))
TIES = tensors(torch.float32, (3, N), values=("ties", "zeros", "equal"))


def refused(f, g, args, said, **options):
    with pytest.raises(AccuracyError, match=f"(?s){said}"):
        assert_equivalent(f, g, args, **{"gradients": True, "shrink_seconds": 1.0, "examples": 30, **options})


def autograd(forward, backward):
    """A function of tensors with a backward of its own: ``backward(gy, *args)``."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.save_for_backward(*args)
            return forward(*args)

        @staticmethod
        def backward(ctx, gy):
            return backward(gy, *ctx.saved_tensors)

    return Made.apply


def distance(p, q):
    return (p - q).abs().sum(-1)


# ---- which arguments ----


def test_arguments_without_a_gradient_are_named():
    half = autograd(distance, lambda gy, p, q: (gy[..., None] * (p - q).sign(), None))
    refused(distance, half, [X, Y], r"argument 1: the second function gives no gradient \(None\).*leave it out with gradients=\[0\]")
    for chosen in ([0], ["p"], (-2,), {0}):
        assert_equivalent(distance, half, [X, Y], gradients=chosen, examples=10)
    other_way = autograd(lambda p, q: p * 2, lambda gy, p, q: (2 * gy, gy))
    refused(lambda p, q: p * 2, other_way, [X, Y], "gradient of argument 1: absolute error")
    zeros = autograd(lambda p, q: p * 2 + 0 * q, lambda gy, p, q: (2 * gy, None))
    assert_equivalent(lambda p, q: p * 2 + 0 * q.clamp(-1, 1), zeros, [X, Y], gradients=True, examples=10)  # None is 0


def test_left_out_arguments_are_not_looked_at():
    wrong = autograd(lambda p, q: p * q, lambda gy, p, q: (gy * q, gy))
    refused(torch.mul, wrong, [X, Y], "gradient of argument 1: error")
    assert_equivalent(torch.mul, wrong, [X, Y], gradients=[0], examples=10)
    refused(torch.mul, wrong, [X, Y], r"assert_equivalent\(torch.mul.*gradients=\[1\]\)", gradients=[1])


@pytest.mark.parametrize("gradients", [[2], ["z"], "p", [True], 1, [0.5], torch.ones(1)])
def test_arguments_that_there_are_not(gradients):
    with pytest.raises(OptionError, match=r"gradients.*(?s:.)*try: gradients=True, or the positions or names"):
        assert_equivalent(distance, distance, [X, Y], gradients=gradients)


def test_tensors_inside_of_arguments_have_gradients():
    x, w = torch.randn(3), {"w": torch.randn(3), "n": 2}

    def f(x, p):
        return x * p["w"] ** p["n"]

    assert_equivalent(f, lambda x, p: x * p["w"] * p["w"], (x, w), gradients=True)
    refused(f, lambda x, p: x * p["w"] * p["w"].detach(), (x, w), r"gradient of argument 1\['w'\]: error")


def test_no_gradient_is_no_comparison():
    with pytest.raises(EmptyProgramError, match="no gradient was compared"):
        assert_equivalent(lambda x: x.detach() * 2, lambda x: x * 2, [X], gradients=True, examples=3)
    with pytest.raises(EmptyProgramError, match="no gradient was compared"):
        assert_equivalent(lambda x: x * 2, lambda x: x * 2, (torch.arange(3),), gradients=True)


def test_outputs_that_the_first_detaches_are_left_out():
    def f(x):
        return x * 2, x.sum().detach()

    assert_equivalent(f, lambda x: (x + x, x.sum()), [X], gradients=True, examples=10)
    assert_equivalent(f, lambda x: (x + x, x.sum().detach()), [X], gradients=True, examples=10)
    refused(lambda x: (x * 2, x.sum()), f, [X], "output 1 has no gradient.*let the first function return it detached")


# ---- kinks ----


def relu_by(at_zero):
    return autograd(torch.relu, lambda gy, x: gy * torch.where(x == 0, at_zero, (x > 0).float()))


@pytest.mark.parametrize("at_zero", [0.0, 0.5, 1.0])
def test_every_subgradient_is_right(at_zero):
    assert_equivalent(torch.relu, relu_by(at_zero), [TIES], gradients=True, examples=20)


@pytest.mark.parametrize("at_zero", [-0.1, 1.1, torch.inf, torch.nan])
def test_what_is_no_subgradient_is_wrong(at_zero):
    said = (
        "the first function has a kink, and any gradient from" if np.isfinite(at_zero) else "not finite where it should be|are not finite"
    )
    refused(torch.relu, relu_by(at_zero), [TIES], said)


def test_beside_the_kink_nothing_is_forgiven():
    refused(torch.relu, autograd(torch.relu, lambda gy, x: gy * 0.5), [TIES], "gradient of argument 0: error")


@pytest.mark.parametrize(("moved", "right"), [(1e-8, True), (4e-13, False)])
def test_what_cancels_is_no_kink(moved, right):
    """A gradient of nothing but rounding errors differs a little at points beside; under errors of float32 it moves as much more, unless
    it jumps."""

    def one(x, dtype=torch.float64):
        return Result("gradient of argument 0", torch.tensor([x, 0.0], dtype=dtype), argument=0)

    exact = [Oracle(one(6e-13).value, one(6e-13).value)]
    found = judge_of(
        one(5e-9, torch.float32), one(0.0, torch.float32), exact, lambda _: [[one(moved)]], lambda _: [[one(-5e-13)], [one(5e-13)]]
    )
    assert (found is None) == right, found


def judge_of(mine, theirs, exact, nudged, beside):
    """What the judge complains of."""
    try:
        judge([mine], [theirs], exact, 2.0, 2.0, nudged, beside)
    except Difference as d:
        return d.message
    return None


def first_of(x):
    return torch.zeros_like(x).scatter(-1, x.argmax(-1, keepdim=True), 1.0)


def test_maxima_of_equal_numbers():
    def f(x):
        return x.amax(-1)

    shared = {
        "first": lambda gy, x: gy[..., None] * first_of(x),
        "last": lambda gy, x: gy[..., None] * first_of(x.flip(-1)).flip(-1),
        "each": lambda gy, x: gy[..., None] * (x == x.amax(-1, keepdim=True)),
    }
    for way in ("first", "last"):
        assert_equivalent(f, autograd(f, shared[way]), [TIES], gradients=True, examples=20)
    refused(f, autograd(f, shared["each"]), [TIES], "whichever way the gradient is shared out, it adds up to .* along axis 1, and not to")


def softer(gy, x):
    return gy[..., None] * torch.softmax(3 * x, -1)


@pytest.mark.parametrize("elsewhere", [lambda gy, x: torch.nn.functional.pad(gy[..., None], (5, 0)), softer])
def test_elements_that_are_no_maximum_have_no_part_in_its_gradient(elsewhere):
    x = torch.tensor([[1.0, 1.0, 0.5, 0.0, -1.0, 0.25], [2.0, 0.0, 2.0, 1.5, 1.0, 1.0], [0.0, 0.0, 0.0, -1.0, -1.0, -0.5]])
    refused(lambda x: x.amax(-1), autograd(lambda x: x.amax(-1), elsewhere), (x,), "gradient of argument 0: .*has a kink there")


def test_overlapping_windows_may_share_out_their_gradients_in_any_way():
    def pool(x):
        return torch.nn.functional.max_pool1d(x[:, None], 3, stride=2, padding=1)[:, 0]

    assert_equivalent(pool, lambda x: pool(x.flip(-1)).flip(-1), (torch.zeros(3, 5),), gradients=True)


def test_a_tie_in_one_row_excuses_no_gradient_of_another():
    x = torch.tensor([[1.0, 1.0, 0.5], [0.25, 1.0, 2.0]])
    rows = torch.tensor([[1.0], [0.7]])
    off = autograd(lambda x: x.amax(-1), lambda gy, x: gy[..., None] * first_of(x) * rows)
    refused(lambda x: x.amax(-1), off, (x,), "gradient of argument 0: ")


def test_distances_where_both_are_equal():
    for at_zero in (-1.0, 0.0, 1.0):

        def backward(gy, p, q, at_zero=at_zero):
            way = gy[..., None] * torch.where(p == q, at_zero, (p - q).sign())
            return way, -way

        assert_equivalent(distance, autograd(distance, backward), [TIES, TIES], gradients=True, examples=20)


def test_a_tie_in_one_row_hides_nothing_in_another():
    """The first row has a kink, whose gradient jumps by 2; an error of 1e-3 in the second is one all the same."""
    x = torch.tensor([[0.0, 1.0], [1.0, 2.0]])
    off = autograd(torch.abs, lambda gy, x: gy * torch.where(x == 2, 1.001, x.sign()))
    refused(torch.abs, off, (x,), r"gradient of argument 0: error .* worst at \(1, 1\)")


# ---- in place ----


def test_a_backward_may_write_to_what_it_saved():
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def backward(ctx, gy):
            return ctx.x.detach().mul_(2).mul_(gy)

    x = sample(torch.float32, (3, 5))
    kept = x.clone()
    found = assert_equivalent(torch.square, InPlace.apply, (x,), gradients=True)
    assert torch.equal(x, kept)
    assert found.notes == ("the backward of the second function writes to argument 0 (it was put back)",)
    assert not found.warnings and found.examples == 1

    far = sample(torch.float32, (3, 5), layout="huge")  # of which no whole storage is compared
    kept = far.clone()
    assert_equivalent(torch.square, InPlace.apply, (far,), gradients=True)
    assert torch.equal(far, kept)

    class Wrong(InPlace):
        @staticmethod
        def backward(ctx, gy):
            return ctx.x.detach().mul_(gy)

    refused(torch.square, Wrong.apply, (x,), "gradient of argument 0: error")


def test_a_forward_may_not_with_gradients_either():
    def forward(x):
        y = x * 2
        x.detach().add_(1)
        return y

    refused(lambda x: x * 2, forward, (torch.randn(3),), "the second function changed argument 0 in place")


def test_a_backward_may_write_to_its_output():
    made = []

    class Sigmoid(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.sigmoid(x)
            made.append(y)
            return y

        @staticmethod
        def backward(ctx, gy):
            y = made.pop().detach()
            return y.mul_(1 - y).mul_(gy)

    assert_equivalent(torch.sigmoid, Sigmoid.apply, (torch.randn(4),), gradients=True)


class SmoothedCrossEntropy(torch.autograd.Function):
    """As kernels have it: ``p - (1 - s) - s / n`` in float32, where ``p`` is 1 for a vocabulary of one word."""

    @staticmethod
    def forward(ctx, x, t, wrong):
        ctx.save_for_backward(x, t)
        ctx.wrong = wrong
        return functional.cross_entropy(x, t, label_smoothing=0.1, reduction="none")

    @staticmethod
    def backward(ctx, g):
        x, t = ctx.saved_tensors
        s = torch.tensor(0.1, dtype=torch.float32)
        hot = functional.one_hot(t, x.shape[-1]).to(x.dtype)
        return (x.softmax(-1) - hot * (1 - s) - s / x.shape[-1] + ctx.wrong) * g[:, None], None, None


def smoothed(x, t):
    return functional.cross_entropy(x, t, label_smoothing=0.1, reduction="none")


@pytest.mark.parametrize("words", [1, 2, 7])
def test_terms_that_cancel_inside_of_an_operation(words):
    """The gradient of a log-softmax of one number is exactly 0, of terms of the size of the cotangent."""
    x, t = torch.randn(4, words, generator=torch.Generator().manual_seed(0)), torch.zeros(4, dtype=torch.int64)
    assert_equivalent(smoothed, lambda x, t: SmoothedCrossEntropy.apply(x, t, 0.0), (x, t), gradients=True)
    with pytest.raises(AccuracyError, match="gradient of argument 0"):
        assert_equivalent(smoothed, lambda x, t: SmoothedCrossEntropy.apply(x, t, 1e-5), (x, t), gradients=True)
