"""What Inductor, torch's own compiler, makes of the graphs that the backend was given: a yardstick beside eager code.

Its passes, its lowering and its scheduler run as for a GPU, up to where it would print kernels: so it needs none, nothing is compiled and
nothing runs.  What is counted is Inductor's own count (``GraphLowering.count_bytes``): of every fused kernel and of every call of a library
each buffer that it reads or writes, once, as far as it is read or written.  No kernel moves fewer bytes, so this favours Inductor: a
norm of long rows, for one, is counted as if it read them once.  Attention is the library's that the graph was made with, on a CPU its own.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

from ..extract.targets import Target

GPU = torch.device("cuda", 0)
# Without what it finds out by running kernels.
_WITHOUT_RUNNING = {
    "max_autotune": False, "max_autotune_gemm": False, "max_autotune_pointwise": False, "coordinate_descent_tuning": False,
    "benchmark_fusion": False, "fx_graph_cache": False,
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A fused kernel (``operator`` is empty) or a call of a library, with the bytes and the operations of products of matrices."""

    operator: str
    bytes: int
    flops: float
    operand: str  # the type of what products multiply

    def us(self, target: Target) -> float:
        """Modelled microseconds, as those of eager code are."""
        return max(self.bytes / (target.dram_gb_s * 1e3), self.flops / (target.tensor_rate(self.operand) * 1e6)) + target.launch_us


@dataclass(frozen=True)
class InductorGraph:
    """A forward, backward or inference graph as Inductor schedules it."""

    calls: tuple[Call, ...]

    @property
    def kernels(self) -> int:
        """Fused kernels that it would print."""
        return sum(not c.operator for c in self.calls)

    @property
    def library(self) -> Counter[str]:
        """The operators that it leaves to libraries."""
        return Counter(c.operator for c in self.calls if c.operator)

    @property
    def bytes(self) -> int:
        """All that kernels and libraries read and write."""
        return sum(c.bytes for c in self.calls)

    def data(self, target: Target) -> dict[str, Any]:
        """As JSON values."""
        us = sum(c.us(target) for c in self.calls)
        return {"kernels": self.kernels, "library": dict(self.library), "bytes": self.bytes, "us": us}


class Written:
    """A graph as Dynamo gave it, with what its arguments are, but without data."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], trained: bool) -> None:
        self._module, self._trained = GraphModule(module, _copied(module.graph)), trained
        self._inputs = [_Like(x) if isinstance(x, torch.Tensor) else x for x in inputs]

    @cached_property
    def by_inductor(self) -> Mapping[str, InductorGraph] | str:
        """What Inductor makes of it, by kind ("inference", or "forward" and "backward"); or why that is not known."""
        sizes = [n for x in self._inputs if isinstance(x, _Like) for n in (*x.shape, *x.stride)]
        if not all(isinstance(n, int) for n in (*sizes, *(x for x in self._inputs if not isinstance(x, _Like)))):
            return "sizes are symbols"
        try:
            return self._count()
        except Exception as error:  # torch's own; a report is given without it
            return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"

    def _count(self) -> dict[str, InductorGraph]:
        from torch._functorch import config
        from torch._inductor.compile_fx import compile_fx

        found: dict[str, InductorGraph] = {}

        def counting(module: GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
            inference, backward = (bool(options.get(f"is_{kind}")) for kind in ("inference", "backward"))
            found["inference" if inference else "backward" if backward else "forward"] = scheduled(module, inputs, inference, backward)
            return module

        mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
        with mode:
            inputs = [x.empty() if isinstance(x, _Like) else x for x in self._inputs]
        with tracing(TracingContext(mode)), torch.set_grad_enabled(self._trained), config.patch(force_non_lazy_backward_lowering=True):
            compile_fx(self._module, inputs, inner_compile=counting, config_patches=_WITHOUT_RUNNING)
        return found


class _Like:
    """A tensor without data."""

    def __init__(self, x: torch.Tensor) -> None:
        self.shape, self.stride, self.dtype, self.device, self.wants = x.shape, x.stride(), x.dtype, x.device, x.requires_grad

    def empty(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device, requires_grad=self.wants)


# scheduling -------------------------------------------------------------------------------------------------------------------------
def scheduled(module: GraphModule, inputs: Sequence[Any], inference: bool, backward: bool) -> InductorGraph:
    """A graph of AOTAutograd by Inductor's passes behind it, lowering and scheduler, on a GPU that need not be there."""
    from torch._inductor import compile_fx
    from torch._inductor.debug import DebugContext
    from torch._inductor.fx_passes.post_grad import view_to_reshape
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    module = GraphModule(module, _copied(module.graph))
    with torch.no_grad(), patch("torch._inductor.fx_passes.post_grad.is_gpu", lambda kind: True):
        compile_fx.record_original_output_strides(module)
        with V.set_fake_mode(detect_fake_mode(inputs)):  # on the device that the graph is of: torch computes on no GPU that it lacks
            view_to_reshape(module)
            compile_fx.fake_tensor_prop(module, inputs)
            compile_fx._recursive_post_grad_passes(module, is_inference=inference)
    mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    with contextlib.ExitStack() as stack:
        for context in (torch.no_grad(), _a_gpu(), tracing(TracingContext(mode)), V.set_fake_mode(mode), DebugContext()):
            stack.enter_context(context)
        with mode:
            module, given = _on_gpu(module, inputs)
        graph = GraphLowering(module, example_inputs=given, shape_env=mode.shape_env, is_inference=inference, is_backward=backward)
        stack.enter_context(V.set_graph_handler(graph))
        stack.enter_context(V.set_extern_kernel_nodes([]))
        graph.run(*given)
        graph.init_wrapper_code()
        graph._update_scheduler()
        return InductorGraph(tuple(c for n in graph.scheduler.nodes if (c := _call(n)) is not None))


