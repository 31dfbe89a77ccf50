"""logsumexp by the largest element: of infinite ones what torch says, and one sum for it and for a softmax of the same values."""

import numpy as np
import pytest
import torch

from eqfuse.frontends import trace
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Reduce

INF = float("inf")
NAN = float("nan")
ROWS = torch.tensor([[1, 2, -3], [-INF] * 3, [INF, 0, 1], [INF, -INF, 2], [NAN, 1, INF], [-INF, 800, 5], [-900, -901, -INF]])


@pytest.mark.parametrize("dim", [-1, 0, (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_rows_with_infinities(dim, keepdim):
    def f(x):
        return torch.logsumexp(x, dim, keepdim)

    (found,) = evaluate(trace(f, (ROWS,)).program, {"x": ROWS.numpy()}).values()
    wanted = f(ROWS.double()).numpy()
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-12)


def test_a_softmax_has_the_same_sum():
    program = trace(lambda x: (torch.softmax(x, -1), torch.logsumexp(x, -1)), (ROWS,)).program
    assert sorted(t.monoid for t in program.terms() if isinstance(t, Reduce)) == ["max", "sum"]
