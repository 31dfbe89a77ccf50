"""What rules decided about values that may, must or must not share a kernel.

A kernel *covers* a class that it computes: as the class itself, as the class at a running reference (the other side of a repair
fact), or, for a value of the program, by computing some user of it from something below it, in whatever form.  The last case
is what people mean by fusing a value away: the kernel of ``sum(exp(x - m) * v) / z`` covers ``exp(x - m) / z`` though no node of it
has that value.  Reading a stored value covers nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..egraph.frozen import FrozenGraph
from ..ir.index import Axis
from ..ir.terms import Input, Term
from ..rewrites.verdicts import places, told
from ..tiles.kernel import Node
from .names import Names
from .plan import LIFTED, Decision, PlannedCall, PlannedKernel


@dataclass(frozen=True)
class Leaf:
    """A class that some kernel has stored: its buffer and the axes of the buffer's dimensions."""

    buffer: str
    layout: tuple[Axis | None, ...]


@dataclass(frozen=True)
class Pair:
    """Two classes that a verdict speaks of, and the rule that decided."""

    outer: int
    inner: int
    by: str


class Verdicts:
    """The verdicts of one frozen graph, with conflicts resolved: an ``allow`` lifts a ``forbid`` about the same pair."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        # two values that turned out to be one cannot be parted, as the sum over parts and the part where nothing is summed
        rows = [(verdict, Pair(outer, inner, by)) for verdict, outer, inner, by in graph.facts.get("fuse", ()) if outer != inner]
        allowed = {frozenset((p.outer, p.inner)) for verdict, p in rows if verdict == "allow"}
        self.forbidden = [p for v, p in rows if v == "forbid" and frozenset((p.outer, p.inner)) not in allowed]
        self.required = [p for v, p in rows if v == "require"]
        self.allowed = [p for v, p in rows if v == "allow"]
        self.lifted = [p for v, p in rows if v == "forbid" and p not in self.forbidden]
        self.ruled_out: Counter[tuple[str, Pair]] = Counter()  # kernels that each verdict refused

    @property
    def conflicts(self) -> list[tuple[Pair, Pair]]:
        """Pairs that one rule requires and another forbids to share a kernel."""
        return [(r, f) for r in self.required for f in self.forbidden if {r.outer, r.inner} == {f.outer, f.inner}]

    def cure(self, reasons: str) -> str | None:
        """What to try where reasons leave no kernel: the verdicts among them, by name and by who gave them."""
        own = frozenset(self.graph.original)  # what is said of other values, as the parts of a split sum, is nobody's wish
        given = dict.fromkeys(p.by for p in (*self.forbidden, *self.required) if p.outer in own and p.inner in own)
        guilty = [by for by in given if by in reasons]
        if not guilty:
            return None
        first, *rest = [*guilty, *(by for by in given if by not in guilty)]  # the others may be what it goes against
        return f"leave out {told(first)}" + "".join(f", or {told(by)}" for by in rest) + f": no plan obeys {'them all' if rest else 'it'}"

    @cached_property
    def _terms(self) -> Mapping[int, Term]:
        """The terms of the program by class; of two in one class, the last."""
        return dict(zip(self.graph.original, self.graph.program.terms(), strict=True))

    @cached_property
    def _class_of(self) -> Mapping[int, int]:
        return {id(t): c for t, c in zip(self.graph.program.terms(), self.graph.original, strict=True)}

    @cached_property
    def _moved(self) -> Mapping[int, frozenset[int]]:
        """class -> the classes that it is at another reference."""
        found: dict[int, set[int]] = {}
        for table in ("changes-by-term", "changes-by-factor"):
            for _, _, t, _, tn, _ in self.graph.facts.get(table, ()):  # tn: t at a running or a local reference
                found.setdefault(tn, set()).add(t)
        return {c: frozenset(s) for c, s in found.items()}

    @cached_property
    def _of_program(self) -> bool:
        """Some verdict speaks of two values of the program."""
        known = set(self.graph.original)
        return any(p.outer in known and p.inner in known for p in (*self.forbidden, *self.required))

    def covers(self, nodes: Sequence[Node], roots: Sequence[int], leaves: Mapping[int, Leaf]) -> frozenset[int]:
        """The classes that a kernel of these nodes and root classes covers; ``leaves`` are the stored classes."""
        loaded = {n.attrs[0] for n in nodes if n.op == "load"}
        computed = {n.cls for n in nodes if n.op not in ("load", "index", "const", "extent") and n.cls is not None}
        computed |= {t for c in tuple(computed) for t in self._moved.get(c, ())}
        if self._of_program:
            stored = {c for c, leaf in leaves.items() if leaf.buffer in loaded}
            below: dict[int, bool] = {}
            for r in (*roots, *computed):
                if r in self._terms:
                    self._reaches(self._terms[r], loaded, stored, below)
            computed |= {self._class_of[t] for t, reached in below.items() if reached and self._class_of[t] not in stored}
        return frozenset(computed)

    def _reaches(self, top: Term, loaded: set[str], stored: set[int], below: dict[int, bool]) -> None:
        """Fill ``below``: whether a term is made, in the program, from something that the kernel loads."""
        stack = [(top, False)]
        while stack:
            t, ready = stack.pop()
            key = id(t)
            if key in below and not ready:
                continue
            if isinstance(t, Input):
                below[key] = False  # an input is nobody's work; its users ask for it by name
                continue
            if self._class_of[key] in stored:
                below[key] = False
                continue
            if not ready:
                below[key] = False
                stack.append((t, True))
                stack.extend((a, False) for a in t.args)
                continue
            below[key] = any(below[id(a)] or self._is_loaded(a, loaded, stored) for a in t.args)

    def _is_loaded(self, t: Term, loaded: set[str], stored: set[int]) -> bool:
        return (isinstance(t, Input) and t.name in loaded) or self._class_of[id(t)] in stored

    def against_call(self, root: int, loaded: Collection[str], leaves: Mapping[int, Leaf]) -> str:
        """Why an outside implementation of ``root`` that reads these buffers may not be, in words: it covers what lies between."""
        covered = self._covers_call(root, loaded, leaves)
        return self._said(covered, covered)

    def _covers_call(self, root: int, loaded: Collection[str], leaves: Mapping[int, Leaf]) -> frozenset[int]:
        """The classes that lie between an outside implementation's arguments and its result, that one included."""
        stored = {c for c, leaf in leaves.items() if leaf.buffer in loaded}
        below: dict[int, bool] = {}
        self._reaches(self._terms[root], set(loaded), stored, below)
        return frozenset({root, *(self._class_of[t] for t, reached in below.items() if reached)} - stored)

    def against_parts(self, roots: Sequence[int], loaded: set[str], leaves: Mapping[int, Leaf]) -> str:
        """Why two kernels that only pass partial results may not be, in words: together they cover what one kernel would.
        ``roots`` are the classes that they make, ``loaded`` the buffers that either reads, ``leaves`` the values that are in buffers."""
        below: dict[int, bool] = {}
        stored = {c for c, leaf in leaves.items() if leaf.buffer in loaded}
        for r in roots:
            if r in self._terms:
                self._reaches(self._terms[r], loaded, stored, below)
        covered = {self._class_of[t] for t, reached in below.items() if reached}
        found = next((p for p in self.forbidden if p.outer in covered and p.inner in covered), None)
        if found is None:
            return ""
        self.ruled_out["forbid", found] += 1
        return f"forbidden by {found.by}"

    def against(self, nodes: Sequence[Node], roots: Sequence[int], leaves: Mapping[int, Leaf]) -> str:
        """Why a kernel may not be, in words; empty if it may."""
        if not self.forbidden and not self.required:
            return ""
        covered = self.covers(nodes, roots, leaves)
        return self._said(covered, self._literal(nodes, leaves))

    def _literal(self, nodes: Sequence[Node], leaves: Mapping[int, Leaf]) -> set[int]:
        """The classes that a kernel makes itself; not a reduction that follows from what is stored, as a multiple of another does."""
        buffers = {leaf.buffer for leaf in leaves.values()}
        known: list[bool] = []
        found: set[int] = set()
        for n in nodes:
            known.append(n.attrs[0] in buffers if n.op == "load" else n.op in ("const", "map") and all(known[a] for a in n.args))
            if n.op != "load" and n.cls is not None and not (known[-1] and any(m.reduction for m in self.graph.classes[n.cls])):
                found.add(n.cls)
        return found

    def _said(self, covered: Collection[int], literal: Collection[int]) -> str:
        """What the first verdict says that these classes are against."""
        own = frozenset(self.graph.original)
        for p in self.forbidden:
            # what is no value of the program, as the part of a split sum, is just itself: the whole sum is the part at another reference
            both = covered if p.inner in own else literal
            if p.outer in both and p.inner in both:
                self.ruled_out["forbid", p] += 1
                return f"forbidden by {p.by}"
        for p in self.required:
            if p.outer in covered and p.inner not in covered:
                self.ruled_out["require", p] += 1
                return f"{p.by} requires a value that it does not make"
        return ""

    # what they did ---------------------------------------------------------------------------------------------------------------
    def decided(self, steps: Sequence[PlannedKernel | PlannedCall]) -> tuple[Decision, ...]:
        """What became of every verdict about two values of the program, in a plan of these steps that the search ended with."""
        own = frozenset(self.graph.original)
        rows = [("require", self.required), ("forbid", self.forbidden), ("allow", self.allowed), ("forbid", self.lifted)]
        mine = [(v, p) for v, pairs in rows for p in dict.fromkeys(pairs) if p.outer in own and p.inner in own]
        if not mine:
            return ()
        names, covered = Names(self.graph), self._covered(steps)

        def made(c: int) -> str:
            return " and ".join(name for name, classes in covered.items() if c in classes)

        def outcome(verdict: str, p: Pair) -> str:
            pair = {p.outer, p.inner}
            if verdict == "allow":
                lifted = [told(f.by) for f in self.lifted if {f.outer, f.inner} == pair]
                return f"lifts what {' and '.join(lifted)} forbids" if lifted else "nothing forbids it, so it has no effect"
            if verdict == "forbid" and p in self.lifted:
                return f"{LIFTED} {' and '.join(told(a.by) for a in self.allowed if {a.outer, a.inner} == pair)}"
            first, second = names.label(p.outer), names.label(p.inner)
            if verdict == "require" and made(p.outer):
                return f"held, {made(p.outer)} makes both"
            if made(p.outer) and made(p.inner):
                return f"held, {first} is made in {made(p.outer)}, {second} in {made(p.inner)}"
            return f"held, no kernel makes {first if not made(p.outer) else second}"

        return tuple(
            Decision(v, p.by, places.get(p.by, ""), names.label(p.outer), names.label(p.inner), outcome(v, p), self.ruled_out[v, p])
            for v, p in mine
        )

    def _covered(self, steps: Sequence[PlannedKernel | PlannedCall]) -> dict[str, frozenset[int]]:
        """The classes that each step covers, by its name."""
        classes = {self.graph.program.temporary(k): c for k, c in enumerate(self.graph.original)}
        classes |= {o.name: self._class_of[id(o.term)] for o in self.graph.program.outputs}
        stored: dict[int, Leaf] = {}
        found: dict[str, frozenset[int]] = {}
        for step in steps:
            made = {b.name: classes[b.name] for b in step.stores if b.name in classes}  # partial results are no values of the program
            if isinstance(step, PlannedCall):
                found[step.call.name] = self._covers_call(self._class_of[id(step.term)], step.loads, stored)
            else:
                found[step.kernel.name] = self.covers(step.kernel.nodes, tuple(made.values()), stored)
            stored |= {c: Leaf(name, ()) for name, c in made.items()}
        return found
