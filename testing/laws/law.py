"""What a law of planning is, and how far a plan is from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ...compiled import optimize
from ...errors import EqFuseError

LAUNCH = 3.0  # microseconds that a law allows beside its factor: one launch


@dataclass(frozen=True, eq=False)
class Planned:
    """A function, arguments that have sizes only, and the options that it is optimized with.  It is planned once for several laws."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def us(self, target: str) -> float:
        """What its plan takes by the model of a target, in microseconds; infinite where some of it, or all, is left to torch."""
        return _us(self, target)


@lru_cache(maxsize=64)
def _us(planned: Planned, target: str) -> float:
    try:
        plan = optimize(planned.fn, planned.args, **{"target": target, **planned.options}).plan
    except EqFuseError:
        return math.inf
    return math.inf if plan.library else plan.estimated_us


@dataclass(frozen=True)
class Law:
    """``mine`` takes at most ``factor`` times what ``others`` take together, and a launch.  ``why``: where a larger factor is from."""

    family: str
    name: str
    mine: Planned
    others: tuple[Planned, ...]
    factor: float = 1.02
    why: str = ""

    @property
    def kind(self) -> str:
        """Its name apart from the program."""
        return self.name.partition(":")[0]

    def looked_at(self, target: str) -> Outcome:
        """Both sides by the model of a target."""
        return Outcome(self, target, self.mine.us(target), self.factor * sum(p.us(target) for p in self.others))


@dataclass(frozen=True)
class Outcome:
    """``us``: what a plan takes; ``most``: what it may take by a law, apart from a launch; in microseconds."""

    law: Law
    target: str
    us: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether the plan is within the law.  A law with nothing to compare with does not hold."""
        return self.us <= self.most + LAUNCH and math.isfinite(self.most)

    @property
    def ratio(self) -> float:
        """What the plan takes over what it may take: 1.0 and less is within the law."""
        return self.us / self.most if math.isfinite(self.most) else math.inf

    @property
    def key(self) -> str:
        """The law and the target."""
        return f"{self.target}: {self.law.family}: {self.law.name}"
