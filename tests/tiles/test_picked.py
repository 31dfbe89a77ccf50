"""A sum over an axis of what stands at one position: one comparison for each row, wherever the position is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eqfuse.frontends import trace
from eqfuse.ir.reference import evaluate
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Let, Reduce
from eqfuse.tiles.simulate import simulate

ROWS, COLUMNS = 11, 23
# before the axis, its first and last elements, the edges of tiles, in the padded lanes of the last tile, far beyond
LABELS = np.array([-100, -1, 0, 3, 4, 15, 16, 22, 23, 24, 2**31 - 1])


def at(shift=0, dtype=torch.float32):
    def f(labels, x):
        position = torch.arange(COLUMNS) + shift
        return torch.where(position[None, :] == labels[:, None], x[:, None], torch.zeros((), dtype=dtype)).sum(-1)

    return f


def lowered(fn, role, *, tile=4):
    program = trace(fn, (torch.empty(ROWS, dtype=torch.int64), torch.empty(ROWS))).program
    (row,) = program.outputs[0].layout
    (column,) = (a for a in program.axes if a.size == COLUMNS)
    return program, lower(kernel_from_program(program, {row: Role("grid", tile), column: role}))


@pytest.mark.parametrize("role", [Role("stream", 4), Role("stream", 8), Role("stream", 32), Role("resident", 32)], ids=str)
@pytest.mark.parametrize("shift", [0, 2, -5])
def test_every_position(role, shift):
    program, tiles = lowered(at(shift), role)
    data = {"labels": LABELS, "x": np.linspace(1, 2, ROWS)}
    (expected,) = evaluate(program, data).values()
    assert 0 < np.count_nonzero(expected) < ROWS
    (found,) = simulate(tiles, data).values()
    np.testing.assert_array_equal(found, expected)


def test_what_is_not_picked_may_be_anything():
    program, tiles = lowered(at(), Role("stream", 4))
    data = {"labels": LABELS, "x": np.where((LABELS >= 0) & (LABELS < COLUMNS), 1.0, np.nan)}
    (found,) = simulate(tiles, data).values()
    np.testing.assert_array_equal(found, evaluate(program, data)[program.outputs[0].name])
    assert np.isfinite(found).all()


def test_no_tile_of_comparisons():
    _, tiles = lowered(at(), Role("stream", 4))
    statements = list(tiles.statements())
    assert all(len(s.src.dims) < 2 for s in statements if isinstance(s, Reduce))  # where the loop begins and ends
    assert all(len(s.dst.dims) < 2 for s in statements if isinstance(s, Let))


@pytest.mark.parametrize(
    "fn",
    [
        lambda labels, x: torch.where(torch.arange(COLUMNS)[None, :] == x[:, None], 1.0, 0.0).sum(-1),  # a float is no position
        lambda labels, x: torch.where(torch.arange(COLUMNS)[None, :] == labels[:, None], 1.0, 2.0).sum(-1),
        lambda labels, x: torch.where(torch.arange(COLUMNS)[None, :] * 2 == labels[:, None], 1.0, 0.0).sum(-1),
        lambda labels, x: torch.where(torch.arange(COLUMNS)[None, :] != labels[:, None], 1.0, 0.0).sum(-1),
    ],
)
def test_other_choices_are_summed(fn):
    program, tiles = lowered(fn, Role("stream", 4))
    assert any(isinstance(s, Reduce) for s in tiles.statements())
    data = {"labels": LABELS, "x": np.arange(ROWS) * 1.0}
    (found,) = simulate(tiles, data).values()
    np.testing.assert_array_equal(found, *evaluate(program, data).values())
