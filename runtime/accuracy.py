"""Errors against float64: what the generated kernels do beside what the eager program does in its own type.

The norm is the largest absolute error divided by the largest absolute value of the exact output, per output; NaN or infinity in
one and not in the other counts as infinite error.

Where a result hangs on the last bit of something large (two scores of 1e4 that are almost tied), the error of one run is luck: eager's own
error changes by factors of ten when its sums are added up in another order.  ``orders=K`` makes that visible: eager runs also with
every axis that is summed over in K random orders, which is the same program over the reals, and the largest of its errors is what ours are
held to.

``optimize(..., accuracy_factor=F)`` runs a plan at small sizes in Triton's interpreter before it is given out (``at_small_sizes``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..errors import AccuracyError, EqFuseError, expect
from ..ir import dtypes, reference
from ..ir.terms import Gather, Index, Reduce, Scan, View
from .executable import Executable

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..ir.index import Axis


@dataclass(frozen=True)
class OutputError:
    """One output: relative errors against float64, and elements that are not finite though the exact value is.

    ``reordered``: eager's errors where its sums are added up in other orders, if that was asked for.
    """

    name: str
    dtype: str
    ours: float
    eager: float
    ours_nonfinite: int
    eager_nonfinite: int
    reordered: tuple[float, ...] = ()

    def within(self, factor: float = 2.0) -> bool:
        """No worse than ``factor`` times eager in any order (or than one rounding of the output type), and nothing newly non-finite."""
        floor = dtypes.dtype(self.dtype).epsilon
        bar = max(self.eager, floor / 2, *(e for e in self.reordered if math.isfinite(e)))
        return self.ours <= factor * bar and self.ours_nonfinite <= self.eager_nonfinite


@dataclass(frozen=True)
class AccuracyReport:
    """All outputs."""

    runner: str
    outputs: tuple[OutputError, ...]

    def check(self, factor: float = 2.0) -> None:
        """Raise :class:`AccuracyError` unless every output is within the factor."""
        bad = [o for o in self.outputs if not o.within(factor)]
        if bad:
            raise AccuracyError(
                "; ".join(f"{o.name}: error {o.ours:.2e}, eager {o.eager:.2e}, non-finite {o.ours_nonfinite}" for o in bad),
                cure="use licence='exact', or a wider element type",
            )

    def __str__(self) -> str:
        lines = [f"error against float64 ({self.runner})"]
        for o in self.outputs:
            other = f", in other orders {min(o.reordered):.2e} to {max(o.reordered):.2e}" if o.reordered else ""
            lines.append(f"  {o.name:12s} {o.dtype:9s} ours {o.ours:.2e}   eager {o.eager:.2e}{other}")
        return "\n".join(lines)


def relative_error(got: np.ndarray, exact: np.ndarray) -> tuple[float, int]:
    """(max |got - exact| / max |exact| over elements where both are finite, elements where just one of them is)."""
    import numpy as np

    finite = np.isfinite(exact)
    lost = int(np.sum(finite != np.isfinite(got)))
    both = finite & np.isfinite(got)
    if not both.any():
        return (0.0 if lost == 0 else float("inf")), lost
    scale = float(np.max(np.abs(exact[finite]))) or 1.0
    return float(np.max(np.abs(got[both] - exact[both]))) / scale, lost


RUNNERS = ("auto", "cuda", "interpret", "simulate")


def check_asked(runner: object, factor: float | None, orders: int) -> None:
    """OptionError for what is no runner, no factor or no number of orders."""
    expect(isinstance(runner, str) and runner in RUNNERS, "runner", runner, f"one of {', '.join(RUNNERS)}", where="accuracy")
    good = factor is None or (isinstance(factor, Real) and not isinstance(factor, bool) and factor > 0)
    expect(good, "factor", factor, "a number above 0, such as 2.0", where="accuracy")
    whole = isinstance(orders, int) and not isinstance(orders, bool)
    expect(whole and orders >= 0, "orders", orders, "how many random orders to try, 0 or more", where="accuracy")


def measure(
    compiled: Executable, args: Sequence[Any], runner: str, kwargs: Mapping[str, Any] | None = None, orders: int = 0
) -> AccuracyReport:
    """Run ours (``interpret`` on CPU tensors, the kernels on CUDA ones; or ``simulate``) and eager, compare with float64.

    ``orders``: so many times more, eager runs with the axes that it sums over in random orders (the same ones every time).
    """
    given = dict(kwargs or {})
    tensors = compiled.bind_data(args, given)
    run: Callable[..., Any] = {"cuda": compiled.__call__, "interpret": compiled.interpret, "simulate": compiled.simulate}[runner]
    ours = compiled.in_order(run(*args, **given))
    exact = reference.evaluate(compiled.program, {n: in_float64(t) for n, t in tensors.items()})
    others = list(reordered(compiled, args, given, orders))
    names = [o.name for o in compiled.program.outputs]
    return compared(runner, names, ours, _eager(compiled, args, given), list(exact.values()), others)


def compared(
    runner: str, names: Sequence[str], ours: Sequence[torch.Tensor], eager: Sequence[torch.Tensor], exact: Sequence[np.ndarray],
    others: Sequence[Sequence[torch.Tensor]] = (),
) -> AccuracyReport:  # fmt: skip
    """Errors of outputs.  ``others``: what eager gives in other orders."""
    rows = []
    for k, (name, a, b, e) in enumerate(zip(names, ours, eager, exact, strict=True)):
        mine, mine_lost = relative_error(in_float64(a), e)
        theirs, theirs_lost = relative_error(in_float64(b), e)
        spread = tuple(relative_error(in_float64(other[k]), e)[0] for other in others)
        rows.append(OutputError(name, str(b.dtype).removeprefix("torch."), mine, theirs, mine_lost, theirs_lost, spread))
    return AccuracyReport(runner, tuple(rows))


def _eager(compiled: Executable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The outputs of the program as it is written, in order."""
    if compiled.traced.eager is not None:
        return compiled.in_order(compiled.eager(*args, **kwargs))
    return _written(compiled, {n: in_float64(t) for n, t in compiled.bind(args, kwargs).items()})


