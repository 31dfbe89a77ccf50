"""One comparison: two functions on the same arguments, run, judged and put back.

The second function runs with every access of its kernels checked, several times, in orders of its programs and on memory filled as
nothing promises; the first runs as it is, and in float64 as the oracle.  What is wrong is raised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis.errors import UnsatisfiedAssumption

from ..errors import KernelBug, KernelError
from ..runtime.unwritten import UNINITIALISED
from .gradients import Wanted, results
from .judge import Difference, Result, flat, gained, judge, off
from .kernels import Launches, interpreted_kernels, never_written, unwritten_memory
from .oracle import beside, nudged, oracles
from .strategies import recipe_of

Function = Callable[..., Any]

_SNAPSHOT = 1 << 26  # bytes: of larger storages only the elements of the view are compared


@dataclass
class Tally:
    """What happened in some calls of a :class:`Check`."""

    launches: Launches = field(default_factory=Launches)
    calls: int = 0
    elements: int = 0  # compared
    empty: int = 0  # calls with an argument that has no element
    pulled: int = 0  # elements of gradients compared
    notes: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """Two functions, and how strictly they are compared."""

    f: Function
    g: Function
    factor: float
    roundings: float
    gradients: Wanted | None
    repeats: int
    sanitize: bool
    shuffle: bool
    constants: Mapping[str, Any] = field(default_factory=dict)

    def __call__(
        self,
        args: Sequence[Any],
        *,
        poison: bool = True,
        order: int | None = 0,
        tally: Tally | None = None,
        masked: float | None = None,
    ) -> None:
        """Raise what is wrong on these arguments."""
        tally = tally or Tally()
        before = tally.launches.count
        self._compare(args, poison, order, tally, masked)
        if tally.launches.count > before and masked is None and torch.cuda.is_available():
            self._compare(_on_cuda(args), poison, order, tally, masked)
        tally.calls += 1

    def _compare(self, args: Sequence[Any], poison: bool, order: int | None, tally: Tally, masked: float | None) -> None:
        """Raise what is wrong: first of all, that something is made of what nothing had written; last, of undefined lanes, for what
        else is wrong says more."""
        suspects: list[KernelBug] = []
        turns, tally.launches.undefined = dict(tally.launches.turns), {}
        error: Exception | None = None
        try:
            self._compared(args, poison, order, tally, masked, suspects)
        except (Difference, KernelBug, KernelError) as found:
            error = found
        undefined = {} if not (error is None or promoted(error)) or masked is not None else dict(tally.launches.undefined)
        if suspects:
            undefined = {UNINITIALISED: suspects[0], **undefined}
        if undefined and (culprit := self._made_of_undefined(args, poison, order, turns, masked, list(undefined))):
            raise undefined[culprit]
        if error is not None:
            raise error

    def _made_of_undefined(
        self, args: Sequence[Any], poison: bool, order: int | None, turns: Mapping[int, int], masked: float | None, places: Sequence[str]
    ) -> str | None:
        """The first of some places on whose undefined values hangs what the second function makes."""

        def outcome(nan: Sequence[str]) -> list[Result] | str:
            launches, untouched = Launches(), _Snapshot(args, "second")
            launches.turns = dict(turns)
            interpreted = interpreted_kernels(
                sanitize=self.sanitize, poison=poison, order=order if self.shuffle else None, launches=launches, masked=masked,
                suspects=[], nan=nan,
            )  # fmt: skip
            try:
                with interpreted, unwritten_memory():
                    return _kept(results(self.g, args, gradients=self.gradients))
            except Exception as error:  # of the kernel, or of a launcher that reads what it made
                return f"{type(error).__name__}: {error}"
            finally:
                untouched.restore()

        large = outcome([])

        def matter(nan: Sequence[str]) -> bool:
            found = outcome(nan)
            if isinstance(large, str) or isinstance(found, str):
                return large != found
            try:
                _same(large, found)
            except Difference:
                return True
            return False

        if not matter(places):
            return None
        return next((p for p in places if matter([p])), places[0])

    def _compared(
        self,
        args: Sequence[Any],
        poison: bool,
        order: int | None,
        tally: Tally,
        masked: float | None,
        suspects: list[KernelBug],
    ) -> None:
        untouched = _Snapshot(args, "first")
        with interpreted_kernels(sanitize=False, order=None), _blamed("first"):
            theirs = _kept(results(self.f, args, gradients=self.gradients, between=untouched.check))
        untouched.restore()
        pulled = self.gradients
        if pulled is not None:  # an output that only the second can differentiate is not a part of the first one's gradients
            pulled = replace(pulled, outputs=frozenset(k for k, r in enumerate(theirs) if r.attached and not r.gradient))
        ours: list[Result] = []
        turns = dict(tally.launches.turns)
        for turn in range(self.repeats):
            tally.launches.turns = dict(turns)  # an autotuned kernel has other bits with each configuration
            seed = None if order is None or not self.shuffle else order + 7919 * turn
            untouched = _Snapshot(args, "second")
            # A compiled function is not what it is inside a dispatch mode, so later runs are without one.
            memory = unwritten_memory() if turn == 0 else contextlib.nullcontext()
            interpreted = interpreted_kernels(
                sanitize=self.sanitize, poison=poison, order=seed, launches=tally.launches, masked=masked, suspects=suspects
            )
            with interpreted, memory, _blamed("second"):
                found = _kept(results(self.g, args, gradients=pulled, between=untouched.check))
            for changed in untouched.restore():
                tally.notes[f"the backward of the second function writes to argument {changed} (it was put back)"] = None
            if turn:
                _same(ours, found)
            else:
                ours = found
        untouched = _Snapshot(args, "first")
        with interpreted_kernels(sanitize=False, order=None), _blamed("first"):
            exact = oracles(self.f, args, gradients=self.gradients)
        untouched.restore()
        tally.notes.update(dict.fromkeys(tally.launches.exchanged.values()))
        tally.elements += sum(r.value.numel() for r in theirs if not r.gradient)
        tally.pulled += sum(r.value.numel() for r in theirs if r.gradient)
        tally.empty += any(a.numel() == 0 for a in flat(list(args)))

        def again(k: int) -> list[list[Result]]:
            with interpreted_kernels(sanitize=False, order=None), _blamed("first"):
                return nudged(self.f, args, exact[k], gradients=self.gradients)

        def near(k: int) -> list[list[Result]]:
            pairs = zip(ours, exact, strict=True)
            found = {m.label.removeprefix("gradient of argument "): (m.value, o.value) for m, o in pairs if m.gradient}
            along = [{name: of(mine, oracle) for name, (mine, oracle) in found.items()} for of in (off, gained)]
            with interpreted_kernels(sanitize=False, order=None):
                return beside(self.f, args, exact[k], along, gradients=self.gradients)

        judge(ours, theirs, exact, self.factor, self.roundings, again, near)

    def fault(self, args: Sequence[Any], **options: Any) -> Exception | None:
        """What is wrong on these arguments."""
        try:
            self(args, **options)
        except UnsatisfiedAssumption:
            raise
        except Exception as error:
            return error
        return None

    def agree(self, args: Sequence[Any], **options: Any) -> bool:
        """Nothing is wrong on these arguments."""
        with contextlib.suppress(UnsatisfiedAssumption):
            return self.fault(args, **options) is None
        return False

    def launches(self, args: Sequence[Any]) -> Launches:
        """What the kernels do on these arguments, as far as they come."""
        tally = Tally()
        self.fault(args, tally=tally)
        return tally.launches

    def errors(self, args: Sequence[Any]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of each floating-point result: what the second function makes, in float64, and what it should be.  Empty if one fails."""
        try:
            with interpreted_kernels(sanitize=self.sanitize, poison=False, order=None):  # what writes elsewhere must not do so here
                ours = _kept(results(self.g, args, gradients=self.gradients))
                exact = oracles(self.f, args, gradients=self.gradients)
        except Exception:  # the user's functions may raise anything on what the diagnosis tries; then nothing is learnt from it
            return []
        pairs = [(mine.value.cpu(), oracle.value.detach().cpu()) for mine, oracle in zip(ours, exact, strict=False)]
        return [(a.double(), e.double()) for a, e in pairs if a.is_floating_point() and a.shape == e.shape]

    def runs(self, args: Sequence[Any]) -> Launches | None:
        """What the kernels of the second function do on these arguments; None if it fails."""
        launches = Launches()
        try:
            with interpreted_kernels(sanitize=self.sanitize, poison=False, order=None, launches=launches):
                results(self.g, args, gradients=self.gradients)
        except KernelBug:
            return launches  # as far as it came
        except Exception:  # as above
            return None
        return launches

    def depends(self, fn: Function, args: Sequence[Any], others: Sequence[Any]) -> bool:
        """Has the function other outputs on other arguments?  False if it fails."""
        try:
            with interpreted_kernels(sanitize=self.sanitize, poison=False, order=None):
                ours, theirs = (_kept(results(fn, a)) for a in (args, others))
        except Exception:  # as above
            return False
        return any(not torch.equal(a.value.nan_to_num(), b.value.nan_to_num()) for a, b in zip(ours, theirs, strict=True))


