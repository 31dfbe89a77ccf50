"""Results of a function: its outputs, and on request the gradients of its arguments for random cotangents."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves, tree_map, tree_unflatten

from ..errors import OptionError
from .judge import Result


@dataclass(frozen=True)
class Wanted:
    """Which gradients are asked for.

    ``arguments``: positions; None: all.  ``outputs``: those that gradients are taken of; None: all that autograd knows to depend on
    the arguments.
    """

    arguments: frozenset[int] | None = None
    outputs: frozenset[int] | None = None


def wanted(gradients: bool | Collection[int | str], fn: Callable[..., Any], count: int) -> Wanted | None:
    """What the option ``gradients`` of a comparison of functions with ``count`` arguments asks for: positions, or names of parameters
    of ``fn``.  Raises :class:`~eqfuse.errors.OptionError` for what is neither."""
    if isinstance(gradients, bool):
        return Wanted() if gradients else None
    cure = "gradients=True, or the positions or names of some arguments, as in gradients=[0, 2]"
    if isinstance(gradients, str) or not isinstance(gradients, Collection):
        raise OptionError(f"gradients is {gradients!r}", cure=cure)
    try:
        names = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):  # many built-in functions have none
        names = []
    found = set()
    for g in gradients:
        position = names.index(g) if isinstance(g, str) and g in names else g
        if isinstance(position, bool) or not isinstance(position, int) or not -count <= position < count:
            known = f", or their names: {', '.join(names[:count])}" if names else ""
            raise OptionError(f"gradients names {g!r}, but the arguments are 0 to {count - 1}{known}", cure=cure)
        found.add(position % count)
    return Wanted(frozenset(found)) if found else None


def results(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    gradients: Wanted | None = None,
    exact: bool = False,
    nudge: int | None = None,
    move: Callable[[str, torch.Tensor], torch.Tensor] = lambda _, a: a,
    mode: TorchDispatchMode | None = None,
    between: Callable[[], None] = lambda: None,
) -> list[Result]:
    """Outputs of ``fn(*args)`` in order, then gradients of the floating-point arguments that are ``wanted``.

    ``exact``: in float64, with the same numbers.  ``nudge``: seed of rounding errors that are thrown in, in the arguments and after
    every operation: some units of float32 (of float64 if that is the type of the arguments).  ``move``: what takes the place of an
    argument, or of a tensor in one, by its name (``"0"``, ``"1['w']"``).  ``mode``: what the function, and its backward, runs in.
    ``between`` is called after the function, before its backward.  Cotangents are random numbers that every type holds, the same for
    every function, so an error in them is no error of the function.  Numbers among the outputs become tensors without dimensions.
    """
    if nudge is not None:
        double = any(isinstance(a, torch.Tensor) and a.dtype == torch.float64 for a in tree_leaves(args))
        with _Rounding(nudge, torch.finfo(torch.float64 if double else torch.float32).eps):
            return _results(fn, args, gradients, exact, nudge, move, mode, between)
    return _results(fn, args, gradients, exact, nudge, move, mode, between)


def _results(
    fn: Callable[..., Any],
    args: Sequence[Any],
    gradients: Wanted | None,
    exact: bool,
    nudge: int | None,
    move: Callable[[str, torch.Tensor], torch.Tensor],
    mode: TorchDispatchMode | None,
    between: Callable[[], None],
) -> list[Result]:
    within: contextlib.AbstractContextManager[Any] = mode if mode is not None else contextlib.nullcontext()
    narrow = next((a.dtype for a in tree_leaves(args) if isinstance(a, torch.Tensor) and a.is_floating_point()), torch.float32)
    inputs = [tree_map(partial(_double, nudge=nudge), a) if exact else a for a in args]
    inputs = [_each(k, a, move) for k, a in enumerate(inputs)]
    if gradients is None:
        with within:
            outputs = _outputs(fn(*inputs), narrow)
        between()
        return [Result(f"output {k}", v) for k, v in enumerate(outputs)]
    with torch.enable_grad():
        leaves: dict[str, tuple[int, torch.Tensor]] = {}
        inputs = [a if _excluded(k, gradients) else _with_leaves(k, a, leaves) for k, a in enumerate(inputs)]
        with within:
            outputs = _outputs(fn(*inputs), narrow)
        between()
        known = [v.requires_grad for v in outputs]
        ends = [(k, v) for k, v in enumerate(outputs) if v.requires_grad and (gradients.outputs is None or k in gradients.outputs)]
        found = [Result(f"output {k}", v.detach().clone(), attached=known[k]) for k, v in enumerate(outputs)]  # a backward may write
        if not ends or not leaves:
            return found
        cotangents = [_nudged(_cotangent(v, k), narrow, nudge) for k, v in ends]
        with within:
            pulled = torch.autograd.grad([v for _, v in ends], [leaf for _, leaf in leaves.values()], cotangents, allow_unused=True)
    for (name, (k, leaf)), gradient in zip(leaves.items(), pulled, strict=True):
        value = torch.zeros_like(leaf) if gradient is None else gradient
        found.append(Result(f"gradient of argument {name}", value, argument=k, attached=gradient is not None))
    return found


def _excluded(k: int, gradients: Wanted) -> bool:
    return gradients.arguments is not None and k not in gradients.arguments


def _with_leaves(k: int, argument: Any, leaves: dict[str, tuple[int, torch.Tensor]]) -> Any:
    """Argument ``k`` with tensors that want a gradient in it; ``leaves`` collects them by name."""

    def leaf(name: str, a: torch.Tensor) -> torch.Tensor:
        a = a.detach().requires_grad_()
        leaves[name] = k, a
        return a

    return _each(k, argument, leaf)


def _each(k: int, argument: Any, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Any:
    """Argument ``k`` with its floating-point tensors changed, which have names."""
    flat, structure = tree_flatten_with_path(argument)
    named = [(f"{k}{keystr(path)}", a) for path, a in flat]
    return tree_unflatten([change(n, a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for n, a in named], structure)


def _outputs(value: Any, narrow: torch.dtype) -> list[torch.Tensor]:
    """The tensors in whatever holds them, and numbers as tensors: those with a fraction in the type ``narrow`` of the arguments."""
    return [v for v in (_as_tensor(v, narrow) for v in tree_leaves(value)) if v is not None]


def _as_tensor(v: Any, narrow: torch.dtype) -> torch.Tensor | None:
    if isinstance(v, torch.Tensor):
        return v
    if isinstance(v, np.ndarray | np.generic):
        return torch.as_tensor(v)
    if isinstance(v, float):
        return torch.tensor(v, dtype=narrow)
    return torch.tensor(v) if isinstance(v, Number) else None


def _cotangent(output: torch.Tensor, k: int) -> torch.Tensor:
    """Numbers that both bfloat16 and float16 hold, so that every function gets the same, whatever types it goes through."""
    drawn = torch.randn(output.shape, generator=torch.Generator().manual_seed(1000 + k), dtype=torch.float64)
    return drawn.to(torch.bfloat16).to(torch.float16).to(output.device, output.dtype)


def _double(a: Any, nudge: int | None) -> Any:
    return _nudged(a.double(), a.dtype, nudge) if isinstance(a, torch.Tensor) and a.is_floating_point() else a


def _nudged(a: torch.Tensor, dtype: torch.dtype, nudge: int | None) -> torch.Tensor:
    """Each element up to four roundings up or down."""
    if nudge is None:
        return a
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    steps = torch.randint(-4, 5, a.shape, generator=torch.Generator().manual_seed(nudge)).to(a.device)
    return a * (1 + eps * steps)


class _Rounding(TorchDispatchMode):
    """Every operation that makes new numbers makes them with rounding errors of the size ``eps``.

    An operation of several steps has errors in each of them: torch's decomposition takes its place.  The gradient of a log-softmax of one
    number is ``g - exp(y) sum(g)``, which is 0 in every way of rounding ``g`` and ``y``; but not of rounding ``exp(y)``, and only that
    says how large the terms are that cancel.
    """

    def __init__(self, seed: int, eps: float) -> None:
        super().__init__()
        from torch._decomp import decomposition_table  # half a second, for what is seldom asked

        self.generator, self.eps, self.steps = torch.Generator().manual_seed(seed), eps, decomposition_table

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.is_mutable or any(r.alias_info is not None for r in func._schema.returns):
            return func(*args, **(kwargs or {}))  # views, and what works in place
        if func in self.steps and torch.Tag.nondeterministic_seeded not in func.tags:
            with contextlib.suppress(NotImplementedError, RuntimeError, TypeError), self:  # otherwise it is one step
                return self.steps[func](*args, **(kwargs or {}))
        return tree_map(self._rounded, func(*args, **(kwargs or {})))

    def _rounded(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float64:
            return x
        steps = torch.randint(-2, 3, x.shape, generator=self.generator).to(x.device)
        return x * (1 + self.eps * steps)