# eager in other orders -----------------------------------------------------------------------------------------------------------------


def free_axes(compiled: Executable, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Axis, ...]:
    """The axes that the program reduces and whose order means nothing to it: no position along them is used, and every input that
    has one is a tensor among the arguments."""
    import torch

    terms = compiled.program.terms()
    fixed: set[Axis] = set()
    for t in terms:
        if isinstance(t, Scan):
            fixed.add(t.axis)
        elif isinstance(t, Index):
            fixed |= t.axes
        elif isinstance(t, View):
            fixed |= t.index.axes() | {t.axis}
        elif isinstance(t, Gather):
            fixed.add(t.axis)
    tensors = compiled.bind(args, kwargs)
    given = Counter(id(leaf) for leaf in torch.utils._pytree.tree_leaves((list(args), dict(kwargs))))

    def movable(axis: Axis) -> bool:
        dims = [(id(tensors[i.name]), i.layout.index(axis) if axis in i.layout else None) for i in compiled.program.inputs]
        one = dict(dims)  # a tensor that is passed twice must have the axis at one place, and not be captured as well
        return all(one[key] == dim for key, dim in dims) and all(
            count <= given[key] for key, count in Counter(key for key, dim in dims if dim is not None).items()
        )

    reduced = dict.fromkeys(t.axis for t in terms if isinstance(t, Reduce))
    return tuple(sorted(a for a in reduced if a not in fixed and movable(a)))


def reordered(compiled: Executable, args: Sequence[Any], kwargs: Mapping[str, Any], orders: int) -> Iterator[list[torch.Tensor]]:
    """The outputs of the eager program where the axes that it reduces stand in random orders, put back into the order given.

    Over the reals these are the outputs of the program.  Nothing if no axis can be moved.
    """
    import torch

    axes = free_axes(compiled, args, kwargs) if orders else ()
    tensors = compiled.bind(args, kwargs)
    generator = torch.Generator().manual_seed(0)
    for _ in range(orders if axes else 0):
        moves = {a: torch.randperm(a.size, generator=generator) for a in axes}
        moved = {id(tensors[i.name]): _moved(tensors[i.name], i.layout, moves) for i in compiled.program.inputs}
        few = torch.utils._pytree.tree_map(lambda leaf, moved=moved: moved.get(id(leaf), leaf), (list(args), dict(kwargs)))
        back = {a: torch.argsort(p) for a, p in moves.items()}
        outputs = zip(compiled.program.outputs, _eager(compiled, *few), strict=True)
        yield [_moved(x, o.layout, back) for o, x in outputs]


def _moved(t: torch.Tensor, layout: Sequence[Axis | None], moves: Mapping[Axis, torch.Tensor]) -> torch.Tensor:
    for dim, a in enumerate(layout):
        if a is not None and a in moves:
            t = t.index_select(dim, moves[a].to(t.device))
    return t


def _written(compiled: Executable, arrays: Mapping[str, np.ndarray]) -> list[torch.Tensor]:
    """A program that was written in terms, op by op in float32, its casts applied: what stands for eager."""
    import numpy as np
    import torch

    outputs = compiled.program.outputs
    values = reference.evaluate_terms(tuple(o.term for o in outputs), arrays, np.float32, casts=True)
    found = []
    for o, v in zip(outputs, values, strict=True):
        axes = tuple(a for a in o.layout if a is not None)
        full = np.broadcast_to(v.aligned(axes), [a.size for a in axes]).reshape(o.shape).copy()
        found.append(torch.from_numpy(full).to(getattr(torch, o.dtype.name)))
    return found


