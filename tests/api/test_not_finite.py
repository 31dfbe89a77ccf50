"""NaN and infinity where eager has them, and nowhere else: maxima, bounds, and what ``where`` does not choose."""

import math

import pytest
import torch

import eqfuse

ROWS, KEYS, MANY, LARGE = 8, 70, 65_536, 20_000  # so many rows that no plan splits their keys


def draw():
    """Data, a mask, values, and scores that are infinite or NaN where the mask is false; row 1 is masked as a whole, row 2 not at all."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(ROWS, KEYS, generator=g)
    mask = torch.rand(ROWS, KEYS, generator=g) < 0.6
    mask[1], mask[2], mask[3, :40], mask[4, 20:] = False, True, False, False
    v = torch.randn(KEYS, 16, generator=g)
    return x, mask, v, x.masked_fill(~mask, math.nan), x.masked_fill(~mask, math.inf)


def plans(fn, args):
    """A plan for these sizes, and the plan of long rows, which loops over them, at these sizes."""
    yield eqfuse.optimize(fn, args, target="h200")
    large = [torch.empty([{ROWS: MANY, KEYS: LARGE}.get(n, n) for n in a.shape], dtype=a.dtype, device="meta") for a in args]
    yield eqfuse.optimize(fn, large, target="h200").at(*args)


def kinds(t):
    return t.nan_to_num(2.0, posinf=3.0, neginf=4.0).where(~t.isfinite(), 0.0)


def agrees(fn, args):
    expected = fn(*args)
    exact = fn(*[a.double() if a.is_floating_point() else a for a in args])
    found = []
    for c in plans(fn, args):
        for run in (c.simulate, c.interpret):
            got = run(*args)
            assert torch.equal(kinds(got.float()), kinds(expected)), f"{run.__name__}: {got} against {expected}\n{c.plan}"
            torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5, equal_nan=True)
        found.append(c)
    return found


def numbers():
    x = torch.randn(ROWS, KEYS, generator=torch.Generator().manual_seed(1))
    x[1, 5], x[2, 60], x[4, 0], x[5, 7] = math.nan, math.nan, -math.inf, math.inf
    x[3] = math.nan
    return x


NAN_PASSES = {
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "amax of columns": lambda x: x.amax(0),
    "relu": torch.relu,
    "clamp": lambda x: x.clamp(-1.0, 1.0),
    "maximum": lambda x: torch.maximum(x, 0.5 * x),
    "minimum": lambda x: torch.minimum(0.5 * x, x),
    "relative to the largest": lambda x: torch.exp(x - x.amax(-1, keepdim=True)),
    "softmax": lambda x: torch.softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "span": lambda x: x.amax(-1) - x.amin(-1),
}


@pytest.mark.parametrize("name", NAN_PASSES)
def test_nan_passes_through_maxima_as_in_torch(name):
    agrees(NAN_PASSES[name], (numbers(),))


def test_maxima_cost_nothing_more_on_nvidia():
    """The same number of instructions and registers as with the maximum that ignores NaN."""
    from eqfuse.runtime.aot import compile_kernel
    from eqfuse.runtime.modules import load_module

    q = torch.empty(1, 8, 1024, 64, device="meta", dtype=torch.float16)
    c = eqfuse.optimize(lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v, (q, q, q), target="h200")
    (kernel,) = c.plan.kernels
    reports = []
    for source in (c.source, c.source.replace(", propagate_nan=tl.PropagateNan.ALL", "")):
        reports.append(
            compile_kernel(
                load_module(source, "aot"), kernel.kernel.name, kernel.tiles.parameters, "h200", kernel.kernel.warps, kernel.kernel.stages,
                instructions=True,
            )
        )  # fmt: skip
    passing, ignoring = reports
    assert "max.NaN.f32" in passing.assembly
    assert "max.NaN.f32" not in ignoring.assembly
    assert passing.instructions["total"] == ignoring.instructions["total"]
    assert passing.registers == ignoring.registers


def masked(chosen):
    return lambda x, mask, v, nan, inf: torch.where(mask, chosen(x, v, nan, inf), 0.0)


def normed(x, mask, v, nan, inf):
    s = torch.where(mask, x.abs(), 0.0).sum(-1, keepdim=True)
    return torch.where(mask, x / s, 0.0) @ v  # a row without a key divides by 0, where nobody looks


def softmax_by_hand(x, mask, v, nan, inf):
    s = torch.where(mask, nan, -math.inf)
    e = torch.where(mask, torch.exp(s - s.amax(-1, keepdim=True)), 0.0)
    return torch.where(mask, e / e.sum(-1, keepdim=True), 0.0) @ v


def infinite_reference(x, mask, v, nan, inf):
    """The maximum is over everything, and infinite; every element that is chosen is exp(-inf) = 0."""
    return torch.where(mask, torch.exp(inf - inf.amax(-1, keepdim=True)), 0.0) @ v


def infinite_reference_of_two(x, mask, v, nan, inf):
    e = torch.where(mask, torch.exp(inf - inf.amax(-1, keepdim=True)), 0.0)
    return (e @ v) / (e.sum(-1, keepdim=True) + 1.0)


def variance(x, mask, v, nan, inf):
    n = mask.float().sum(-1, keepdim=True)
    mean = torch.where(mask, nan, 0.0).sum(-1, keepdim=True) / n
    return torch.where(mask, (nan - mean) ** 2, 0.0).sum(-1)


NOT_CHOSEN = {
    "nan": lambda x, mask, v, nan, inf: torch.where(mask, nan, 0.0) @ v,
    "inf": lambda x, mask, v, nan, inf: torch.where(mask, inf, 0.0).sum(-1),
    "nan constant": lambda x, mask, v, nan, inf: torch.where(mask, torch.where(mask, x, math.nan), 0.0) @ v,
    "nan before a maximum": lambda x, mask, v, nan, inf: torch.where(mask, nan, -1e30).amax(-1),
    "nan before softmax": lambda x, mask, v, nan, inf: torch.softmax(torch.where(mask, nan, -math.inf), -1) @ v,
    "exp of nan": lambda x, mask, v, nan, inf: torch.where(mask, torch.exp(nan - x.amax(-1, keepdim=True)), 0.0) @ v,
    "exp of inf": lambda x, mask, v, nan, inf: torch.where(mask, torch.exp(inf), 0.0).sum(-1),
    "division by an empty sum": normed,
    "softmax by hand": softmax_by_hand,
    "nan reference": lambda x, mask, v, nan, inf: torch.where(mask, torch.exp(nan - nan.amax(-1, keepdim=True)), 0.0) @ v,
    "infinite reference": infinite_reference,
    "infinite reference of two sums": infinite_reference_of_two,
    "masked variance": variance,
    "infinite sum": lambda x, mask, v, nan, inf: torch.where(mask, inf / inf.abs().sum(-1, keepdim=True), 0.0) @ v,
    "infinite norm": lambda x, mask, v, nan, inf: torch.where(mask, inf / inf.abs().amax(-1, keepdim=True), 0.0).sum(-1),
}


@pytest.mark.parametrize("name", NOT_CHOSEN)
def test_what_where_does_not_choose_stays_there(name):
    agrees(NOT_CHOSEN[name], draw())


def test_the_loop_with_an_infinite_reference_is_still_one_kernel():
    """The factor between references is guarded; nothing is computed twice for it."""
    _, large = plans(infinite_reference, draw())
    (kernel,) = large.plan.kernels
    assert "factor_of_choice" in kernel.rules
    assert set(kernel.passes.values()) == {1}


@pytest.mark.parametrize("name", ["nan reference", "infinite reference"])
def test_parts_of_a_row_from_which_nothing_is_chosen(name, monkeypatch):
    """The same where the row is split over the grid and its parts are merged."""
    monkeypatch.setitem(globals(), "KEYS", 16_384)
    args = draw()
    c = eqfuse.optimize(NOT_CHOSEN[name], args, target="h200")
    assert "merge_selection_parts" in c.plan.kernels[-1].rules
    for run in (c.simulate, c.interpret):
        assert torch.equal(kinds(run(*args).float()), kinds(NOT_CHOSEN[name](*args)))


def test_a_state_is_kept_by_choice_only_where_that_can_matter():
    """A choice below the maximum, not beside it, needs no guard."""
    _, large = plans(lambda x, mask, v, nan, inf: torch.softmax(torch.where(mask, x, -math.inf), -1) @ v, draw())
    _, beside = plans(NOT_CHOSEN["nan reference"], draw())
    assert "none = " in beside.source
    assert "none = " not in large.source


def attend(**options):
    """Attention with grouped heads where asked for, of queries of which rows 0 and 5 have scores of -inf only."""

    def fn(q, k, v, mask, bias):
        chosen = {n: {"mask": mask, "bias": bias}.get(o, o) for n, o in options.items()}
        return torch.nn.functional.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], **chosen)[0, 0]

    return fn


ATTENTION = {
    "plain": attend(),
    "scale": attend(scale=0.3),
    "causal": attend(is_causal=True),
    "grouped": attend(enable_gqa=True),
    "mask of truth values": attend(attn_mask="mask"),
    "mask of numbers": attend(attn_mask="bias"),
    "mask, scale and groups": attend(attn_mask="bias", scale=0.3, enable_gqa=True),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_rows_without_a_finite_score_attend_to_nothing(name):
    """As in torch's safe softmax, whether a mask or the scores themselves are -inf, in one pass over the keys."""
    _, mask, v, *_ = draw()
    q, k = torch.randn(ROWS, 16), torch.rand(KEYS, 16) + 0.1
    q[0], q[5, 3] = -math.inf, -math.inf
    args = (q, k, v, mask, torch.zeros(ROWS, KEYS).masked_fill(~mask, -math.inf))
    assert ATTENTION[name](*args)[[0, 5]].count_nonzero() == 0
    for c in agrees(ATTENTION[name], args):
        assert {n for kernel in c.plan.kernels for n in kernel.passes.values()} <= {1}
