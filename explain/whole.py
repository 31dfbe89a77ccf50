"""A plan in regions explained: each different region as a plan of its own, and why values of different ones share no kernel."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..extract.names import ProgramNames, Value
from ..extract.plan import Plan, decision_lines
from ..extract.quantities import bytes_text, plural
from ..extract.regions import Partition, Region
from ..extract.regions.stages import Conflict
from ..ir.terms import Input, Term, postorder
from . import SCHEMA, Explanation, KernelExplanation, Step, strict
from .why import Why, why_values


@dataclass(frozen=True)
class ProgramExplanation:
    """The whole answer for a program in regions.  ``of`` has for each region its explanation, one object for equal ones."""

    plan: Plan
    partition: Partition
    regions: tuple[Region, ...]
    of: tuple[Explanation, ...] = field(repr=False)

    # questions -----------------------------------------------------------------------------------------------------------------
    @property
    def program(self) -> str:
        """The name of the program."""
        return self.plan.program.name

    @property
    def target(self) -> str:
        """The name of the device."""
        return self.plan.target

    @property
    def notes(self) -> tuple[str, ...]:
        """Inputs for which kernels overflow, or vanish, where the program does not."""
        return self.plan.notes

    @cached_property
    def different(self) -> tuple[tuple[Explanation, tuple[Region, ...]], ...]:
        """Each explanation once, with the regions that it is of."""
        found: dict[int, tuple[Explanation, list[Region]]] = {}
        for region, explanation in zip(self.regions, self.of, strict=True):
            found.setdefault(id(explanation), (explanation, []))[1].append(region)
        return tuple((e, tuple(rs)) for e, rs in found.values())

    @property
    def kernels(self) -> tuple[KernelExplanation, ...]:
        """The different kernels."""
        return tuple(k for e, _ in self.different for k in e.kernels)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The rewrites of all of them."""
        return tuple(s for k in self.kernels for s in k.steps)

    @cached_property
    def _names(self) -> ProgramNames:
        return ProgramNames(self.partition.program)

    @property
    def values(self) -> tuple[str, ...]:
        """The names that can be asked about: inputs, outputs, variables of the source, nodes of the traced graph."""
        return self._names.spoken

    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why.

        Raises :class:`~eqfuse.errors.OptionError` for a name that the program does not have.
        """
        x, y = self._names.term(a), self._names.term(b)
        homes = [[k for k, r in enumerate(self.regions) if self._at_home(r, t)] for t in (x, y)]
        for k in homes[0]:
            study = self.of[k].study
            if k in homes[1] and study is not None:
                terms = study.names.terms
                values = [Value(n, terms[i], study.names.cls[terms[i]]) for n, i in ((a, self._number(k, x)), (b, self._number(k, y)))]
                return why_values(study, *values)
        return self._apart(a, b, x, y, homes)

    def _number(self, k: int, t: Term) -> int:
        number = self.regions[k].number(t)
        assert number is not None
        return number

    def _at_home(self, region: Region, t: Term) -> bool:
        """Whether a region makes a value, or reads an input."""
        return region.makes_value(t) or (isinstance(t, Input) and region.number(t) is not None)

    def _apart(self, a: str, b: str, x: Term, y: Term, homes: Sequence[Sequence[int]]) -> Why:
        """Why two values are in different regions."""
        of = dict(zip((a, b), homes, strict=True))
        kernels = {n: tuple(dict.fromkeys(k.name for at in home for k in self.of[at].kernels)) for n, home in of.items()}
        where = [f"{n} is in {'region ' + ', '.join(str(k + 1) for k in home) if home else 'no region'}" for n, home in of.items()]
        text = f"{', '.join(where)}: regions are planned one by one, and tensors between them are stored"
        found = self._conflict(x, y) or self._conflict(y, x)
        if found is None:
            text += "".join(f"\n    {', '.join(names)}: {reason}" for reason, names in self.plan.cuts)
            return Why(a, b, "regions", kernels, text)
        outer, inner = (self._names.called.get(t, "a value") for t in (found.outer, found.inner))
        text += (
            f"\n    computing {inner} {found.times:.4g} times for tiles and positions of {outer} would take {found.again_us:.1f} us more, "
            f"storing and reading it takes {found.stored_us:.1f} us"
        )
        details = {"outer": outer, "inner": inner, "times": found.times, "again_us": found.again_us, "stored_us": found.stored_us}
        return Why(a, b, "regions", kernels, text, details)

    def _conflict(self, later: Term, earlier: Term) -> Conflict | None:
        """What parts a value from one that it is made of: the conflict next to the earlier one."""
        below = {t: k for k, t in enumerate(postorder(later))}
        inside = {*postorder(earlier)}
        able = [c for c in self.partition.conflicts if c.outer in below and c.outer not in inside and c.inner in below]
        near = [c for c in able if earlier in postorder(c.outer)]
        return min(near or able, key=lambda c: below[c.outer], default=None)

    # as data -------------------------------------------------------------------------------------------------------------------
    def data(self) -> dict[str, Any]:
        """The same as JSON values; the schema is in docs/explain.md."""
        return {
            "schema": SCHEMA,
            "program": self.program,
            "target": self.target,
            "regions": [
                {"runs": [{"reads": list(r.reads), "makes": list(r.makes)} for r in rs], "plan": e.data()} for e, rs in self.different
            ],
            "stored": [{"reason": reason, "names": list(names)} for reason, names in self.plan.cuts],
            "saved_bytes": self.plan.baseline_bytes - self.plan.dram_bytes,
            "saved_us": self.plan.baseline_us - self.plan.estimated_us,
            "values": list(self.values),
            "stopped": self.plan.stopped,
            "numbers": list(self.plan.notes),
        }

    def json(self) -> str:
        """The same as JSON text."""
        return json.dumps(strict(self.data()), indent=2)

    def __str__(self) -> str:
        plan = self.plan
        lines = [f"{self.program} on {self.target}: {plural(len(self.regions), 'region')}, {len(self.different)} of them different"]
        for number, (e, rs) in enumerate(self.different, 1):
            times = f" and {len(rs) - 1} times more" if len(rs) > 1 else ""
            lines.append(f"  region {number}, {', '.join(rs[0].reads)} -> {', '.join(rs[0].makes)}{times}:")
            lines += [f"  {line}" for line in str(e).splitlines()[1:]]
        saved = f"{bytes_text(plan.baseline_bytes - plan.dram_bytes)} and {plan.baseline_us - plan.estimated_us:.1f} us"
        lines.append(f"  against the unfused plan all regions save {saved} (modelled)")
        lines += [f"  verdict: {line}" for line in decision_lines(plan.decisions)]
        lines.append(f"  values to ask about, two at a time: {', '.join(self.values)}")
        return "\n".join(lines)
