"""How many parts a long reduction is offered in: as many as keep the device busy, and none where it is busy anyway."""

from __future__ import annotations

import pytest

from eqfuse.extract.splits import FULLER, TILE, _busy, _parts
from eqfuse.extract.targets import load_target, targets

VOCABULARY = 128256


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("tokens", [2048, 4096])
def test_parts_fill_the_device_whichever_tile_is_taken(target, tokens):
    sms = load_target(target).sm_count
    tiles = tokens / TILE
    parts = _parts(tiles, VOCABULARY, sms, True)
    assert parts > 1
    assert _busy(tiles * parts, sms) >= FULLER
    assert _busy(tiles / 2 * parts, sms) >= FULLER


def test_a_last_wave_that_is_half_empty_is_worth_splitting():
    assert _parts(128, VOCABULARY, 108, True) == 8  # 128 programs on 108 multiprocessors: two waves, 59 % busy
    assert _parts(128, VOCABULARY, 132, True) == 2  # less than one wave
    assert _parts(256, VOCABULARY, 132, True) == 1  # 97 % busy
    assert _parts(4096, VOCABULARY, 108, True) == 1


def test_parts_are_not_too_short():
    assert _parts(1, 1000, 132, False) == 4
    assert _parts(1, 200, 132, False) == 1
