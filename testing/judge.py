"""Is a tensor what it should be?  Judged by a float64 oracle, beside the error that the first function makes in its own type.

Every complaint is a :class:`Difference`: what kind of fault it is, which result, which elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from ..errors import AccuracyError
from .kernels import never_written

MANY = 40
"""So many inexact results say whether they were rounded or truncated (that all are cut off by chance is once in 2⁴⁰)."""


class Difference(AccuracyError):
    """A result that is not what it should be.

    ``kind``: ``outputs``, ``shape``, ``type``, ``unwritten``, ``not finite``, ``finite``, ``error``, ``truncated``, ``unequal``,
    ``changed``, ``unsteady``, ``detached``, ``no gradient`` or ``promoted`` (right, but in another floating-point type).  ``wrong``: which
    elements, if it can be said.
    """

    def __init__(self, kind: str, message: str, wrong: torch.Tensor | None = None) -> None:
        self.kind, self.wrong = kind, wrong
        super().__init__(message)


@dataclass(frozen=True)
class Result:
    """One tensor to be compared: an output, or the gradient of the argument at position ``argument``.

    ``attached``: autograd knows that the output depends on the arguments; a gradient is not None.
    """

    label: str
    value: torch.Tensor
    argument: int | None = None
    attached: bool = True

    @property
    def gradient(self) -> bool:
        return self.argument is not None


@dataclass(frozen=True)
class Oracle:
    """What one result should be (:mod:`~eqfuse.testing.oracle`).

    ``value``: what results are compared with, in float64 if it is of floating point.  ``rounded``: the same with the casts of the first
    function.  ``coarsest``: the largest epsilon of a type that ``value`` was not rounded to; 0 if there is none.  ``rounds``: casts
    are not left out of ``value``, because their roundings are what is computed.
    """

    value: torch.Tensor
    rounded: torch.Tensor
    coarsest: float = 0.0
    rounds: bool = False


_ROUNDS = "the oracle rounds where the first function casts: roundings are what it computes, or their bits are looked at"


def judge(
    ours: Sequence[Result],
    theirs: Sequence[Result],
    exact: Sequence[Oracle],
    factor: float,
    roundings: float,
    nudged: Callable[[int], Sequence[Sequence[Result]]] = lambda _: (),
    beside: Callable[[int], Sequence[Sequence[Result]]] = lambda _: (),
) -> None:
    """Raise :class:`Difference` at the first of ``ours`` that is wrong; ``theirs`` is the first function, ``exact`` what it means.

    ``nudged(k)`` is like ``exact`` with rounding errors thrown in, as result ``k`` has its oracle, some times over: where results hang
    on them (what cancels), errors of that size are allowed.  ``beside(k)`` is like ``exact`` at points next to the arguments, in
    opposite pairs: where gradients jump there, what lies between is right.  Both are called only when an error is too large otherwise.
    Where only floating-point types differ, results are judged in the second function's, and the type is what is said last.
    """
    _check_outputs(ours, theirs)
    for k, (mine, other, oracle) in enumerate(zip(ours, theirs, exact, strict=True)):
        points = partial(_points, k, beside)
        try:
            _judge(mine, other, oracle, factor, roundings, cache(partial(_moves, k, oracle.value, nudged)), points)
        except Difference as d:
            if oracle.rounds and d.kind in ("error", "truncated", "not finite", "finite"):
                raise Difference(d.kind, f"{d.message}\n  {_ROUNDS}", d.wrong) from None
            raise
    for mine, other in zip(ours, theirs, strict=True):
        if mine.value.dtype != other.value.dtype:
            said = f"{mine.label} has type {mine.value.dtype}, not {other.value.dtype}; what was compared is right in that type"
            raise Difference("promoted", said)


def _check_outputs(ours: Sequence[Result], theirs: Sequence[Result]) -> None:
    """There are as many, and autograd knows as much of them."""
    one, two = ([r for r in found if not r.gradient] for found in (theirs, ours))
    if len(one) != len(two):
        cure = "; if it writes to an argument, wrap it in a function that makes and returns that tensor" if not two else ""
        raise Difference("outputs", f"the second function has {len(two)} output{'s' * (len(two) != 1)}, the first {len(one)}{cure}")
    for mine, other in zip(two, one, strict=True):
        if other.attached and not mine.attached:
            raise Difference(
                "detached",
                f"{mine.label} has no gradient: autograd does not know that it depends on the arguments; if that is meant, "
                "let the first function return it detached, too",
            )
    missing = [r for r, other in zip(ours, theirs, strict=True) if r.gradient and other.attached and not r.attached and _any(other)]
    if missing:
        left = sorted({r.argument for r in ours if r.argument is not None} - {r.argument for r in missing})
        names = " and ".join(r.label.removeprefix("gradient of ") for r in missing)
        raise Difference(
            "no gradient",
            f"{names}: the second function gives no gradient (None), the first does; if none is meant, leave it out with "
            f"gradients={left or False}",
        )


def _any(result: Result) -> bool:
    return bool((result.value != 0).any())


def _judge(
    mine: Result,
    other: Result,
    oracle: Oracle,
    factor: float,
    roundings: float,
    moves: Callable[[], torch.Tensor],
    points: Callable[[], torch.Tensor | None],
) -> None:
    """One result."""
    name, a, b, e, r = mine.label, mine.value, other.value, oracle.value, oracle.rounded
    if a.shape != b.shape:
        raise Difference("shape", f"{name} has shape {tuple(a.shape)}, not {tuple(b.shape)}")
    if a.dtype != b.dtype and not (a.is_floating_point() and b.is_floating_point()):
        raise Difference("type", f"{name} has type {a.dtype}, not {b.dtype}")
    a, b, e, r = (x.detach().cpu() for x in (a, b, e, r))
    lost = never_written(a) & ~never_written(b)
    b = b.to(a.dtype)
    if bool(lost.any()):
        raise Difference("unwritten", f"{name}: never written, or made of what was never written: {_many(lost)}{_at(lost)}", lost)
    if a.is_floating_point():
        e, r = e.double(), r.double()
        limits = Limits(factor, _tolerance(mine, roundings), _underflow(a.dtype), a.dtype)
        try:  # a gradient that jumps moves far when it is nudged: kinks come first, or they would excuse anything
            _check_numbers(name, a.double(), b.double(), e, r, limits, (lambda: torch.zeros_like(e)) if mine.gradient else moves)
        except Difference:
            if not mine.gradient:
                raise
            near = points()
            if near is None:
                _check_numbers(name, a.double(), b.double(), e, r, limits, moves)
            else:
                e, r = _check_kinks(name, a.double(), b.double(), e, r, limits, moves, near)
        if a.dtype in (torch.bfloat16, torch.float16):
            _check_rounding(name, a, b, e)
        if oracle.coarsest > torch.finfo(a.dtype).eps:
            _check_casts(name, a, e, r)
    else:
        _refuse("unequal", name, (a != b) & (a != e.to(a.dtype)), a, b, "are not equal")


def _many(wrong: torch.Tensor) -> str:
    count = int(wrong.sum())
    return f"{count} element{'s' * (count != 1)}"


def _at(wrong: torch.Tensor) -> str:
    return f"; first at {tuple(torch.nonzero(wrong)[0].tolist())}"


def _refuse(kind: str, name: str, wrong: torch.Tensor, a: torch.Tensor, b: torch.Tensor, what: str) -> None:
    """Raise if any element is wrong, and show the first."""
    if bool(wrong.any()):
        at = tuple(torch.nonzero(wrong)[0].tolist())
        what = what.replace("are ", "is ").replace("they", "it") if int(wrong.sum()) == 1 else what
        message = f"{name}: {_many(wrong)} {what}; first at {at}: {a[at].item():.6g} against {b[at].item():.6g}"
        raise Difference(kind, message, wrong)


def _overflowed(e: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Exact results, infinite where they are far beyond the type."""
    return torch.where(e.abs() > 2 * torch.finfo(dtype).max, e.sign() * torch.inf, e)


