"""Steps as one standalone module: the kernels of every piece, and ``run``, which is the outer graph as torch.fx prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.graph import _custom_builtins

from ..codegen.composed import ComposedSpec, emit_steps
from ..codegen.sizes import ModuleSpec
from ..errors import PlanError
from ..frontends.graphs import followed

if TYPE_CHECKING:
    from .planning import Piece
    from .running import Steps


def source(steps: Steps, header: str) -> str:
    """The module as text; PlanError where the program holds what no text says: a function of a control flow operator, or an operator of an
    extension without a module."""
    own = [n.target for n in steps.cut.outer.nodes if n.op == "get_attr"]
    if own:
        raise PlanError(f"{own[0]} is a graph inside of the program, which no file can have", where=steps.name)
    lines: dict[str, None] = {}
    functions: list[str] = []
    plans: dict[str, ModuleSpec | ComposedSpec] = {}
    kernels: dict[int, str] = {}  # of equal pieces those of the first
    for name, piece in steps.pieces.items():
        if piece.executable is None:
            functions.append(_printed(piece.graph.module.graph, f"_{name}", lines))
            continue
        first = kernels.setdefault(id(piece.executable.generated), f"_kernels_{name}")
        if first == f"_kernels_{name}":
            plans[first] = piece.executable.generated.exact_spec
        functions.append(_caller(name, first, piece))
    functions.append(_printed(followed(steps.cut.outer), "run", lines, steps.cut.pieces))
    text = header + "\n\nrun() takes tensors of the planned sizes, of which kernels run on a GPU."
    if not plans:
        docstring = text.replace("\\", "\\\\").replace('"""', "'''")
        return "\n\n\n".join([f'"""{docstring}\n"""', "\n".join(["import torch", *lines]), *functions]) + "\n"
    return emit_steps(steps.name, text, plans, ["\n".join(lines), *functions] if lines else functions)


def _caller(name: str, kernels: str, piece: Piece) -> str:
    """A function that returns what the graph of a piece does from what its module returns: equal results are stored once."""
    assert piece.executable is not None
    program = piece.executable.program
    count = len(program.results or program.outputs)
    slots = piece.executable.traced.unflatten(list(range(count)))
    seen = set[int]()
    texts = []
    for k in slots:
        texts.append(f"found[{k}]" + (".clone()" if k in seen else ""))
        seen.add(k)
    return f"def _{name}(*tensors):\n    found = {kernels}(*tensors)\n    return ({', '.join(texts)},)"


def _printed(graph: torch.fx.Graph, name: str, lines: dict[str, None], modules: Iterable[str] = ()) -> str:
    """A graph as a function, with the imports that it needs among ``lines``; calls of ``modules`` become calls of functions."""
    code = graph.python_code("self")
    text: str = code.src.strip("\n")
    at = text.index("def forward(")
    text = text[at:].replace("def forward(self, ", f"def {name}(", 1).replace("def forward(self)", f"def {name}()", 1)
    for module in modules:
        text = text.replace(f"self.{module}(", f"_{module}(")
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
    if module and own and module.split(".")[0] in ("torch", "operator", "_operator", "math"):
        return f"from {module} import {own} as {name}"
    raise PlanError(f"{name} is an object of this process, which no file can have", where="save")
