"""Making a failing program small.

``shrink`` tries smaller programs, the boldest first, and goes on from each that still fails: one output instead of several, a subterm as
the only output, a subterm replaced by one of its arguments or by an input of its axes, inputs with an axis less, plainer types, shorter
axes.  Every accepted step makes a measure smaller, so it ends; a budget of processor time ends it sooner.

``window`` cuts a few operations out of a program that is too large for that, and ``alike`` tells cuts that differ in names alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from . import dtypes
from .index import Axis
from .nodes import renamed
from .program import Output, Program
from .terms import Const, Extent, Gather, Index, Input, Reduce, Term, View, postorder


def shrink(program: Program, fails: Callable[[Program], bool], *, seconds: float = 10.0) -> Program:
    """The smallest program found for which ``fails`` still holds; ``program`` itself must fail.

    ``seconds`` is processor time.  A program is tried once.
    """
    deadline = time.process_time() + seconds
    tried: set[Program] = set()
    again = True
    while again:
        again = False
        for candidate in _smaller(program):
            if time.process_time() > deadline:
                return program
            if candidate in tried or not _measure(candidate) < _measure(program):
                continue
            tried.add(candidate)
            if fails(candidate):
                program, again = candidate, True
                break
    return program


def window(p: Program, root: Term, depth: int) -> Program | None:
    """``root`` as the only output, and the operations less than ``depth`` steps below it; what is cut off becomes inputs."""
    inside, edge = {root}, [root]
    for _ in range(depth - 1):
        edge = [a for a in dict.fromkeys(a for t in edge for a in t.args) if a.args and a not in inside]
        inside |= set(edge)
    names = {i.name for i in p.inputs}
    fresh = (n for n in (f"a{k}" for k in count()) if n not in names)
    new: dict[Term, Term] = {}

    def cut(t: Term) -> Term:
        if t not in new:
            if t in inside:
                new[t] = with_args(t, tuple(cut(a) for a in t.args))
            else:
                new[t] = Input(next(fresh), tuple(sorted(t.axes)), t.dtype or dtypes.float32) if t.args else t
        return new[t]

    try:
        found = _program(p, (_output(cut(root), "o0"),))
    except AssertionError:
        return None
    return found if _well_formed(found) else None


def alike(p: Program) -> Program:
    """The program with other names for axes, inputs and outputs: the same one for all programs that differ in names alone."""
    axes = dict.fromkeys(a for t in p.terms() for a in (t.layout if isinstance(t, Input) else t.key) if isinstance(a, Axis))
    plain = resized(p, {a: Axis(f"n{k}", a.size) for k, a in enumerate(axes)}) or p
    names = {t: f"x{k}" for k, t in enumerate(t for t in plain.terms() if isinstance(t, Input))}
    new = rebuilt(plain, lambda t, args: Input(names[t], t.layout, t.dtype) if isinstance(t, Input) else with_args(t, args))
    outputs = tuple(Output(f"o{k}", new[o.term], o.layout, o.dtype) for k, o in enumerate(plain.outputs))
    return _program(Program("alike", outputs, ()), outputs)


def _measure(p: Program) -> tuple[int, ...]:
    """Operations, leaves, dimensions of inputs and outputs, unusual types, elements."""
    terms = p.terms()
    inputs = [t for t in terms if isinstance(t, Input)]
    tensors: list[Input | Output] = [*inputs, *p.outputs]
    return (
        sum(len(t.args) > 0 for t in terms),
        sum(not t.args for t in terms),
        len(p.outputs) + sum(len(t.layout) for t in tensors),
        sum(t.dtype is not dtypes.float32 for t in tensors),
        sum(a.size for a in p.axes) + sum(a.size for t in inputs for a in t.layout if a is not None),
    )


def _smaller(p: Program) -> Iterator[Program]:
    """Candidates, the boldest first."""
    terms = p.terms()
    for t in terms:  # arguments come before their users: the first that fails is small
        if t.args and (len(p.outputs) > 1 or t is not p.outputs[0].term):
            yield _program(p, (_output(t, "o0"),))
    for o in p.outputs:
        if len(p.outputs) > 1:
            yield _program(p, tuple(x for x in p.outputs if x is not o))
    for t in reversed(terms):
        for a in sorted(t.args, key=lambda a: len(postorder(a))):
            yield from _replaced(p, t, a)
    names = {t.name for t in terms if isinstance(t, Input)}
    fresh = next(n for n in (f"a{k}" for k in range(len(names) + 1)) if n not in names)
    for t in reversed(terms):
        if t.args:
            yield from _replaced(p, t, Input(fresh, tuple(sorted(t.axes)), t.dtype or dtypes.float32))
            yield from _replaced(p, t, Const(1.0))
    for o in p.outputs:
        yield _program(p, tuple(_output(x.term, x.name) if x is o else x for x in p.outputs))
    for t in terms:
        if isinstance(t, Input):
            for k in range(len(t.layout)):
                yield from _replaced(p, t, Input(t.name, t.layout[:k] + t.layout[k + 1 :], t.dtype))
            yield from _replaced(p, t, Input(t.name, t.layout, dtypes.float32))
    for axis in sorted(p.every_axis, key=lambda a: -a.size):
        for size in dict.fromkeys((2, 3, (axis.size + 1) // 2, axis.size - 1, 1)):
            if 0 < size < axis.size and (found := resized(p, {axis: replace(axis, size=size)})) is not None:
                yield found


def _output(t: Term, name: str) -> Output:
    return Output(name, t, tuple(sorted(t.axes)), t.dtype or dtypes.float32)


def _program(p: Program, outputs: tuple[Output, ...]) -> Program:
    """A program of some outputs, with the inputs that they use."""
    return Program(p.name, outputs, tuple(t for t in postorder(*(o.term for o in outputs)) if isinstance(t, Input)))


def _replaced(p: Program, old: Term, new: Term) -> Iterator[Program]:
    """The program with one term for another, where that is still a program."""
    if old is new:
        return
    try:
        terms = rebuilt(p, lambda t, args: new if t is old else with_args(t, args))
    except AssertionError:
        return
    outputs = []
    for o in p.outputs:
        t = terms[o.term]
        if isinstance(t, Const | Extent | Index):
            return
        kept = tuple(a for a in o.layout if a is None or a in t.axes or a not in o.term.axes)
        more = tuple(sorted(a for a in t.axes if a not in kept))
        outputs.append(Output(o.name, t, (*kept, *more), o.dtype if o.dtype.is_float else t.dtype or o.dtype))
    candidate = _program(p, tuple(outputs))
    if _well_formed(candidate):
        yield candidate


def rebuilt(p: Program, make: Callable[[Term, tuple[Term, ...]], Term]) -> dict[Term, Term]:
    """A new term for every term of a program; ``make`` gets the old one and its new arguments."""
    new: dict[Term, Term] = {}
    for t in p.terms():
        new[t] = make(t, tuple(new[a] for a in t.args))
    return new


def with_args(t: Term, args: tuple[Term, ...]) -> Term:
    """The same operation on other arguments; a view along an axis that is gone is its argument."""
    if isinstance(t, View | Gather) and t.axis in t.args[0].axes and t.axis not in args[0].axes:
        return args[0]
    return t.over(args) if args else t


def resized(p: Program, change: Mapping[Axis, Axis]) -> Program | None:
    """The program with other axes for some; ``None`` where a view would read past its end."""

    def attribute(x: Any) -> Any:
        return renamed(x, lambda a: change.get(a, a))

    new = rebuilt(p, lambda t, args: t.over(args, attribute))
    outputs = tuple(Output(o.name, new[o.term], attribute(o.layout), o.dtype) for o in p.outputs)
    inputs = tuple(new[i] if i in new else i.over((), attribute) for i in p.inputs)
    found = Program(p.name, outputs, inputs)  # type: ignore[arg-type]
    return found if _well_formed(found) else None


def _well_formed(p: Program) -> bool:
    """Inputs have one meaning per name, axes one size per name, and views read inside."""
    inputs: dict[str, Term] = {}
    sizes: dict[str, int] = {}
    for a in p.every_axis:
        if sizes.setdefault(a.name, a.size) != a.size:
            return False
    for t in p.terms():
        if isinstance(t, Input) and inputs.setdefault(t.name, t) is not t:
            return False
        if isinstance(t, View):
            lo, hi = t.index.bounds()
            if t.axis in t.args[0].axes and (lo < 0 or hi >= t.axis.size):
                return False
            if len(t.args[0].axes) and (t.index.axes() - {t.axis}) & bound(t.args[0]):
                return False  # the index would be captured by a reduction inside
    return bool(inputs)


def bound(t: Term) -> set[Axis]:
    """Axes that reductions and views inside a term use up."""
    return {x.axis for x in postorder(t) if isinstance(x, Reduce | View | Gather)}
