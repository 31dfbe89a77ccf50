"""PyTorch programs as flat graphs of core ATen ops.

:func:`~.recorded.record` gives most of them.  Where it cannot, and where sizes are symbols, ``torch.export`` (non-strict) runs the
function once on fake tensors and gives a graph of ATen ops; a second run through ``make_fx`` with the core ATen decomposition table
removes composite ops and mutation.  That is what ``ExportedProgram.run_decompositions`` does, at a tenth of its time: it scans every
operator of the dispatcher first.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import math
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch.nn.utils import stateless
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ..errors import DeviceError, EqFuseError, ShapeError, TraceError
from .aten import RESULT
from .calls import SYMBOLS, Call, CalledFunction, Captured, Source, call_of, identifier, named, result_names, unique
from .combines import associative, kept_whole
from .definitions import COMPOSITES, DECOMPOSITIONS
from .places import PLACE, node_name, place, place_of_call, place_of_error, place_of_node
from .recorded import record
from .spec import TensorSpec, spec_of
from .surroundings import not_by_fx

DETACHED = "detached"  # in a node's "custom" metadata: the user says that it has no gradient


class _Flat(CalledFunction):
    """A function of the values in its arguments."""

    def __init__(self, f: Callable[..., Any], spec: Any) -> None:
        super().__init__(f)
        self.spec = spec

    def forward(self, *flat: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(list(flat), self.spec)
        return self.f(*args, **kwargs)


def weighted_values(s: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """``softmax(s) @ v``; rows of scores that are all -inf give 0, whatever made them so.

    The choice stands after the product, so that it costs one operation per result and no second pass over the scores; torch chooses
    before it, and multiplies the zeros by the values: a value that is not finite makes NaN of such a row there.
    """
    if not s.size(-1):
        return torch.softmax(s, -1).to(v.dtype) @ v
    removed = s.amax(-1, keepdim=True) == -math.inf
    return (torch.softmax(s, -1).to(v.dtype) @ v).masked_fill(removed, 0.0)


def attention_by_definition(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    weighted: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = weighted_values,
) -> torch.Tensor:
    """``scaled_dot_product_attention`` as its documentation defines it, ``weighted`` of scores and values."""
    if dropout_p:
        raise TraceError("scaled_dot_product_attention with dropout is random", cure="pass dropout_p=0.0")
    if enable_gqa:
        k = k.repeat_interleave(q.size(-3) // k.size(-3), -3)
        v = v.repeat_interleave(q.size(-3) // v.size(-3), -3)
    s = (q @ k.transpose(-2, -1)) * (1.0 / torch.sym_sqrt(q.size(-1)) if scale is None else scale)
    if is_causal:
        keep = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool, device=q.device).tril()
        s = s.masked_fill(keep.logical_not(), -math.inf)
    if attn_mask is not None:
        s = s.masked_fill(attn_mask.logical_not(), -math.inf) if attn_mask.dtype == torch.bool else s + attn_mask
    return weighted(s, v)


def view_of_any(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """``view``, of a tensor whose decomposition gave it other strides than the graph was made with: then it is a reshape."""
    try:
        return x.view(size)
    except (RuntimeError, ValueError):
        return x.reshape(size)


def linear_by_definition(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """``linear`` as a product of matrices, as torch computes it (torch's own decomposition, in C++, takes sizes as numbers)."""
    rows = x if x.dim() == 2 else x.reshape(-1, x.shape[-1])
    product = torch.mm(rows, weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
    return product if x.dim() == 2 else product.reshape(*x.shape[:-1], weight.shape[0])


def _triangle(x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    return x & keep if x.dtype == torch.bool else torch.where(keep, x, 0)


def lower_triangle(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    """``tril`` as a comparison of positions (torch's own decomposition is slow to trace)."""
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape[-2:])
    return _triangle(x, columns[None, :] - rows[:, None] <= diagonal)


def upper_triangle(x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    """``triu`` as a comparison of positions."""
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape[-2:])
    return _triangle(x, columns[None, :] - rows[:, None] >= diagonal)


def identity_matrix(
    n: int, m: int | None = None, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **_: Any
) -> torch.Tensor:
    """``eye`` as a comparison of positions (torch's own decomposition counts in uint8)."""
    rows, columns = (torch.arange(k, device=device) for k in (n, n if m is None else m))
    return (rows[:, None] == columns[None, :]).to(dtype or torch.get_default_dtype())


def known_before(*_: Any, **__: Any) -> None:
    """A check of a tensor's type, device and layout, which are those that a program is traced for."""


_BY_DEFINITION: dict[Any, Callable[..., Any]] = {
    torch.ops.aten._assert_tensor_metadata.default: known_before,
    torch.ops.aten.tril.default: lower_triangle,
    torch.ops.aten.triu.default: upper_triangle,
    torch.ops.aten.eye.default: identity_matrix,
    torch.ops.aten.eye.m: identity_matrix,
    torch.ops.aten.linear.default: linear_by_definition,
    torch.ops.aten.view.default: view_of_any,
    torch.ops.aten.scaled_dot_product_attention.default: attention_by_definition,
    torch.ops.higher_order.associative_scan: associative,
    **COMPOSITES,
}


def _flat_apply(target: Any, func: Any, spec: Any, *flat: Any, **kwargs: Any) -> Any:
    """A call that ``torch.export`` keeps whole; of an ``autograd.Function`` what its forward computes, which ``functionalize`` has no rule
    for.  FlexAttention reads tables in a ``mask_mod`` by one."""
    args, named = pytree.tree_unflatten(flat, spec)
    if args and isinstance(args[0], str):  # where it is
        module, _, name = args[0].rpartition(".")
        found: Any = getattr(sys.modules.get(module), name, None)
        own = inspect.isclass(found) and issubclass(found, torch.autograd.Function)
        if own and found.setup_context is not torch.autograd.Function.setup_context:  # else its forward takes a context
            return found.forward(*args[1:], **named)
    return target(func, spec, *flat, **kwargs)


_LEVEL = {"_add_batch_dim": 2, "_remove_batch_dim": 1}  # calls of torch.vmap, and which argument counts the transforms around them
_VMAP = {*_LEVEL, "_vmap_increment_nesting", "_vmap_decrement_nesting", "lazy_load_decompositions"}


def _transform(target: Any) -> str | None:
    """The name of a call by which ``torch.func`` transforms a function; None for what computes."""
    return target.__name__ if str(getattr(target, "__module__", "")).startswith("torch._functorch") else None


class _Lowering(torch.fx.Interpreter):
    """Runs an exported graph; a few composite ops by their definition instead of by device-specific kernels.

    ``torch.vmap`` is in the graph as calls that open a level, wrap and unwrap tensors at it and close it.  Their levels are counted from
    1, as it was when nothing was around the function; here ``functionalize`` is.  If one is left open by an error, all of torch in this
    process would be inside it from then on.
    """

    def __init__(self, module: torch.fx.GraphModule, refused: list[EqFuseError]) -> None:
        super().__init__(module)
        self._below = functorch.get_dynamic_layer_stack_depth()
        self.definitions: Mapping[Any, Callable[..., Any]] = _BY_DEFINITION
        self._refused = refused  # by definitions: torch's own follow in their places

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().run(*args, **kwargs)
        finally:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(self._below)

    def run_node(self, n: torch.fx.Node) -> Any:
        self._at = n
        return super().run_node(n)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        level = _LEVEL.get(_transform(target) or "")
        if level is not None:
            args = (*args[:level], args[level] + self._below, *args[level + 1 :])
        if getattr(target, "__name__", "") == "flat_apply":
            return _flat_apply(target, *args, **kwargs)
        definition = self.definitions.get(target)
        try:
            return definition(*args, **kwargs) if definition else super().call_function(target, args, kwargs)
        except EqFuseError as error:
            if definition is None:
                raise
            error = type(error)(error.message, where=error.where or place_of_node(self._at), cure=error.cure)
            self._refused.append(error)
            return super().call_function(target, args, kwargs)


# Decompositions whose further results are others than the operator's: they are for graphs in which nothing takes these.
_NOT_EQUAL = (torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,)


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The core ATen table, without its entries for ops that torch composes of others: ``make_fx`` takes those apart unasked, and to list
    them torch scans all of its operators, in 140 ms of CPU time.
    """
    table = getattr(torch._decomp, "_core_aten_decompositions_post_autograd", torch._decomp.core_aten_decompositions)
    found = {**table(), **DECOMPOSITIONS}
    for op in _NOT_EQUAL:
        found.pop(op, None)
    return found


# running ----------------------------------------------------------------------------------------------------------------------------
def capture(obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, symbolic: bool = False) -> Captured:
    """Trace a function, module or graph module on fake copies of its arguments.  ``symbolic``: their sizes are symbols, where torch finds
    nothing in the function that needs the number."""
    call = call_of(obj, args, kwargs)
    if not symbolic:
        with suppress(EqFuseError), told_as_errors(), kept_whole():  # what is wrong with it, if anything is, export says
            return record(call, _BY_DEFINITION, decompositions())
    made = _exported(call, symbolic=symbolic)
    found = _decomposed(made.program, made.names, made.in_spec, made.leaves, symbolic=symbolic)
    return replace(found, captured=made.captured)


@dataclass(frozen=True)
class Exported:
    """What ``torch.export`` makes of a function: composite ops are still whole.  ``names`` and ``leaves``: of the flat arguments;
    ``captured`` as in :class:`Captured`."""

    program: Any
    names: tuple[str, ...]
    in_spec: Any
    leaves: tuple[Any, ...]
    captured: Mapping[str, torch.Tensor]

    @property
    def sources(self) -> list[Source]:
        """What its placeholders stand for, in order."""
        return _sources(self.program, self.names)

    @property
    def values(self) -> list[Any]:
        """A fake tensor, or the value that it always is, for each of them."""
        return [n.meta["val"] for n in self.program.graph.nodes if n.op == "placeholder"]

    def run(self, *given: Any, definitions: Mapping[Any, Callable[..., Any]] = types.MappingProxyType({})) -> tuple[Any, ...]:
        """The flat results for a value of each, with composite ops by their definitions, or by these.  Raises what a definition refuses."""
        refused: list[EqFuseError] = []
        lowering = _Lowering(self.program.graph_module, refused)
        lowering.definitions = {**_BY_DEFINITION, **definitions}
        with told_as_errors():
            found = lowering.run(*given)
        if refused:
            raise refused[0]
        return tuple(found) if isinstance(found, list | tuple) else (found,)


def exported(obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exported:
    """What torch's autograd differentiates, and the first half of :func:`capture` where it asks export."""
    return _exported(call_of(obj, args, kwargs), symbolic=False)


def _exported(call: Call, *, symbolic: bool) -> Exported:
    if (symbols := getattr(call.obj, SYMBOLS, None)) is not None:
        return _below_autograd(call, symbols if symbolic else [()] * len(call.leaves))
    in_spec, names, leaves, module = call.in_spec, call.names, call.leaves, call.module
    with told_as_errors(), torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        fake = call.arguments(call.device)
    fake_args, fake_kwargs = pytree.tree_unflatten(fake, in_spec)
    if symbolic and fake_kwargs and module is not call.obj:  # torch.export loses sight of keyword arguments without names of their own
        module, fake_args, fake_kwargs = _Flat(call.obj, in_spec), tuple(fake), {}
    seen = _Watch()
    importlib.import_module("torch.export._trace")  # takes seconds the first time
    with told_as_errors(), torch.fx.traceback.preserve_node_meta(), seen:  # for what `seen` writes into metadata
        sizes = None
        if symbolic:
            sizes = torch.export.ShapesCollection()
            for x in fake:
                if isinstance(x, torch.Tensor) and x.dim():
                    sizes[x] = dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO)
        with kept_whole():
            program = torch.export.export(module, fake_args, fake_kwargs, strict=False, dynamic_shapes=sizes)
    return Exported(program, names, in_spec, leaves, seen.among(program.constants))


def _below_autograd(call: Call, symbols: Sequence[Sequence[int]]) -> Exported:
    """The same of a function that makes nested tensors, which ``torch.export`` does not follow: ``make_fx`` does, where autograd has done
    its part.  ``symbols``: the dimensions of each flat argument that are symbols."""
    from torch._dynamo.source import ConstantSource
    from torch.export.graph_signature import InputKind, OutputKind
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    module, env = call.module, ShapeEnv()
    parameters = dict(module.named_parameters())
    held = {**parameters, **dict(module.named_buffers())}
    mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)

    def fake(x: torch.Tensor, name: str, varying: Sequence[int], device: torch.device) -> torch.Tensor:
        kinds = [DimDynamic.DYNAMIC if d in varying else DimDynamic.STATIC for d in range(x.dim())]
        context = StatelessSymbolicContext(kinds)
        sizes, strides, _ = env.create_symbolic_sizes_strides_storage_offset(x, ConstantSource(name), symbolic_context=context)
        with mode:
            return torch.empty_strided(sizes, strides, dtype=x.dtype, device=device)

    found: list[Any] = []

    def run(own: Sequence[torch.Tensor], given: Sequence[Any]) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(given, call.in_spec)
        here = stateless._reparametrize_module(module, dict(zip(held, own, strict=True)), tie_weights=True, stack_weights=True)
        with here, not_by_fx():
            found[:] = pytree.tree_flatten(module(*args, **kwargs))
        results: list[Any] = found[0]
        return results

    seen = _Watch()
    with told_as_errors(), torch.fx.traceback.preserve_node_meta(), torch.enable_grad(), mode:
        own = [fake(t, name, (), t.device) for name, t in held.items()]
        flat = zip(call.arguments(torch.device("meta")), call.names, symbols, strict=True)
        given = [fake(x, name, dims, call.device) if isinstance(x, torch.Tensor) else x for x, name, dims in flat]
        with seen:
            made = make_fx(run)(own, given)
    nodes = [n for n in made.graph.nodes if n.op == "placeholder"]
    for n, value in zip(nodes, (*own, *given), strict=True):
        n.meta["val"] = value
    _detach(made.graph)
    constants = lifted(made.graph)
    made.recompile()
    kinds = [
        *((InputKind.PARAMETER if name in parameters else InputKind.BUFFER, name) for name in held),
        *((InputKind.USER_INPUT, None) for _ in given),
        *((InputKind.CONSTANT_TENSOR, n.name) for n in constants),
    ]
    program = SimpleNamespace(
        graph=made.graph, graph_module=made, state_dict=held, constants={n.name: t for n, t in constants.items()},
        graph_signature=SimpleNamespace(
            input_specs=[SimpleNamespace(kind=kind, target=target) for kind, target in kinds],
            output_specs=[SimpleNamespace(kind=OutputKind.USER_OUTPUT)] * len(found[0]),
        ),
        call_spec=SimpleNamespace(out_spec=found[1]),
    )  # fmt: skip
    return Exported(program, call.names, call.in_spec, call.leaves, seen.among(program.constants))


def _detach(graph: torch.fx.Graph) -> None:
    """Have a graph say which values have no gradient: those of which the user says so.  Nested tensors hide their parts from autograd in
    the same way, which knows of them nonetheless."""
    detach = torch.ops.aten.detach.default
    for n in list(graph.nodes):
        by_user = (n.meta.get("custom") or {}).get(DETACHED)
        if n.target is detach and not by_user:
            n.replace_all_uses_with(n.args[0])
            graph.erase_node(n)
        elif n.target is not detach and by_user and isinstance(n.meta.get("val"), torch.Tensor):
            with graph.inserting_after(n):
                new = graph.call_function(detach, (n,))
            new.meta = dict(n.meta)
            n.replace_all_uses_with(new, delete_user_cb=lambda user, new=new: user is not new)


def lifted(graph: torch.fx.Graph) -> dict[torch.fx.Node, torch.Tensor]:
    """Tensors that a graph has as attributes become placeholders, after the others."""
    found: dict[torch.fx.Node, torch.Tensor] = {}
    module = graph.owning_module
    last = next((n for n in reversed(list(graph.nodes)) if n.op == "placeholder"), None)
    for n in list(graph.nodes):
        value = getattr(module, n.target, None) if n.op == "get_attr" else None
        if not isinstance(value, torch.Tensor):
            continue
        with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
            last = new = graph.placeholder(str(n.target).lstrip("_"))
        new.meta = {**n.meta, "val": n.meta.get("val", value)}
        n.replace_all_uses_with(new)
        graph.erase_node(n)
        found[new] = value
    return found


class _Watch(TorchFunctionMode):
    """What export does not keep of a traced function.

    Parameters and tensors with a gradient that it uses: export has detached aliases of those that it captures, which get no gradient and
    stay behind when a module moves to another device.  And the line that calls each op: export records frames called ``forward`` only,
    which for an op in a helper is the line that calls the helper, and nothing for a graph.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, torch.Tensor] = {}

    def __torch_function__(self, f: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.compiler.is_dynamo_compiling():  # a branch or a loop that torch takes as one operator: what is in it is its own
            return f(*args, **(kwargs or {}))
        for t in pytree.tree_leaves((args, kwargs)):
            own = type(t) in (torch.Tensor, torch.nn.Parameter) and not functorch.is_functorch_wrapped_tensor(t)
            if own and (t.requires_grad or isinstance(t, torch.nn.Parameter)):
                self._seen[id(t)] = t
        read = f.__self__ if isinstance(f, types.MethodWrapperType) else None  # an attribute
        where = None if read else place_of_call(capture.__code__)
        detached = f is torch.Tensor.detach or read is torch.Tensor.data or not torch.is_grad_enabled()
        said = ({PLACE: where} if where else {}) | ({DETACHED: True} if detached else {})
        with torch.fx.traceback.annotate(said) if said else nullcontext():
            return f(*args, **(kwargs or {}))

    def among(self, constants: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensors seen that have the memory of a constant, by its name."""

        def memory(t: torch.Tensor) -> tuple[Any, ...]:
            return t.untyped_storage()._cdata, t.storage_offset(), t.shape, t.stride()

        at = {memory(t): t for t in self._seen.values() if t.layout == torch.strided}
        plain = {k: t for k, t in constants.items() if isinstance(t, torch.Tensor) and not functorch.is_functorch_wrapped_tensor(t)}
        tensors = {k: t for k, t in plain.items() if t.layout == torch.strided}
        return {k: at[memory(t)] for k, t in tensors.items() if memory(t) in at}


def capture_exported(exported: Any) -> Captured:
    """The graph of an ExportedProgram; ``leaves`` have the sizes that it was exported with, also where these are symbols."""
    nodes = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    names = unique([identifier(n) if isinstance(n, str) else f"arg{i}" for i, n in enumerate(exported.graph_signature.user_inputs)])
    leaves: list[Any] = []
    for n in exported.graph_signature.user_inputs:
        value = nodes[n].meta["val"] if n in nodes else n
        sized = isinstance(value, torch.Tensor) and any(isinstance(s, torch.SymInt) for s in value.shape)
        leaves.append(TensorSpec(tuple(map(size_traced, value.shape)), value.dtype) if sized else spec_of(value) or value)
    symbolic = any(isinstance(s, torch.SymInt) for n in nodes.values() for s in getattr(n.meta["val"], "shape", ()))
    return _decomposed(exported, names, exported.call_spec.in_spec, leaves, of_graph=True, symbolic=symbolic)


def size_traced(size: int | torch.SymInt) -> Any:
    """The size that a program was traced with; ``None`` for one that comes from data."""
    return size if isinstance(size, int) else size.node.hint


_KIND = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant", "USER_INPUT": "argument"}


def _sources(exported: Any, names: Sequence[str]) -> list[Source]:
    """What the placeholders of an exported graph stand for, in order."""
    sources: list[Source] = []
    position = 0
    for s in exported.graph_signature.input_specs:
        kind = _KIND.get(s.kind.name)
        if kind is None:
            raise TraceError(f"the program takes a {s.kind.name.lower()}, which is not supported")
        if kind == "argument":
            sources.append(Source(kind, position, names[position]))
            position += 1
        else:
            sources.append(Source(kind, s.target, identifier(s.target)))
    return named(sources)


def _decomposed(
    exported: Any, names: Sequence[str], in_spec: Any, leaves: Sequence[Any], *, of_graph: bool = False, symbolic: bool = False
) -> Captured:
    placeholders = [n for n in exported.graph.nodes if n.op == "placeholder"]
    sources = _sources(exported, names)
    values = [n.meta["val"] for n in placeholders]
    if of_graph:
        for n in exported.graph.nodes:
            n.meta["custom"] = {**(n.meta.get("custom") or {}), PLACE: place(n) or node_name(n)}
    _check_transforms(exported.graph)
    graph, nodes, refused = decomposed(exported.graph_module, values)
    refused = refused or (None if symbolic else _dynamic(graph))
    by_node = {n: sources[i] for i, n in nodes.items()}
    for _, s in written(graph, by_node):
        refused = refused or TraceError(
            f"the function writes to its {s.kind} {s.name!r}",
            where=_place_of_write(exported.graph, placeholders[sources.index(s)]),
            cure="return the new value instead" if s.kind == "argument" else "call .eval() on the module",
        )
    (outputs,) = next(n for n in graph.nodes if n.op == "output").args
    outputs = tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,)
    given = iter(outputs)
    kept = [next(given) if s.kind.name == "USER_OUTPUT" else next(given) and None for s in exported.graph_signature.output_specs]
    out_spec = exported.call_spec.out_spec
    taken = result_names(out_spec, len(kept), sources)
    return Captured(graph, by_node, tuple(kept), out_spec, taken, in_spec, tuple(leaves), exported, refused=refused)


