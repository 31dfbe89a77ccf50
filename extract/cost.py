"""What a kernel costs: what its tile program, the same that is printed and simulated, has units and memories do, and how much of that
happens at the same time.

Traffic, operations and footprint come from :func:`eqfuse.tiles.walk.walk`, what units do of them from :mod:`.units`, what of it shows from
:mod:`.overlap`; a program also waits where it begins, for the first loads of a loop, in each step.  Rates come from the target's data file.
On a CPU the time is a sum (:mod:`.core_time`).
The footprint is a hard limit: what does not fit on chip is rejected, with the number of bytes that are too many.  The model ranks
plans and explains them; it is not a clock (docs/decisions/cost_model.md says what machine code says of it).
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..tiles.kernel import Kernel
from ..tiles.liveness import ADDRESS_BYTES
from ..tiles.sizes import VECTOR_BYTES
from ..tiles.walk import Counts, Traffic
from . import flight
from .core_time import core_terms
from .overlap import MEMORY, PHASES, contributions
from .plan import Cost, PlannedKernel
from .targets import Target
from .targets.core import Core
from .traffic import found_near, most_passes, passing, spilled
from .units import exchanged, units, way

# what a program waits for, beside the work of units (fitted to times measured on an H100: docs/decisions/cost_model.md)
FILL_US = 0.6  # where a loop begins: its first loads
STEP_US = 0.14  # in a step of a loop
MEMORY_US = 0.55  # in a step that finds its data not loaded ahead, if it is long
UNROLLED = 150.0  # instructions of a warp: of shorter steps a compiler begins the loads of several together
VECTOR = 0.6  # of the instructions on elements run on the unit that multiplies and adds (assumption; compiled rows have 0.4 to 1.2)
PER_SM_SHARE = 1.5  # one SM can draw this many times its fair share of memory bandwidth (assumption)
BASE_REGISTERS = 40  # addresses, indices and scalars
# registers of a thread that a compiler takes: so many, and this share of those of its tiles, by who multiplies.  Warps hold what they have
# loaded as well.  (measured: docs/decisions/cost_model.md)
REGISTERS = {"warp": (30, 1.4), "group": (30, 0.85), "block": (30, 1.0), "": (12, 0.8)}
POINTERS = 1 / 3  # of the pointers that a loop could hold, how many a compiler does hold (measured on the compiled corpus)
ROWS = 0.5  # of the numbers that a thread has for its rows, how many a compiler holds at a time (measured: docs/decisions/registers.md)
MAX_THREADS = 1024  # of a CTA
WARPS_OF_PRODUCTS = (4, 8)  # groups of four warps run the matrix unit
STAGES_OF_PRODUCTS = 4  # of loops with products; compilers are given no more
AHEAD = 0.3  # of the operands of a product on the general units, how much a compiler keeps in registers (measured on the compiled corpus)


@dataclass(frozen=True)
class Fit:
    """How a kernel fits a device: warps, pipeline stages and footprints (bytes per program), or the reason it does not."""

    warps: int
    stages: int
    shared_bytes: int
    register_bytes: int
    reason: str = ""
    resource: str = ""  # what does not suffice: "shared memory" or "registers"
    over: int = 0  # by how many bytes
    by_copies: bool = False  # copies of the numbers of rows are all that is too much


def fit(counts: Counts, target: Target, share: float = 1.0, copies: bool = True) -> Fit:
    """Choose warps and stages by the footprint; ``reason`` is set when nothing fits.  ``share`` of the registers that tiles may take
    by the model: less than 1 for a kernel of which a compiler has shown that it needs more than the model counts.  Without ``copies``
    those of the numbers of rows are not counted: what does not fit for them alone spills, but runs."""
    registers = _tiles(counts, target)
    if target.core is not None:
        return _fit_core(counts, target)
    limit = target.shared_bytes_per_block
    most = 3 if counts.dot_operand_bytes else 2 if counts.dots and counts.trips else 1
    possible = [w for w in (WARPS_OF_PRODUCTS if counts.dots else (1, 2, 4, 8, 16)) if w * target.warp_size <= MAX_THREADS]
    stages = {w: next((n for n in range(most, 1, -1) if _shared(counts, n, w, target) <= limit), 1) for w in possible}
    shared = {w: _shared(counts, n, w, target) for w, n in stages.items()}
    if (over := min(shared.values()) - limit) > 0:
        reason = f"a tile needs {over} bytes more shared memory than the device has"
        return Fit(8, 1, min(shared.values()), registers, reason, "shared memory", over)
    possible = [w for w in possible if shared[w] <= limit]
    single = {w: registers + _operands(counts, w, target) + _pointers(counts, w, target) for w in possible}
    needed = {w: n + copies * _rows(counts, w, target) for w, n in single.items()}
    able = [w for w in possible if needed[w] <= share * tile_bytes(w, target)]
    if able:
        wanted = _warps_wanted(counts)
        warps = next((w for w in able if w >= wanted), able[-1])
        return Fit(warps, stages[warps], shared[warps], needed[warps])
    over = min(needed[w] - int(share * tile_bytes(w, target)) for w in possible)
    reason = f"a tile needs {over} bytes more registers than a block can use"
    by_copies = any(single[w] <= share * tile_bytes(w, target) for w in possible)
    warps = 8 if 8 in possible else possible[-1]
    return Fit(warps, stages[warps], shared[warps], registers, reason, "registers", over, by_copies)


def launchable(counts: Counts, fitted: Fit, target: Target, share: float = 1.0) -> list[Fit]:
    """A fit, and other warps and more stages with which products fit as well: what they cost decides."""
    found = [fitted]
    if not counts.products or fitted.reason or target.core is not None:
        return found
    registers = _tiles(counts, target)
    for warps in (w for w in WARPS_OF_PRODUCTS if w * target.warp_size <= MAX_THREADS):
        needed = registers + _operands(counts, warps, target) + _pointers(counts, warps, target)
        if needed > share * tile_bytes(warps, target):
            continue
        for stages in range(fitted.stages, STAGES_OF_PRODUCTS + 1) if counts.dot_operand_bytes else (fitted.stages,):
            other = replace(launched_with(counts, fitted, warps, stages, target), register_bytes=needed)
            if other.shared_bytes <= target.shared_bytes_per_block and (warps, stages) != (fitted.warps, fitted.stages):
                found.append(other)
    return found


def _fit_core(counts: Counts, target: Target) -> Fit:
    """Tiles are arrays in memory: no register limits them, and what the nearest caches do not hold is slower.  They must fit the last."""
    held = math.ceil(counts.native.held)
    if counts.native.several:
        return Fit(1, 1, held, 0, "it reduces over lanes of several axes, of which there is no C", "lanes")
    over = held - target.l2_bytes
    if over > 0:
        return Fit(1, 1, held, 0, f"its tiles need {over} bytes more than the last cache has", "cache", over)
    return Fit(1, 1, held, 0)


def tile_bytes(warps: int, target: Target) -> int:
    """Bytes of registers that the tiles of a program may take: all its warps must fit a multiprocessor."""
    threads = warps * target.warp_size
    return 4 * threads * min(target.tile_registers, target.registers_per_sm // threads - BASE_REGISTERS)


def _tiles(counts: Counts, target: Target) -> int:
    """Bytes of registers for the tiles of a program, and for the addresses of a pipelined loop, of which descriptors need none."""
    described = target.descriptor_us and counts.products and all(way(p, target) != "warp" for p in counts.products)
    return max(counts.live_bytes, counts.accumulator_bytes) + (0 if described else counts.address_bytes)


def register_share(planned: PlannedKernel, target: Target) -> float:
    """The share of the registers that tiles may take which a kernel takes, by the model."""
    return planned.cost.register_bytes / tile_bytes(planned.kernel.warps, target)


def _operands(counts: Counts, warps: int, target: Target) -> int:
    """Bytes of registers for the operands of products in full float32.

    Where there is no matrix unit for them, each thread multiplies its rows with its columns, as square a part of the result as can be, and
    a compiler loads some of the contracted elements ahead.
    """
    if target.vendor != "nvidia":
        return 0
    threads = warps * target.warp_size
    wide = (p for p in counts.products if p.precision == "ieee")
    return max((int(AHEAD * threads * 4 * p.k * 2 * math.sqrt(p.m * p.n / threads)) for p in wide), default=0)


def _pointers(counts: Counts, warps: int, target: Target) -> int:
    """Bytes of registers for pointers that live through a loop (:mod:`eqfuse.tiles.addresses`)."""
    threads = warps * target.warp_size
    most = max((sum(t.pointers(threads) for t in loop) for loop in counts.addressed), default=0)
    return int(POINTERS * most * threads * ADDRESS_BYTES)


def _rows(counts: Counts, warps: int, target: Target) -> int:
    """Bytes of registers for the copies of values that have one number for each row.

    Threads are spread over a row first (:class:`~eqfuse.tiles.addresses.Tile`); each holds the numbers of all rows that it has a part of.
    Beside a contraction the liveness counts them, in the layout of the matrix unit.
    """
    if counts.rows is None or counts.dots:
        return 0
    threads = warps * target.warp_size
    values, tile = counts.rows
    return int(ROWS * values * (tile.pointers(threads) * threads - tile.rows)) * 4


def _buffers(counts: Counts, stages: int, target: Target) -> int:
    """Of the operands of products: what the matrix unit reads by itself it still reads when the next copies arrive; what warps load into
    registers first is free by then."""
    return max(1, stages if any(way(p, target) != "warp" for p in counts.products) else stages - 1)


def _shared(counts: Counts, stages: int, warps: int, target: Target) -> int:
    operands = counts.dot_operand_bytes * _buffers(counts, stages, target) + counts.static_operand_bytes
    copies = (counts.staged_bytes + counts.copied_bytes) * (stages - 1)
    return operands + copies + exchanged(counts, warps, target)


def launched_with(counts: Counts, fitted: Fit, warps: int, stages: int, target: Target) -> Fit:
    """The footprint with other warps and stages, whatever fits."""
    return replace(fitted, warps=warps, stages=stages, shared_bytes=_shared(counts, stages, warps, target))


def may_compile(fitted: Fit, target: Target) -> bool:
    """Whether a compiler may find room for what does not fit by the count of registers: all the registers that the threads have hold it."""
    return fitted.resource == "registers" and fitted.register_bytes <= 4 * fitted.warps * target.warp_size * target.registers_per_thread


def _warps_wanted(counts: Counts) -> int:
    """More warps for more work per step: a thread should hold a few vectors of every tile."""
    if counts.dots:
        return 8 if counts.accumulator_bytes >= 64 * 1024 else 4
    elements = max(counts.live_bytes - counts.accumulator_bytes, 0) // 8  # of what a step loads and makes
    return max(w for w in (1, 2, 4, 8, 16) if w == 1 or elements >= 256 * w)


def persistent(kernel: Kernel, counts: Counts, fitted: Fit, target: Target) -> tuple[int, ...]:
    """How many programs to launch at most, each of which takes several tiles of the grid in turn: what may be better than a program for
    each tile.

    Fewer programs at a time leave each of them more of the L2, and of the cache of its multiprocessor, so that a later loop still finds
    there what an earlier one loaded.
    """
    if target.core is not None:
        return ()
    slots = running(counts, fitted, target)
    if not _spilled(kernel, counts, slots, target):
        return ()
    most = bisect.bisect_left(range(1, slots), True, key=lambda n: _spilled(kernel, counts, n, target))
    found = [most // target.sm_count * target.sm_count or most]  # every multiprocessor gets as many
    whole = [n for n in range(1, slots // target.sm_count) if found_again(kernel, counts, fitted, n * target.sm_count, target) == 1.0]
    found.append(target.sm_count * max(whole, default=1))
    return tuple(dict.fromkeys(n for n in found if 0 < n < counts.programs))


def pipelined(counts: Counts, fitted: Fit, target: Target, limit: int = 0) -> Fit:
    """The fit with the stages of loops without a contraction (:mod:`.flight`), of ``limit`` programs at most, if not 0; as many as leave
    room for all that run at a time, in a quarter of shared memory: the rest is a cache, or other kernels' of the launch."""
    if counts.dots or not counts.copied_bytes or target.vendor != "nvidia":
        return fitted
    programs = running(counts, fitted, target, limit)
    for stages in range(flight.stages(counts, programs, target), 1, -1):
        found = replace(fitted, stages=stages, shared_bytes=counts.copied_bytes * (stages - 1))
        if found.shared_bytes <= target.shared_bytes_per_block // 4 and running(counts, found, target, limit) >= programs:
            return found
    return fitted


