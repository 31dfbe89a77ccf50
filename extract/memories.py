"""What a kernel holds and moves at every memory of a device, for given tiles: Welder's ``MemFootprint`` and ``MemTraffic`` (OSDI 2023).

A memory with tiles loads what one of them reads and stores what it makes, once for every tile: traffic at a level is decided by its own
tiles alone.  So it is counted as the cost model counts, by walking the kernel lowered for these tiles.  A memory without tiles is a cache
of the tiles inside of it (:mod:`.traffic`).  Tensors lie in the device's memory, or in the one outside the outermost that has tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import OptionError, PlanError
from ..ir.index import Axis
from ..tiles.footprint import footprint
from ..tiles.kernel import Kernel, Role
from ..tiles.lower import lowered
from ..tiles.program import TileProgram
from ..tiles.sizes import Sizes
from ..tiles.walk import Counts, walk
from .cost import Fit, fit, found_again, marked, running
from .quantities import bytes_text
from .targets import Target
from .targets.levels import Level
from .traffic import between, most_passes, passing, spilled

Tiles = Mapping[str, int]  # axis name -> size


@dataclass(frozen=True)
class AtLevel:
    """One memory.  ``footprint``: bytes that it holds at a time: those of one tile, or what lies between two loops, or all tensors;
    ``read`` and ``written``: bytes that what is inside of it reads from it and writes to it, over the whole run; ``us``: what that takes
    if nothing else does.  ``None`` where no tiles say, or nothing has to stay.  ``said``: what does not fit, or does not stay."""

    level: Level
    footprint: int | None
    read: int | None = None
    written: int | None = None
    us: float | None = None
    said: str = ""
    fits: bool = True

    @property
    def traffic(self) -> int | None:
        """Bytes in both directions."""
        return None if self.read is None or self.written is None else self.read + self.written


@dataclass(frozen=True)
class _Tiled:
    """A kernel with the tiles of one level."""

    kernel: Kernel
    program: TileProgram
    counts: Counts

    @property
    def loads(self) -> dict[str, int]:
        """Bytes loaded, by buffer."""
        found: dict[str, int] = {}
        for t in self.counts.loads:
            found[t.buffer] = found.get(t.buffer, 0) + t.bytes
        return found

    @property
    def footprint(self) -> int:
        """Bytes of one tile's values."""
        return footprint(self.program, Sizes(self.program, self.kernel.roles, {}))


def nested(kernel: Kernel, given: Mapping[str, Tiles], target: Target) -> dict[str, dict[Axis, int]]:
    """The tile of every axis in every level that has tiles, from the outside to the inside: as given, else whole outside the level where
    the tiles of programs lie, the kernel's own there, and inside as around.

    Raises OptionError for tiles that are not nested.
    """
    found: dict[str, dict[Axis, int]] = {}
    around, outside = {a: max(a.size, 1) for a in kernel.roles}, "the axis"
    for level in target.levels:
        if level.name not in given and level is not target.on_chip:
            continue
        here: dict[Axis, int] = {}
        for a, role in kernel.roles.items():
            own = min(role.tile, around[a]) if level is target.on_chip else around[a]  # a longer tile than its axis is padded
            asked = given.get(level.name, {}).get(a.name)
            here[a] = own if asked is None else min(asked, max(a.size, 1))
            if around[a] < a.size and around[a] % here[a]:
                raise OptionError(
                    f"tiles of {here[a]} along {a.name} in {level.name} do not fill those of {around[a]} in {outside}",
                    where=kernel.name,
                    cure="tiles that divide those of the memory around them",
                )
        found[level.name], around, outside = here, here, level.name
    return found


def tiled(kernel: Kernel, tiles: Mapping[Axis, int]) -> _Tiled:
    """A kernel with other tiles; an axis that was one tile is streamed if it no longer is, and one that was streamed is one tile if that
    can be.  Raises OptionError where its nodes forbid that."""
    roles = dict(kernel.roles)
    for a, r in kernel.roles.items():
        if min(r.tile, max(a.size, 1)) != tiles[a]:  # else whole, and padded, as it was
            roles[a] = Role("stream" if r.kind == "resident" else r.kind, tiles[a])
    whole = {a: Role("resident", r.tile) for a, r in roles.items() if r.kind == "stream" and r.tile >= a.size > kernel.roles[a].tile}
    refused: PlanError | None = None
    for these in ({**roles, **whole}, roles):
        order = (*(a for a in kernel.order if these[a].tile > 1), *(a for a, r in these.items() if r.tile > 1 and a not in kernel.order))
        again = kernel if these == kernel.roles else replace(kernel, roles=these, order=order)
        try:
            program = lowered(again)
        except PlanError as illegal:
            refused = illegal
            continue
        return _Tiled(again, program, walk(program))
    assert refused is not None
    sizes = ", ".join(f"{a.name}={n}" for a, n in tiles.items())
    raise OptionError(f"the kernel cannot have tiles of {sizes}: {refused.message}", where=kernel.name, cure="other tiles") from refused