def decomposed(
    module: torch.fx.GraphModule, values: Sequence[Any], finish: Callable[[Any], Any] = lambda results: results
) -> tuple[torch.fx.Graph, dict[int, torch.fx.Node], EqFuseError | None]:
    """A graph of ATen ops as one of core ATen ops that write to placeholders alone, at its end.  ``values``: of its placeholders, fake
    tensors or what they always are; ``finish``: what is done with its results.  Also: the placeholder of each tensor among them, by
    position, and what a definition refused."""
    from torch.fx.experimental.proxy_tensor import make_fx

    varying = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool)]
    for n in module.graph.nodes:  # what one op of the user gives, for telling casts that the user wrote from a decomposition's
        value = n.meta.get("val")
        value = next((v for v in value if isinstance(v, torch.Tensor)), None) if isinstance(value, list | tuple) else value
        if n.op == "call_function" and isinstance(value, torch.Tensor):
            n.meta["custom"] = {**(n.meta.get("custom") or {}), RESULT: None if _is_cast(n) else value.dtype}
    refused: list[EqFuseError] = []

    def run(*given: Any) -> Any:
        full = list(values)
        for i, x in zip(varying, given, strict=True):
            full[i] = x
        return finish(_Lowering(module, refused).run(*full))

    with told_as_errors():
        fakes = [values[i].detach() if isinstance(values[i], torch.Tensor) else values[i] for i in varying]
    mode = torch._guards.detect_fake_mode(fakes) or torch._subclasses.FakeTensorMode()
    with told_as_errors(), torch.no_grad(), torch.fx.traceback.preserve_node_meta(), mode:  # tensors made inside are fake too
        made = make_fx(torch.func.functionalize(run, remove="mutations"), decomposition_table=decompositions())(*fakes)
        if _mutates(made.graph):  # a decomposition that itself writes in place
            again = torch.fx.Interpreter(made).run
            made = make_fx(torch.func.functionalize(again, remove="mutations"), decomposition_table=decompositions())(*fakes)
    nodes = (n for n in made.graph.nodes if n.op == "placeholder")
    return made.graph, dict(zip(varying, nodes, strict=True)), next(iter(refused), None)


