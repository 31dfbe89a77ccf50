"""Are two tensor functions equal?  Judged by a float64 oracle instead of a guessed tolerance.

The first function, run in float64 on the same numbers and without its casts to narrower types, is the oracle (see
:mod:`~eqfuse.testing.oracle`).  The second may be as inaccurate as the first is in its own type, casts and all, times a stated factor,
and never worse than a few roundings of the output type would explain.

Either function may launch hand-written Triton kernels: on CPU tensors they are interpreted, with every access checked (see
:mod:`~eqfuse.testing.kernels`).  Arguments may be Hypothesis strategies (see :mod:`~eqfuse.testing.strategies`): then many examples
are tried, and the smallest that fails is reported as code, with what experiments on it showed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import hypothesis
import torch
from hypothesis import strategies as st

from ..errors import AccuracyError, CoverageWarning, EmptyProgramError, KernelBug, KernelError, OptionError, shown
from .comparison import Check, Function, Tally, promoted
from .constants import blocks, bound
from .counterexample import code_of, name_of, named_sizes, resized, simplify
from .diagnosis import ignored, observations, place
from .gradients import wanted
from .judge import Difference
from .kernels import Launches
from .larger import larger
from .misuse import function, number, several, truth, whole
from .strategies import arguments, recipe_of

_PATIENCE = 5.0  # seconds: experiments are made on what runs faster than this
_LOOK = 10.0  # seconds: so long is looked for a larger example
_SEVERAL = 4  # of the last examples, beside the very last, that are drawn again with larger sizes
_GROWN = (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 128, 129)


def assert_equivalent(
    f: Function,
    g: Function,
    args: Sequence[Any],
    *,
    factor: float = 2.0,
    roundings: float = 2.0,
    gradients: bool | Collection[int | str] = False,
    repeats: int = 2,
    examples: int = 100,
    seed: int = 0,
    sanitize: bool = True,
    shuffle: bool = True,
    shrink_seconds: float = 5.0,
    constants: Mapping[str, Any] | None = None,
) -> Agreement:
    """Raise :class:`~eqfuse.errors.AccuracyError` unless ``g(*args)`` computes what ``f(*args)`` computes.

    Results are compared tensor by tensor, in order, whatever holds them; numbers of outputs, shapes and types must be the same.  Where
    floating-point types differ, as where ``f`` promotes and ``g`` does not, numbers are compared in the type of ``g`` in all examples, and
    the type is reported if nothing else is wrong.
    Numbers among the outputs are compared as tensors without dimensions.
    Floating point: ``factor`` times the error of ``f`` in its own type against ``f`` in float64 is allowed, and at least ``roundings``
    units in the last place of the output type, both relative to the largest exact element; where results hang on last bits (they
    cancel), also ``factor`` times what rounding errors in the arguments, after every operation and at every cast of ``f`` make of them.
    NaN and infinity must be where the oracle has them, or may be where ``f`` has them.  Integers and truth values must be those of
    ``f`` or of the oracle.  Results in half precision, and what is cast inside, may not be truncated where ``f`` rounds.

    ``gradients``: those of the floating-point arguments are compared, too, for random cotangents; or of some arguments, by position or
    by the name of a parameter of ``f``.  At a kink of ``f``, what lies between its gradients beside it is right.  Neither function may
    change its arguments (a backward may: they are put back).  ``g`` runs ``repeats`` times and must give the same bits every time (1
    for what uses floating-point atomics).

    Arguments that are strategies are drawn ``examples`` times; ``seed`` makes that repeatable.  A failing example is shrunk for
    ``shrink_seconds`` and reported as code.  Where a loop of a kernel never ran twice, sizes without an upper bound are drawn larger;
    what is left is a :class:`~eqfuse.errors.CoverageWarning`.  ``constants``: values of module-level constants for the time of this
    call, by name in the module of ``g`` or as ``"package.module.NAME"``: small blocks, for example.

    Triton kernels launched with CPU tensors are interpreted.  ``sanitize``: out-of-bounds accesses, races, uninitialised reads and
    wrapped 32-bit offsets raise :class:`~eqfuse.errors.KernelBug`.  ``shuffle``: programs of a grid run in a random order.  Where
    there is a CUDA device, what launches kernels on CPU tensors runs there, too.

    Raises :class:`~eqfuse.errors.OptionError` for arguments that are none of this, and
    :class:`~eqfuse.errors.EmptyProgramError` if there was nothing to compare.  An exception of ``f`` or ``g`` itself is passed on, with
    a note that says whose it is and on which arguments.
    """
    __tracebackhide__ = True
    given = tuple(several("args", args, "the arguments in a list, as in [x] or [tensors(torch.float32, ('N',))]"))
    check = Check(
        function("first", f),
        function("second", g),
        number("factor", factor),
        number("roundings", roundings),
        wanted(gradients, f, len(given)),
        whole("repeats", repeats, 1),
        truth("sanitize", sanitize),
        truth("shuffle", shuffle),
        constants=dict(constants or {}) if isinstance(constants, Mapping | None) else _no_mapping(constants),
    )
    whole("examples", examples, 1)
    whole("seed", seed)
    number("shrink_seconds", shrink_seconds)
    tally = Tally()
    with bound(check.constants, g):
        if any(isinstance(a, st.SearchStrategy) for a in given):
            failure = _search(check, arguments(*given), examples, seed, float(shrink_seconds), tally)
        else:
            failure = _try(check, given, tally)
        if failure is not None:
            raise _report(check, failure) from (None if failure.ours else failure.error)
    _require_something(check, tally)
    agreement = Agreement(tally.calls, tally.launches.count, tuple(tally.notes), tuple(_loops_that_ran_once(tally.launches)))
    for warning in agreement.warnings:
        warnings.warn(warning, CoverageWarning, stacklevel=2)
    return agreement


def _no_mapping(constants: Any) -> dict[str, Any]:
    raise OptionError(f"constants is {shown(constants)}", cure='constants={"package.module.NAME": 16}')


@dataclass(frozen=True)
class Agreement:
    """What was looked at, when nothing was wrong.

    ``examples``: arguments that were tried.  ``launches``: of kernels, all that were interpreted.  ``notes``: what is not wrong, but good
    to know.  ``warnings``: what was not tested (these are warned of, too).
    """

    examples: int
    launches: int
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def _require_something(check: Check, tally: Tally) -> None:
    """A comparison of nothing with nothing always passes."""
    if not tally.elements and tally.empty < tally.calls:
        raise EmptyProgramError(
            f"nothing was compared: neither {name_of(check.f)} nor {name_of(check.g)} returned a tensor or a number with any element"
            f"{f', in {tally.calls} examples' if tally.calls > 1 else ''}",
            cure="return the results from both functions, also where a launcher writes them to an argument",
        )
    if check.gradients is not None and not tally.pulled and tally.empty < tally.calls:
        raise EmptyProgramError(
            f"no gradient was compared: as far as autograd knows, no output of {name_of(check.f)} depends on "
            f"{'a floating-point argument' if check.gradients.arguments is None else 'these arguments'}",
            cure="gradients=False, or a first function that can be differentiated",
        )


def _loops_that_ran_once(launches: Launches) -> Iterator[str]:
    for loop in launches.loops.once():
        step = launches.loops.steps.get(loop, 0)
        small = [f"{name!r}: 16" for name in blocks(loop, step)]
        yield (
            f"{loop} ran at most once in all examples, so what it carries from one turn to the next was not tested\n  try: "
            + (f"sizes above {step}, its step" if step > 1 else "larger sizes")
            + (f"; or smaller blocks for the time of the test, as in constants={{{' or '.join(small)}}}" if small else "")
        )


@dataclass(frozen=True)
class _Failure:
    """Arguments, what was wrong on them, what had been found first, and the smallest that were drawn (and know how)."""

    args: tuple[Any, ...]
    error: Exception
    first: tuple[Any, ...]
    drawn: tuple[Any, ...]
    tried: int  # 0: there were no strategies
    seconds: float
    known: str = ""  # how it was found, if that says something

    @property
    def ours(self) -> bool:
        """A finding, and no exception that the function raised itself."""
        return isinstance(self.error, Difference | KernelBug | KernelError)

    def like(self, error: Exception | None) -> bool:
        """Is it of the same kind as another error."""
        return error is not None and _kind(error) == _kind(self.error)


def _kind(error: Exception) -> tuple[str, str]:
    if isinstance(error, Difference):
        return "difference", error.kind
    if isinstance(error, KernelBug | KernelError):
        return type(error).__name__, error.message.split(":")[0]
    return "raised", type(error).__name__


def _try(check: Check, args: tuple[Any, ...], tally: Tally) -> _Failure | None:
    start = time.monotonic()
    error = check.fault(args, tally=tally)
    return None if error is None else _Failure(args, error, args, args, 0, time.monotonic() - start)


class _Found(Exception):
    """Tells Hypothesis that an example fails."""


def _search(
    check: Check, strategy: st.SearchStrategy[tuple[Any, ...]], examples: int, seed: int, seconds: float, tally: Tally
) -> _Failure | None:
    """The smallest failing example, or None.  A type that differs is reported when nothing else is wrong in any example."""
    best: _Failure | None = None
    other_type: _Failure | None = None
    limit, tried, drawn = float("inf"), 0, list[tuple[Any, ...]]()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(strategy)
    def attempt(args: tuple[Any, ...]) -> None:
        nonlocal best, other_type, limit, tried
        if time.monotonic() > limit:
            return
        tried += best is None
        start = time.monotonic()
        error = check.fault(args, tally=tally)
        drawn[:] = [*drawn[-_SEVERAL:], args]
        now = time.monotonic()
        if error is None or (best is not None and not best.like(error)):
            return
        if promoted(error):
            other_type = other_type or _Failure(args, error, args, args, tried, now - start)
            return
        if best is None:
            limit = now if _device_lost() else now + seconds
            best = _Failure(args, error, args, args, tried, now - start)
        elif _weight(args) <= _weight(best.args):
            best = replace(best, args=args, error=error, drawn=args, seconds=now - start)
        raise _Found

    try:
        attempt()
    except Exception:  # _Found, or Hypothesis complaining that shrinking was cut short
        if best is None:
            raise
    if best is None:
        for args, loop in larger(check, drawn, tally.launches):
            start = time.monotonic()
            error = check.fault(args, tally=tally)
            if isinstance(error, Difference | KernelBug) and not promoted(error):
                known = f"only in examples where the loop `{loop.text}` runs twice or more, larger ones"
                best = _Failure(tuple(args), error, tuple(args), tuple(args), tally.calls + 1, time.monotonic() - start, known)
                break
    failure = best or other_type
    if failure is None:
        return None
    if _device_lost():
        return failure
    args = simplify(failure.args, lambda trial: failure.like(check.fault(trial)), max(1.0, seconds / 4))
    error = check.fault(args)
    return replace(failure, args=tuple(args), error=error) if error is not None and failure.like(error) else failure


def _device_lost() -> bool:
    """Whether the CUDA device answers no more, as after an illegal access: then every example fails, and with the same error."""
    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _weight(args: Sequence[Any]) -> tuple[int, int]:
    """Smaller is simpler: elements, then how long the recipes are."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    recipes = [recipe_of(t) for t in tensors]
    return sum(t.numel() for t in tensors), sum(len(r.code()) for r in recipes if r is not None)


