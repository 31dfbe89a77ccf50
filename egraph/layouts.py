"""Layouts in the engine: the rules on layouts (phase ``iters``) saturate a term, and the smallest form is read from its class.

The rounds, the budgets and the report are those of :mod:`.run`; only what is inserted and read out is another language
(:mod:`~eqfuse.ir.layout.terms`).  :func:`audit` enumerates: every node of a class is the same map, and every number that is known is true.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import GraphError, LayoutError, UnsoundGraphError
from ..extraction import Graph, Member, choose
from ..ir.layout import Layout
from ..ir.layout.iters import MEMORY, Iters, read_shape, strides
from ..ir.layout.terms import KINDS, WRITTEN, Places, Term, layout, meaning, origin, span, term
from ..rewrites import registry
from ..rewrites.patterns import number_text
from ..rewrites.rule import ITERS, Rule
from .encode import Decoder
from .engines import forget_engines
from .frozen import ENode, RuleCount, SaturationReport, member_text
from .run import running
from .schema import LAYOUTS

EXACT = 2**53  # whole numbers up to here are doubles


@dataclass(frozen=True)
class LayoutGraph:
    """A saturated term.  Class 0 is the term's own.  ``elements``: of classes; ``along``: ``span`` and ``origin`` -> class and axis ->
    number; ``united``: class -> the rules that found it equal to another form."""

    classes: tuple[tuple[ENode, ...], ...]
    report: SaturationReport
    elements: Mapping[int, int]
    along: Mapping[str, Mapping[tuple[int, str], int]]
    united: Mapping[int, tuple[str, ...]]


def saturate(
    of: Layout | Term,
    *,
    rules: Collection[Rule] | None = None,
    cuts: Sequence[int] = (),
    node_budget: int = 20_000,
    time_budget: float = 10.0,
) -> LayoutGraph:
    """Every form of a layout that the rules on layouts reach.  ``cuts``: after how many of the last elements somebody wants iters to end.

    Raises :class:`~eqfuse.errors.LayoutError` for numbers beyond 2^53.
    """
    whole = term(of) if isinstance(of, Layout) else of
    chosen = tuple(r for r in (registry.active("exact") if rules is None else rules) if r.phase == ITERS)
    lines, axes = _encoded(whole)
    lines += [f'(hardware "{a}")' for a in sorted(axes)] + [f"(cut $root {float(n)})" for n in cuts]
    found = _run(chosen, lines, node_budget, time_budget)
    if not _holds(found, 0, whole):
        forget_engines()  # see run.saturated: one that had popped was seen to lose a node
        found = _run(chosen, lines, node_budget, time_budget)
        assert _holds(found, 0, whole), f"the engine lost a node of {whole}"
    return found


def _run(chosen: tuple[Rule, ...], lines: Sequence[str], node_budget: int, time_budget: float) -> LayoutGraph:
    start = time.process_time()
    with running(chosen, node_budget, time_budget) as run:
        run.constructors = LAYOUTS
        for k in range(0, len(lines), 40):  # the engine's parser recurses
            run.engine.run_program(*run.engine.parse_program("\n".join(lines[k : k + 40])))
        run.phase(ITERS, (ITERS,), 1000)
        found = _read(Decoder(run.engine, run.book))
        spent = (time.process_time() - start) * 1e3
        counts = tuple(RuleCount(r.name, run.matches.get(r.name, 0)) for r in chosen)
        enodes = sum(map(len, found.classes))
        return replace(found, report=SaturationReport(run.stopped, enodes, len(found.classes), spent, tuple(run.phases), counts))


def _holds(graph: LayoutGraph, cls: int, t: Term) -> bool:
    """Whether a class has the node of a term, over classes that have those of its arguments."""
    return any(
        (n.op, n.attrs) == (t.kind, t.attrs) and all(_holds(graph, c, x) for c, x in zip(n.args, t.args, strict=True))
        for n in graph.classes[cls]
    )


def _encoded(whole: Term) -> tuple[list[str], set[str]]:
    """One binding per node, ``$root`` the last, and the axes that are named."""
    names: dict[Term, str] = {}
    lines: list[str] = []
    axes: set[str] = set()
    for t in _inside_out(whole):
        if t in names:
            continue
        cells = [f'"{v}"' if isinstance(v, str) else number_text(_exact(v, t)) for v in t.attrs]
        axes |= {v for v in t.attrs if isinstance(v, str)}
        names[t] = f"$p{len(names)}_"
        lines.append(f"(let {names[t]} ({' '.join([t.kind.capitalize(), *cells, *(names[x] for x in t.args)])}))")
    largest = _largest(whole)
    if largest > EXACT:
        raise LayoutError(f"a number of {whole.kind} may become {largest}, beyond 2^53", cure="a smaller layout: the engine keeps doubles")
    return [*lines, f"(let $root {names[whole]})"], axes


def _exact(v: int, t: Term) -> float:
    if abs(v) > EXACT:
        raise LayoutError(f"{v}, a number of {t.kind}, is beyond 2^53", cure="smaller numbers: the engine keeps doubles")
    return float(v)


def _inside_out(whole: Term) -> Iterator[Term]:
    stack = [(whole, False)]
    while stack:
        t, done = stack.pop()
        if done or not t.args:
            yield t
        else:
            stack.append((t, True))
            stack += [(x, False) for x in t.args]


def _largest(whole: Term) -> int:
    """A bound on the numbers that rules make: on elements, and on places of all axes together."""
    found: dict[Term, tuple[int, int, int]] = {}  # elements, span, farthest place
    for t in _inside_out(whole):
        (n, w, far), (m, v, near) = (*(found[x] for x in t.args), (1, 1, 0), (1, 1, 0))[:2]
        if t.kind in ("sharded", "copies"):
            e, s = t.attrs[0], abs(t.attrs[1])
            found[t] = (n * e, w + e * s, far + e * s)
        elif t.kind == "tile":
            found[t] = (n * m, w * v, far * v + near)
        else:
            found[t] = (n * m, w + v, far + near + (abs(t.attrs[0]) if t.kind == "offset" else 0))
    return max(found[whole])


def _read(decoder: Decoder) -> LayoutGraph:
    tables = {k: decoder.table(k.capitalize()) for k in KINDS}
    made = {(k, row[:-1]): row[-1] for k in KINDS for row in decoder.rows(f"why-{k.capitalize()}")}
    members: dict[Any, list[tuple[str, tuple[Any, ...], tuple[Any, ...], str | None]]] = {}
    for kind, rows in tables.items():
        attrs = len(KINDS[kind][0])
        for *cells, cls in rows:
            numbers = tuple(c if isinstance(c, str) else int(c) for c in cells[:attrs])
            members.setdefault(cls, []).append((kind, numbers, tuple(cells[attrs:]), made.get((kind, tuple(cells)))))
    number = {decoder.bindings()["$root"]: 0}
    queue = list(number)
    for cls in queue:  # grows while it is read
        for n in sorted(members[cls], key=lambda n: (n[3] is not None, n[0], n[1])):
            for x in n[2]:
                if x not in number:
                    number[x] = len(number)
                    queue.append(x)
    classes = []
    for c in queue:
        nodes = [ENode(k, a, tuple(number[x] for x in args), rule) for k, a, args, rule in members[c]]
        classes.append(tuple(sorted(nodes, key=lambda n: (n.rule is not None, n.op, n.attrs, n.args))))
    united: dict[int, tuple[str, ...]] = {}
    for rule, cls in sorted((r for r in decoder.rows("united-layout") if r[1] in number), key=lambda r: (number[r[1]], r[0])):
        united[number[cls]] = (*united.get(number[cls], ()), rule)
    return LayoutGraph(
        tuple(classes),
        SaturationReport("", 0, 0, 0.0),
        {number[c]: int(n) for c, n in decoder.rows("elements") if c in number},
        {name: {(number[c], a): int(n) for c, a, n in decoder.rows(name) if c in number} for name in ("span", "origin")},
        united,
    )


# reading a form ---------------------------------------------------------------------------------------------------------------------


def smallest(graph: LayoutGraph, cls: int = 0) -> Layout:
    """The layout with the fewest iters, copies and offsets in a class; LayoutError if the rules know no layout that is this map."""
    costs = tuple(tuple(Member(n.op, n.args, _cost(n)) for n in row) for row in graph.classes)
    try:
        found = choose(Graph(costs, (cls,)), method="tree").selection
    except GraphError as error:
        raise LayoutError("no rule says which layout this is", cure="a slice that begins and ends where iters do") from error
    built: dict[int, Term] = {}
    for c in found.order:
        n = graph.classes[c][found.choice[c]]
        built[c] = Term(n.op, n.attrs, tuple(built[x] for x in n.args))
    return layout(built[cls])


def _cost(n: ENode) -> float:
    """One for a node; copies that go backwards are more than copies and an offset, and standing on an axis more than on none."""
    if n.op not in WRITTEN:
        return math.inf
    return 1.0 + 2.0 * (n.op == "copies" and n.attrs[1] < 0) + 0.5 * (n.op == "sharded" and n.attrs[1] == 0 and n.attrs[2] != MEMORY)


def blocks(graph: LayoutGraph, shape: Sequence[int], cls: int = 0) -> tuple[Iters, ...]:
    """The iters of each dimension, of a class that was saturated with the cuts of the shape (:func:`cuts_of`); LayoutError if no form of it
    has iters that end where dimensions do."""
    found = []
    for cut in cuts_of(shape):
        parts = [n.args for n in graph.classes[cls] if n.op == "beside" and graph.elements.get(n.args[1]) == cut]
        if not parts:
            cure = "a shape whose dimensions end between iters, or at a divisor of one"
            raise LayoutError(f"no iters end {cut} elements before the last", cure=cure)
        block = min((smallest(graph, x) for x, _ in parts), key=lambda b: len(b.iters))
        found.append(block.iters)
        cls = parts[0][1]
    return (*found, smallest(graph, cls).iters)


def cuts_of(shape: Sequence[int]) -> tuple[int, ...]:
    """After how many of the last elements the dimensions of a shape end, but for the last of them."""
    return strides(read_shape(shape))[:-1]


# the audit --------------------------------------------------------------------------------------------------------------------------


def audit(graph: LayoutGraph) -> int:
    """How many places were compared: every node with its class, every number with the map.  Raises
    :class:`~eqfuse.errors.UnsoundGraphError` for nodes that differ, and numbers that are false; LayoutError for maps of more than 65536
    places."""
    known: dict[int, tuple[Places, ENode]] = {}
    changed = True
    while changed:
        changed = False
        for c, row in enumerate(graph.classes):
            for n in row if c not in known else ():
                if all(x in known for x in n.args):
                    known[c], changed = (meaning(n.op, n.attrs, [known[x][0] for x in n.args]), n), True
                    break
    compared = 0
    for c, row in enumerate(graph.classes):
        here, first = known[c]
        for n in row:
            try:
                there: Places | str = meaning(n.op, n.attrs, [known[x][0] for x in n.args])
            except LayoutError as error:
                there = error.message
            compared += sum(map(len, here))
            if there != here:
                what = there if isinstance(there, str) else _difference(here, there)
                rules = {r for r in (first.rule, n.rule, *graph.united.get(c, ())) if r}
                raise _unsound(f"class {c} has members {member_text(c, first)} and {member_text(c, n)} that differ: {what}", rules)
        numbers = {"elements": (graph.elements.get(c), len(here))}
        for name, measured in (("span", span), ("origin", origin)):
            numbers |= {f"the {name} on {a}": (n, measured(here, a)) for (x, a), n in graph.along[name].items() if x == c}
        for name, (said, true) in numbers.items():
            if said is not None and said != true:
                raise _unsound(f"{name} of class {c} is {true}, and said to be {said}", {r for n in row if (r := n.rule)})
    return compared


def _difference(here: Places, there: Places) -> str:
    if len(here) != len(there):
        return f"{len(here)} and {len(there)} elements"
    return next(f"{sorted(a)} and {sorted(b)}" for a, b in zip(here, there, strict=True) if a != b)


def _unsound(what: str, rules: Collection[str]) -> UnsoundGraphError:
    where = f"rules of these classes: {', '.join(sorted(rules)) or 'none'}"
    error = UnsoundGraphError(what, where=where, cure="check_rule() on the named rules")
    error.rules = tuple(sorted(rules))
    return error
