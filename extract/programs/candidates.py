"""Equal programs that may be cheaper, out of the graph of a saturation for programs.

A choice is one node for each class, and is kept: at other sizes it is made again (:meth:`Choice.at`), so that kernels and roles can be
those of the plan.  Names, sources and the values that are written stay those of the program as written, as far as the chosen one has them.

What is new in a chosen program has no type that anybody wrote.  A value is stored in float32 if its own type is narrower and may not
hold it, or if something wider is made of it: a product of float16 that was not in the program must not overflow where the program does not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...egraph.frozen import ENode, FrozenGraph, RuleCount
from ...egraph.resize import resized
from ...ir import dtypes, nodes, ops
from ...ir.apart import apart
from ...ir.bounds import bounds
from ...ir.index import Axis
from ...ir.program import Program
from ...ir.ranges import Interval
from ...ir.terms import Cast, Const, Extent, Gather, Index, Map, Reduce, Scan, Term, View, postorder
from ..meter import Meter
from ..targets import Target
from .price import LOOKS, Look, node_us, program_us, size
from .selection import climb, greedy, used

Form = Mapping[int, ENode]

GAIN = 0.97  # a program is worth planning if it costs so much of the one that was written
MOST = 2  # programs beside it
PRICED = 8  # terms that are priced while one node of a kernel is evaluated, about
PLAIN = frozenset({"input", "const", "extent", "index", "map", "cast", "view", "gather", "reduce", "scan"})  # nodes that are terms


class Unmade(Exception):
    """A choice that is no program."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A program, as one node for each class of a graph; ``share`` is its price by that of the program as written."""

    graph: FrozenGraph
    form: Form = field(repr=False)
    share: float
    ordering: frozenset[str] = frozenset()  # the rules that order programs

    @cached_property
    def program(self) -> Program:
        """The program; its ``widened`` are the values that are kept in float32 (:class:`~eqfuse.ir.program.Program`)."""
        return _Made(self.graph, self.form).program()

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The rules that made what is not written: its nodes, and the equalities by which written values are others, or are not needed."""
        written = _written(self.graph)
        needed = used(self.form, self.graph.roots.values())
        found = {n.rule for c in needed if (n := self.form[c]).rule and written.get(c) != n}
        counted = Counter(self.graph.original).items()
        several = {c for c, n in counted if n > 1 or c not in needed or self.form[c] != written.get(c)}
        return tuple(sorted(found | {rule for rule, c in self.graph.facts["united"] if c in several and rule in self.ordering}))

    @property
    def reports(self) -> Sequence[RuleCount]:
        """What the rules of the saturation did."""
        return self.graph.report.rules

    @property
    def sized(self) -> bool:
        """Whether one of them depended on the lengths of axes."""
        return self.graph.sized

    def at(self, program: Program) -> Choice | None:
        """The same choice for the program at other sizes; ``None`` if it is another program there."""
        graph = resized(self.graph, apart(program))
        return None if graph is None else replace(self, graph=graph, form=_renumbered(self.graph, graph, self.form))


def _renumbered(before: FrozenGraph, after: FrozenGraph, form: Form) -> Form:
    """The nodes of a resized graph that stand where those of a choice do."""
    place = {c: before.classes[c].index(n) for c, n in form.items()}
    return {c: after.classes[c][k] for c, k in place.items()}


def _written(graph: FrozenGraph) -> dict[int, ENode]:
    """Of each class of the program a node that the program has."""
    number = dict(zip(graph.program.terms(), graph.original, strict=True))
    found: dict[int, ENode] = {}
    for t, c in number.items():
        args = tuple(number[a] for a in t.args)
        for n in graph.classes[c]:
            if n.rule is None and n.op == t.kind and n.args == args and c not in found:
                found[c] = n
    return found


class _Made:
    """The terms of a choice.  Raises :class:`Unmade` where it goes in a circle, or types make it another program."""

    def __init__(self, graph: FrozenGraph, form: Form) -> None:
        self.graph, self.form = graph, form
        self.inputs = {i.name: i for i in graph.program.inputs}
        self.term: dict[int, Term] = {}
        self.outputs = tuple(self.make(graph.roots[o.name]) for o in graph.program.outputs)

    def make(self, root: int) -> Term:
        """The term of a class, arguments first."""
        stack: list[tuple[int, bool]] = [(root, False)]
        open_: set[int] = set()
        while stack:
            c, ready = stack.pop()
            if c in self.term:
                continue
            if ready:
                open_.discard(c)
                self.term[c] = self.narrowed(c, self.one(self.form[c]))
                continue
            if c in open_ or c not in self.form:
                raise Unmade
            open_.add(c)
            stack.append((c, True))
            stack.extend((a, False) for a in self.form[c].args if a not in self.term)
        return self.term[root]

    def one(self, n: ENode) -> Term:
        """The term of a node."""
        args = [self.term[a] for a in n.args]
        if n.op == "input":
            return self.inputs[n.attrs[0]]
        if n.op == "map":
            return Map(n.attrs[0], tuple(args))
        if n.op in ("reduce", "scan"):
            made = (Reduce if n.op == "reduce" else Scan)(*n.attrs, *args)
            if made.monoid != n.attrs[0]:  # a sum of numbers is another operation than one of integers
                raise Unmade
            return made
        if n.op == "view":
            return View(args[0], *n.attrs)
        if n.op == "gather":
            if args[1].dtype is None or args[1].dtype.kind != "int":
                raise Unmade
            return Gather(args[0], n.attrs[0], args[1])
        if n.op == "cast":
            return Cast(n.attrs[0], args[0])
        return {"const": Const, "extent": Extent, "index": Index}[n.op](n.attrs[0])

    def narrowed(self, c: int, t: Term) -> Term:
        """A class may be free of an axis that its form mentions (x - x is 0): it is the same at every position."""
        for axis in sorted(t.axes - self.graph.axes[c]):
            t = View(t, axis, 0)
        return t

    @cached_property
    def new(self) -> frozenset[Term]:
        """The terms that compute a value that the program as written does not have."""
        original = set(self.graph.original)
        written = {t for c, t in self.term.items() if c in original}
        return frozenset(t for c, t in self.term.items() if c not in original) - written

    @cached_property
    def widened(self) -> frozenset[Term]:
        """The new values that their type may not hold, or of which something wider is made."""
        narrow = [t for t in self.new if t.dtype is not None and t.dtype.is_float and t.dtype.itemsize == 2]
        if not narrow:
            return frozenset()
        known: dict[Term, Interval] = {
            i: Interval(-(most := self.graph.program.kept(i).largest), most) for i in self.inputs.values() if i.dtype.is_float
        }
        wider = {a for t in postorder(*self.outputs) for a in t.args if t.dtype is not None and t.dtype != a.dtype}
        return frozenset(
            t
            for t in narrow
            if isinstance(t, Map | Reduce | Scan)
            and (t in wider or (t.dtype is dtypes.float16 and bounds(t, known).magnitude > dtypes.float16.largest))
        )

    def program(self) -> Program:
        """The program, with the names and sources of what was written."""
        before = self.graph.program
        now = {t: self.term.get(c) for t, c in zip(before.terms(), self.graph.original, strict=True)}
        names = {n: tuple(dict.fromkeys(x for t in ts if (x := now.get(t)) is not None)) for n, ts in before.names.items()}
        sources = {x: text for t, text in before.sources.items() if (x := now.get(t)) is not None}
        outputs = tuple(replace(o, term=t) for o, t in zip(before.outputs, self.outputs, strict=True))
        made = replace(before, outputs=outputs, sources=sources, names=names, widened=self.widened)
        made.check()
        return made


def _nodes(graph: FrozenGraph) -> dict[int, list[ENode]]:
    """The nodes of each class that are terms, of terms: what needs a running value falls away.

    A class may be free of an axis that some of its nodes mention, and a rule may have relied on that: others are taken where there are any.
    """
    good = {c: [n for n in row if n.op in PLAIN] for c, row in enumerate(graph.classes)}
    while True:
        kept = {c: [n for n in row if all(good[a] for a in n.args)] for c, row in good.items()}
        if all(len(kept[c]) == len(good[c]) for c in good):
            break
        good = kept
    inputs = {i.name: i.axes for i in graph.program.inputs}

    def over(n: ENode) -> frozenset[Axis]:
        return inputs[n.attrs[0]] if n.op == "input" else nodes.axes(n.op, n.attrs, [graph.axes[a] for a in n.args])

    tight = {c: [n for n in row if over(n) <= graph.axes[c]] for c, row in good.items()}
    return {c: tight[c] or row for c, row in good.items() if row}


class _Search:
    """The search for cheaper choices in one graph."""

    def __init__(self, graph: FrozenGraph, target: Target, ordering: frozenset[str], meter: Meter) -> None:
        self.graph, self.target, self.ordering, self.meter = graph, target, ordering, meter
        self.nodes = _nodes(graph)
        self.roots = list(graph.roots.values())
        types = [i.dtype for i in graph.program.inputs if i.dtype.is_float]
        self.narrowest = min(types, key=lambda d: d.itemsize, default=dtypes.float32)

    def own(self, c: int, n: ENode, look: Look) -> float:
        """What a node costs by itself, for the greedy start."""
        axes, least = self.graph.axes, 1e-6
        if n.op == "map":
            return least + size(axes[c]) * ops.OPS[n.attrs[0]].cost / (self.target.simt_gops * 1e3)
        if n.op != "reduce":
            return least
        body = n.args[0]
        factors = [[axes[a] for a in m.args] for m in self.graph.classes[body] if m.scalar == "mul"]
        d = self.narrowest
        return least + node_us(axes[c], axes[body], factors, n.attrs[1], d.name, d.itemsize, self.target, look)

    def price(self, form: Form, look: Look) -> float:
        """The price of a choice."""
        try:
            made = _Made(self.graph, form)
            self.meter.count(len(made.term) / PRICED)
        except Unmade:
            return math.inf
        return program_us(self.graph.program.outputs, made.outputs, self.target, look, made.widened)

    def climbed(self, start: dict[int, ENode], look: Look) -> tuple[dict[int, ENode], float]:
        """The cheapest choice that is found from another one, and its price."""
        return climb(self.nodes, start, self.roots, lambda form: self.price(form, look), self.meter.spent)

    def found(self) -> dict[tuple[Term, ...], Choice]:
        """The cheapest choice under each look, from the greedy start and from what was written, where it saves enough."""
        found: dict[tuple[Term, ...], Choice] = {}
        written = tuple(o.term for o in self.graph.program.outputs)
        asis = _written(self.graph)
        usual = self if self.graph.before is None else _Search(self.graph.before, self.target, self.ordering, self.meter)
        for look in LOOKS:
            base = usual.climbed(_written(usual.graph), look)[1]
            first = greedy(self.nodes, lambda c, n, look=look: self.own(c, n, look))  # type: ignore[misc]
            for start in (first, {**first, **asis}):
                form, now = self.climbed(start, look)
                if now >= base * GAIN:
                    continue
                made = _Made(self.graph, form).outputs
                kept = {c: form[c] for c in used(form, self.roots)}
                if made != written and (made not in found or now / base < found[made].share):
                    found[made] = Choice(self.graph, kept, now / base, self.ordering)
        return found


def other_programs(
    graph: FrozenGraph,
    target: Target,
    ordering: Collection[str],
    seconds: float = 1.0,
    most: int = MOST,
    deadline: float = math.inf,
) -> Sequence[Choice]:
    """Programs that may be cheaper than the one that the graph was made of, the most promising first; none in most cases.

    ``ordering``: the rules that change the order of programs.  What other rules find is found again for the kernels of every program.
    ``seconds`` and ``deadline`` are of the clock of work (:mod:`...work`), on which terms that are priced count.
    """
    if not any(rule in ordering for rule, _ in graph.facts["united"]):
        return ()
    search = _Search(graph, target, frozenset(ordering), Meter(seconds, deadline))
    return sorted(search.found().values(), key=lambda choice: choice.share)[:most]
