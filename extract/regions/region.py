"""The program of a region: what makes some stored values from others, with axes and tensors of its own.

It is put so that equal regions become equal programs (:mod:`eqfuse.ir.fingerprint`): axes and tensors are numbered in the order in which
they are met, nothing is read under another name that can be computed under it (:mod:`.aligned`), dimensions of size 1 are left to the
caller, and axes that always come one right after the other are one axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from ...ir import dtypes, nodes
from ...ir.dtypes import DType
from ...ir.fingerprint import fingerprint
from ...ir.index import Axis, IndexExpr, index
from ...ir.program import Output, Program, Result
from ...ir.recursion import arguments_first
from ...ir.sampled import sample_of
from ...ir.samples import Sample
from ...ir.strides import Strides
from ...ir.terms import Const, Extent, Gather, Index, Input, Map, Scan, Term, View, number_of
from .aligned import aligned
from .merging import merged
from .partition import MOST_AXES, Partition


@dataclass(frozen=True, eq=False)
class Region:
    """``program`` makes the tensors ``makes`` of the whole program from its tensors ``reads``, whose shapes may differ from those of the
    region's own by dimensions of size 1, and by neighbours that are one there."""

    program: Program
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    values: Mapping[Term, Term] = field(repr=False)  # of terms of the whole program, what they are here
    whole: Mapping[Term, int] = field(repr=False)  # the numbers of the terms of the whole program
    fusion: tuple[tuple[str, str, str], ...] = ()  # what a user asks of its values, by the names that they have here

    @cached_property
    def key(self) -> str:
        """The same for regions that one plan serves."""
        return "\n".join((fingerprint(self.program), *map(repr, self.fusion)))

    def makes_value(self, t: Term) -> bool:
        """Whether a value of the whole program is computed here."""
        here = self.values.get(t)
        return here in self._numbers and not isinstance(here, Input)

    def program_like(self, model: Program) -> Program:
        """The program with the names that axes and tensors have in an equal one, or in one of other sizes.  Its own name it keeps: where
        regions that are equal there are not equal here, their kernels are different ones."""
        axes = {a.rank: a.name for a in model.every_axis}
        tensors = dict(zip((i.name for i in self.program.inputs), (i.name for i in model.inputs), strict=True))
        now: dict[Term, Term] = {}

        def axis(a: Axis) -> Axis:
            return replace(a, name=axes.get(a.rank, a.name))

        def layout(dims: tuple[Axis | None, ...]) -> tuple[Axis | None, ...]:
            return tuple(a if a is None else axis(a) for a in dims)

        for t in self.program.terms():
            if isinstance(t, Input):
                now[t] = Input(tensors[t.name], layout(t.layout), t.dtype)
            else:
                now[t] = t.over((now[x] for x in t.args), lambda x: nodes.renamed(x, axis))
        pairs = zip(self.program.outputs, model.outputs, strict=True)
        outputs = tuple(replace(o, name=m.name, term=now[o.term], layout=layout(o.layout)) for o, m in pairs)
        inputs = tuple(Input(tensors[i.name], layout(i.layout), i.dtype) for i in self.program.inputs)
        return replace(
            self.program, outputs=outputs, inputs=inputs, results=model.results,
            names={n: tuple(now[t] for t in ts) for n, ts in self.program.names.items()},
            sources={now[t]: text for t, text in self.program.sources.items()}, widened=frozenset(now[t] for t in self.program.widened),
            strides={tensors[name]: strides for name, strides in self.program.strides.items()},
            samples={tensors[name]: sample for name, sample in self.program.samples.items()},
        )  # fmt: skip

    def number(self, t: Term) -> int | None:
        """Which of the terms of its program a term of the whole one is: the same in every equal region."""
        return self._numbers.get(self.values[t]) if t in self.values else None

    @cached_property
    def _numbers(self) -> dict[Term, int]:
        return {t: k for k, t in enumerate(self.program.terms())}


def regions(partition: Partition) -> list[Region]:
    """The regions of a program, in an order in which they can run."""
    program = partition.program
    terms = program.terms()
    stored = _stored(partition)
    numbers = {t: k for k, t in enumerate(terms)}
    return [_region(program, numbers, stored, [terms[k] for k in group]) for group in partition.groups]