def promoted(error: Exception | None) -> bool:
    """Nothing is wrong but a floating-point type."""
    return isinstance(error, Difference) and error.kind == "promoted"


def _kept(found: Sequence[Result]) -> list[Result]:
    """Results that later runs cannot change."""
    return [replace(r, value=r.value.detach().clone()) for r in found]


def _same(first: Sequence[Result], again: Sequence[Result]) -> None:
    """Raise unless two runs gave the same bits; what neither wrote is the judge's matter."""
    if len(first) != len(again):
        raise Difference("outputs", f"the second function has {len(first)} outputs, and {len(again)} when it runs again")
    for a, b in zip(first, again, strict=True):
        if a.value.shape != b.value.shape or a.value.dtype != b.value.dtype:
            raise Difference("unsteady", f"{a.label}: another shape or type when the second function runs again")
        x, y = a.value.cpu(), b.value.cpu()
        differs = (x != y) & ~((x != x) & (y != y)) & ~never_written(x)
        if bool(differs.any()):
            at = tuple(torch.nonzero(differs)[0].tolist())
            raise Difference(
                "unsteady",
                f"{a.label}: {int(differs.sum())} elements differ when the second function runs again on the same arguments "
                f"(repeats=1 allows it); first at {at}: {x[at].item():.9g}, then {y[at].item():.9g}",
                differs,
            )


