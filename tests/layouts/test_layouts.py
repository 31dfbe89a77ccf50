"""Layouts: every operation against enumeration, the counterexamples to the paper's pseudo-code, published examples, and what is refused."""

import layout_oracle as oracle
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layout_mutants import MUTANTS, caught, mutant
from layout_properties import PROPERTIES, Source

import eqfuse
import eqfuse.ir.layout as lib
from eqfuse.errors import LayoutError
from eqfuse.ir.index import Axis, index
from eqfuse.ir.layout import Iter, Layout, Partial, Replicate, Shard, Sharding, Swizzle, Swizzled, cute, inverse, pictures

QUIET = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("check", PROPERTIES, ids=lambda f: f.__name__.strip("_"))
def test_against_enumeration(check):
    @QUIET
    @given(st.data())
    def run(data):
        check(lib, Source(lambda low, high: data.draw(st.integers(low, high))))

    run()


@pytest.mark.parametrize(("what", "change"), [(m[0], m[1:]) for m in MUTANTS], ids=[m[0] for m in MUTANTS])
def test_a_mutant_is_caught(what, change):
    with mutant(*change) as faulty:
        assert caught(faulty, what)


def test_the_library_is_no_mutant():
    assert len(MUTANTS) >= 20
    with mutant("layout", "class Layout:", "class Layout:  # as it is") as same:
        assert all(caught(same, f"{what}: nothing", draws=8) is None for what in ("slice", "tile of"))


# ---- the paper's pseudo-code, where it is wrong ----------------------------------------------------------------------------------
def test_tile_of_asks_that_what_is_outside_stands_before_the_tile():
    """Algorithm 3 matches B as a subsequence anywhere in A."""
    with pytest.raises(LayoutError, match="within a tile"):
        Layout([(2, 1), (2, 2)]).tile_of(Layout([(2, 1)]))
    assert Layout([(16, 1)]).tile_of(Layout([(4, 1)])) == Layout([(4, 1)])  # rejected there: iters are not split


def test_slice_asks_for_room_at_a_wrap():
    """Algorithm 4 takes d + 1 <= E, so that the digit left of the pivot may leave its extent; here it carries on to the next."""
    layout = Layout([(2, 100), (2, 10), (4, 1)])
    part = layout.slice([(6, 10)])  # 12 13 100 101; the paper has a step of 10 - 2, into a third digit of extent 2
    assert part == Layout([(2, 88), (2, 1)], (), {"m": 12}) and oracle.of(part) == oracle.of(layout)[6:10]
    with pytest.raises(LayoutError, match="crosses the end of iter 4:1"):
        layout.slice([(5, 10)])


def test_slice_ends_where_one_index_is_left():
    """Algorithm 4 asks rem == 0, and rem is 1 when all digits are peeled."""
    layout = Layout([(2, 8), (4, 1)])
    assert layout.slice([(0, 8)]) == layout
    assert layout.slice([(4, 8)]).canonicalize() == Layout([(4, 1)], (), {"m": 8})


def test_slice_takes_no_stride_on_two_axes():
    """Algorithm 4's step of a wrap, S[k-1] - (E - c)·S[k], may lie on two axes, which no iter has."""
    with pytest.raises(LayoutError):
        Layout([(2, 1, "warp"), (4, 1, "lane")]).slice([(2, 6)])
    assert Layout([(4, 10), (2, 1)]).slice([(1, 7)]) == Layout([(3, 10), (2, 9)], (), {"m": 1})  # beyond both of the paper's forms


def test_group_normalises_first():
    """Algorithm 1 fails at an iter of extent 1, and where two iters are one walk."""
    assert Layout([(1, 5), (4, 1)]).group((2, 2)) == Layout([(2, 2), (2, 1)])
    assert Layout([(2, 6), (6, 1)]).group((3, 4)) == Layout([(3, 4), (4, 1)])  # 2 and 6 are no way to 3 and 4, 12 is


def test_absorption_is_bounded_and_its_forms_are_not_unique():
    assert Layout([], [(2, 1), (2, 3)]).canonicalize().replicas == (Iter(2, 1), Iter(2, 3))  # q = 3 > e = 2: a hole
    assert Layout([], [(3, 1), (2, 3)]).canonicalize().replicas == (Iter(6, 1),)  # q = e is enough
    a, b = Layout([], [(6, 2), (2, 3)]), Layout([], [(3, 2), (4, 3)])
    assert oracle.of(a) == oracle.of(b) and a.equivalent(b) and a.canonicalize() == b.canonicalize()


