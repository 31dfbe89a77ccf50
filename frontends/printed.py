"""Graphs of ATen ops as Python text that needs nothing but torch: what a saved module runs in torch, and what it is checked against."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx.graph import _custom_builtins

from ..errors import PlanError
from .capture import Captured
from .graphs import followed
from .traced import known_number

LIBRARIES = ("torch", "operator", "_operator", "math")  # whose functions a file can name
_TYPE = re.compile(r"\btorch\.(float16|bfloat16|float32)\b")
_FULL = torch.ops.aten.full.default


def function_text(
    graph: torch.fx.Graph, name: str, lines: dict[str, None], modules: Iterable[str] = (), held: dict[str, Any] | None = None,
    owner: Any = None,
) -> str:  # fmt: skip
    """A graph as a function, with the imports that it needs among ``lines``; calls of ``modules`` become calls of functions.

    PlanError where it holds what no text says: a graph inside of it, or an object of this process.  With ``held`` it is for this process:
    what it mentions goes in there by name, attributes of ``owner`` among it.
    """
    own = dict.fromkeys(str(n.target) for n in graph.nodes if n.op == "get_attr")
    if own and held is None:
        raise PlanError(f"{next(iter(own))} is a graph inside of the program, which no file can have", where=name)
    code = graph.python_code("self")
    text: str = code.src.strip("\n")
    at = text.index("def forward(")
    text = text[at:].replace("def forward(self, ", f"def {name}(", 1).replace("def forward(self)", f"def {name}()", 1)
    for module in modules:
        text = text.replace(f"self.{module}(", f"_{module}(")
    if held is not None:
        held |= {"torch": torch, **code.globals, **{f"_{target}": getattr(owner, target) for target in own}}
        return re.sub(r"\bself\.", "_", text)
    for called, value in code.globals.items():
        if called != "torch" and re.search(rf"\b{re.escape(called)}\b", text):
            lines[_import(called, value)] = None
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _import(name: str, value: Any) -> str:
    """The line that gives a text the name that it mentions."""
    known: Mapping[str, Any] = _custom_builtins
    if name in known:
        found: str = known[name].import_str
        return found
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module and own and module.split(".")[0] in LIBRARIES:
        return f"from {module} import {own} as {name}"
    raise PlanError(f"{name} is an object of this process, which no file can have", where="save")


def is_random(graph: torch.fx.Graph) -> bool:
    """Whether two runs of it may differ."""
    seeded = torch.Tag.nondeterministic_seeded
    return any(n.op == "call_function" and seeded in getattr(n.target, "tags", ()) for n in graph.nodes)


def reference_text(captured: Captured, inputs: Sequence[str], results: Collection[int] | None, lines: dict[str, None]) -> str:
    """What was captured as ``reference(*tensors, kind)``, in torch alone.  ``inputs`` are the names of the tensors that it takes, in order;
    ``results``: which of the captured outputs it returns, in order; all tensors if ``None``.

    ``kind`` is called with each floating type that the program names: with float64 it computes what the program means.
    PlanError as in :func:`function_text`, and for what is random.
    """
    if is_random(captured.graph):
        raise PlanError("it is random", where="reference")
    graph = torch.fx.Graph()
    made: dict[torch.fx.Node, torch.fx.Node] = {}
    named = {s.name: n for n, s in captured.sources.items()}
    for name in inputs:
        made[named[name]] = new = graph.placeholder(name)
        new.meta = dict(named[name].meta)
    for n in captured.graph.nodes:
        number = known_number(captured.sources[n], captured) if n in captured.sources and n not in made else None
        if number is not None:
            value = n.meta["val"]
            made[n] = graph.call_function(_FULL, ([], number), {"dtype": value.dtype, "device": value.device})
        elif n not in made and n.op not in ("placeholder", "output") and not str(n.target).startswith("aten._assert"):
            made[n] = graph.node_copy(n, made.__getitem__)
        if n in made and n.op != "placeholder":
            made[n].meta = {"val": n.meta.get("val")}
    outputs = [o for k, o in enumerate(captured.outputs) if isinstance(o, torch.fx.Node) and (results is None or k in results)]
    if results is not None:
        outputs = [captured.outputs[k] for k in results]
    graph.output(tuple(made[o] for o in outputs))
    return with_kinds(function_text(followed(graph), "reference", lines))


def with_kinds(text: str) -> str:
    """The text of a function whose floating types go through a parameter ``kind``."""
    head, colon, body = text.partition("):")
    comma = "" if head.endswith("(") else ", "
    return f"{head}{comma}*, kind=lambda t: t{colon}" + _TYPE.sub(r"kind(torch.\1)", body)
