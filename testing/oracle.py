"""What a function means: its results in float64, with none of its casts to narrower types.

Casts of the first function are roundings like any other: its own error, which is what the second is measured by.  So the oracle leaves
them out: what would be made in a narrower floating-point type is made in float64.  Where the rounding itself is what a function
computes (``x - x.bfloat16().float()``), that would be the oracle of another function; then, and where a function looks at the bits of
what it has rounded, the oracle is the function in float64 with its casts as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from .gradients import Wanted, results
from .judge import Oracle, Result

_PROBES = 8  # arguments of ordinary size on which a doubtful function is looked at
_MANY = 0.25  # this part of the elements is not lost to rounding by chance
_ROUNDINGS = 64  # so many explain an error of a function of some length


@dataclass(frozen=True)
class _Both:
    """Results in float64, without and with the casts of the function; ``coarsest``: the largest epsilon of a type that was left out."""

    unrounded: list[Result] | None
    rounded: list[Result]
    coarsest: float

    @classmethod
    def of(cls, fn: Callable[..., Any], args: Sequence[Any], gradients: Wanted | None) -> _Both:
        mode = Unrounded()
        unrounded: list[Result] | None = None
        try:
            unrounded = results(fn, args, gradients=gradients, exact=True, mode=mode)
        except Exception:  # what the function does with float64 in place of another type is not its fault
            return cls(None, results(fn, args, gradients=gradients, exact=True), 1.0)
        if not mode.coarsest:
            return cls(unrounded, unrounded, 0.0)
        try:
            return cls(unrounded, results(fn, args, gradients=gradients, exact=True), mode.coarsest)
        except Exception:  # products of float64 and a narrower type, which are possible only without the latter
            return cls(unrounded, unrounded, mode.coarsest)

    def pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
        """Each result without and with casts; None if they are of different kinds."""
        if self.unrounded is None or len(self.unrounded) != len(self.rounded):
            return None
        found = [(u.value.detach().cpu(), r.value.detach().cpu()) for u, r in zip(self.unrounded, self.rounded, strict=True)]
        return found if all(u.shape == r.shape for u, r in found) else None


def oracles(fn: Callable[..., Any], args: Sequence[Any], *, gradients: Wanted | None = None) -> list[Oracle]:
    """What each result of ``fn(*args)`` should be, gradients last."""
    both = _Both.of(fn, args, gradients)
    if both.unrounded is both.rounded:
        return [Oracle(r.value, r.value) for r in both.rounded]
    pairs = both.pairs()
    if pairs is None:
        return [Oracle(r.value, r.value, rounds=True) for r in both.rounded]
    doubtful = [k for k, (u, r) in enumerate(pairs) if _lost([(u, r)], both.coarsest) > _MANY]
    meant = _meant(fn, args, gradients, doubtful, both.coarsest) if doubtful else set()
    chosen = []
    for k, (u, r) in enumerate(pairs):
        if not (u.is_floating_point() and r.is_floating_point()):
            chosen.append(Oracle(r, r))
        elif k in meant:
            chosen.append(Oracle(r, r, rounds=True))
        else:
            chosen.append(Oracle(u, r, coarsest=both.coarsest))
    return chosen


def nudged(fn: Callable[..., Any], args: Sequence[Any], chosen: Oracle, *, gradients: Wanted | None = None) -> list[list[Result]]:
    """The results in float64 with rounding errors of float32 thrown in, and those of casts that are left out; some times over."""
    modes = [None if chosen.rounds else Unrounded(noise=seed) for seed in range(3)]
    return [results(fn, args, gradients=gradients, exact=True, nudge=seed, mode=mode) for seed, mode in enumerate(modes)]


_RANDOM = 3  # pairs of points beside the arguments, in random directions
_BESIDE = 2.0**-36  # how far they are, relative to the largest element: far less than a rounding of float32


def beside(
    fn: Callable[..., Any], args: Sequence[Any], chosen: Oracle, along: Sequence[Mapping[str, torch.Tensor]], *, gradients: Wanted | None
) -> list[list[Result]]:
    """The results in float64 at points beside the arguments, in opposite pairs; none if the function fails there.

    ``along``: directions, each for all arguments that have a gradient.  The first pairs are on either side in these: if it is one in which
    a gradient is off, this exposes the limits that make it a right one.  The others lie in random directions.
    """

    def mover(point: int) -> Callable[[str, torch.Tensor], torch.Tensor]:
        generator, side = torch.Generator().manual_seed(point // 2), 1 - 2 * (point % 2)

        def move(name: str, a: torch.Tensor) -> torch.Tensor:
            direction = torch.randn(a.shape, generator=generator, dtype=torch.float64)
            if point // 2 < len(along):
                way = along[point // 2].get(name, torch.zeros(())).cpu().double().nan_to_num(0.0, 0.0, 0.0)
                direction = (way.sign() * way.abs() ** 0.25).expand(a.shape)  # small ones move, too
            finite = a[a.isfinite()].abs()
            size = float(finite.max()) if finite.numel() else 0.0
            return a + side * _BESIDE * (size or 1.0) / max(float(direction.abs().max()), 1.0) * direction.to(a.device)

        return move

    try:
        modes = [None if chosen.rounds else Unrounded() for _ in range(2 * (len(along) + _RANDOM))]
        return [results(fn, args, gradients=gradients, exact=True, move=mover(k), mode=mode) for k, mode in enumerate(modes)]
    except Exception:  # the arguments are others than were drawn: a function need not take them
        return []


def _lost(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], eps: float) -> float:
    """The part of the elements that differ by more than roundings to this epsilon explain."""
    lost, of = 0, 0
    for u, r in pairs:
        if not (u.is_floating_point() and r.is_floating_point()) or u.shape != r.shape:
            continue
        u, r = u.double(), r.double()
        finite = u.isfinite() & r.isfinite()
        far = (u - r).abs() > min(0.5, _ROUNDINGS * eps) * torch.maximum(u.abs(), r.abs())
        lost, of = lost + int((far & finite).sum()), of + int(finite.sum())
    return lost / of if of else 0.0


def _meant(fn: Callable[..., Any], args: Sequence[Any], gradients: Wanted | None, doubtful: Sequence[int], eps: float) -> set[int]:
    """Which of the results are made of roundings on ordinary arguments, too, and not only on these (where something cancels)."""
    found: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {k: [] for k in doubtful}
    for seed in range(_PROBES):
        try:
            pairs = _Both.of(fn, ordinary(args, seed), gradients).pairs()
        except Exception:  # not every function takes any arguments
            pairs = None
        for k in doubtful:
            if pairs is not None and k < len(pairs):
                found[k].append(pairs[k])
    return {k for k in doubtful if not found[k] or _lost(found[k], eps) > _MANY}


def ordinary(args: Sequence[Any], seed: int) -> list[Any]:
    """The arguments with standard normal numbers in the floating-point ones."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(a: Any) -> Any:
        if not isinstance(a, torch.Tensor) or not a.is_floating_point():
            return a
        return torch.randn(a.shape, generator=generator, dtype=torch.float64).to(a.device, a.dtype)

    return [tree_map(drawn, a) for a in args]