def test_overlapping_copies_count_once():
    layout = Layout([], [(2, 1), (2, 1)])
    assert layout.copies == 3 == len(layout(0)) and layout.equivalent(Layout([], [(3, 1)]))


def test_a_tile_scales_offset_and_copies():
    """(A·W) + B = A (x) B of appendix F.3 leaves R and O of A unscaled."""
    a, b = Layout([(2, 1)], [(2, 2)], {"m": 1}), Layout([(2, 2)])
    wanted = oracle.tile(oracle.of(a), (2,), oracle.of(b), (2,), {"m": 3})
    assert oracle.of(a.tile(b)) == wanted == oracle.of(a.scale(b.span()).direct_sum(b))
    as_printed = Layout([(2, 3)], a.replicas, a.offset).direct_sum(b)
    assert oracle.of(as_printed) != wanted


# ---- published examples ----------------------------------------------------------------------------------------------------------
def test_examples_of_the_paper():
    blocks = Layout.parse("(2,3):(3,1)").tile(Layout.parse("(8,8):(8,1)"), (2, 3), (8, 8))
    assert blocks == Layout.parse("(2,8,3,8):(192,8,64,1)")
    assert str(blocks.slice([(0, 8), (8, 24)], (16, 24)).group((8, 16))) == "(8,2,8):(8,64,1) + 64"
    a, b = Layout.parse("(2,2):(8,2)"), Layout.parse("(2,2):(4,1)")
    both = a.direct_sum(b)  # over (p, q, i, j)
    assert both.permute((0, 2, 1, 3), (2, 2, 2, 2)).canonicalize() == Layout.parse("(16):(1)")
    with pytest.raises(LayoutError):
        Layout.parse("(16):(1)").tile_of(b, (4, 4), (2, 2))
    warps = Layout.parse("(8,2,4,2):(4@lane,1@warp,1@lane,1@reg) + [2:4@warp] + 5@warp")
    assert sorted({p["warp"] for x in range(128) for p in warps(x)}) == [5, 6, 9, 10] and warps.copies == 2


def test_examples_of_cute():
    """From CUTLASS, 02_layout_algebra.md; strides are those of coalesced results."""
    of, to = cute.from_cute, cute.to_cute
    assert to(of((2, (1, 6)), (1, (6, 2)))) == ((12,), (1,))
    assert to(cute.composition(of((6, 2), (8, 2)), of((4, 3), (3, 1)))) == ((2, 2, 3), (24, 2, 8))
    assert cute.composition(of((10, 2), (16, 4)), of((5, 4), (1, 5))).equivalent(of((5, (2, 2)), (16, (80, 4))))
    for shape, stride, rest in (((4,), (1,), ((6,), (4,))), ((6,), (4,), ((4,), (1,))), ((4, 6), (1, 4), ((), ())), ((4,), (2,), ((2, 3), (1, 8))),
                                ((2, 4), (1, 6), ((3,), (2,))), ((2, 2), (1, 6), ((3, 2), (2, 12)))):  # fmt: skip
        assert to(cute.complement(of(shape, stride), 24)) == rest
    divided = cute.logical_divide(of((4, 2, 3), (2, 1, 8)), of(4, 2))  # ((2,2),(2,3)):((4,1),(2,8))
    assert divided.equivalent(of(((2, 2), (2, 3)), ((4, 1), (2, 8))))
    made = cute.logical_product(of((2, 2), (4, 1)), of(6, 1))  # ((2,2),(2,3)):((4,1),(2,8))
    assert made.equivalent(of(((2, 2), (2, 3)), ((4, 1), (2, 8))))


