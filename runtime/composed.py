"""The module of a program that is planned in regions: those of its parts, called one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..codegen.composed import Call, ComposedSpec, emit, kernels_of
from ..codegen.sizes import Guard
from ..extract.plan import Plan, plan_text
from ..extract.regions import Partition, Region, last_readers, regions, tensors
from ..tiles.kernel import Buffer
from .composed_sizes import at_other_sizes
from .generated import Generated

if TYPE_CHECKING:
    import numpy as np

    from ..frontends import Traced
    from .aot import StaticReport
    from .estimates import KernelEstimate
    from .levels import KernelLayouts


@dataclass(eq=False)
class Composed:
    """The module of a plan in parts.  ``regions`` say what each reads and makes, ``parts`` are their modules, one object for equal ones."""

    partition: Partition
    regions: tuple[Region, ...]
    parts: tuple[Generated, ...]
    plan: Plan
    traced: Traced
    _saved: ComposedSpec | None = field(default=None, init=False, repr=False)

    @cached_property
    def different(self) -> tuple[Generated, ...]:
        """Each module once, in the order of its first call."""
        return tuple({id(p): p for p in self.parts}.values())

    @cached_property
    def tensors(self) -> dict[str, Buffer]:
        """Of the whole program."""
        return tensors(self.partition.program, ((r.program.outputs, r.makes) for r in self.regions))

    @property
    def source(self) -> str:
        """The module, for all sizes that every region and the program admit."""
        return _module(self.saved_spec)

    @property
    def saved_spec(self) -> ComposedSpec:
        """What it is made of."""
        if self._saved is None:  # as in :class:`.generated.Generated`
            self._saved = at_other_sizes(self) or self.exact_spec
        return self._saved

    @cached_property
    def exact_source(self) -> str:
        """The module for the planned sizes alone, known without tracing again."""
        return _module(self.exact_spec, self._kernels)

    @cached_property
    def _kernels(self) -> str:
        """What this has in common with the module for other sizes, printed once."""
        spec = self.exact_spec
        return kernels_of(spec.name, spec.header, [spec])

    @property
    def called_source(self) -> str:
        """The same."""
        return self.exact_source

    @property
    def calls(self) -> tuple[Call, ...]:
        """The regions in order, with the tensors that they read and make and the shapes that these have there."""
        numbers = {id(p): k for k, p in enumerate(self.different)}
        last = last_readers(self.regions)
        found = self.tensors
        calls = []
        for at, (region, module) in enumerate(zip(self.regions, self.parts, strict=True)):
            done = (n for n in dict.fromkeys((*region.reads, *region.makes)) if found[n].role == "temporary" and last.get(n, at) == at)
            reads = tuple((name, i.shape) for name, i in zip(region.reads, region.program.inputs, strict=True))
            makes = tuple((name, o.shape) for name, o in zip(region.makes, region.program.outputs, strict=True))
            calls.append(Call(numbers[id(module)], reads, makes, tuple(done) if at + 1 < len(self.parts) else ()))
        return tuple(calls)

    @property
    def exact_spec(self) -> ComposedSpec:
        """What the module for the planned sizes is made of."""
        program, found = self.partition.program, self.tensors
        return ComposedSpec(
            name=program.name,
            inputs=tuple(found[i.name] for i in program.inputs),
            outputs=tuple(found[o.name] for o in program.outputs),
            buffers=found,
            plans=tuple(p.exact_spec for p in self.different),
            calls=self.calls,
            header=plan_text(self.plan, module=True),
            results=program.results,
        )

    @cached_property
    def guards(self) -> tuple[Guard, ...]:
        """Every length that a kernel reads is the planned one."""
        return tuple(
            Guard(f"{i.name}.shape[{d}]", (i.name, d), "==", a.size)
            for i in self.plan.program.inputs
            for d, a in enumerate(i.layout)
            if a is not None
        )

    def serving(self, traced: Traced, *, guarded: bool = True) -> Composed | None:
        """The same kernels at other sizes, where every region's can take them; ``guarded``: or could, by what they need of lengths."""
        from ..frontends import trace

        partition = self.partition.at(traced.program)
        there = () if partition is None else tuple(regions(partition))
        if partition is None or [(r.reads, r.makes) for r in there] != [(r.reads, r.makes) for r in self.regions]:
            return None
        found: dict[str, Generated] = {}
        for region, module in zip(there, self.parts, strict=True):
            if region.key not in found:
                served = module.serving(trace(region.program_like(module.program)), guarded=guarded)
                if served is None:
                    return None
                found[region.key] = served
        made = Composed(partition, there, tuple(found[r.key] for r in there), self.plan, traced)
        made.__dict__.update(_kernels=self._kernels)
        return made

    def simulate(self, arrays: Mapping[str, np.ndarray], kind: Any) -> dict[str, np.ndarray]:
        """All tensors of the whole program, from those of the inputs, by the numpy tile interpreter in one type."""
        made = dict(arrays)
        for region, module in zip(self.regions, self.parts, strict=True):
            here = zip(region.reads, module.program.inputs, strict=True)
            given = {i.name: made[name].reshape(i.shape) for name, i in here}
            found = module.simulate(given, kind)
            for o, name in zip(module.program.outputs, region.makes, strict=True):
                made[name] = found[o.name].reshape(self.tensors[name].shape)
        return made

    def compile(self) -> list[StaticReport]:
        """Compile every different kernel ahead of time for the target's architecture."""
        return [report for p in self.different for report in p.compile()]

    def estimates(self) -> list[KernelEstimate]:
        """How long every different launch takes by its machine code."""
        return [found for p in self.different for found in p.estimates()]

    def layouts(self) -> list[KernelLayouts]:
        """Compile every different kernel, and read who holds its tensors at each level."""
        return [found for p in self.different for found in p.layouts()]


def _module(spec: ComposedSpec, kernels: str | None = None) -> str:
    return emit(spec.name, spec.header, {"run": spec}, kernels=kernels)
