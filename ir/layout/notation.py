"""Layouts as text: the paper's notation in one line or as a matrix, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...errors import LayoutError, shown
from .iters import MEMORY, Iter, Iters, on_axis


def line(iters: Iters, replicas: Iters, offset: Mapping[str, int]) -> str:
    """``(8,2):(4@lane,1) + [2:4@warp] + 5@warp``: sharded iters, replicas in brackets, offset; memory's axis is left out."""
    parts = [f"({','.join(str(i.extent) for i in iters)}):({','.join(on_axis(i.stride, i.axis) for i in iters)})"]
    if replicas:
        parts.append(f"[{', '.join(map(str, replicas))}]")
    return " + ".join([*parts, *(on_axis(value, axis) for axis, value in sorted(offset.items()))])


def matrix(iters: Iters, replicas: Iters, offset: Mapping[str, int]) -> str:
    """Two lines: extents over strides, a column for every iter."""

    def columns(of: Iters, left: str, right: str) -> list[str]:
        cells = [(str(i.extent), on_axis(i.stride, i.axis)) for i in of]
        widths = [max(map(len, c)) for c in cells]
        return [f"{left} {'  '.join(c[row].rjust(w) for c, w in zip(cells, widths, strict=True))} {right}" for row in (0, 1)]

    above, below = columns(iters, "(", ")")
    if replicas:
        more = columns(replicas, "[", "]")
        above, below = f"{above}   {more[0]}", f"{below} + {more[1]}"
    return f"{above}\n{below}{''.join(f' + {on_axis(value, axis)}' for axis, value in sorted(offset.items()))}"


def parsed(text: str) -> tuple[Iters, Iters, dict[str, int]]:
    """Iters, replicas and offset of a line."""
    refusal = LayoutError(f"no layout is written {shown(text)}", cure="(8,2):(4@lane,1) + [2:4@warp] + 5@warp")
    if not isinstance(text, str):
        raise refusal

    def step(word: str) -> tuple[int, str]:
        found = re.fullmatch(r"\s*([+-]?\d+)(?:@([A-Za-z_]\w*))?\s*", word)
        if not found:
            raise refusal
        return int(found[1]), found[2] or MEMORY

    def words(inside: str) -> list[str]:
        return inside.split(",") if inside.strip() else []

    head = re.match(r"\s*\(([^()]*)\)\s*:\s*\(([^()]*)\)\s*", text)
    if not head:
        raise refusal
    extents, steps = words(head[1]), [step(w) for w in words(head[2])]
    if len(extents) != len(steps) or not all(e.strip().isdigit() for e in extents):
        raise refusal
    iters = tuple(Iter(int(e), *s) for e, s in zip(extents, steps, strict=True))
    replicas: list[Iter] = []
    offset: dict[str, int] = {}
    rest = text[head.end() :]
    while rest.strip():
        part = re.match(r"\s*\+\s*(?:\[([^\[\]]*)\]|([+-]?\d+(?:@\w+)?))\s*", rest)
        if not part:
            raise refusal
        for word in words(part[1] or ""):
            extent, colon, stride = word.partition(":")
            if not colon or not extent.strip().isdigit():
                raise refusal
            replicas.append(Iter(int(extent), *step(stride)))
        if part[2]:
            value, axis = step(part[2])
            offset[axis] = offset.get(axis, 0) + value
        rest = rest[part.end() :]
    return iters, tuple(replicas), offset
