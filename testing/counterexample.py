"""Counterexamples as code that runs: tensors as literals or as :func:`~eqfuse.testing.sample` makes them, functions by import or source."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .definitions import Definitions, Unknown
from .strategies import Recipe, Size, lay_out, recipe_of

LITERAL = 48
"""Tensors of at most so many elements are written out."""


def name_of(fn: Any) -> str:
    """A function by its name and line."""
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, type):  # a class method, such as the apply of an autograd function
        return name_of(owner).replace(" (", f".{fn.__name__} (", 1)
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    try:
        inner = inspect.unwrap(fn)
        line = inspect.getsourcelines(inner)[1]
        return f"{name} ({Path(inspect.getsourcefile(inner) or '?').name}:{line})"
    except (OSError, TypeError):
        return str(name)


def code_of(f: Any, g: Any, args: Sequence[Any], options: dict[str, Any]) -> str:
    """A program that shows the difference."""
    names = [_variable(k) for k in range(len(args))]
    tensors = [_tensor(a) if isinstance(a, torch.Tensor) else repr(a) for a in args]
    body = "\n".join(f"{n} = {t}" for n, t in zip(names, tensors, strict=True))
    helpers = sorted({"assert_equivalent"} | {h for h in ("sample", "lay_out") if f"{h}(" in body})
    lines = ["import torch", f"from eqfuse.testing import {', '.join(helpers)}"]
    numbers = [n for n in ("inf", "nan") if any(n in t and "sample(" not in t for t in tensors)]
    if numbers:
        lines.insert(0, f"from math import {', '.join(numbers)}")
    known = Definitions([*names, *helpers, *numbers])
    first, second = _reference(known, f, "f"), _reference(known, g, "g")
    lines += sorted(known.lines, key=lambda line: not line.startswith(("from ", "import ")))
    given = "".join(f", {k}={v!r}" for k, v in options.items())
    call = f"assert_equivalent({first}, {second}, ({', '.join(names)}{',' * (len(names) == 1)}){given})"
    return "\n".join([*lines, "", body, call] if body else [*lines, "", call])


def _reference(known: Definitions, fn: Any, fallback: str) -> str:
    """How code names the function; where it cannot, it says so when it runs."""
    try:
        return known.name(fn, fallback)
    except Unknown:
        known.lines[f"raise NotImplementedError({f'define {fallback} here, which is {name_of(fn)}'!r})"] = None
        return fallback


def _variable(k: int) -> str:
    return f"x{k}"


def _tensor(t: torch.Tensor) -> str:
    recipe = recipe_of(t)
    if recipe is not None and (t.numel() > LITERAL or recipe.layout == "huge"):
        return recipe.code()
    layout = recipe.layout if recipe is not None else getattr(t, "eqfuse_layout", "contiguous")
    if t.numel() > LITERAL:
        return f"...  # {t.dtype!s} {tuple(t.shape)}, strides {t.stride()}: an argument of the call"
    literal = f"torch.tensor({t.tolist()}, dtype={t.dtype})"
    if 0 in t.shape:
        literal = f"torch.empty({tuple(t.shape)}, dtype={t.dtype})"
    if layout != "contiguous":
        return f"lay_out({literal}, {layout!r})"
    if not t.is_contiguous():
        return f"torch.empty_strided({tuple(t.shape)}, {t.stride()}, dtype={t.dtype}).copy_({literal})"
    return literal


def simplify(args: Sequence[Any], fails: Callable[[Sequence[Any]], bool], seconds: float) -> list[Any]:
    """Arguments on which it still fails, with smaller sizes, simpler layouts and, where they will be written out, simpler numbers."""
    best, limit = list(args), time.monotonic() + seconds

    def accept(trial: list[Any]) -> bool:
        if time.monotonic() > limit or not fails(trial):
            return False
        best[:] = trial
        return True

    def attempt(k: int, candidate: torch.Tensor) -> bool:
        return accept([candidate if i == k else a for i, a in enumerate(best)])

    for size, value in named_sizes(args).items():
        low, high = size.low - 1, value  # fails at high; nothing is known at low
        while high - low > 1:
            middle = size.low if low < size.low else (low + high) // 2
            low, high = (low, middle) if accept(resized(best, {size: middle})) else (middle, high)

    for k, a in enumerate(best):
        recipe = _recipe(a)
        if recipe is None:
            continue
        for change in ({"layout": "contiguous"}, {"values": "normal"} if a.is_floating_point() else {}, {"seed": 0}):
            simpler = replace(recipe, **change)
            if simpler != recipe and attempt(k, simpler.build()):
                recipe = simpler
        if a.numel() > LITERAL or not a.is_floating_point() or recipe.layout == "huge":
            continue
        layout = recipe.layout

        def placed(values: torch.Tensor, layout: str = layout) -> torch.Tensor:
            tensor = lay_out(values, layout)
            tensor.eqfuse_layout = layout  # type: ignore[attr-defined,unused-ignore]
            return tensor

        if attempt(k, placed(torch.zeros_like(best[k]))) or attempt(k, placed(torch.ones_like(best[k]))):
            continue
        for decimals in (0, 1, 2):
            if attempt(k, placed(best[k].double().round(decimals=decimals).to(a.dtype))):
                break
        step = max(1, a.numel() // 2)
        while step:
            for start in range(0, a.numel(), step):
                current = best[k].clone(memory_format=torch.contiguous_format)
                part = current.view(-1)[start : start + step]
                if bool((part != 0).any()):
                    part.zero_()
                    attempt(k, placed(current))
            step //= 2
    return best


def _recipe(a: Any) -> Recipe | None:
    return recipe_of(a) if isinstance(a, torch.Tensor) else None


def named_sizes(args: Sequence[Any]) -> dict[Size, int]:
    """What the named sizes of drawn tensors are."""
    recipes = [r for r in map(_recipe, args) if r is not None]
    return {size: value for recipe in recipes for size, value in recipe.named().items()}


def resized(args: Sequence[Any], sizes: dict[Size, int]) -> list[Any]:
    """The same arguments with other sizes."""

    def other(a: Any) -> Any:
        recipe = _recipe(a)
        if recipe is None:
            return a
        for size, value in sizes.items():
            recipe = recipe.resized(size, value)
        return recipe.build()

    return [other(a) for a in args]