def written(graph: torch.fx.Graph, sources: Mapping[torch.fx.Node, Source]) -> list[tuple[torch.fx.Node, Source]]:
    """The nodes that write to placeholders."""
    copies = (n for n in graph.nodes if n.op == "call_function" and str(n.target) == "aten.copy_.default")
    return [(n, sources[n.args[0]]) for n in copies if n.args[0] in sources]


def _place_of_write(graph: torch.fx.Graph, written: torch.fx.Node) -> str | None:
    """The line that writes to a placeholder or a view of it."""
    for n in graph.nodes:
        schema = getattr(n.target, "_schema", None)
        if n.op != "call_function" or schema is None or not schema.is_mutable:
            continue
        x = n
        while isinstance(x, torch.fx.Node) and x.op == "call_function" and x.args:  # what shares memory does so with its first argument
            x = x.args[0]
            if x is written:
                return place_of_node(n)
            schema = getattr(getattr(x, "target", None), "_schema", None)
            if schema is None or not any(r.alias_info for r in schema.returns):
                break
    return None


def _is_cast(n: torch.fx.Node) -> bool:
    return str(n.target).startswith(("aten.to.", "aten._to_copy", "aten.type_as"))


def depends_on_data(n: torch.fx.Node) -> bool:
    """Whether a node gives a number, or a shape, that comes from data."""
    value = n.meta.get("val")
    shape = value.shape if isinstance(value, torch.Tensor) else ()
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) or any(isinstance(s, torch.SymInt) for s in shape)


