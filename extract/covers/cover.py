"""A cover: kernels and calls that compute all outputs, in order, each a cut of the e-graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..launches import held
from ..plan import Alternative, PlannedCall, PlannedKernel, Split
from ..quantities import plural

Step = PlannedKernel | PlannedCall


@dataclass(frozen=True)
class Cover:
    """Steps in execution order."""

    description: str
    steps: tuple[Step, ...]
    splits: tuple[Split, ...] = ()

    @property
    def kernels(self) -> tuple[PlannedKernel, ...]:
        """The generated kernels."""
        return tuple(k for k in self.steps if isinstance(k, PlannedKernel))

    @cached_property
    def us(self) -> float:
        """Modelled time."""
        return sum(k.cost.us for k in self.steps)

    @property
    def dram_bytes(self) -> int:
        """Modelled DRAM traffic."""
        return sum(k.cost.dram_bytes for k in self.steps)

    @cached_property
    def temporary_bytes(self) -> int:
        """Memory that the plan holds at a time beside inputs and outputs: a temporary goes when its last reader has run."""
        return held((k,) for k in self.steps)


def made(k: Step) -> set[str]:
    """The buffers that a step stores."""
    return {b.name for b in k.stores}


class Steps:
    """The steps of a cover that is being made, and the axes that these split."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.splits: dict[Split, None] = {}

    def apart(self, steps: Sequence[Step]) -> bool:
        """Whether the first of some steps stores what a step here does, or nothing of it: partial results are made once."""
        return all(made(k) == made(steps[0]) or not made(k) & made(steps[0]) for k in self.steps)

    def add(self, steps: Sequence[Step], splits: Sequence[Split] = ()) -> None:
        """Add those that store something new: partial results of one value serve all that merge them."""
        stored = {name for k in self.steps for name in made(k)}
        self.steps += [k for k in steps if not made(k) <= stored]
        self.splits.update(dict.fromkeys(splits))


def alternative(cover: Cover, reason: str = "") -> Alternative:
    """A cover as the plan lists it."""
    return Alternative(cover.description, len(cover.steps), cover.us, cover.dram_bytes, reason, cover.temporary_bytes)


def bound_of(cover: Cover) -> str:
    """How many kernels it has, and what the slowest waits for."""
    worst = max(cover.steps, key=lambda k: k.cost.us)
    name = worst.kernel.name if isinstance(worst, PlannedKernel) else worst.call.name
    return f"{plural(len(cover.steps), 'kernel')}, {name} is bound by {worst.cost.bound}"
