"""What is told to the cache: data of one program that two loops read, and nothing else."""

from __future__ import annotations

import pytest
import torch

import eqfuse
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.program import Load, Store


def kernel(fn, *shapes, target="h200", **options):
    args = tuple(torch.empty(*s, dtype=torch.float16, device="meta") for s in shapes)
    (found,) = eqfuse.optimize(fn, args, target=target, **options).plan.kernels
    return found


def hints(k, kind):
    return [s.hint for s in k.tiles.statements() if isinstance(s, kind)]


def test_the_first_loop_keeps_and_the_second_lets_go():
    k = kernel(lambda x: torch.softmax(x, -1), (4096, 128256))
    assert k.passes == {next(iter(k.passes)): 2}
    loaded = hints(k, Load)
    cut = loaded.index("drop")
    assert set(loaded[:cut]) == {"keep"}
    assert set(loaded[cut:]) == {"drop"}
    assert set(hints(k, Store)) == {"drop"}


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda x: torch.logsumexp(x, -1), [(4096, 128256)]),  # one loop
        (lambda x: torch.softmax(x, -1), [(4096, 4096)]),  # no loop: the row stays on chip
        (lambda x, w: x @ w, [(4096, 4096), (4096, 4096)]),
    ],
)
def test_what_is_read_once_gets_no_hint(fn, shapes):
    assert set(hints(kernel(fn, *shapes), Load | Store)) == {""}


def test_what_other_programs_read_gets_no_hint():
    """Two loops over the rows of a product, which the programs of all its columns read: the last one of this program is not the last."""
    case = PROGRAMS["rmsnorm_linear"]
    k = kernel(case.fn, *(a.shape for a in case.shapes["bench"]), target="a100", memory_limit=0)
    assert max(k.passes.values()) == 2
    assert set(hints(k, Load | Store)) == {""}
