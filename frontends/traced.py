"""``trace``: anything the user has, as a program with what is needed to call it."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import EmptyProgramError, EqFuseError, ShapeError, StaticArgumentError, TraceError, UnsupportedOpError
from ..errors import shown as shown_value
from ..ir.dtypes import STORED
from ..ir.gathers import summed
from ..ir.grouping import choosing
from ..ir.needed import masked
from ..ir.program import Output, Program, Result
from ..ir.sameness import same_program
from ..ir.samples import Sample, compared
from ..ir.spans import masking
from ..ir.strides import Strides, known_strides
from ..ir.terms import Input, Term, number_of
from .aten import dims_of
from .axis_names import size_names
from .capture import Captured, Source, capture, capture_exported
from .convention import Convention, flattened, shown, training
from .graphs import FlatGraph
from .naming import function_name, value_names
from .places import place_of_function
from .reader import Reader
from .results import arranged, in_structure
from .spec import TensorSpec, ir_dtype, spec_of, torch_dtype, value_key
from .symbolic import NONE, Later, Symbolic, same_arguments, symbolic_of, trace_symbolic


@dataclass(frozen=True)
class Traced:
    """A program and its calling convention.

    ``program.inputs`` are the user's tensor arguments in the order of the call (nested structures flattened, unused ones
    included), then the parameters, buffers and constant tensors that the outputs depend on.  ``bind(*args, **kwargs)`` gives
    every input its tensor, ``unflatten`` turns the list of ``program.outputs`` into what the user's function returns.
    """

    program: Program
    bind: Callable[..., dict[str, Any]]
    unflatten: Callable[[Sequence[Any]], Any]
    eager: Callable[..., Any] | None = field(default=None, repr=False)  # the user's own program
    replay: Callable[[Sequence[Any]], Any] | None = field(default=None, repr=False)  # the same from the tensors of program.inputs
    specs: Mapping[str, TensorSpec] = field(default_factory=dict, repr=False)  # example shape, type and strides of each input
    captured: Mapping[str, torch.Tensor] = field(default_factory=dict, repr=False)  # inputs that no call passes; ``replay`` ignores them
    held: tuple[tuple[str, Callable[[], Any]], ...] = field(default=(), repr=False)  # these and parameters: how each is looked up
    buffers: frozenset[str] = field(default=frozenset(), repr=False)  # of these inputs, which nobody differentiates for
    convention: Convention | None = field(default=None, repr=False)  # how the function is called; a program in terms has none
    exact: bool = field(default=False, repr=False)  # how quotients were read
    symbolic: Later = field(default=NONE, repr=False)  # sizes as symbols, traced when asked for
    graph: Captured | None = field(default=None, repr=False)  # what it was read from; a program in terms was from none

    @property
    def arguments(self) -> dict[str, int]:
        """The inputs that are tensors among the arguments, with their flat positions; none for a program in terms."""
        leaves = self.convention.leaves if self.convention else ()
        positions = [k for k, leaf in enumerate(leaves) if isinstance(leaf, TensorSpec)]
        return {i.name: k for i, k in zip(self.program.inputs, positions, strict=False) if self.specs[i.name] is leaves[k]}

    @property
    def static(self) -> bool:
        """What was traced is itself a trace, whose sizes are numbers."""
        exported = self.convention is not None and isinstance(self.convention.obj, torch.export.ExportedProgram)
        return exported and self.symbolic() is None

    @property
    def fixed(self) -> bool:
        """The same, or a graph that was cut out of one."""
        return self.static or (self.convention is not None and isinstance(self.convention.obj, FlatGraph))

    def resized(self, shapes: Mapping[str, Sequence[int]]) -> Traced | None:
        """The same function for arguments of other shapes, by input; ``None`` where torch needs the sizes as numbers, or other ones."""
        leaves, positions = list(self.convention.leaves) if self.convention else [], self.arguments
        for name, shape in shapes.items():
            spec = self.specs[name]
            leaves[positions[name]] = replace(spec, shape=tuple(shape), strides=_strides_like(spec.stride, shape))
        return self._of_leaves(leaves)

    def laid_out(self, tensors: Mapping[str, Any]) -> Traced:
        """The same program for tensors of the same shapes that lie in memory in another way."""
        found = {name: spec_of(t) for name, t in tensors.items()}
        specs = {name: spec for name, spec in found.items() if spec is not None}
        leaves = list(self.convention.leaves) if self.convention else []
        for name, position in self.arguments.items():
            leaves[position] = specs[name]
        convention = None if self.convention is None else replace(self.convention, leaves=tuple(leaves))
        program = replace(self.program, strides=_strides(self.program.inputs, specs), samples=_samples(self.program, specs))
        return replace(self, program=program, specs=specs, convention=convention)

    def at(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced | None:
        """The same function for arguments that differ from those it was traced with in sizes alone; ``None`` as in :meth:`resized`, and
        for other arguments."""
        if self.convention is None or self.static:
            return None
        try:
            leaves = [spec_of(x) or x for x in self.convention.arranged(args, kwargs)]
        except EqFuseError:
            return None
        return self._of_leaves(leaves) if same_arguments(leaves, self.convention.leaves) else None

    def _of_leaves(self, leaves: Sequence[Any]) -> Traced | None:
        symbolic = None if self.convention is None else self.symbolic()
        if self.convention is None or symbolic is None or (captured := symbolic.at(leaves)) is None:
            return None
        obj = self.convention.obj
        eager = _lazily(obj.module) if isinstance(obj, torch.export.ExportedProgram) else obj
        try:
            return _from_graph(captured, obj, eager, self.program.name, self.exact, self.symbolic)
        except EqFuseError:  # numbers that are computed from sizes may have become tensors
            return None

    def key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Equal for calls that make the same program, however they are spelled."""
        assert self.convention is not None, "a program in terms has its shapes"
        return self.convention.key(args, kwargs)


