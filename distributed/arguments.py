"""Calls with DTensors: the arguments of a function as tensors that have places, and those of a module with its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import DeviceError
from ..frontends import TensorSpec


@dataclass(frozen=True)
class DTensorSpec:
    """A DTensor without data: shape and type of the whole, a mesh (``4``, ``{"dp": 2, "tp": 4}`` or torch's), and DTensor's placements."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device_mesh: Any
    placements: tuple[Any, ...]


def is_spread(x: Any) -> bool:
    """Whether a value is a DTensor, or stands for one."""
    return isinstance(x, DTensorSpec) or (isinstance(x, torch.Tensor) and hasattr(x, "placements") and hasattr(x, "device_mesh"))


def across_devices(fn: Any, args: Any, kwargs: Any) -> bool:
    """Whether a call has DTensors: among its arguments, or the parameters of its module."""
    return any(map(is_spread, pytree.tree_leaves((args, kwargs)))) or any(map(is_spread, parameters(fn).values()))


def parameters(fn: Any) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a module, by name."""
    return {**dict(fn.named_parameters()), **dict(fn.named_buffers())} if isinstance(fn, torch.nn.Module) else {}


def as_function(fn: Any) -> Callable[..., Any]:
    """A module as a function of its parameters and the arguments of a call."""
    if not isinstance(fn, torch.nn.Module):
        return fn

    def call(held: Mapping[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        return torch.func.functional_call(fn, dict(held), args, kwargs)

    call.__name__ = type(fn).__name__
    return call


def all_arguments(fn: Any, args: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of that function."""
    held = parameters(fn)
    return (held, *args) if isinstance(fn, torch.nn.Module) else tuple(args)


def whole(args: Any) -> Any:
    """Arguments with shapes and types of whole tensors in the places of tensors."""
    return pytree.tree_map(lambda x: TensorSpec(tuple(x.shape), x.dtype) if is_spread(x) or isinstance(x, torch.Tensor) else x, args)


def without_data(args: Any) -> Any:
    """Arguments with specs in the places of tensors, which they would keep alive."""

    def spec(x: Any) -> Any:
        if is_spread(x):
            return DTensorSpec(tuple(x.shape), x.dtype, x.device_mesh, tuple(x.placements))
        return TensorSpec(tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x

    return pytree.tree_map(spec, args)


def mesh_of(args: Any) -> Any:
    """The one mesh of all DTensors; DeviceError if there are several."""
    found: list[Any] = []
    for x in pytree.tree_leaves(args):
        if is_spread(x) and not any(x.device_mesh == m for m in found):
            found.append(x.device_mesh)
    if len(found) != 1:
        raise DeviceError(
            f"DTensors are on {len(found)} meshes: {', '.join(map(str, found))}",
            cure="one mesh for all of them; its dimensions may be many",
        )
    return found[0]


def key_of(args: Any) -> tuple[Any, ...]:
    """Equal for arguments that one plan serves: shapes, types and placements, and numbers."""
    leaves, spec = pytree.tree_flatten(args)

    def one(x: Any) -> Any:
        if not (is_spread(x) or isinstance(x, torch.Tensor)):
            return type(x), repr(x)
        return tuple(x.shape), x.dtype, tuple(map(repr, x.placements)) if is_spread(x) else None

    return spec, *map(one, leaves)
