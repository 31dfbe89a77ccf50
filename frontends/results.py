"""Results from outputs and back: what a function returns may be stored in parts, or by more dimensions (:class:`~..ir.program.Result`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..ir.program import Program


def in_structure(spec: Any) -> Callable[[Sequence[Any]], Any]:
    """What puts values into a structure: it is known before they are, and most are one value, or a tuple."""
    if spec.is_leaf():
        return lambda values: values[0]
    if spec.type in (tuple, list) and spec.num_nodes == 1 + spec.num_leaves:
        make: Callable[[Sequence[Any]], Any] = spec.type
        return make
    return lambda values: pytree.tree_unflatten(values, spec)


def arranged(program: Program, values: Sequence[Any]) -> list[Any]:
    """What the function returns from the tensors of ``program.outputs``, or of the results themselves; other things stay as they are."""
    if not program.results or len(values) == len(program.results) < len(program.outputs):
        return list(values)
    if not all(isinstance(v, torch.Tensor) for v in values):
        return list(values)
    found, rest = [], iter(values)
    for r in program.results:
        parts = [next(rest) for _ in r.outputs]
        if len(parts) == 1:
            found.append(parts[0].reshape(r.flat(0, parts[0].shape)) if parts[0].dim() == sum(r.merges[0]) else parts[0])
        else:
            found.append(torch.cat([x.reshape(r.flat(k, x.shape)) for k, x in enumerate(parts)], r.along))
    return found


def taken_apart(program: Program, results: Sequence[Any]) -> list[Any]:
    """The tensors of ``program.outputs`` from those of its results."""
    if not program.results:
        return list(results)
    shapes = {o.name: o.shape for o in program.outputs}
    found = []
    for r, x in zip(program.results, results, strict=True):
        start = 0
        for k, name in enumerate(r.outputs):
            n = r.flat(k, shapes[name])[r.along] if r.merges[k] else 1
            part = x.narrow(r.along, start, n) if len(r.outputs) > 1 else x
            found.append(part.reshape(shapes[name]))
            start += n
    return found