class _Snapshot:
    """Arguments as they were: whole storages, so that writes beside a view show."""

    def __init__(self, args: Sequence[Any], whose: str) -> None:
        self.whose = whose
        self.tensors = [(k, a, _bytes(a).clone()) for k, x in enumerate(args) for a in flat(x) if _plain(a)]

    def check(self) -> None:
        """Raise if an argument has changed, and put it back."""
        for k, many in self._put_back():
            raise Difference("changed", f"the {self.whose} function changed argument {k} in place ({many} bytes of its memory)")

    def restore(self) -> list[int]:
        """Put back what has changed, and say which arguments these are: a backward may write to what was saved for it."""
        return [k for k, _ in self._put_back()]

    def _put_back(self) -> list[tuple[int, int]]:
        changed = []
        for k, tensor, before in self.tensors:
            now = _bytes(tensor)
            if not torch.equal(now, before):
                changed.append((k, int((now != before).sum())))
                if now.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
                    now.copy_(before)
                else:
                    tensor.detach().copy_(before.view(tensor.dtype).view(tensor.shape))
        return changed


@contextlib.contextmanager
def _blamed(whose: str) -> Iterator[None]:
    """An exception inside knows whose it is."""
    try:
        yield
    except Difference:
        raise
    except Exception as error:
        with contextlib.suppress(AttributeError):
            error.eqfuse_blamed = whose  # type: ignore[attr-defined]
        raise


def _plain(t: torch.Tensor) -> bool:
    return t.layout == torch.strided and t.numel() > 0


def _bytes(t: torch.Tensor) -> torch.Tensor:
    """The memory of the tensor's storage, or of a copy of its elements if the storage is large."""
    t = t.detach()
    storage = t.untyped_storage()
    if storage.nbytes() <= _SNAPSHOT:
        return torch.empty(0, dtype=torch.uint8, device=t.device).set_(storage)
    return t.contiguous().flatten().view(torch.uint8)


def _on_cuda(args: Sequence[Any]) -> list[Any]:
    def moved(a: Any) -> Any:
        recipe = recipe_of(a) if isinstance(a, torch.Tensor) else None
        if recipe is not None:
            return recipe.build("cuda")
        return a.to("cuda") if isinstance(a, torch.Tensor) else a

    return [moved(a) for a in args]
