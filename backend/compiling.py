"""Graphs of AOTAutograd as steps.

Dynamo gives a graph of torch calls, AOTAutograd makes of it a forward and a backward graph of ATen ops, without writes, whose parameters
and saved values are arguments.  Each is read and planned here, and is from then on a function of a list of tensors.  A graph with sizes
that are symbols is traced once, and planned for the sizes of every call, once each.

Nothing here breaks a call: a graph that could not be read or planned, for reasons of ours, runs as AOTAutograd made it, with a warning.
What the user's own code raises meanwhile (:mod:`.blame`) is none of these reasons, and is not caught.
"""

from __future__ import annotations

import re
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._guards import tracing
from torch.utils._python_dispatch import _disable_current_modes

from ..extract.plan import StepPlan
from ..extract.quantities import bytes_text
from ..frontends.capture import attention_by_definition
from ..frontends.flexible_attention import flexible_attention, one_result
from ..frontends.graphs import at_values, capture_graph, capture_symbols, followed, without_data
from ..frontends.readable import Readable
from ..frontends.symbolic import Later
from ..frontends.weighted_derivative import differentiable_attention
from ..ranges import Range, Ranges
from ..steps.running import Steps
from . import kept
from .blame import of_the_user
from .inductor import Written
from .kernels import Kernels, of_steps
from .partitioning import WRITTEN_OUT, NotParted, partition
from .reporting import Graph, remember
from .settings import Settings, settings

MOST_SIZES = 64  # plans for other sizes that one graph keeps
_RANGES: deque[Range] = deque(maxlen=64)  # of pieces of all graphs: what two have in common is planned once


