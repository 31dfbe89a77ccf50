"""Index expressions simplify when they are built; what they mean does not change."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eqfuse.ir.index import Axis, index

A, B, C = Axis("a", 7), Axis("b", 4), Axis("c", 6)
NUMBERS = st.integers(1, 48)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["+", "-"]), st.sampled_from([A, B, C]), NUMBERS),
    st.tuples(st.sampled_from(["//", "%", "*", "+ const"]), st.none(), NUMBERS),
)


@given(st.lists(STEPS, min_size=1, max_size=8))
def test_simplified_or_not_it_is_the_same_number(steps):
    """Built step by step, and computed step by step on every position; divisions on what is not negative, as in kernels."""
    at = dict(zip((A, B, C), np.meshgrid(*(np.arange(x.size) for x in (A, B, C)), indexing="ij"), strict=True))
    expr, value = index(A), at[A]
    for op, axis, n in steps:
        if op in ("+", "-"):
            sign = 1 if op == "+" else -1
            expr, value = expr + index(axis) * (sign * n), value + at[axis] * (sign * n)
        elif op == "+ const":
            expr, value = expr + n, value + n
        elif op == "*":
            expr, value = expr * n, value * n
        else:
            least = int(value.min())
            if least < 0:
                expr, value = expr - least, value - least
            expr, value = (expr // n, value // n) if op == "//" else (expr % n, value % n)
    found = np.broadcast_to(expr.evaluate(at), value.shape)
    np.testing.assert_array_equal(found, value)
    lo, hi = expr.bounds()
    assert lo <= value.min() and hi >= value.max()


def test_a_block_does_not_depend_on_what_is_finer_than_its_parts():
    channel, pixel = Axis("c", 320), Axis("p", 4096)
    flat = index(channel) * 4096 + pixel
    assert str(flat // 40960) == str(index(channel) // 10)
    assert (flat // 40960).axes() == {channel}
    assert str(flat % 40960) == str(index(channel) % 10 * 4096 + pixel)
    assert (flat + 1) // 40960 != index(channel) // 10  # the last pixel of a channel is in the next one then


def test_what_a_reshape_took_apart_another_one_puts_together():
    c, p = Axis("c", 320), Axis("p", 4096)
    assert index(c) // 10 * 10 + index(c) % 10 == index(c)
    assert (index(p) // 64 % 8) * 64 + index(p) % 64 == index(p) % 512
    flat = index(c) * 4096 + p
    assert flat // 7 * 7 + flat % 7 + 5 == flat + 5
    assert (index(p) // 64) * 64 + index(p) % 32 != index(p)
