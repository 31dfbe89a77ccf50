"""Names that a user gives arguments and sizes are never those that a kernel needs for something else."""

import pytest
import torch

import eqfuse


def like_a_stride(x, x_stride_cols):
    return torch.softmax(x_stride_cols * x, -1)


def like_a_length(x, N_cols):
    return torch.softmax(N_cols * x, -1)


def like_a_tile(x, T_cols):
    return torch.softmax(T_cols * x, -1)


def like_a_pointer(N_n, n):
    _, n_ptr = N_n.shape
    return torch.softmax(N_n.reshape(-1, n_ptr) * n, -1)


def like_another_pointer(x, x_ptr):
    return torch.softmax(x * x_ptr, -1)


@pytest.mark.parametrize("f", [like_a_stride, like_a_length, like_a_tile, like_a_pointer, like_another_pointer], ids=lambda f: f.__name__)
def test_arguments_called_like_parameters(f):
    """Read out of a strided tensor, where a stride that is taken for the argument is another number."""
    x, n = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)).T, torch.tensor(2)
    c = eqfuse.optimize(f, (x, n), target="h200")
    torch.testing.assert_close(c.interpret(x, n), f(x, n))