def _dynamic(graph: torch.fx.Graph) -> TraceError | None:
    """No number or shape may come from data."""
    first = next(filter(depends_on_data, graph.nodes), None)
    return None if first is None else of_data(first)


def of_data(n: torch.fx.Node) -> TraceError:
    """The error for a node that gives a number or a shape that comes from data."""
    return TraceError(_DATA, where=place_of_node(n), cure=_NO_BRANCH)


def _check_transforms(graph: torch.fx.Graph) -> None:
    """Of the transforms of ``torch.func``, export follows ``vmap``; of a derivative it keeps parts as constants, of no use."""
    for n in graph.nodes:
        name = _transform(n.target) if n.op == "call_function" else None
        if name is not None and name not in _VMAP:
            raise TraceError(
                f"a derivative is taken inside the function (torch.func calls {name})",
                where=place_of_node(n),
                cure="optimise the function itself and differentiate what optimize returns, or write the derivative out",
            )


def _mutates(graph: torch.fx.Graph) -> bool:
    """Whether some op writes to a value that is not a placeholder."""
    return any(
        n.op == "call_function" and getattr(n.target, "_schema", None) is not None and n.target._schema.is_mutable
        for n in graph.nodes
        if not (str(n.target) == "aten.copy_.default" and n.args[0].op == "placeholder")
    )


