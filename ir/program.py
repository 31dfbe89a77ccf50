"""A program: named outputs over named inputs.  What a front end produces and the rest of EqFuse consumes.

:class:`Program` can also be written by hand; :mod:`eqfuse.ir.build` has the functions for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from typing import Any

from ..errors import ShapeError, expect
from .dtypes import DType, float32
from .index import Axis
from .printing import axes_text, expression
from .samples import Sample
from .strides import Strides, footprint
from .terms import Const, Extent, Gather, Input, Reduce, Scan, Term, View, postorder


@dataclass(frozen=True)
class Output:
    """A result: its term, the order of its dimensions (``None`` is a dimension of size 1) and its element type."""

    name: str
    term: Term
    layout: tuple[Axis | None, ...]
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(1 if a is None else a.size for a in self.layout)


@dataclass(frozen=True)
class Result:
    """What the user's function returns where it is not an output as it is: outputs side by side along a dimension, each of which may list
    a dimension of the result by several of its own.  ``merges`` says by how many, for every output and every dimension of the result."""

    name: str
    outputs: tuple[str, ...]
    merges: tuple[tuple[int, ...], ...]
    along: int = 0

    def flat(self, part: int, shape: Sequence[Any], product: Callable[[Sequence[Any]], Any] = math.prod) -> tuple[Any, ...]:
        """The lengths that an output of some shape has among the dimensions of the result."""
        rest = iter(shape)
        return tuple(product([next(rest) for _ in range(n)]) for n in self.merges[part])


def _described(i: Input) -> str:
    """``[i, j] float32``."""
    return f"[{', '.join('1' if a is None else a.name for a in i.layout)}] {i.dtype.name}"


@dataclass(frozen=True)
class Program:
    """Outputs as terms.

    ``sources`` maps terms to the user's line that made them, and ``names`` what the user calls values to their terms, in order of
    execution (a name that is assigned twice has two).  Both are for messages and questions; they carry no meaning.
    ``widened``: values of 16-bit type that are kept in float32 between kernels, since nobody wrote them and their type may not hold them;
    inputs among them are tensors of float32.
    ``strides``: how inputs lie in memory, by name; the others without gaps (:mod:`.strides`).  They change what a plan costs alone,
    as ``samples`` do: what integers inputs have that lengths and offsets may be, by name (:mod:`.samples`).
    """

    name: str
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...]  # in argument order, unused ones included
    sources: Mapping[Term, str] = field(default_factory=dict, compare=False, repr=False)
    names: Mapping[str, tuple[Term, ...]] = field(default_factory=dict, compare=False, repr=False)
    widened: frozenset[Term] = field(default=frozenset(), compare=False, repr=False)
    results: tuple[Result, ...] = ()  # what the outputs are arranged to, in order; none if each is a result
    strides: Mapping[str, Strides] = field(default_factory=dict, compare=False, repr=False)
    samples: Mapping[str, Sample] = field(default_factory=dict, compare=False, repr=False)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Those of the tensors that it takes."""
        return tuple(i.name for i in self.inputs)

    @property
    def result_names(self) -> tuple[str, ...]:
        """Those of the tensors that it returns."""
        return tuple(r.name for r in self.results or self.outputs)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis, in a stable order: inputs first, then as they appear."""
        found: dict[Axis, None] = {}
        for i in self.inputs:
            found.update((a, None) for a in i.layout if a is not None)
        for o in self.outputs:
            found.update((a, None) for a in o.layout if a is not None)
        for t in self.terms():
            found.update((a, None) for a in sorted(t.axes))
        return tuple(found)

    @property
    def every_axis(self) -> tuple[Axis, ...]:
        """:attr:`axes`, and those that only reductions, views and lengths mention, of values that do not depend on them."""
        found = dict.fromkeys(self.axes)
        for t in self.terms():
            if isinstance(t, Reduce | Scan | View | Gather | Extent):
                found.setdefault(t.axis)
            if isinstance(t, View):
                found.update((a, None) for a in sorted(t.index.axes()))
        return tuple(found)

    def temporary(self, k: int) -> str:
        """What the k-th term is called where it is kept in memory and is no input or result."""
        return self.unused(f"t{k}")

    def unused(self, name: str) -> str:
        """The name, or one that begins with it: no input, output or result is called so."""
        while name in self._tensors:
            name += "_"
        return name

    @cached_property
    def _tensors(self) -> frozenset[str]:
        return frozenset(t.name for t in (*self.inputs, *self.outputs, *self.results))  # type: ignore[attr-defined]

    def terms(self) -> list[Term]:
        """All terms, arguments before users."""
        return list(self._terms)

    @cached_property
    def _terms(self) -> tuple[Term, ...]:
        return tuple(postorder(*(o.term for o in self.outputs)))

    def over(self, new: Mapping[Term, Term]) -> Program:
        """The program with other terms in the places of its own."""
        return replace(
            self,
            outputs=tuple(replace(o, term=new[o.term]) for o in self.outputs),
            sources={new[t]: text for t, text in self.sources.items() if t in new},
            names={n: tuple(new[t] for t in ts if t in new) for n, ts in self.names.items()},
            widened=frozenset(new[t] for t in self.widened if t in new),
        )

    def check(self) -> None:
        """Raise ShapeError where the axes, inputs or outputs do not fit together.  Front ends make programs that do.

        An axis has one size, an input one layout and type and a place in ``inputs``, an output every axis of its value once, and no two
        tensors have one name, those among them of which outputs are parts.
        """

        def refuse(message: str, cure: str) -> ShapeError:
            return ShapeError(message, where=self.name, cure=cure)

        def listed(values: object, kind: type) -> bool:
            return isinstance(values, tuple) and all(isinstance(v, kind) for v in values)

        expect(isinstance(self.name, str), "the name of a program", self.name, "a text", ShapeError)
        expect(listed(self.outputs, Output), f"outputs of {self.name}", self.outputs, "a tuple of Output", ShapeError)
        expect(listed(self.inputs, Input), f"inputs of {self.name}", self.inputs, "a tuple of Input terms", ShapeError)
        for what, mapping in (("sources", self.sources), ("names", self.names)):
            expect(isinstance(mapping, Mapping), f"{what} of {self.name}", mapping, "a dict, or nothing", ShapeError)
        sizes: dict[str, int] = {}
        for a in self.every_axis:
            if sizes.setdefault(a.name, a.size) != a.size:
                raise refuse(f"axis {a.name!r} has the sizes {sizes[a.name]} and {a.size}", "give axes of different sizes different names")
        inputs: dict[str, Input] = {}
        for i in (*self.inputs, *(t for t in self.terms() if isinstance(t, Input))):
            known = inputs.setdefault(i.name, i)
            if known is not i:
                both = f"{_described(known)} and {_described(i)}"
                raise refuse(f"input {i.name!r} is both {both}", "give them two names, or read one of them through view()")
        for name in inputs:
            if sum(i.name == name for i in self.inputs) != 1:
                raise refuse(f"input {name!r} is not listed once in the program's inputs", "list every input once")
        names: set[str] = set(inputs)
        for o in self.outputs:
            if o.name in names:
                raise refuse(f"two tensors are called {o.name!r}", "give every input and output a name of its own")
            names.add(o.name)
            axes = [a for a in o.layout if a is not None]
            if missing := sorted(o.term.axes - set(axes)):
                lacking = ", ".join(a.name for a in missing)
                raise refuse(f"the layout of output {o.name!r} lacks the axes {lacking} of its value", "add them, or reduce over them")
            if len(set(axes)) < len(axes):
                raise refuse(f"the layout of output {o.name!r} has an axis twice", "name the two dimensions differently")
        for r in self.results:
            if r.name in names and r.outputs != (r.name,):
                raise refuse(f"two tensors are called {r.name!r}", "give every result a name of its own")
            names.add(r.name)

    def kept(self, i: Input) -> DType:
        """The type in which memory has an input."""
        return float32 if i in self.widened else i.dtype

    def input_bytes(self, i: Input) -> int:
        """Bytes that memory moves for an input: what it repeats once, and what lies in gaps of less than a sector."""
        return footprint(i.shape, self.strides.get(i.name), self.kept(i).itemsize)[1]

    def unit(self, output: str) -> int:
        """How many elements surely divide where the rows of an output start in the result that it is a part of; 0 for any number."""
        shapes = {o.name: o.shape for o in self.outputs}
        for r in self.results:
            if output in r.outputs and len(r.outputs) > 1:
                part = r.outputs.index(output)
                if math.prod(r.flat(part, shapes[output])[r.along + 1 :]) == 1:
                    widths = [r.flat(k, shapes[name])[r.along] for k, name in enumerate(r.outputs)]
                    return math.gcd(sum(widths), sum(widths[:part]))
        return 0

    def named(self, **values: Term) -> Program:
        """The same program with names for some of its values, to ask ``explain()`` about; an unknown term is a ValueError."""
        terms = set(self.terms())
        strange = [n for n, t in values.items() if t not in terms]
        if strange:
            raise ValueError(f"{self.name} does not compute {', '.join(strange)}")
        return replace(self, names={**self.names, **{n: (t,) for n, t in values.items()}})

    @cached_property
    def names_of(self) -> Mapping[Term, tuple[tuple[int, str], ...]]:
        """What the user calls each value, with the places of the names among :attr:`names`."""
        found: dict[Term, tuple[tuple[int, str], ...]] = {}
        for k, (name, terms) in enumerate(self.names.items()):
            for t in terms:
                found[t] = (*found.get(t, ()), (k, name))
        return found

    @cached_property
    def labels(self) -> Mapping[Term, str]:
        """What values are called where the program is printed."""
        outputs = {o.term: o.name for o in self.outputs}
        found: dict[Term, str] = {i: i.name for i in self.inputs}
        for t in self.terms():
            if not isinstance(t, Input | Const):
                found[t] = outputs.get(t) or f"t{len(found)}"
        return found

    def __str__(self) -> str:
        """One line per value, outputs last."""
        lines = [f"{self.name}: " + ", ".join(f"{a.name}={a.size}" for a in self.axes)]
        for i in self.inputs:
            dims = ", ".join("1" if a is None else a.name for a in i.layout)
            lines.append(f"  {i.name}[{dims}] : {self.kept(i).name}" + (f" at strides {at}" if (at := self.strides.get(i.name)) else ""))
        name = self.labels
        lines += [f"  {name[t]}{axes_text(t)} = {expression(t, name)}" for t in self.terms() if not isinstance(t, Input | Const)]
        for o in self.outputs:
            lines.append(f"  return {o.name}[{', '.join('1' if a is None else a.name for a in o.layout)}] : {o.dtype.name}")
        return "\n".join(lines)


class NewAxes:
    """Makes axes that a program does not have, each another one."""

    def __init__(self, program: Program) -> None:
        self._taken = {a.name for a in program.every_axis}
        self._rank = max((a.rank for a in program.every_axis), default=0)

    def __call__(self, like: Axis, name: str = "", size: int | None = None) -> Axis:
        """An axis like another one, after all others in their order; its name begins with the one that is given."""
        base = name or like.name
        chosen = next(n for n in chain([base], (f"{base}_{k}" for k in count(2))) if n not in self._taken)
        self._taken.add(chosen)
        self._rank += 1
        return Axis(chosen, like.size if size is None else size, like.rank and self._rank)
