"""How many passes through the banks of shared memory the lanes of a warp take to read or write a tile.

A bank serves one word at a time, to any number of lanes.  A lane accesses the widest aligned vector whose elements it holds in
registers of one order; consecutive lanes whose vectors fill all banks once make a phase (NVIDIA: 8 lanes of 16 bytes, 16 of 8, 32 of
4), and a phase takes as many passes as the bank with most words has.  ``ldmatrix`` and ``stmatrix`` move 8 rows of 16 bytes at once,
which 4 lanes hold 4 bytes each, or transposed 8 lanes 2 bytes each; that is a phase.

The number follows from the strides.  Without a swizzle the words of a phase are sums of one digit for each step, all different, so
words per bank are the coefficients of ``prod_k (1 + z^(s_k))`` modulo ``z^banks - 1``.  With a swizzle and strides that are powers of
two sums are XORs, the words are a space over GF(2), and its map to banks has fibres of one size: 2 to the difference of the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import LayoutError
from .iters import MEMORY
from .layout import Layout
from .swizzle import Swizzle, Swizzled

Steps = Mapping[tuple[str, int], int]  # axis and place on it -> step in memory, for each bit of the element's number


@dataclass(frozen=True)
class Passes:
    """Of one warp, over the whole tile."""

    instructions: int  # accesses of a lane, or matrices
    bytes: int  # that a lane moves at once; of a row of a matrix
    phases: int  # of each instruction: the fewest passes that it can take
    passes: int  # of each instruction
    matrix: bool = False  # 8 rows at once

    @property
    def conflicts(self) -> int:
        """Passes beyond the fewest, of all instructions."""
        return self.instructions * (self.passes - self.phases)

    def __str__(self) -> str:
        what = f"matrices of 8 x {self.bytes} B" if self.matrix else f"accesses of {self.bytes} B a lane"
        worst = f"{self.conflicts} bank conflicts ({self.passes} passes each, of {self.phases})" if self.conflicts else "no bank conflicts"
        return f"{self.instructions} {what}, {worst}"


def passes(
    registers: Layout, shared: Layout | Swizzled, element_bytes: int, *,
    lanes: int = 32, banks: int = 32, bank_bytes: int = 4, widest: int = 16, matrix: bool = False,
) -> Passes:  # fmt: skip
    """What it takes to move a tile between registers (axes reg, lane, warp) and shared memory (m, in elements).  ``widest``: bytes of the
    widest access; ``matrix``: by ldmatrix or stmatrix where it can be.  The tile's size is a power of two; LayoutError where the count
    would depend on which registers or warp it is."""
    plain, swizzle = (shared.layout, shared.swizzle) if isinstance(shared, Swizzled) else (shared, Swizzle(0, 0, 0))
    word = max(1, bank_bytes // element_bytes)  # elements
    steps = _steps(registers, plain, swizzle)
    _admit(plain, swizzle, steps.values(), word)
    start = plain.offset.get(MEMORY, 0)
    total = 1 << sum(axis == "reg" for axis, _ in steps)
    rows = element_bytes <= 4 and matrix and _matrix(steps, start, element_bytes)
    vector = 4 // element_bytes if rows else _vector(steps, start, max(1, widest // element_bytes))
    together = lanes if rows else min(lanes, max(1, banks * bank_bytes // max(vector * element_bytes, bank_bytes)))
    own_run = {place for place, s in steps.items() if (place[0] == "reg" and place[1] < vector if rows else s < vector)}
    inside = [s for place, s in steps.items() if place in own_run or (place[0] == "lane" and place[1] < together)]
    scale = element_bytes // bank_bytes or 1  # words of an element
    own = [1 << k for k in range(scale.bit_length() - 1)]
    words = [*own, *(s // word * scale for s in inside if s >= word)]
    if swizzle.bits:
        most = 1 << (_rank(words) - _rank(w % banks for w in words))
    else:
        most = max(_residues(words, banks))
    phases = max(1, lanes // together)
    return Passes(total // vector, 16 if rows else vector * element_bytes, phases, phases * most, bool(rows))


def _steps(registers: Layout, shared: Layout, swizzle: Swizzle) -> dict[tuple[str, int], int]:
    size = registers.size
    if size != shared.size or size & (size - 1):
        raise LayoutError(f"{registers} and {shared} are no two places of one tile of a power of two", cure="tiles as Triton has them")
    shape = (2,) * (size.bit_length() - 1)
    out = {}
    for (held,), (stored,) in zip(registers.blocks(shape), shared.blocks(shape), strict=True):
        if held.stride < 1 or held.stride & (held.stride - 1) or stored.axis != MEMORY or held.axis not in ("reg", "lane", "warp"):
            raise LayoutError(f"bits of the element are at {held} and {stored}", cure="powers of two on reg, lane and warp, and memory")
        out[held.axis, held.stride] = stored.stride
    _apart(shared, out.values())
    return {place: swizzle(s) for place, s in out.items()}


def _apart(shared: Layout, strides: Iterable[int]) -> None:
    reach = 0
    for s in sorted(strides):
        if s <= reach:
            raise LayoutError(f"stride {s} of {shared} overlaps with smaller ones", cure="a layout that has room for every element")
        reach += s


def _admit(shared: Layout, swizzle: Swizzle, moved: Iterable[int], word: int) -> None:
    """That parts of words carry into no other, and that sums are XORs where there is a swizzle."""
    strides, offset = [swizzle(s) for s in moved], shared.offset.get(MEMORY, 0)
    power = all(s & (s - 1) == 0 for s in strides)
    carries = any(s % word and s & (s - 1) for s in strides) or offset % word
    if shared.replicas or carries or (swizzle.bits and (not power or any(s & offset for s in strides))):
        raise LayoutError(f"the banks of {shared} depend on more than the lanes", cure="strides and offset that are multiples of a bank")


def _vector(steps: Steps, start: int, most: int) -> int:
    """The widest aligned run of elements that one lane holds, all others being whole runs away."""
    vector = 1
    while 2 * vector <= most:
        held = any(axis == "reg" and s == vector for (axis, _), s in steps.items())
        if not held or start % (2 * vector) or any(s % (2 * vector) for s in steps.values() if s not in range(1, vector + 1)):
            break
        vector *= 2
    return vector


def _matrix(steps: Steps, start: int, element_bytes: int) -> bool:
    """Whether rows of 16 bytes are together in memory, as 4 lanes hold them, or 8 lanes each an element of 2 bytes."""
    own = [("reg", 1 << k) for k in range((4 // element_bytes).bit_length() - 1)]
    row = 16 // element_bytes

    def along(held: Sequence[tuple[str, int]]) -> bool:
        ascending = [steps.get(place) for place in held] == [1 << k for k in range(len(held))]
        return ascending and start % row == 0 and all(s % row == 0 for place, s in steps.items() if place not in held)

    lanes = [("lane", 1 << k) for k in range(5)]  # those that are no part of a row may hold copies
    return all(place in steps for place in own) and (along([*own, *lanes[:2]]) or (element_bytes == 2 and along(lanes[2:])))


def _residues(steps: Iterable[int], modulus: int) -> list[int]:
    """How many sums of steps, each taken or not, have each residue."""
    counts = [1] + [0] * (modulus - 1)
    for s in steps:
        counts = [counts[r] + counts[(r - s) % modulus] for r in range(modulus)]
    return counts


def _rank(numbers: Iterable[int]) -> int:
    """Of numbers as vectors over GF(2)."""
    rows: dict[int, int] = {}
    for n in numbers:
        while n and (lead := n.bit_length()) in rows:
            n ^= rows[lead]
        if n:
            rows[n.bit_length()] = n
    return len(rows)
