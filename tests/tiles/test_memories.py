"""What is counted for every memory is what an enumeration of all tiles sees: odd lengths, masked steps, parts that do not divide."""

import itertools
import math
import random
from dataclasses import replace

import hand_kernels as kernels
import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.errors import OptionError
from eqfuse.extract.targets import load_target
from eqfuse.ir.index import Axis, index
from eqfuse.tiles.inside import share
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.program import Access, Inside
from eqfuse.tiles.simulate import Simulation

H200 = load_target("h200")


def visited(sizes, tiles, around, own, visible=None, exists=None):
    """Elements that an access moves, tile by tile: in every tile of the axes around it that is visible, its positions that exist."""
    total = 0
    for starts in itertools.product(*(range(0, sizes[a], tiles[a]) for a in around)):
        start = dict(zip(around, starts, strict=True))
        if visible is None or visible(start):
            spans = [np.arange(start.get(a, 0), min(start.get(a, 0) + (tiles[a] if a in start else sizes[a]), sizes[a])) for a in own]
            at = dict(zip(own, np.meshgrid(*spans, indexing="ij"), strict=True))
            total += int(np.sum(exists(at))) if exists else math.prod(map(len, spans))
    return total


def matmul(tiles):
    sizes = {"i": 50, "j": 37, "r": 41}
    reads = sum(visited(sizes, tiles, "ijr", own) for own in ("ir", "rj"))
    return reads, visited(sizes, tiles, "ij", "ij")


def causal(tiles):
    sizes = {"h": 2, "i": 40, "j": 53, "d": 16}
    tiles = {**tiles, "h": 1}

    def visible(start):  # some key is not after the last lane of the tile
        return start["j"] <= start["i"] + tiles["i"] - 1

    reads = visited(sizes, tiles, "hi", "hid") + 2 * visited(sizes, tiles, "hij", "hjd", visible)
    return reads, visited(sizes, tiles, "hi", "hid")


def split(tiles):
    sizes = {"h": 3, "s": 4, "t": 16, "d": 16}
    tiles = {**tiles, "h": 1, "s": 1}

    def visible(start):
        return 16 * start["s"] + start["t"] < 53

    reads = 2 * visited(sizes, tiles, "hst", "hstd", visible, lambda at: 16 * at["s"] + at["t"] < 53) + visited(sizes, tiles, "hs", "hd")
    return reads, visited(sizes, tiles, "hs", "hsd") + 2 * visited(sizes, tiles, "hs", "hs")


def two_loops(tiles):
    sizes = {"i": 5, "j": 37}
    return (2 if tiles["j"] < 37 else 1) * visited(sizes, tiles, "ij", "ij"), visited(sizes, tiles, "ij", "ij")


CASES = [
    (kernels.matmul, {}, matmul, [{"i": 32, "j": 16, "r": 41}, {"i": 16, "j": 8, "r": 16}, {"i": 4, "j": 8, "r": 1}]),
    (kernels.matmul, {}, matmul, [{"i": 12, "j": 37, "r": 41}, {"i": 6, "j": 5, "r": 7}, {"i": 3, "j": 5, "r": 7}]),
    (kernels.attention, {"mask": kernels.causal}, causal, [{"i": 40, "j": 32}, {"i": 16, "j": 16}, {"i": 4, "j": 8}]),
    (kernels.attention, {"mask": kernels.causal}, causal, [{"i": 14, "j": 27}, {"i": 7, "j": 9}, {"i": 1, "j": 3}]),
    (kernels.decode_split, {}, split, [{"t": 16, "s": 1}, {"t": 8}, {"t": 4}]),
    (kernels.softmax_rows, {}, two_loops, [{"i": 5, "j": 16}, {"i": 1, "j": 8}, {"i": 1, "j": 2}]),
    (kernels.softmax_rows, {}, two_loops, [{"i": 3, "j": 9}, {"i": 3, "j": 3}, {"i": 1, "j": 3}]),
]


