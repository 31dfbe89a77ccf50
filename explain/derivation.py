"""From the program to the plan, one rewrite at a time.

A chain goes top-down: it starts from the outputs in the program's own form and replaces, one after the other, the base form of a
class by the form that the kernel computes.  What stands there after each step is a whole program, so the last step is the plan and
a value is rewritten away by the step after which nothing mentions it.  Each step is an equation between two e-nodes of one class,
and is run on random arrays.

The e-graph keeps for each e-node the rule that first made it and for each class the rules that found it equal to something; it
keeps no proof.  A step is therefore named after the rule that made its result.  What that rule was applied to is found by matching
its premises again; where it was not the program's form, the form between gets a step of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ..egraph.frozen import ENode, FrozenGraph
from ..extract.choose import Chooser, Leaf
from ..extract.names import Names
from ..extract.plan import Plan, PlannedCall
from ..rewrites import registry
from ..rewrites.rule import Rule
from .forms import DIRECT, CallForms, Forms, KernelForms, key
from .matching import applied_to
from .replay import NO_NUMBER, Replay, Replayed

CONGRUENCE = "congruence"  # two values became one because their arguments did
LONGEST = 8  # forms of one class that are told one after the other


@dataclass(frozen=True)
class Step:
    """One rewrite of one kernel: the value, its form before and after, the rule and what it claims, how the replay went.

    ``difference`` is relative to the largest number involved.  ``matched``: the premises of the rule match the form before, so it is
    one application of that rule; else others took part, which are among ``also``, the other rules that met in the value's class.
    """

    rule: str
    family: str
    licence: str
    where: str  # file:line of the rule
    law: str  # the rule's equation
    value: str
    before: str
    after: str
    agrees: bool
    difference: float | None
    numbers: int
    skipped: str
    matched: bool = True
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """A step as data: which class of which kernel, the two e-nodes and the rule.  ``matched``: its premises match the first."""

    kernel: int
    cls: int
    before: ENode
    after: ENode
    rule: str
    matched: bool


def put(forms: dict[int, ENode], link: Link) -> None:
    """Replace a form by the next one.  Of two forms of one class in one kernel, at two places of a loop, the first one counts."""
    now = forms.get(link.cls)
    if now is None or key(now) == key(link.before):
        forms[link.cls] = link.after


class Derivation:
    """The chain of one plan.  ``rules`` are those that may have made it, by name."""

    def __init__(self, graph: FrozenGraph, plan: Plan, rules: Mapping[str, Rule] | None = None) -> None:
        self.graph, self.plan = graph, plan
        self.rules = rules_by_name() if rules is None else rules
        self.forms, self.names = Forms(graph), Names(graph)
        self.chooser = Chooser(graph)

    @cached_property
    def kernels(self) -> tuple[KernelForms | CallForms, ...]:
        """The steps of the plan with their classes; what an earlier one stores, a later one may read."""
        found: list[KernelForms | CallForms] = []
        stored: dict[str, tuple[int, Leaf]] = {}
        for planned in self.plan.steps:
            leaves = dict(at for buffer, at in stored.items() if buffer in planned.loads)
            if isinstance(planned, PlannedCall):
                made = planned.call.result
                c = self.names.cls[planned.term]
                found.append(CallForms(planned.call.name, made.buffer.name, c, leaves))
                stored[made.buffer.name] = (c, Leaf(made.buffer.name, made.dims))
                continue
            kernel = planned.kernel
            forms = KernelForms(self.forms, self.chooser, kernel, leaves)
            found.append(forms)
            for root in forms.kernel.roots:
                at = forms.cls[root.node]
                if at is not None:
                    stored[root.buffer] = (at, Leaf(root.buffer, tuple(e.as_axis() for e in root.index)))
        return tuple(found)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Every step, outputs first."""
        return tuple(link for k in reversed(range(len(self.kernels))) for link in self._links(k))

    def _links(self, k: int) -> list[Link]:
        located = self.kernels[k]
        if isinstance(located, CallForms):
            return []
        nodes = located.kernel.nodes
        found: dict[tuple[int, object], Link] = {}
        seen: set[int] = set()
        stack = [r.node for r in reversed(located.kernel.roots)]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            stack.extend(reversed(nodes[at].args))
            c, n = located.cls[at], located.enode[at]
            before = self.forms.base.get(c) if c is not None else None
            if c is None or n is None or before is None or key(n) == key(before):
                continue
            if n.op in DIRECT and before.op in DIRECT:
                continue  # where a load reads is not a rewrite
            for link in self._between(k, c, before, n):
                found.setdefault((c, key(link.after)), link)
        return list(found.values())

    def _between(self, k: int, c: int, before: ENode, after: ENode) -> list[Link]:
        """Forms of one class from the first to the last, each one made by a rule from the one before it.

        Asked backwards: the rule that made a form can have been applied to some members; if the first form is none of them, the one
        with the fewest rules behind it comes between.  Where nothing can be told, the last form follows the first at once.
        """
        links: list[Link] = []
        told = {key(after)}
        while True:
            sources = self._sources(after.rule, c, after)
            fresh = [n for n in sources if key(n) not in told]
            if any(key(n) == key(before) for n in sources):
                return [Link(k, c, before, after, str(after.rule), True), *links]
            if not fresh or len(links) >= LONGEST:
                return [self._joined(k, c, before, after), *links]
            source = min(fresh, key=self.forms.cost)
            links.insert(0, Link(k, c, source, after, str(after.rule), True))
            told.add(key(source))
            after = source

    def _sources(self, rule: str | None, c: int, made: ENode) -> list[ENode]:
        known = self.rules.get(rule or "")
        return applied_to(self.graph, known, c, made) if known is not None else []

    def _joined(self, k: int, c: int, before: ENode, after: ENode) -> Link:
        """A step whose result was not made by a rule from the form before: some rule of the class may state their equality."""
        united = self.united(c)
        for name in united:
            for one, other in ((before, after), (after, before)):
                if any(key(n) == key(one) for n in self._sources(name, c, other)):
                    return Link(k, c, before, after, name, True)
        return Link(k, c, before, after, after.rule or (united[0] if united else CONGRUENCE), False)

    @cached_property
    def replay(self) -> Replay:
        """Random arrays for the program."""
        return Replay(self.graph, self.forms)

    @cached_property
    def _positive(self) -> Replay:
        return Replay(self.graph, self.forms, positive=True)

    def replayed(self, link: Link) -> Replayed:
        """A step on random arrays; on positive ones, if others give no number (a logarithm, say).

        Where the program reshapes long axes the arrays can be too large.  Then values below the step are drawn instead of computed:
        what the kernel reads, or else what is reshaped.  If the two forms lie on different sides of such a cut they differ for no
        fault of theirs; so there, only agreement says anything.
        """
        first = self.replay.compare(link.before, link.after)
        if first.skipped == NO_NUMBER:
            return self._positive.compare(link.before, link.after)
        if not first.large:
            return first
        leaves = self.kernels[link.kernel].leaves
        viewed = {c for c, n in self.forms.base.items() if n.op in ("view", "gather") and c != link.cls}
        for cut in (set(leaves) - {link.cls}, viewed, {*viewed, *leaves} - {link.cls}):
            again = Replay(self.graph, self.forms, cut=cut, cone=(link.before, link.after)).compare(link.before, link.after)
            if again.agrees:
                return again
        return first

    def united(self, c: int) -> tuple[str, ...]:
        """The rules that found a class equal to another form."""
        return tuple(sorted({rule for rule, cls in self.graph.facts.get("united", ()) if cls == c}))

    @cached_property
    def steps(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of every kernel, replayed."""
        per: list[list[Step]] = [[] for _ in self.kernels]
        done: list[dict[int, ENode]] = [{} for _ in self.kernels]
        for link in self.links:
            per[link.kernel].append(self._step(link, done[link.kernel]))
            put(done[link.kernel], link)
        return tuple(map(tuple, per))

    def step_of(self, link: Link) -> Step:
        """A link in words."""
        mine = [m for m in self.links if m.kernel == link.kernel]
        return self.steps[link.kernel][mine.index(link)]

    def _step(self, link: Link, done: dict[int, ENode]) -> Step:
        """``done``: the forms that earlier steps of the kernel have put in place."""

        def form(c: int) -> ENode | None:
            return done.get(c) or self.forms.form(c)

        name = link.rule
        rule = self.rules.get(name)
        outcome = self.replayed(link)
        return Step(
            rule=name,
            family=rule.family if rule else "",
            licence=rule.licence if rule else "",
            where=rule.where if rule else "",
            law=rule.doc.partition("\n")[0] if rule else "equal parts make equal values" if name == CONGRUENCE else "",
            value=self.names.title(link.cls),
            before=self.names.text(link.before, form),
            after=self.names.text(link.after, form),
            agrees=outcome.agrees,
            difference=None if outcome.skipped else outcome.difference,
            numbers=outcome.numbers,
            skipped=outcome.skipped,
            matched=link.matched,
            also=tuple(r for r in self.united(link.cls) if r != name),
        )

    # what is left of the program after some steps ------------------------------------------------------------------------------
    def reached(self, steps: Iterable[Link]) -> set[tuple[int, int]]:
        """(kernel, class) of what the program mentions after some steps."""
        forms: list[dict[int, ENode]] = [{} for _ in self.kernels]
        for link in steps:
            put(forms[link.kernel], link)
        maker = {buffer: k for k, located in enumerate(self.kernels) for buffer in located.stores}
        outputs = {o.name for o in self.graph.program.outputs}
        stack = [(k, c) for k, located in enumerate(self.kernels) for buffer, c in located.stores.items() if buffer in outputs]
        seen: set[tuple[int, int]] = set()
        while stack:
            k, c = stack.pop()
            located = self.kernels[k]
            if c in located.leaves and c in located.loaded:
                k = maker[located.leaves[c].buffer]
            if (k, c) in seen:
                continue
            seen.add((k, c))
            n = forms[k].get(c) or self.forms.base.get(c)
            stack.extend((k, a) for a in (n.args if n is not None else ()))
            if n is not None and n.op == "pre" and n.args[0] in located.kept:
                stack.append((k, located.kept[n.args[0]]))
        return seen

    def removed_by(self, c: int) -> Link | None:
        """The step that took the last need of a class away; ``None`` if something still mentions it.

        Of the steps without which the class would be mentioned, it is the one whose value is nearest to the class.
        """

        def mentioned(steps: Iterable[Link]) -> bool:
            return any(d == c for _, d in self.reached(steps))

        if mentioned(self.links):
            return None
        guilty = [link for k, link in enumerate(self.links) if mentioned((*self.links[:k], *self.links[k + 1 :]))]
        if not guilty:  # several steps did it together: the last one of the chain
            last = next((k for k in reversed(range(len(self.links))) if mentioned(self.links[:k])), None)
            return None if last is None else self.links[last]
        return min(guilty, key=lambda link: self._distance(link.before, c))

    def _distance(self, n: ENode, c: int) -> float:
        """How many nodes stand between an e-node and a class, in base forms."""
        seen: set[int] = set()
        level, depth = list(n.args), 1
        while level:
            if c in level:
                return depth
            seen.update(level)
            level = [a for x in level if (m := self.forms.base.get(x)) is not None for a in m.args if a not in seen]
            level, depth = list(dict.fromkeys(level)), depth + 1
        return float("inf")


def rules_by_name() -> dict[str, Rule]:
    """The registered rules."""
    return {r.name: r for r in registry.rules()}
