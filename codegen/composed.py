"""A module of several plans: a function for each different one, and ``run``, which calls them in order.

The functions are those that :mod:`.host` makes, each with the checks of its own sizes; ``run`` hands tensors from one to the next, seen
in the shape that the next one has for them, and lets go of them after their last use.  A length is the planned number, or one of those
that ``run`` reads from its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.program import Result
from ..tiles.kernel import Buffer
from .host import host, put_together, variables
from .module import docstring, emit_kernels, joined, with_hosts
from .sizes import ModuleSpec
from .text import torch_name

Shape = tuple[int | str, ...]  # a length is a number, the variable that has it, or -1: what is left


@dataclass(frozen=True)
class Call:
    """A call of the function of the ``at``-th plan: the tensors of the whole program that it reads and makes, each with the shape that it
    has there; ``done``: those that nothing needs afterwards."""

    at: int
    reads: tuple[tuple[str, Shape], ...]
    makes: tuple[tuple[str, Shape], ...]
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class Free:
    """A length that ``run`` reads: the dimensions of inputs that have it, and between which numbers it is."""

    variable: str
    dimensions: tuple[tuple[str, int], ...]
    least: int
    most: float


@dataclass(frozen=True)
class ComposedSpec:
    """What such a module is made from.  ``plans`` are the different ones, their kernels named differently, but for those that are the
    same; ``buffers`` the tensors of the whole program by name."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    buffers: Mapping[str, Buffer]
    plans: tuple[ModuleSpec, ...]
    calls: tuple[Call, ...]
    header: str = ""
    results: tuple[Result, ...] = ()  # what outputs are parts of; none if each is returned as it is
    free: tuple[Free, ...] = ()  # the lengths that are read
    returned: Mapping[str, Shape] = field(default_factory=dict)  # the shapes of outputs, where lengths are read

    def shape(self, b: Buffer) -> Shape:
        """Of an input."""
        variables = {x: f.variable for f in self.free for x in f.dimensions}
        return tuple(variables.get((b.name, d), n) for d, n in enumerate(b.shape))


Spec = ModuleSpec | ComposedSpec


def emit(name: str, header: str, plans: Mapping[str, Spec], functions: Sequence[str] = (), kernels: str | None = None) -> str:
    """A module: the different kernels of all plans, for each plan a function of the name that it has here, and other functions that call
    them.  Kernels of different plans have different names.  ``kernels``: what :func:`kernels_of` gives of the same."""
    hosts: list[str] = []
    for called, found in plans.items():
        if isinstance(found, ComposedSpec):
            hosts += [host(p, _function(called, k)) for k, p in enumerate(found.plans)]
        hosts.append(_run(found, called) if isinstance(found, ComposedSpec) else host(found, called))
    everything = _everything(name, header, plans.values())
    kernels = kernels or kernels_of(name, header, plans.values())
    return joined([kernels, *functions]) if everything is None else with_hosts(kernels, [*hosts, *functions], everything)


def kernels_of(name: str, header: str, plans: Iterable[Spec]) -> str:
    """The module without functions."""
    everything = _everything(name, header, plans)
    return joined([docstring(ModuleSpec(name, (), (), (), (), header)), "import torch"]) if everything is None else emit_kernels(everything)


def _everything(name: str, header: str, plans: Iterable[Spec]) -> ModuleSpec | None:
    """The kernels of all plans; ``None`` if there are no plans."""
    every = [p for found in plans for p in (found.plans if isinstance(found, ComposedSpec) else (found,))]
    launched = {tuple(map(id, ks)): ks for p in every for ks in p.launched}.values()  # those of one plan at several sizes once
    return ModuleSpec(
        name, (), (), (), tuple(k for ks in launched for k in ks), header, tuple(c for p in every for c in p.calls),
        launches=tuple(map(len, launched)), language=every[0].language,
    ) if every else None  # fmt: skip


def _function(called: str, at: int) -> str:
    return f"{called.removeprefix('run')}_region_{at + 1}"


def _run(spec: ComposedSpec, called: str) -> str:
    functions = [_function(called, k) for k in range(len(spec.plans))]
    names = variables(spec.plans, spec.buffers, (*functions, *(f.variable for f in spec.free)))
    used = {name for c in spec.calls for name, _ in c.reads}
    lines = [f"{f.variable} = {names[f.dimensions[0][0]]}.shape[{f.dimensions[0][1]}]" for f in spec.free]
    for b in spec.inputs:
        if b.name in used:
            lines.insert(0, f'_check_tensor("{names[b.name]}", {names[b.name]}, {torch_name(b.dtype)}, {len(b.shape)})')
            lines.append(f'_check_shape("{names[b.name]}", {names[b.name]}, {_tuple(spec.shape(b))})')
    for f in spec.free:
        where = f"{names[f.dimensions[0][0]]}.shape[{f.dimensions[0][1]}]"
        if f.least > 2:
            lines.append(f'_check_size("{where}", {f.variable} >= {f.least}, "of at least {f.least}, on which the program depends")')
        if f.most < math.inf:
            lines.append(f'_check_size("{where}", {f.variable} <= {f.most}, "of at most {f.most}, on which the program depends")')
    here: dict[str, Shape] = {}  # of what regions made
    given_shapes = {b.name: spec.shape(b) for b in spec.inputs}
    for c in spec.calls:
        given = [_seen(names[name], here.get(name) or given_shapes.get(name) or spec.buffers[name].shape, shape) for name, shape in c.reads]
        made = ", ".join(names[name] for name, _ in c.makes)
        lines.append(f"{made}{',' * (len(c.makes) == 1)} = {functions[c.at]}({', '.join(given)})")
        here.update(c.makes)
        lines += [f"del {', '.join(names[name] for name in c.done)}"] if c.done else []
    made_here = {b.name: _seen(names[b.name], here[b.name], spec.returned.get(b.name, b.shape)) for b in spec.outputs}
    results = [put_together(r, made_here) for r in spec.results] or list(made_here.values())
    lines.append(f"return ({', '.join(results)},)")
    kernels = sum(len(spec.plans[c.at].kernels) + len(spec.plans[c.at].calls) for c in spec.calls)
    outputs = ", ".join([r.name for r in spec.results] or [names[b.name] for b in spec.outputs])
    doc = f'"""Return the tuple ({outputs}), computed by {kernels} kernels in {len(spec.calls)} regions on the device of the arguments."""'
    head = f"def {called}({', '.join(names[b.name] for b in spec.inputs)}):"
    return "\n".join([head, *(f"    {line}" for line in (doc, *lines))])


def _seen(name: str, shape: Shape, wanted: Shape) -> str:
    """A tensor in another shape of as many elements."""
    return name if shape == wanted else f"{name}.view({_tuple(wanted)})"


def _tuple(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"
