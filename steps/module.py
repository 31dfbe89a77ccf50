"""Steps as one standalone module: the kernels of every piece, and ``run``, which is the outer graph as torch.fx prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.check import Check
from ..codegen.composed import Spec, emit
from ..frontends.printed import reference_text
from ..runtime.small_sizes import given_by
from ..runtime.standalone import planned_test, with_test
from .text import text_of

if TYPE_CHECKING:
    from .running import Steps


def source(steps: Steps, header: str) -> str:
    """The module as text; PlanError where the program holds what no text says."""
    found = text_of(steps.cut, steps.pieces, here=False)
    plans: dict[str, Spec] = {name: e.generated.exact_spec for name, e in found.kernels.items()}
    text = header + f"\n\nrun() takes tensors of the planned sizes, {'in memory' if steps.target.on_cpu else 'on a GPU'}."
    return emit(steps.name, text, plans, ["\n".join(found.lines), *found.functions] if found.lines else found.functions)


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