def _check_finite(name: str, a: torch.Tensor, known: Sequence[torch.Tensor]) -> None:
    """NaN and infinities stand where the oracle, or the first function, has the same."""

    def differs(x: torch.Tensor) -> torch.Tensor:
        return (a.isnan() != x.isnan()) | ((a.isinf() | x.isinf()) & (a != x))

    odd = differs(known[0])
    for x in known[1:]:
        odd &= differs(x)
    e = known[0]
    _refuse("not finite", name, odd & ~a.isfinite(), a, e, "are not finite where they should be")
    _refuse("finite", name, odd & a.isfinite(), a, e, "are finite where they should not be")


def _tolerance(result: Result, roundings: float) -> float:
    """What is always allowed, relative to the largest element.  A gradient goes through more steps, in float32 at least."""
    single = 32 * torch.finfo(torch.float32).eps if result.gradient and result.value.dtype != torch.float64 else 0.0
    return max(roundings * torch.finfo(result.value.dtype).eps, single)


def _underflow(dtype: torch.dtype) -> float:
    """What is always allowed, absolutely: devices may flush what float32 holds below its normal numbers."""
    if dtype == torch.float64:
        return 4 * torch.finfo(dtype).tiny
    return max(4 * torch.finfo(torch.float32).tiny, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps)


