"""Axes in pieces: the same values, whatever is cut where."""

import runpy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

import eqfuse
from eqfuse.egraph import saturate
from eqfuse.frontends import trace
from eqfuse.frontends.results import arranged
from eqfuse.ir import pieces
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Map, Reduce

D, N, M = 12, 7, 9


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v


def joined(q, k, v):
    return torch.softmax(torch.cat([q, k[:1] * 2, k[3:]]), -1) @ v.T


def turned(q, k, v):
    return q * torch.cat([-q[:, D // 2 :], q[:, : D // 2]], -1) + k.mean(0)


def moments(q, k, v):
    return functional.layer_norm(q, (D,)) * k.amax(0) + torch.var(v, 0)


def padded(q, k, v):
    return functional.pad(q, (1, 2)).cumsum(0).amin(-1), functional.pad(k @ v.T, (0, 0, 2, 0)).sum(0)


def positions(q, k, v):
    seen = torch.arange(M)[None, :] <= torch.arange(N)[:, None] + 1
    return torch.softmax((q @ k.T).masked_fill(~seen, -torch.inf), -1) @ v


def reshaped(q, k, v):
    return (q.view(N, 3, 4).sum(-1) @ k[:3, :3]).exp()


def counted(q, k, v):
    return (q > 0).sum(-1), (k @ v.T).argmax(-1), q.prod(-1)


def twice(q, k, v):
    y = q @ k.T
    return y, (y @ v).relu()


FUNCTIONS = [attention, joined, turned, moments, padded, positions, reshaped, counted, twice]


def arguments(seed=0):
    r = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, D, generator=r, dtype=torch.float64) for n in (N, M, M))


def agrees(program, form, args):
    given = {i.name: x.numpy() for i, x in zip(program.inputs, args, strict=True)}
    want, got = evaluate(program, given), evaluate(form, given)
    form.check()
    whole = arranged(form, [torch.as_tensor(got[o.name]) for o in form.outputs])
    for o, x in zip(program.outputs, whole, strict=True):
        np.testing.assert_allclose(x.numpy(), want[o.name], rtol=1e-12, atol=1e-12)


@st.composite
def cut(draw, size):
    """Where the pieces of an axis begin, and where the last one ends: at the end of the axis or beyond."""
    inner = draw(st.sets(st.integers(1, size - 1), max_size=2)) if size > 1 else set()
    return (0, *sorted(inner), size + draw(st.sampled_from([0, 0, 1, 4])))


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pieces_have_the_same_values(f, data):
    program = trace(f, arguments()).program
    axes = data.draw(st.lists(st.sampled_from(sorted(program.every_axis)), min_size=1, max_size=3, unique=True))
    form = pieces.in_pieces(program, {a: data.draw(cut(a.size)) for a in axes})
    if form is not None:
        agrees(program, form, arguments(1))


@pytest.mark.parametrize("f", [attention, moments, positions, twice], ids=lambda f: f.__name__)
def test_most_axes_can_be_cut(f):
    program = trace(f, arguments()).program
    axes = [a for a in program.every_axis if a.size > 2]
    assert sum(pieces.in_pieces(program, {a: (0, 2, a.size)}) is not None for a in axes) >= len(axes) - 1


def test_choices_are_made_by_pieces():
    """What is put side by side is apart again, with nothing chosen."""
    program = trace(lambda a, b, w: torch.relu(torch.cat([a, b], -1) * w), (torch.randn(4, 3), torch.randn(4, 5), torch.randn(8))).program
    whole = trace(
        lambda a, b, w: torch.relu(torch.cat([a, b]) @ w @ w.T), (torch.randn(3, 8), torch.randn(5, 8), torch.randn(8, 8))
    ).program
    assert any(isinstance(t, Map) and t.op == "where" for t in whole.terms()), "reductions of reductions: one axis"
    form = pieces.joints(whole)
    assert form is not None and not any(isinstance(t, Map) and t.op == "where" for t in form.terms())
    assert len(form.outputs) == 2 and not pieces.joints(program)


@pytest.mark.parametrize(
    ("n", "cuts"),
    [
        (72, (0, 64, 72)),
        (96, (0, 64, 96)),
        (192, (0, 128, 192)),
        (288, (0, 256, 288)),
        (112, (0, 112)),
        (128, (0, 128)),
        (120, (0, 120)),
    ],
)
def test_pieces_of_powers(n, cuts):
    assert pieces._of_powers(n) == cuts


def test_rows_of_odd_length_are_lengthened_where_they_are_multiplied(monkeypatch):
    monkeypatch.setattr(pieces, "LARGEST", 16)
    args = (torch.randn(5, 21).half(), torch.randn(21, 33).half())
    program = trace(torch.matmul, args).program
    form = pieces.aligned(program)
    sums = [t.axis.size for t in form.terms() if isinstance(t, Reduce)]
    assert sums == [24], "no mask is needed: tensors are zero beyond their end"
    assert not any(isinstance(t.args[0], Map) and t.args[0].op == "where" for t in form.terms() if isinstance(t, Reduce))
    agrees(program, form, [a.double() for a in args])
    assert pieces.aligned(trace(lambda a, b: a @ b.T, (torch.randn(5, 32).half(), torch.randn(3, 32).half())).program) is None
    assert pieces.aligned(trace(lambda a: a * 2, args[:1]).program) is None, "a copy of what is read once is no gain"


def test_a_sum_beyond_the_end_is_masked_unless_both_factors_are_zero():
    """exp(0) is 1, and zero times what is infinite is none."""
    program = trace(lambda x, y: (x.exp() * y[:, None]).sum(0), (torch.randn(5, 3), torch.randn(5))).program
    rows = next(a for a in program.axes if a.size == 5)
    form = pieces.in_pieces(program, {rows: (0, 8)})
    agrees(program, form, [torch.randn(5, 3).double(), torch.full((5,), 2.0).double()])
    (body,) = (t.args[0] for t in form.terms() if isinstance(t, Reduce))
    assert body.op == "where"


def smooth(x, w):
    return torch.softmax(x @ w, -1)


def test_a_row_that_one_tile_holds_is_taken_in_pieces():
    """288 columns are 256 and 32, where a tile of all would have 512; the other plan has two kernels."""
    args = (torch.empty(65536, 256, dtype=torch.float16, device="meta"), torch.empty(256, 288, dtype=torch.float16, device="meta"))
    plan = eqfuse.optimize(smooth, args, target="h200").plan
    assert plan.rewritten == ("pieces_of_powers",)
    assert len(plan.kernels) == 1
    assert plan.estimated_us < 0.7 * plan.written_us


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_a_plan_in_pieces_runs(target, tmp_path):
    """Its result is stored in parts, also by the saved module."""
    args = torch.randn(37, 64), torch.randn(64, 288)
    c = eqfuse.optimize(smooth, args, target=target)
    assert c.plan.rewritten == ("pieces_of_powers",)
    for got in (c.simulate(*args), c.interpret(*args), c(*args)):
        torch.testing.assert_close(got.float(), smooth(*args), rtol=1e-4, atol=1e-5)
    if target == "cpu":
        c.save(tmp_path / "smooth_module.py")
        scope = runpy.run_path(str(tmp_path / "smooth_module.py"))
        (found,) = scope["run"](*args)
        torch.testing.assert_close(found, smooth(*args), rtol=1e-4, atol=1e-5)


def test_the_same_pieces_serve_no_other_length():
    """Where an axis is cut follows from its length: 288 is 256 + 32, 320 is 256 + 64, 257 has a column alone, and 305 has three pieces."""

    c = eqfuse.optimize(smooth, (torch.randn(8, 32), torch.randn(32, 288)), target="cpu")
    assert c.plan.rewritten == ("pieces_of_powers",)
    for n in (320, 257, 305, 256):
        other = torch.randn(8, 32), torch.randn(32, n)
        torch.testing.assert_close(c(*other), smooth(*other), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("where", [slice(0, 32), slice(32, 40), slice(0, 3), slice(0, 40)], ids=["first", "last", "some", "all"])
def test_a_piece_may_be_masked_by_a_large_number(where):
    """In one loop over a piece, exp(x - m) * exp(m - M) is no sum whose parts are scaled as m moves: both scales at once are 0 and infinite."""

    def masked(x, mask):
        return torch.softmax(x.masked_fill(mask, -1e9), -1)

    x, mask = torch.randn(6, 40, generator=torch.Generator().manual_seed(0)), torch.zeros(6, 40, dtype=torch.bool)
    mask[:, where] = True
    c = eqfuse.optimize(masked, (x, mask), target="h200")
    torch.testing.assert_close(c.interpret(x, mask), masked(x, mask))
    graph = saturate(pieces.powers(trace(masked, (x, mask)).program))  # which tests audit
    rolled = [graph.classes[n.args[0]] for ns in graph.classes for n in ns if n.op == "roll" and n.attrs[0] == "sum"]
    assert rolled
    assert not [m for ns in rolled for m in ns if m.op == "map" and m.attrs[0] == "mul"]
