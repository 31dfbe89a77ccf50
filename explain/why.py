"""Why do two values (not) share a kernel?  Found by asking the extractor for a kernel with both, never guessed.

The kernels of the two values, with everything between them, are replaced by one kernel that stores what is needed outside of it.
The search for that kernel either finds one, and then its price against the plan's is the reason; or it does not, and then the
reasons for refusing its candidates are: a verdict of a fusion rule, memory on chip, or that no form of the values fits one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..egraph.frozen import levels
from ..extract.choose import Leaf
from ..extract.names import Value
from ..extract.plan import PlannedKernel
from ..extract.quantities import bytes_text, plural
from ..extract.search import Refusal, Rejection
from ..extract.structure import analyse
from ..ir.terms import Input
from ..tiles.centres import plain
from ..tiles.kernel import Role
from .costs import Planned, TermDifference
from .derivation import Step
from .forms import KernelForms
from .study import Study

MOST_LOOPS = 3  # loops over one axis that a kernel is tried with (Chooser.cheapest)

VERDICTS = {
    "shared": "both are in one kernel",
    "same": "they are one value",
    "rewritten": "a value of the program is not computed as such: a rule rewrote what needed it",
    "no equation": "no form of the two values that the rules reach fits one kernel",
    "forbidden": "a fusion rule forbids it",
    "does not fit": "one kernel with both does not fit on chip",
    "costs more": "one kernel with both costs more",
    "regions": "they are made in different regions, because one kernel with both would compute too much again, or nothing needs both",
    "steps": "they are made in different steps of a program that torch runs in part",
    "not searched": "one kernel with both would cost less, but the search did not come to it",
}


@dataclass(frozen=True)
class Why:
    """The answer for two values.  ``verdict`` is a key of :data:`VERDICTS`; ``kernels`` names where each value is made.

    ``details`` depends on the verdict: ``rule`` and ``where`` (rewritten, forbidden), ``missing`` and ``reason`` (no equation),
    ``tile``, ``tile_bytes``, ``over_bytes``, ``resource`` and ``roles`` (does not fit), ``slower_us``, ``term``, ``terms`` and
    ``kernels`` (costs more, not searched).
    """

    a: str
    b: str
    verdict: str
    kernels: Mapping[str, tuple[str, ...]]
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """The plan works both out in one kernel."""
        return self.verdict in ("shared", "same") or (self.verdict == "rewritten" and bool(self.details.get("removed")))

    def data(self) -> dict[str, Any]:
        """The answer as JSON values."""
        return {
            "a": self.a,
            "b": self.b,
            "verdict": self.verdict,
            "meaning": VERDICTS[self.verdict],
            "shared": self.shared,
            "kernels": {v: list(ks) for v, ks in self.kernels.items()},
            "text": self.text,
            "details": dict(self.details),
        }

    def __str__(self) -> str:
        return self.text


def why(study: Study, a: str, b: str) -> Why:
    """Whether two named values share a kernel, and if not, why."""
    return why_values(study, study.names.resolve(a), study.names.resolve(b))


def why_values(study: Study, a: Value, b: Value) -> Why:
    """The same for values that were found."""
    return _Question(study, a, b).answer()


class _Question:
    def __init__(self, study: Study, a: Value, b: Value) -> None:
        self.study, self.a, self.b = study, a, b
        self.d = study.derivation
        self.home = {v.cls: self._home(v) for v in (a, b)}
        self.places = {v.name: tuple(self.d.kernels[k].name for k in self.home[v.cls]) for v in (a, b)}

    def _home(self, v: Value) -> tuple[int, ...]:
        """The kernels that make a value; for an input those that read it."""
        if isinstance(v.term, Input):
            return tuple(k for k, s in enumerate(self.study.plan.steps) if v.term.name in s.loads)
        made = tuple(k for k, located in enumerate(self.d.kernels) if v.cls in located.computed)
        if not made:  # in other coordinates: the parts of a split axis, a transpose, a shift
            made = tuple(k for k, located in enumerate(self.d.kernels) if self._views(v.cls) & located.computed)
        return made or tuple(k for k, located in enumerate(self.d.kernels) if v.cls in located.held - located.loaded)

    def _views(self, c: int) -> set[int]:
        """The classes that are this one, read at other indices."""
        found: set[int] = set()
        todo = [c]
        while todo:
            inner = todo.pop()
            for outer, members in enumerate(self.study.graph.classes):
                if outer not in found and any(n.op in ("view", "gather") and n.args[0] == inner for n in members):
                    found.add(outer)
                    todo.append(outer)
        return found - {c}

    def _say(self, verdict: str, text: str, **details: Any) -> Why:
        return Why(self.a.name, self.b.name, verdict, self.places, text, details)

    def answer(self) -> Why:
        """The first reason that is true."""
        a, b = self.a, self.b
        if a.cls == b.cls:
            return self._say("same", f"{a.name} and {b.name} are one value: the program computes it once")
        removed = self._removed()
        both = [k for k in self.home[a.cls] if k in self.home[b.cls]]
        begin = [self._removal(v, s) for v, s in removed]
        details: dict[str, Any] = {}
        if removed:
            step = removed[0][1]
            details = {"rule": step.rule, "where": step.where, "removed": [
                {"value": v.name, "kernel": self.places[v.name][0], "rule": s.rule, "where": s.where, "before": s.before, "after": s.after}
                for v, s in removed
            ]}  # fmt: skip
        if both and removed:
            kernel = self.d.kernels[both[0]].name
            other = next((v for v in (a, b) if v not in [r for r, _ in removed]), None)
            begin.append(f"{other.name} is made in that kernel" if other else f"kernel {kernel} does the work of both")
            return self._say("rewritten", "\n".join(begin), **details)
        if both:
            name = self.d.kernels[both[0]].name
            how = [f"{v.name} is read" if isinstance(v.term, Input) else f"{v.name} is computed" for v in (a, b)]
            return self._say("shared", f"{a.name} and {b.name} share kernel {name}: {how[0]} there, {how[1]} there")
        nowhere = [v for v in (a, b) if not self.home[v.cls]]
        if nowhere:
            names = " and ".join(v.name for v in nowhere)
            return self._say("rewritten", f"{names}: no value of its own in this plan, but a constant or a position read in place")
        found = self._apart()
        return replace(found, text="\n".join([*begin, found.text]), details={**found.details, **details})

    def _removed(self) -> list[tuple[Value, Step]]:
        """The values that the plan does not compute, with the steps that took the last need of them away; such a value is at home
        in the kernel of that step."""
        found = []
        for v in (self.a, self.b):
            if not self.home[v.cls] and (link := self.d.removed_by(v.cls)) is not None:
                self.home[v.cls] = (link.kernel,)
                self.places[v.name] = (self.d.kernels[link.kernel].name,)
                found.append((v, self.d.step_of(link)))
        return found

    def _removal(self, v: Value, s: Step) -> str:
        return (
            f"{v.name} itself is not computed: in kernel {self.places[v.name][0]} the rule {s.rule} ({s.where}) turned\n"
            f"      {s.value} = {s.before}\n    into\n      {s.value} = {s.after}"
        )

    # apart ---------------------------------------------------------------------------------------------------------------------
    def _apart(self) -> Why:
        """Ask for one kernel in place of those of both values and all between them."""
        group = self._group()
        found = self._fused(self.study, group)
        if isinstance(found, PlannedKernel):
            return self._priced(group, found)
        forbidden = self._forbidden(group)
        if forbidden is not None:
            return forbidden
        tight = [r for r in found.refusals if r.over]
        if tight:
            return self._tight(min(tight, key=lambda r: r.over), len(tight))
        return self._no_equation(group, found)

    def _group(self) -> list[int]:
        """The kernels to replace: those of both values that are nearest to each other, and all on paths between them."""
        first, last = min(((min(i, j), max(i, j)) for i in self.home[self.a.cls] for j in self.home[self.b.cls]), key=lambda p: p[1] - p[0])
        steps = self.study.plan.steps
        maker = {buffer: k for k, located in enumerate(self.d.kernels) for buffer in located.stores}
        before = {k: {maker[b] for b in s.loads if b in maker} for k, s in enumerate(steps)}

        def above(k: int) -> set[int]:
            seen: set[int] = set()
            stack = [k]
            while stack:
                x = stack.pop()
                for y in before[x]:
                    if y not in seen:
                        seen.add(y)
                        stack.append(y)
            return seen

        between = {k for k in above(last) if first in above(k)}
        return sorted({first, last} | between)

    def _ends(self, group: Sequence[int]) -> tuple[dict[str, int], dict[str, int]]:
        """What one kernel in place of a group stores, and what it may read."""
        outputs = {o.name for o in self.study.graph.program.outputs}
        steps = self.study.plan.steps
        made = {b: c for k in group for b, c in self.d.kernels[k].stores.items()}
        outside = {b for k, s in enumerate(steps) if k not in group for b in s.loads}
        roots = {b: c for b, c in made.items() if b in outputs or b in outside}
        read = {b for k in group for b in steps[k].loads} - set(made)
        leaves = {b: c for located in self.d.kernels for b, c in located.stores.items() if b in read}
        return roots, leaves

    def _fused(self, study: Study, group: Sequence[int]) -> PlannedKernel | Rejection:
        roots, leaves = self._ends(group)
        found = study.ask(roots, leaves)
        if not isinstance(found, PlannedKernel):
            return found
        computed = self._classes(found, leaves)
        wanted = [v for v in (self.a, self.b) if any(v.cls in located.computed for located in self.d.kernels)]
        missing = [v for v in wanted if v.cls not in computed]
        if missing:  # a form without one of them: ask for a kernel that stores that one, too
            forced = study.ask({**{self.study.graph.program.temporary(self._position(v)): v.cls for v in missing}, **roots}, leaves)
            return found if isinstance(forced, Rejection) else forced
        return found

    def _position(self, v: Value) -> int:
        return self.study.names.terms.index(v.term)

    def _classes(self, planned: PlannedKernel, leaves: Mapping[str, int]) -> set[int]:
        ex = self.study.extractor
        at = {c: ex.maker.leaf(self.study.spec(c, b)) for b, c in leaves.items()}
        return KernelForms(self.d.forms, self.d.chooser, planned.kernel, at).computed

    def _priced(self, group: Sequence[int], found: PlannedKernel) -> Why:
        """The plan with the group replaced, against the plan."""
        steps = self.study.plan.steps
        other: tuple[Planned, ...] = tuple(found if k == group[-1] else s for k, s in enumerate(steps) if k not in group or k == group[-1])
        terms = self.study.against(other)
        us = sum(s.cost.us for s in other) - self.study.plan.separate_us
        bytes_ = sum(s.cost.dram_bytes for s in other) - self.study.plan.dram_bytes
        names = [self.d.kernels[k].name for k in group]
        roles = {x.name: str(r) for x, r in found.kernel.roles.items()}
        details: dict[str, Any] = {
            "instead_of": names,
            "slower_us": us,
            "more_dram_bytes": bytes_,
            "term": terms[0].term,
            "terms": term_data(terms),
            "roles": roles,
        }
        a, b = self.a.name, self.b.name
        begin = f"{a} is made in {self.places[a][0]}, {b} in {self.places[b][0]}"
        if us <= 0:
            how = f"one kernel instead of {' and '.join(names)} would take {-us:.1f} us less"
            ended = f"the search did not come to it; it ended: {self.study.plan.stopped}"
            return self._say("not searched", f"{begin}, although {how}: {ended}", **details)
        worst = terms[0]
        gains = [t for t in reversed(terms) if t.difference_us < -1e-3]
        lines = [
            f"{begin}, because one kernel with both takes {us:.1f} us more",
            f"  it loses by {worst.words}: {worst.difference_us:+.1f} us ({worst.plan_us:.1f} us -> {worst.other_us:.1f} us)",
        ]
        if gains:
            lines.append("  and gains " + ", ".join(f"{t.words} {t.difference_us:+.1f} us" for t in gains[:3]))
        traffic = f"{bytes_text(abs(bytes_))} {'more' if bytes_ >= 0 else 'less'} DRAM traffic"
        lines.append(f"  {plural(len(steps), 'kernel')} -> {len(other)}; {traffic}; it would run with {_pairs(roles)}")
        return self._say("costs more", "\n".join(lines), **details)

    def _forbidden(self, group: Sequence[int]) -> Why | None:
        """A kernel that exists once the verdicts of fusion rules are lifted: which of them stood against it."""
        rows = [r for r in self.study.graph.facts.get("fuse", ()) if r[0] in ("forbid", "require")]
        if not rows:
            return None
        found = self._fused(self.study.lifted, group)
        if not isinstance(found, PlannedKernel):
            return None
        roots, leaves = self._ends(group)
        at = {c: Leaf(b, self.study.spec(c, b).layout) for b, c in leaves.items()}
        classes = self.d.chooser.verdicts.covers(plain(found.kernel).nodes, tuple(roots.values()), at)
        pair = {self.a.cls, self.b.cls}
        ranked = sorted(rows, key=lambda r: (set(r[1:3]) != pair, not set(r[1:3]) <= classes, r[0] != "forbid"))
        verdict, outer, inner, *by = ranked[0]
        name = by[0] if by else ""
        known = self.study.rules.get(name)
        where = known.where if known else ""
        speaks = f"{self.study.names.label(outer)} and {self.study.names.label(inner)}"
        a, b = self.a.name, self.b.name
        text = (
            f"{a} is made in {self.places[a][0]}, {b} in {self.places[b][0]}, because a fusion rule says so:\n"
            f"  {name or 'a fusion fact'}{f' ({where})' if where else ''} "
            + (f"forbids {speaks} to share a kernel" if verdict == "forbid" else f"requires {speaks} to share a kernel")
        )
        return self._say("forbidden", text, rule=name, where=where, speaks_of=[self.study.names.label(c) for c in (outer, inner)])

    def _tight(self, r: Refusal, tried: int) -> Why:
        a, b = self.a.name, self.b.name
        tile = " x ".join(f"{axis}:{n}" for axis, n in r.tile) or "a scalar"
        value = "" if r.cls is None else self.study.names.label(r.cls)
        text = (
            f"{a} is made in {self.places[a][0]}, {b} in {self.places[b][0]}, because one kernel with both does not fit on chip:\n"
            f"  the nearest of {plural(tried, 'candidate')} needs {bytes_text(r.over)} ({r.over} bytes) more {r.resource} than there is\n"
            f"  its largest tile is {tile}{f' of {value}' if value else ''}: {bytes_text(r.tile_bytes)} in float32; it was tried with "
            + _pairs(r.roles)
        )
        return self._say(
            "does not fit", text, over_bytes=r.over, resource=r.resource, tile=dict(r.tile), value=value, tile_bytes=r.tile_bytes,
            roles=dict(r.roles), candidates=tried,
        )  # fmt: skip

    def _no_equation(self, group: Sequence[int], rejected: Rejection) -> Why:
        """Which value has no form in such a kernel."""
        roots, leaves = self._ends(group)
        missing, reason = self._missing(roots, leaves)
        if not missing:
            reason = rejected.reason
        a, b = self.a.name, self.b.name
        text = (
            f"{a} is made in {self.places[a][0]}, {b} in {self.places[b][0]}, because no form that the rules reach computes both in one "
            f"kernel:\n  " + (f"{missing} is missing there: {reason}" if missing else reason)
        )
        return self._say("no equation", text, missing=missing, reason=reason)

    def _missing(self, roots: Mapping[str, int], leaves: Mapping[str, int]) -> tuple[str, str]:
        """The first value of the program that no kind of kernel for these roots can compute, and why."""
        ex, graph = self.study.extractor, self.study.graph
        at = {c: ex.maker.leaf(self.study.spec(c, b)) for b, c in leaves.items()}
        layouts = tuple(self.study.spec(c, b).layout for b, c in roots.items())
        structure = analyse(graph, tuple(roots.values()), layouts, at)
        kinds = [
            {a: Role(k[a], ex.maker.search._start(a, k[a], structure)) for a in structure.axes}  # type: ignore[arg-type]
            for k in ex.maker.search._kinds(structure)
        ]
        needed = set(self.d.forms.below(tuple(roots.values())))
        for c in dict.fromkeys(graph.original):
            if c not in needed or any(next(iter(ex.maker.chooser.cheapest((c,), at, roles)), None) is not None for roles in kinds):
                continue
            for axis in sorted(graph.axes[c] | set(structure.reduced)):
                loops = levels(graph, c, axis)
                if loops is not None and loops > MOST_LOOPS:
                    reason = f"it is known only after {loops} loops over {axis.name}, and a kernel is tried with at most {MOST_LOOPS}"
                    return self.study.names.title(c), reason
            return self.study.names.title(c), "no form of it can be computed there, whatever the roles of the axes"
        return "", ""


def _pairs(roles: Mapping[str, str]) -> str:
    return " ".join(f"{axis}={role}" for axis, role in roles.items())


def term_data(terms: Sequence[TermDifference]) -> list[dict[str, Any]]:
    """Terms as JSON values."""
    return [
        {"term": t.term, "plan_us": t.plan_us, "other_us": t.other_us, "difference_us": t.difference_us}
        for t in terms
        if math.isfinite(t.difference_us)
    ]