def trace(
    obj: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    *,
    exact: bool = False,
) -> Traced:
    """The program of a function on torch tensors, an ``nn.Module``, a graph module, an ``ExportedProgram`` or a ``Program``.

    ``args`` and ``kwargs`` are example arguments: tensors (on the meta device if need be) or anything with ``shape`` and
    ``dtype``.  Numbers are part of the program.  ``exact``: a quotient is one operation, rounded once; else it is a product with a
    reciprocal, of which rules know more.  Raises UnsupportedOpError, ShapeError, DeviceError, EmptyProgramError or
    TraceError, each naming the user's line.  A ``Program`` and an ``ExportedProgram`` need no arguments; those given must fit.
    """
    found = read(obj, args, kwargs, name, exact=exact)
    if found.traced is None:
        assert found.error is not None
        raise found.error
    return found.traced


@dataclass(frozen=True)
class Read:
    """What was made of a function: its program; or its graph and why that is none."""

    traced: Traced | None = None
    captured: Captured | None = None
    error: EqFuseError | None = None


def read(
    obj: Any,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    *,
    exact: bool = False,
) -> Read:
    """As :func:`trace`, but operators, types and effects that programs of ours lack are not raised: the graph that has them is there,
    with the first of them.  What is wrong with the function or its arguments raises."""
    with _TRACING:
        try:
            traced = _trace(obj, args, kwargs, name, exact)
            return Read(traced, traced.graph)
        except _NoProgram as found:
            return Read(None, found.captured, found.error)


class _NoProgram(Exception):
    def __init__(self, captured: Captured, error: EqFuseError) -> None:
        super().__init__()
        self.captured, self.error = captured, error


def example_arguments(args: Any) -> tuple[Any, ...] | None:
    """Example arguments as a tuple: one tensor stands for itself; ``None`` stays what it is.  TraceError for anything else."""
    if args is None or isinstance(args, list | tuple):
        return None if args is None else tuple(args)
    if spec_of(args) is not None:
        return (args,)
    cure = "kwargs={'x': x} for arguments by name" if isinstance(args, Mapping) else "a tuple with an example for each: args=(x, ...)"
    raise TraceError(f"args is {shown_value(args)}, not a tuple of arguments", cure=cure)


