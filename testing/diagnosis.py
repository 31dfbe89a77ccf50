"""What is the matter?  Experiments on a counterexample: change one thing; if the functions then agree, that thing matters.

Each observation is a fact about this counterexample; what stands in brackets is what it suggests.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from .comparison import Check
from .counterexample import named_sizes, resized
from .gradients import results
from .judge import Difference
from .oracle import ordinary

_LOW = (torch.float16, torch.bfloat16)
_SMALL = 0.02  # a relative error that an epsilon explains
_PATIENCE = 5.0  # seconds for trying sizes


def observations(check: Check, args: Sequence[Any], error: Exception, drawn: Sequence[Any] = ()) -> list[str]:
    """What can be said about a failure of ``check`` on ``args``, at most a few lines; ``drawn``: arguments that know their recipes."""
    kind = error.kind if isinstance(error, Difference) else ""
    if kind in ("outputs", "shape", "type", "promoted", "truncated", "changed", "detached", "no gradient") or "overflow" in str(error):
        return []
    seen = [place(error.wrong)] if isinstance(error, Difference) and error.wrong is not None else []
    seen += _experiments(check, args, kind, drawn)
    return [s for s in seen if s]


def _experiments(check: Check, args: Sequence[Any], kind: str, drawn: Sequence[Any]) -> Iterator[str]:
    launches = check.launches(args)
    found = False
    if kind and launches.count:
        if check.agree(args, poison=False):
            found = True
            yield "with zeros in the masked lanes of loads they agree (a load with a mask and no `other` is used: missing mask)"
        elif check.shuffle and check.agree(args, order=None):
            found = True
            yield "with the programs in the order of their numbers they agree (race: the result depends on the order of programs)"
        else:
            larger = _larger(drawn or args)
            for value in _FILLINGS:
                if check.agree(args, masked=value) and check.agree(larger, masked=value):
                    found = True
                    what = "padding takes part: `other` is not neutral, or a mask is missing"
                    yield f"with {value:g} in the masked lanes of loads they agree ({what})"
                    break
        if launches.wraps:
            found = True
            yield f"32-bit arithmetic wrapped: {launches.wraps[0]} (int32 offset overflow)"
    if any(isinstance(a, torch.Tensor) and not a.is_contiguous() for a in args) and check.agree(_each(args, torch.Tensor.contiguous)):
        found = True
        yield "on contiguous copies of the arguments they agree (a stride is ignored)"
    if kind and _any(args, lambda a: bool(a.isinf().any())) and check.agree(_each(args, _bounded)):
        found = True
        yield "with -1e4 in place of -inf they agree (-inf minus -inf is NaN: a tile or row that is masked entirely needs a guard)"
    narrow = [torch.finfo(a.dtype).eps for a in args if _floats(a) and a.dtype in _LOW]
    if kind in ("error", "not finite") and narrow and _tolerant(check, min(narrow)).agree(_each(args, torch.Tensor.float)):
        found = True
        yield "on float32 copies of the arguments they agree (something is computed or summed in the narrow type: missing upcast)"
    if found or kind not in ("error", "not finite", "finite"):
        return
    said = _padding(check, args, drawn)
    if not said and kind == "error":
        said = _narrower(check, drawn or args) or _epsilon(check, args, drawn)
    if said:
        yield said


_FILLINGS = (0.0, -torch.inf, torch.inf, 1.0)


def _padding(check: Check, args: Sequence[Any], drawn: Sequence[Any]) -> str:
    """A size such that they agree where it is a power of two, and so fills its tiles, and only there."""
    limit = time.monotonic() + _PATIENCE
    for name, top, resize in _resizable(args, drawn):
        powers = [1 << k for k in range(2, 12) if 1 << k <= top][-4:]
        between = sorted({n for p in powers for n in (p - 1, p + 1) if n <= top and n & (n - 1)})
        agree: list[int] = []
        fail: list[int] = []
        for n in [*reversed(powers), *between]:
            if time.monotonic() > limit:
                return ""
            trial = resize(n)
            if trial is None:
                continue
            (agree if check.agree(trial) else fail).append(n)
            if fail and max(fail) == powers[-1]:
                break  # it fails in full tiles, too
        smallest = max((p + 1 for p in powers if p in fail), default=0)  # a tile is larger than that
        full, partial = [p for p in powers if p in agree and p >= smallest], [n for n in between if n > smallest]
        if len(full) >= 2 and len(partial) >= 2 and all(n in fail for n in partial):
            return (
                f"with {name} {_listed(full)} they agree, with {_listed(partial)} they do not (padding takes part: a mask is missing, or "
                "what stands in masked lanes is not neutral)"
            )
    return ""


def _resizable(args: Sequence[Any], drawn: Sequence[Any]) -> Iterator[tuple[str, int, Callable[[int], list[Any] | None]]]:
    """Sizes that may change: what they are called, how large they may be, and arguments with another."""
    sizes = named_sizes(drawn)
    for s in sizes:
        others = {o: min(max(v, 2), o.high) for o, v in sizes.items() if o != s}
        yield s.name, s.high, lambda n, s=s, others=others: resized(drawn, {**others, s: n}) if n >= s.low else None  # type: ignore[misc]
    lengths = {a.shape[-1] for a in args if _floats(a) and a.ndim} if not sizes else set()
    for length in sorted(lengths):

        def shortened(n: int, length: int = length) -> list[Any]:
            return [a[..., :n] if isinstance(a, torch.Tensor) and a.ndim and a.shape[-1] == length else a for a in args]

        yield "a last axis of length", length, shortened


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, sorted(numbers))
    return f"{', '.join(first)} and {last}" if first else last


def _narrower(check: Check, args: Sequence[Any]) -> str:
    """A type to which something is rounded: errors of its size, up as well as down, however large the arguments are."""
    args = _larger(args)
    found: set[torch.dtype | None] = set()
    for scale in (1, 16, 1 / 16):
        found.add(_one_rounding(check, [a * scale if _floats(a) else a for a in args]))
    if len(found) != 1 or (narrow := found.pop()) is None:
        return ""
    short = str(narrow).removeprefix("torch.")
    return (
        f"on other arguments, large and small ones, results are off by up to {_half(narrow):.2g} of themselves, up as well as down: "
        f"as much as one rounding to {short} (something is rounded to {short} inside)"
    )


def _larger(args: Sequence[Any]) -> list[Any]:
    """Ordinary numbers, and so many that little is true of them by chance."""
    return ordinary(resized(args, {s: min(max(v, 47), s.high) for s, v in named_sizes(args).items()}), 0)


def _half(dtype: torch.dtype) -> float:
    """Half a unit in the last place, relative to the smallest number that has it."""
    return torch.finfo(dtype).eps / 2


def _one_rounding(check: Check, args: Sequence[Any]) -> torch.dtype | None:
    kinds = set()
    for a, e in check.errors(args):
        finite = a.isfinite() & e.isfinite() & (e != 0)
        off = ((a - e) / e)[finite]
        if off.numel() < 16:
            continue
        ups, downs = float((off > 0).double().mean()), float((off < 0).double().mean())
        largest = float(off.abs().max())
        kinds.add(next((t for t in _LOW if min(ups, downs) > 0.2 and 0.6 * _half(t) < largest < 1.02 * _half(t)), None))
    return kinds.pop() if len(kinds) == 1 else None


def _epsilon(check: Check, args: Sequence[Any], drawn: Sequence[Any]) -> str:
    """An argument so small that something added to it matters: the larger it is, the smaller the error, and the error is small where
    numbers are about 1, for short rows, too (what padding adds is of another size in each).  The error itself must vanish, and not only
    beside results that grow: a large bias hides any error."""
    short = [resize(2) for _, _, resize in _resizable(args, drawn)]
    if any(_relative(check, ordinary(a, 0)) > _SMALL for a in (args, *short) if a is not None):
        return ""
    for k, a in enumerate(args):
        scale = _room(a) if _floats(a) else 1
        if scale <= 1:
            continue
        larger = _scaled(args, k, scale)
        if not (check.agree(larger) and _finite(check, larger)) or check.agree(_scaled(args, k, 1 / 1024)):
            continue
        pairs = [check.errors(_scaled(args, k, 4.0**s)) for s in range(-2, 4)]
        if all(_vanish([size(p) for p in pairs]) for size in (_relative_error, _absolute_error)):
            return f"with argument {k} {scale} times as large they agree (something small is added: an epsilon, or its place)"
    return ""


def _scaled(args: Sequence[Any], k: int, scale: float) -> list[Any]:
    return [x * scale if i == k else x for i, x in enumerate(args)]


def _vanish(errors: Sequence[float]) -> bool:
    return all(y <= 1.1 * x for x, y in itertools.pairwise(errors)) and errors[-1] * 8 < errors[0]


def _relative(check: Check, args: Sequence[Any]) -> float:
    return _relative_error(check.errors(args))


def _relative_error(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """The largest error of the second function, relative to the largest result."""
    return _largest(pairs, lambda a, e: (a - e).abs().max() / e.abs().max())


def _absolute_error(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """The largest error of the second function."""
    return _largest(pairs, lambda a, e: (a - e).abs().max())


def _largest(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], size: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> float:
    if not pairs:
        return torch.inf
    found = [float(size(a, e)) for a, e in pairs if e.numel() and bool((a.isfinite() & e.isfinite()).all())]
    return max((x for x in found if x == x), default=0.0)


def _floats(a: Any) -> bool:
    """A tensor of numbers that torch computes with, which it does in no type of eight bits."""
    return isinstance(a, torch.Tensor) and a.is_floating_point() and a.element_size() > 1 and a.numel() > 0


def _tolerant(check: Check, eps: float) -> Check:
    """The same comparison on float32 arguments, with the tolerance of a narrower type."""
    return replace(check, roundings=check.roundings * eps / torch.finfo(torch.float32).eps)


def _finite(check: Check, args: Sequence[Any]) -> bool:
    """The results of the first function are finite, so that agreement says something."""
    return all(bool(r.value.isfinite().all()) for r in results(check.f, args))


def _room(a: torch.Tensor) -> int:
    """The largest power of two up to 2²⁰ by which the tensor may grow and stay well within its type."""
    largest = float(a.abs().max())
    scale = 1 << 20
    while scale > 1 and not largest * scale < torch.finfo(a.dtype).max / 8:
        scale //= 2
    return scale


def _any(args: Sequence[Any], holds: Callable[[torch.Tensor], bool]) -> bool:
    return any(_floats(a) and holds(a) for a in args)


def _each(args: Sequence[Any], change: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    return [change(a) if _floats(a) else a for a in args]


def _bounded(a: torch.Tensor) -> torch.Tensor:
    return a.clamp(-1e4, 1e4)


def place(wrong: torch.Tensor) -> str:
    """Where the wrong elements are, if that says something."""
    if wrong.ndim == 0 or bool(wrong.all()):
        return ""
    said = []
    for axis, size in enumerate(wrong.shape):
        others = [d for d in range(wrong.ndim) if d != axis]
        hit = torch.nonzero(wrong.any(others) if others else wrong)[:, 0].tolist()
        if len(hit) == size:
            continue
        if hit == [size - 1]:
            said.append(f"at the last index of axis {axis} ({hit[0]} of {size})")
        elif hit == [0]:
            said.append(f"at the first index of axis {axis} (of {size})")
        elif hit == list(range(hit[0], size)):
            said.append(f"at indices {hit[0]} and above of axis {axis} (of {size})")
        elif hit == list(range(hit[-1] + 1)):
            said.append(f"at indices below {hit[-1] + 1} of axis {axis} (of {size})")
    return f"all wrong elements are {' and '.join(said)}" if said else ""


def ignored(check: Check, args: Sequence[Any]) -> str:
    """An end of an argument's last axis that the second function does not look at, although the first does."""
    for k, a in enumerate(args):
        if not _floats(a) or a.ndim == 0 or a.shape[-1] < 2:
            continue
        for index, name in ((-1, "last"), (0, "first")):
            changed = a.clone(memory_format=torch.contiguous_format)
            changed[..., index] = changed[..., index].clamp(-10, 10) * 0.5 + 1
            other = [changed if i == k else x for i, x in enumerate(args)]
            if check.depends(check.f, args, other) and not check.depends(check.g, args, other):
                return f"the second function does not depend on the {name} index of the last axis of argument {k} (off by one)"
    return ""
