"""``eqfuse.price``: what a program holds and moves at every memory of a device, for given tiles."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .compiled import Compiled, optimize
from .errors import OptionError, expect
from .extract.cost import Fit
from .extract.memories import AtLevel, memories
from .extract.plan import Block, PlannedCall, PlannedKernel
from .extract.quantities import bytes_text
from .extract.targets import Target, load_target
from .tiles.kernel import Kernel


@dataclass(frozen=True)
class KernelPrice:
    """A kernel of a program at every memory, from that of the tensors to the innermost."""

    name: str
    levels: tuple[AtLevel, ...]

    def __getitem__(self, level: str) -> AtLevel:
        return _one(self.levels, level)


@dataclass(frozen=True)
class Price:
    """What a program holds and moves.  ``price["l2"]`` is one memory: bytes of all kernels together, and the most that one holds."""

    target: Target
    tiles: Mapping[str, Mapping[str, int]]  # those that were given, by level and axis
    kernels: tuple[KernelPrice, ...]
    calls: tuple[str, ...]  # outside implementations and operators that torch runs, of which nothing is counted

    @property
    def levels(self) -> tuple[AtLevel, ...]:
        """The memories, over all kernels."""
        names = [x.name for x in self.target.levels]
        rows = [[r for k in self.kernels for r in k.levels if r.level.name == n] for n in names]
        return tuple(map(_together, filter(None, rows)))

    @property
    def fits(self) -> bool:
        """Whether every memory has room for what it holds."""
        return all(r.fits for r in self.levels)

    def __getitem__(self, level: str) -> AtLevel:
        return _one(self.levels, level)

    def __str__(self) -> str:
        given = [f"{n}: {', '.join(f'{a}={t}' for a, t in tiles.items())}" for n, tiles in self.tiles.items()]
        lines = [f"on {self.target.name}, {'; '.join(given) or 'as planned'}"]
        for k in self.kernels:
            lines += [f"  {k.name}", *_table(k.levels)]
        if len(self.kernels) > 1:
            lines += ["  all kernels", *_table(self.levels)]
        return "\n".join([*lines, *(f"  not counted: {name}" for name in self.calls)])


def price(
    program: Any,
    tiles: Mapping[str, Any] | None = None,
    target: str | Target | None = None,
    *,
    args: Sequence[Any] | None = None,
    **options: Any,
) -> Price:
    """Count what every memory of a device holds and moves, for given tiles (docs/price.md).

    ``program``: what :func:`eqfuse.optimize` takes, with example ``args`` and its ``options``, or what it made: a ``Compiled``, its plan,
    or a kernel of that.  ``tiles``: ``{axis: size}`` for the memory where the tiles of programs lie (a GPU's shared memory, the cache of a
    CPU's core), or ``{level: {axis: size}}`` for any memories of the target; ``None``, and an axis that is not named, for the plan's own.
    ``target``: a device, by default the one that was planned for.  Its kernels stay as they are, with other tiles.

    What does not fit is said in the result.  Raises OptionError for an axis or a memory that there is not, and for tiles that a kernel
    cannot have.
    """
    known = program.target if isinstance(program, Compiled | Block) else None
    if isinstance(program, PlannedKernel | Kernel):
        expect(target is not None, "target", target, "the device of the kernel: target='h200'")
    device = load_target(target if target is not None else known if known is not None else "auto")
    if not isinstance(program, Compiled | Block | PlannedKernel | Kernel):
        program = optimize(program, args, target=device, strict=True, **options)
    else:
        expect(args is None and not options, "args", args, "no arguments and options for what is planned already")
    plan = program.form.block if isinstance(program, Compiled) else program
    steps = plan.steps if isinstance(plan, Block) else (plan,)
    kernels = [s for s in steps if not isinstance(s, PlannedCall)]
    in_torch = [x.target for x in plan.library] if isinstance(plan, Block) else []
    given = _by_level(tiles, device)
    _check_axes(given, kernels)
    return Price(
        device,
        given,
        tuple(_priced(k, given, device, known) for k in kernels),
        (*(s.call.name for s in steps if isinstance(s, PlannedCall)), *in_torch),
    )


def _priced(step: PlannedKernel | Kernel, given: Mapping[str, Mapping[str, int]], target: Target, known: Any) -> KernelPrice:
    kernel, fitted = (step.kernel, None) if isinstance(step, PlannedKernel) else (step, None)
    own = target.on_chip.name not in given and known in (target, target.name)
    if isinstance(step, PlannedKernel) and own:  # as the search found that it fits
        fitted = Fit(kernel.warps, kernel.stages, step.cost.shared_bytes, step.cost.register_bytes)
    return KernelPrice(kernel.name, memories(kernel, given, target, fitted))


def _by_level(tiles: Any, target: Target) -> dict[str, dict[str, int]]:
    """Tiles as they were given, by level and axis."""
    expect(tiles is None or isinstance(tiles, Mapping), "tiles", tiles, "{axis: size} or {level: {axis: size}}")
    tiles = dict(tiles or {})
    if tiles and not any(isinstance(v, Mapping) for v in tiles.values()):
        tiles = {target.on_chip.name: tiles}
    names = [x.name for x in target.levels]
    for name, sizes in tiles.items():
        _expect_known(name, names, f"memory of {target.name}")
        expect(isinstance(sizes, Mapping), f"tiles of {name}", sizes, "{axis: size}")
        for axis, size in sizes.items():
            expect(type(size) is int and size > 0, f"the tile of {axis} in {name}", size, "a number of elements, 1 or more")
    return {n: dict(tiles[n]) for n in names if n in tiles}


def _check_axes(given: Mapping[str, Mapping[str, int]], kernels: Sequence[PlannedKernel | Kernel]) -> None:
    made = [k.kernel if isinstance(k, PlannedKernel) else k for k in kernels]
    names = list(dict.fromkeys(a.name for k in made for a in k.roles))
    for axis in (a for sizes in given.values() for a in sizes):
        _expect_known(axis, names, "axis of these kernels")


def _expect_known(name: object, names: Sequence[str], what: str) -> None:
    if name in names:
        return
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise OptionError(f"no {what} is called {name!r}", cure=f"{hint}there are {', '.join(names)}")


def _one(rows: Sequence[AtLevel], name: str) -> AtLevel:
    found = {r.level.name: r for r in rows}
    expect(name in found, "level", name, f"one of {', '.join(found)}")
    return found[name]


def _together(rows: Sequence[AtLevel]) -> AtLevel:
    """One memory over several kernels, one after the other."""
    total: dict[str, Any] = {}
    for field in ("read", "written", "us"):
        values = [getattr(r, field) for r in rows]
        total[field] = None if None in values else sum(values)
    held = [r.footprint for r in rows if r.footprint is not None]
    said = "; ".join(dict.fromkeys(r.said for r in rows if r.said))
    return AtLevel(rows[0].level, max(held, default=None), **total, said=said, fits=all(r.fits for r in rows))


def _table(rows: Sequence[AtLevel]) -> list[str]:
    header = ("memory", "holds", "of", "read", "written", "us")
    cells: list[tuple[str, ...]] = [header]
    for r in rows:
        amounts: list[float | None] = [r.footprint, r.level.for_tiles, r.read, r.written]
        texts = ["-" if n is None else "any" if n == float("inf") else bytes_text(n) for n in amounts]
        cells.append((r.level.name, *texts, "-" if r.us is None else f"{r.us:.1f}"))
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["    " + row[0].ljust(widths[0]) + "".join(c.rjust(w + 3) for c, w in zip(row[1:], widths[1:], strict=True)) for row in cells]
    return [lines[0], *(line + (f"   {r.said}" if r.said else "") for line, r in zip(lines[1:], rows, strict=True))]
