"""A function and its derivative as one program: what torch's autograd computes, recorded while it runs on tensors without data.

The program takes the tensors of a call, then for every result that has a gradient its *tangent*: the gradient of whatever is made of the
results, by this one.  It gives the results, new values of buffers that the function writes, and the gradients.  Composite ops are replaced
by their definitions before autograd differentiates them, derivatives that torch computes by writing to memory by :mod:`.derivatives`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from ..errors import TraceError
from ..ir.alike import alike
from .capture import Exported, Source, exported
from .derivatives import DEFINITIONS, DERIVATIVES
from .naming import function_name
from .places import place_of_function
from .spec import TensorSpec, spec_of
from .traced import Traced, trace


@dataclass(frozen=True)
class Joint:
    """``traced`` is the program of both passes: of the tensors ``inputs``, by name, and of ``tangents``.

    ``results``: for each flat result of the function the name that it has in the program, or the value, if that is no tensor; ``out_spec``
    is their structure.  ``tangents``: by the positions of flat results.  ``written``: by the names of buffers, what becomes of them.
    ``gradients``: by names of inputs.  ``constants``: by name, the inputs that the function holds and no module.  ``graph``: what was
    traced.
    """

    traced: Traced
    graph: torch.fx.GraphModule
    inputs: Mapping[str, Source]
    results: tuple[tuple[str | None, Any], ...]
    out_spec: Any
    tangents: Mapping[int, str]
    written: Mapping[str, str]
    gradients: Mapping[str, str]
    constants: Mapping[str, torch.Tensor]


class _Function:
    """An exported function, of its tensors by their positions among the placeholders."""

    def __init__(self, made: Exported) -> None:
        self.made, self.sources = made, made.sources
        held = {**made.program.constants, **made.program.state_dict}
        self.constants = {s.name: held[s.key] for s in self.sources if s.kind == "constant"}
        self.numbers = {
            k: t for k, s in enumerate(self.sources) if (t := self.constants.get(s.name)) is not None and t.dim() == 0 and not t.is_meta
        }
        self.values = {k: v for k, v in enumerate(made.values) if k not in self.numbers}
        self.tensors = {k: v for k, v in self.values.items() if isinstance(v, torch.Tensor)}

    def __call__(self, given: Mapping[int, torch.Tensor]) -> tuple[list[Any], dict[int, torch.Tensor]]:
        """The flat results, and the buffers that were written, which the function gets copies of."""
        full = {**self.values, **given, **{k: torch.full((), t.item(), dtype=t.dtype) for k, t in self.numbers.items()}}
        copies = {k: full[k].clone() for k, s in enumerate(self.sources) if s.kind == "buffer"}
        before = {k: t._version for k, t in copies.items()}
        found = self.made.run(*(x for _, x in sorted({**full, **copies}.items())), definitions=DEFINITIONS)
        return list(found), {k: t for k, t in copies.items() if t._version != before[k]}


def trace_joint(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str | None = None, *, exact: bool = False) -> Joint:
    """The joint program of a function or module for example arguments.

    Gradients are taken of the arguments and parameters that require one; TraceError if there is none, or no result depends on it.
    """
    if not callable(fn):
        raise TraceError(f"cannot differentiate a {type(fn).__name__}", cure="pass a function or an nn.Module")
    function = _Function(made := exported(fn, tuple(args), dict(kwargs)))
    sources, where = function.sources, place_of_function(fn)
    if made.captured:
        raise TraceError(
            f"the function has captured {', '.join(made.captured)}, which may want a gradient", where=where,
            cure="pass it as an argument, or optimize an nn.Module that holds it",
        )  # fmt: skip
    flat = torch.utils._pytree.tree_leaves((tuple(args), dict(kwargs)))
    own = dict(fn.named_parameters()) if isinstance(fn, torch.nn.Module) else {}
    learned = [k for k in function.tensors if _wants(sources[k], flat, own)]
    if not learned:
        raise TraceError("training=True, and nothing requires a gradient", where=where, cure="x.requires_grad_() for what is learned")
    kept = list(function.tensors)
    mode = torch._guards.detect_fake_mode(list(function.tensors.values())) or torch._subclasses.FakeTensorMode()

    def run(given: Sequence[torch.Tensor]) -> tuple[list[Any], dict[int, torch.Tensor], list[torch.Tensor]]:
        primals = {k: t.detach().requires_grad_(k in learned) for k, t in zip(kept, given, strict=False)}
        before = {k: t._version for k, t in primals.items()}
        results, written = function(primals)
        for k, t in primals.items():
            if t._version != before[k]:
                what = f"the function writes to its argument {sources[k].name!r}"
                raise TraceError(what, where=where, cure="return the new value instead")
        return results, written, [primals[k] for k in learned]

    fakes = [t.detach() for t in function.tensors.values()]
    with mode, torch.enable_grad():
        results, written, _ = run(fakes)
        roots = [k for k, x in enumerate(results) if isinstance(x, torch.Tensor) and x.requires_grad]
        tangents = [torch.empty_like(results[k]).detach() for k in roots]
    if not roots:
        raise TraceError("no result depends on what requires a gradient", where=where, cure="return a loss, or what one is made of")
    outs = ["out" if len(results) == 1 else f"out{k}" for k in range(len(results))]
    new = {sources[k].name: f"new_{sources[k].name}" for k in written}
    gradients = {sources[k].name: f"grad_{sources[k].name}" for k in learned}

    def joint(*given: torch.Tensor) -> dict[str, Any]:
        with torch.enable_grad():
            results, written, leaves = run(given)
            found = torch.autograd.grad([results[k] for k in roots], leaves, given[len(kept) :], allow_unused=True)
        made = {outs[k]: x for k, x in enumerate(results) if isinstance(x, torch.Tensor)}
        made |= {new[sources[k].name]: t for k, t in written.items()}
        return made | dict(zip(gradients.values(), found, strict=True))

    with mode, torch.fx.traceback.preserve_node_meta():  # the lines of the user, by which values are called
        graph = make_fx(joint, decomposition_table=DERIVATIVES)(*fakes, *tangents)
    named = [*(sources[k].name for k in kept), *(f"grad_{outs[k]}" for k in roots)]
    for node, label in zip((n for n in graph.graph.nodes if n.op == "placeholder"), named, strict=True):
        node.target = node.name = label
    for node in graph.graph.nodes:  # what is made on no device is read on one
        if getattr(node.kwargs.get("device"), "type", None) == "meta":
            node.kwargs = {**node.kwargs, "device": torch.device("cpu")}
    graph.recompile()
    specs: list[Any] = [spec_of(t) for t in (*fakes, *tangents)]
    for at, k in enumerate(kept):  # what the examples of lengths and offsets have
        given = made.leaves[int(sources[k].key)] if sources[k].kind == "argument" else None
        if isinstance(given, TensorSpec):
            specs[at] = replace(specs[at], sample=given.sample)
    traced = trace(graph, specs, name=name or function_name(fn), exact=exact)
    traced = replace(traced, program=alike(traced.program))
    return Joint(
        traced, graph, {sources[k].name: sources[k] for k in kept},
        tuple((outs[k], None) if isinstance(x, torch.Tensor) else (None, x) for k, x in enumerate(results)),
        made.program.call_spec.out_spec, dict(zip(roots, named[len(kept) :], strict=True)), new, gradients,
        {name: t for name, t in function.constants.items() if name in named},
    )  # fmt: skip


def _wants(source: Source, flat: Sequence[Any], own: Mapping[str, torch.Tensor]) -> bool:
    """Whether a gradient of it is wanted."""
    if source.kind == "argument":
        return bool(getattr(flat[int(source.key)], "requires_grad", False))
    return source.kind == "parameter" and own[str(source.key)].requires_grad
