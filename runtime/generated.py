"""The module that is generated from one plan: its text, the sizes it takes, and what can be done with its kernels without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..codegen.c.host import C
from ..codegen.joint import Joint
from ..codegen.module import emit_kernels, with_host
from ..codegen.sizes import Guard, ModuleSpec, admits, agrees, guards, lengths
from ..errors import CompileError
from ..extract.plan import Plan, PlannedCall, PlannedKernel, plan_text
from ..extract.targets import Target
from ..ir.program import Output, Program
from ..ir.reference import evaluate
from ..ir.sameness import same_program
from ..tiles.simulate import simulate
from .saved_sizes import dependence

if TYPE_CHECKING:
    import numpy as np

    from ..frontends import Traced
    from ..tiles.program import Param, TileProgram
    from .aot import StaticReport
    from .estimates import KernelEstimate
    from .levels import KernelLayouts


def module_spec(plan: Plan) -> ModuleSpec:
    """What code generation needs of a plan."""
    program = plan.program
    loaded = {name for k in plan.steps for name in k.loads}
    made = [b.name for k in plan.steps for b in k.stores]
    outputs = tuple(plan.buffers[o.name] for o in program.outputs)
    arranged = any(len(r.outputs) > 1 or max(r.merges[0], default=1) > 1 for r in program.results)
    names = {o.name for o in outputs}
    launched = plan.launched
    in_order = [k for ks in launched for k in ks]
    return ModuleSpec(
        name=program.name,
        inputs=tuple(plan.buffers[i.name] for i in program.inputs),
        outputs=outputs,
        temporaries=tuple(plan.buffers[b] for b in made if b not in names and b in loaded),
        kernels=tuple(k.tiles for k in in_order if isinstance(k, PlannedKernel)),
        header=plan_text(plan, module=True),
        results=program.results if arranged else (),
        calls=tuple(
            (sum(isinstance(k, PlannedKernel) for k in in_order[:at]), step.call)
            for at, step in enumerate(in_order)
            if isinstance(step, PlannedCall)
        ),
        launches=tuple(len(ks) for ks in launched if isinstance(ks[0], PlannedKernel)) if plan.launches else (),
        language=C if plan.on_cpu else None,
    )


@dataclass(eq=False)
class Generated:
    """The module of a plan."""

    traced: Traced
    sized: bool  # a rule depended on the lengths of axes
    plan: Plan
    target: Target
    _source: str | None = field(default=None, init=False, repr=False)
    _saved: ModuleSpec | None = field(default=None, init=False, repr=False)

    @property
    def program(self) -> Program:
        """The program that was traced."""
        return self.traced.program

    @property
    def source(self) -> str:
        """The module for all sizes that the kernels and the program admit."""
        if self._source is None:
            self._source = with_host(self._kernels, self.saved_spec)
        return self._source

    @property
    def saved_spec(self) -> ModuleSpec:
        """What the module for all sizes is made of: the lengths on which the program depends are fixed."""
        # no cached_property: before Python 3.12 that has a lock, and tracing another one; a thread may want them the other way round
        if self._saved is None and self.sized:
            self._saved = self.exact_spec
        if self._saved is None:
            spec = module_spec(self.plan)
            found = dependence(self.traced, spec)
            shapes = {b.name: b.shape for b in spec.inputs}
            fixed = {(name, d): shapes[name][d] for name, d in found.fixed}
            self._saved = replace(spec, fixed=fixed, equal=found.equal, ranges=found.ranges)
        return self._saved

    @cached_property
    def exact_spec(self) -> ModuleSpec:
        """What the module for the planned sizes alone is made of."""
        spec = module_spec(self.plan)
        return replace(spec, fixed={(name, d): self._shapes[name][d] for one in lengths(spec) for name, d in one.dimensions})

    @cached_property
    def exact_source(self) -> str:
        """The module for the planned sizes alone, which is what the operator has: the same kernels, known without tracing again."""
        return with_host(self._kernels, self.exact_spec)

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Of inputs, at the sizes of the program."""
        return {i.name: tuple(self._shapes[i.name]) for i in self.program.inputs}

    @property
    def _shapes(self) -> dict[str, list[int]]:
        """Of inputs and outputs; what only the plan has are parts of these."""
        outputs = *self.plan.program.outputs, *self.program.outputs
        layouts = {i.name: i.layout for i in self.program.inputs} | {o.name: o.layout for o in outputs}
        return {name: [1 if a is None else a.size for a in layout] for name, layout in layouts.items()}

    @cached_property
    def called_source(self) -> str:
        """The module that calls run, for all sizes that its kernels can take: that they are sizes of this program is known here."""
        return with_host(self._kernels, module_spec(self.plan))

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """What the kernels need of the lengths that they read from shapes; every other length is the planned one."""
        return guards(module_spec(self.plan))

    def serving(self, traced: Traced, *, guarded: bool = True) -> Generated | None:
        """The same kernels for the program at other sizes; ``None`` if it is another program there, or they cannot take these sizes.
        ``guarded``: whatever they need of lengths (a multiple of a tile) does not count against them if not."""
        sizes = {a.name: a.size for a in traced.program.every_axis}
        if self.sized or not same_program(self.program, traced.program, sizes):
            return None
        found = Generated(traced, self.sized, self.plan, self.target)
        if not (admits if guarded else agrees)(module_spec(self.plan), sizes, found._shapes):
            return None
        found.__dict__.update(_kernels=self._kernels, called_source=self.called_source)  # printed once
        return found

    @cached_property
    def _kernels(self) -> str:
        """What both have in common, printed once: what operators of the user are spelled as may change."""
        return emit_kernels(module_spec(self.plan))

    def simulate(self, arrays: Mapping[str, np.ndarray], kind: Any) -> dict[str, np.ndarray]:
        """All tensors, from those of the inputs, by the numpy tile interpreter in one type."""
        made = dict(arrays)
        for k in self.plan.steps:
            made.update(simulate(k.tiles, made, dtype=kind) if isinstance(k, PlannedKernel) else self._meant(k, made))
        return made

    def _meant(self, step: PlannedCall, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What an outside call should make: the value that its rule offers it for, by the reference."""
        made = step.call.result
        wanted = Output(made.buffer.name, step.term, made.dims, made.buffer.dtype)
        inputs = {i.name: arrays[i.name] for i in self.program.inputs}
        return dict(evaluate(Program(self.program.name, (wanted,), self.program.inputs), inputs))

    def compile(self) -> list[StaticReport]:
        """Compile every launch ahead of time for the target's architecture: a kernel, or several in one function."""
        if self.target.on_cpu:
            raise CompileError("there are no static reports of kernels in C", cure="call it, which compiles them, or plan for a GPU")
        try:
            from .aot import compile_kernel
        except ImportError as error:
            raise CompileError(f"kernels are compiled by Triton: {error}", cure="pip install 'triton>=3.6,<4', on Linux") from error
        from .modules import load_module

        module = load_module(self.called_source, "aot")
        planned = {k.kernel.name: k for k in self.plan.kernels}
        reports = []
        for tiles, name, params in self._functions:
            kernel, stages = tiles[0].kernel, Joint(tiles).stages
            report = compile_kernel(
                module, name, params, self.target, num_warps=kernel.warps, num_stages=stages, registers=kernel.registers,
                contract=tiles[0].contracts,
            )  # fmt: skip
            members = [planned[t.kernel.name] for t in tiles]
            known = members[0].refined if len(members) == 1 else None
            times = (known.best.static_us, known.best.measured_us) if known else (None, None)
            modelled = sum(k.cost.us for k in members)
            reports.append(replace(report, modelled_us=modelled, static_us=times[0], measured_us=times[1]))
        return reports

    def layouts(self) -> list[KernelLayouts]:
        """Compile every launch, and read who holds its tensors at each level."""
        return self._layouts(self.compile())

    def _layouts(self, reports: Sequence[StaticReport]) -> list[KernelLayouts]:
        from .accesses import memory_accesses
        from .levels import levels

        out = []
        for report, (kernels, _, params) in zip(reports, self._functions, strict=True):
            pointers = {p.name: self.plan.buffers[p.buffer] for p in params if p.kind == "pointer" and p.buffer}
            accesses = memory_accesses(kernels, self.called_source, report.assembly, self.target.warp_size)
            out.append(levels(report, self.target, pointers, accesses))
        return out

    def estimates(self) -> list[KernelEstimate]:
        """Compile every launch, and read off its machine code how long it takes."""
        from .estimates import kernel_estimate

        planned = {k.kernel.name: k for k in self.plan.steps if isinstance(k, PlannedKernel)}
        reports = self.compile()
        return [
            kernel_estimate(report, [planned[t.kernel.name] for t in kernels], self.target, layouts)
            for report, layouts, (kernels, _, _) in zip(reports, self._layouts(reports), self._functions, strict=True)
        ]

    @property
    def _functions(self) -> list[tuple[tuple[TileProgram, ...], str, Sequence[Param]]]:
        """Of every launch: its kernels, the function's name and parameters."""
        out: list[tuple[tuple[TileProgram, ...], str, Sequence[Param]]] = []
        for kernels in module_spec(self.plan).launched:
            joint = Joint(kernels)
            alone = len(kernels) == 1
            out.append((kernels, *((kernels[0].kernel.name, kernels[0].parameters) if alone else (joint.name, joint.parameters))))
        return out
