"""Convolutions of all kinds as sums over windows and channels, by the reference in float64."""

import warnings
from dataclasses import dataclass

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

from eqfuse.ir.terms import Reduce

from .test_corpus import agree

warnings.filterwarnings("ignore", "Using padding='same'", UserWarning)
RANDOM = torch.Generator().manual_seed(0)
PLAIN, TRANSPOSED = (F.conv1d, F.conv2d, F.conv3d), (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def randn(*shape):
    return torch.randn(*shape, generator=RANDOM, dtype=torch.float64)


@dataclass(frozen=True)
class Window:
    """One dimension: its length, and of the kernel its own, stride, padding, dilation and what is added to a transposed result."""

    n: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    more: int = 0

    @property
    def reach(self):
        return self.dilation * (self.kernel - 1) + 1

    def length(self, transposed):
        if transposed:
            return (self.n - 1) * self.stride - 2 * self.padding + self.reach + self.more
        return (self.n + 2 * self.padding - self.reach) // self.stride + 1


@st.composite
def windows(draw):
    n, kernel, stride, dilation = (draw(st.integers(1, most)) for most in (6, 4, 4, 3))
    return Window(n, kernel, stride, draw(st.integers(0, 7)), dilation, draw(st.integers(0, max(stride, dilation) - 1)))


def checked(windows, transposed, groups, channels, batch=(2,), bias=True, last=False):
    """``channels``: those of a group that are read and made.  ``last``: they are neighbours in memory."""
    k, (inner, outer) = len(windows), channels
    x = randn(*batch, groups * inner, *(w.n for w in windows))
    if last and batch:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    sides = (groups * inner, outer) if transposed else (groups * outer, inner)
    weight, added = randn(*sides, *(w.kernel for w in windows)), randn(groups * outer) if bias else None
    stride, padding, dilation, more = ([getattr(w, a) for w in windows] for a in ("stride", "padding", "dilation", "more"))

    def f(x, weight, added):
        if transposed:
            return TRANSPOSED[k - 1](x, weight, added, stride, padding, more, groups, dilation)
        return PLAIN[k - 1](x, weight, added, stride, padding, dilation, groups)

    return agree(f, (x, weight, added)).program


@settings(max_examples=150, deadline=None)
@given(
    st.lists(windows(), min_size=1, max_size=3), st.booleans(), st.sampled_from([1, 1, 2, 3]),
    st.tuples(st.integers(1, 3), st.integers(1, 3)), st.sampled_from([(), (1,), (2,)]), st.booleans(), st.booleans(),
)  # fmt: skip
@example([Window(3, 2, stride=4)], False, 1, (2, 3), (2,), True, False)  # a stride longer than the kernel
@example([Window(3, 2, stride=4)], True, 1, (2, 3), (2,), True, False)
@example([Window(1, 3, padding=7)], False, 1, (2, 3), (2,), True, False)  # more padding than input, windows without any of it
@example([Window(4, 3, 2, 1, 1, 1), Window(2, 4, 2, 1)], True, 2, (2, 3), (2,), True, True)
@example([Window(3, 3, 4, 2, 2), Window(1, 2, 2, 0, 2)], True, 1, (1, 2), (1,), False, False)  # phases that no window hits
def test_what_torch_computes(windows, transposed, groups, channels, batch, bias, last):
    assume(all(w.length(transposed) > 0 for w in windows))
    checked(windows, transposed, groups, channels, batch, bias, last)


def axes_of_sums(program):
    """The lengths of the axes that the sums of a program bind, the innermost first."""
    return [t.axis.size for t in program.terms() if isinstance(t, Reduce)]


def test_the_longest_sum_is_innermost():
    """That over channels mostly; over a row of the window where an image has three."""
    assert axes_of_sums(checked([Window(5, 3), Window(6, 2)], False, 1, (7, 3))) == [7, 3, 2]
    assert axes_of_sums(checked([Window(5, 3), Window(8, 5)], False, 1, (2, 3))) == [5, 3, 2]
    assert axes_of_sums(checked([Window(5, 3)], False, 4, (7, 3))) == [7, 3]
    assert axes_of_sums(checked([Window(5, 3)], False, 4, (1, 3))) == [3]
    assert axes_of_sums(checked([Window(5, 1)], False, 1, (7, 3))) == [7]


@pytest.mark.parametrize(
    ("window", "reads"),
    [(Window(8, 4, 2, 1), 2), (Window(8, 2, 2), 1), (Window(8, 3, 2, 1, more=1), 2), (Window(8, 5, 1, 2), 5), (Window(8, 6, 4, 1, 2), 3)],
    ids=["even", "side by side", "odd", "no stride", "dilated"],
)
def test_a_transposed_one_multiplies_what_counts(window, reads):
    """At each position a stride'th of the window, whose phases are an axis of the result."""
    program = checked([window], True, 1, (7, 3))
    assert axes_of_sums(program) == [7, *([reads] if reads > 1 else [])]
    (output,) = program.outputs
    lengths = [a.size for a in output.term.axes]
    assert window.stride == 1 or window.length(True) % window.stride or window.stride in lengths


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [(2, 1), "same", "valid"])
def test_paddings_of_modules(mode, padding):
    x = randn(2, 4, 7, 6)
    for dilation, stride in ((2, 1), (1, 1), (1, 2)):
        if padding != "same" or stride == 1:
            module = nn.Conv2d(4, 6, (2, 3), stride, padding, dilation, 2, padding_mode=mode, dtype=torch.float64)
            agree(lambda x, m=module: m(x), (x,))


