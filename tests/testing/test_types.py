"""A second function of another floating-point type: what is wrong in numbers is said first, in any example, and the type last."""

import pytest
import torch

from eqfuse.errors import AccuracyError
from eqfuse.testing import assert_equivalent, size, tensors

X = tensors(torch.float16, (size("rows", 1, 4), size("columns", 2, 20)), values="normal")
W = torch.float32


def promotes(x, w):
    return x * w  # float16 and float32: float32


def narrow(x, w):
    return (x.float() * w).half()


def forgets_the_last_column(x, w):
    out = narrow(x, w)
    if x.shape[1] > 15:
        out[:, -1] = 0
    return out


def truncates(x, w):
    wide = x.float() * w
    return (wide.view(torch.int32) & ~0x1FFF).view(torch.float32).half()


def arguments():
    return [X, tensors(W, (size("columns", 2, 20),), values="normal")]


def test_the_type_is_said_where_nothing_else_is_wrong():
    with pytest.raises(AccuracyError, match=r"output 0 has type torch\.float16, not torch\.float32; what was compared is right"):
        assert_equivalent(promotes, narrow, arguments(), examples=20)
    assert_equivalent(lambda x, w: promotes(x, w).half(), narrow, arguments(), examples=5)


@pytest.mark.parametrize(("wrong", "said"), [(forgets_the_last_column, "output 0: error"), (truncates, "truncated to float16")])
def test_the_type_hides_nothing(wrong, said):
    with pytest.raises(AccuracyError, match=said):
        assert_equivalent(promotes, wrong, arguments(), examples=40)


def test_a_wider_type_too():
    with pytest.raises(AccuracyError, match=r"has type torch\.float32, not torch\.float16; what was compared is right"):
        assert_equivalent(narrow, promotes, arguments(), examples=5)
    with pytest.raises(AccuracyError, match=r"output 0: (absolute )?error"):
        assert_equivalent(narrow, lambda x, w: promotes(x, w) + 0.01, arguments(), examples=5)


def test_gradients_are_compared_too():
    with pytest.raises(AccuracyError, match="gradient of argument 1"):
        assert_equivalent(promotes, lambda x, w: narrow(x, (w + w.detach()) / 2), arguments(), gradients=True, examples=5)


def test_an_integer_for_a_fraction_is_said_at_once():
    with pytest.raises(AccuracyError, match=r"output 0 has type torch\.int64, not torch\.float32"):
        assert_equivalent(promotes, lambda x, w: promotes(x, w).long(), arguments(), examples=5)
