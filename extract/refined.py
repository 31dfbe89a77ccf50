"""What became of a planned kernel's candidates once a compiler, or a clock, had seen them: data, and its lines in a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..tiles.kernel import Kernel


@dataclass(frozen=True)
class Tried:
    """A candidate.  ``static_us``: by its machine code, ``floor_us`` what its busiest ``unit`` needs at least, ``measured_us`` by a clock;
    ``None`` where nobody asked, or nobody knows.  ``refused``: why it is none."""

    roles: Mapping[str, str]
    warps: int
    stages: int
    modelled_us: float
    static_us: float | None = None
    floor_us: float | None = None
    unit: str = ""
    measured_us: float | None = None
    refused: str = ""
    registers: int = 0
    spilled: int = 0  # bytes a thread
    compile_ms: float = 0.0

    def beside(self, other: Tried, on_cpu: bool) -> str:
        """In what it differs from another."""
        roles = [f"{a}={r}" for a, r in self.roles.items() if other.roles.get(a) != r]
        alike = on_cpu or (self.warps, self.stages) == (other.warps, other.stages)
        launched = [] if alike else [f"{self.warps} warps, {self.stages} stages"]
        return ", ".join([*filter(None, [" ".join(roles)]), *launched]) or "other operations"


def tried(kernel: Kernel, modelled_us: float) -> Tried:
    """A candidate of which only the model has said something."""
    return Tried({a.name: str(r) for a, r in kernel.roles.items()}, kernel.warps, kernel.stages, modelled_us)


@dataclass(frozen=True)
class Refined:
    """The candidates of one kernel in the order in which they were tried, the model's first, and which of them was ``chosen``, ``by``
    what: "machine code", "clock", or "model" where these know nothing better.  ``stopped``: what cut that short."""

    candidates: tuple[Tried, ...]
    chosen: int
    by: str
    stopped: str

    @property
    def first(self) -> Tried:
        """The model's."""
        return self.candidates[0]

    @property
    def best(self) -> Tried:
        """The one that was taken."""
        return self.candidates[self.chosen]

    def lines(self, on_cpu: bool) -> list[str]:
        """For a plan: the times of the kernel, and what it was chosen among."""
        best, first = self.best, self.first
        said = [f"{best.static_us:.1f} us by machine code"] if best.static_us is not None else []
        said += [f"at least {best.floor_us:.1f} us ({best.unit})"] if best.floor_us is not None else []
        said += [f"{best.measured_us:.1f} us measured"] if best.measured_us is not None else []
        refused = sum(bool(t.refused) for t in self.candidates)
        said.append(f"{len(self.candidates)} compiled" + (f", {refused} of them refused" if refused else ""))
        lines = [", ".join(said) + (f"; {self.stopped}" if self.stopped else "")]
        if self.chosen:
            us = first.measured_us if self.by == "clock" else first.static_us
            took = first.refused or (f"{us:.1f} us" if us is not None else "slower")
            lines.append(f"chosen by {self.by}, instead of the model's first with {first.beside(best, on_cpu)}: {took}")
        return lines