def registers(programs: int, fitted: Fit, target: Target) -> int:
    """How many registers a thread may take if no more programs are launched; 0 where a compiler cannot be told.

    A compiler makes room for more programs at a time than there will be, and spills a few registers for that.
    """
    if target.vendor != "nvidia":
        return 0
    threads = math.ceil(programs / target.sm_count) * fitted.warps * target.warp_size
    return min(target.registers_per_thread, target.registers_per_sm // threads // 8 * 8)


def price(kernel: Kernel, counts: Counts, fitted: Fit, target: Target) -> Cost:
    """The cost of one kernel on a target."""
    if target.core is not None:
        return _price_core(kernel, counts, fitted, target, target.core)
    tiles = max(counts.programs, 1)
    programs = min(tiles, kernel.persistent or tiles)
    at_a_time = running(counts, fitted, target, kernel.persistent)
    bandwidth, idle = _filling(tiles, programs, target)
    rounds = math.ceil(tiles / min(programs, target.sm_count))  # of programs on the busiest multiprocessor
    near = found_again(kernel, counts, fitted, at_a_time, target)
    dram = passing(kernel, counts, at_a_time, target.cache, marked(target), waves=True, near=near).bytes
    work = units(counts, fitted.warps, target)
    multiplied = VECTOR * counts.simt + work.multiply_adds
    clocks = target.sm_count * target.clock_ghz * 1e3  # a microsecond, of all multiprocessors
    terms = {
        "dram": dram / (target.dram_gb_s * 1e3 * bandwidth),
        "l2": _through(counts, near) / (target.l2_gb_s * 1e3 * bandwidth),
        "tensor": work.matrix_us * idle,
        "issue": max(work.instructions / (clocks * target.issue_per_clock), multiplied / (target.simt_gops * 1e3)) * idle,
        "special": counts.special / (target.special_gops * 1e3) * idle,
        "shared": work.shared / (target.on_chip.gb_s * 1e3) * idle,
    }
    beside = max(1.0, at_a_time / target.sm_count)
    busy = max(terms[t] for t in ("tensor", "issue", "special", "shared")) * min(at_a_time, target.sm_count)
    terms["latency"] = _waits(counts, fitted, work.instructions, busy * beside, near) / tiles * rounds
    ahead, apart = _ahead(counts, fitted), _apart(counts, fitted, target)
    parts = contributions(terms, beside, ahead, apart)
    body = sum(parts.values())
    bound = "launch" if body < target.launch_us else max(parts, key=lambda k: parts[k])
    return Cost(
        us=body + target.launch_us,
        dram_bytes=dram,
        l2_bytes=counts.load_bytes + counts.store_bytes,
        flops=counts.flops,
        simt=counts.simt,
        special=counts.special,
        programs=programs,
        shared_bytes=fitted.shared_bytes,
        register_bytes=fitted.register_bytes,
        bound=bound,
        terms=terms,
        parts=parts,
        ahead=ahead,
        apart=apart,
        registers=_registers(counts, fitted, target),
    )


def _waits(counts: Counts, fitted: Fit, instructions: float, busy: float, near: float) -> float:
    """What all programs together wait for, if each is alone: where loops begin, in their steps, and for loads, which begin as many steps
    ahead as there are buffers.  ``busy``: how long all steps take, on one multiprocessor after the other, by which loads that began ahead
    have come nearer; ``near``: the share of later loops' that are near.  Of short steps a compiler begins the loads of several together."""
    found = counts.begun * FILL_US + counts.steps * STEP_US
    if not counts.inner_steps:
        return found
    together = min(1.0, instructions / (fitted.warps * counts.inner_steps) / UNROLLED)
    far = 1.0 - near * (1.0 - 1.0 / max(most_passes(counts), 1))
    wait, lead = MEMORY_US * together * far, fitted.stages - 1
    if lead == 0:
        return found + counts.inner_steps * wait
    return found + max(0.0, counts.inner_steps * (wait / lead - STEP_US) - busy)  # in so many steps one wait is over


def found_again(kernel: Kernel, counts: Counts, fitted: Fit, at_a_time: int, target: Target) -> float:
    """The share of what later loops load that the cache of a multiprocessor has: that is what is not shared memory of the same memory, and
    what is copied ahead passes it by."""
    if target.vendor != "nvidia" or fitted.stages > 1:
        return 0.0
    programs = at_a_time / target.sm_count
    held = target.on_chip.held - max(1.0, programs) * fitted.shared_bytes
    return found_near(kernel, counts, programs, held, marked(target))


def _through(counts: Counts, near: float) -> float:
    """Bytes through the cache that all multiprocessors share."""
    first: dict[str, int] = {}
    total = sum(_effective(t) for t in counts.stores)
    for t in counts.loads:
        first[t.buffer] = first.get(t.buffer, 0) + 1
        total += _effective(t) * (1.0 - near if first[t.buffer] > 1 else 1.0)
    return total


def _apart(counts: Counts, fitted: Fit, target: Target) -> float:
    """Into how many parts a program falls that are not in step.  Warps that in their steps reduce nothing with others, and wait for no
    copies that others began, are each for themselves; those that multiply by themselves meet once a step (fitted to static times, as a
    power of the warps of a scheduler), and groups of four wait for every product."""
    if counts.products:
        return max(1.0, fitted.warps / 4) ** 0.5 if any(way(p, target) == "warp" for p in counts.products) else 1.0
    return float(fitted.warps) if counts.crossings < counts.inner_steps and fitted.stages == 1 else 1.0


def _ahead(counts: Counts, fitted: Fit) -> float:
    """The share of the steps of loops whose loads began while another step was worked on: all but those that fill the buffers."""
    begun = fitted.stages - 2  # steps beside the one that is worked on: a buffer is free when the step after its own has begun
    return max(0.0, 1.0 - (begun + 1) * counts.begun / counts.inner_steps) if counts.inner_steps and begun > 0 else 0.0


def _price_core(kernel: Kernel, counts: Counts, fitted: Fit, target: Target, core: Core) -> Cost:
    """The cost on a CPU: the work of one core, times the share of the programs that the busiest of them runs; what all cores draw from
    the last cache and from memory comes no faster than these give it."""
    work, cores = counts.native, min(max(counts.programs, 1), target.sm_count)
    share = math.ceil(max(counts.programs, 1) / cores) / max(counts.programs, 1)
    terms = core_terms(work, core, share, core.levels[-1].copy_gb_s / target.dram_gb_s)
    body = sum(terms.values())
    return Cost(
        us=body + target.launch_us,
        dram_bytes=passing(kernel, counts, cores, target.cache, marked(target)).bytes,
        l2_bytes=counts.load_bytes + counts.store_bytes,
        flops=counts.flops,
        simt=counts.simt,
        special=counts.special,
        programs=max(counts.programs, 1),
        shared_bytes=fitted.shared_bytes,
        register_bytes=0,
        bound="launch" if body < target.launch_us else max(terms, key=lambda k: terms[k]),
        terms=terms,
        parts=terms,
    )


def _filling(tiles: int, programs: int, target: Target) -> tuple[float, float]:
    """How so many programs, for so many tiles, fill a device: the share of its bandwidth that they can draw, and how many times longer work
    takes than on all of it.  Work runs on whole SMs: a device that is not full, or a last wave that is not, leaves some of them idle."""
    return min(1.0, PER_SM_SHARE * programs / target.sm_count), math.ceil(tiles / min(programs, target.sm_count)) * target.sm_count / tiles


def together(kernels: Sequence[PlannedKernel], target: Target) -> float:
    """Microseconds of one launch of kernels that do not wait for one another, have the same warps and a program for every tile; infinite
    if it cannot be launched.

    Traffic, work and waits add up, on a device that the sum of the grids fills; all programs have the registers of the neediest kernel and
    the shared memory of all (a compiler does not always lay that of one over that of another).  No kernel gets faster than it is alone.
    """
    if target.core is not None:
        return math.inf  # it has no launches of several kernels
    shared = sum(k.cost.shared_bytes for k in kernels)
    if shared > target.shared_bytes_per_block:
        return math.inf
    programs = sum(k.cost.programs for k in kernels)
    bandwidth, idle = _filling(programs, programs, target)
    total = dict.fromkeys(("latency", *(t for pair in PHASES for t in pair)), 0.0)
    for k in kernels:
        own_bandwidth, own_idle = _filling(k.cost.programs, k.cost.programs, target)
        for term, us in k.cost.terms.items():
            total[term] += us * own_bandwidth / bandwidth if term in MEMORY else us / own_idle * idle
    slots = _slots(max(k.cost.registers for k in kernels), shared, kernels[0].kernel.warps, target)
    at_a_time = max(1.0, min(slots, programs) / target.sm_count)
    ahead = sum(k.cost.ahead * k.cost.dram_bytes for k in kernels) / max(1, sum(k.cost.dram_bytes for k in kernels))
    least = max(k.cost.us - target.launch_us for k in kernels)
    joint = contributions(total, at_a_time, ahead, min(k.cost.apart for k in kernels))
    return max(least, sum(joint.values())) + target.launch_us


def _slots(registers: int, shared_bytes: int, warps: int, target: Target) -> int:
    """Programs that run at a time, if a thread needs so many registers."""
    blocks = target.occupancy(registers=min(target.registers_per_thread, registers), shared_bytes=shared_bytes, num_warps=warps)
    return target.sm_count * max(blocks, 1)


def _registers(counts: Counts, fitted: Fit, target: Target) -> int:
    """Registers of a thread that a compiler takes for a kernel."""
    others, share = REGISTERS[way(counts.products[0], target) if counts.products else ""]
    return others + int(share * fitted.register_bytes) // (4 * fitted.warps * target.warp_size)


def _effective(t: Traffic) -> float:
    """Bytes, weighted for narrow instructions: a scalar access occupies the memory pipeline like a wider one would.  And for pieces that
    are shorter than the sectors that memory is moved in."""
    return t.bytes * max(VECTOR_BYTES / max(t.vector, 1) / 2, t.sectors_per_run)


def running(counts: Counts, fitted: Fit, target: Target, limit: int = 0) -> int:
    """Programs that run at a time, of ``limit`` launched ones."""
    slots = _slots(_registers(counts, fitted, target), fitted.shared_bytes, fitted.warps, target)
    return min(max(counts.programs, 1), slots, limit or counts.programs or 1)


def marked(target: Target) -> bool:
    """Whether loads can tell the cache what to keep."""
    return target.vendor == "nvidia"


def _spilled(kernel: Kernel, counts: Counts, at_a_time: int, target: Target) -> bool:
    return spilled(kernel, counts, at_a_time, target.cache, marked(target))
