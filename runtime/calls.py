"""Calls that are like an earlier one: what was checked of that need not be checked again.

How a call runs hangs on its *signature*: on all of its tensors but their numbers, on types and values of other arguments, on the structure
that they are in, and on whether gradients are recorded.  So do the checks; a call whose signature is known goes to its kernels at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import torch

from ..errors import StaticArgumentError
from ..frontends.convention import PLAIN
from ..frontends.spec import value_key

MOST_CALLS = 256  # signatures that one function keeps
TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
_LEAVES = TENSORS.union(get_args(PLAIN))

Call = Callable[[Sequence[Any]], Any]  # from the values of a signature to the result


class Calls(dict[object, Call]):
    """The calls of a function, by signature.  ``held``: the tensors that it holds itself, each by its name and how it is looked up."""

    def __init__(self, held: Sequence[tuple[str, Callable[[], Any]]]) -> None:
        super().__init__()
        self._held = [get for _, get in held]

    def keep(self, key: object, call: Call) -> None:
        """Keep one, in the place of the oldest if there are many."""
        for oldest in list(self)[: 1 - MOST_CALLS]:
            self.pop(oldest, None)
        self[key] = call

    def signature(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[object, list[Any]] | None:
        """A key that is equal for calls that run alike, and the values of this one: flat arguments, then what the function holds.

        ``None`` for calls with other things than plain tensors and numbers, which are looked at each time."""
        try:
            values, structure = opened(args, kwargs)
            values += [get() for get in self._held]
            if not _LEAVES.issuperset(map(type, values)):
                return None
            facts = [
                (v.shape, v.stride(), v.dtype, v.device, v.requires_grad, v.is_neg()) if type(v) in TENSORS else value_key(v)
                for v in values
            ]
        except (RuntimeError, StaticArgumentError):  # a tensor without strides; a list that is in itself; a parameter that is gone
            return None
        return (torch.is_grad_enabled(), structure, tuple(facts)), values


def opened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], tuple[object, ...]]:
    """The values in lists, tuples and dicts, and the structure that they are in."""
    values, structure = [*args, *kwargs.values()], (len(args), *kwargs)
    if _LEAVES.issuperset(map(type, values)):
        return values, structure
    found: list[Any] = []
    inside: list[object] = [structure]
    for v in values:
        _open(v, found, inside)
    return found, tuple(inside)


def _open(value: Any, found: list[Any], structure: list[object]) -> None:
    kind = type(value)
    if kind is dict:
        structure.append((kind, *value))
    elif kind is list or kind is tuple:
        structure.append((kind, len(value)))
    else:
        structure.append(None)
        found.append(value)
        return
    for v in value.values() if kind is dict else value:
        _open(v, found, structure)
