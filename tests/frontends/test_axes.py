"""Axes are named as a person would: one name for one thing, Views only where a tensor is read twice or in parts."""

import pytest
import torch

from eqfuse.frontends import trace
from eqfuse.frontends.alignment import Alignment, reshape_groups
from eqfuse.ir.terms import Cast, Input, Reduce, View
from eqfuse.testing.programs import PROGRAMS

from .test_corpus import agree


def program_of(name, size="bench"):
    case = PROGRAMS[name]
    return trace(case.fn, case.args(size, device="meta")).program


def views(program):
    return [t for t in program.terms() if isinstance(t, View)]


def reductions(program):
    return [(t.monoid, t.axis.name) for t in program.terms() if isinstance(t, Reduce)]


WITHOUT_VIEWS = [n for n in PROGRAMS if n != "attention_grouped"]


@pytest.mark.parametrize("name", WITHOUT_VIEWS)
def test_no_program_of_the_corpus_needs_a_view(name):
    assert not views(program_of(name))


def test_grouped_heads_read_a_quarter_of_the_head():
    program = program_of("attention_grouped")
    assert sorted(str(v.index) for v in views(program)) == ["(q_batch) // 4"] * 2
    assert all(isinstance(v.args[0], Input) for v in views(program))


def test_attention_reduces_its_keys_under_one_name():
    program = program_of("attention")
    found = reductions(program)
    keys = program.inputs[1].layout[2]
    head = program.inputs[0].layout[3]
    assert sorted(found) == sorted([("sum", head.name), ("max", keys.name), ("sum", keys.name), ("sum", keys.name)])
    assert program.inputs[2].layout[2] == keys
    assert program.inputs[0].layout[:3] == program.outputs[0].layout[:3] == (None, *program.outputs[0].layout[1:3])


def test_two_outputs_share_their_axes_and_terms():
    program = program_of("attention_lse")
    out, lse = program.outputs
    assert out.layout[:3] == lse.layout
    assert len([r for r in reductions(program) if r[0] == "max"]) == 1


def test_names_are_readable_and_stable():
    first, second = (str(program_of("attention_causal")) for _ in range(2))
    assert first == second
    assert [a.name for a in program_of("attention_causal").outputs[0].layout if a] == ["batch", "q_rows", "v_cols"]


def test_rows_and_columns_of_one_matrix_have_two_names():
    program = trace(lambda x: x @ x.T, (torch.empty(5, 7),)).program
    (view,) = views(program)
    i, j = program.outputs[0].layout
    assert i != j
    assert view.axis == i
    assert view.index.as_axis() == j


def test_a_value_with_reductions_is_renamed_and_not_computed_twice():
    def f(x):
        p = torch.softmax(x, -1)
        return p @ p.T

    program = trace(f, (torch.empty(5, 7),)).program
    assert len([r for r in reductions(program) if r[0] == "max"]) == 1
    (view,) = views(program)
    assert not isinstance(view.args[0], Input)


def test_merging_and_splitting_dimensions_cancels():
    program = trace(lambda x: x.reshape(6, 20).softmax(-1).reshape(2, 3, 4, 5) + x, (torch.empty(2, 3, 4, 5),)).program
    assert all(str(v.index).count("//") == 0 for v in views(program))
    plain = trace(lambda x: x.reshape(6, 4, 5).exp().reshape(2, 3, 4, 5) + x, (torch.empty(2, 3, 4, 5),)).program
    assert not views(plain)


@pytest.mark.parametrize(
    ("old", "new", "groups"),
    [
        ((2, 4, 8), (8, 8), [([0, 1], [0]), ([2], [1])]),
        ((8, 8), (2, 4, 8), [([0], [0, 1]), ([1], [2])]),
        ((6, 4), (8, 3), [([0, 1], [0, 1])]),
        ((1, 3, 1), (3,), [([1], [0])]),
        ((), (1,), []),
    ],
)
def test_reshape_groups(old, new, groups):
    assert reshape_groups(old, new) == groups


def test_alignment_refuses_two_dimensions_of_one_tensor():
    a = Alignment()
    x, y = a.fresh(4), a.fresh(4)
    a.tensor((x, y))
    assert not a.unify(x, y)
    z = a.fresh(4)
    assert a.unify(x, z)
    assert not a.unify(z, y)
    assert not a.unify(x, a.fresh(5))


def test_alignment_gives_merged_dimensions_back():
    a = Alignment()
    b, h, q = a.fresh(2), a.fresh(3), a.fresh(5)
    folded = a.reshape((b, h, q), (2, 3, 5), (6, 5))
    other = a.fresh(6)
    assert a.unify(folded[0], other)
    assert a.split(other, (2, 3)) == [b, h]
    assert a.split(other, (3, 2)) != [b, h]


class SelfAttention(torch.nn.Module):
    """Projections, heads, attention and the output projection, as in a model."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (p(x).view(b, s, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).reshape(b, s, -1))


def test_the_heads_of_a_module_are_index_arithmetic_on_its_weights():
    module = SelfAttention().double()
    x = torch.randn(2, 5, 24, dtype=torch.float64)
    traced = agree(module, (x,))
    for view in views(traced.program):
        assert isinstance(view.args[0], Input)
        assert "//" not in str(view.index), "heads and features of a head are separate axes; only weights are read at h*8 + d"
        assert "%" not in str(view.index)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_casts_are_the_users_not_a_decompositions(dtype):
    def casts(f):
        return [t.to.name for t in trace(f, (torch.empty(5, 7, dtype=dtype),)).program.terms() if isinstance(t, Cast)]

    name = str(dtype).removeprefix("torch.")
    for f in (torch.nn.functional.silu, lambda x: torch.logsumexp(x, -1), lambda x: torch.nn.functional.rms_norm(x, (7,))):
        assert casts(f) == []
    assert casts(lambda x: (x.float() * 2).to(dtype)) == ["float32", name]
    assert casts(lambda x: torch.softmax(x, -1, dtype=torch.float32)) == ["float32"]
    assert casts(lambda x: x.to(dtype) + 1) == []
