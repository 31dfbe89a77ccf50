"""One saturation, run: engines, phases, rounds and budgets, and the graph read out.

A program is inserted into an engine that has the rules which may match there (:mod:`.engines`), saturated and read out.  Phases run in
order: views sink to the leaves, products are factored and reductions simplified, late references are exchanged, axes are split, repair
facts spread, loops are formed, spellings are made cheap.  Rounds go on until nothing changes or a budget is spent; what is there then is a
valid graph in every case, because every rule only adds equal forms.

:class:`Replay` does the same again one round at a time, with the rule that concluded each fact: for an audit that has found something.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import EngineError
from ..ir.gathers import one_of_each
from ..ir.index import Axis, IndexExpr, index, order_key
from ..ir.program import Program
from ..ir.spec import check_program, wanted
from ..ir.terms import Gather, Input, Reduce, Scan, Term
from ..rewrites.facts import CONDITIONS
from ..rewrites.positions import IndexVar
from ..rewrites.relations import RELATIONS, Row
from ..rewrites.rule import ITERS, ORDER, Rule
from ..rewrites.verdicts import MOST_READS, Offer
from ..work import RATE, bitten, count, now, watched
from . import weighing
from .encode import Codebook, Decoder, encode, selected
from .engines import ENGINES_KEPT, forget_engines, lent, run_text
from .frozen import ENode, FrozenGraph, RuleCount, SaturationReport
from .reach import reachable
from .schema import CONSTRUCTORS, FORMS, claimable
from .spec import check_graph

if TYPE_CHECKING:
    from egglog.bindings import EGraph

Way = int | tuple[Axis, Axis]  # to split an axis: the number of parts, or the axes that say which part and where in it
Splits = Mapping[Axis, int | Sequence[Way]]  # axis -> the ways in which it may be split

ANALYSE = "(saturate (run analysis))"
ROUNDS = 4  # rounds between two looks at the budgets
VIEWED = 4  # times that views made by factoring sink, and what that shows is factored
ORDERING = ("analysis", "layout", "factor", ORDER)  # the phases of a saturation for programs; that for kernels has all but the last
NODE = 2.0  # work to make an e-node and read it out
MATCH = 0.125  # work to find a match
MOST_HELD = 300_000  # e-nodes in the tables that a replay keeps: some 250 MB


def for_programs(rules: Collection[Rule]) -> tuple[Rule, ...]:
    """Of some rules those of a saturation that is for other programs; none if no rule changes the order of one."""
    return tuple(r for r in rules if r.phase in ORDERING) if ordered(rules) else ()


def for_kernels(rules: Collection[Rule]) -> tuple[Rule, ...]:
    """Of some rules those of a saturation that is for kernels."""
    return tuple(r for r in rules if r.phase not in (ORDER, ITERS))


def ordered(rules: Collection[Rule]) -> bool:
    """Whether a saturation with these rules is for programs."""
    return any(r.phase == ORDER for r in rules)


class _Run:
    """One saturation in progress: budgets, rule counts and time per phase."""

    claims = False  # whether the engine keeps the rule that concluded each fact
    constructors: Collection[str] = CONSTRUCTORS  # of the e-nodes that the budget counts

    def __init__(self, engine: EGraph, rules: tuple[Rule, ...], node_budget: int, time_budget: float, deadline: float = math.inf) -> None:
        self.engine, self.node_budget = engine, node_budget
        self.counted = 0.0  # work so far
        self.order = ordered(rules)
        self.between = 1 if self.order else ROUNDS  # rounds between two looks at the budgets
        self.places = [p for r in rules for p in r.places]
        self.asked: dict[str, int] = {}  # rows of wanted-... that were answered
        self.book = Codebook()
        self.start = time.process_time()
        self.deadline = min(now() + RATE * time_budget, deadline)
        self.stopped = "saturated"
        self.matches: dict[str, int] = {}
        self.phases: list[tuple[str, float]] = []

    def schedule(self, text: str) -> bool:
        """Run a schedule; whether anything changed."""
        changed = False
        for out in run_text(self.engine, f"(run-schedule {text})"):
            report = getattr(out, "report", None)
            if report is not None:
                changed |= report.updated
                for name, n in report.num_matches_per_rule.items():
                    if n and not name.startswith(("(", "@")):
                        rule = name.split("~")[0]
                        self.matches[rule] = self.matches.get(rule, 0) + n
        return changed

    def analyse(self) -> bool:
        """The analyses, until nothing changes; whether anything did."""
        return self.schedule(ANALYSE)

    def rounds(self, rulesets: tuple[str, ...], n: int) -> bool:
        """Some rounds of rulesets, each followed by the analyses; whether anything changed."""
        steps = " ".join(f"(run {r}) {ANALYSE}" for r in rulesets)
        return self.schedule(f"(repeat {n} (seq {steps}))")

    def sizes(self) -> dict[str, int]:
        """Rows of every table."""
        return dict(run_text(self.engine, "(print-size)")[-1].sizes)

    def size(self) -> int:
        """Number of e-nodes."""
        sizes = self.sizes()
        return sum(sizes.get(name, 0) for name in self.constructors)

    def count(self, constructor: str) -> int:
        """How many nodes of a constructor there are."""
        return self.sizes().get(constructor, 0)

    def answer(self) -> bool:
        """Answer the questions of rules that compute positions, in exact index arithmetic; whether there were new ones."""
        sizes = self.sizes() if self.places else {}
        new = [p for p in self.places if sizes.get(f"wanted-{p.table}", 0) > self.asked.get(p.table, 0)]
        if not new:
            return False
        decoder, book = Decoder(self.engine, self.book), self.book
        start, rows = len(book.exprs), []
        for p in new:
            questions = sorted(decoder.rows(f"wanted-{p.table}"))
            self.asked[p.table] = len(questions)
            for question in questions:
                cells = tuple(book.exprs[c] if isinstance(v, IndexVar) else book.axes[c] for v, c in zip(p.asked, question, strict=True))
                for found in p.answers(cells):
                    row = " ".join(str(book.number(c) if isinstance(c, IndexExpr) else book.bit(c)) for c in found)
                    rows.append(f"(place-{p.table} {row})")
        facts = book.index_facts(start) + rows
        if facts:
            self.engine.run_program(*self.engine.parse_program("\n".join(facts)))
        return bool(facts)

    def spent(self) -> bool:
        """Whether a budget is spent; remembers which."""
        if self.stopped == "saturated":
            size = self.size()
            done = NODE * size + MATCH * sum(self.matches.values())
            count(max(done - self.counted, 0.0))
            self.counted = max(done, self.counted)
            if now() > self.deadline:
                self.stopped = "clock" if bitten() else "time"
            elif size > self.node_budget:
                self.stopped = "nodes"
        return self.stopped != "saturated"

    def phase(self, name: str, rulesets: tuple[str, ...], rounds: int) -> bool:
        """Rounds of some rulesets, each followed by the analyses, until nothing changes; whether anything did."""
        begun = time.process_time()
        if self.stopped != "saturated":
            return False
        ever = False
        done, before = 0, self.size()
        while done < rounds:
            size = self.size()
            n = 1 if size * size > before * self.node_budget else min(self.between, rounds - done)  # so it stays near the budget
            before = size
            changed = self.rounds(rulesets, n) | self.answer()
            if not changed:
                break
            ever, done = True, done + n
            if self.spent():
                break
        self.phases.append((name, (time.process_time() - begun) * 1e3))
        return ever


@contextmanager
def running(
    rules: tuple[Rule, ...], node_budget: int, time_budget: float, deadline: float = math.inf, needed: Collection[Rule] | None = None
) -> Iterator[_Run]:
    """A run in the engine for these rules, or for those of them that are needed; what is inserted is gone afterwards."""
    start = time.process_time()
    end = min(now() + RATE * time_budget, deadline)
    with lent(rules, rules if needed is None else needed, False, end) as (engine, ready):
        run = _Run(engine, rules, node_budget, time_budget, end)
        run.start = start
        if not ready:
            run.stopped = "clock" if bitten() else "time"
        yield run


class _Steps(_Run):
    """A saturation in steps of one round of one ruleset; it stops after ``most`` of them.

    ``kept``: the tables after each round later than ``since`` (None: of no round), or, where that would be too much to hold, after every
    second, fourth, ... of them, and after the last.
    """

    claims = True

    def __init__(
        self, engine: EGraph, rules: tuple[Rule, ...], node_budget: int, time_budget: float, most: int | None, since: int | None
    ) -> None:
        super().__init__(engine, rules, node_budget, math.inf)
        self.most, self.since, self.until = most, since, self.start + time_budget  # whoever looks for a fault waits so long
        self.matched: list[frozenset[str]] = []  # after each round: the rules that matched in it
        self.kept: dict[int, Mapping[str, Any]] = {}
        self.every = 1  # rounds from one that is kept to the next
        self.held = 0  # e-nodes in the tables that are kept

    def step(self, text: str) -> bool:
        """One round, unless there were enough, or the time is up."""
        if len(self.matched) == self.most:
            self.stopped = "steps"
            return False
        if time.process_time() > self.until:
            self.stopped = "time"
            return False
        before = dict(self.matches)
        if not self.schedule(text):
            return False
        self.matched.append(frozenset(name for name, n in self.matches.items() if n > before.get(name, 0)))
        done = len(self.matched)
        if self.since is not None and done > self.since and (done - self.since) % self.every == 0:
            self.keep(done)
        return True

    def keep(self, done: int) -> None:
        """Keep the tables as they are after so many rounds, and fewer of the others if they are too large together."""
        self.kept[done] = self.engine.freeze().functions
        self.held += self.size()
        while self.held > MOST_HELD and len(self.kept) > 2 and self.since is not None:
            self.every *= 2
            before = len(self.kept)
            self.kept = {k: t for k, t in self.kept.items() if (k - self.since) % self.every == 0 or k == done}
            self.held = self.held * len(self.kept) // before

    def analyse(self) -> bool:
        changed = False
        while self.step("(run analysis)"):
            changed = True
        return changed

    def rounds(self, rulesets: tuple[str, ...], n: int) -> bool:
        ever = False
        for _ in range(n):
            changed = [self.step(f"(run {r})") | self.analyse() for r in rulesets]
            if not any(changed):
                break
            ever = True
        return ever


def saturated(
    program: Program, rules: tuple[Rule, ...], splits: Splits, node_budget: int, time_budget: float, deadline: float = math.inf
) -> FrozenGraph:
    """The graph as these rules make it, whatever it says.

    The program must still be there afterwards; a new engine is asked if it is not.  Raises :class:`~eqfuse.errors.EngineError` where that
    has lost an operation, too.
    """
    if wanted():
        check_program(program)
    needed = tuple(reachable(rules, program, split=bool(splits)))
    for _ in range(2):
        with watched(time_budget), running(rules, node_budget, time_budget, deadline, needed) as run:
            graph = _saturate(run.engine, program, rules, splits, run)
        if holds_program(graph):
            break
        forget_engines()
    else:
        raise EngineError(f"the engine lost an operation of {program.name}", cure="report it; smaller parts may be planned")
    if wanted():
        check_graph(graph)
    return graph


def holds_program(graph: FrozenGraph) -> bool:
    """Whether every operation of the program is a node of its class, over the classes of its arguments."""
    number = dict(zip(graph.program.terms(), graph.original, strict=True))
    nodes = {(c, *_comparable(n.op, n.attrs), n.args) for c in set(graph.original) for n in graph.classes[c]}
    return all((c, *_comparable(*_shape(t)), tuple(number[a] for a in t.args)) in nodes for t, c in number.items())


def _comparable(op: str, attrs: tuple[Any, ...]) -> tuple[str, Any]:
    """A constant as text: NaN equals itself there."""
    return op, str(attrs) if op == "const" else attrs


class Replay:
    """The saturation that made a graph with these rules once more, in rounds of one ruleset; ``matched``: which rules did in each.

    It ends after ``most`` rounds, or when its time is up (``late``), and can show the graphs after ``rounds``, later than ``since``.
    Graphs of it have a table ``claimed``, who concluded which fact.  Constants that meet raise nothing here: the graph is what is to be
    looked at.  The engine is this object's until :meth:`close`.
    """

    def __init__(
        self, graph: FrozenGraph, rules: tuple[Rule, ...], most: int | None = None, since: int | None = 0, time_budget: float = 10.0
    ) -> None:
        rules = rules if graph.before is not None else for_kernels(rules)
        self.program, self.rules = graph.program, rules
        nodes = graph.enodes if graph.report.stopped == "nodes" else max(20_000, 4 * graph.enodes)
        with ExitStack() as stack:
            self.engine, _ = stack.enter_context(lent(rules, reachable(rules, self.program), True, math.inf))
            run = _Steps(self.engine, rules, nodes, time_budget, most, since)
            self.book, self.names, self.parts = _insert(run, self.program, splits_of(graph.facts.get("split", ())))
            run.analyse()
            _phases(run, bool(self.parts))
            done = len(run.matched)
            if since is not None and done > since and done not in run.kept:
                run.keep(done)
            self._lent = stack.pop_all()
        self.run, self.matched, self.late = run, run.matched, run.stopped == "time"
        self.rounds = sorted(run.kept)

    def close(self) -> None:
        """Give the engine back."""
        self._lent.close()

    def graph(self, rounds: int) -> FrozenGraph:
        """The graph after some rounds, one of ``rounds``."""
        return self._read(self.run.kept[rounds])

    def after(self, rule: str) -> FrozenGraph:
        """The graph after what there was, and then one rule alone, wherever it matches; it is forgotten afterwards."""
        run_text(self.engine, "(push)")
        try:
            self.run.schedule(f"(run only-{rule})")
            return self._read(self.engine.freeze().functions)
        finally:
            run_text(self.engine, "(pop)")

    def _read(self, tables: Mapping[str, Any]) -> FrozenGraph:
        return _read(Decoder(self.engine, self.book, tables), self.program, self.names, self.parts, self.run, self.rules)


def _saturate(engine: EGraph, program: Program, rules: tuple[Rule, ...], splits: Splits, run: _Run) -> FrozenGraph:
    book, names, parts = _insert(run, program, splits)

    def read() -> FrozenGraph:
        return _read(Decoder(engine, book), program, names, parts, run, rules)

    run.analyse()
    before = None
    if run.order:
        _usual(run)
        before = read()
        _ordered(run)
    elif rules:
        _phases(run, bool(parts))
    begun = time.process_time()
    graph = read()
    if not rules:
        run.stopped = "off"
    run.phases.append(("read", (time.process_time() - begun) * 1e3))
    report = SaturationReport(
        run.stopped,
        graph.enodes,
        len(graph.classes),
        (time.process_time() - run.start) * 1e3,
        tuple(run.phases),
        tuple(RuleCount(r.name, run.matches.get(r.name, 0), r.sized) for r in rules),
    )
    return FrozenGraph(graph.program, graph.classes, graph.axes, graph.roots, graph.original, report, graph.facts, before)


def _insert(run: _Run, program: Program, splits: Splits) -> tuple[Codebook, dict[Term, str], list[tuple[Axis, Axis, Axis]]]:
    """The program and what is known of its axes, in the engine."""
    begun = time.process_time()
    engine, book = run.engine, run.book
    lines, names = encode(program, book)
    parts = split_axes(splits)
    earlier = earlier_parts(program, parts)
    for a in (a for row in (*parts, *earlier) for a in row):
        book.bit(a)
    facts = _axis_facts(program, parts, book)
    inside = {outer: inner for _, outer, inner in parts}
    for whole, outer, again in earlier:
        inner = inside[outer]
        bits = (book.bit(a) for a in (whole, outer, inner, again))
        places = (index(outer) * inner.size + index(inner), index(again), index(whole) // inner.size, index(whole) % inner.size)
        at = (book.number(e) for e in places)
        facts.append(f"(parts-before {' '.join(map(str, (*bits, *at)))})")
    facts += weighing.facts(book.bits) if run.order else []
    facts += book.index_facts()  # after the split axes have their index expressions
    engine.run_program(*engine.parse_program("\n".join(facts)))
    for k in range(0, len(lines), 40):
        engine.run_program(*engine.parse_program("\n".join(lines[k : k + 40])))
    run.phases.append(("insert", (time.process_time() - begun) * 1e3))
    return book, names, parts


def _usual(run: _Run) -> None:
    run.phase("layout", ("layout",), 40)
    _factor(run)


def _ordered(run: _Run) -> None:
    run.phase(ORDER, (ORDER, "factor", "layout"), 40)


def _phases(run: _Run, split: bool) -> None:
    _usual(run)
    if run.order:
        _ordered(run)
        return
    for _ in range(3):
        if not run.phase("invariance", ("invariance",), 1):
            break
        _factor(run)
    if split:
        run.phase("split", ("tiling",), 8)
        run.phase("layout", ("layout",), 40)
        _factor(run)
    run.phase("repair", ("repair", "factor"), 60)
    run.phase("roll", ("roll", "repair", "factor"), 40)
    if split:
        run.phase("split", ("tiling", "factor", "repair", "roll"), 24)
    run.phase("strength", ("strength",), 24)
    run.phase("fusion", ("fusion",), 8)


def _factor(run: _Run) -> None:
    """Products are factored and reductions simplified; views that this makes sink, and so on."""
    for _ in range(VIEWED):
        views = run.count("View")
        run.phase("factor", ("factor",), 40)
        if run.count("View") == views:
            break
        run.phase("layout", ("layout",), 40)


def parts_of(axis: Axis, count: int, length: int, way: str = "") -> tuple[Axis, Axis]:
    """The axes of so many parts of a length.  ``way``: what tells their names from those of another split of the axis."""
    return Axis(f"{axis.name}_o{way}", count, axis.rank), Axis(f"{axis.name}_i{way}", length, axis.rank)


def way_of(axis: Axis, outer: Axis) -> str:
    """Which of the splits of an axis has this outer axis: the ``way`` of :func:`parts_of`."""
    return outer.name.removeprefix(f"{axis.name}_o")


def split_axes(splits: Splits) -> list[tuple[Axis, Axis, Axis]]:
    """Every axis that is split, with the axes of its parts: a row for each way to split it."""
    out = []
    for axis, ways in sorted(splits.items(), key=lambda s: s[0]):
        for k, way in enumerate((ways,) if isinstance(ways, int) else ways):
            if isinstance(way, int):
                way = parts_of(axis, way, -(-axis.size // way), str(k + 1) if k else "")
            out.append((axis, *way))
    return out


def earlier_parts(program: Program, parts: Iterable[tuple[Axis, Axis, Axis]]) -> list[tuple[Axis, Axis, Axis]]:
    """For the splits of axes that scans run along: the axis, that of its parts, and another one for the parts before one."""
    scanned = {t.axis for t in program.terms() if isinstance(t, Scan)}
    rows = [(axis, outer) for axis, outer, _ in parts if axis in scanned]
    return [(axis, outer, Axis(f"{axis.name}_e{way_of(axis, outer)}", outer.size, axis.rank)) for axis, outer in rows]


def splits_of(rows: Iterable[tuple[Axis, Axis, Axis]]) -> Splits:
    """What :func:`split_axes` makes such rows of."""
    found: dict[Axis, list[Way]] = {}
    for axis, outer, inner in rows:
        found.setdefault(axis, []).append((outer, inner))
    return {axis: tuple(ways) for axis, ways in found.items()}


def _axis_facts(program: Program, parts: list[tuple[Axis, Axis, Axis]], book: Codebook) -> list[str]:
    reduced = {t.axis for t in program.terms() if isinstance(t, Reduce)}
    for axis, outer, inner in parts:
        reduced |= {outer, inner} if axis in reduced else set()
    kin: dict[Axis, set[Axis]] = {a: {a} for a in book.bits}
    looked = {t.axis for t in program.terms() if isinstance(t, Gather) and not one_of_each(program, t)} | selected(program)
    facts = [f"(looked-up {book.bit(a)})" for a in sorted(looked)]
    for axis, outer, inner in parts:
        at = index(outer) * inner.size + index(inner)
        kind = "split" if outer.size * inner.size == axis.size else "ragged"
        facts.append(f"({kind} {book.bit(axis)} {book.bit(outer)} {book.bit(inner)} {book.number(at)})")
        facts.append(f"(part {book.bit(outer)} {book.bit(inner)})")
        kin[axis] |= {outer, inner}
        # a loop over the parts of another split of the axis meets the elements of each part of this one
        others = {a for whole, *row in parts if whole == axis and row != [outer, inner] for a in row}
        kin[outer] |= {axis} | others
        kin[inner] |= {axis} | others
    for a in book.bits:
        facts.append(f"(set (length {book.bit(a)}) {float(a.size)})")
        if a.size > 0:
            facts.append(f"(nonempty {book.bit(a)})")
    for a in sorted(reduced):
        facts.append(f"(axis {book.bit(a)})")
        for b in book.bits:
            facts.append(f"({'related' if b in kin[a] else 'unrelated'} {book.bit(b)} {book.bit(a)})")
    return facts


def _read(
    decoder: Decoder,
    program: Program,
    names: dict[Term, str],
    parts: list[tuple[Axis, Axis, Axis]],
    run: _Run,
    rules: tuple[Rule, ...],
) -> FrozenGraph:
    book = decoder.book
    lets = decoder.bindings()
    terms = program.terms()
    original_keys = {(_shape(t), tuple(lets[names[a]] for a in t.args)) for t in terms}
    by_class: dict[Any, list[tuple[str, tuple[Any, ...], tuple[Any, ...], str | None]]] = {}
    for cls, op, attrs, args, rule in decoder.nodes():
        if ((op, attrs), args) in original_keys:
            rule = None
        by_class.setdefault(cls, []).append((op, attrs, args, rule))
    number: dict[Any, int] = {}
    queue: list[Any] = []

    def visit(cls: Any) -> None:
        if cls not in number and cls in by_class:
            number[cls] = len(number)
            queue.append(cls)

    for t in terms:
        visit(lets[names[t]])
    for cls in queue:  # grows while it is read
        for _, _, args, _ in by_class[cls]:
            for a in args:
                visit(a)
    for cls in by_class:
        visit(cls)
    for cls in queue[len(number) :]:
        for _, _, args, _ in by_class[cls]:
            for a in args:
                visit(a)
    classes: list[list[ENode]] = [[] for _ in number]
    for cls, nodes in by_class.items():
        for op, attrs, args, rule in nodes:
            if all(a in number for a in args):
                classes[number[cls]].append(ENode(op, attrs, tuple(number[a] for a in args), rule))
    for members in classes:
        members.sort(key=lambda n: (n.rule is not None, n.op, order_key(n.attrs), n.args))
    axes = [frozenset(book.bits)] * len(number)  # a replay may have stopped before it is known
    for cls, mask in decoder.rows("axes"):
        if cls in number:
            axes[number[cls]] = book.unmask(mask)
    facts = _facts(decoder, program, number, book, parts, rules)
    if run.claims:
        facts |= _claimed(decoder, number, book, rules)
    roots = {o.name: number[lets[names[o.term]]] for o in program.outputs}
    original = tuple(number[lets[names[t]]] for t in terms)  # terms that were found equal repeat their class
    empty = SaturationReport(run.stopped, 0, 0, 0.0)
    return FrozenGraph(program, tuple(map(tuple, classes)), tuple(axes), roots, original, empty, facts)


def _shape(t: Term) -> tuple[str, tuple[Any, ...]]:
    """A term's node without its arguments, as the decoder names it."""
    if isinstance(t, Input):
        return "input", (t.name,)
    kind = type(t).__name__.lower()
    return kind, tuple(k for k in t.key if not isinstance(k, Term) and not (isinstance(k, tuple) and k and isinstance(k[0], Term)))


