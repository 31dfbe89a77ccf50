"""Why a program of several plans is planned as it is: what torch runs and why, and every different plan explained by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import OptionError
from ..extract.plan import Block
from ..extract.plan_data import parts_data
from . import Explanation
from .whole import ProgramExplanation
from .why import Why


@dataclass(frozen=True)
class PartsExplanation:
    """``of``: for the name of each different part its explanation; ``said``: what is said of the whole, its plan first."""

    plan: Block
    of: Mapping[str, Explanation | ProgramExplanation] = field(repr=False)
    said: str = field(repr=False)

    @property
    def reasons(self) -> tuple[tuple[str, str, str | None], ...]:
        """What torch runs: the operator, why, and the user's line."""
        return tuple((call.target, call.reason, call.where) for call in self.plan.library)

    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why: of one part as of a program by itself; of different ones, what stands
        between.  OptionError for names that no part has."""
        same: OptionError | None = None
        for found in self.of.values():
            try:
                return found.why(a, b)
            except OptionError as error:
                same = error
        made = {value: part.name for part in self.plan.parts for value in part.makes}
        known = [*made, *dict.fromkeys(v for part in self.plan.parts for v in part.reads if v not in made)]
        for unknown in (n for n in (a, b) if n not in known):
            raise OptionError(f"no value is called {unknown!r}", where="why", cure=f"one of {', '.join(known)}") from same
        where = [f"{n} is made in {made[n]}" if n in made else f"{n} is an argument" for n in (a, b)]
        reasons = [f"{s.target} in torch: {s.reason}" for s in self.plan.library]
        kernels = {n: (made[n],) if n in made else () for n in (a, b)}
        return Why(a, b, "steps", kernels, "; ".join([", ".join(where), *reasons]), {})

    def json(self) -> str:
        """Everything as a JSON document."""
        parts = {name: json.loads(e.json()) for name, e in self.of.items()}
        return json.dumps({"program": self.plan.name, "target": self.plan.target, "steps": parts_data(self.plan), "pieces": parts})

    def __str__(self) -> str:
        return "\n\n".join([self.said, *(f"{name}: {e}" for name, e in self.of.items())])