def test_spellings():
    x, w, b = randn(2, 4, 7), randn(6, 4, 3), randn(6)
    how = [2], [1], [1], False, [0], 1
    agree(lambda x, w, b: torch.conv_tbc(x, w, b, 1), (randn(7, 2, 4), randn(3, 4, 6), b))
    agree(lambda x, w, b: torch.convolution(x, w, b, *how), (x, w, b))
    agree(lambda x, w, b: torch._convolution(x, w, b, *how, False, False, True, True), (x, w, b))
    agree(lambda x, w: F.conv1d(x, w, padding="same"), (x, w))
    agree(lambda x, w: F.conv1d(x, w), (torch.randint(5, (1, 2, 7)), torch.randint(5, (3, 2, 3))))
    agree(lambda x, w: F.conv1d(x, w), (randn(0, 4, 7), w))
    module = nn.Sequential(nn.Conv1d(4, 6, 3, padding="same"), nn.ConvTranspose1d(6, 4, 2, 2)).double()
    agree(torch.export.export(module, (x,)).module(), (x,))


def test_between_others():
    """Of a concatenation, of a transposed one whose results are phases, and of groups whose channels are one dimension."""
    x, w, v = randn(2, 4, 5, 6), randn(4, 6, 4, 4), randn(3, 6, 3, 3)
    agree(lambda x, v: F.conv2d(torch.cat([x.sin(), x[:, 1:3]], 1), v, padding=1), (x, v))
    agree(lambda x, w, v: F.conv2d(F.conv_transpose2d(x, w, stride=2, padding=1).relu(), v, padding=1).mean((2, 3)), (x, w, v))
    agree(lambda x, v: F.conv2d(F.conv2d(x, v[:, :2].repeat(2, 1, 1, 1), groups=2, padding=1), v, padding=1).softmax(1), (x, v))
    blocks = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 2, 2, 2)
    module = nn.Sequential(*blocks).double().eval()
    agree(lambda x: module(x), (x,))


@pytest.mark.parametrize(("stride", "dilation"), [(2, 1), (2, 2), (4, 1)])
def test_what_a_phase_does_not_multiply_makes_no_nan(stride, dilation):
    """An infinite input or weight is in the results of those positions alone at which they meet; away from the ends, where zeros do."""
    x, w, reach = randn(1, 2, 9), randn(2, 3, 3), 2 * dilation

    def f(x, w):
        return F.conv_transpose1d(x, w, stride=stride, dilation=dilation)[..., reach:-reach].nan_to_num(7.0, 8.0, 9.0)

    for spoiled in (x, w):
        spoiled[0, 1, 1] = float("inf")
        agree(f, (x, w))
        spoiled[0, 1, 1] = 1.0