def _report(check: Check, failure: _Failure) -> Exception:
    """The error to raise: what is wrong, what was observed, and the code that shows it."""
    error, seen = failure.error, []
    if _device_lost():
        seen = ["the device answers no more: whatever this process asks of it fails now, so nothing was tried on smaller arguments"]
    elif failure.seconds < _PATIENCE:
        seen = observations(check, failure.args, error, failure.drawn if failure.tried else ())
        if not seen and isinstance(error, Difference) and not promoted(error) and failure.tried:
            seen = _in_larger_examples(check, failure)
    seen = [failure.known, *seen] if failure.known else seen
    if isinstance(error, KernelBug):
        seen = [*seen, *(f"try: {cure}" for kind, cure in _CURES.items() if error.message.startswith(kind))]
    lines = [f"  {s}" if s.startswith("try: ") else f"  seen: {s}" for s in seen]
    if failure.tried:
        code = code_of(check.f, check.g, failure.args, _options(check))
        place = f"example {failure.tried}, shrunk from {_shapes(failure.first)} to {_shapes(failure.args)}"
        lines += [f"  {place}:", "", *(f"    {line}" if line else "" for line in code.splitlines())]
    tail = "\n" + "\n".join(lines) if lines else ""
    pair = f"{name_of(check.g)} does not compute what {name_of(check.f)} does"
    if getattr(error, "eqfuse_blamed", "") == "first":
        error.add_note(f"{name_of(check.f)}, the first function, raised this itself, on arguments of shapes {_shapes(failure.args)}{tail}")
        return error
    if isinstance(error, KernelBug | KernelError):
        return type(error)(error.message + tail, where=error.where, cure=error.cure)
    if isinstance(error, Difference):
        return AccuracyError(f"{pair}\n  {error.message}{tail}")
    error.add_note(f"{pair}: it raised an exception, on arguments of shapes {_shapes(failure.args)}{tail}")
    return error