def _region(whole: Program, numbers: Mapping[Term, int], stored: Mapping[Term, tuple[Output, ...]], roots: Sequence[Term]) -> Region:
    own = {i.name for i in whole.inputs}
    first = _Builder(whole, stored, roots)
    apart = first.program(f"{whole.name}_{next(o.name for t in roots for o in stored[t])}")
    program, now = apart, {t: t for t in apart.terms()}
    for way in (aligned, partial(merged, own=own), aligned):  # neighbours that were merged may be called as others are
        found, new = way(program)
        if len(found.every_axis) > max(MOST_AXES, len(program.every_axis)):
            continue  # what many tensors are read at would be an axis of each
        program = found
        now = {t: new[x] for t, x in now.items() if x in new}
    terms = [*dict.fromkeys(o.term for o in program.outputs)]
    second = _Builder(program, {t: tuple(o for o in program.outputs if o.term is t) for t in terms}, terms)
    program = second.program(program.name)  # an index that became an axis by merging is one now
    program.check()
    values = {t: second.made[now[x]] for t, x in first.made.items() if x in now and now[x] in second.made}
    return Region(program, tuple(i.name for i in program.inputs), tuple(o.name for o in program.outputs), values, numbers)


def _stored(partition: Partition) -> dict[Term, tuple[Output, ...]]:
    """What is made of every stored value: results, or a tensor that no user sees, whose dimensions are in the order torch would give."""
    program = partition.program
    found: dict[Term, tuple[Output, ...]] = {}
    natural = Natural()
    read = {a for u in program.terms() for a in u.args}
    kept = partition.stored
    for k, t in enumerate(program.terms()):
        if t not in kept:
            continue
        results = tuple(o for o in program.outputs if o.term is t)
        dtype = None if t.dtype is None else _kept(program, t)
        if dtype is not None and not any(o.dtype == dtype for o in results) and (not results or t in read):
            results = (*results, Output(partition.names[k], t, natural.order(t), dtype))
        found[t] = results
    return found


def _kept(program: Program, t: Term) -> DType:
    """The type in which a value is kept between regions."""
    assert t.dtype is not None
    return dtypes.float32 if t in program.widened else t.dtype


class Natural:
    """The order of dimensions that torch would give a value: those of its first operand, then those of the others."""

    def __init__(self) -> None:
        self.known: dict[Term, tuple[Axis, ...]] = {}

    def order(self, root: Term) -> tuple[Axis, ...]:
        """The axes of a value, outermost first."""
        stack = [root]
        while stack:
            t = stack[-1]
            below = [a for a in t.args if a not in self.known]
            if t not in self.known and below:
                stack += below
                continue
            stack.pop()
            if t not in self.known:
                self.known[t] = tuple(a for a in dict.fromkeys(self._met(t)) if a in t.axes)
        return self.known[root]

    def _met(self, t: Term) -> Iterable[Axis]:
        if isinstance(t, Input):
            return [a for a in t.layout if a is not None]
        if isinstance(t, Index):
            return [t.axis]
        if isinstance(t, View):
            return [b for a in self.known[t.args[0]] for b in (_by_stride(t.index) if a == t.axis else [a])]
        if isinstance(t, Gather):
            x, at = (self.known[a] for a in t.args)
            return [*(b for a in x for b in (at if a == t.axis else [a])), *at]
        if isinstance(t, Scan):
            return [*self.known[t.args[0]], t.axis]
        args = t.args if isinstance(t, Map) and t.op == "mul" else sorted(t.args, key=lambda a: -len(a.axes))
        return [a for x in args for a in self.known[x]]


def _by_stride(e: IndexExpr) -> list[Axis]:
    """The axes of an index, those with the largest steps first."""
    found: list[Axis] = []
    for atom, _ in sorted(e.terms, key=lambda part: -abs(part[1])):
        found += [atom] if isinstance(atom, Axis) else _by_stride(atom.numerator)
    return found