def memories(kernel: Kernel, given: Mapping[str, Tiles], target: Target, fitted: Fit | None = None) -> tuple[AtLevel, ...]:
    """Every memory from the one in which the tensors lie to the innermost.  ``given``: tiles by level and axis, both by name.  ``fitted``:
    how the kernel fits with its own tiles, if that is known.  Raises OptionError for tiles that cannot be."""
    at = {name: tiled(kernel, tiles) for name, tiles in nested(kernel, given, target).items()}
    levels, on_chip = target.levels, at[target.on_chip.name]
    home = min(next(i for i, x in enumerate(levels) if x.scope == "device"), next(i for i, x in enumerate(levels) if x.name in at) - 1)
    if home < 0:
        raise OptionError(f"there is no memory outside {levels[0].name}, where tiles are loaded from", cure="tiles for a memory inside it")
    if fitted is None or on_chip.kernel is not kernel:
        fitted = fit(on_chip.counts, target)
    counting = _Counting(kernel, target, levels[home:], at, fitted)
    return tuple(counting.row(i) for i in range(len(counting.levels)))


@dataclass(frozen=True)
class _Counting:
    """``levels``: from that of the tensors inwards; ``at``: the kernel with the tiles of each level that has some."""

    kernel: Kernel
    target: Target
    levels: tuple[Level, ...]
    at: Mapping[str, _Tiled]
    fitted: Fit

    def row(self, i: int) -> AtLevel:
        """The memory at a place."""
        held, inner = self.held(i), self.inside(i)
        if inner is None:
            return held
        level, tile = self.levels[i], self.at[inner.name]
        if self.levels[i + 1] is inner:
            counts = tile.counts
            lines = sum(t.bytes * max(1.0, level.line_bytes / max(t.run, 1)) for t in (*counts.loads, *counts.stores))
            read, written = counts.load_bytes, counts.store_bytes
        else:
            around, cache, at_a_time = self.around(i), self.levels[i + 1], self.at_a_time(inner)
            waves = not self.target.on_cpu and cache is self.target.cache  # as the price has them
            near = found_again(tile.kernel, tile.counts, self.fitted, at_a_time, self.target) if waves else 0.0
            loads = around.loads if around else None
            moved = passing(tile.kernel, tile.counts, at_a_time, cache, marked(self.target), loads, waves, near)
            read, written, lines = sum(moved.reads.values()), moved.writes, moved.bytes
        return replace(held, read=read, written=written, us=lines / (level.gb_s * 1e3))

    def held(self, i: int) -> AtLevel:
        """What the memory holds, and whether that fits or stays."""
        level, inner = self.levels[i], self.inside(i)
        tensors = sum(b.bytes for b in self.kernel.buffers.values())
        if i == 0:
            return _limited(level, tensors, "all tensors")
        if not self.target.on_cpu and level is self.target.on_chip:
            return _refused(level, self.fitted.shared_bytes, self.fitted, "shared memory")
        if level.name in self.at:
            return _limited(level, self.at[level.name].footprint, "a tile")
        if not self.target.on_cpu and level is self.levels[-1]:
            return _refused(level, self.fitted.register_bytes, self.fitted, "registers")
        if inner is None or (passes := most_passes(self.at[inner.name].counts)) <= 1:
            return AtLevel(level, None)  # of a kernel with one loop nothing has to stay
        tile, at_a_time, around = self.at[inner.name], self.at_a_time(inner), self.around(i)
        lost = spilled(tile.kernel, tile.counts, at_a_time, level, marked(self.target))
        said = f"what {passes} loops load does not stay in {level.share:.0%} of it, and is loaded again" if lost else ""
        held = round(between(tile.kernel, tile.counts, at_a_time / level.count, marked(self.target)))
        return AtLevel(level, min(held, around.footprint if around else tensors), said=said)

    def inside(self, i: int) -> Level | None:
        """The nearest level with tiles inside of a place."""
        return next((x for x in self.levels[i + 1 :] if x.name in self.at), None)

    def around(self, i: int) -> _Tiled | None:
        """The kernel with the tiles of the nearest level that has some, there or outside of it."""
        return next((self.at[x.name] for x in self.levels[i::-1] if x.name in self.at), None)

    def at_a_time(self, level: Level) -> int:
        """How many tiles of a level there are at a time."""
        counts = self.at[level.name].counts
        if level is self.target.on_chip:
            return running(counts, self.fitted, self.target, self.kernel.persistent)
        return min(max(counts.programs, 1), self.target.sm_count if level.scope == "sm" else level.count)


def _limited(level: Level, held: int, what: str) -> AtLevel:
    over = held - level.for_tiles
    said = f"{what} of {bytes_text(held)} does not fit: {bytes_text(over)} too many" if over > 0 else ""
    return AtLevel(level, held, said=said, fits=over <= 0)


def _refused(level: Level, held: int, fitted: Fit, resource: str) -> AtLevel:
    """Shared memory or registers of a multiprocessor, as the cost model counts them."""
    said = fitted.reason if fitted.resource == resource else ""
    return AtLevel(level, held, said=said, fits=not said)