_CURES = {
    "out-of-bounds": "mask the lanes that are outside: mask=..., other=...",
    "int32": "compute the offset in 64 bits, for example from tl.program_id(0).to(tl.int64)",
    "race": "let each program own what it writes, or use atomics",
    "uninitialised": "write it first, for example with torch.zeros",
}


def _in_larger_examples(check: Check, failure: _Failure) -> list[str]:
    """The smallest example often has one element, of which there is little to say: let its named sizes grow."""
    limit = time.monotonic() + _LOOK
    sizes = named_sizes(failure.drawn)
    for grown in reversed(sizes):
        few = {s: min(max(v, 3), s.high) for s, v in sizes.items() if s != grown}
        for value in _GROWN:
            if not sizes[grown] < value <= grown.high or time.monotonic() > limit:
                continue
            args = resized(failure.drawn, {**few, grown: value})
            error = check.fault(args)
            if isinstance(error, Difference):
                said = (place(error.wrong) if error.wrong is not None else "") or ignored(check, args)
                if said:
                    return [f"in a larger example, {_shapes(args)}: {said}"]
    return []


def _options(check: Check) -> dict[str, Any]:
    """What differs from the defaults."""
    defaults: dict[str, Any] = {"factor": 2.0, "roundings": 2.0, "gradients": None, "repeats": 2, "sanitize": True, "shuffle": True}
    defaults["constants"] = {}
    given = {k: getattr(check, k) for k, v in defaults.items() if getattr(check, k) != v}
    if check.gradients is not None:
        given["gradients"] = True if check.gradients.arguments is None else sorted(check.gradients.arguments)
    return given


def _shapes(args: Sequence[Any]) -> str:
    return ", ".join(str(tuple(a.shape)) for a in args if isinstance(a, torch.Tensor)) or "no tensors"