def test_a_swizzled_tile_of_shared_memory_has_no_bank_conflicts():
    """Rows of 128 bytes: 8 threads that read one column of 16 bytes hit each of 8 groups of 4 banks once; without the swizzle, one group."""
    tile = Layout.from_strides((8, 64))
    swizzled = Swizzled(tile, Swizzle(3, 3, 3))
    for column in range(0, 64, 8):
        groups = {
            which: {of((row, column), (8, 64))[0]["m"] * 2 % 128 // 16 for row in range(8)}
            for which, of in (("plain", tile), ("swizzled", swizzled))
        }
        assert len(groups["plain"]) == 1 and len(groups["swizzled"]) == 8
    assert str(swizzled.slice([(3, 4), (0, 64)], (8, 64)).plain()) == "(2,4,8):(32,-8,1) + 216"  # row 3 is XORed with 3 groups
    with pytest.raises(LayoutError, match="the bits that it reads change"):
        swizzled.plain()
    assert all(swizzled.index_at(swizzled(x)[0]["m"]) == x for x in range(512))


# ---- torch, numpy, index expressions ---------------------------------------------------------------------------------------------
def test_strides_of_torch_and_numpy():
    import torch

    x = torch.arange(120).reshape(2, 3, 4, 5)[:, 1:].transpose(1, 3)
    layout = Layout.of(x)
    assert np.array_equal(layout.over(x.shape)["m"][..., 0], x.numpy()) and layout.to_strides(x.shape) == (x.stride(), 20)
    assert Layout.of(torch.zeros(1, 3).expand(4, 3)) == Layout([(4, 0), (3, 1)])
    assert Layout.of(np.zeros((4, 6), np.float32)[::-1, ::2]) == Layout([(4, -6), (3, 2)])
    assert Layout.of(np.float64(3)) == Layout([])
    with pytest.raises(LayoutError, match="dimension 0 of the tensor is 0"):
        Layout.of(torch.zeros(0, 3))


def test_placements_of_torch():
    from torch.distributed.tensor import placement_types as torchs

    ours = Sharding((8, 6), {"dp": 2, "tp": 3}, (torchs.Shard(0), torchs.Shard(-1)))
    assert ours == Sharding((8, 6), {"dp": 2, "tp": 3}, (Shard(0), Shard(1))) and str(ours.layout) == "(2,4,3,2):(1@dp,2,1@tp,1)"
    pending = Sharding((8, 6), {"dp": 2, "tp": 3}, (torchs.Replicate(), torchs.Partial()))
    assert pending.placements == (Replicate(), Partial("sum")) and pending.partial == {1: "sum"}
    assert Sharding.of(pending.layout, (8, 6), {"dp": 2, "tp": 3}, pending.partial) == pending


def test_a_large_layout_needs_no_enumeration():
    big = Layout.from_strides((1 << 20, 1 << 20))
    assert big.slice([(5, 1 << 19), (0, 1 << 20)], (1 << 20, 1 << 20)).offset == {"m": 5 << 20}
    assert big.tile_of(Layout.from_strides((64, 1 << 20)), (1 << 20, 1 << 20), (64, 1 << 20)).size == 1 << 14
    assert big.compose(Layout([(1 << 10, 1 << 20), (1 << 10, 1)])).to_strides((1024, 1024)) == ((1 << 20, 1), 0)
    half = Layout([(1 << 20, 1 << 20), (2, 1)]).slice([(1, (1 << 21) - 1)])  # a wrap at every second element
    assert half == Layout([((1 << 20) - 1, 1 << 20), (2, (1 << 20) - 1)], (), {"m": 1})


def test_index_expressions_of_a_reshape():
    h, d = Axis("h", 8), Axis("d", 16)
    exprs = Layout.parse("(8,4,4):(4@lane,1@lane,1@reg)").to_index((h, d), (8, 16))
    assert exprs["reg"] == index(d) % 4 and exprs["lane"] == index(h) * 4 + index(d) // 4
    assert Layout.from_index({"m": (index(h) * 16 + index(d)) // 4}, (h, d)) == Layout([(32, 1), (4, 0)])
    i, j = Axis("i", 4), Axis("j", 3)
    assert Layout.from_index({"m": (index(i) * 3 + index(j)) // 2 + 5}, (i, j)) == Layout(
        [(6, 1), (2, 0)], (), {"m": 5}
    )  # divides across both
    with pytest.raises(LayoutError, match="is no list of iters"):
        Layout.from_index({"m": (index(i) * 3 + index(j)) // 5}, (i, j))


# ---- inverses --------------------------------------------------------------------------------------------------------------------
def test_which_element_a_register_of_a_lane_holds():
    fragment = Layout.parse("(2,8,4,2):(2@reg,4@lane,1@lane,1@reg)")
    held = inverse(fragment, ("lane", "reg"))
    assert str(held) == "(32,2,2):(2,64,1)"
    assert held((5, 3), (32, 4)) == ({"m": fragment_element(fragment, lane=5, reg=3)},)


def fragment_element(layout, **place):
    return next(x for x in range(layout.size) if layout(x)[0] == place)


def test_the_inverses_of_cutes_documentation():
    """Right: as far as addresses follow each other.  Left: of every address, what is left out included."""
    strided = cute.from_cute((4, 2), (1, 8))
    assert cute.to_cute(cute.right_inverse(strided)) == ((4,), (1,))
    left = cute.left_inverse(strided)
    assert [left(strided(x)[0]["m"])[0]["m"] for x in range(8)] == [*range(8)]
    assert cute.from_cute((4, (2, 3))) == cute.from_cute((4, (2, 3)), (1, (4, 8))), "compact without strides"


def test_an_axis_that_is_not_mentioned_has_the_value_0():
    assert Layout([(4, 1)]).slice([(0, 1)])(0)[0]["m"] == 0


# ---- what is refused, and pictures -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("call", "said"), [
    (lambda: Iter(0, 1), "the extent of an iter is 0"), (lambda: Iter(2, 1.5), "the stride of an iter is 1.5"), (lambda: Layout([(2, 1, "a b")]), "'a b'"),
    (lambda: Layout(3), "the iters of a layout"), (lambda: Layout([(6, 1, "reg")]).group((2, 2)), "has 4 elements"),
    (lambda: Layout([(2, 8, "lane"), (9, 1)]).group((3, 6)), "iter 2:8@lane"), (lambda: Layout([(4, 1)])(4), "index 4"),
    (lambda: Layout([(4, 1)]).slice([(2, 2)]), "(2, 2)"), (lambda: Layout([(4, 1)]).slice([slice(0, 4, 2)]), "steps of 1"),
    (lambda: Layout([(4, 1)]).compose(Layout([(4, 2)])), "beyond the 4 elements"), (lambda: Layout([(2, 1), (2, 3)]).complement(24), "2:3"),
    (lambda: Layout([(4, 1)], [(2, 4, "gpu")]).to_strides((4,)), "2:4@gpu"), (lambda: Layout.parse("4:1"), "no layout"),
    (lambda: Layout([(4, 1 << 62)]).over(), "beyond 64 bits"),
    (lambda: Layout([(2, 1)], offset=3), "offset of a layout is 3"), (lambda: cute.from_cute((4, 2), (1,)), "not nested as the shape"),
    (lambda: cute.from_cute((4, (2, 3)), (1, 4)), "not nested as the shape"), (lambda: cute.from_cute("ab"), "a mode of the shape is 'ab'"),
    (lambda: cute.logical_divide(cute.from_cute((6, 4), (1, 16)), cute.from_cute(4, 1)), "dimension 0 of (6, 4)"), (lambda: Layout([(2, 1)]).tile(3), "3 is no layout"),
    (lambda: Layout([(2, 1)]).equivalent(None), "None is no layout"), (lambda: Iter(2, 1).intersection(Iter(2, 1, "lane")), "not on the axis"),
    (lambda: inverse(Layout([(2, 1), (2, 1, "lane")]), "m"), "not those of the layout"), (lambda: Swizzled(Layout([(4, 1)]), Swizzle(1, 0, 1)).tile(Layout([(3, 1)])), "a power of two"), (lambda: Layout([], [(99, 1000), (99, 1001)]).canonicalize(), "overlap"),
    (lambda: Swizzle(3, 3, 2), "bits that it reads"), (lambda: inverse(Layout([(4, 2)])), "iter 4:2"), (lambda: Sharding((5,), {"tp": 2}, (Shard(0),)).layout, "2:1@tp"),
    (lambda: Swizzled(Layout([(60, 1)]), Swizzle(1, 0, 2)).tiled(Layout([(2, 1)])), "iter 2:60"), (lambda: pictures.grid(Layout([(8, 1)]), (2, 2, 2), "m"), "one or two"),
])  # fmt: skip
def test_refusals_name_the_iter_and_a_cure(call, said):
    with pytest.raises(LayoutError) as info:
        call()
    assert said in str(info.value) and info.value.cure


def test_pictures_show_the_holders():
    fragment = Layout.parse("(2,8,4,2):(2@reg,4@lane,1@lane,1@reg)")  # the accumulator of mma.m16n8
    assert pictures.grid(fragment, (16, 8), ("lane", "reg")).splitlines()[9].split()[:3] == ["0.2", "0.3", "1.2"]
    assert pictures.holders(fragment, (16, 8), "lane")[5] == [(1, 2), (1, 3), (9, 2), (9, 3)]
    drawn = pictures.svg(fragment, (16, 8), ("lane", "reg"), "a < b")
    assert drawn.count("<rect") == 129 and "a &lt; b" in drawn and ">31.3<" in drawn
    assert pictures.label(Layout([], [(2, 4, "warp")])(0), ["warp"]) == "0|4"


def test_it_is_public_and_stands_alone():
    import subprocess
    import sys

    assert eqfuse.Layout is Layout
    code = "import sys, eqfuse; eqfuse.Layout; print([m for m in ('numpy', 'torch', 'egglog') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
