"""What earlier processes made of a graph, found by the graph as AOTAutograd gives it: before it is captured, decomposed or planned.

Kept is the *module* of a graph: the text of its kernels and of what torch runs between them, as ``save`` writes it; and for a joint graph
which values are saved between its passes.  The key is a digest of the graph (:mod:`.graph_text`), of the request, of every source of the
package and of the versions of what it calls, and of what else decides about a graph in a process.  Where something of the user's has a part
in it (rules, operators, decompositions) nothing is kept, for no digest knows their code.  Nor is a plan that a clock ended.

The text is executed.  So it is read only from a file that nobody but the user may write, and that is as it was written
(:mod:`..extract.kept.folder`); who may write such a file may as well write the user's programs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..errors import EqFuseError, PlanError
from ..extract.kept import folder
from ..extract.kept.versions import made_by, package_sources
from ..extract.plan import Plan
from ..extract.targets import Target
from ..frontends.aten import OPS
from ..frontends.capture import decompositions
from ..planning import Planned, Request, active_rules
from ..rewrites import registry
from ..runtime.native import compiler
from ..steps.module import source
from ..steps.planning import Piece
from ..steps.running import Steps
from .graph_text import Unspelled, constants, graph_text
from .kernels import TENSOR, Kernels, of_text

PACKAGES = ("torch", "numpy", "egglog")
NOT_SAID = ("fn", "args", "kwargs", "traced", "deadline", "rules", "target")  # of a request: said otherwise, or none of a graph


# keys -------------------------------------------------------------------------------------------------------------------------------


def key(
    kind: str, request: Request, module: GraphModule, values: Sequence[Any] | None = None, names: Sequence[str] = (), **more: object
) -> str | None:
    """The name under which something of a graph is kept; ``None`` if it is not to be."""
    if folder.directory() is None or os.environ.get("EQFUSE_DEBUG", "").strip() not in ("", "0"):
        return None
    try:
        said = [kind, graph_text(module, values, names), *_request(request), *_process(), repr(sorted(more.items()))]
    except Unspelled:
        return None
    return hashlib.sha256("\0".join(said).encode()).hexdigest()


def _request(request: Request) -> list[str]:
    """What is asked for.  Raises :class:`Unspelled` where rules are not the package's own."""
    every = registry.extras((*registry.rules(), *(request.rules or ())))
    if not all(r.builtin for r in every):
        raise Unspelled("rules of others")
    options = [f"{f.name}={getattr(request, f.name)!r}" for f in fields(request) if f.name not in NOT_SAID]
    off = sorted(r.name for r in every if not registry.enabled(r))
    return [*options, repr(request.target), repr([r.name for r in active_rules(request)]), repr(off)]


def _process() -> list[str]:
    """What decides about graphs in this process beside them.  Raises :class:`Unspelled` for what is not known."""
    versions = made_by(package_sources(), PACKAGES)
    meanings = [f for op in OPS.values() for f in (op.align, op.read, op.move) if f is not None]
    ours = __name__.split(".")[0]
    if versions is None or not all(_of(f, ours) for f in meanings) or not all(_of(f, ours, "torch") for f in decompositions().values()):
        raise Unspelled("code of others")
    triton = str(getattr(sys.modules.get("triton"), "__version__", ""))
    autocast = [torch.is_autocast_enabled(device) for device in ("cpu", "cuda")]
    defaults = (torch.get_default_dtype(), torch.get_default_device(), torch.get_float32_matmul_precision())
    decided = (*defaults, torch.are_deterministic_algorithms_enabled(), *autocast)
    return [versions, str(torch.version.git_version), triton, platform.python_version(), platform.machine(), str(decided)]


def _of(function: Any, *packages: str) -> bool:
    """Whether a function is of one of these packages."""
    return str(getattr(function, "__module__", "")).split(".")[0] in packages


# graphs -----------------------------------------------------------------------------------------------------------------------------


def read_module(name: str | None, graph: GraphModule, target: Target) -> Kernels | None:
    """The kernels that were kept under a name, for this graph."""
    data: Any = None if name is None or (target.on_cpu and not compiler()) else folder.read(name)
    held = dict(constants(graph))
    try:
        outputs = tuple(TENSOR if o is None else o["value"] for o in data["outputs"])
        return of_text(data["module"], [int(k) for k in data["takes"]], outputs, tuple(held[c] for c in data["constants"]))
    except (LookupError, TypeError, ValueError):  # there is none, or it is none
        return None


def write_module(name: str | None, steps: Steps, graph: GraphModule) -> None:
    """Keep the steps of a graph, if every process would find them, and a text says all of them."""
    if name is None or not all(map(_settled, steps.pieces.values())):
        return
    captured = steps.captured
    names = {id(t): called for called, t in constants(graph)}
    held = [names.get(id(t)) for t in captured.exported.constants.values()]
    outputs = [None if isinstance(o, Node) else {"value": o} for o in captured.outputs]
    if None in held or any(type(o["value"]) not in (type(None), bool, int, float, str) for o in outputs if o):
        return
    try:
        text = source(steps, f"A graph of torch.compile as kernels for {steps.target.name}.")
        data = {"of": {"program": steps.name, "target": steps.target.name}, "module": text, "takes": steps.cut.takes, "outputs": outputs}
        folder.write(name, data | {"constants": held})
    except (EqFuseError, ValueError):  # what no text says, or JSON lacks
        return


def _settled(piece: Piece) -> bool:
    """Whether nothing that became of a piece hangs on a clock, or on code of others."""
    if piece.executable is None:
        return not isinstance(piece.error, PlanError)
    return _lasting(piece.executable.plan) and (piece.planned is None or _searched(piece.planned))


def _lasting(plan: Plan) -> bool:
    return all(_lasting(p.plan) for p in plan.parts) and not plan.unsure and "clock" not in (plan.saturation, plan.stopped)


def _searched(planned: Planned) -> bool:
    """Whether no clock ended the search for other programs."""
    parts = () if planned.parts is None else planned.parts.different
    return all(map(_searched, parts)) and (planned.programs is None or planned.programs.report.stopped != "clock")


# what is saved between two passes -----------------------------------------------------------------------------------------------------


def read_saved(name: str | None, graph: GraphModule) -> list[Node] | None:
    """The nodes of a joint graph that are saved."""
    data: Any = None if name is None else folder.read(name)
    named = {n.name: n for n in graph.graph.nodes}
    try:
        return [named[s] for s in data["saved"]]
    except (LookupError, TypeError):
        return None


def write_saved(name: str | None, saved: Sequence[Node], target: Target) -> None:
    """Keep which they are."""
    if name is not None:
        folder.write(name, {"of": {"program": "a joint graph", "target": target.name}, "saved": [n.name for n in saved]})