def compile_graph(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The backend: a graph of Dynamo as a function.  Raises :class:`~eqfuse.errors.OptionError` for options that are none."""
    found = settings(options, mode)
    trained = torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
    names = [_plain(n.name) for n in module.graph.nodes if n.op == "placeholder"]
    written = Written(module, inputs, trained)

    saving: list[str] = []  # how it was chosen what is saved, once it was

    def made() -> Callable[..., Any]:
        compiler = aot_autograd(
            fw_compiler=partial(_compiled, found, names, written, "forward", saving),
            bw_compiler=partial(_compiled, found, names, written, "backward", ()),
            inference_compiler=partial(_compiled, found, names, written, "inference", ()),
            partition_fn=partial(_parted, found, saving),
            decompositions=WRITTEN_OUT if trained and not saving else None,
        )
        result: Callable[..., Any] = compiler(module, inputs)
        return result

    library = _define_attention(module, trained)
    try:
        return made()
    except Exception as error:
        parting = isinstance(error, NotParted)
        if not parting and (not library or found.request.strict or of_the_user(error)):
            raise
        saving[:] = [f"torch's partitioner chose what is saved for the backward pass: {error}"] if parting else []
        for n, target in library.items():  # what a user's function of scores does may mean something else for all of them at once
            n.target = target
        module.recompile()
        return made()


def _parted(
    found: Settings, saving: list[str], module: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """The two graphs of a joint one: by our cut, and where that was tried and raised NotParted, by torch's."""
    from functorch.compile import min_cut_rematerialization_partition

    if saving:
        made: tuple[torch.fx.GraphModule, torch.fx.GraphModule] = min_cut_rematerialization_partition(
            module, inputs, num_fwd_outputs=num_fwd_outputs, **options
        )
        return made
    forward, backward, held = partition(module, num_fwd_outputs, found.request.target, found.request)
    saving.append(f"{bytes_text(held)} are saved for the backward pass beside arguments and results")
    return forward, backward


def _define_attention(module: torch.fx.GraphModule, trained: bool) -> dict[torch.fx.Node, Any]:
    """Attention by its definition, which becomes kernels; AOTAutograd would make one call of a library of it.  With dropout it stays one,
    and so does FlexAttention where it is differentiated.  Returns what the nodes were."""
    found: dict[torch.fx.Node, Any] = {}
    for n in module.graph.nodes:
        if n.op != "call_function":
            continue
        definition: Any = None
        if n.target is torch.nn.functional.scaled_dot_product_attention:
            dropout = n.kwargs.get("dropout_p", n.args[4] if len(n.args) > 4 else 0.0)
            if isinstance(dropout, float | int) and not dropout:
                definition = differentiable_attention if trained else attention_by_definition
        elif n.target is torch.ops.higher_order.flex_attention and not trained:
            options = n.args[6] if len(n.args) > 6 else {}
            definition = flexible_attention if not n.kwargs and one_result(options) else None
        if definition is not None:
            found[n] = n.target
            n.target = definition
    module.recompile()
    return found


def _plain(name: str) -> str:
    """What the user calls what Dynamo's placeholder stands for: ``c1_weight`` for ``l_self_modules_c1_parameters_weight_``."""
    name = re.sub(r"^[lL]_(self_)?|_$", "", name)
    return re.sub(r"(modules|parameters|buffers)_(?=.)", "", name) or "x"


def _names(module: torch.fx.GraphModule, names: Sequence[str]) -> list[str]:
    """What the placeholders of a graph of AOTAutograd are called: arguments as the user calls them, others by their node."""
    found = []
    for n in module.graph.nodes:
        if n.op == "placeholder":
            desc = n.meta.get("desc")
            at = getattr(desc, "idx", None) if type(desc).__name__ == "PlainAOTInput" else None
            found.append(n.name if at is None or at >= len(names) else names[at])
    return found


def _compiled(
    found: Settings, names: Sequence[str], written: Written, kind: str, notes: Sequence[str], module: torch.fx.GraphModule,
    inputs: Sequence[Any],
) -> Callable[[list[Any]], Any]:  # fmt: skip
    """One graph of AOTAutograd."""
    runner = _Runner(found, remember(kind, written, notes), module, _names(module, names))
    if runner.static and not runner.asks_data:
        with _disable_current_modes(), tracing(None):
            runner.prepare(runner.examples)
    return runner.call


ASKING = frozenset(  # what a plan's price may hang on the numbers of: comparisons, and lookups at them
    [
        *(getattr(getattr(torch.ops.aten, op), kind) for op in ("lt", "le", "gt", "ge", "eq", "ne") for kind in ("Tensor", "Scalar")),
        torch.ops.aten.index.Tensor, torch.ops.aten.index_select.default,
    ]
)  # fmt: skip


def _known(value: Any) -> bool:
    """Whether a placeholder is a tensor whose sizes are numbers, or something that is no number."""
    if isinstance(value, torch.Tensor):
        return not any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
    return not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


class _Runner:
    """A graph, and its kernels for the sizes that it was called with: those that an earlier process kept, or planned here.  A ``static``
    graph has one set of sizes, that of its ``examples``, and is called with no others: Dynamo and AOTAutograd see to it.  One that compares
    integers is planned for those of its first call, which may be lengths."""

    def __init__(self, found: Settings, graph: Graph, module: torch.fx.GraphModule, names: Sequence[str]) -> None:
        self.settings, self.graph, self.module, self.names = found, graph, module, names
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.examples = [n.meta.get("val") for n in placeholders]
        self._used = [bool(n.users) for n in placeholders]
        self._computed_with = [any(user.op != "output" for user in n.users) for n in placeholders]
        self.static = all(map(_known, self.examples))
        whole = any(isinstance(x, torch.Tensor) and x.dim() and not (x.is_floating_point() or x.is_complex()) for x in self.examples)
        masks = any(isinstance(x, torch.Tensor) and x.dim() and x.dtype == torch.bool for x in self.examples)
        # lengths, masks and choices are looked at in the first call
        self.asks_data = masks or (whole and any(n.target in ASKING for n in module.graph.nodes))
        self.in_torch = torch.fx.GraphModule(module, followed(module.graph))
        self._symbolic = Later(lambda: None if self.static else capture_symbols(module, names))
        self._read_at: Readable | None = None  # what could be read of it, at the first sizes
        self._ran = False
        self._ranges = Ranges(_RANGES)
        self._made: dict[object, Kernels | None] = {}
        self._again: dict[object, Callable[[list[Any]], Any]] = {}  # those of them that ran on arguments as later calls have them

    def _sizes(self, values: Sequence[Any]) -> object:
        """What the kernels for some arguments are for: shapes of tensors that the graph computes with, numbers that it has a use for.

        A nested tensor comes as values and offsets, the number that stands for its ragged size, another one in every call, and two
        tensors as long as its shortest and its longest row: most graphs have no use for some of these, or return them as they are."""
        of = zip(values, self._used, self._computed_with, strict=True)
        return tuple((computed and v.shape) if isinstance(v, torch.Tensor) else (used and v) for v, used, computed in of)

    def _put(self, sizes: object, made: Kernels | None) -> None:
        for oldest in (*list(self._made)[: 1 - MOST_SIZES], sizes):
            self._made.pop(oldest, None)
            self._again.pop(oldest, None)
        self._made[sizes] = made

    def prepare(self, values: Sequence[Any]) -> Kernels | None:
        """The kernels for arguments of these sizes; ``None`` where torch runs the graph."""
        sizes = None if self.static else self._sizes(values)
        if sizes not in self._made:
            values = [v if used or isinstance(v, torch.Tensor) else None for v, used in zip(values, self._used, strict=True)]
            try:
                name = kept.key("graph", self.settings.request, self.module, values, self.names)
                self._put(sizes, self._read(name, sizes, values) or self._planned(name, values))
            except Exception as error:  # whatever of ours it is, the user's call goes on
                if self.settings.request.strict or of_the_user(error):
                    raise
                self._left_to_torch(error)
                self._put(sizes, None)
        return self._made[sizes]

    def _read(self, name: str | None, sizes: object, values: Sequence[Any]) -> Kernels | None:
        """What an earlier process kept.  Its plan is made when somebody asks for it, and it is the plan's kernels that run from then on."""
        found = kept.read_module(name, self.module, self.settings.request.target)
        if found is not None:
            specs = without_data(values)

            @cache
            def plan() -> StepPlan | None:
                try:
                    steps = self._steps(specs)
                except Exception as error:
                    if of_the_user(error):
                        raise
                    self._left_to_torch(error)
                    self._put(sizes, None)
                    return None
                self._put(sizes, of_steps(steps))
                return steps.plan

            self.graph.planned.append(plan)
        return found

    def _planned(self, name: str | None, values: Sequence[Any]) -> Kernels:
        for before in self.graph.planned[:1]:  # whose kernels may serve these sizes, too
            before()
        steps = self._steps(values)
        if self.settings.request.strict and steps.reason is not None:
            raise steps.reason
        plan = steps.plan  # of which no kernel or constant is part
        self.graph.planned.append(lambda: plan)
        kept.write_module(name, steps, self.module)
        return of_steps(steps)

    def _steps(self, values: Sequence[Any]) -> Steps:
        request, name, symbolic = self.settings.request, self.graph.name, self._symbolic()
        captured = None if symbolic is None else at_values(symbolic, values)
        if captured is None:
            return Steps(capture_graph(self.module, values, self.names), request, name, self._ranges)
        found = Steps(captured, request, name, self._ranges, symbolic=symbolic, read=self._read_at)
        self._read_at = found.read
        return found

    def _left_to_torch(self, error: Exception) -> None:
        why = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        self.graph.reasons.append(why)
        warnings.warn(f"eqfuse: torch runs all of {self.graph.name}, which could not be planned: {why}", stacklevel=2)

    def call(self, args: list[Any]) -> Any:
        """The results of the graph; autograd is off where AOTAutograd calls it."""
        self.graph.calls += 1
        sizes = None if self.static else self._sizes(args)
        if (again := self._again.get(sizes)) is not None:
            self.graph.ran += 1
            return again(args)
        how = self.settings.run
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        device = next((t.device for t in tensors if t.is_cuda), tensors[0].device if tensors else torch.device("cpu"))
        here = device.type == self.settings.request.target.device
        if how == "torch" or (how == "auto" and not here):
            return self.in_torch(*args)
        made = self.prepare(args)
        if made is None:
            return self.in_torch(*args)
        run = made.on(args, device, made.run if here else made.interpret)
        try:
            found = run(args)
        except Exception as error:
            if self._ran or self.settings.request.strict or of_the_user(error):
                raise
            in_torch = self.in_torch(*args)  # where it fails, too, kernels are not the reason
            self._left_to_torch(error)  # kernels are compiled when they run first; the graph writes nothing, so it may run again
            self._made = dict.fromkeys(self._made)
            return in_torch
        self._ran = True
        self.graph.ran += 1
        self._again[sizes] = run
        return found

    call._boxed_call = True  # type: ignore[attr-defined]  # its arguments come in a list
