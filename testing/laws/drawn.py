"""Laws of random chains of blocks as models have them: programs that mean the same, and their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from .fixed import Function, mlp, planned, relu_linear, residual, rms_norm, tensor, upcast
from .law import Law, Outcome

ROWS = 16384
WIDTHS = (64, 96, 128, 256)


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


def chain(names: Sequence[str]) -> Function:
    """The blocks of some names, one after the other."""

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        given = iter(weights)
        for name in names:
            block = BLOCKS[name]
            x = block.fn(x, *(next(given) for _ in block.weights(1)))
        return x

    return run


def laws(names: Sequence[str], width: int) -> Iterator[Law]:
    """The laws of one chain."""
    f, w, x = chain(names), [s for n in names for s in BLOCKS[n].weights(width)], (ROWS, width)
    called = f"{' + '.join(names)}, {width} wide"
    own = planned(f, x, *w)

    def law(family: str, what: str, mine: Any, others: Sequence[Any], factor: float) -> Law:
        return Law(family, f"{what}: {called}", mine, tuple(others), factor)

    # each product of two may have one operand that is computed in float32, which is taken in two pieces
    yield law("spelling", "upcast", planned(upcast(f), x, *w), [own], 1.6)
    yield law("joins", "cat of rows", planned(lambda a, b, *w: f(torch.cat([a, b]), *w), (1, width), (ROWS - 1, width), *w), [own], 1.2)
    yield law("sizes", "one more row", planned(f, (ROWS + 1, width), *w), [own], 1.1)
    yield law("axes", "rows in two dims", planned(f, (8, ROWS // 8, width), *w), [own], 1.05)
    turned = [tensor(*s[::-1]).t() if len(s) == 2 else s for s in w]
    yield law("spelling", "transposed weights", planned(f, x, *turned), [own], 1.1)
    yield law("objectives", "time above memory", own, [planned(f, x, *w, objective="memory")], 1.02)
    if len(names) > 1:
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        parts = [planned(chain(h), x, *(s for n in h for s in BLOCKS[n].weights(width))) for h in halves]
        yield law("parts", "whole above parts", own, parts, 1.05)
    yield law("layers", "twice above two", planned(chain([*names, *names]), x, *w, *w), [own, own], 1.05)


def drawn(seed: int) -> tuple[list[str], int]:
    """A chain of one to four blocks, and its width."""
    r = Random(seed)
    return [r.choice([*BLOCKS]) for _ in range(r.randint(1, 4))], r.choice(WIDTHS)


def smallest(law: int, names: Sequence[str], width: int, target: str) -> Outcome:
    """The outcome of a broken law, the one of this number, of as few blocks as still break it."""
    found = [*laws(names, width)][law].looked_at(target)
    kind = found.law.name.partition(":")[0]
    for k in range(len(names)):
        fewer = [*names[:k], *names[k + 1 :]]
        for i, other in enumerate(laws(fewer, width)) if fewer else ():
            if other.name.partition(":")[0] == kind and not other.looked_at(target).holds:
                return smallest(i, fewer, width, target)
    return found
