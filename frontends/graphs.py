"""Graphs of ATen ops as they are: made by AOTAutograd, by ``make_fx``, or cut out of another graph.

``torch.export`` is for functions, and takes seconds.  A graph whose nodes have fake tensors in ``meta['val']`` says all that there is to
know; what its placeholders stand for it does not say, so each is an argument, and its tensor constants stay constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..errors import EqFuseError, TraceError
from .capture import Captured, Source, decomposed, lifted, size_traced
from .places import PLACE, place_of_node
from .spec import TensorSpec, sample_of
from .symbolic import Symbolic, symbolic_of

SAMPLE = "sample"  # where a placeholder keeps what integers its example has


@dataclass(frozen=True, eq=False)
class FlatGraph:
    """A graph of core ATen ops from tensors to a tuple of tensors.  ``module`` runs it in torch."""

    captured: Captured
    module: torch.fx.GraphModule
    name: str
    symbolic: Symbolic | None = None  # it at other sizes, if that is known


def flat_graph(graph: torch.fx.Graph, outputs: Sequence[torch.fx.Node], name: str) -> FlatGraph:
    """A graph whose nodes have values, and no ``output`` yet."""
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    graph.output(tuple(outputs))
    sources = {n: Source("argument", k, n.name) for k, n in enumerate(placeholders)}
    leaves = [
        TensorSpec(tuple(v.shape), v.dtype, tuple(v.stride()), sample=n.meta.get(SAMPLE)) for n in placeholders for v in (n.meta["val"],)
    ]
    names = ["out"] if len(outputs) == 1 else [n.name for n in outputs]
    captured = _captured(graph, sources, outputs, names, leaves, {})
    return FlatGraph(captured, torch.fx.GraphModule(torch.nn.Module(), followed(graph)), name)


def _captured(
    graph: torch.fx.Graph, sources: Mapping[torch.fx.Node, Source], outputs: Sequence[Any], names: Sequence[str], leaves: Sequence[Any],
    constants: Mapping[str, torch.Tensor], refused: EqFuseError | None = None,
) -> Captured:  # fmt: skip
    """A graph as a function that takes all its arguments by position, and returns a tuple."""
    arguments = pytree.tree_structure((tuple(range(len(leaves))), {}))
    results = pytree.tree_structure(tuple(range(len(outputs))))
    held = SimpleNamespace(constants=dict(constants), state_dict={})
    called = tuple(_unique(names, [s.name for s in sources.values()]))
    return Captured(graph, dict(sources), tuple(outputs), results, called, arguments, tuple(leaves), held, refused=refused)


def followed(graph: torch.fx.Graph) -> torch.fx.Graph:
    """A copy for torch to run.  What it makes of no tensor is made where the arguments are, wherever it was traced; a view is a reshape,
    since strides are not always those with which a graph was traced (``constant_pad_nd`` of a dimension of size 1)."""
    made = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    here: torch.fx.Node | None = None
    for n in graph.nodes:
        if n.op != "placeholder" and here is None:
            tensors = (c for m, c in copies.items() if isinstance(m.meta.get("val"), torch.Tensor))
            first = next(tensors, None)
            here = first and made.call_function(getattr, (first, "device"))
        copies[n] = copy = made.node_copy(n, copies.__getitem__)
        if copy.target is torch.ops.aten.view.default:
            copy.target = torch.ops.aten.reshape.default
        if here is not None and n.op == "call_function" and not n.all_input_nodes and "device" in n.kwargs:
            copy.kwargs = {**copy.kwargs, "device": here}
    if here is not None and not here.users:
        made.erase_node(here)
    return made


def _unique(names: Sequence[str], before: Sequence[str]) -> list[str]:
    taken = set(before)
    found = []
    for n in names:
        while n in taken:
            n += "_"
        taken.add(n)
        found.append(n)
    return found


def without_data(values: Sequence[Any]) -> list[Any]:
    """Tensors without data like those among some values, and the others as they are."""
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        return [
            torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) if isinstance(v, torch.Tensor) else v for v in values
        ]


def capture_graph(module: torch.fx.GraphModule, values: Sequence[Any], names: Sequence[str]) -> Captured:
    """The graph of a module of ATen ops, decomposed as ours are.  ``values``: what its placeholders are, tensors (of which shapes, types,
    strides, devices and samples are used) or numbers, which become part of the graph; ``names``: what they are called.

    Raises what tracing finds wrong: :class:`~eqfuse.errors.TraceError` and its like.
    """
    found = replace(_capture(module, without_data(values), names), leaves=tuple(map(leaf, values)))
    for n, source in found.sources.items():
        known = found.leaves[source.key] if source.kind == "argument" else None  # type: ignore[index]
        n.meta[SAMPLE] = known.sample if isinstance(known, TensorSpec) else None  # for the pieces that are cut out of it
    return found


def capture_symbols(module: torch.fx.GraphModule, names: Sequence[str]) -> Symbolic | None:
    """The same with the sizes as symbols that are symbols in the values of its placeholders; ``None`` where there are none, or it needs
    the numbers."""
    try:
        return symbolic_of(_capture(module, [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"], names))
    except EqFuseError:
        return None


def _capture(module: torch.fx.GraphModule, values: Sequence[Any], names: Sequence[str]) -> Captured:
    for n in module.graph.nodes:  # where each is from, for errors and plans
        if (where := place_of_node(n)) is not None:
            n.meta["custom"] = {**(n.meta.get("custom") or {}), PLACE: where}
    (results,) = next(n for n in module.graph.nodes if n.op == "output").args
    promised = [r.meta.get("val") if isinstance(r, torch.fx.Node) else None for r in results]

    def as_promised(found: Sequence[Any]) -> list[Any]:
        return [in_order_of(x, p) for x, p in zip(found, promised, strict=True)]

    graph, nodes, refused = decomposed(module, values, as_promised)
    given = _unique(names, ())
    sources = {n: Source("argument", i, given[i]) for i, n in nodes.items()}
    constants = lifted(graph)
    held_names = _unique([n.name for n in constants], given)
    sources |= {n: Source("constant", name, name) for n, name in zip(constants, held_names, strict=True)}
    (outputs,) = next(n for n in graph.nodes if n.op == "output").args
    outputs = tuple(outputs) if isinstance(outputs, list | tuple) else (outputs,)
    held = dict(zip(held_names, constants.values(), strict=True))
    return _captured(graph, sources, outputs, [f"out{k}" for k in range(len(outputs))], list(map(leaf, values)), held, refused)


def at_values(symbolic: Symbolic, values: Sequence[Any]) -> Captured | None:
    """What :func:`capture_symbols` gives, where its placeholders are these; ``None`` where the trace does not hold for them, or they lie in
    memory in another way."""
    leaves = list(map(leaf, values))
    found = symbolic.at(leaves)

    def strides(x: Any) -> list[int]:
        return [step for n, step in zip(x.shape, x.stride, strict=True) if n != 1]

    given = () if found is None else ((leaf(n.meta["val"]), leaves[int(s.key)]) for n, s in found.sources.items() if s.kind == "argument")
    return found if all(strides(here) == strides(there) for here, there in given) else None


def leaf(value: Any) -> Any:
    """What a graph keeps of an argument: of a tensor its spec, of sizes that are symbols those with which they were traced."""
    if not isinstance(value, torch.Tensor):
        return value
    shape, strides = (tuple(map(size_traced, ns)) for ns in (value.shape, value.stride()))
    return TensorSpec(shape, value.dtype, strides, str(value.device), sample_of(value))


def in_order_of(x: Any, model: Any) -> Any:
    """A tensor, its elements in memory in the order in which those of a model are: of a decomposed operator they may be in another.
    TraceError if it is another tensor than the model."""
    if not isinstance(x, torch.Tensor) or not isinstance(model, torch.Tensor):
        return x
    (shape, strides), own = ([list(map(size_traced, ns)) for ns in (t.shape, t.stride())] for t in (model, x))
    symbols = any(isinstance(n, torch.SymInt) for n in model.shape)  # with which the graph was made; their numbers are now others
    if x.dtype != model.dtype or x.dim() != len(shape) or (own[0] != shape and not symbols):
        raise TraceError(f"a decomposed operator gives {x.dtype} {tuple(x.shape)}, and {model.dtype} {tuple(shape)} is what it gave")
    wanted = None if None in (*shape, *strides) else dense_order(shape, strides)
    if wanted is None or wanted == dense_order(*own):
        return x
    return x.permute(wanted).clone(memory_format=torch.contiguous_format).permute([wanted.index(d) for d in range(len(wanted))])


def dense_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The dimensions of a tensor without gaps or repetitions, the outermost in memory first, those of size 1 last; ``None`` of another."""
    dims = sorted((d for d, n in enumerate(shape) if n != 1), key=lambda d: (-strides[d], d))
    step = 1
    for d in reversed(dims):
        if strides[d] != step:
            return None
        step *= shape[d]
    return (*dims, *(d for d, n in enumerate(shape) if n == 1))
