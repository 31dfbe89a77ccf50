"""A program recorded while it runs once on tensors without data, operator by operator.

    softmax(x @ w, -1)  ->  mm, amax, sub, exp, sum, div

A dispatch mode below autograd sees every operator that a function calls, composite ones whole, with the shapes, types and strides of its
results.  Definitions and decompositions run under the same mode, so that one pass gives the graph that ``torch.export`` and ``make_fx``
give, at a tenth of their time and without importing them.  It writes down programs whose graph says all that they do; anything else raises
(:class:`NotRecorded`, or what torch raises on tensors without data), and :mod:`.capture` asks export.

All tensors are on one device.  What stands for them is on torch's meta device, whose operators compute shapes alone; who asks, and the
graph, are told the one that they would be on.
"""

from __future__ import annotations

import inspect
import linecache
import operator
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MethodWrapperType
from typing import Any

import torch
from torch._C import _functorch as functorch
from torch.fx import Graph, Node
from torch.fx import traceback as graph_trace
from torch.nested._internal.nested_tensor import NestedTensor
from torch.nn.utils import stateless
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .aten import RESULT
from .calls import Call, Captured, Held, Source, identifier, named, result_names
from .places import PLACE, SKIPPED, place_of_frame
from .surroundings import NotRecorded, exporting, unchanged, without_compilers, without_dynamo

Definitions = Mapping[Any, Callable[..., Any]]
META = torch.device("meta")
aten = torch.ops.aten
_CASTS = ("aten.to.", "aten._to_copy", "aten.type_as")
_OF_DATA = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
_READ_DATA = {"numpy", "__array__", "__dlpack__", "tolist", "data_ptr", "storage", "untyped_storage"}
_OF_DEVICE = {aten.convolution.default, aten.convolution_backward.default}  # whose library decides about strides like those of images
_has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key


def record(call: Call, definitions: Definitions, decompositions: Definitions) -> Captured:
    """The graph of a call.  ``definitions`` are for operators that the user calls, ``decompositions`` for all; raises where export is to be
    asked."""
    module, calls = call.module, _Calls(call.device)
    recorder = _Recorder(call.device, calls, module, definitions, decompositions)
    held = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    twins = {id(t): _without_data(t) for t in held.values()}
    here = {name: twins[id(t)] for name, t in held.items()}
    inputs = {name: recorder.placeholder(t) for name, t in here.items()}
    flat = call.arguments(META)
    given = recorder.begin(flat)
    args, kwargs = pytree.tree_unflatten(flat, call.in_spec)
    with ExitStack() as around:
        for context in (
            exporting(), without_compilers(), without_dynamo(), unchanged(module),
            stateless._reparametrize_module(module, here, tie_weights=True, strict=True, stack_weights=True),
            torch._C._AutoDispatchBelowAutograd(), graph_trace.preserve_node_meta(), calls, recorder,
        ):  # fmt: skip
            around.enter_context(context)
        if isinstance(module, torch.fx.GraphModule):  # node by node, as export does: errors name the node
            result = torch.fx.Interpreter(module).run(*inspect.signature(module.forward).bind(*args, **kwargs).arguments.values())
        else:
            result = module(*args, **kwargs)
    results, out_spec = pytree.tree_flatten(result)
    outputs = tuple(recorder.node(x) for x in results)
    if not all(isinstance(x, Node | bool | int | float | str | None) for x in outputs):
        raise NotRecorded("a result is neither a tensor nor a plain value")
    graph = recorder.finish(outputs)
    own = dict(module.named_parameters(remove_duplicate=False))
    listed: list[tuple[Node | None, str, int | str, str]] = [
        *((n, "parameter" if k in own else "buffer", k, identifier(k)) for k, n in inputs.items()),
        *((n, "constant", k, identifier(k)) for k, (_, n) in recorder.constants.items()),
        *((n, "argument", k, call.names[k]) for k, n in enumerate(given)),
    ]
    all_sources = named([Source(kind, key, name) for _, kind, key, name in listed])
    sources = {n: s for (n, *_), s in zip(listed, all_sources, strict=True) if n is not None}
    for k, n in enumerate(sources):
        n.name = n.target = f"arg{k}_1"
    learned = {k: t for k, (t, _) in recorder.constants.items() if t.requires_grad or isinstance(t, torch.nn.Parameter)}
    holds = Held(held, {k: t.detach() if k in learned else t for k, (t, _) in recorder.constants.items()})
    names = result_names(out_spec, len(outputs), all_sources)
    return Captured(graph, sources, outputs, out_spec, names, call.in_spec, call.leaves, holds, learned)


