"""Drawn tensors are of the shapes, layouts and kinds that were asked for, and can be made again from what is printed."""

import pytest
import torch
from hypothesis import find, given, settings
from hypothesis import strategies as st

from eqfuse.testing import (
    FINITE,
    LAYOUTS,
    LENGTHS,
    MASKED,
    MASKS,
    OFFSETS,
    WILD_LENGTHS,
    WILD_WINDOWS,
    WINDOWS,
    documents,
    indices,
    lay_out,
    lengths,
    masks,
    offsets,
    recipe_of,
    sample,
    size,
    tensors,
    windows,
)
from eqfuse.testing.strategies import Recipe

TYPES = (torch.float16, torch.bfloat16, torch.float32)
N = size("N", 1, 33)
quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@quick
@given(
    tensors(TYPES, ("B", N), values=MASKED), tensors(TYPES, (N,)), masks(("B", N)), lengths("B", N), offsets("B", "T"), indices(("B",), N)
)
def test_sizes_and_types_are_shared_by_name(x, w, mask, length, offset, index):
    rows, columns = x.shape
    assert w.shape == (columns,) and mask.shape == (rows, columns) and length.shape == (rows,) and offset.shape == (rows + 1,)
    assert x.dtype == w.dtype and mask.dtype == torch.bool and columns <= 33
    assert ((length >= 0) & (length <= columns)).all()
    assert offset[0] == 0 and (offset.diff() >= 0).all()
    assert ((index >= 0) & (index < columns)).all()


@quick
@given(st.data())
def test_code_makes_the_same_tensor(data):
    x = data.draw(st.one_of(tensors(TYPES, ("A", "B"), values=MASKED), masks(("A", "B")), lengths("A", "B"), offsets("A", "B")))
    again = eval(recipe_of(x).code(), {"torch": torch, "sample": sample})
    assert again.dtype == x.dtype and again.stride() == x.stride() and again.storage_offset() == x.storage_offset()
    assert torch.equal(again, x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 5), (7,), (2, 3, 4), (1, 1)], ids=str)
def test_layouts(layout, shape):
    x = torch.randn(shape)
    y = lay_out(x, layout)
    assert y.shape == x.shape
    assert torch.equal(y, x if layout != "expanded" or len(shape) == 1 else x[:1].expand(shape))
    if len(shape) > 1 and 1 not in shape:
        facts = {
            "contiguous": y.is_contiguous() and y.storage_offset() == 0,
            "offset": y.is_contiguous() and y.storage_offset() > 0,
            "rows": y.stride(-1) == 1 and y.stride(-2) > y.shape[-1] and y.storage_offset() > 0,
            "strided": y.stride(-1) == 2,
            "transposed": y.stride(-2) == 1,
            "expanded": y.stride(0) == 0,
        }
        assert facts[layout]
    if layout in ("offset", "rows", "strided"):
        assert bool(torch.empty(0).set_(y.untyped_storage()).isnan().any())  # what lies between is no number


