"""What each step of the chain saves: the programs between the program as written and the plan, and the price of each.

After every step of the chain a whole program stands there.  Its price is the best plan of exactly that program: extraction over the
e-graph cut down to the forms in force, so that a plan may fuse but not rewrite.  A step saves the price before it less the price
after it, and so the savings of all steps, and of fusing the program as written, add up to what the plan saves.  The last program's
price is the plan itself.

A program between may have no plan: half of a split loop, a running value whose accumulator is still to come.  Then the steps up to
the next program that has one save together what they save.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from ..egraph.frozen import ENode, FrozenGraph
from ..errors import EqFuseError
from ..extract.choose import Leaf
from ..extract.covers import Cover, Extractor
from ..extract.partial import Partials, Row
from ..extract.plan import Plan
from ..extract.quantities import bytes_text, plural
from ..work import RATE, now
from .derivation import Derivation
from .forms import key
from .study import Study

SECONDS = 30.0  # of the clock of work, for the plans of all programs of one chain
WORDS = {
    "fusion": "fusion of the program as written",
    "found": "what rules found before any step: equal values, verdicts",
    "like": "tiles taken from the plan for other sizes",
}


@dataclass(frozen=True)
class Priced:
    """The best plan of one program of the chain: modelled time, memory traffic, and the most temporary memory held at a time.

    ``stopped``: why the search for it ended; ``time`` means that there may be a better one.
    """

    us: float
    dram_bytes: int
    temporary_bytes: int
    kernels: int
    stopped: str = ""


@dataclass(frozen=True)
class Unpriced:
    """Why a program of the chain has no price.  ``asked`` is false where the time for the chain was over."""

    reason: str
    asked: bool = True


@dataclass(frozen=True)
class Part:
    """One thing that saves something.

    ``kind``: ``fusion`` (the plan of the program as written against the unfused plan), ``found`` (values of the program that rules
    found equal, and verdicts of fusion rules, before any step), ``step``, ``call`` (an outside implementation), or ``like`` (tiles
    that the plan has from a plan for other sizes).  A step has its ``number`` in the chain, from 1, its kernel, and its ``index``
    among the steps of that kernel, from 0.
    """

    kind: str
    rule: str = ""
    number: int | None = None
    kernel: str = ""
    index: int | None = None


@dataclass(frozen=True)
class Share:
    """What one part saves, or several of which none can be told alone.

    ``after`` is the plan of the program that they lead to.  ``saved_temporary_bytes`` is ``None`` for fusion: the unfused plan has no
    account of memory.  ``reason``: why the parts are told together; ``asked`` is false where time is the reason.
    """

    parts: tuple[Part, ...]
    saved_us: float
    saved_bytes: int
    saved_temporary_bytes: int | None
    after: Priced
    reason: str = ""
    asked: bool = True

    @property
    def words(self) -> str:
        """The parts in words."""
        steps = [p for p in self.parts if p.number is not None]
        said = [WORDS[p.kind] for p in self.parts if p.kind == "fusion" or p.kind == "found"]
        if len(steps) == 1:
            said.append(f"step {steps[0].number}, {steps[0].rule}")
        elif steps:
            said.append(f"steps {_range([p.number for p in steps if p.number])} together")
        said += [f"{p.rule}, from outside" if p.kind == "call" else WORDS[p.kind] for p in self.parts if p.kind in ("call", "like")]
        return " and ".join(said)


class Standing:
    """The form of every class after each step of a chain.

    A class that no step rewrote has its base form.  One that several kernels compute has the form of each: it is rewritten in one
    kernel at a time.
    """

    def __init__(self, derivation: Derivation) -> None:
        self.derivation = derivation
        self.base = derivation.forms.base
        self.now: list[dict[int, list[ENode]]] = [{} for _ in derivation.kernels]
        self.kept: dict[int, int] = {}
        self.ends = [{key(n) for n in located.enode if n is not None} for located in derivation.kernels]
        for k, located in enumerate(derivation.kernels):
            self.kept |= located.kept
            for c in located.held:
                if c in self.base and not (c in located.leaves and c in located.loaded):
                    self.now[k][c] = [self.base[c]]

    def graphs(self) -> Iterator[FrozenGraph]:
        """The e-graph of the program before any step, then after each."""
        yield self._graph()
        for link in self.derivation.links:
            forms = self.now[link.kernel].setdefault(link.cls, [self.base[link.cls]])
            keys = [key(n) for n in forms]
            if key(link.before) in keys and key(link.before) not in self.ends[link.kernel]:
                forms[keys.index(key(link.before))] = link.after
            elif key(link.after) not in keys:  # two forms at two places of one loop
                forms.append(link.after)
            yield self._graph()

    def _graph(self) -> FrozenGraph:
        graph = self.derivation.graph
        found: dict[int, tuple[ENode, ...]] = {}
        stack = list(graph.roots.values())
        while stack:
            c = stack.pop()
            if c in found:
                continue
            forms = [n for kernel in self.now for n in kernel.get(c, ())] or ([self.base[c]] if c in self.base else [])
            found[c] = tuple({key(n): n for n in forms}.values())
            for n in found[c]:
                stack.extend(n.args)
                if n.op == "pre" and n.args[0] in self.kept:
                    stack.append(self.kept[n.args[0]])
        classes = tuple(found.get(c, ()) for c in range(len(graph.classes)))
        return replace(graph, classes=classes, facts={**graph.facts, "outside": ()})


class _KnownPartials(Partials):
    """The partial results of one program of a chain.

    Which values a split reduction may store between its kernels is asked of the whole e-graph: that one form of a value is a
    reduction says so of the value, although the form in force may be another.
    """

    def __init__(self, graph: FrozenGraph, parts: tuple[tuple[Row, int], ...]) -> None:
        super().__init__(graph)
        self.parts = parts

    def below(self, row: Row, roots: Sequence[int], leaves: Mapping[int, Leaf]) -> tuple[int, ...]:
        known = self.local(row)
        return tuple(c for r, c in self.parts if r == row and self.graph.classes[c] and c in known and c not in leaves)


class Chain:
    """The chain of one plan, priced."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.plan = study.plan

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The steps in the order of the chain: the last kernel first, and in each kernel as they are listed there."""
        derivation = self.study.derivation
        seen = [0] * len(derivation.kernels)
        found = []
        for number, link in enumerate(derivation.links, 1):
            found.append(Part("step", link.rule, number, derivation.kernels[link.kernel].name, seen[link.kernel]))
            seen[link.kernel] += 1
        return tuple(found)

    def number(self, kernel: str, index: int) -> int:
        """The number in the chain of a step of a kernel."""
        return next(p.number or 0 for p in self.parts if (p.kernel, p.index) == (kernel, index))

    @cached_property
    def written(self) -> Priced | Unpriced:
        """The price of the program as written, planned without any rule; or what to say of it instead."""
        try:
            return self.priced(self.study.as_written)
        except EqFuseError as error:
            return _no_plan(error)

    @cached_property
    def programs(self) -> tuple[Priced | Unpriced, ...]:
        """The price of the program before any step and after each, or what to say of it instead.

        The last is the plan itself, unless that has outside implementations (what these compute is computed as written here) or
        tiles of another plan.
        """
        study = self.study
        found: list[Priced | Unpriced] = []
        last = math.inf if self.plan.calls or self.plan.stopped == "like" else len(study.derivation.links)
        known: dict[tuple[tuple[ENode, ...], ...], Priced | Unpriced] = {}
        deadline = now() + RATE * SECONDS
        for k, graph in enumerate(Standing(study.derivation).graphs()):
            if k == last:
                found.append(self.priced(self.plan))
                break
            if graph.classes not in known:
                left = (deadline - now()) / RATE
                if left <= 0:
                    found.append(Unpriced(f"was not asked for a plan: the {SECONDS:g} s for that were over", asked=False))
                    continue
                try:
                    known[graph.classes] = self.priced(self.extractor(graph, left).run())
                except EqFuseError as error:
                    known[graph.classes] = _no_plan(error)
            found.append(known[graph.classes])
        return tuple(found)

    @cached_property
    def _parts(self) -> tuple[tuple[Row, int], ...]:
        """Values that a split reduction may store, by the way in which its axis is split."""
        graph = self.study.graph
        return tuple((row, c) for row in Partials(graph).rows for c in Partials(graph).below(row, graph.original, {}))

    def extractor(self, graph: FrozenGraph, seconds: float) -> Extractor:
        """An extractor for a program of the chain, which may take so long."""
        ex = self.study.extracts(graph, time_budget=min(seconds, self.study.options.time_budget))
        ex.maker.partials = _KnownPartials(graph, self._parts)
        ex.maker.partial_names.update((c, ex.program.unused(f"part{k}")) for k, c in enumerate(dict.fromkeys(c for _, c in self._parts)))
        return ex

    @staticmethod
    def priced(plan: Plan) -> Priced:
        """The price of a plan."""
        return Priced(plan.estimated_us, plan.dram_bytes, Cover("", plan.steps).temporary_bytes, len(plan.steps), plan.stopped)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """What fusion and each step save; they add up to what the plan saves."""
        first = self.programs[0]
        stages: list[tuple[Priced | Unpriced, str, tuple[Part, ...]]] = [(self.written, "the program as written", (Part("fusion"),))]
        if _differ(self.written, first):
            stages.append((first, "the program before the first step", (Part("found"),)))
        stages += [(p, f"the program after step {at.number}", (at,)) for at, p in zip(self.parts, self.programs[1:], strict=True)]
        more = [Part("call", call.rule) for call in self.plan.calls] + [Part("like")] * (self.plan.stopped == "like")
        if more:
            stages.append((self.priced(self.plan), "", tuple(more)))
        found: list[Share] = []
        us, bytes_, held = self.plan.baseline_us, self.plan.baseline_bytes, None
        parts: tuple[Part, ...] = ()
        reason, asked = "", True
        for after, place, new in stages:
            parts += new
            if isinstance(after, Unpriced):
                reason, asked = reason or f"{place} {after.reason}", asked and after.asked
                continue
            memory = None if held is None else held - after.temporary_bytes
            found.append(Share(parts, us - after.us, bytes_ - after.dram_bytes, memory, after, reason, asked))
            us, bytes_, held = after.us, after.dram_bytes, after.temporary_bytes
            parts, reason, asked = (), "", True
        return tuple(found)

    def share_of(self, number: int) -> Share:
        """What a step saves, by its number; perhaps with others."""
        return next(s for s in self.shares if any(p.number == number for p in s.parts))

    # as text and as data -------------------------------------------------------------------------------------------------------
    def step_line(self, number: int) -> str:
        """What one step saves, in words."""
        share = self.share_of(number)
        steps = [p.number for p in share.parts if p.number is not None]
        here = self.programs[number]
        last = share.parts[-1]
        if isinstance(here, Unpriced):
            where = f"step {last.number}" if last.number is not None else last.rule or "the tiles"
            return f"counted with {where}: {'no plan computes' if here.asked else 'there was no time to plan'} what stands here"
        others = [WORDS[p.kind] for p in share.parts if p.kind in WORDS]
        others += [f"{'step' if len(steps) == 2 else 'steps'} {_range(steps[:-1])}"] if len(steps) > 1 else []
        together = f"with {' and '.join(others)} it " if others else ""
        return f"{together}{_saves(share)}; the best plan is now {share.after.us:.1f} us"

    def table(self) -> list[str]:
        """What adds up to the whole saving, one line each."""
        rows = [(f"{s.saved_us:.1f} us", bytes_text(s.saved_bytes), s) for s in self.shares]
        wide_us, wide_bytes = max(len(us) for us, _, _ in rows), max(len(b) for _, b, _ in rows)
        lines = []
        for us, bytes_, s in rows:
            held = f", {bytes_text(s.after.temporary_bytes)} held" if s.after.temporary_bytes else ""
            late = ", the search ran out of time" if s.after.stopped in ("time", "clock") else ""
            plan = f"{plural(s.after.kernels, 'kernel')}, {s.after.us:.1f} us{held}{late}"
            alone = " (no plan stands between)" if s.reason and s.asked else " (not asked one by one)" if s.reason else ""
            lines.append(f"{us:>{wide_us}}  {bytes_:>{wide_bytes}}  {s.words}{alone} -> {plan}")
        return lines

    def data(self) -> list[dict[str, Any]]:
        """The shares as JSON values."""
        return [
            {
                "parts": [asdict(p) for p in s.parts],
                "saved_us": s.saved_us,
                "saved_bytes": s.saved_bytes,
                "saved_temporary_bytes": s.saved_temporary_bytes,
                "after": asdict(s.after),
                "reason": s.reason,
                "asked": s.asked,
            }
            for s in self.shares
        ]


def _range(numbers: list[int]) -> str:
    if len(numbers) < 3:
        return " and ".join(map(str, numbers))
    return f"{numbers[0]} to {numbers[-1]}"


def _saves(s: Share) -> str:
    """Time, traffic and memory that a share saves; what it costs is said as plainly."""
    us, held = s.saved_us, s.saved_temporary_bytes or 0
    said = [f"saves {us:.1f} us" if us >= 0.05 else f"costs {-us:.1f} us" if us <= -0.05 else "saves no time"]
    said += [f"moves {bytes_text(abs(s.saved_bytes))} {'less' if s.saved_bytes > 0 else 'more'}"] if s.saved_bytes else []
    said += [f"holds {bytes_text(abs(held))} {'less' if held > 0 else 'more'} temporary memory"] if held else []
    own = "on its own it " if len(s.parts) == 1 and us < 0.05 and s.saved_bytes <= 0 else ""
    return own + (", ".join(said[:-1]) + " and " + said[-1] if len(said) > 1 else said[0])


def _differ(a: Priced | Unpriced, b: Priced | Unpriced) -> bool:
    """Two programs have plans of different prices, or only one of them has one."""
    if isinstance(a, Unpriced) or isinstance(b, Unpriced):
        return all(isinstance(x, Priced) or x.asked for x in (a, b)) and type(a) is not type(b)
    return (a.dram_bytes, a.temporary_bytes) != (b.dram_bytes, b.temporary_bytes) or not math.isclose(a.us, b.us)


def _no_plan(error: EqFuseError) -> Unpriced:
    """What to say of a program without a plan."""
    return Unpriced(f"has no plan: {error.message.partition(': ')[2] or error.message}")