@pytest.mark.parametrize(("make", "options", "oracle", "tiles"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_every_level_moves_what_its_tiles_visit(make, options, oracle, tiles):
    kernel = make(**options)[0]
    found = eqfuse.price(kernel, dict(zip(("l2", "shared", "registers"), tiles, strict=True)), H200)
    for outside, here in zip(("dram", "l2", "shared"), tiles, strict=True):
        reads, writes = oracle(here)
        assert (found[outside].read, found[outside].written) == (4 * reads, 4 * writes), outside
        assert found[outside].us >= found[outside].traffic / (found[outside].level.gb_s * 1e3)


class Visits(Simulation):
    """A run of a tile program that counts the bytes of what it loads and stores."""

    def __init__(self, program):
        rng = np.random.default_rng(0)
        super().__init__(program, {n: rng.normal(size=program.kernel.buffers[n].shape) for n in program.loads()}, np.float64, False)
        self.bytes = 0

    def address(self, at, env):
        found = super().address(at, env)
        self.bytes += int(found[1].sum()) * self.buffers[at.buffer].dtype.itemsize
        return found


@pytest.mark.parametrize("make", [kernels.moments, kernels.normalised_product, kernels.grouped_queries, kernels.logsumexp])
def test_a_run_moves_what_was_counted(make):
    """Through the statements themselves, for kernels that nobody wrote an enumeration for."""
    from eqfuse.extract.memories import tiled

    kernel = make()[0]
    streamed = {a: r for a, r in kernel.roles.items() if r.kind == "stream"}
    for tile in (3, 4, 64):
        at = tiled(kernel, {a: min(tile, a.size) if a in streamed else min(r.tile, a.size) for a, r in kernel.roles.items()})
        run = Visits(at.program)
        run.run()
        assert at.counts.load_bytes + at.counts.store_bytes == run.bytes, tile


def test_the_share_of_an_access_that_exists():
    """Windows over an edge, parts that do not divide, backwards, and masks with axes in common."""
    rng = random.Random(0)
    some = 0
    for _ in range(300):
        axes = [Axis(n, rng.randint(1, 7)) for n in "abc"]
        masks = []
        for position in range(rng.randint(1, 3)):
            chosen = rng.sample(axes, rng.randint(1, 3))
            e = sum((index(a) * rng.choice((-3, -1, 1, 2, 5)) for a in chosen), index(rng.randint(-4, 9)))
            masks.append(Inside(e, position, rng.randint(1, 9), rng.random() < 0.8, rng.random() < 0.8))
        at = dict(zip(axes, np.meshgrid(*(np.arange(a.size) for a in axes), indexing="ij"), strict=True))
        inside = np.ones([a.size for a in axes], bool)
        for m in masks:
            here = np.broadcast_to(m.expr.evaluate(at), inside.shape)
            inside &= (here >= 0 if m.low else True) & (here < m.extent if m.high else True)
        assert share(Access("x", (), (), (), (), tuple(masks))) == pytest.approx(inside.mean(), abs=1e-12)
        some += 0 < inside.mean() < 1
    assert some > 100


def test_a_tile_holds_its_operands_and_its_result():
    found = eqfuse.price(
        kernels.matmul(512, 512, 512)[0], {"l2": {"i": 256, "j": 128, "r": 64}, "shared": {"i": 64, "j": 64, "r": 16}}, H200
    )
    assert found["l2"].footprint == 4 * (256 * 64 + 64 * 128 + 256 * 128)
    assert found["dram"].footprint == 3 * 4 * 512**2
    attention = eqfuse.price(kernels.attention()[0], {"l2": {"h": 1, "i": 16, "j": 16}}, H200)
    assert attention["l2"].footprint == 4 * (4 * 16 * 16 + 4 * 16)  # queries, weights, values, the sum; and four numbers for each row
    assert found.fits
    small = H200.with_level("l2", bytes=100_000)
    there = eqfuse.price(kernels.matmul(512, 512, 512)[0], {"l2": {"i": 256, "j": 128, "r": 64}}, small)
    assert not there.fits and "a tile of 229.38 kB does not fit: 129.38 kB too many" in str(there)


def test_a_cache_keeps_what_lies_between_two_loops_or_does_not():
    kernel = kernels.softmax_rows(2, 1 << 20, 256)[0]  # of which the cache of a multiprocessor has a twentieth
    size = 4 * 2 * (1 << 20)
    kept = eqfuse.price(kernel, target=H200)
    assert (kept["dram"].read, kept["l2"].read) == (size, 2 * size)
    lost = eqfuse.price(kernel, target=H200.with_level("l2", bytes=100_000))
    assert 1.9 * size < lost["dram"].read < 2 * size and "loaded again" in lost["l2"].said
    short = kernels.softmax_rows(64, 4096, 256)[0]  # and this one all
    assert eqfuse.price(short, target=H200.with_level("l2", bytes=100_000))["dram"].read == 4 * 64 * 4096
    none = replace(H200, levels=tuple(x for x in H200.levels if x.name != "l2"))
    assert eqfuse.price(kernel, target=none)["dram"].traffic == kept["l2"].traffic  # nothing stands between


@pytest.mark.parametrize("target", ["mi300x", "cpu", "h200"])
def test_the_further_in_the_more_moves(target):
    """Any number of levels, with or without tiles."""
    device = load_target(target)
    middle = replace(device.cache, name="middle", bytes=device.cache.bytes / 2, gb_s=device.cache.gb_s * 1.5)
    at = device.levels.index(device.cache) + 1
    deeper = replace(device, levels=(*device.levels[:at], middle, *device.levels[at:]))
    kernel = kernels.attention(2, 512, 512, mask=kernels.causal)[0]
    for given in ({}, {"middle": {"i": 128, "j": 512}}, {device.levels[-1].name: {"i": 4, "j": 4}}):
        found = eqfuse.price(kernel, {device.on_chip.name: {"i": 16, "j": 16}, **given}, deeper)
        moved = [r.traffic for r in found.levels if r.traffic is not None]
        assert len(moved) >= len(deeper.levels) - 2 - (device.levels[0].scope == "node") - (target == "cpu")
        assert moved == sorted(moved) and len(str(found).splitlines()) == 3 + len(found.levels)


def test_tiles_of_the_memory_of_a_device_come_from_the_host():
    kernel = kernels.matmul(256, 256, 256, (64, 64, 32))[0]
    found = eqfuse.price(kernel, {"dram": {"i": 128}}, H200)
    assert found["host"].traffic == 4 * (256 * 256 + 2 * 256 * 256 + 256 * 256)  # b once more
    assert [r.level.name for r in eqfuse.price(kernel, {}, H200).levels] == ["dram", "l2", "shared", "registers"]
    with pytest.raises(OptionError, match="no memory outside dram"):
        eqfuse.price(kernel, {"dram": {"i": 128}}, "cpu")


def product(x, w):
    return torch.relu(x @ w)


def test_programs_plans_and_kernels_are_priced_alike():
    args = torch.empty(96, 64), torch.empty(64, 80)
    c = eqfuse.optimize(product, args, target="h200")
    (kernel,) = c.plan.kernels
    everywhere = [eqfuse.price(x, target=t) for x, t in ((c, None), (c.plan, None), (kernel, "h200"), (kernel.kernel, "h200"))]
    everywhere.append(eqfuse.price(product, args=args, target="h200"))
    assert len({str(p).replace("as planned", "") for p in everywhere}) == 1
    assert eqfuse.price(eqfuse.optimize(lambda x: torch.fft.fft(x).abs() + 1, args[:1])).calls == ("aten._fft_r2c", "aten.abs")
    assert everywhere[0]["dram"].traffic == c.plan.dram_bytes and everywhere[0]["l2"].traffic == kernel.cost.l2_bytes


@pytest.mark.parametrize(
    ("tiles", "said"),
    [
        ({"k": 4}, r"no axis of these kernels is called 'k'.*there are i, j, r"),
        ({"l22": {"i": 4}}, r"no memory of h200 is called 'l22'.*did you mean \"l2\"\?.*host, dram, l2, shared, registers"),
        ({"i": 0}, "the tile of i in shared is 0"),
        ({"i": 2.5}, "the tile of i in shared is 2.5"),
        ({"l2": {"i": 24}, "shared": {"i": 16}}, "tiles of 16 along i in shared do not fill those of 24 in l2"),
        ({"l2": 5, "shared": {"i": 5}}, "tiles of l2 is 5"),
        (5, "tiles is 5"),
    ],
    ids=str,
)
def test_tiles_that_there_are_not(tiles, said):
    with pytest.raises(OptionError, match=f"(?s){said}"):
        eqfuse.price(kernels.matmul()[0], tiles, "h200")
    with pytest.raises(OptionError, match="target is None"):
        eqfuse.price(kernels.matmul()[0], tiles)


def test_a_kernel_that_cannot_be_is_refused():
    kernel = kernels.matmul()[0]
    summed = replace(kernel, roles={a: Role("grid", 16) for a in kernel.roles}, grid=tuple(kernel.roles))
    with pytest.raises(OptionError, match=r"the kernel cannot have tiles of i=4, j=16, r=16: .*reduce"):
        eqfuse.price(summed, {"i": 4}, "h200")
