"""Both passes of a training step as one module: their kernels, an ``autograd.Function`` that saves what was planned, and ``run``.

Its reference is what autograd recorded of the function, at the planned sizes: results, new values of buffers, and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..codegen.check import Check
from ..codegen.composed import emit
from ..frontends.joint import Joint
from ..frontends.printed import function_text, with_kinds
from ..ir.program import Program
from .modules import executed
from .small_sizes import given_by
from .standalone import planned_test, with_test

if TYPE_CHECKING:
    from .executable import Executable

FORWARD, BACKWARD = "_forward", "_backward"
ONCE = "torch.autograd.function.once_differentiable"


def _results(program: Program) -> list[str]:
    return [r.name for r in program.results or program.outputs]


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


class TrainingModule:
    """What the text is made of.  ``where``: for each result of the joint program by its name there, the name that it is stored by;
    ``saved``: the names of values that the forward pass makes for the backward one."""

    def __init__(self, joint: Joint, forward: Executable, backward: Executable, where: Mapping[str, str], saved: Sequence[str]) -> None:
        self.joint, self.forward, self.backward, self.where = joint, forward, backward, where
        self.inputs = list(joint.inputs)
        self.outs = [name for name, _ in joint.results if name is not None]
        self.new = list(joint.written.values())
        flat = [k for k, (name, _) in enumerate(joint.results) if name is not None]
        self.tangents = [joint.tangents.get(k) for k in flat]  # of each result
        known = {*self.inputs, *saved}
        self.kept = [i.name for i in backward.program.inputs if i.name in known]

    def executed(self, kernels: Callable[[Executable], Callable[..., Any]], once: Callable[..., Any]) -> dict[str, Any]:
        """The functions of the module, with something in the places of the kernels.  ``once`` decorates the backward pass."""
        names = {"torch": torch, "_once": once, FORWARD: kernels(self.forward), BACKWARD: kernels(self.backward)}
        return executed("\n\n\n".join([self.passes(), self.run()]).replace(ONCE, "_once"), names)

    def source(self, header: str) -> str:
        """The module, without its test."""
        plans = {FORWARD: self.forward.generated.exact_spec, BACKWARD: self.backward.generated.exact_spec}
        where = "in memory" if self.forward.target.on_cpu else "on a GPU"
        text = header + f"\n\nrun() takes tensors of the planned sizes, {where}; what it returns has .backward()."
        return emit(self.joint.traced.program.name, text, plans, [self.passes(), self.run()])

    def standalone(self, header: str) -> str:
        """The module with its test."""
        return with_test(self.source(header), self.check)

    def passes(self) -> str:
        """The ``autograd.Function``."""
        given = ", ".join(self.inputs)
        made = [f'made["{self.where[name]}"]' for name in (*self.outs, *self.new)]
        made = [f"{x}.clone()" if x in made[:k] else x for k, x in enumerate(made)]  # results share no memory
        kept = [name if name in self.inputs else f'made["{name}"]' for name in self.kept]
        fixed = [f"results[{k}]" for k, t in enumerate((*self.tangents, *[None] * len(self.new))) if t is None]
        takes = [i.name for i in self.backward.program.inputs]
        gradient = {t: f"gradients[{k}]" for k, t in enumerate(self.tangents) if t is not None}
        where = {i: self.where[g] for i, g in self.joint.gradients.items() if g in self.where}
        found = [f'found["{where[i]}"]' if i in where else "None" for i in self.inputs]
        first = ", ".join(i.name for i in self.forward.program.inputs)
        return "\n".join([
            "class _Passes(torch.autograd.Function):",
            '    """Both passes for autograd; between them nothing is held but what the plan saves."""',
            "",
            "    @staticmethod",
            f"    def forward(ctx, {given}):",
            f"        made = dict(zip({_results(self.forward.program)}, {FORWARD}({first})))",
            f"        results = {_tuple(made)}",
            f"        ctx.save_for_backward({', '.join(kept)})",
            *([f"        ctx.mark_non_differentiable({', '.join(fixed)})"] if fixed else []),
            "        return results",
            "",
            "    @staticmethod",
            f"    @{ONCE}",
            "    def backward(ctx, *gradients):",
            *([f"        {_tuple(self.kept)} = ctx.saved_tensors"] if self.kept else []),
            f"        found = dict(zip({_results(self.backward.program)}, {BACKWARD}({', '.join(gradient.get(t, t) for t in takes)})))",
            f"        return {_tuple(found)}",
        ])  # fmt: skip

    def run(self) -> str:
        """The function that is called, and one that also asks for gradients, for the test."""
        given = ", ".join(self.inputs)
        doc = f'    """Return the tuple ({", ".join(self.outs)}), which has .backward(), computed on the device of the arguments."""'
        lines = [f"def run({given}):", doc, f"    found = _Passes.apply({given})"]
        if self.new:
            lines.append("    with torch.no_grad():  # buffers that the program writes")
            held = {new: name for name, new in self.joint.written.items()}
            lines += [f"        {held[new]}.copy_(found[{len(self.outs) + k}])" for k, new in enumerate(self.new)]
        lines.append(f"    return found[:{len(self.outs)}]")
        learned = list(self.joint.gradients)
        roots = [f"found[{k}]" for k, t in enumerate(self.tangents) if t is not None]
        tangents = [t for t in self.tangents if t is not None]
        compared = [
            f"def _both({', '.join([*self.inputs, *tangents])}):",
            '    """Results, what buffers become, and gradients: what reference() returns."""',
            f"    learned = {_tuple([f'{x}.requires_grad_()' for x in learned])}",
            f"    found = run({given})",
            f"    gradients = torch.autograd.grad({_tuple(roots)}, learned, {_tuple(tangents)}, allow_unused=True)",
            f"    return (*found, {''.join(f'{name}, ' for name in self.joint.written)}*(g for g in gradients if g is not None))",
        ]
        return "\n".join(lines) + "\n\n\n" + "\n".join(compared)

    def check(self) -> Check:
        """The test."""
        graph = torch.fx.Graph()
        made: dict[torch.fx.Node, torch.fx.Node] = {}
        names: list[str] = []
        for n in self.joint.graph.graph.nodes:
            if n.op == "output":
                (found,) = n.args
                names = [name for name in (*self.outs, *self.new, *self.joint.gradients.values()) if found[name] is not None]
                graph.output(tuple(made[found[name]] for name in names))
            elif n.op != "placeholder" or n.name in (*self.inputs, *self.joint.tangents.values()):
                made[n] = graph.node_copy(n, made.__getitem__)
                made[n].meta = {"val": n.meta.get("val")}
        lines: dict[str, None] = {}
        text = with_kinds(function_text(graph, "reference", lines))
        given = given_by({n.name: n.meta["val"] for n in graph.nodes if n.op == "placeholder"})
        held = [name for name, s in self.joint.inputs.items() if s.kind != "argument"]
        passes = [(e.program, e.generated) for e in (self.forward, self.backward)]
        return planned_test("_both", given, held, names, text, lines, passes, on_cpu=self.forward.target.on_cpu)
