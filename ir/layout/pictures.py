"""Who holds what: a layout as a grid of elements with their places, in text and in SVG, and as a list of holders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...errors import LayoutError
from .iters import read_shape

LARGEST = 1 << 14  # elements of a picture
Place = dict[str, int]


class Map(Protocol):
    """A layout, or a swizzled one."""

    def __call__(self, index: Sequence[int], shape: Sequence[int], /) -> tuple[Place, ...]:
        """The places of an element."""


def _rows(layout: Map, shape: Sequence[int]) -> list[list[tuple[Place, ...]]]:
    dims = read_shape(shape)
    if not 1 <= len(dims) <= 2 or (dims[0] * dims[-1]) > LARGEST:
        raise LayoutError(f"a picture has one or two dimensions and at most {LARGEST} elements, not {dims}", cure="a slice")
    if len(dims) == 1:
        return [[layout((j,), dims) for j in range(dims[0])]]
    return [[layout((i, j), dims) for j in range(dims[1])] for i in range(dims[0])]


def label(places: tuple[Place, ...], axes: Sequence[str]) -> str:
    """``3.1`` for lane 3, register 1; copies are ``3|7.1``."""
    return ".".join("|".join(map(str, dict.fromkeys(p.get(a, 0) for p in places))) for a in axes)


def grid(layout: Map, shape: Sequence[int], axes: Sequence[str]) -> str:
    """A line of text for each row, a cell for each element: the values of these axes."""
    cells = [[label(p, axes) for p in row] for row in _rows(layout, shape)]
    width = max(len(c) for row in cells for c in row)
    return "\n".join([".".join(axes), *(" ".join(c.rjust(width) for c in row) for row in cells)])


def holders(layout: Map, shape: Sequence[int], axis: str) -> dict[int, list[tuple[int, ...]]]:
    """Value of an axis -> the elements that are there, in row-major order."""
    out: dict[int, list[tuple[int, ...]]] = {}
    rank = len(read_shape(shape))
    for i, row in enumerate(_rows(layout, shape)):
        for j, places in enumerate(row):
            for value in dict.fromkeys(p.get(axis, 0) for p in places):
                out.setdefault(value, []).append((j,) if rank == 1 else (i, j))
    return dict(sorted(out.items()))


def svg(
    layout: Map, shape: Sequence[int], axes: Sequence[str], title: str, colour: Callable[[tuple[Place, ...]], int] | None = None
) -> str:
    """A grid of labelled cells.  Cells of one colour have one value of ``colour``, which is the first axis unless told."""
    rows = _rows(layout, shape)
    texts = [[label(p, axes) for p in row] for row in rows]
    wide = max(26, 10 + 7 * max(len(t) for row in texts for t in row))
    high, top = 24, 44
    groups = [[p[0].get(axes[0], 0) if colour is None else colour(p) for p in row] for row in rows]
    known = {v: k for k, v in enumerate(sorted({v for row in groups for v in row}))}
    width, height = (
        max(wide * len(rows[0]) + 20, 8 * max(len(title), len(".".join(axes)) + 8) + 20),
        top + high * len(rows) + 10,
    )
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        ' font-family="monospace" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="18" font-size="13">{_escaped(title)}</text>',
        f'<text x="10" y="35" fill="#555">{_escaped("cells: " + ".".join(axes))}</text>',
    ]
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            x, y, fill = 10 + wide * j, top + high * i, _hue(known[groups[i][j]], len(known))
            out.append(f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" fill="{fill}" stroke="#666" stroke-width="0.5"/>')
            out.append(f'<text x="{x + wide / 2:g}" y="{y + 16}" text-anchor="middle">{text}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def _hue(k: int, many: int) -> str:
    """A light colour; the lightness alternates, so that neighbours differ where there are many."""
    return f"hsl({360 * k // max(many, 1)},70%,{(86, 76)[k % 2]}%)"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
