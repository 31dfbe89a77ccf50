"""What the functions of this package are given is what they take; else :class:`~eqfuse.errors.OptionError` says what they take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from ..errors import OptionError, expect, shown


def require(condition: bool, message: str, cure: str | None = None) -> None:
    """Raise unless the condition holds."""
    if not condition:
        raise OptionError(message, cure=cure)


def whole(name: str, value: Any, low: int = 0) -> int:
    """A whole number of at least ``low``, and of 64 bits."""
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**63
    expect(good, name, value, f"a whole number, {low} or more, below 2**63")
    return int(value)


def number(name: str, value: Any) -> float:
    """A finite number that is not negative."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max
    expect(good, name, value, "a number, 0 or more")
    return float(value)


def truth(name: str, value: Any) -> bool:
    """True or False."""
    expect(isinstance(value, bool), name, value, "True or False")
    return bool(value)


def function(which: str, value: Any) -> Callable[..., Any]:
    """Something to call; Triton kernels take a grid, so it takes a function that launches them."""
    if type(value).__module__.startswith("triton.") and hasattr(value, "arg_names"):
        raise OptionError(
            f"the {which} function is the Triton kernel {getattr(value, '__name__', '')}".rstrip(),
            cure="a function that allocates the results, launches the kernel and returns them",
        )
    if isinstance(value, type) and issubclass(value, torch.autograd.Function):
        raise OptionError(f"the {which} function is the class {value.__name__}", cure=f"{value.__name__}.apply")
    require(callable(value), f"the {which} function is {shown(value)}, which cannot be called", "a function of tensors")
    return value


def several(name: str, value: Any, cure: str) -> Sequence[Any]:
    """A list, a tuple or the like; not one thing, a text or a mapping."""
    expect(isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | torch.Tensor), name, value, cure)
    try:
        return tuple(value)
    except Exception as error:  # the iterator's own
        raise OptionError(f"{name} is {shown(value)}: {type(error).__name__} where its elements are asked for", cure=cure) from error


def one_of(name: str, value: Any, known: Iterable[str]) -> tuple[str, ...]:
    """A name, or some names, that there are."""
    known = tuple(dict.fromkeys(known))
    cure = f"one or some of {', '.join(known)}"
    chosen = (value,) if isinstance(value, str) else several(name, value, cure)
    unknown = [v for v in chosen if not isinstance(v, str) or v not in known]
    require(not unknown, f"{name}: there is no {', '.join(map(shown, unknown))}", cure)
    require(bool(chosen), f"{name} is empty", cure)
    return tuple(chosen)
