"""What ``optimize`` returns: a drop-in callable that can also explain, verify, compile and save itself.

CUDA tensors run the generated Triton kernels; CPU tensors run the original program in torch (there is no CPU code generator, and
the plan says so).  ``interpret`` and ``simulate`` run what was generated without a GPU, for verification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import errors
from ..codegen.module import ModuleSpec, emit_module
from ..codegen.signature import signature
from ..egraph.frozen import FrozenGraph
from ..extract.explain import Explanation, explain
from ..extract.plan import Plan
from ..extract.targets import Target
from ..ir.program import Program
from ..ir.reference import evaluate
from ..tiles.simulate import simulate

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..frontends import Traced
    from .accuracy import AccuracyReport
    from .aot import StaticReport


def module_spec(plan: Plan) -> ModuleSpec:
    """What code generation needs of a plan."""
    program = plan.program
    loaded = {n.attrs[0] for k in plan.kernels for n in k.kernel.nodes if n.op == "load"}
    made = [r.buffer for k in plan.kernels for r in k.kernel.roots]
    outputs = tuple(plan.buffers[o.name] for o in program.outputs)
    names = {o.name for o in outputs}
    return ModuleSpec(
        name=program.name,
        inputs=tuple(plan.buffers[i.name] for i in program.inputs),
        outputs=outputs,
        temporaries=tuple(plan.buffers[b] for b in made if b not in names and b in loaded),
        kernels=tuple(k.tiles for k in plan.kernels),
        header=str(plan),
    )


@dataclass
class Compiled:
    """A compiled program.  Call it like the function it came from."""

    traced: Traced
    graph: FrozenGraph
    plan: Plan
    target: Target
    replan: Callable[[str], Compiled] = field(repr=False)  # the same program planned for another target or architecture
    respecialise: Callable[[Sequence[Any]], Compiled] | None = field(default=None, repr=False)
    resize: Callable[[Plan, Sequence[Any]], Compiled] | None = field(default=None, repr=False)
    _variants: dict[object, Compiled] = field(default_factory=dict, repr=False)

    @property
    def program(self) -> Program:
        """The traced program, as terms."""
        return self.plan.program

    @cached_property
    def source(self) -> str:
        """The generated Triton module, as text; it needs only torch and triton."""
        return emit_module(module_spec(self.plan))

    # -- running -------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the device of the arguments: CUDA tensors the kernels, CPU tensors the original program in torch."""
        tensors = self.traced.bind(*args, **kwargs)
        devices = {t.device.type for t in tensors.values()}
        if len({str(t.device) for t in tensors.values()}) > 1:
            raise errors.DeviceError(
                f"arguments are on {', '.join(sorted({str(t.device) for t in tensors.values()}))}",
                where=self.program.name,
                cure="move every argument to one device",
            )
        if devices == {"cpu"}:
            return self.eager(*args, **kwargs)
        mismatch = self._mismatch(tensors)
        if mismatch:
            if self.respecialise is None:
                raise errors.ShapeError(mismatch, where=self.program.name, cure="call optimize() with arguments of this shape")
            key = tuple((n, tuple(t.shape), str(t.dtype)) for n, t in tensors.items())
            if key not in self._variants:
                self._variants[key] = self.respecialise(args)
            return self._variants[key](*args, **kwargs)
        return self.traced.unflatten(list(self._run([tensors[i.name] for i in self.program.inputs])))

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The original program, run by torch; a program written in terms runs through the float64 reference."""
        if self.traced.eager is not None:
            return self.traced.eager(*args, **kwargs)
        import torch

        tensors = self.traced.bind(*args, **kwargs)
        found = evaluate(self.program, {n: _array(t) for n, t in tensors.items()})
        return self.traced.unflatten([torch.from_numpy(found[o.name]).to(getattr(torch, o.dtype.name)) for o in self.program.outputs])

    @cached_property
    def _run(self) -> Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]:
        from .modules import load_module

        module = load_module(self.source, "run")
        return lambda tensors: module.run(*tensors)

    def _mismatch(self, tensors: dict[str, torch.Tensor]) -> str:
        for i in self.program.inputs:
            want = tuple(1 if a is None else a.size for a in i.layout)
            got = tensors[i.name]
            if tuple(got.shape) != want or str(got.dtype).removeprefix("torch.") != i.dtype.name:
                return f"{i.name} is {tuple(got.shape)} {got.dtype}, compiled for {want} {i.dtype.name}"
        return ""

    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The generated Triton through Triton's interpreter, on CPU tensors of any size the plan admits.

        ``sanitize`` checks bounds, undefined lanes and races.  Slow (about 0.1 ms per tile operation): use reduced sizes.
        """
        from .interpreter import interpret
        from .modules import load_module

        tensors = self.traced.bind(*args, **kwargs)
        mismatch = self._mismatch(tensors)
        if mismatch:
            raise errors.ShapeError(mismatch, where=self.program.name, cure="call optimize() with arguments of this shape")
        module = load_module(self.source, "interpret")
        found = interpret(module, "run", *[tensors[i.name].cpu() for i in self.program.inputs], sanitize=sanitize)
        return self.traced.unflatten(list(found))

    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The plan through the numpy tile interpreter, in float64 (or ``dtype``); outputs are torch tensors of that type."""
        import numpy as np
        import torch

        tensors = self.traced.bind(*args, **kwargs)
        arrays: dict[str, np.ndarray] = {n: _array(t) for n, t in tensors.items()}
        for k in self.plan.kernels:
            arrays.update(simulate(k.tiles, arrays, dtype=dtype or np.float64))
        return self.traced.unflatten([torch.from_numpy(np.ascontiguousarray(arrays[o.name])) for o in self.program.outputs])

    def at(self, *args: Any) -> Compiled:
        """The same kernels, roles and tiles for arguments of other sizes: how a plan for large tensors is verified on small ones.

        Raises :class:`~eqfuse.errors.PlanError` when the program has another structure there (an axis of length 1 vanishes).
        """
        if self.resize is None:
            raise errors.PlanError("this plan was itself made for other sizes", where=self.program.name)
        return self.resize(self.plan, args)

    # -- knowing -------------------------------------------------------------------------------------------------------------
    def explain(self) -> Explanation:
        """Which rules made this plan, what it saves, why the runner-up lost; as text (``str``) and as data (``.json()``)."""
        return explain(self.graph, self.plan)

    def accuracy(self, *args: Any, runner: str = "auto") -> AccuracyReport:
        """Errors against float64 of the generated kernels and of the eager program in its own type."""
        from .accuracy import measure

        return measure(self, args, runner)

    def compile(self, arch: str | None = None) -> list[StaticReport]:
        """Compile every kernel ahead of time; no GPU needed.  A plan belongs to a target: for another architecture than the
        target's, the program is planned again for that architecture's representative device."""
        from ..extract.targets import load_target
        from .aot import compile_kernel
        from .modules import load_module

        if arch is not None and arch != self.target.arch:
            other = load_target(arch)
            if other.arch != self.target.arch:
                return self.replan(other.name).compile(other.arch)
        module = load_module(self.source, "aot")
        return [
            compile_kernel(
                module, k.kernel.name, signature(k.tiles), self.target, num_warps=k.kernel.warps, num_stages=k.kernel.stages
            )
            for k in self.plan.kernels
        ]

    def save(self, path: str | Path) -> Path:
        """Write the generated module to a file that a team can keep: it needs only torch and triton."""
        path = Path(path)
        path.write_text(self.source)
        return path

    def __str__(self) -> str:
        return str(self.plan)


def _array(t: torch.Tensor) -> np.ndarray:
    import torch

    t = t.detach().cpu()
    return (t.float() if t.dtype == torch.bfloat16 else t).numpy()
