"""Rows that are multiplied by matrices which data choose: experts, adapters, relations of a graph."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eqfuse
from eqfuse.frontends import trace
from eqfuse.ir import grouping
from eqfuse.ir.program import Program
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Gather

T, D, F, E, K = 10, 4, 6, 3, 2


def einsum(x, w, v, e):
    return torch.einsum("td,tdf->tf", x, w[e[:, 0]])


def batched(x, w, v, e):
    return torch.bmm(x[:, None], w.index_select(0, e[:, 0] % E)).squeeze(1)


def transposed(x, w, v, e):
    return torch.einsum("td,tfd->tf", x, w.transpose(1, 2)[e[:, 1]])


def several(x, w, v, e):
    """Each row has matrices of its own."""
    return torch.einsum("td,tkdf->tkf", x, w[e])


def converted(x, w, v, e):
    return torch.einsum("td,tkdf->tkf", x.double(), w.float()[e].double())


def experts(x, w, v, e):
    h = torch.nn.functional.silu(torch.einsum("td,tkdf->tkf", x, w[e])) * torch.einsum("td,tkdf->tkf", x, (w * 2)[e])
    return (torch.einsum("tkf,tkfd->tkd", h + x[:, None, :1], v[e]) * x[:, :K, None]).sum(1)


def residual(x, w, v, e):
    """The second order is another one."""
    h = x + torch.einsum("tf,tfd->td", torch.relu(torch.einsum("td,tdf->tf", x, w[e[:, 0]])), v[e[:, 1]])
    return h / h.norm(dim=-1, keepdim=True).clamp(min=1e-3)


CHOICES = [einsum, batched, transposed, several, converted, experts, residual]
FORMS = {"sums": grouping.by_matrix, "sorted": grouping.sorted_by_matrix}


def drawn(e):
    g = torch.Generator().manual_seed(1)
    x, w, v = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((T, D), (E, D, F), (E, F, D)))
    return x, w, v, torch.tensor(e).view(T, K)


def computed(p: Program, args):
    values = dict(zip("xwve", args, strict=True))
    (found,) = evaluate(p, {i.name: values[i.name].numpy() for i in p.inputs}, casts=True).values()
    return torch.from_numpy(found)


@cache
def form(f, name) -> Program:
    found = FORMS[name](trace(f, drawn([0, 1] * T), {}, name=f.__name__).program)
    assert found is not None
    found.check()
    return found


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("f", CHOICES)
@given(st.lists(st.integers(-E, E - 1), min_size=T * K, max_size=T * K))
@example([E - 1] * (T * K))
@example([0, 1] * T)
@settings(max_examples=12, deadline=None)
def test_forms_are_equal(f, name, e):
    args = drawn(e)
    torch.testing.assert_close(computed(form(f, name), args), f(*args), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FORMS)
def test_rows_of_no_matrix_are_zero(name):
    """Torch refuses such numbers; an element of no matrix is 0, as it is in the program that was written."""
    args = drawn([E, 0, -E - 1, 1, 2**40, 2] + [0, 1] * (T - 3))
    p = trace(several, drawn([0, 1] * T), {}, name="several").program
    torch.testing.assert_close(computed(form(several, name), args), computed(p, args), rtol=1e-9, atol=1e-9)


def test_rows_stay_sorted_between_products():
    """Both factors of the first layer are sorted in one way, and what the second layer reads is not put back before."""
    p = form(experts, "sorted")
    places = {t.args[1] for t in p.terms() if isinstance(t, Gather)}
    assert len(places) == 2  # where each row goes, and which row stands at each place
    assert len([t for t in p.terms() if isinstance(t, Gather) and t.axis.name.endswith("_sorted")]) == 1


def test_what_has_no_matrix_of_its_own_has_no_such_form():
    g = torch.Generator().manual_seed(1)
    args = torch.randn(T, D, generator=g), torch.randn(E, D, generator=g), torch.arange(T) % E

    def vectors(x, w, e):
        return (x * w[e]).sum(-1)  # a row for each row

    def embedded(x, w, e):
        return w[e] @ x.t()  # rows that are read once

    for f in (vectors, embedded):
        p = trace(f, args, {}, name=f.__name__).program
        assert all(make(p) is None for make in FORMS.values())


def half(*shape):
    return torch.zeros(*shape, dtype=torch.float16)


def chosen(e, rows, width=1024):
    args = half(rows, width), half(8, width, width), half(8, width, width), e.view(rows, -1)
    return eqfuse.optimize(einsum, args, target="h200", time_budget=4.0).plan


def test_the_price_decides():
    """Few rows read the matrices that they have; a tile of some meets them all; many are sorted first."""
    e = torch.randint(0, 8, (4096,), generator=torch.Generator().manual_seed(0))
    assert not chosen(e[:2], 2).rewritten
    assert chosen(e[:64].sort().values, 64).rewritten == ("sum_over_matrices",)  # 11.8 us; sorted 13.9
    p = chosen(e, 4096)
    assert p.rewritten == ("sorted_rows",)
    needed = 2 * 4096 * 1024 * 1024
    assert needed <= sum(k.cost.flops for k in p.kernels) <= 1.3 * needed
    assert p.estimated_us < 0.1 * p.written_us


def test_kernels_are_right_for_other_choices_and_sizes():
    g = torch.Generator().manual_seed(0)
    x, w, v = torch.randn(512, 64, generator=g) / 8, torch.randn(4, 64, 96, generator=g) / 8, torch.randn(4, 96, 64, generator=g) / 10

    def mixture(x, w, v, gate, e):
        h = torch.relu(torch.einsum("td,tkdf->tkf", x, w[e]))
        return (torch.einsum("tkf,tkfd->tkd", h, v[e]) * gate[..., None]).sum(1)

    def choices(rows):
        return torch.rand(rows, 2, generator=g), torch.randint(0, 4, (rows, 2), generator=g)

    gate, e = choices(512)
    c = eqfuse.optimize(mixture, (x, w, v, gate, e), target="cpu", time_budget=4.0)
    assert c.plan.rewritten in (("sorted_rows",), ("sum_over_matrices",))
    for other in (e, e * 0 + 3, e - 4, e.sort(0).values):
        torch.testing.assert_close(c(x, w, v, gate, other), mixture(x, w, v, gate, other), rtol=1e-4, atol=1e-5)
    gate, e = choices(37)
    torch.testing.assert_close(c(x[:37], w, v, gate, e), mixture(x[:37], w, v, gate, e), rtol=1e-4, atol=1e-5)
