"""Which tile of the grid each program takes, by its number.

Tiles are counted along the last grid axis first, like the digits of a number.  In groups of ``g``, the last but one axis and the last are
not: programs take ``g`` tiles along the last but one axis, then the same ``g`` at the next tile along the last, to its end, and only then
the next group (the last of which may have fewer).  Programs that run at a time then cover a block of tiles and not a line of them, and
share what they load along both axes.  The idea is that of the matrix product in Triton's tutorials.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def taken(programs: np.ndarray, counts: Sequence[int], grouped: int = 0) -> list[np.ndarray]:
    """The tile along each grid axis, slowest first, of programs with these numbers.  ``counts``: the tiles along each axis."""
    found, rest, others = list[np.ndarray](), programs, list(counts)
    if grouped > 1 and len(others) > 1:
        inner, outer = others.pop(), others.pop()
        plane, rest = rest % (outer * inner), rest // (outer * inner)
        first, within = plane // (grouped * inner) * grouped, plane % (grouped * inner)
        height = np.minimum(outer - first, grouped)
        found = [within // height, first + within % height]
    for n in reversed(others):
        found.append(rest % n)
        rest = rest // n
    return found[::-1]
