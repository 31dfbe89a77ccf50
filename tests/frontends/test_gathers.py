"""Reads and writes at positions that are data mean what torch computes, whatever the dimensions, types, sizes and signs."""

import random

import pytest
import torch
from torch.nn import functional

from eqfuse.errors import EmptyProgramError
from eqfuse.frontends import trace
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Gather, Reduce

from .test_corpus import agree

DTYPES = (torch.float64, torch.int32, torch.uint8, torch.bool)


def drawn(shape, dtype, generator):
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator, dtype=dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape, generator=generator).to(dtype)


def means(fn, args):
    """What torch computes; of a dimension of length 1 all is known, and of some functions nothing is left to compute."""
    try:
        return agree(fn, args)
    except EmptyProgramError:
        assert 1 in args[0].shape or fn(*args).numel() == 0
        return None


def positions(shape, n, generator, *, negative=False):
    at = torch.randint(-n if negative else 0, max(n, 1), shape, generator=generator)
    return at if generator.initial_seed() % 2 else at.int()


@pytest.mark.parametrize("seed", range(10))
def test_reads_at_data(seed):
    """gather, take_along_dim, index_select, embedding and indices in any dimensions, of tensors with lengths from 1 to 5 and empty results."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    rank = rng.choice((1, 2, 3))
    shape = [rng.choice((1, 2, 3, 5)) for _ in range(rank)]
    x, d = drawn(shape, rng.choice(DTYPES), generator), rng.randrange(-rank, rank)
    count = rng.choice((0, 1, 2, 4))
    like = [*shape[: d % rank], count, *shape[d % rank + 1 :]]
    means(lambda x, i: x.gather(d, i), (x, positions(like, shape[d], generator).long()))
    means(lambda x, i: torch.take_along_dim(x, i, d), (x, positions(like, shape[d], generator).long()))
    means(lambda x, i: x.index_select(d, i), (x, positions((count,), shape[d], generator)))
    means(lambda x, i: functional.embedding(i, x), (x.reshape(-1, shape[-1]), positions((count, 2), x[..., 0].numel(), generator)))
    indexed = sorted(rng.sample(range(rank), rng.randint(1, rank)))
    common = rng.choice(((count,), (2, count), (count, 1)))
    given = [positions(rng.choice((common, common[-1:])), shape[k], generator, negative=True) for k in indexed]

    def indices(x, *given):
        rest = iter(given)
        return x[tuple(next(rest) if k in indexed else slice(None) for k in range(rank))]

    traced = means(indices, (x, *given))
    assert traced is None or not any(
        isinstance(t, Reduce) for t in traced.program.terms()
    )  # an element of a table is no sum, which has a type and a limit of its own


@pytest.mark.parametrize("seed", range(6))
def test_writes_at_data(seed):
    """What accumulates adds all that is written to an element, whichever positions are equal; of what does not, the last counts."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    n, m, k = (rng.choice((1, 2, 3, 5)) for _ in range(3))
    x, s = (torch.randn(size, generator=generator, dtype=torch.float64) for size in ((n, m), (k, m)))
    rows, apart = positions((k,), n, generator).long(), torch.randperm(n, generator=generator)[:k]
    means(lambda x, i, s: x.index_add(0, i, s), (x, rows, s))
    means(lambda x, i, s: x.index_put((i,), s, accumulate=True), (x, rows - n, s))
    means(lambda x, i, s: x.index_copy(0, i, s), (x, apart, s[: len(apart)]))
    means(lambda x, i, s: x.index_put((i,), s[0]), (x, apart - n, s))
    means(lambda x, i: x.index_put((torch.arange(n), i), x.new_tensor(2.0)), (x, positions((n,), m, generator, negative=True).long()))
    across = positions((k, m), n, generator).long()
    means(lambda x, i, s: x.scatter_add(0, i, s), (x, across, s))
    means(lambda x, i, s: x.scatter_reduce(0, i, s, "amax", include_self=bool(seed % 2)), (x, across, s))
    means(lambda x, i: x.scatter(0, i, 1.0), (x, across))
    means(lambda x, i, s: x.scatter(0, i, s), (x, torch.stack([torch.randperm(n, generator=generator) for _ in range(m)], 1)[:k], s))
    means(lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, n, 0, False), (s, rows))
    means(lambda i: functional.one_hot(i, n), (rows,))


def test_a_row_that_is_written_at_one_position_is_a_selection():
    """A cross-entropy's gradient reads each element once."""
    traced = agree(lambda x, i: x.scatter(1, i[:, None], -1.0), (torch.zeros(4, 7, dtype=torch.float64), torch.tensor([6, 0, 3, 3])))
    assert not any(isinstance(t, Reduce | Gather) for t in traced.program.terms())


def test_positions_that_are_none_read_zero():
    """Where torch raises, or stops the device, nothing is read: not next to the table, nor its first or last row."""
    x, at = torch.randn(3, 2, dtype=torch.float64), torch.tensor([0, 3, -4, 2**40, -1])
    found = [
        evaluate(trace(f, (x, at)).program, {"x": x.numpy(), "i": at.numpy()})
        for f in (lambda x, i: x[i], lambda x, i: x.index_select(0, i))
    ]
    for values, last in zip(found, (x[2], torch.zeros(2)), strict=True):
        rows = torch.as_tensor(values["out"])
        assert torch.equal(rows, torch.stack([x[0], *torch.zeros(3, 2), last]).double())