# plans that are tried before they are given out ---------------------------------------------------------------------------------------

ROWS, SLICES = 67, 2  # lengths at which a plan is tried: of the last two dimensions of tensors, and of others; loops get three steps
FEW = 1 << 16  # elements of arguments that are tried as they are


def at_small_sizes(
    compiled: Executable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    at: Callable[[Sequence[Any], Mapping[str, Any]], Executable] | None,
) -> tuple[AccuracyReport, str]:
    """The accuracy of the same kernels on few rows in Triton's interpreter, and the sizes.

    Arguments that hold data are cut, those on the meta device are drawn.  ``at`` gives the same kernels for arguments of other sizes;
    without it the sizes are fixed.  Raises :class:`~eqfuse.errors.AccuracyError` if the plan does
    not exist at any of the sizes that are tried.
    """
    reasons: list[str] = []
    for few, sizes, limit in _cuts(compiled, args, kwargs, fixed=at is None):
        try:
            small = compiled if limit is None or at is None else at(*few)
            return measure(small, few[0], "interpret", few[1]), sizes
        except (EqFuseError, RuntimeError, ValueError, IndexError) as e:  # what a function says of sizes that it was not written for
            reasons.append(f"{sizes}: {str(e).splitlines()[0]}")
    raise AccuracyError(
        f"the plan cannot be tried at small sizes: {'; '.join(reasons) or 'its arguments are large and its sizes are fixed'}",
        where=compiled.program.name,
        cure="leave out accuracy_factor, and call c.accuracy(*args, factor=...) with arguments of full size",
    )


def _cuts(
    compiled: Executable, args: Sequence[Any], kwargs: Mapping[str, Any], *, fixed: bool
) -> Iterator[tuple[tuple[list[Any], dict[str, Any]], str, int | None]]:
    """Arguments to try, smallest first: cut along every axis, along the last two of each tensor only, along the longest axis only."""
    import torch

    inputs = compiled.program.inputs
    tensors = compiled.traced.bind(*args, **kwargs)
    axes = sorted({a for i in inputs for a in i.layout if a is not None})
    rows = {a for i in inputs for a in i.layout[-2:] if a is not None}
    longest = max(axes, key=lambda a: a.size, default=None)
    steps = {a.name: 2 * r.tile + 3 for k in compiled.plan.kernels for a, r in k.kernel.roles.items() if r.kind == "stream"}
    longest_step = max(ROWS, *steps.values(), 0)
    steps.update((split.axis, 2 * longest_step) for split in compiled.plan.splits)

    def least(a: Axis) -> int:
        return min(a.size, max(steps.get(a.name, 0), ROWS if a in rows else SLICES))

    choices = [
        {a: least(a) for a in axes},
        {a: least(a) if a in rows else a.size for a in axes},
        {a: least(a) if a == longest else a.size for a in axes},
    ]
    if fixed or sum(math.prod(t.shape) for t in tensors.values()) <= FEW:
        choices = [{a: a.size for a in axes}]
    seen: set[tuple[int, ...]] = set()
    for sizes in choices:
        key = tuple(sizes.values())
        if key in seen or sum(math.prod(1 if a is None else sizes[a] for a in i.layout) for i in inputs) > 96 * FEW:
            continue
        seen.add(key)
        generator = torch.Generator().manual_seed(0)
        cut = {id(tensors[i.name]): _cut(tensors[i.name], [1 if a is None else sizes[a] for a in i.layout], generator) for i in inputs}

        def small(leaf: Any, cut: dict[int, Any] = cut) -> Any:
            return cut.get(id(leaf), leaf)

        whole = all(n == a.size for a, n in sizes.items())
        text = ", ".join(f"{a.name}={n}" for a, n in sizes.items()) or "its size"
        few = torch.utils._pytree.tree_map(small, (list(args), dict(kwargs)))
        yield few, text, None if whole else 1


def _cut(t: Any, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """The first elements of a tensor on the CPU, or drawn ones of its type if it holds no data."""
    import torch

    if isinstance(t, torch.Tensor) and t.device.type != "meta":
        return t.detach()[tuple(slice(n) for n in shape)].cpu()
    dtype = t.dtype if isinstance(t.dtype, torch.dtype) else getattr(torch, str(t.dtype).removeprefix("torch."))
    if dtype.is_floating_point:
        return torch.randn(list(shape), generator=generator).to(dtype)
    return torch.randint(0, 2, list(shape), generator=generator).to(dtype)


def in_float64(t: torch.Tensor) -> np.ndarray:
    """A tensor's numbers."""
    import torch

    t = t.detach().cpu()
    return (t.double() if t.dtype.is_floating_point else t.to(torch.float64)).numpy()
