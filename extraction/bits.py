"""Sets of classes as numbers: bit c is class c.  Unions and differences of thousands of classes are single operations."""

from __future__ import annotations

from collections.abc import Iterator


def bits(x: int) -> Iterator[int]:
    """The positions of the ones of a number."""
    while x:
        low = x & -x
        yield low.bit_length() - 1
        x ^= low
