"""How a tensor lies in memory: the distances between neighbours along its dimensions, in elements.

Kernels take strides when they are called, so a plan is right for every layout; what it costs depends on one.  Along a dimension of stride 1
one instruction moves several elements, if the other strides keep them aligned; along one of stride 0 all positions are one element; and
memory moves whole sectors, so that every second column of a matrix takes as long as all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SECTOR_BYTES = 32  # the least that the L2 moves at a time (CUDA C++ best practices guide, section on coalesced access)
MOST_UNIT = 16  # elements; Triton finds out by itself whether this divides a length, of what is less kernels tell it (finish/parameters.py)

Strides = tuple[int, ...]


def contiguous_strides(shape: Sequence[int]) -> Strides:
    """Strides of a dense tensor, in elements; those of torch where it is empty."""
    return tuple(math.prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape)))


def known_strides(shape: Sequence[int], strides: Sequence[int]) -> Strides | None:
    """The strides, 0 where there is one position; ``None`` if the elements lie one after the other, as everything without strides does."""
    dense = contiguous_strides(shape)
    if 0 in shape or all(s == d for n, s, d in zip(shape, strides, dense, strict=True) if n > 1):
        return None
    return tuple(s if n > 1 else 0 for n, s in zip(shape, strides, strict=True))


def nearest_first(shape: Sequence[int], strides: Strides | None) -> list[tuple[int, int]]:
    """The dimensions along which memory changes, from neighbour to neighbour first, with their strides."""
    if strides is None:
        return [(d, s) for d, s in enumerate(contiguous_strides(shape)) if shape[d] > 1][::-1]
    return sorted(((d, s) for d, s in enumerate(strides) if s), key=lambda p: (p[1], -p[0]))


def footprint(shape: Sequence[int], strides: Strides | None, itemsize: int) -> tuple[int, int]:
    """The bytes of all elements, each once; and what memory moves for them in sectors, where they have gaps."""
    if strides is None:
        return (math.prod(shape) * itemsize,) * 2
    count = span = 1  # different elements, and from the first to the last of them
    pieces, piece = 1, itemsize  # pieces with whole sectors between them, and the bytes of one
    steps: dict[int, int] = {}
    for d, s in nearest_first(shape, strides):
        steps[s] = steps.get(s, 1) + shape[d] - 1  # windows that move by the distance of their elements
    for s, n in steps.items():
        far = span + (n - 1) * s
        count = far if count == span >= s else min(n * count, far)  # windows that overlap
        span = far
        if pieces == 1 and s * itemsize - piece < SECTOR_BYTES:
            piece += (n - 1) * s * itemsize
        else:
            pieces *= n
    return count * itemsize, piece if pieces == 1 else pieces * math.ceil(piece / SECTOR_BYTES) * SECTOR_BYTES


def spread(gap: int, own: int, itemsize: int) -> float:
    """How many times as much memory moves for elements that are ``gap`` apart, in a tensor whose neighbours are ``own`` apart, as for its
    neighbours: whole sectors."""
    return min(gap * itemsize, SECTOR_BYTES) / min(own * itemsize, SECTOR_BYTES)


def layout_kind(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> str | None:
    """What a plan depends on of the strides, the same for all tensors that one plan suits; ``None`` if it is as without gaps.

    Of each dimension: its stride if several of its elements share a sector, else how many elements surely divide it.
    """
    known = known_strides(shape, strides)
    if known is None or (kind := _kind(shape, known, itemsize)) == _kind(shape, contiguous_strides(shape), itemsize):
        return None
    return kind


def _kind(shape: Sequence[int], strides: Strides, itemsize: int) -> str:
    def one(s: int) -> str:
        return str(s) if s * itemsize < SECTOR_BYTES else f"{math.gcd(s, MOST_UNIT)}n"

    return ",".join("_" if n == 1 else one(s) for n, s in zip(shape, strides, strict=True))