def _strides_like(strides: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor of another shape, its dimensions in the same order in memory and as far apart as the first has its neighbours; an
    expanded dimension stays one."""
    found, step = [0] * len(shape), min((s for s, n in zip(strides, shape, strict=True) if s and n > 1), default=1)
    for d in sorted(range(len(shape)), key=lambda d: (strides[d], -d)):
        if strides[d]:
            found[d], step = step, step * max(shape[d], 1)
    return tuple(found)


def _strides(inputs: Sequence[Input], specs: Mapping[str, TensorSpec]) -> dict[str, Strides]:
    """How inputs lie in memory that have gaps, repeat elements, or are in another order."""
    found = {i.name: known_strides(i.shape, specs[i.name].stride) for i in inputs}
    return {name: strides for name, strides in found.items() if strides is not None}


def _samples(program: Program, specs: Mapping[str, TensorSpec]) -> dict[str, Sample]:
    """What examples of lengths and offsets have."""
    found = {i.name: specs[i.name].sample for i in {*compared(program.terms()), *choosing(program), *masking(program)}}
    return {name: sample for name, sample in found.items() if sample is not None}


_TRACING = threading.RLock()  # torch.export keeps what it is at in globals; re-entrant, for a traced function may call what traces


def _trace(obj: Any, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None, name: str | None, exact: bool) -> Traced:
    args = example_arguments(args)
    if isinstance(obj, FlatGraph):
        return _from_graph(obj.captured, obj.module, obj.module, name or obj.name, exact, Later(lambda: obj.symbolic))
    if isinstance(obj, Program):
        traced = _from_program(obj)
        given = _check_examples(traced, args, kwargs)
        return traced.laid_out(given) if given else traced
    if isinstance(obj, torch.export.ExportedProgram):
        captured = capture_exported(obj)
        symbols = symbolic_of(captured)
        if symbols is not None:
            found = symbols.at(captured.leaves)
            if found is None:
                raise TraceError("its sizes are symbols, and there are none that fit", cure="export it without dynamic_shapes")
            captured = found
        known = symbols if symbols is None or symbols.env.guards or not getattr(obj, "_guards_code", None) else None  # a file has no guards
        try:
            traced = _read_whole(captured, obj, _lazily(obj.module), name or function_name(obj), exact, Later(lambda: known))
        except _NoProgram as found_none:
            leaves = [spec_of(x) or x for x in flattened(args or (), kwargs or {})[0]]
            here = known.at(leaves) if known is not None and len(leaves) == len(captured.leaves) else None
            raise _NoProgram(here or captured, found_none.error) from None
        other = traced.at(args or (), kwargs or {}) if known is not None and (args or kwargs) else None
        given = _check_examples(other or traced, args, kwargs)
        return (other or traced).laid_out(given) if given else other or traced
    if not callable(obj):
        raise TraceError(f"cannot trace a {type(obj).__name__}", cure="pass a function, nn.Module, ExportedProgram, GraphModule or Program")
    if args is None and not kwargs:
        raise TraceError("tracing needs example arguments", cure="pass args=(tensor, ...)")
    args, kwargs = tuple(args or ()), dict(kwargs or {})
    captured = capture(obj, args, kwargs)
    leaves, spec = list(captured.leaves), captured.in_spec

    name = name or function_name(obj)

    def symbolic() -> Symbolic | None:
        """The same with symbols, if it is the same: a function may notice that a size is no int, or have changed since."""
        with _TRACING:
            found = trace_symbolic(obj, *pytree.tree_unflatten(leaves, spec))
        try:
            here = None if found is None or (at := found.at(leaves)) is None else _from_graph(at, obj, obj, name, exact)
        except EqFuseError:  # numbers that are computed from sizes may have become tensors
            return None
        same = here is not None and same_program(traced.program, here.program, {}) and same_tensors(traced, here)
        return found if same else None

    traced = _read_whole(captured, obj, obj, name, exact, Later(symbolic))
    return traced


def _read_whole(captured: Captured, *given: Any) -> Traced:
    """What the user gave, as a program.  Raises :class:`_NoProgram` where it is none for what it consists of."""
    try:
        return _from_graph(captured, *given)
    except (UnsupportedOpError, TraceError, EmptyProgramError) as error:
        if isinstance(error, EmptyProgramError) and not any(isinstance(o, torch.fx.Node) for o in captured.outputs):
            raise  # it returns no tensor
        raise _NoProgram(captured, error) from None


def same_tensors(a: Traced, b: Traced) -> bool:
    """Whether what the function holds is the same: it may have made tensors from sizes."""

    def same(x: torch.Tensor, y: torch.Tensor) -> bool:
        return x is y or (x.dtype == y.dtype and x.shape == y.shape and x.device == y.device and torch.equal(x, y))

    return a.captured.keys() == b.captured.keys() and all(same(x, b.captured[name]) for name, x in a.captured.items())


def without_data(args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Example arguments with specs in the places of tensors, which they would keep alive."""
    return pytree.tree_map(lambda x: spec_of(x) if isinstance(x, torch.Tensor) else x, (args, kwargs))


def _lazily(make: Callable[[], Any]) -> Callable[..., Any]:
    made: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(make())
        return made[0](*args, **kwargs)

    return call


def _rearranging(call: Callable[..., Any], convention: Convention) -> Callable[..., Any]:
    def rearranged(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(convention.arranged(args, kwargs), convention.spec)
        return call(*args, **kwargs)

    return rearranged


def _from_program(program: Program) -> Traced:
    program.check()
    if not program.results:  # which ask for outputs that may be inputs as they are
        _check_not_empty(program.name, program.outputs)
    names = [i.name for i in program.inputs]

    def bind(*args: Any, **kwargs: Any) -> dict[str, Any]:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) + len(kwargs) != len(names) or set(given) != set(names):
            tensors = f"the tensor{'s' * (len(names) != 1)} {', '.join(names)}"
            raise TraceError(f"{program.name} takes {tensors}; {len(args) + len(kwargs)} given", cure="pass each of them once")
        return {n: given[n] for n in names}

    def unflatten(outputs: Sequence[Any]) -> Any:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return Traced(program, bind, unflatten)


def _from_graph(captured: Captured, obj: Any, eager: Any, name: str, exact: bool, symbolic: Later = NONE) -> Traced:
    if captured.refused is not None:
        raise captured.refused
    known = {n: known_number(s, captured) for n, s in captured.sources.items()}
    names = {n: s.name for n, s in captured.sources.items()}
    numbers = {n: v for n, v in known.items() if v is not None}
    sizes = size_names(obj)

    def read(several: Collection[Any] = (), apart: Collection[int] = ()) -> tuple[Reader, list[_Stored | None]]:
        reader = Reader(captured.graph, names, numbers, sizes, exact=exact, several=several, apart=apart)
        found = zip(captured.out_names, captured.outputs, strict=True)
        taken = {*names.values(), *captured.out_names}
        return reader, [_output(reader, name, node, taken) if isinstance(node, torch.fx.Node) else None for name, node in found]

    reader, results = read()
    if reader.several:  # once more, with these written at their own axes
        reader, results = read(reader.several, reader.apart)
    stored: list[_Stored] = []
    slots: list[tuple[bool, Any]] = []  # per flat result: (is stored, its position) or (False, the value)
    nodes: list[torch.fx.Node] = []  # per stored result
    copies: list[bool] = []  # per flat result: equal to another one, but the user's function computes it again
    for found, node in zip(results, captured.outputs, strict=True):
        if found is None:
            slots.append((False, node))
            copies.append(False)
            continue
        same = next((i for i, s in enumerate(stored) if s.key == found.key), None)
        slots.append((True, len(stored) if same is None else same))
        copies.append(same is not None and nodes[same] is not node)
        if same is None:
            stored.append(found)
            nodes.append(node)
    inputs = _inputs(reader, captured)
    outputs = tuple(o for s in stored for o in s.outputs)
    arrangement = tuple(s.result for s in stored) if any(s.arranged for s in stored) else ()
    if not arrangement:
        _check_not_empty(name, outputs, place_of_function(obj))
    specs = {i.name: _spec(captured, s) for i, s in inputs}
    given = tuple(i for i, _ in inputs)
    program = Program(name, outputs, given, dict(reader.sources), results=arrangement, strides=_strides(given, specs))
    program = replace(program, samples=_samples(program, specs), names=value_names(captured.graph, reader.values(), program.terms()))
    program = summed(program)
    program = program if exact else masked(program)
    constants = {i.name: _constant(captured, s, place_of_function(obj)) for i, s in inputs if s.kind == "constant"}
    buffers = frozenset(i.name for i, s in inputs if s.kind == "buffer")
    convention = Convention(name, obj, captured.in_spec, captured.leaves, training(obj))
    bind, held = _binder(convention, captured, obj, [(i.name, s) for i, s in inputs], constants)
    structured = in_structure(captured.out_spec)
    as_stored = slots == [(True, k) for k in range(len(stored))] and not any(copies)

    def unflatten(values: Sequence[Any]) -> Any:
        results = arranged(program, values)

        def result(position: int, copy: bool) -> Any:
            found = results[position]
            return found.clone() if copy and isinstance(found, torch.Tensor) else found  # results of two ops share no memory

        return structured([result(p, copy) if is_output else p for (is_output, p), copy in zip(slots, copies, strict=True)])

    if isinstance(obj, torch.export.ExportedProgram):  # its module takes one spelling alone
        eager = _rearranging(eager, convention)
    replay = _replayer(captured, obj, eager, [s for _, s in inputs])
    direct = as_stored and not arrangement
    return Traced(
        program, bind, structured if direct else unflatten, eager, replay, specs, constants, held, buffers, convention, exact, symbolic,
        captured,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Calling:
    """How a graph is called that is no program: ``bind(*args, **kwargs)`` gives the tensors of its placeholders in order, ``unflatten``
    what the function returns from the tensors among ``captured.outputs``, ``eager`` is the function itself."""

    convention: Convention
    bind: Callable[..., list[torch.Tensor]]
    unflatten: Callable[[Sequence[Any]], Any]
    eager: Callable[..., Any]


def calling(captured: Captured, obj: Any, name: str) -> Calling:
    """The calling convention of the function that a graph is of."""
    where = place_of_function(obj)
    wanted = [(s.name, s) for s in captured.sources.values()]
    constants = {name: _constant(captured, s, where) for name, s in wanted if s.kind == "constant"}
    convention = Convention(name, obj, captured.in_spec, captured.leaves, training(obj))
    named, _ = _binder(convention, captured, obj, wanted, constants)

    def bind(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        found = named(*args, **kwargs)
        return [found[n] for n, _ in wanted]

    def unflatten(values: Sequence[Any]) -> Any:
        rest = iter(values)
        return pytree.tree_unflatten([next(rest) if isinstance(o, torch.fx.Node) else o for o in captured.outputs], captured.out_spec)

    exported = isinstance(obj, torch.export.ExportedProgram)
    return Calling(convention, bind, unflatten, _rearranging(_lazily(obj.module), convention) if exported else obj)


def _replayer(captured: Captured, obj: Any, eager: Callable[..., Any], sources: Sequence[Source]) -> Callable[[Sequence[Any]], Any]:
    """The user's program as a function of the input tensors, parameters and buffers included; constants stay what they are."""

    def replay(tensors: Sequence[Any]) -> Any:
        given = {s.key: t for s, t in zip(sources, tensors, strict=True) if s.kind == "argument"}
        held = {str(s.key): t for s, t in zip(sources, tensors, strict=True) if s.kind in ("parameter", "buffer")}
        flat = [given.get(k, value) for k, value in enumerate(captured.leaves)]
        args, kwargs = pytree.tree_unflatten(flat, captured.in_spec)
        module = obj.module() if isinstance(obj, torch.export.ExportedProgram) else obj
        if isinstance(module, torch.nn.Module) and held:
            return torch.func.functional_call(module, held, args, kwargs)
        return eager(*args, **kwargs)

    return replay


def known_number(source: Source, captured: Captured) -> float | None:
    """The value of a 0-dimensional constant made in the function; such a number is part of the program.  No parameter: it changes."""
    if source.kind != "constant" or source.key in captured.captured:
        return None
    value = captured.exported.constants.get(source.key)
    if isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type != "meta" and type(value) is torch.Tensor:
        return value.item()
    return None


@dataclass(frozen=True)
class _Stored:
    """What the function returns, and the outputs that make it."""

    result: Result
    outputs: tuple[Output, ...]

    @property
    def arranged(self) -> bool:
        """Whether it is not just its one output."""
        return len(self.outputs) > 1 or any(n > 1 for n in self.result.merges[0])

    @property
    def key(self) -> object:
        """What it is but for names."""
        return self.result.merges, self.result.along, tuple((o.term, o.layout, o.dtype) for o in self.outputs)


def _output(reader: Reader, name: str, node: torch.fx.Node, taken: set[str]) -> _Stored:
    """A result as it is stored.  What a concatenation joined is stored part by part, at axes of each part, so that nothing is chosen; and
    what a reshape merged of a product's dimensions by these: a matrix product that is read at quotients and remainders is none.
    Parts have names that are not among those ``taken``, and are added to these."""
    element = node.meta["val"].dtype
    if (called := str(element).removeprefix("torch.")) in STORED:
        raise reader.unsupported(node, f"as a result of type {called}, which kernels only load")
    along, parts = reader.stored(node)
    outputs = []
    for k, places in enumerate(parts):
        term: Term = reader.result(node, tuple(position for _, position in places))
        layout = tuple(a for axes, _ in places for a in axes or (None,))
        dtype = ir_dtype(element, f"the result {name!r}")  # after what it is made of, whose types may be the reason
        outputs.append(Output(name if len(parts) == 1 else _free_name(f"{name}_{k}", taken), term, layout, dtype))
    merges = tuple(tuple(max(len(axes), 1) for axes, _ in places) for places in parts)
    return _Stored(Result(name, tuple(o.name for o in outputs), merges, along), tuple(outputs))


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _inputs(reader: Reader, captured: Captured) -> list[tuple[Input, Source]]:
    """User arguments in order, unused ones too; then what the module holds and the outputs need."""
    found = []
    for node, source in captured.sources.items():
        if source.kind == "argument" and node not in reader.inputs and node not in reader.constants:
            layout = tuple(None if item is None else reader.axis(item) for item in dims_of(node))
            reader.inputs[node] = Input(source.name, layout, ir_dtype(node.meta["val"].dtype, f"input {source.name!r}"))
        if node in reader.inputs:
            found.append((reader.inputs[node], source))
    order = ("argument", "parameter", "buffer", "constant")
    return sorted(found, key=lambda t: (order.index(t[1].kind), t[1].key if t[1].kind == "argument" else 0))


def _check_examples(traced: Traced, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Example arguments of a program that has its shapes and types: they may be left out, and those given are no others."""
    args, kwargs = args or (), kwargs or {}
    if not args and not kwargs:
        return {}
    inputs = {i.name: i for i in traced.program.inputs}
    if traced.eager is None:  # a Program: which tensor is which is known before they are counted
        for name, value in {**dict(zip(inputs, args, strict=False)), **kwargs}.items():
            if name in inputs:
                _check_example(traced.program, inputs[name], value)
    try:
        bound = traced.bind(*args, **kwargs)
    except ShapeError as error:
        raise ShapeError(error.message, where=traced.program.name, cure=_LIKE_THEM) from None
    for name, value in bound.items():
        _check_example(traced.program, inputs[name], value)
    return bound


_LIKE_THEM = "pass tensors like the program's inputs, or leave the arguments out"


def _check_example(program: Program, expected: Input, value: Any) -> None:
    spec = spec_of(value)
    if spec is None:
        raise TraceError(f"input {expected.name!r} is a {type(value).__name__}, not a tensor", where=program.name, cure=_LIKE_THEM)
    shape, dtype = tuple(1 if a is None else a.size for a in expected.layout), torch_dtype(program.kept(expected))
    if spec.shape != shape or spec.dtype != dtype:
        raise ShapeError(
            f"input {expected.name!r} is {spec.shape} {spec.dtype}, expected is {shape} {dtype}", where=program.name, cure=_LIKE_THEM
        )


def _check_not_empty(name: str, outputs: Sequence[Output], where: str | None = None) -> None:
    if not outputs:
        raise EmptyProgramError(f"{name} returns no tensor", where=where, cure="return the tensors that it computes")

    def bare(o: Output) -> bool:
        return number_of(o.term) is not None or (isinstance(o.term, Input) and o.term.layout == o.layout)

    if all(bare(o) for o in outputs):
        raise EmptyProgramError(
            f"{name} computes nothing: it returns its inputs or constants", where=where, cure="optimise a function that computes"
        )


def _spec(captured: Captured, source: Source) -> TensorSpec:
    if source.kind == "argument":
        return captured.leaves[source.key]  # type: ignore[index]
    node = next(n for n, s in captured.sources.items() if s is source)
    found, exported = spec_of(node.meta["val"]), captured.exported
    assert found is not None
    held = exported.state_dict.get(
        str(source.key), exported.constants.get(str(source.key))
    )  # the graph's own may have no strides, and be nowhere
    known = spec_of(held) if isinstance(held, torch.Tensor) and tuple(held.shape) == found.shape else None
    return found if known is None else known


def _constant(captured: Captured, source: Source, where: str | None) -> torch.Tensor:
    """The tensor that the function itself holds, not export's alias of it."""
    found = captured.captured.get(str(source.key), captured.exported.constants.get(source.key))
    if not isinstance(found, torch.Tensor) or isinstance(found, torch._subclasses.FakeTensor):
        what = f"{source.name!r}, a tensor that the function holds, has no data when it is traced"
        raise TraceError(what, where=where, cure="use .detach(), not .data")
    return found


def _binder(
    convention: Convention, captured: Captured, obj: Any, wanted: Sequence[tuple[str, Source]], constants: Mapping[str, torch.Tensor]
) -> tuple[Callable[..., dict[str, Any]], tuple[tuple[str, Callable[[], Any]], ...]]:
    """Arguments to inputs; and how the others are looked up: tensors of the module at every call, so replaced parameters are seen.

    Constants on the CPU follow the arguments to their device: tracing takes ``torch.tensor([1, 2], device=x.device)`` and
    ``table.to(x.device)`` as they are on the CPU.  They are copied at every call, as those are.
    """
    name, exported = convention.name, captured.exported
    labels = {s.key: s.name for s in captured.sources.values() if s.kind == "argument"}
    keys = [value_key(v) for v in captured.leaves]
    arguments = [(n, int(s.key)) for n, s in wanted if s.kind == "argument"]

    def held(source: Source) -> Callable[[], Any]:
        if not isinstance(obj, torch.nn.Module):
            table = exported.constants if source.key in exported.constants else exported.state_dict
            return lambda: table[source.key]
        *path, last = str(source.key).split(".")
        get = _attribute(str(source.key))

        def found() -> Any:
            """The attribute, without asking each module for what is no attribute of it at first."""
            module = obj
            try:
                for part in path:
                    module = module._modules[part]
                value = (module._parameters if source.kind == "parameter" else module._buffers)[last]
            except (KeyError, AttributeError):  # it has become something else
                value = get(obj)
            if value is None:
                raise StaticArgumentError(f"{name} has no {source.key} any more", cure="optimise again for it")
            return value

        return found

    holders = [(n, held(s)) for n, s in wanted if s.kind in ("parameter", "buffer")]

    def bind(*args: Any, **kwargs: Any) -> dict[str, Any]:
        flat = convention.arranged(args, kwargs)
        for k, (value, expected) in enumerate(zip(flat, captured.leaves, strict=True)):
            if isinstance(expected, TensorSpec):
                _check_tensor(labels.get(k, f"argument {k}"), value, expected)
            elif isinstance(value, torch.Tensor) or value_key(value) != keys[k]:
                what = "number" if isinstance(expected, bool | int | float) else "value"
                raise StaticArgumentError(
                    f"{name} was traced with the {what} {expected!r} as argument {k}, now {shown(value)}", cure="optimise again for it"
                )
        bound = {n: flat[k] for n, k in arguments}
        bound.update((n, get()) for n, get in holders)
        if constants:
            device = next((v.device for v in flat if isinstance(v, torch.Tensor) and v.device.type != "cpu"), None)
            move = device is not None
            bound.update((n, t.detach().to(device) if move and t.device.type == "cpu" else t) for n, t in constants.items())
        return bound

    mode = [("its mode", partial(training, obj))] * isinstance(obj, torch.nn.Module)
    return bind, (*holders, *((n, partial(constants.__getitem__, n)) for n in constants), *mode)


def _attribute(path: str) -> Callable[[Any], Any]:
    """What an object has by a path of names, or ``None``."""
    get = operator.attrgetter(path)

    def found(obj: Any) -> Any:
        try:
            return get(obj)
        except AttributeError:
            return None

    return found


def _check_tensor(name: str, value: Any, expected: TensorSpec) -> None:
    if not isinstance(value, torch.Tensor) and spec_of(value) is None:
        kind = StaticArgumentError if value is None or isinstance(value, bool | int | float) else TraceError
        raise kind(f"argument {name!r} is a {type(value).__name__}, not a tensor", cure="pass a tensor, as when it was optimised")
    if isinstance(value, torch.Tensor) and (type(value) is not torch.Tensor or value.is_nested or value.is_quantized):
        spec_of(value)  # says what is wrong with it
    if tuple(value.shape) != expected.shape:
        raise ShapeError(
            f"argument {name!r} has shape {tuple(value.shape)}, compiled for {expected.shape}", cure="optimise again for this shape"
        )
    if isinstance(value, torch.Tensor) and value.dtype != expected.dtype:
        raise ShapeError(f"argument {name!r} is {value.dtype}, compiled for {expected.dtype}", cure="optimise again for this type")
