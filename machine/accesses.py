"""What layouts say of a kernel's accesses: passes over the banks of shared memory, and sectors that are partly used.

The compiler's own IR knows both (``c.layouts()``), machine code does not: addresses are numbers that a kernel computes.  An instruction is
told apart by its way and width, so those that are alike share the mean of what is known of their kind; of shared memory through which the
compiler changes a layout in registers nothing is known, and one pass is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .sass import Instruction, Listing

MATRIX = 0  # the width of an access by ldmatrix or stmatrix
_WAYS = {"LDS": "read", "LDSM": "read", "STS": "write", "STSM": "write", "LDGSTS": "copy"}
_BEYOND = {"LDG": "load", "LDGSTS": "load", "STG": "store"}
Kind = tuple[str, int]  # way, bytes of a lane


@dataclass(frozen=True)
class Accesses:
    """``passes``: of ``("read" | "write" | "copy", bytes)`` how many passes shared memory takes over the fewest; ``sectors``: of
    ``("load" | "store", bytes)`` how many bytes the sectors have over those that were asked for."""

    passes: Mapping[Kind, float] = field(default_factory=dict)
    sectors: Mapping[Kind, float] = field(default_factory=dict)

    def of(self, listing: Listing) -> Listing:
        """The listing, with what is known at each instruction."""
        return Listing(tuple(self._at(x) for x in listing.instructions))

    def _at(self, x: Instruction) -> Instruction:
        width = MATRIX if x.name in ("LDSM", "STSM") else x.lane_bytes
        passes = self.passes.get((_WAYS.get(x.name, ""), width), 1.0)
        sectors = self.sectors.get((_BEYOND.get(x.name, ""), x.lane_bytes), 1.0)
        return x if passes == sectors == 1.0 else replace(x, passes=passes, sectors=sectors)


def mean(found: Iterable[tuple[Kind, float, float]]) -> dict[Kind, float]:
    """Of each kind, the sum of all second numbers over that of all third ones."""
    taken: dict[Kind, float] = {}
    least: dict[Kind, float] = {}
    for kind, much, few in found:
        taken[kind] = taken.get(kind, 0.0) + much
        least[kind] = least.get(kind, 0.0) + few
    return {kind: taken[kind] / least[kind] for kind in taken}
