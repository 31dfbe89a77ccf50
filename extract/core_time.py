"""How long a tile program takes on a CPU: what one core does, term by term, and what of that hides behind something else.

A core does one thing after the other, so its work adds up: the micro-kernel (with the rows and columns that it computes in vain), packing,
instructions, functions, the beginnings of rows.  Memory is read ahead of it: of the time that streams take, the measured share
hides behind the work, as far as there is any.  What is loaded again comes from the nearest level that holds all that the loops between have
touched (reuse distance; Wolf and Lam 1991), and so do tiles, which are arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..tiles.native import LINE, PAGE, Product, Work
from .targets.core import Core, Level

SHARE = 0.8  # of a level that holds what is said to be in it (assumption)
NEAR = 16384  # bytes of rows that are read where they are, panel by panel, before the next ones: EQ_NEAR of products.h
INNER = 4  # rows and columns of inner products that are taken at a time

# functions by those that were measured: elements of these, and instructions
FUNCTIONS: dict[str, tuple[tuple[tuple[str, float], ...], float]] = {
    "exp": ((("exp", 1.0),), 0.0),
    "exp2": ((("exp", 1.0),), 0.0),
    "expm1": ((("exp", 1.0),), 10.0),
    "log": ((("log", 1.0),), 0.0),
    "log1p": ((("log", 1.0), ("div", 1.0)), 6.0),
    "pow": ((("log", 1.0), ("exp", 2.0)), 20.0),
    "tanh": ((("tanh", 1.0),), 0.0),
    "sigmoid": ((("exp", 1.0), ("div", 1.0)), 2.0),
    "erf": ((("erf", 1.0),), 0.0),
    "recip": ((("div", 1.0),), 0.0),
    "div": ((("div", 1.0),), 0.0),
    "quotient": ((("div", 1.0),), 0.0),
    "sqrt": ((("div", 1.0),), 0.0),
    "rsqrt": ((("div", 2.0),), 0.0),
}
OTHER = 20.0  # exponentials that a function of the C library takes, which no loop is vectorised over (assumption)


def core_terms(work: Work, core: Core, share: float = 1.0, drawn: float = 1.0) -> dict[str, float]:
    """Microseconds by kind; they add up to the time.  A core does a ``share`` of all the work; that share of what comes from memory is its
    own, too, or ``drawn``, if all cores together are no faster."""
    held = core.level(work.held / SHARE)
    special = instructions = 0.0
    for op, n in work.special.items():
        parts, more = FUNCTIONS.get(op, ((("exp", OTHER),), 0.0))
        special += n * sum(core.special_ns.get(name, core.special_ns["exp"]) * k for name, k in parts)
        instructions += n * more
    terms = {
        "products": sum(p.calls * _product(p, core) for p in work.products),
        "packing": sum(p.calls * _packing(p, core) for p in work.products),
        "simt": (work.vector + instructions) / core.vector_gops,
        "special": special,
        "rows": work.loops * core.loop_ns + work.extrema * core.extremum_ns,
        "scattered": sum(n * _line(core.level(size / SHARE), core) for n, size in work.scattered),
        "arrays": 0.0 if held is core.levels[0] else work.array_bytes / held.copy_gb_s,
    }
    terms = {k: v * share for k, v in terms.items()}
    terms |= {k: v * max(share, drawn) for k, v in _memory(work, core).items()}
    terms["streams"] -= core.overlap * min(terms["streams"], sum(terms.values()) - terms["streams"])
    return {k: v * 1e-3 for k, v in terms.items()}


def _line(level: Level, core: Core) -> float:
    """Nanoseconds of an element that takes a line of its own."""
    return 1 / core.vector_gops * core.columns / 2 + (0.0 if level is core.levels[0] else LINE / level.read_gb_s + level.piece_ns)


# -- products ------------------------------------------------------------------------------------------------------------------


def _is_inner(p: Product, core: Core) -> bool:
    return p.inner and (p.m <= _few(core) or p.n <= INNER)


def _few(core: Core) -> int:
    """Rows that do not repay packing: EQ_FEW of products.h."""
    return 2 * core.rows


def _unpacked(p: Product, core: Core) -> int:
    """Columns that are read where they are."""
    return p.n // core.columns * core.columns if p.there and p.m <= _few(core) else 0


def _product(p: Product, core: Core) -> float:
    """Nanoseconds of one call, its operands packed."""
    if _is_inner(p, core):  # fewer rows than are taken at a time have as many columns to load
        rows = sum((rows + INNER - 1) / (2 * INNER - 1) * INNER for rows in _groups(p.m, INNER))
        return rows * math.ceil(p.n / INNER) * INNER * (2 * p.k / core.inner_gflops + core.inner_ns)
    full = 2 * core.rows * core.columns / core.product_gflops  # a step of the micro-kernel
    more = max(full - core.step_ns, 0.0) / max(core.rows - 1, 1)  # of it a row more than one
    near = max(16, NEAR // (4 * p.n)) if _unpacked(p, core) and 64 * p.n <= NEAR else p.k
    pieces = max(math.ceil(p.k / near), 1)
    panels = math.ceil(p.n / core.columns)
    result, panel = 4.0 * p.m * panels * core.columns, 4.0 * core.columns * p.k
    left = core.level((p.left_sets * p.m * p.k * 4.0 + result + panel) / SHARE)
    time = 0.0
    for rows in _groups(p.m, core.rows):
        step = max(core.step_ns + (rows - 1) * more, 4.0 * rows / left.read_gb_s)  # it is read while the last rows are multiplied
        time += p.k * step + pieces * core.call_ns * rows / core.rows
    # sums are read and written where the tile of the result is
    time += 4.0 * p.m * core.columns * (2 * pieces - 1 + p.adds) * _farther(core.level((result + panel) / SHARE), core)
    return panels * time


def _farther(level: Level, core: Core) -> float:
    """Nanoseconds that a byte of an array takes longer than in the nearest level."""
    return 1 / level.copy_gb_s - 1 / core.levels[0].copy_gb_s


def _groups(m: int, most: int) -> Iterable[int]:
    """The rows that micro-kernels take, one after the other."""
    for rows in (n for n in (12, 8, 6, 4, 3, 2, 1) if n <= most):
        while m >= rows:
            yield rows
            m -= rows


def _packing(p: Product, core: Core) -> float:
    """Nanoseconds to pack the right operand of one call."""
    if _is_inner(p, core):
        return 0.0
    columns = p.n - _unpacked(p, core)
    elements = math.ceil(columns / core.columns) * core.columns * p.k
    time = elements / (core.turn_gelem_s if p.turned else core.pack_gelem_s)
    return time + 8.0 * elements * _farther(core.level(4.0 * elements / SHARE), core)  # panels are written where they lie


# -- memory --------------------------------------------------------------------------------------------------------------------


def _memory(work: Work, core: Core) -> dict[str, float]:
    """Nanoseconds in which what is read and written comes from each level but the nearest.  What is in pieces that are shorter than a
    page, and do not go on in the next step, is not read ahead."""
    streams = [s for s in work.streams if s.run >= PAGE or s.goes_on]
    pieces = [s for s in work.streams if not (s.run >= PAGE or s.goes_on)]
    shared = len(core.levels) - 2  # the last cache finds places by more of an address
    beyond = [_beyond(work, level, k < shared) for k, level in enumerate(core.levels[:-1])]  # what each level does not hold
    terms = {"streams": 0.0, "pieces": 0.0}
    for k, level in enumerate(core.levels[1:]):
        for name, some in (("streams", streams), ("pieces", pieces)):
            for s in some:
                n = max(beyond[k][id(s)] - (beyond[k + 1][id(s)] if k + 1 < len(beyond) else 0.0), 0.0)
                n *= max(1.0, LINE / s.run)
                terms[name] += n / (level.copy_gb_s if s.stores else level.read_gb_s)
                if name == "pieces":
                    terms[name] += n / max(s.run, LINE) * level.piece_ns
    return terms


def _beyond(work: Work, level: Level, sets: bool) -> dict[int, float]:
    """Of every stream, the bytes that a level does not hold from the time before."""
    holds = SHARE * level.bytes
    touched: dict[tuple[object, ...], float] = {}  # loops around, the loop itself last -> bytes of the level that one step of it takes
    for s in work.streams:
        size = s.bytes * (s.sets if sets else 1.0)
        for depth in range(len(s.around), -1, -1):
            key = tuple(name for name, _, _ in s.around[:depth])
            touched[key] = touched.get(key, 0.0) + size
            if depth and s.around[depth - 1][2]:
                size *= s.around[depth - 1][1]
    found: dict[int, float] = {}
    first: dict[tuple[object, ...], float] = {}
    for s in work.streams:
        names = tuple(name for name, _, _ in s.around)
        fits = next((d for d in range(len(names) + 1) if touched[names[:d]] + work.held <= holds), None)
        if fits is None:
            found[id(s)] = s.bytes * math.prod([steps for _, steps, _ in s.around])
        elif fits == 0:
            found[id(s)] = 0.0  # all of it is there from the call before
        else:  # within a step of this loop everything is loaded once, whoever does it first
            n = s.bytes * math.prod([steps for k, (_, steps, other) in enumerate(s.around) if other or k < fits - 1])
            key = (s.buffer, names[:fits])
            found[id(s)] = max(n - first.get(key, 0.0), 0.0)
            first[key] = max(first.get(key, 0.0), n)
    return found