def _facts(
    decoder: Decoder,
    program: Program,
    number: dict[Any, int],
    book: Codebook,
    parts: list[tuple[Axis, Axis, Axis]],
    rules: tuple[Rule, ...],
) -> dict[str, tuple[tuple[Any, ...], ...]]:
    """The tables that extraction and the audit read, with classes as numbers."""
    out: dict[str, tuple[tuple[Any, ...], ...]] = {}
    out |= {"split": tuple(parts), "before": tuple(earlier_parts(program, parts))}

    def known(rows: list[tuple[Any, ...]], decode: Any) -> tuple[tuple[Any, ...], ...]:
        return tuple(sorted((decode(r) for r in rows if all(c in number for c in _class_cells(r))), key=order_key))

    def _class_cells(row: tuple[Any, ...]) -> list[Any]:
        return [c for c in row if not isinstance(c, str | int | float)]

    def plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(c if isinstance(c, str | int | float) else number[c] for c in row)

    for name in (*CONDITIONS, "settled"):
        out[name] = known(decoder.rows(name), plain)
    out["level"] = known(decoder.rows("level"), lambda r: (number[r[0]], book.axes[r[1]], r[2]))
    out["united"] = known(decoder.rows("united"), plain)
    out["fuse"] = known(decoder.rows("fuse"), plain)
    offers = {f.by: f for r in rules for f in r.gives if isinstance(f, Offer)}

    def offered(row: tuple[Any, ...]) -> tuple[Any, ...]:
        found = offers[row[0]]
        values, axes = row[1 : 2 + len(found.reads)], row[2 + MOST_READS :][: len(found.bound)]
        bound = tuple((v.name, book.axes[a]) for v, a in zip(found.bound, axes, strict=True))
        return (found, tuple(number[c] for c in values), bound)

    out["outside"] = known(decoder.rows("outside"), offered)
    read = _Reader(decoder, number, book, rules)
    out["form"], out["summed"] = read.forms(), read.summed()
    for name, relation in RELATIONS.items():
        if relation.of_values:
            out[name] = read.rows(name, relation.columns)
    return out


