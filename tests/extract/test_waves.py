"""Bytes by the order of programs, against programs in waves over a cache that drops what was not used for longest."""

from collections import OrderedDict

import pytest

from eqfuse.extract.waves import Panel, dram_bytes, grouped, times_read

ROWS, LENGTH, COLUMNS = 4096, 4096, 14336  # a matrix product in 16 bits
CHUNK = 256  # of the contracted axis: what programs in step are apart at most


def simulated(order, tile, at_a_time, cache_bytes):
    """Bytes that a product reads from behind the cache, its programs in the order given."""
    programs = [{}]
    for axis, n in order:  # an axis that is there twice has the part that is slower first
        programs = [{**p, axis: p.get(axis, 0) * n + i} for p in programs for i in range(n)]
    cache, used, missed = OrderedDict(), 0, 0
    for first in range(0, len(programs), at_a_time):
        wave = programs[first : first + at_a_time]
        panels = {("a", p["m"]) for p in wave} | {("b", p["n"]) for p in wave}
        for k in range(0, LENGTH, CHUNK):
            for name in sorted(panels):
                key, size = (*name, k), tile[name[0] == "b"] * CHUNK * 2
                if key not in cache:
                    missed, used = missed + size, used + size
                cache[key] = size
                cache.move_to_end(key)
                while used > cache_bytes:
                    used -= cache.popitem(last=False)[1]
    return missed


@pytest.mark.parametrize(("at_a_time", "cache_bytes"), [(132, 42e6), (108, 34e6)])
@pytest.mark.parametrize("tile", [(128, 128), (256, 128)])
def test_orders_of_a_product_move_what_a_simulated_cache_says(tile, at_a_time, cache_bytes):
    along_n = (("m", ROWS // tile[0]), ("n", COLUMNS // tile[1]))
    panels = [Panel("a", tile[0] * LENGTH * 2, frozenset("m")), Panel("b", tile[1] * LENGTH * 2, frozenset("n"))]
    found = {}
    for name, order in {"along n": along_n, "along m": along_n[::-1], "grouped": grouped(along_n, "m", "n", 8)}.items():
        found[name] = dram_bytes(panels, order, at_a_time, cache_bytes)
        assert found[name] == pytest.approx(simulated(order, tile, at_a_time, cache_bytes), rel=0.1), name
    assert found["along n"] > 5 * found["grouped"]


def test_what_stays_in_the_cache_is_read_once():
    panels = [Panel("q", 1e4, frozenset("hm")), Panel("k", 1e6, frozenset("h")), Panel("w", 1e3, frozenset())]
    assert dram_bytes(panels, (("h", 8), ("m", 512)), 100, 2e7) == pytest.approx(8 * 512 * 1e4 + 8 * 1e6 + 1e3)


def test_grouped_order_of_fewer_programs_than_a_group():
    assert grouped((("b", 2), ("m", 3), ("n", 5)), "m", "n", 8) == (("b", 2), ("m", 1), ("n", 5), ("m", 3))


def test_no_programs_read_nothing():
    """Along an axis without programs, wherever it is in the order; the others would not fit the cache."""
    panels = [Panel("a", 1e6, frozenset("m")), Panel("b", 1e6, frozenset("n"))]
    for order in ((("m", 0), ("n", 9)), (("n", 9), ("m", 0))):
        assert times_read(panels, order, 4, 1e6) == dict.fromkeys(panels, 1.0)
        assert dram_bytes(panels[:1], order, 4, 1e6) == 0.0