def _on_gpu(module: GraphModule, inputs: Sequence[Any]) -> tuple[GraphModule, list[Any]]:
    """A copy whose values are on the GPU, and its arguments: first its constants, then those that it has."""

    def moved(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return GPU if isinstance(x, torch.device) else x
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=GPU)

    graph = Graph()
    first: dict[Node, Node] = {}
    constants = []
    for n in module.graph.nodes:
        if n.op == "get_attr" and isinstance(value := getattr(module, str(n.target), None), torch.Tensor):
            first[n] = graph.placeholder(n.name)
            first[n].meta = {**n.meta, "val": value}
            constants.append(moved(value))
    for n in _copied(module.graph, graph, first).nodes:
        n.args, n.kwargs = torch.fx.node.map_aggregate((n.args, dict(n.kwargs)), moved)
        n.meta = {**n.meta, "val": tree_map(moved, n.meta["val"])} if "val" in n.meta else n.meta
    return GraphModule(module, graph), [*constants, *map(moved, inputs)]


def _copied(graph: Graph, into: Graph | None = None, known: dict[Node, Node] | None = None) -> Graph:
    """A copy of a graph behind what stands for ``known`` nodes of it; metadata of its output is there, too."""
    into = Graph() if into is None else into
    into.output(into.graph_copy(graph, {} if known is None else known))
    for n in into.nodes:
        if n.op == "output":
            n.meta = dict(next(m for m in graph.nodes if m.op == "output").meta)
    return into


def _call(node: Any) -> Call | None:
    """What a node of the schedule is; ``None`` if nothing runs for it."""
    from torch._inductor import ir, scheduler

    extern = isinstance(node, scheduler.ExternKernelSchedulerNode)
    if isinstance(node, scheduler.NopKernelSchedulerNode) or (extern and isinstance(node.node, ir.MultiOutput)):
        return None
    origin = node.node.get_origin_node() if extern else None
    operator = ""
    if extern:
        operator = str(getattr(node.node, "op_overload", None) or (origin and origin.target) or type(node.node).__name__)
    values = [v for a in (origin.all_input_nodes if origin else ()) if isinstance(v := a.meta.get("val"), torch.Tensor)]
    kinds = [v.dtype for v in values if v.is_floating_point()]
    operand = str(kinds[0]).removeprefix("torch.") if kinds else "float32"
    return Call(operator, node.get_read_write_buffers_sizes(), float((node.estimate_flops() or 0) if extern else 0), operand)


@contextlib.contextmanager
def _a_gpu() -> Iterator[None]:
    """Inductor is told of one GPU, an H200: without it, it asks the driver how large kernels may be."""
    from torch._dynamo import device_interface
    from torch._inductor.runtime.hints import DeviceProperties

    props = SimpleNamespace(
        name="NVIDIA H200", multi_processor_count=132, major=9, minor=0, warp_size=32, regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048, max_threads_per_block=1024, shared_memory_per_block_optin=232448, L2_cache_size=50 << 20,
    )  # fmt: skip

    class One(device_interface.CudaInterface):
        class Worker(device_interface.CudaInterface.Worker):
            get_device_properties = staticmethod(lambda device=None: props)
            current_device = staticmethod(lambda: 0)

        get_device_properties = staticmethod(lambda device=None: props)
        get_compute_capability = staticmethod(lambda device=None: 90)
        current_device = staticmethod(lambda: 0)
        device_count = staticmethod(lambda: 1)
        is_available = staticmethod(lambda: True)

    device_interface.get_interface_for_device("cuda")  # they are registered at the first call
    DeviceProperties.create.cache_clear()
    try:
        with (
            patch.dict(device_interface.device_interfaces, {"cuda": One, "cuda:0": One}),
            patch("torch._inductor.scheduler.has_triton", lambda: True),
        ):
            yield
    finally:
        DeviceProperties.create.cache_clear()
