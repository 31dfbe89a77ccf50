"""Steps as one standalone module: the kernels of every piece, and ``run``, which is the outer graph as torch.fx prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.check import Check
from ..codegen.composed import Spec, emit
from ..frontends.graphs import followed
from ..frontends.printed import function_text, reference_text
from ..runtime.small_sizes import given_by
from ..runtime.standalone import planned_test, with_test

if TYPE_CHECKING:
    from .planning import Piece
    from .running import Steps


def source(steps: Steps, header: str) -> str:
    """The module as text; PlanError where the program holds what no text says: a function of a control flow operator, or an operator of an
    extension without a module."""
    lines: dict[str, None] = {}
    functions: list[str] = []
    plans: dict[str, Spec] = {}
    kernels: dict[int, str] = {}  # of equal pieces those of the first
    for name, piece in steps.pieces.items():
        if piece.executable is None or piece.executable.unspelled:
            functions.append(function_text(piece.graph.module.graph, f"_{name}", lines))
            continue
        first = kernels.setdefault(id(piece.executable.generated), f"_kernels_{name}")
        if first == f"_kernels_{name}":
            plans[first] = piece.executable.generated.exact_spec
        functions.append(_caller(name, first, piece))
    functions.append(function_text(followed(steps.cut.outer), "run", lines, steps.cut.pieces))
    text = header + f"\n\nrun() takes tensors of the planned sizes, {'in memory' if steps.target.on_cpu else 'on a GPU'}."
    return emit(steps.name, text, plans, ["\n".join(lines), *functions] if lines else functions)


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


def standalone(steps: Steps, header: str, results: tuple[str, ...]) -> str:
    """The same with a test that runs when the file does."""
    return with_test(source(steps, header), lambda: _check(steps, results))


def _check(steps: Steps, results: tuple[str, ...]) -> Check:
    captured, lines = steps.captured, dict[str, None]()
    placeholders = [n for n in captured.graph.nodes if n.op == "placeholder"]
    values = {captured.sources[n].name: n.meta["val"] for n in (placeholders[k] for k in steps.cut.takes)}
    held = [s.name for s in captured.sources.values() if s.kind != "argument"]
    plans = [(e.program, e.generated) for p in steps.pieces.values() if (e := p.executable) is not None]
    reference = reference_text(captured, list(values), None, lines)
    return planned_test("run", given_by(values), held, results, reference, lines, plans, on_cpu=steps.target.on_cpu)