@functools.lru_cache(maxsize=ENGINES_KEPT)
def _positions(rules: tuple[Rule, ...]) -> frozenset[tuple[str, int]]:
    """(relation, column): the columns that hold index expressions and not axes, as rules use them."""
    rows = [f for rule in rules for r in rule.instances for f in (*r.needs, *r.gives) if isinstance(f, Row)]
    return frozenset((f.relation.name, k) for f in rows for k, a in enumerate(f.args) if isinstance(a, IndexVar))


class _Reader:
    """Reads the rows of relations: classes and linear forms as numbers, axes and index expressions as such."""

    def __init__(self, decoder: Decoder, number: dict[Any, int], book: Codebook, rules: tuple[Rule, ...]) -> None:
        self.decoder, self.number, self.book = decoder, number, book
        self.nodes = [(name, row) for name in FORMS for row in decoder.table(name)]
        self.form = {f: k for k, f in enumerate(dict.fromkeys(row[-1] for _, row in self.nodes))}
        self.positions = _positions(rules)

    def forms(self) -> tuple[tuple[Any, ...], ...]:
        """(form, constructor, class or form, class or form)."""
        read = {"T": self.number.get, "L": self.form.get}
        out = []
        for name, (*cells, f) in self.nodes:
            args = tuple(read[s](c) for s, c in zip(FORMS[name], cells, strict=True))
            if None not in args:
                out.append((self.form[f], name, *args))
        return tuple(sorted(out, key=order_key))

    def summed(self) -> tuple[tuple[Any, ...], ...]:
        """(which value, its class if it has another form, axis, own body, form): a form summed over a prefix."""
        groups: dict[Any, int] = {}
        out = []
        for bit, own, f, cls in self.decoder.table("Summed"):
            if own in self.number and f in self.form:
                out.append((groups.setdefault(cls, len(groups)), self.number.get(cls), self.book.axes[bit], self.number[own], self.form[f]))
        return tuple(sorted(out, key=order_key))

    def rows(self, table: str, columns: tuple[str, ...], name: str = "") -> tuple[tuple[Any, ...], ...]:
        """The rows of a relation whose values all have a number; ``table`` may be one beside ``name`` with more columns."""
        read: list[Any] = []
        for k, sort in enumerate(columns):
            if sort == "i64":
                read.append(self.book.exprs.__getitem__ if (name or table, k) in self.positions else self.book.axes.get)
            else:
                read.append({"T": self.number.get, "L": self.form.get}.get(sort, lambda cell: cell))
        out = []
        for row in self.decoder.rows(table):
            cells = tuple(f(c) for f, c in zip(read, row, strict=False))
            if None not in cells:
                out.append((*cells, *row[len(cells) :]))
        return tuple(sorted(out, key=order_key))


def _claimed(decoder: Decoder, number: dict[Any, int], book: Codebook, rules: tuple[Rule, ...]) -> dict[str, tuple[tuple[Any, ...], ...]]:
    """``claimed``: (table, its cells, rule that first concluded the row); ``united-form``: (rule, form)."""
    read = _Reader(decoder, number, book, rules)
    claimed = tuple(
        (name, tuple(cells), rule) for name, columns in claimable().items() for *cells, rule in read.rows(f"by-{name}", columns, name)
    )
    return {"claimed": claimed, "united-form": tuple((r, read.form[f]) for r, f in decoder.rows("united-form") if f in read.form)}
