"""Which products with a reciprocal are printed as divisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.terms import Cast
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Let

I, J = b.axes(i=64, j=64)
X, Y, W = b.tensor("x", I, J), b.tensor("y", I, J), b.tensor("w", I)
HALF, WHOLE = b.tensor("h", I, J, dtype=dtypes.float16), b.tensor("n", I, dtype=dtypes.int64)
TOTAL = b.sum_over(J, b.abs_(X))


def done(*values, **options):
    """The operations of the lowered kernel that divide, in order."""
    p = b.program("k", **{f"o{n}": (v, tuple(a for a in (I, J) if a in v.axes)) for n, v in enumerate(values)})
    kernel = replace(kernel_from_program(p, {I: Role("grid", 4), J: Role("resident", 64)}), **options)
    return [s.op for s in lower(kernel).statements() if isinstance(s, Let) and s.op in ("recip", "quotient")]


def softmax(x):
    e = b.exp(x - b.maximum_over(J, x))
    return e / b.sum_over(J, e)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([X / Y], ["quotient"]),
        ([1.0 / X], ["recip"]),  # nothing is multiplied
        ([X / W], ["quotient"]),
        ([X / W, Y / W], ["quotient"] * 2),
        ([X / Y, 1.0 / Y], ["quotient", "recip"]),
        ([X / Y / W], ["quotient"] * 2),
        ([b.recip(X) * b.recip(Y)], ["recip", "quotient"]),
        ([X / b.maximum_over(J, b.abs_(X))], ["quotient"]),
        ([X / b.sqrt(b.sum_over(J, b.square(X)))], ["quotient"]),
        ([softmax(X)], ["recip"]),  # a term of its sum is 1
        ([softmax(X * Y + W)], ["recip"]),
        ([X / (TOTAL + 1e-6)], ["recip"]),
        ([X / b.sqrt(TOTAL + 1e-6)], ["recip"]),
        ([X / b.maximum(TOTAL, 1e-30)], ["recip"]),
        ([X / b.maximum(TOTAL, 1e-39)], ["quotient"]),
        ([X / Cast(dtypes.float32, WHOLE)], ["recip"]),  # 0, or at least 1
        ([HALF / b.maximum_over(J, b.abs_(HALF))], ["recip"]),  # float16 has nothing smaller than 2**-24
        ([HALF / W], ["quotient"]),
    ],
)
def test_what_divides(values, expected):
    assert done(*values) == expected


def test_one_reader_in_the_same_block_divides_by_what_is_not_tiny():
    assert done(b.sum_over(J, X) / (TOTAL + 1.0)) == ["quotient"]


def test_a_maximum_over_others_says_nothing_of_a_sum():
    """Where the largest element is not chosen, the terms that are may all be tiny."""
    e = b.select(b.eq(Y, 0.0), b.exp(X - b.maximum_over(J, X)), 0.0)
    assert done(e / b.sum_over(J, e)) == ["quotient"]
    e = b.exp(X - b.maximum_over(I, X))
    assert done(e / b.sum_over(J, e), roles={I: Role("resident", 64), J: Role("resident", 64)}) == ["quotient"]


def test_an_exact_kernel_makes_the_reciprocals_that_it_is_written_with():
    assert done(X / W, exact=True) == ["recip"]