@dataclass(frozen=True)
class Limits:
    """What errors are allowed: ``factor`` times those of the first function, ``relative`` to the largest element, ``absolute``."""

    factor: float
    relative: float
    absolute: float
    dtype: torch.dtype

    def allowed(self, scale: float, base: float) -> float:
        return max(self.factor * base, self.relative * scale, self.absolute)


def _moves(k: int, e: torch.Tensor, nudged: Callable[[int], Sequence[Sequence[Result]]]) -> torch.Tensor:
    """How far each element of an exact result moves under rounding errors; 0 where that is no number."""
    e = e.detach().cpu().double()
    moved = [(r[k].value.detach().cpu().double() - e).abs() for r in nudged(k)]
    return torch.stack([torch.zeros_like(e), *(m.where(m.isfinite(), 0.0) for m in moved)]).amax(0)


def _points(k: int, beside: Callable[[int], Sequence[Sequence[Result]]]) -> torch.Tensor | None:
    """One exact result at the points beside the arguments; None if there are none."""
    found = [r[k].value.detach().cpu().double() for r in beside(k)]
    return torch.stack(found) if found else None


def _check_numbers(
    name: str,
    a: torch.Tensor,
    b: torch.Tensor,
    e: torch.Tensor,
    r: torch.Tensor,
    limits: Limits,
    moves: Callable[[], torch.Tensor],
    kink: torch.Tensor | None = None,
) -> None:
    """The same elements are finite, and the largest error of the second function over those that are is within the bound; what moves
    at a ``kink`` excuses nothing."""
    _check_finite(name, a, [_overflowed(e, limits.dtype), b, _overflowed(r, limits.dtype)])
    finite = e.isfinite() & a.isfinite() & b.isfinite()
    if not bool(finite.any()):
        return
    errors = (a - e).abs().masked_fill(~finite, 0)
    scale, base = e[finite].abs().max().item(), (b - e)[finite].abs().max().item()
    mine, allowed = errors.max().item(), limits.allowed(scale, base)
    if mine <= allowed:
        return
    moved = moves() if kink is None else moves().masked_fill(kink, 0.0)
    allowed = max(allowed, limits.factor * moved.max().item())
    if mine > allowed:
        at = tuple(int(i) for i in torch.unravel_index(errors.argmax(), a.shape))
        unit, kind = (scale, "error") if scale else (1.0, "absolute error")
        raise Difference(
            "error",
            f"{name}: {kind} {mine / unit:.2e} exceeds {allowed / unit:.2e} (the first function's own error is {base / unit:.2e}); "
            f"worst at {at}: {a[at].item():.6g} against {e[at].item():.6g}",
            errors > allowed,
        )


