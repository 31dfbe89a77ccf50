"""Laws of random chains of blocks as models have them: programs that mean the same, and their parts.  A seed is a chain and a law."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from .fixed import Function, mlp, planned, relu_linear, residual, rms_norm, tensor, upcast
from .law import Law, Outcome, Planned

ROWS = (1 << 14, 1 << 17)  # so few that launches and waves are seen, and so many that they are not
WIDTHS = (64, 96, 128, 256)
SELECTS = ("mask", "turn")  # blocks that leave values as they are, or zero
LENGTHS = (1, 2, 2, 3, 3, 4)
LARGE = 1.3  # times what a law allows: no small violation is shown in the place of such a one


class Block(NamedTuple):
    """A function of a value and of weights, and the sizes of these for a width."""

    fn: Function
    weights: Callable[[int], tuple[tuple[int, ...], ...]]


def _turned(t: Tensor) -> Tensor:
    half = t.shape[-1] // 2
    return torch.cat([-t[..., half:], t[..., :half]], -1)


def _masked(t: Tensor) -> Tensor:
    return t * (torch.arange(t.shape[-1], device=t.device) < t.shape[-1] - 7).to(t.dtype)


BLOCKS = {
    "linear": Block(lambda t, w: t @ w, lambda d: ((d, d),)),
    "relu": Block(relu_linear, lambda d: ((d, d),)),
    "gelu": Block(lambda t: F.gelu(t), lambda d: ()),
    "residual": Block(residual, lambda d: ((d, d),)),
    "mlp": Block(lambda t, a, b: t + mlp(t, a, b), lambda d: ((d, 2 * d), (2 * d, d))),
    "gate": Block(lambda t, a, b: torch.sigmoid(t @ a) * (t @ b), lambda d: ((d, d), (d, d))),
    "rms": Block(rms_norm, lambda d: ((d,),)),
    "norm": Block(lambda t, g, b: F.layer_norm(t, t.shape[-1:], g, b), lambda d: ((d,), (d,))),
    "softmax": Block(lambda t: torch.softmax(t, -1), lambda d: ()),
    "bias": Block(lambda t, b: t + b, lambda d: ((d,),)),
    "mask": Block(_masked, lambda d: ()),
    "turn": Block(_turned, lambda d: ()),
    "heads": Block(lambda t, w: (t.reshape(*t.shape[:-1], -1, 32) @ w).reshape(t.shape), lambda d: ((32, 32),)),
}


def function(names: Sequence[str]) -> Function:
    """The blocks of some names, one after the other."""

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        given = iter(weights)
        for name in names:
            block = BLOCKS[name]
            x = block.fn(x, *(next(given) for _ in block.weights(1)))
        return x

    return run


class Chain(NamedTuple):
    """Names of blocks, one after the other, and the sizes of the value that they are of."""

    names: tuple[str, ...]
    width: int
    rows: int

    @property
    def weights(self) -> list[tuple[int, ...]]:
        """Their sizes."""
        return [s for n in self.names for s in BLOCKS[n].weights(self.width)]

    def planned(self, **options: Any) -> Planned:
        """The function of a tensor of rows and of weights."""
        return planned(function(self.names), (self.rows, self.width), *self.weights, **options)

    @property
    def products_upcast(self) -> float:
        """How many products of 16 bits there are in float32 for each without: five where an operand is computed, for it is three pieces and
        a weight is two (docs/decisions/floating_point.md).  Of what only selects values a product is one."""
        first = next((n for n in self.names if n not in SELECTS), "bias")
        every, own = (sum(len(s) > 1 for n in names for s in BLOCKS[n].weights(1)) for names in (self.names, [first]))
        exact = own if first == "gate" else min(own, 1)
        return (5 * every - 4 * exact) / every if every else 1.0

    def shorter(self) -> Iterator[Chain]:
        """It without one of its blocks."""
        if len(self.names) > 1:
            yield from (self._replace(names=(*self.names[:k], *self.names[k + 1 :])) for k in range(len(self.names)))


def laws(chain: Chain) -> Iterator[Law]:
    """The laws of one chain."""
    (names, width, rows), f, w, own = chain, function(chain.names), chain.weights, chain.planned()

    def law(family: str, what: str, mine: Any, others: Sequence[Any], factor: float) -> Law:
        return Law(family, f"{what}: {' + '.join(names)}, {rows} x {width}", mine, tuple(others), factor)

    yield law("spelling", "upcast", planned(upcast(f), (rows, width), *w), [own], 1.05 * chain.products_upcast)
    yield law("joins", "cat of rows", planned(lambda a, b, *w: f(torch.cat([a, b]), *w), (1, width), (rows - 1, width), *w), [own], 1.2)
    yield law("sizes", "one more row", chain._replace(rows=rows + 1).planned(), [own], 1.1)
    yield law("axes", "rows in two dims", planned(f, (8, rows // 8, width), *w), [own], 1.05)
    turned = [tensor(*s[::-1]).t() if len(s) == 2 else s for s in w]
    yield law("spelling", "transposed weights", planned(f, (rows, width), *turned), [own], 1.1)
    yield law("objectives", "time above memory", own, [chain.planned(objective="memory")], 1.02)
    yield law("layers", "twice above two", chain._replace(names=names * 2).planned(), [own, own], 1.05)
    if len(names) > 1:
        half = len(names) // 2
        yield law("parts", "whole above parts", own, [chain._replace(names=h).planned() for h in (names[:half], names[half:])], 1.05)


def drawn(seed: int) -> tuple[Chain, Law]:
    """A chain of one to four blocks, and one of its laws."""
    r = Random(seed)
    found = Chain(tuple(r.choice([*BLOCKS]) for _ in range(r.choice(LENGTHS))), r.choice(WIDTHS), r.choice(ROWS))
    return found, r.choice([*laws(found)])


def looked_at(seed: int, target: str) -> tuple[Outcome, Outcome]:
    """The outcome of a drawn law, and, if it is broken, that of as few blocks as possible."""
    chain, law = drawn(seed)
    found = law.looked_at(target)
    return found, found if found.holds else smallest(found, chain)


def smallest(found: Outcome, chain: Chain) -> Outcome:
    """A broken law of a chain, of as few of its blocks as still break it; one that is broken by much, as few as still do so."""
    for fewer in chain.shorter():
        for law in laws(fewer):
            if law.kind == found.law.kind:
                other = law.looked_at(found.target)
                if not other.holds and other.ratio > min(found.ratio, LARGE):
                    return smallest(other, fewer)
    return found
