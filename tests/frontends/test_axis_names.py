"""What axes are called: sizes by the names of the source, others by their places; and that no plan depends on it."""

import re

import pytest
import torch

import eqfuse
from eqfuse.codegen.module import emit_kernels
from eqfuse.egraph.saturate import saturate
from eqfuse.frontends import trace
from eqfuse.frontends.axis_names import size_names
from eqfuse.frontends.reader import Reader
from eqfuse.ir.index import Axis
from eqfuse.runtime.generated import module_spec


def meta(*shape):
    return torch.empty(*shape, device="meta")


def names(f, *shapes):
    """What the axes of arguments are called."""
    inputs = trace(f, tuple(meta(*s) for s in shapes)).program.inputs
    return [" ".join("1" if a is None else a.name for a in i.layout) for i in inputs]


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def attention_with_names(q, k, v):
    b, h, n, d = q.shape
    m = k.size(2)
    return (torch.softmax(q @ k.transpose(-1, -2) / d, -1) @ v).reshape(b, h, n, -1) * m


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(12, 24)

    def forward(self, x):
        batch, tokens, _ = x.size()
        features = x.shape[-1]
        return self.up(x).reshape(batch, tokens, 2, features)


def assigned_before(x, y):
    x = x.T
    n, m = x.shape
    _, rows = y.shape
    return x.T * n + y * m + rows


def one_name_for_two(x, y):
    n, _ = x.shape
    n, k = y.shape
    return x @ x.T + (y @ y.T).sum() * k + n


Q = (2, 3, 5, 7), (2, 3, 11, 7), (2, 3, 11, 13)


@pytest.mark.parametrize(
    ("f", "shapes", "expected"),
    [
        (lambda x: torch.softmax(x, -1), [(3, 4)], ["rows cols"]),
        (lambda x: x * 2, [(3,)], ["elements"]),
        (lambda x, w: x * w, [(5, 3, 4), (4,)], ["batch rows cols", "cols"]),
        (lambda a, b: a @ b, [(3, 4), (4, 5)], ["rows a_cols", "a_cols b_cols"]),
        (attention, Q, ["batch0 batch1 q_rows q_cols", "batch0 batch1 k_rows q_cols", "batch0 batch1 k_rows v_cols"]),
        (attention, [(1, *s[1:]) for s in Q], ["1 batch q_rows q_cols", "1 batch k_rows q_cols", "1 batch k_rows v_cols"]),
        (attention_with_names, Q, ["b h n d", "b h m d", "b h m cols"]),
        (Heads(), [(2, 3, 12)], ["batch tokens features", "rows features", "rows"]),
        (assigned_before, [(3, 4), (3, 4)], ["rows_2 rows", "rows_2 rows"]),
        (one_name_for_two, [(3, 4), (5, 6)], ["n cols", "rows k"]),
        (lambda x: x.view(3, 2, 6).amax(-1), [(3, 12)], ["rows cols"]),
    ],
)  # fmt: skip
def test_names_of_arguments(f, shapes, expected):
    assert names(f, *shapes) == expected


def test_what_a_reshape_takes_apart_and_what_an_operation_adds():
    found = {a.name for a in trace(lambda x: x.view(3, 2, 6).amax(-1), (meta(3, 12),)).program.every_axis}
    assert {"rows", "cols", "cols_outer", "cols_inner"} == found
    assert {a.name for a in trace(lambda x: x[:, 1:] + torch.arange(11), (meta(3, 12),)).program.every_axis} >= {"rows", "slice_cols"}


@pytest.mark.parametrize("f", [torch.sin, len, eval("lambda x: x"), torch.nn.ReLU().forward, 3])
def test_without_a_source_there_are_no_names(f):
    assert size_names(f) == {}


def test_parts_of_an_axis_have_names_of_their_own():
    def f(x):
        m_o, m = x.shape
        return x.sum(1) + m_o * m

    program = trace(f, (meta(64, 4096),)).program
    assert [a.name for a in program.inputs[0].layout] == ["rows", "m"]
    ((axis, outer, inner),) = saturate(program, splits={program.inputs[0].layout[1]: 8}).facts["split"]
    assert (axis.name, outer.name, inner.name) == ("m", "m_o", "m_i")


def loss(x, w):
    scores = x * w
    return torch.softmax(scores, -1), scores.flip(-1)


def plan(f, *shapes):
    p = eqfuse.optimize(f, tuple(meta(*s) for s in shapes), target="h200").plan
    return p.estimated_us, re.sub(r",?\s+", "", emit_kernels(module_spec(p)))


def test_a_plan_is_the_same_whatever_its_axes_are_called(monkeypatch):
    """Under names that stand in the opposite order of the alphabet."""
    shapes, new, called = ((512, 40000), (40000,)), Reader._new, {}

    def other(self, name, size):
        found = new(self, name, size)
        called[f"z{900 - found.rank}"] = found.name
        return Axis(f"z{900 - found.rank}", size, found.rank)

    cost, text = plan(loss, *shapes)
    monkeypatch.setattr(Reader, "_new", other)
    again, renamed = plan(loss, *shapes)
    assert "z899" in renamed
    assert again == cost
    assert re.sub(r"z\d\d\d", lambda m: called[m[0]], renamed) == text


def products(a, b):
    return torch.logsumexp(a, 1) * b.sum(1)


@pytest.mark.parametrize("columns", [512, 1 << 20])
def test_a_plan_is_for_axes_whatever_they_are_called_at_other_sizes(columns):
    """A dimension of length 1 is none, so that what was ``a_cols`` beside those of b is ``cols``; loops and parts are over that axis."""
    compiled = eqfuse.optimize(products, (meta(4, columns), meta(4, 7)), target="h200")
    a, b = torch.randn(3, 70), torch.randn(3, 1)
    other = compiled.at(a, b)
    assert [c.traced.program.inputs[0].layout[1].name for c in (compiled, other)] == ["a_cols", "cols"]
    parts = [[s.axis for s in c.plan.splits] for c in (compiled, other)]
    assert parts == ([["a_cols"], ["cols"]] if columns > 512 else [[], []])
    torch.testing.assert_close(other.interpret(a, b), products(a, b))