def _without_data(t: torch.Tensor) -> torch.Tensor:
    """What stands for a tensor: for a parameter, a parameter."""
    found = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=META)
    return torch.nn.Parameter(found, t.requires_grad) if isinstance(t, torch.nn.Parameter) else found.requires_grad_(t.requires_grad)


class _Calls(TorchFunctionMode):
    """The functions of torch that the user calls, the last of which is ``name``; ``label`` tells calls of one function apart."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        kinds = {getattr(torch.Tensor, f"is_{k}"): device.type == k for k in ("cpu", "cuda", "xpu", "meta")}
        self._of_device = {torch.Tensor.device: device, **kinds}
        self._counts: dict[Any, int] = {}
        self.name = ""
        self.label: tuple[str, str] | None = None

    def __torch_function__(self, f: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(f, "__name__", type(f).__name__)
        transform = functorch.peek_interpreter_stack()
        if transform is not None and transform.key() != functorch.TransformType.Vmap:
            raise NotRecorded("a derivative of torch.func")
        if name in _READ_DATA or torch._C._is_any_autocast_enabled():
            raise NotRecorded(f"{name} reads data, or casts as the device wants")
        if isinstance(f, MethodWrapperType) and f.__self__ in self._of_device and args[0].is_meta:
            return self._of_device[f.__self__]
        count = self._counts[f] = self._counts.get(f, 0) + 1
        self.name, self.label = name, (f"{name}_{count}", f"{type(f).__name__}.{name}")
        return f(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    """Writes down the operators that are called.  ``constants``: by name, tensors of the function and their placeholders."""

    def __init__(
        self, device: torch.device, calls: _Calls, module: torch.nn.Module, definitions: Definitions, decompositions: Definitions
    ) -> None:
        super().__init__()
        self.constants: dict[str, tuple[torch.Tensor, Node]] = {}
        self._graph = Graph()
        self._device, self._calls, self._definitions, self._decompositions = device, calls, definitions, decompositions
        self._backend = torch._C._dispatch_key_for_device(device.type)
        owners = [(n, k, t) for n, m in module.named_modules() for k, t in vars(m).items() if isinstance(t, torch.Tensor)]
        self._attributes = {id(t): f"{n}.{k}".lstrip(".") for n, k, t in owners}
        self._nodes: dict[int, Node] = {}  # by the ids of tensors,
        self._alive: list[torch.Tensor] = []  # which are these
        self._twins: dict[int, torch.Tensor] = {}  # by the ids of tensors that have data or want a gradient: what stands for them
        self._shared: dict[int, int] = {}  # how many tensors have a memory
        self._made: list[Node] = []  # by the operator of the user that is at work; none is where nothing is
        self._inside = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else torch imports dynamo to hide this class from it."""
        return False

    # tensors and nodes ------------------------------------------------------------------------------------------------------------------
    def placeholder(self, t: torch.Tensor) -> Node:
        """An input of the program; its name is given in the end."""
        node = self._graph.placeholder("input")
        twin = self._twins[id(t)] = node.meta["val"] = t.detach() if t.requires_grad else t
        for x in (t, twin):
            self._keep(x, node)
        self._shared[twin.untyped_storage()._cdata] = 1
        return node

    def begin(self, arguments: list[Any]) -> list[Node | None]:
        """The placeholders of the flat arguments, which stand behind those of constants."""
        self._border = self._graph.placeholder("border")
        return [self.placeholder(t) if isinstance(t, torch.Tensor) else None for t in arguments]

    def finish(self, outputs: tuple[Any, ...]) -> Graph:
        """The graph."""
        self._graph.erase_node(self._border)
        self._graph.output(tuple(x if isinstance(x, Node) else None for x in outputs))
        return self._graph

    def node(self, x: Any) -> Any:
        """The node of a tensor; other values are what they are."""
        if isinstance(x, torch.Tensor):
            if id(x) not in self._nodes:
                raise NotRecorded("a tensor that no operator made")
            return self._nodes[id(x)]
        return self._device if isinstance(x, torch.device) and x == META else x

    def _keep(self, t: torch.Tensor, node: Node) -> None:
        self._nodes[id(t)] = node
        self._alive.append(t)
        memory = t.untyped_storage()._cdata
        self._shared[memory] = self._shared.get(memory, 0) + 1

    def _twin(self, x: Any) -> Any:
        """What an operator gets for an argument of the user: tensors have no data and want no gradient."""
        if isinstance(x, torch.Tensor):
            found = self._twins.get(id(x))
            return found if found is not None else x if id(x) in self._nodes else self._constant(x)
        if isinstance(x, torch.device) and x != META:  # which functions of torch read themselves
            self._check_device(x)
            return META
        return x

    def _check_device(self, device: torch.device) -> None:
        if (device.type, device.index or 0) != (self._device.type, self._device.index or 0):
            raise NotRecorded(f"tensors on {device} and {self._device}")

    def _constant(self, t: torch.Tensor) -> torch.Tensor:
        """What stands for a tensor that the function holds or has made of numbers."""
        if type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided or t.is_quantized or t.is_nested:
            raise NotRecorded(f"a {type(t).__name__}")
        self._check_device(t.device)
        name = self._attributes.get(id(t)) or f"lifted_tensor_{sum(n.startswith('lifted_tensor_') for n in self.constants)}"
        twin = self._twins[id(t)] = _without_data(t).detach()
        with self._graph.inserting_before(self._border):
            node = self._graph.placeholder("constant")
        node.meta["val"] = twin
        self.constants[name] = (t, node)
        self._alive.append(t)
        self._keep(twin, node)
        return twin

    # operators --------------------------------------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, op: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if NestedTensor in kinds:  # which calls operators on its parts
            return NotImplemented
        if self._inside:
            return self._run(op, args, kwargs)
        with torch._C.DisableTorchFunction():
            return op(*args, **kwargs) if op.namespace == "prim" else self._called(op, args, kwargs)

    def _called(self, op: Any, args: Any, kwargs: Any) -> Any:
        """An operator that the user calls."""
        if op is aten.detach.default and self._calls.name == "__get__":
            raise NotRecorded("x.data")
        self._made, self._inside = [], True
        try:
            args, kwargs = pytree.tree_map(self._twin, (args, kwargs))
            definition = self._definitions.get(op)
            found = self._run(op, args, kwargs) if definition is None else self._by(definition, args, kwargs)
        finally:
            self._inside = False
        first = next((v for v in found if isinstance(v, torch.Tensor)), None) if isinstance(found, list | tuple) else found
        self._mark(first.dtype if isinstance(first, torch.Tensor) and not str(op).startswith(_CASTS) else None)
        return found

    def _by(self, f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        with self:
            return f(*args, **kwargs)

    def _run(self, op: Any, args: Any, kwargs: Any) -> Any:
        if op is aten.lift_fresh.default:  # of a tensor that torch has made of numbers, or has just computed
            return self._run(aten.clone.default, args, {}) if self.node(args[0]).op == "placeholder" else args[0]
        if op is aten.detach_.default:  # of the former
            self._nodes[id(args[0])] = self.node(self._run(aten.alias.default, args, {}))
            return args[0]
        if op is aten.detach.default and self._calls.name != "detach":  # torch wraps a result: nobody has the inner tensor
            found = op(*args)
            self._nodes[id(found)] = self.node(args[0])
            self._alive.append(found)
            return found
        if op._schema.is_mutable:
            return self._write(op, args, kwargs)
        if _has_kernel(op.name(), "CompositeImplicitAutograd") and not _has_kernel(op.name(), self._backend):
            return self._by(lambda *a, **k: op._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *a, **k), args, kwargs)
        if op in self._decompositions:
            found = self._by(self._decompositions[op], args, kwargs)
            if found is not NotImplemented:
                return found
        if _OF_DATA & {*op.tags} and op is not aten.index.Tensor:  # which raises for a mask
            raise NotRecorded(f"{op} gives a shape or number that depends on data")
        if op in _OF_DEVICE and not all(x.is_contiguous() for x in args if isinstance(x, torch.Tensor)):
            raise NotRecorded(f"{op} gives strides that depend on the device")
        given = torch.fx.node.map_aggregate((args, kwargs), self.node)
        node = self._graph.create_node("call_function", op, *given, name=self._graph._target_to_str(op.overloadpacket.__name__))
        found = op(*args, **kwargs)
        self._give(node, found)
        return found

    def _give(self, node: Node, found: Any) -> None:
        node.meta["val"] = found
        self._made.append(node)
        if isinstance(found, torch.Tensor):
            self._keep(found, node)
        elif isinstance(found, list | tuple):
            for k, x in enumerate(found):
                self._give(self._graph.call_function(operator.getitem, (node, k)), x)
        elif found is not None:
            raise NotRecorded(f"{node.target} gives a number")

    def _write(self, op: Any, args: Any, kwargs: Any) -> Any:
        """``x.add_(y)`` as ``x = x + y``, where no other tensor has the memory of ``x``, nor an input."""
        x, name = args[0], op.overloadpacket.__name__
        functional = getattr(getattr(aten, name[:-1], None), op._overloadname, None) if op.namespace == "aten" and name[-1] == "_" else None
        written = [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if functional is None or written != ["self"] or self.node(x).op == "placeholder" or self._shared[x.untyped_storage()._cdata] > 1:
            raise NotRecorded(f"{op} writes to memory that others see")
        found = self._by(functional, args, kwargs)
        if (found.shape, found.dtype, found.stride()) != (x.shape, x.dtype, x.stride()):
            raise NotRecorded(f"{op} gives another kind of tensor than it writes to")
        self._nodes[id(x)] = self.node(found)
        return x

    def _mark(self, result: torch.dtype | None) -> None:
        """Say of the nodes of one operator of the user what type it gives, and where it is called."""
        where, lines = _lines()
        given = graph_trace.get_current_meta()  # of the node of the user's graph
        custom = (given.get("custom") or {}) | ({PLACE: where} if where else {}) | {RESULT: result}
        called = {
            "torch_fn": given.get("torch_fn") or self._calls.label,
            "stack_trace": given.get("stack_trace") or lines,
            "custom": custom,
        }
        for node in self._made:
            node.meta |= called


def _lines() -> tuple[str | None, str]:
    """The innermost line of the user that is being recorded; and, in torch's notation, those in functions called ``forward``."""
    where, found, frame = None, list[str](), sys._getframe(1)
    while frame is not None and frame.f_code is not record.__code__:
        file, line = frame.f_code.co_filename, frame.f_lineno
        where = where or place_of_frame(frame, line)
        if frame.f_code.co_name == "forward" and not file.startswith(SKIPPED):
            found.append(f'  File "{file}", line {line}, in forward\n    {linecache.getline(file, line).strip()}\n')
        frame = frame.f_back  # type: ignore[assignment]
    return where, "".join(reversed(found)).strip()