def _narrow(dtype: Any) -> bool:
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype != torch.float64


class Unrounded(TorchDispatchMode):
    """Inside, every floating-point tensor that an operation makes is float64, whatever type it should have.

    ``noise``: seed; numbers that a cast would change are moved by half a unit in the last place, up or down at random.  (The error of
    the first function on a few numbers may be small by luck.)  ``coarsest``: the largest epsilon of a type that was asked for; 0 if
    none was.
    """

    def __init__(self, noise: int | None = None) -> None:
        super().__init__()
        self.coarsest = 0.0
        self.generator = None if noise is None else torch.Generator().manual_seed(noise)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.ops.aten.view.dtype and args[0].is_floating_point() and self.coarsest:
            raise TypeError("the bits of a rounded number are looked at")
        asked = kwargs.get("dtype")
        if _narrow(asked):
            self._asked(asked)
            kwargs["dtype"] = torch.float64
        changes = func._schema.is_mutable
        if not changes and any(isinstance(a, torch.Tensor) and a.dtype == torch.float64 for a in tree_leaves((args, kwargs))):
            args, kwargs = tree_map(self._wide, (args, kwargs))
        out = func(*args, **kwargs)
        views = any(r.alias_info is not None for r in func._schema.returns) and func is not torch.ops.aten.lift_fresh.default
        if changes or views:
            return out
        out = tree_map(self._wide, out)
        return self._moved(out, asked) if func is torch.ops.aten._to_copy.default and _narrow(asked) else out

    def _wide(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not _narrow(x.dtype):
            return x
        self._asked(x.dtype)
        return x.double()

    def _asked(self, dtype: torch.dtype) -> None:
        self.coarsest = max(self.coarsest, torch.finfo(dtype).eps)

    def _moved(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if self.generator is None:
            return x
        signs = 2 * torch.randint(0, 2, x.shape, generator=self.generator).to(x.device) - 1
        return torch.where(x.to(dtype).to(x.dtype) == x, x, x * (1 + torch.finfo(dtype).eps / 2 * signs))