# errors -------------------------------------------------------------------------------------------------------------------------------
_SHAPES = re.compile(
    r"must match the|cannot be multiplied|is invalid for input|[Ee]xpected size|broadcast|size mismatch|not equal|same size|"
    r"expanded size|inconsistent tensor size|must match except|shapes cannot|split_with_sizes|out of range|should be the same|"
    r"must have same|must equal|zero-size dimension",
)
_DATA = "a Python value, branch or shape depends on the data of a tensor"
_NO_BRANCH = "choose with torch.where instead of if or a boolean index, and keep values as tensors (no .item())"
_MUST_RETURN = "the function is run once, on tensors without data: call it on tensors of these shapes yourself, and correct what raises"
_DEVICES = re.compile(r"same device|device propagation|found two different devices|on different devices", re.IGNORECASE)
_RAGGED = re.compile(r"\bj(\d+)\b.*\bj(?!\1\b)\d+\b")  # torch's names for the lengths of rows of two nested tensors
_SAME_ROWS = "rows are the same where offsets are one tensor: torch.nested.nested_tensor_from_jagged(y.values(), x.offsets())"
_NESTED = re.compile(r"cast NotImplemented to Tensor|nested_tensor_from_jagged does not support tracing")
_NO_NESTED = "the function captures a nested tensor, or makes one of dense arguments"
_BRANCH = re.compile(r"data-dependent|DataDependent|Could not guard|_local_scalar_dense|\.item\(\)|Eq\(u\d", re.IGNORECASE)


