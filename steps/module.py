"""Steps as one standalone module: the kernels of every piece, and ``run``, which is the outer graph as torch.fx prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.check import Check, with_check
from ..codegen.composed import ComposedSpec, emit_steps
from ..codegen.sizes import ModuleSpec
from ..errors import PlanError
from ..frontends.graphs import followed
from ..frontends.printed import function_text, reference_text
from ..runtime.small_sizes import positions, tensors_of
from ..runtime.standalone import interpreted_seconds_of

if TYPE_CHECKING:
    from .planning import Piece
    from .running import Steps


def source(steps: Steps, header: str) -> str:
    """The module as text; PlanError where the program holds what no text says: a function of a control flow operator, or an operator of an
    extension without a module."""
    lines: dict[str, None] = {}
    functions: list[str] = []
    plans: dict[str, ModuleSpec | ComposedSpec] = {}
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


def standalone(steps: Steps, header: str, results: tuple[str, ...]) -> str:
    """The same with a test that runs when the file does."""
    module = source(steps, header)
    try:
        return with_check(module, _check(steps, results, "tl.bfloat16" in module), ())
    except PlanError as error:
        return with_check(module, None, (), error.message)


def _check(steps: Steps, results: tuple[str, ...], narrow: bool) -> Check:
    captured = steps.captured
    placeholders = [n for n in captured.graph.nodes if n.op == "placeholder"]
    taken = [placeholders[k] for k in steps.cut.takes]
    names = [captured.sources[n].name for n in taken]
    values = [n.meta["val"] for n in taken]
    given = {name: (tuple(map(int, v.shape)), str(v.dtype).removeprefix("torch.")) for name, v in zip(names, values, strict=True)}
    held = [s.name for s in captured.sources.values() if s.kind != "argument"]
    bounds: dict[str, int] = {}
    seconds = 0.0
    for piece in steps.pieces.values():
        if piece.executable is not None:
            program = piece.executable.program
            shapes = {i.name: tuple(1 if a is None else a.size for a in i.layout) for i in program.inputs}
            for name, n in positions(program, shapes).items():
                bounds[name] = min(n, bounds.get(name, n))
            seconds += interpreted_seconds_of(piece.executable.generated)
    lines: dict[str, None] = {}
    reference = reference_text(captured, names, None, lines)
    return Check((("run", tensors_of(given, bounds, held)),), results, reference, tuple(lines), seconds, narrow, steps.target.on_cpu)
