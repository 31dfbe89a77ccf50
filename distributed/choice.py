"""Which places: the cheapest program of a graph whose classes are (value, place).

A member of such a class computes the value by one of its forms, from arguments at places that need no communication (:mod:`.propagation`),
or moves the value from another place.  Then the cheapest selection with sharing (:mod:`eqfuse.extraction`, exact within its time) is the
placement of everything, the collectives, and which reductions are merged from parts.

What computing costs is a bound, as if each device fused everything: reading its parts of inputs at the bandwidth of memory, the
multiply-adds of matrix products at the rate of their type, all other operations at that of instructions.  Kernels are planned afterwards.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from ..egraph.frozen import ENode
from ..errors import GraphError, PlanError
from ..extract.rates import matrix_us, multiplied
from ..extract.targets import Target
from ..extraction import Graph, Member, choose
from ..ir import dtypes, ops
from ..ir.products import Operands
from ..ir.terms import Map
from .forms import Forms
from .mesh import PARTIAL, REPLICATED, Mesh, Move, Place, paths
from .propagation import ADDS, argument_places

DERIVED = 1e-6  # us that a form that rules made costs more: of equals, the program as written
SECONDS = 10.0
LEAST_SHARE = 0.3  # of the time that a choice has, for each further condition on it

Key = tuple[int, Place]  # a value at a place
Usable = Callable[[Key, "Made"], bool]


@dataclass(frozen=True)
class Made:
    """How a value comes to be at a place: computed by a member of its class from arguments, or moved from where it is computed."""

    member: int | None  # position among the members of the class
    sources: tuple[Key, ...]
    us: float
    moves: tuple[tuple[Place, Move], ...] = ()  # the places on the way, and the steps that lead there


@dataclass(frozen=True)
class Allowed:
    """Where inputs are, and where outputs may be; what is not named may be anywhere, but that no output stays partial."""

    inputs: Mapping[str, Collection[Place]] = field(default_factory=dict)
    outputs: Mapping[str, Collection[Place]] = field(default_factory=dict)


@dataclass(frozen=True)
class Chosen:
    """The values at their places in an order in which they can be made, how, and where outputs are.  A value may be computed at a place
    and, another time, moved there (``True``); who reads it there reads what was moved.  ``bound``: no choice takes less."""

    made: Mapping[tuple[Key, bool], Made]
    outputs: Mapping[str, Key]
    bound: float

    @property
    def us(self) -> float:
        """Modelled time."""
        return math.fsum(m.us for m in self.made.values())

    @property
    def moves(self) -> tuple[tuple[Key, Made], ...]:
        """What is moved, also where that sends nothing."""
        return tuple((key, m) for (key, moved), m in self.made.items() if moved)

    @property
    def moving_us(self) -> float:
        """The time of collectives."""
        return math.fsum(m.us for _, m in self.moves)


class Space:
    """The ways to make values at places.  ``exact``: sums of floats are added up in the order of the program, and so on one device."""

    def __init__(self, forms: Forms, mesh: Mesh, target: Target, *, exact: bool = False) -> None:
        self.forms, self.mesh, self.target, self.exact = forms, mesh, target, exact
        self.axes = forms.graph.axes
        self.inputs = {i.name: i for i in forms.program.inputs}

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """The classes that outputs may be made of, arguments before users where there is no cycle."""
        found: dict[int, None] = {}
        todo = list(self.forms.graph.roots.values())
        while todo:
            c = todo.pop()
            if c not in found:
                found[c] = None
                todo += [a for n in self.forms.members[c] for a in n.args]
        return tuple(found)

    @cached_property
    def required(self) -> tuple[int, ...]:
        """The classes without which there is no output, whatever is chosen."""
        every = frozenset(self.needed)
        found = dict.fromkeys(self.needed, every)
        changed = True
        while changed:
            changed = False
            for c in self.needed:
                ways = [frozenset().union(*(found[a] for a in n.args)) for n in self.forms.members[c]]
                now = frozenset.intersection(every, *ways) | {c}
                changed |= now != found[c]
                found[c] = now
        wanted = frozenset().union(*(found[c] for c in self.forms.graph.roots.values()))
        return tuple(c for c in self.needed if c in wanted)

    @cached_property
    def partial(self) -> frozenset[int]:
        """The classes that may be partial along some dimension of the mesh: found by the ways there are to make them."""
        found: set[int] = set()
        given = {c for c in self.needed for n in self.forms.members[c] if n.op == "input"}
        grown = True
        while grown:
            grown = False
            for c in self.needed:
                if c not in found and (c in given or any(self._partial(n, found) for n in self.forms.members[c])):
                    found.add(c)
                    grown = True
        return frozenset(found)

    def _partial(self, n: ENode, known: Collection[int]) -> bool:
        axes, numbers = [self.axes[a] for a in n.args], [self.forms.numbers[a] for a in n.args]
        for d in range(len(self.mesh.sizes)):
            place = tuple(PARTIAL if k == d else REPLICATED for k in range(len(self.mesh.sizes)))
            for found in argument_places(n, axes, numbers, place, self.mesh):
                if all(a in known or PARTIAL not in p for a, p in zip(n.args, found, strict=True)):
                    return True
        return False

    @cached_property
    def places(self) -> Mapping[int, list[Place]]:
        """The places of each class."""
        return {c: self.mesh.places(self.axes[c], c in self.partial) for c in self.needed}

    @cached_property
    def ways(self) -> Mapping[Key, tuple[Made, ...]]:
        """How values may be computed at places, by forms; inputs are where they are given."""
        found: dict[Key, tuple[Made, ...]] = {}
        for c in self.needed:
            for place in self.places[c]:
                here = []
                for k, n in enumerate(self.forms.members[c]):
                    axes, numbers = [self.axes[a] for a in n.args], [self.forms.numbers[a] for a in n.args]
                    for args in argument_places(n, axes, numbers, place, self.mesh) if n.op != "input" else ():
                        sources = tuple(zip(n.args, args, strict=True))
                        if all(p in self.places[a] for a, p in sources) and not (self.exact and self._reorders(n, place, args)):
                            here.append(Made(k, sources, self._us(c, k, args, place)))
                found[c, place] = tuple(here)
        return found

    @cached_property
    def moved(self) -> Mapping[Key, tuple[Made, ...]]:
        """How values may be moved to places from where they are computed: by the quickest steps."""
        found: dict[Key, list[Made]] = {}
        for c in self.needed:
            if c not in self.forms.products and self._stored(c):
                for place in self.places[c]:
                    for other, steps in paths(self.mesh, self.target, place, tuple(self.places[c]), self.whole_bytes(c)).items():
                        us = math.fsum(step.us for _, step in steps)
                        found.setdefault((c, other), []).append(Made(None, ((c, place),), us, steps))
        return {key: tuple(made) for key, made in found.items()}

    def _reorders(self, n: ENode, place: Place, args: Sequence[Place]) -> bool:
        """Whether a node leaves addends that are floats to be added up in another order."""
        here = (q == PARTIAL != p for p, q in zip(args[0], place, strict=True)) if n.op == "reduce" else ()
        return any(here) and self.forms.dtypes[n.args[0]].is_float

    def _stored(self, c: int) -> bool:
        """Whether a value is worth moving: what no device makes from nothing."""
        return not all(n.op in ("const", "extent", "index") for n in self.forms.members[c])

    def whole_bytes(self, c: int) -> int:
        """Bytes of a value, on however many devices it is."""
        return math.prod(a.size for a in self.axes[c]) * self.forms.dtypes[c].itemsize

    def _us(self, c: int, k: int, args: tuple[Place, ...], place: Place) -> float:
        """What a device takes to compute its part."""
        n = self.forms.members[c][k]
        rate = self.target.simt_gops * 1e3  # per microsecond
        derived = DERIVED * (n.rule is not None)
        elements = math.prod(a.size for a in self.axes[c]) * self.mesh.share(place)
        if n.op == "reduce":
            body = n.args[0]
            inside = math.prod(a.size for a in self.axes[body]) * self.mesh.share(args[0])
            if body not in self.forms.products:
                return derived + inside / rate
            factors = next((m for m in self.forms.members[body] if self.forms.is_product(m)), None)
            if factors is None:
                return derived  # its multiply-adds are counted where it is first summed up
            return derived + matrix_us(self._multiplied(body), inside, self.target)
        if n.op != "map" or (c in self.forms.products and n.scalar == "mul"):
            return derived + (DERIVED if n.op == "cast" else 0.0)
        op = ops.op(n.attrs[0])
        return derived + elements * (op.cost / rate + op.special / (self.target.special_gops * 1e3))

    def _multiplied(self, body: int) -> Operands:
        """How the operands of a product are multiplied; of one that a rule made, in its type."""
        term = self.forms.written.get(body)
        if isinstance(term, Map) and term.op == "mul":
            return multiplied(term, self.target)
        return Operands(self.forms.types[body] or dtypes.float32)

    def reading_us(self, name: str, place: Place) -> float:
        """What a device takes to read its part of an input."""
        i = self.inputs[name]
        return self.forms.program.input_bytes(i) * self.mesh.share(place) / (self.target.dram_gb_s * 1e3)

    def given(self, allowed: Allowed) -> dict[Key, Made]:
        """Inputs at their places."""
        found: dict[Key, Made] = {}
        for c in self.needed:
            for k, n in enumerate(self.forms.members[c]):
                if n.op == "input":
                    everywhere = [p for p in self.places[c] if PARTIAL not in p]
                    for place in allowed.inputs.get(n.attrs[0], everywhere):
                        found.setdefault((c, place), Made(k, (), self.reading_us(n.attrs[0], place)))
        return found

    def choose(self, allowed: Allowed, seconds: float = SECONDS, usable: Usable = lambda key, made: True) -> Chosen:
        """The cheapest way, among those to compute values that are ``usable``.  PlanError where an output cannot be where it should.

        A sum of floats is computed at one place only: kernels for two would add it up in two orders, and x - max x would be an error of
        x where it should be 0.  Where the cheapest way computes one at several, each of them alone is tried."""
        end = time.monotonic() + seconds
        found = self._cheapest(allowed, seconds, usable)
        while (twice := self._summed_twice(found)) is not None:
            ways = []
            for place in twice[1]:
                only = partial(_only, usable, twice[0], place)
                with suppress(PlanError):
                    left = max(end - time.monotonic(), LEAST_SHARE * seconds) / len(twice[1])
                    ways.append((self._cheapest(allowed, left, only), only))
            if not ways:
                return found  # every one of its places is needed
            best, usable = min(ways, key=lambda way: way[0].us)
            found = replace(best, bound=found.bound)
        return found

    def _summed_twice(self, chosen: Chosen) -> tuple[int, list[Place]] | None:
        """A sum of floats that is computed at several places."""
        found: dict[int, list[Place]] = {}
        for ((c, place), moved), m in chosen.made.items():
            n = None if moved or m.member is None else self.forms.members[c][m.member]
            sums = n is not None and n.op == "reduce" and n.attrs[0] in ADDS and self.forms.dtypes[n.args[0]].is_float
            if sums and c not in self.forms.products:  # those are where the sum of them is
                found.setdefault(c, []).append(place)
        return next(((c, places) for c, places in found.items() if len(places) > 1), None)

    def _cheapest(self, allowed: Allowed, seconds: float, usable: Usable) -> Chosen:
        """The cheapest way."""
        given = self.given(allowed)
        computed = {
            key: (*([given[key]] if key in given else []), *(m for m in self.ways[key] if usable(key, m))) for key in self.ways
        }  # fmt: skip
        keys = list(computed)
        here = {key: 2 * k for k, key in enumerate(keys)}  # where a value is computed; the next class: where it is read
        classes: list[list[Member]] = []
        for key in keys:
            classes.append([Member("", tuple(here[s] + 1 for s in m.sources), m.us) for m in computed[key]])
            classes.append([Member("", (here[key],), 0.0), *(Member("", (here[m.sources[0]],), m.us) for m in self.moved.get(key, ()))])
        roots = []
        for o in self.forms.program.outputs:
            c = self.forms.graph.roots[o.name]
            wanted = allowed.outputs.get(o.name, [p for p in self.places[c] if PARTIAL not in p])
            roots.append(len(classes))
            classes.append([Member("", (here[c, p] + 1,), 0.0) for p in wanted if (c, p) in here])
        for c in self.required:  # some place of each: a bound sees that halves of two places need more than a half below
            roots.append(len(classes))
            classes.append([Member("", (here[c, p],), 0.0) for p in self.places[c]])
        graph = _derivable(classes, roots)
        try:
            found = choose(graph, method="exact", time_limit=seconds)
        except GraphError as error:
            places = "; ".join(f"{n}: {' or '.join(map(self.mesh.text, ps))}" for n, ps in allowed.outputs.items())
            raise PlanError(
                f"{self.forms.program.name} has no placement on the mesh {self.mesh} with {places or 'these inputs'}",
                cure="other placements: Replicate() is always possible",
            ) from error
        steps: dict[tuple[Key, bool], Made] = {}
        for c in found.selection.order:
            if c < 2 * len(keys):
                key, k = keys[c // 2], found.selection.choice[c]
                if c % 2 == 0:
                    steps[key, False] = computed[key][k]
                elif k:
                    steps[key, True] = self.moved[key][k - 1]
        outputs = {}
        for o, r in zip(self.forms.program.outputs, roots, strict=False):
            outputs[o.name] = keys[found.selection.member(r).children[0] // 2]
        return Chosen(steps, outputs, found.bound)


def _only(before: Usable, c: int, place: Place, key: Key, made: Made) -> bool:
    """What is usable where a value is computed at one place only."""
    return before(key, made) and (key[0] != c or key[1] == place)


def _derivable(classes: list[list[Member]], roots: list[int]) -> Graph:
    """The graph without members that nothing can be made of."""
    users: dict[int, list[tuple[int, int]]] = {}
    waits: dict[tuple[int, int], int] = {}
    able: set[int] = set()
    todo: list[int] = []

    def made(c: int) -> None:
        if c not in able:
            able.add(c)
            todo.append(c)

    for c, row in enumerate(classes):
        for k, m in enumerate(row):
            waits[c, k] = len(set(m.children))
            for d in set(m.children):
                users.setdefault(d, []).append((c, k))
            if not m.children:
                made(c)
    while todo:
        for c, k in users.get(todo.pop(), ()):
            waits[c, k] -= 1
            if not waits[c, k]:
                made(c)
    kept = (
        tuple(Member(m.op, m.children, math.inf if waits[c, k] else m.cost) for k, m in enumerate(row)) for c, row in enumerate(classes)
    )
    return Graph(tuple(kept), tuple(roots))