_LOGGERS = (
    "torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export._trace", "torch._export.non_strict_utils",
)  # fmt: skip


class told_as_errors:  # noqa: N801 - reads as a statement
    """Turns what tracing raises into the errors of :mod:`eqfuse.errors`, and silences torch, which would say the same again.

    torch warns, logs, and prints the graph so far: all three are restored on the way out.  With ``TORCH_LOGS`` set nothing is silenced
    but warnings.
    """

    def __init__(self) -> None:
        self._warnings = warnings.catch_warnings()
        self._loggers = [logging.getLogger(n) for n in (() if os.environ.get("TORCH_LOGS") else _LOGGERS)]
        self._disabled = [g.disabled for g in self._loggers]
        tracer = vars(loaded) if (loaded := sys.modules.get("torch.export._trace")) else {}
        self._printing = tracer if self._loggers and "print" not in tracer else {}

    def __enter__(self) -> None:
        self._warnings.__enter__()
        warnings.simplefilter("ignore")
        for logger in self._loggers:
            logger.disabled = True
        self._printing["print"] = lambda *_, **__: None  # for that module only: what the user's function prints is seen

    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> None:
        self._printing.pop("print", None)
        for logger, before in zip(self._loggers, self._disabled, strict=True):
            logger.disabled = before
        self._warnings.__exit__(kind, error, tb)
        if isinstance(error, SystemExit):
            raise TraceError(
                f"the function ends the process: sys.exit({error.code!r})", where=place_of_error(error), cure=_MUST_RETURN
            ) from error
        if error is None or not isinstance(error, Exception):
            return
        if isinstance(error, EqFuseError):  # torch appends its own text on the way up
            raise type(error)(error.message, where=error.where, cure=error.cure) from None
        where = place_of_error(error)
        text = f"{type(error).__name__}: {error}"
        first = str(error).strip().split("\n")[0]
        if _BRANCH.search(text):
            raise TraceError(_DATA, where=where, cure=_NO_BRANCH) from error
        if _DEVICES.search(text):
            raise DeviceError(first, where=where, cure="move all tensors to one device with .to(device)") from error
        if isinstance(error, RuntimeError) and _NESTED.search(first):
            raise TraceError(_NO_NESTED, where=where, cure="pass it as an argument") from error
        if isinstance(error, RuntimeError) and _RAGGED.search(first):
            raise ShapeError(first, where=where, cure=_SAME_ROWS) from error
        if isinstance(error, RuntimeError | IndexError | ValueError) and _SHAPES.search(text):
            raise ShapeError(first, where=where, cure="check the shapes of the arguments at this line") from error
        raise TraceError(f"the function could not be traced: {type(error).__name__}: {first}", where=where, cure=_MUST_RETURN) from error