class _Builder:
    """The program of one region, from its values down to what is stored."""

    def __init__(self, whole: Program, stored: Mapping[Term, tuple[Output, ...]], roots: Sequence[Term]) -> None:
        self.whole, self.stored, self.roots = whole, stored, roots
        self.axes: dict[Axis, Axis] = {}
        self.names: set[str] = set()
        self.inputs: dict[Term, Input] = {}
        self.made: dict[Term, Term] = {}  # of terms of the whole program

    def program(self, name: str) -> Program:
        """All of it; the tensors that it reads have the names that they have in the whole program."""
        outputs: list[Output] = []
        for t in self.cone():
            self.made[t] = self.term(t)
        for t in self.roots:
            term = self.made[t]
            outputs += [replace(o, term=term, layout=tuple(self.axis(a) for a in o.layout if a is not None)) for o in self.stored[t]]
        whole, made = self.whole, self.made  # what it says of terms is looked up by term: it has many regions
        sources = {new: whole.sources[t] for t, new in made.items() if t in whole.sources}
        called = sorted({name for t in made for name in whole.names_of.get(t, ())})
        names = {name: tuple(made[t] for t in whole.names[name] if t in made) for _, name in called}
        widened = frozenset(new for t, new in made.items() if t in whole.widened)
        # what the whole program returns as it is, or puts beside other values
        copies = all(isinstance(o.term, Input) or number_of(o.term) is not None for o in outputs)
        results = tuple(Result(o.name, (o.name,), ((),)) for o in outputs) if copies else ()
        inputs = tuple(self.inputs.values())
        strides = {i.name: self.strides(i) for i in self.inputs if isinstance(i, Input) and i.name in self.whole.strides}
        return Program(name, tuple(outputs), inputs, sources, names, widened, results, strides, self.samples())

    def samples(self) -> dict[str, Sample]:
        """Of the integers that are read: those of the whole program, and what other regions compute from these."""
        if not self.whole.samples:
            return {}
        integers = [(t, i, tuple(a for a in i.layout if a is not None)) for t, i in self.inputs.items() if i.dtype.kind == "int"]
        here = {new: old for old, new in self.axes.items()}
        found = {i.name: sample_of(t, tuple(here[a] for a in layout), self.whole.samples) for t, i, layout in integers}
        return {name: sample for name, sample in found.items() if sample is not None}

    def strides(self, i: Input) -> Strides:
        """Of an input of the whole program, without its dimensions of size 1."""
        return tuple(s for a, s in zip(i.layout, self.whole.strides[i.name], strict=True) if a is not None)

    def cone(self) -> list[Term]:
        """What is computed here, and what it is made of."""
        return arguments_first(self.roots, lambda t: () if t in self.stored and t not in self.roots else t.args)

    def axis(self, a: Axis) -> Axis:
        """The region's own axis for one of the whole program."""
        if a not in self.axes:
            name = a.name.partition("'")[0]
            while name in self.names:
                name += "_"
            self.names.add(name)
            self.axes[a] = Axis(name, a.size, len(self.axes) + 1)
        return self.axes[a]

    def index(self, e: IndexExpr) -> IndexExpr:
        """An index expression of the region; axes are met from the largest step to the smallest."""
        now = {a: self.axis(a) for a in _by_stride(e)}
        return e.substitute({a: index(b) for a, b in now.items()})

    def term(self, t: Term) -> Term:
        """A value of the whole program here, once its arguments are."""
        if isinstance(t, Input):
            return self.leaf(t, t)
        if t in self.stored and t not in self.roots and not isinstance(t, Const | Index | Extent):
            dtype = _kept(self.whole, t)
            return self.leaf(t, next(o for o in self.stored[t] if o.dtype == dtype))
        args = [self.made[x] for x in t.args]
        if isinstance(t, View):
            return View(args[0], self.axis(t.axis), self.index(t.index))
        return t.over(args, lambda x: nodes.renamed(x, self.axis))

    def leaf(self, t: Term, tensor: Input | Output) -> Term:
        """A tensor that the region reads."""
        here = tuple(self.axis(a) for a in tensor.layout if a is not None)
        return self.inputs.setdefault(t, Input(tensor.name, here, tensor.dtype))
