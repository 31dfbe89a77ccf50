"""What a forward pass saves for its backward pass: a minimum cut, in microseconds, of the program that computes both.

The backward pass needs values of the forward pass.  Each is there in one of two ways: saved, which takes writing and reading it, or made
again from values that are there.  With one node for "is there" and one for "is made again", for every value, the cheapest choice is a
minimum cut (project selection; Picard 1976): to be there without being made again costs saving, to be made again costs making it, and
needs the arguments to be there.  What is pointwise costs its arithmetic, next to nothing; a reduction costs its arithmetic or what it
reads, as if that were stored, and a product a launch.  So the statistics of rows are saved, for they are small beside what they are made
of, the products of wide layers are saved, since making them again takes longer, and scores of all pairs of positions are made again.  No
operation is known by its name.  Arguments are held by whoever passes them, and are only read, as results of the forward pass are.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from ..ir import dtypes, ops
from ..ir.dtypes import DType
from ..ir.program import Output, Program, Result
from ..ir.recursion import arguments_first
from ..ir.sampled import sample_of
from ..ir.terms import Cast, Const, Extent, Index, Input, Map, Reduce, Term, View, postorder
from .regions.partition import able, stored_names
from .regions.region import Natural
from .regions.work import Work, elements
from .targets import Target

HALVINGS = 20  # of the range in which the price of a held byte is looked for
EXACT = 10**9  # of a microsecond are prices whole numbers: of rounded sums a full edge is not known to be full, and the cut is another
FREE = (Input, Const, Extent, Index)
Node = tuple[Term, int] | str  # a value that is there (0), or made again (1)
START, END = "start", "end"


@dataclass(frozen=True)
class Saved:
    """A value of the forward pass that the backward pass reads: the output of one and the input of the other, in memory as ``dtype``.
    ``result``: whether the forward pass returns it in any case."""

    term: Term
    input: Input
    dtype: DType
    result: bool

    @property
    def bytes(self) -> int:
        """What holding it takes."""
        return elements(self.input.axes) * self.dtype.itemsize


@dataclass(frozen=True)
class Passes:
    """A forward and a backward program; ``us`` is what saving and making again were priced at.  A program without outputs computes
    nothing: what it returns are inputs or numbers."""

    forward: Program
    backward: Program
    saved: tuple[Saved, ...]
    us: float

    @property
    def held(self) -> int:
        """Bytes held between the passes beside arguments and results."""
        return sum(s.bytes for s in self.saved if not s.result)


def parted(
    program: Program, tangents: Collection[str], returned: Collection[str], wanted: Collection[str], target: Target,
    limit: float | None = None,
) -> Passes:  # fmt: skip
    """The two passes of a program.  ``tangents``: its inputs that only the backward pass has; what depends on them belongs to it.
    ``returned`` and ``wanted``: the names of the outputs of each pass.

    ``limit``: bytes that may be held in between at most, for which a byte gets a price that is as low as it may be.
    """
    cut = _Cut(program, tangents, returned, wanted, target)
    found = cut.passes(0.0)
    if limit is None or found.held <= limit:
        return found
    low, high = 0.0, 1.0
    while (found := cut.passes(high)).held > limit:  # it ends: all can be made again from arguments
        low, high = high, high * 8.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        other = cut.passes(middle)
        if other.held > limit:
            low = middle
        else:
            high, found = middle, other
    return found


def chosen_terms(
    program: Program, tangents: Collection[str], returned: Collection[str], wanted: Collection[str], target: Target,
    savable: Collection[Term],
) -> list[Term]:  # fmt: skip
    """The values that :func:`parted` would save if no others than ``savable`` could be."""
    return _Cut(program, tangents, returned, wanted, target, savable).chosen(0.0)[0]


class _Cut:
    """The prices, and cuts by them."""

    def __init__(
        self, program: Program, tangents: Collection[str], returned: Collection[str], wanted: Collection[str], target: Target,
        savable: Collection[Term] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.target, self.savable = program, target, savable
        self.work = Work(program, target)
        self.returned = [o for o in program.outputs if o.name in returned]
        self.wanted = [o for o in program.outputs if o.name in wanted]
        self.late: set[Term] = set()
        for t in self.work.terms:
            if (isinstance(t, Input) and t.name in tangents) or any(a in self.late for a in t.args):
                self.late.add(t)

    def kept(self, t: Term) -> DType:
        """The type in which a value is saved: its own, but float32 for what kernels have in float32 and nobody wrote as a tensor."""
        assert t.dtype is not None
        narrow = t.dtype.is_float and t.dtype.itemsize < 4 and (t in self.program.widened or t in self.statistics)
        return dtypes.float32 if narrow else t.dtype

    @cached_property
    def statistics(self) -> frozenset[Term]:
        """Values of rows: reductions that are no products, and what is made of such at no more positions."""
        found: set[Term] = set()
        for t in self.work.terms:
            pointwise = isinstance(t, Map | Cast | View) and any(a in found and a.axes == t.axes for a in t.args)
            if pointwise or (t in self.work.nests and not self.work.nests[t].product):
                found.add(t)
        return frozenset(found)

    def size(self, t: Term) -> int:
        """Bytes of a value that is saved."""
        return elements(t.axes) * self.kept(t).itemsize

    @cached_property
    def results(self) -> dict[Term, Output]:
        """What the forward pass returns with all its digits, and each element once."""
        whole = (o for o in self.returned if able(o.term) and frozenset(a for a in o.layout if a is not None) == o.term.axes)
        return {o.term: o for o in whole if o.dtype is self.kept(o.term)}

    @cached_property
    def needed(self) -> list[Term]:
        """What the backward pass needs of the forward pass."""
        found = {a: None for t in postorder(*(o.term for o in self.wanted)) if t in self.late for a in t.args if a not in self.late}
        return [*found, *(o.term for o in self.wanted if o.term not in self.late)]

    @cached_property
    def again(self) -> dict[Term, float]:
        """What making each value again takes, from its arguments."""
        found = {}
        hidden = {x for n in self.work.nests.values() for x in n.inner} | {n.body for n in self.work.nests.values() if n.product}
        for t in self.work.terms:
            if t in self.work.nests:
                nest = self.work.nests[t]
                found[t] = self.work.us(nest, frozenset()) + (self.target.launch_us if nest.product else 0.0)
            elif isinstance(t, Map) and t not in hidden:
                found[t] = elements(t.axes) * ops.OPS[t.op].cost / (self.target.simt_gops * 1e3)
            else:
                found[t] = 0.0
        return found

    def saving(self, t: Term, byte_us: float) -> float:
        """What saving a value takes: writing and reading it, and ``byte_us`` for each byte that is held."""
        if t in self.results:
            return self.work.move_us(self.size(t))
        return self.work.move_us(2 * self.size(t)) + byte_us * self.size(t)

    def chosen(self, byte_us: float) -> tuple[list[Term], float]:
        """The cheapest values to save, and what this and making others again takes."""
        import networkx as nx
        from networkx.algorithms.flow import shortest_augmenting_path

        graph = nx.DiGraph()
        todo, seen = [t for t in self.needed if not isinstance(t, FREE)], dict[Term, None]()
        read: set[Input] = set()
        graph.add_nodes_from((START, END))
        for t in todo:
            graph.add_edge(START, (t, 0))
        while todo:
            t = todo.pop()
            if t in seen:
                continue
            seen[t] = None
            if (t in self.results or able(t)) and (self.savable is None or t in self.savable):
                graph.add_edge((t, 0), (t, 1), capacity=round(self.saving(t, byte_us) * EXACT))
            else:
                graph.add_edge((t, 0), (t, 1))
            graph.add_edge((t, 1), END, capacity=round(self.again[t] * EXACT))
            for a in t.args:
                if isinstance(a, Input):
                    graph.add_edge((t, 1), (a, 0))
                    read.add(a)
                elif not isinstance(a, FREE):
                    graph.add_edge((t, 1), (a, 0))
                    todo.append(a)
        for i in read - set(self.needed):  # what the backward pass does not read in any case
            graph.add_edge((i, 0), END, capacity=round(self.work.move_us(self.program.input_bytes(i)) * EXACT))
        us, (there, _) = nx.minimum_cut(graph, START, END, flow_func=shortest_augmenting_path)
        return [t for t in self.work.terms if t in seen and (t, 0) in there and (t, 1) not in there], us / EXACT

    def passes(self, byte_us: float) -> Passes:
        """The programs of both passes if a byte that is held costs so much."""
        terms, us = self.chosen(byte_us)
        program, natural = self.program, Natural()
        numbers = {t: k for k, t in enumerate(self.work.terms)}
        names = stored_names(program, [numbers[t] for t in terms])
        saved, made = [], []
        for t in terms:
            known = self.results.get(t)
            if known is None:
                known = Output(names[numbers[t]], t, natural.order(t), self.kept(t))
                made.append(known)
            saved.append(Saved(t, Input(known.name, known.layout, t.dtype), known.dtype, known not in made))
        forward = self.program_of("forward", [*self.returned, *made], {})
        backward = self.program_of("backward", self.wanted, {s.term: s.input for s in saved})
        wide = {s.input for s in saved if s.dtype is not s.input.dtype and s.input in backward.inputs}
        return Passes(forward, replace(backward, widened=backward.widened | wide), tuple(saved), us)

    def program_of(self, name: str, outputs: list[Output], given: dict[Term, Input]) -> Program:
        """The program of some outputs, in which some values are inputs."""
        whole = self.program
        now: dict[Term, Term] = {}

        for t in arguments_first([o.term for o in outputs], lambda t: () if t in given else t.args):
            now[t] = given[t] if t in given else t.over([now[a] for a in t.args])
        inputs = [i for i in whole.inputs if i in now] + [i for t, i in given.items() if t in now]
        results = tuple(dict.fromkeys(
            next((r for r in whole.results if o.name in r.outputs), Result(o.name, (o.name,), ((1,) * len(o.layout),))) for o in outputs
        ))  # fmt: skip
        samples = {i.name: whole.samples.get(i.name) for i in inputs}
        for t, i in given.items():  # what is computed from lengths and offsets
            if i in inputs and i.dtype.kind == "int":
                samples[i.name] = sample_of(t, tuple(a for a in i.layout if a is not None), whole.samples)
        plain = not whole.results and any(isinstance(now[o.term], Map | Cast | Reduce | View) for o in outputs)
        return replace(
            whole,
            name=f"{whole.name}_{name}",
            outputs=tuple(replace(o, term=now[o.term]) for o in outputs),
            inputs=tuple(inputs),
            sources={now[t]: text for t, text in whole.sources.items() if t in now},
            names={n: kept for n, ts in whole.names.items() if (kept := tuple(now[t] for t in ts if t in now))},
            widened=frozenset(now[t] for t in whole.widened if t in now and t not in given),
            results=() if plain else results,
            strides={i.name: whole.strides[i.name] for i in inputs if i.name in whole.strides},
            samples={name: sample for name, sample in samples.items() if sample is not None},
        )
