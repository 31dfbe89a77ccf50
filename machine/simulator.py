"""One multiprocessor, instruction by instruction: four schedulers that issue in order, the units behind them, and memory as a queue.

A scheduler issues an instruction a cycle: of the warp that issued last if it can, else of the oldest that can.  A warp can when its stall
has
passed, the scoreboards that its next instruction waits for are free, and the unit has room.  The bytes that shared memory, the
second-level cache and device
memory move are queues of the multiprocessor, each with a rate; device memory and the second-level cache have a latency besides.  The
products of a
warp group run beside the schedulers and are waited for in groups, as are asynchronous copies.

Branches diverge nowhere, shared memory has no bank conflicts, caches are as often hit as the caller says, and every multiprocessor does
the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .pipes import SCHEDULERS, Cost, Processor, cost
from .sass import Instruction, Listing

_ROOM = {"memory": 24.0}  # cycles of work that may wait before a unit; others take an instruction when they are free
_COUNT = re.compile(r"0x([0-9a-f]+)\s*$")
_BARRIER = re.compile(r"(\w+)(?:, 0x([0-9a-f]+))?")


@dataclass
class _Block:
    """A thread block that is resident: its barriers, by name and by how often they were passed."""

    running: int
    arrived: dict[tuple[str, int], list[_Warp]] = field(default_factory=dict)


@dataclass
class _Warp:
    block: _Block
    at: int = 0  # position in the path
    ready: float = 0.0
    scoreboards: list[float] = field(default_factory=lambda: [0.0] * 6)
    products: float = 0.0  # when the products since the last group are done
    product_groups: list[float] = field(default_factory=list)
    copies: float = 0.0
    copy_groups: list[float] = field(default_factory=list)
    passed: dict[str, int] = field(default_factory=dict)
    held: bool = False  # at a barrier


class Multiprocessor:
    """Runs blocks of one kernel.  ``path``: positions of the instructions that each warp runs; ``missed``: the share of the bytes beyond
    the first
    level that device memory must give; ``drawing``: the share of multiprocessors that draw on memory with this one."""

    def __init__(
        self, listing: Listing, path: Sequence[int], processor: Processor, warps: int, missed: float, drawing: float = 1.0
    ) -> None:
        self._processor, self._warps, self._missed = processor, warps, missed
        costs = [cost(x, processor) for x in listing.instructions]
        self._path: list[tuple[Instruction, Cost]] = [(listing[i], costs[i]) for i in path]
        shared_out = min(processor.second_level_bytes, processor.device_bytes / missed if missed else float("inf")) / drawing
        self._memory_rate = min(shared_out, processor.port_bytes)
        self._latency = (1 - missed) * processor.latency["second_level"] + missed * processor.latency["device"]

    def cycles(self, blocks: int, resident: int) -> float:
        """Cycles that so many blocks take, ``resident`` at a time; a block begins when one has ended."""
        self._units: list[dict[str, float]] = [{} for _ in range(SCHEDULERS)]
        self._shared = self._memory = 0.0
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
                if issued.at == len(self._path):
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
            self._queues[(self._started + w) % SCHEDULERS].append(_Warp(block, ready=now))
        self._started += self._warps

    def _issue(self, warp: _Warp, scheduler: int, now: float) -> float | None:
        """Issue the next instruction of a warp, or say when it may be asked again."""
        x, c = self._path[warp.at]
        ready = max((warp.scoreboards[i] for i in x.waits), default=now)
        ready = max(ready, self._group(warp, x, now))
        if ready > now:
            warp.ready = ready
            return ready
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
