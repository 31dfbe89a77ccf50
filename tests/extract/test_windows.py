"""What planning a convolution takes: no more kinds of tiles than a product, and no values stored that pay for nothing."""

from collections import Counter

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

import eqfuse
from eqfuse import work
from eqfuse.egraph import saturate
from eqfuse.extract.covers import Extractor
from eqfuse.extract.search import KernelSearch
from eqfuse.extract.targets import load_target
from eqfuse.frontends import trace

CONVOLUTION = (4, 64, 56, 56), (64, 64, 3, 3), (64,)


def convolved(x, w, b):
    return torch.relu(F.conv2d(x, w, b, padding=1))


def empty(*shapes, dtype=torch.float16):
    return [torch.empty(s, dtype=dtype, device="meta") for s in shapes]


@pytest.mark.parametrize("pooled", [False, True])
def test_windows_are_not_held_whole_where_products_are_found(monkeypatch, pooled):
    """A matrix unit multiplies one pair of matrices at a time: a window held whole is several."""
    kinds, descend = Counter(), KernelSearch._descend

    def counted(self, name, roots, leaves, s, roles, *args):
        kinds[s.has_contraction, s.several(roles) > 0] += 1
        return descend(self, name, roots, leaves, s, roles, *args)

    monkeypatch.setattr(KernelSearch, "_descend", counted)
    eqfuse.optimize(lambda *args: F.max_pool2d(convolved(*args), 2) if pooled else convolved(*args), empty(*CONVOLUTION), target="h200")
    assert kinds[True, False] and not kinds[True, True]


@pytest.mark.parametrize(
    ("fn", "stored"),
    [
        (lambda x, w, b: torch.relu(x @ w + b), 0),
        (lambda x, w, b: x + torch.sigmoid(x @ w) * 2, 0),
        (lambda x, w, b: (torch.relu(x @ w + b), torch.sigmoid(x @ w + b)), 1),  # two outputs
        (lambda x, w, b: torch.softmax(x @ w, -1), 1),  # what is made of it is summed
        (lambda x, w, b: torch.sigmoid(x @ w) * (x @ b), 2),  # beside another product
        (lambda x, w, b: torch.relu(x @ w) @ b, 1),  # what another product is made of
    ],
)
def test_a_product_is_not_stored_for_its_epilogue(fn, stored):
    program = trace(fn, empty((512, 512), (512, 512), (512, 512), dtype=torch.float32)).program
    points = Extractor(saturate(program), load_target("h200")).points
    sums = {points.graph.original[k] for k, t in enumerate(program.terms()) if t in points.work.nests and points.work.nests[t].product}
    assert len(sums.intersection(points.worth_storing)) == stored


def test_a_convolution_is_planned_like_a_product():
    def spent(fn, *args):
        before = work.now()
        eqfuse.optimize(fn, args, target="h200")
        return work.now() - before

    product = spent(lambda x, w, b: torch.relu(x @ w + b), *empty((12544, 576), (576, 64), (64,)))
    assert spent(convolved, *empty(*CONVOLUTION)) < 10 * product
