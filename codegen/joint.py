"""One launch of several kernels: a function whose first programs are those of the first kernel, the next ones those of the second.

The kernels are functions that are told which of their programs they are.  What they have in common (tensors, strides, lengths) is passed
once; parameters of one name that say different things get a number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..ir import dtypes
from ..tiles.names import identifier
from ..tiles.program import Dot, Param, TileProgram
from .text import wrap


@dataclass(frozen=True)
class Joint:
    """Kernels that are launched together, none persistent or with descriptors and all with the same options of a launch
    but for the stages of those without a product."""

    members: tuple[TileProgram, ...]

    @property
    def name(self) -> str:
        """Of the function."""
        return f"joint_{identifier(self.members[0].name)}"

    @property
    def stages(self) -> int:
        """Of the launch: those of its products, if it has any; other loops say theirs."""
        with_products = (m for m in self.members if any(isinstance(s, Dot) for s in m.statements()))
        return next(with_products, self.members[0]).kernel.stages

    @cached_property
    def _known(self) -> tuple[dict[str, Param], tuple[tuple[str, ...], ...], tuple[Param, ...]]:
        """Parameters by name, what those of each member are called here, and the numbers of programs."""
        found: dict[str, Param] = {}
        called = tuple(tuple(_added(found, p) for p in m.parameters) for m in self.members)
        counts = [Param(f"P_{k}", "int", dtypes.int32, m.tasks) for k, m in enumerate(self.members[:-1], 1)]
        return found, called, tuple(found[_added(found, p)] for p in counts)

    @property
    def counts(self) -> tuple[Param, ...]:
        """How many programs each kernel but the last one has."""
        return self._known[2]

    @property
    def parameters(self) -> tuple[Param, ...]:
        """What the function takes, in order."""
        return tuple(p for kind in ("pointer", "int", "constexpr") for p in self._known[0].values() if p.kind == kind)

    @property
    def text(self) -> str:
        """The function."""
        words = [f"{p.name}: tl.constexpr" if p.kind == "constexpr" else p.name for p in self.parameters]
        names = ", then of ".join(m.name for m in self.members)
        lines = ["@triton.jit", f"def {self.name}(", *(f"    {g}," for g in wrap(words, 120)), "):"]
        lines += [f'    """One launch: the programs of {names}."""', "    pid = tl.program_id(0)"]
        before: list[str] = []
        for at, (m, given) in enumerate(zip(self.members, self._known[1], strict=True)):
            until = " + ".join([*before, self.counts[at].name]) if at < len(self.counts) else ""
            lines.append(f"    {'elif' if at else 'if'} pid < {until}:" if until else "    else:")
            lines.append(f"        {identifier(m.name)}(")
            lines += [f"            {g}," for g in wrap([" - ".join(["pid", *before]), *given], 112)]
            lines.append("        )")
            before += [self.counts[at].name] if until else []
        return "\n".join(lines)


def _added(found: dict[str, Param], p: Param) -> str:
    """The name of a parameter among others: its own, if that is not taken by another one."""
    name, number = p.name, 1
    while name in found and replace(found[name], name=p.name) != p:
        number += 1
        name = f"{p.name}_{number}"
    found[name] = replace(p, name=name)
    return name
