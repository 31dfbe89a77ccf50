"""What the processes of a mesh decide together: the first one chooses, and all of them know that they started from the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from ..errors import EqFuseError, PlanError

T = TypeVar("T")


def groups_of(mesh: Any) -> list[Any]:
    """The process groups of a mesh, one for each dimension; none without processes."""
    distributed = torch.distributed
    alone = isinstance(mesh, int | Mapping) or not (distributed.is_available() and distributed.is_initialized())
    return [] if alone else list(mesh.get_all_groups())


def check_same(mesh: Any, text: str, name: str) -> None:
    """PlanError in all processes of a group where they have different texts, and would wait for each other later."""
    mine = hashlib.sha256(text.encode()).hexdigest()
    for group in groups_of(mesh):
        every: list[Any] = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(every, mine, group=group)
        mine = mine if len(set(every)) == 1 else ""  # which the next dimension passes on
    if not mine:
        raise PlanError(
            f"the processes see {name} differently: other code, placements or options, or a saturation that time ended",
            cure="the same call in every process; disable rules that make many nodes",
        )


def from_first(mesh: Any, make: Callable[[], T]) -> T:
    """What the first process of a mesh makes, in all of them; its error, too."""
    groups = groups_of(mesh)
    found: list[Any] = [None]
    if not groups or not any(mesh.get_coordinate()):
        try:
            found = [make()]
        except EqFuseError as error:
            if not groups:
                raise
            found = [error]
    for group in groups:
        torch.distributed.broadcast_object_list(found, group=group, group_src=0)
    if isinstance(found[0], EqFuseError):
        raise found[0]
    result: T = found[0]
    return result
