"""What is told to the cache: data of one program that two loops read, and nothing else."""

from __future__ import annotations

import pytest
import torch

import eqfuse
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.reuse import DROP, KEEP, Reuse, reuse


def kernel(fn, *shapes, target="h200", **options):
    args = tuple(torch.empty(*s, dtype=torch.float16, device="meta") for s in shapes)
    (found,) = eqfuse.optimize(fn, args, target=target, **options).plan.kernels
    return found


def test_the_first_loop_keeps_and_the_second_lets_go():
    k = kernel(lambda x: torch.softmax(x, -1), (4096, 128256))
    found = reuse(k.tiles)
    assert k.passes == {next(iter(k.passes)): 2}
    loaded = list(found.loads.values())
    cut = loaded.index(DROP)
    assert set(loaded[:cut]) == {KEEP}
    assert set(loaded[cut:]) == {DROP}
    assert found.stores == DROP


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda x: torch.logsumexp(x, -1), [(4096, 128256)]),  # one loop
        (lambda x: torch.softmax(x, -1), [(4096, 4096)]),  # no loop: the row stays on chip
        (lambda x, w: x @ w, [(4096, 4096), (4096, 4096)]),
    ],
)
def test_what_is_read_once_gets_no_hint(fn, shapes):
    assert reuse(kernel(fn, *shapes).tiles) == Reuse()


def test_what_other_programs_read_gets_no_hint():
    """Two loops over the rows of a product, which the programs of all its columns read: the last one of this program is not the last."""
    case = PROGRAMS["rmsnorm_linear"]
    k = kernel(case.fn, *(a.shape for a in case.shapes["bench"]), target="a100")
    assert max(k.passes.values()) == 2
    assert reuse(k.tiles) == Reuse()