def off(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """The direction in which a gradient is off."""
    return a.double() - e.double()


def gained(a: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """The part of it that leads along elements which have no gradient by right, or another one at a kink."""
    return off(a, e).where(e == 0, 0.0)


_SMOOTH = 64.0  # between the distances of errors and of points beside the arguments lie 2**12


def _check_kinks(
    name: str,
    a: torch.Tensor,
    b: torch.Tensor,
    e: torch.Tensor,
    r: torch.Tensor,
    limits: Limits,
    moves: Callable[[], torch.Tensor],
    near: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for gradients, where the first function need not be differentiable: |x| at 0, a maximum of equal numbers.

    ``near`` are its gradients at points beside the arguments, in opposite pairs.  Where they differ, every convex combination of such
    limits is a gradient (Clarke's), so what lies between the smallest and the largest is right, whichever of them the first function
    takes.  Where their sum along an axis is the same at all these points, as for a maximum along it, it is so for every combination;
    then the gradient is shared out there, among more elements than these points show.  But one pair lies in the direction
    :func:`gained`: if any element there takes part in the kink, its gradient jumps.  Returns the oracles with what is right.

    What is smooth differs at these points, too, but some thousand times less than under errors of float32, which are as many times
    farther away; what jumps does so as far under both.
    """
    near = torch.cat([near, e.unsqueeze(0).where(e.isfinite(), near[:1])])
    low, high = near.amin(0), near.amax(0)
    known = a.isfinite() & near.isfinite().all(0)
    scale = low.abs().maximum(high.abs())[known].max().item() if bool(known.any()) else 0.0
    slack = limits.allowed(scale, 0.0)
    kink = known & ((high - low > slack) & (high - low > moves() / _SMOOTH) | ~e.isfinite())
    gain = gained(a, e).abs().where(known, 0.0)
    jumps = (near - e).abs().amax(0).where(gain > slack, 0.0)
    lines = [(k,) for k in range(a.ndim)] + [tuple(range(a.ndim))] * (a.ndim > 1)
    for line in lines:
        sums, weight = near.sum([k + 1 for k in line]), near.abs().sum([k + 1 for k in line]).amax(0)
        total, many = a.sum(line), a.numel() // max(sums[0].numel(), 1)
        shared = kink.any(line) & known.all(line) & (sums.amax(0) - sums.amin(0) <= 1e-6 * weight)
        wrong = shared & ((total - sums[0]).abs() > 1e-3 * weight + many * slack)
        if bool(wrong.any()):
            at = tuple(torch.nonzero(wrong)[0].tolist()) if wrong.ndim else ()
            along = f"along axis {line[0]}" if len(line) == 1 and a.ndim > 1 else "in all"
            raise Difference(
                "error",
                f"{name}: the first function has a kink there, as of a maximum of equal numbers; whichever way the gradient is shared "
                f"out, it adds up to {sums[0][at].item():.6g} {along}, and not to {total[at].item():.6g}",
            )
        if bool((shared & (gain.sum(line) > 1e-3 * weight + many * slack) & (jumps.amax(line) <= slack)).any()):
            raise Difference(
                "error",
                f"{name}: the first function has a kink there, as of a maximum of equal numbers, and the gradient goes to elements that "
                "take no part in it",
            )
        shared = shared.reshape([1 if k in line else n for k, n in enumerate(a.shape)])
        kink = kink | (shared & known)
        low, high = low.where(~shared, low.amin(line, keepdim=True)), high.where(~shared, high.amax(line, keepdim=True))
    right = torch.where(kink, a.clamp(low, high), e)
    with_ours = [torch.where(kink, right, x) for x in (b, right, r)]
    try:
        _check_numbers(name, a, with_ours[0], with_ours[1], with_ours[2], limits, moves, kink)
    except Difference as d:
        if d.wrong is not None and bool((d.wrong & kink).any()):
            at = tuple(torch.nonzero(d.wrong & kink)[0].tolist())
            what = f"at {at} the first function has a kink, and any gradient from {low[at].item():.6g} to {high[at].item():.6g} is right"
            raise Difference(d.kind, f"{d.message}\n  {what}", d.wrong) from None
        raise
    return right, with_ours[2]


def _shortfall(x: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """How much larger in magnitude ``x`` is than ``e``, in units of the last place, where ``e`` is no number of the type of ``x``.

    Results between the same two neighbours count once: they are not independent of each other.
    """
    limits = torch.finfo(x.dtype)
    _, exponent = torch.frexp(e)
    place = torch.exp2((exponent - 1).double()) * limits.eps
    units = e / place
    odd = e.isfinite() & x.isfinite() & (e.abs() >= limits.tiny) & ((units - units.round()).abs() > 0.02)
    short, below = ((x.double() - e) * e.sign() / place)[odd], (units.trunc() * place)[odd]
    _, first = torch.unique(below, return_inverse=True)
    chosen = torch.zeros(int(first.max()) + 1 if first.numel() else 0, dtype=torch.int64)
    chosen[first] = torch.arange(first.numel())
    return short[chosen]


def _check_rounding(name: str, a: torch.Tensor, b: torch.Tensor, e: torch.Tensor) -> None:
    """Results rounded once, to nearest, are too large as often as too small; truncated, they are never too large."""

    def truncated(short: torch.Tensor) -> bool:
        if short.numel() < MANY:
            return False
        between = (short < 0.05) & (short > -1.05)
        return bool(between.double().mean() > 0.97) and bool(short.mean() < -0.3)

    short = _shortfall(a, e)
    if truncated(short) and not truncated(_shortfall(b, e)):
        raise Difference(
            "truncated",
            f"{name}: truncated to {str(a.dtype).removeprefix('torch.')} instead of rounded to nearest: of {short.numel()} results "
            f"{int((short < 0.05).sum())} lie on the side of zero, by {-short.mean().item():.2f} units in the last place on average",
        )


def _check_casts(name: str, a: torch.Tensor, e: torch.Tensor, r: torch.Tensor) -> None:
    """Where the first function casts inside to a narrower type, the second need not, or elsewhere; but if it casts there, it rounds.

    A number that is cut off instead is either the rounded one, or the neighbour on the other side of the exact one, which is farther
    away.  What is cast elsewhere is neither; what is not cast at all is near the exact one.
    """
    x, eps = a.double(), torch.finfo(a.dtype).eps
    cast = r - e
    matters = x.isfinite() & e.isfinite() & r.isfinite() & (cast.abs() > 64 * eps * e.abs())
    mine, cast = (x - e)[matters], cast[matters]
    slack = 0.02 * cast.abs()
    same = (mine - cast).abs() <= slack
    other = (mine * cast < 0) & (mine.abs() >= cast.abs() - slack)
    total, several = int(matters.sum()), torch.unique((cast / e[matters])[other]).numel()
    if several >= MANY // 2 and bool((same | other).double().mean() > 0.97) and 0.3 < float(other.double().mean()) < 0.7:
        raise Difference(
            "truncated",
            f"{name}: made of numbers that were truncated instead of rounded to nearest: of {total} results that hang on how the first "
            f"function casts, {int(same.sum())} are as if rounded there, and {int(other.sum())} as if rounded to the farther neighbour",
        )


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors in whatever holds them, in order."""
    return [v for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]
