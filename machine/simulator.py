"""One multiprocessor, instruction by instruction: four schedulers that issue in order, the units behind them, and memory as a queue.

A scheduler issues an instruction a cycle: of the warp that issued last if it can, else of the oldest that can.  A warp can when its stall
has passed, the scoreboards that its next instruction waits for are free, and the unit has room.  The bytes that shared memory, the
second-level cache and device memory move are queues of the multiprocessor, each with a rate; device memory and the second-level cache have
a latency besides.  The products of a warp group run beside the schedulers and are waited for in groups, as are asynchronous copies; those
that one thread begins for its block (tensor memory) run in order and are waited for by what they commit to.

Branches diverge nowhere, caches are as often hit as the caller says, and every multiprocessor does the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .pipes import SCHEDULERS, Cost, Processor, cost
from .sass import Instruction, Listing

_ROOM = {"memory": 24.0}  # cycles of work that may wait before a unit; others take an instruction when they are free
_COUNT = re.compile(r"0x([0-9a-f]+)\s*$")
_ADDRESS = re.compile(r"\[([^\]]+)\]")
_POLL = 4  # cycles between two looks at what has not begun
_BARRIER = re.compile(r"(\w+)(?:, 0x([0-9a-f]+))?")


@dataclass
class _Block:
    """A thread block that is resident: its barriers, by name and by how often they were passed."""

    running: int
    arrived: dict[tuple[str, int], list[_Warp]] = field(default_factory=dict)
    products: float = 0.0  # when those that one thread began for the block are done
    commits: list[float] = field(default_factory=list)  # when those before each commit are, or the bulk copies of a barrier


@dataclass
class _Warp:
    block: _Block
    path: Sequence[_Step]
    at: int = 0  # position in the path
    ready: float = 0.0
    scoreboards: list[float] = field(default_factory=lambda: [0.0] * 6)
    products: float = 0.0  # when the products since the last group are done
    product_groups: list[float] = field(default_factory=list)
    copies: float = 0.0
    copy_groups: list[float] = field(default_factory=list)
    passed: dict[str, int] = field(default_factory=dict)
    held: bool = False  # at a barrier


@dataclass(frozen=True)
class _Step:
    """An instruction of a path; ``commit``: the number of the commit that it waits for."""

    instruction: Instruction
    cost: Cost
    commit: int | None


class Multiprocessor:
    """Runs blocks of one kernel.  ``path``: positions of the instructions that the first warp of a block runs, ``others``: that all others
    run, if these differ; ``missed``: the share of the bytes beyond
    the first
    level that device memory must give; ``drawing``: the share of multiprocessors that draw on memory with this one."""

    def __init__(
        self, listing: Listing, path: Sequence[int], processor: Processor, warps: int, missed: float, drawing: float = 1.0,
        others: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self._processor, self._warps, self._missed = processor, warps, missed
        costs = [cost(x, processor) for x in listing.instructions]
        waited = commits(listing, path)

        def steps(of: Sequence[int]) -> list[_Step]:
            return [_Step(listing[i], costs[i], waited.get(turn)) for i, turn in zip(of, _turns(of), strict=True)]

        self._first = steps(path)
        self._others = self._first if others is None else steps(others)
        shared_out = min(processor.second_level_bytes, processor.device_bytes / missed if missed else float("inf")) / drawing
        self._memory_rate = min(shared_out, processor.port_bytes)
        self._latency = (1 - missed) * processor.latency["second_level"] + missed * processor.latency["device"]

    def cycles(self, blocks: int, resident: int) -> float:
        """Cycles that so many blocks take, ``resident`` at a time; a block begins when one has ended."""
        self._units: list[dict[str, float]] = [{} for _ in range(SCHEDULERS)]
        self._shared = self._memory = self._products = 0.0
        self._queues: list[list[_Warp]] = [[] for _ in range(SCHEDULERS)]
        self._started = 0
        waiting = blocks
        for _ in range(min(resident, blocks)):
            self._start(0.0)
            waiting -= 1
        last: list[_Warp | None] = [None] * SCHEDULERS
        now = end = 0.0
        while any(self._queues):
            following = float("inf")
            for s, queue in enumerate(self._queues):
                issued = None
                previous = last[s]
                order = queue if previous is None else [previous, *(w for w in queue if w is not previous)]
                for warp in order:
                    if warp.held:
                        continue
                    when = self._issue(warp, s, now) if warp.ready <= now else warp.ready
                    if when is None:
                        issued = warp
                        break
                    following = min(following, when)
                last[s] = issued or previous
                if issued is None:
                    continue
                following = min(following, now + 1)
                if issued.at == len(issued.path):
                    queue.remove(issued)
                    last[s] = None
                    issued.block.running -= 1
                    end = max(end, issued.ready)
                    if not issued.block.running and waiting:
                        self._start(now + 1)
                        waiting -= 1
                elif last[s] is not None and last[s].held:  # type: ignore[union-attr]
                    last[s] = None
            now = max(now + 1, following) if following < float("inf") else now + 1
        return max(end, self._memory, self._shared)

    def _start(self, now: float) -> None:
        """Make a block resident."""
        block = _Block(self._warps)
        for w in range(self._warps):
            warp = _Warp(block, self._others if w else self._first, ready=now)
            self._queues[(self._started + w) % SCHEDULERS].append(warp)
        self._started += self._warps

    def _issue(self, warp: _Warp, scheduler: int, now: float) -> float | None:
        """Issue the next instruction of a warp, or say when it may be asked again."""
        step = warp.path[warp.at]
        x, c = step.instruction, step.cost
        if step.commit is not None and step.commit >= len(warp.block.commits):
            warp.ready = now + _POLL
            return warp.ready
        ready = max((warp.scoreboards[i] for i in x.waits), default=now)
        ready = max(ready, self._group(warp, x, now), warp.block.commits[step.commit] if step.commit is not None else now)
        if ready > now:
            warp.ready = ready
            return ready
        if c.matrix == "block":
            self._begin(warp.block, c, now)
            warp.ready, warp.at = now + max(1, x.stall), warp.at + 1
            return None
        units = self._units[scheduler]
        free = units.get(c.unit, 0.0)
        room = float("inf") if c.matrix == "group" else _ROOM.get(c.unit, 0.0)
        if free - now > room:
            return free - room
        start = max(free, now)
        if c.shared:
            if c.matrix != "group":
                start = max(start, self._shared)
            self._shared = max(self._shared, start) + c.shared / self._processor.shared_bytes
        units[c.unit] = start + c.busy
        done = start + c.busy + c.latency
        if c.memory:
            self._memory = max(self._memory, now) + c.memory / self._memory_rate
            done = max(done, self._memory + self._latency)
        self._asynchronous(warp, x, done)
        for i in x.sets:
            warp.scoreboards[i] = max(warp.scoreboards[i], done)
        for i in x.reads:
            warp.scoreboards[i] = max(warp.scoreboards[i], start + c.busy + 2)
        warp.ready = now + max(1, x.stall)
        warp.at += 1
        if x.name == "BAR" and not x.predicate:
            self._barrier(warp, x, now)
        return None

    def _begin(self, block: _Block, c: Cost, now: float) -> None:
        """A product that runs beside all schedulers, after those before it."""
        start = max(self._products, now)
        self._shared = max(self._shared, start) + c.shared / self._processor.shared_bytes
        self._products = max(start + c.busy / SCHEDULERS, self._shared)
        block.products = self._products + c.latency

    def _group(self, warp: _Warp, x: Instruction, now: float) -> float:
        """When the groups are done that an instruction waits for, all but the last few."""
        groups: list[float] = []
        if x.opcode.startswith("WARPGROUP.DEPBAR"):
            groups = warp.product_groups
        elif x.name == "DEPBAR" and "SB0" in x.operands:
            groups = warp.copy_groups
        left = _COUNT.search(x.operands)
        pending = int(left[1], 16) if left else 0
        return groups[-pending - 1] if len(groups) > pending else now

    def _asynchronous(self, warp: _Warp, x: Instruction, done: float) -> None:
        """Note what will be waited for later."""
        if x.name == "HGMMA":
            warp.products = max(warp.products, done)
            if "gsb" in x.operands:
                warp.product_groups.append(warp.products)
        elif x.name == "LDGSTS":
            warp.copies = max(warp.copies, done)
        elif x.name == "LDGDEPBAR":
            warp.copy_groups.append(warp.copies)
        elif x.name == "UTCBAR":
            warp.block.commits.append(warp.block.products)
        elif x.arriving:
            warp.block.commits.append(done)

    def _barrier(self, warp: _Warp, x: Instruction, now: float) -> None:
        """Arrive, and wait unless the instruction only arrives; the last one frees all."""
        found = _BARRIER.match(x.operands)
        name = found[1] if found else "0"
        wanted = int(found[2], 16) // 32 if found and found[2] else self._warps
        turn = warp.passed.get(name, 0)
        warp.passed[name] = turn + 1
        here = warp.block.arrived.setdefault((name, turn), [])
        here.append(warp)
        warp.held = ".ARV" not in x.opcode and ".RED" not in x.opcode
        # a barrier of fewer warps than the block has may be used by several groups at once: the count tells when a group is whole
        if len(here) >= wanted:
            for w in here:
                w.held = False
                w.ready = max(w.ready, now + self._processor.latency["barrier"])
            del warp.block.arrived[name, turn]


def commits(listing: Listing, path: Sequence[int]) -> dict[tuple[int, int], int]:
    """Which commit of products, or which bulk copies, each wait on a barrier in shared memory waits for: by position in the listing and how
    often it was passed.

    Barriers of products are told apart by the register that has their address; where none with the same is left, a wait is for the earliest
    that nothing has waited for, as copies are waited for in the order in which they begin, and for none if there is none (its barrier is
    another's)."""
    left: list[tuple[int, str]] = []
    found: dict[tuple[int, int], int] = {}
    made = 0
    for turn in _turns(path):
        x = listing[turn[0]]
        address = _ADDRESS.search(x.operands)
        name = address[1] if address else ""
        if x.name == "UTCBAR" or x.arriving:
            left.append((made, name if x.name == "UTCBAR" else ""))
            made += 1
        elif x.opcode.startswith("SYNCS.PHASECHK") and left:
            of = next((entry for entry in left if entry[1] == name), left[0])
            found[turn] = of[0]
            left.remove(of)
    return found


def _turns(path: Sequence[int]) -> list[tuple[int, int]]:
    """Each position with how often it was there before."""
    often: dict[int, int] = {}
    out = []
    for i in path:
        out.append((i, often.get(i, 0)))
        often[i] = out[-1][1] + 1
    return out