def test_huge_spans_more_than_32_bits_and_holds_no_memory():
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = sample(torch.float32, (3, 5), layout="huge")
    assert 2 * x.stride(0) >= 2**31 and x.stride(0) < 2**31
    assert torch.equal(x, sample(torch.float32, (3, 5)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes, of 8 gigabytes


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_kinds_of_values(dtype):
    def kind(values, shape=(6, 9), seed=3):
        return sample(dtype, shape, values=values, seed=seed)

    for values in FINITE:
        assert kind(values).isfinite().all(), values
    assert (kind("zeros") == 0).all() and kind("zeros").signbit().any() and not kind("zeros").signbit().all()
    assert (kind("equal") == kind("equal")[:, :1]).all()
    assert kind("ties").unique().numel() <= 5
    assert (kind("offset") > 900).all()
    tiny = torch.finfo(dtype).tiny
    assert ((kind("denormal").abs() < tiny) & (kind("denormal") != 0)).any()
    masked = kind("masked rows", (60, 9)) == -torch.inf
    assert masked.all(1).any() and (~masked).all(1).any()  # whole rows, and rows untouched
    part = masked[masked.any(1) & ~masked.all(1)]
    assert len(part) and (part[:, :-1] >= part[:, 1:]).all()  # otherwise the first part


def test_kinds_of_masks():
    def kind(values):
        return sample(torch.bool, (20, 9), values=values, seed=1)

    assert kind("all").all() and not kind("none").any()
    assert (~kind("empty rows")).all(1).any() and kind("empty rows").any()
    assert torch.equal(kind("causal"), torch.ones(20, 9).tril().bool())
    assert (kind("lengths")[:, :-1] >= kind("lengths")[:, 1:]).all()
    assert set(MASKS) == {"random", "all", "none", "empty rows", "lengths", "causal"}


def test_kinds_of_lengths():
    def kind(values, dtype=torch.int64, below=20):
        return torch.stack([sample(dtype, (30,), values=values, seed=seed, below=below) for seed in range(20)])

    for values in LENGTHS:
        assert ((kind(values) >= 0) & (kind(values) <= 20)).all(), values
    assert (kind("zeros") == 0).all() and (kind("ones") == 1).all() and (kind("ones", below=0) == 0).all()
    assert (kind("equal") == kind("equal")[:, :1]).all() and kind("equal").unique().numel() > 5
    assert ((kind("lengths") == 0).any(1) & (kind("lengths") == 20).any(1)).all()
    assert ((kind("skewed") == 20).sum(1) == 1).all() and ((kind("skewed") <= 2).sum(1) == 29).all()
    assert (kind("beyond") > 20).any() and (kind("negative") < 0).any()
    for dtype in (torch.int8, torch.int32, torch.int64):
        far = kind("far", dtype)
        assert far.dtype == dtype and far.max() == torch.iinfo(dtype).max and far.min() == torch.iinfo(dtype).min
    assert set(WILD_LENGTHS) - set(LENGTHS) == {"beyond", "negative", "far"}


@pytest.mark.parametrize("values", OFFSETS)
def test_kinds_of_offsets(values):
    drawn = [sample(torch.int32, (5,), values=values, seed=seed, below=40) for seed in range(30)]
    for x in drawn:
        assert x[0] == 0 and x[-1] == 40 and (x.diff() >= 0).all()
    parts = torch.stack([x.diff() for x in drawn])
    facts = {"offsets": (parts == 0).any(), "equal offsets": (parts == 10).all(), "skewed offsets": (parts.max(1).values >= 30).all()}
    assert facts[values]
    assert sample(torch.int32, (1,), values=values, below=0).tolist() == [0]


@quick
@given(
    documents("T", size("B", 1, 5), kinds="documents"),
    documents("T", size("B", 1, 5)),
    windows("B", N),
    windows("B", N, kinds="wild windows"),
)
def test_documents_and_windows(ordered, anyhow, window, wild):
    assert ordered.shape == anyhow.shape and (ordered.diff() >= 0).all() and (anyhow >= 0).all()
    assert window.shape == wild.shape and window.shape[1] == 2
    low, high = window.unbind(-1)
    assert (low >= 0).all() and (low <= high).all()


def test_wild_windows_are_wild_and_others_are_not():
    draw = {k: torch.cat([sample(torch.int64, (9, 2), values=k, seed=s, below=6) for s in range(20)]) for k in WILD_WINDOWS}
    for k in WINDOWS:
        assert ((draw[k] >= 0) & (draw[k] <= 6)).all() and (draw[k][:, 0] <= draw[k][:, 1]).all()
    wild = draw["wild windows"]
    assert (wild < 0).any() and (wild > 6).any() and (wild[:, 0] > wild[:, 1]).any()
    assert (sample(torch.int64, (60,), values="shuffled documents", below=4).diff() < 0).any()


def test_an_empty_batch_has_no_lengths_and_one_offset():
    empty = size("none", 0, 0)

    @settings(max_examples=5, deadline=None, database=None)
    @given(lengths(empty, 3, kinds=WILD_LENGTHS), offsets(empty, 0), windows(empty, 3))
    def look(n, cu, w):
        assert n.shape == (0,) and cu.tolist() == [0] and w.shape == (0, 2)

    look()


def test_edge_sizes_are_drawn():
    seen = set()

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(tensors(torch.float32, (size("edge", 0, 130),), values="normal", layouts="contiguous"))
    def look(x):
        seen.add(x.numel())

    look()
    assert {0, 1, 2} <= seen and seen & {31, 33, 63, 65, 127, 129} and seen & {32, 64, 128}


def test_examples_shrink_to_the_simplest():
    x = find(tensors(TYPES, ("A", "B"), values=MASKED), lambda x: x.numel() >= 6, settings=settings(database=None))
    assert x.numel() in (6, 7, 8)
    assert recipe_of(x) == Recipe(torch.float16, tuple(x.shape))
