"""What values are called where the source gives them no name: the operations that the user called, with numbers where one is called often."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

import eqfuse
from eqfuse.errors import OptionError
from eqfuse.frontends import trace


def half(*shape, dtype=torch.float16):
    return torch.empty(*shape, device="meta", dtype=dtype)


ROWS = half(256, 64), half(64, 64)


def loss(x, w, t):
    return F.cross_entropy(F.linear(x, w), t)


def test_a_verdict_about_an_operation_by_its_own_name():
    args = half(4096, 1024), half(8192, 1024), half(4096, dtype=torch.int64)
    c = eqfuse.optimize(loss, args, target="h200", fusion=[("require", "out", "linear")])
    assert "computed there" in str(c.why("out", "linear"))
    assert c.explain().value("linear").term is c.explain().value("mm").term  # the name after decomposition stays one
    apart = eqfuse.optimize(loss, args, target="h200", fusion=[("forbid", "out", "linear")])
    assert len(apart.plan.kernels) > 1
    assert "forbid" in str(apart.why("out", "linear"))


def test_operations_that_are_called_often_are_numbered():
    def f(x, w):
        return torch.softmax(F.linear(F.gelu(F.linear(x, w)), w) @ w, -1)

    c = eqfuse.optimize(f, ROWS, target="h200")
    value = c.explain().value
    assert value("linear#1").term is value("mm").term
    assert value("linear#2").term is value("mm_1").term
    assert value("linear").term is value("linear#2").term  # the last one, as with variables
    assert value("matmul").term is value("mm_2").term
    assert {"linear", "linear#1", "gelu", "matmul"} <= set(c.explain().values)


def test_the_names_of_the_source_come_first():
    def f(x, w):
        linear = torch.tanh(x)
        return F.linear(linear, w).relu()

    names = trace(f, ROWS).program.names
    (called,) = names["linear"]
    assert called.op == "tanh"  # the user's variable, not the operation of that name


def test_modules():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.norm = torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)

        def forward(self, x):
            return self.norm(F.silu(self.up(x)))

    names = trace(Block().eval(), (torch.empty(32, 64),)).program.names
    assert {"linear", "silu"} <= set(names)


def test_kernels_are_not_renamed():
    """Names are for questions: what is generated does not depend on them."""
    c = eqfuse.optimize(lambda x, w: F.linear(x, w).relu(), ROWS, target="h200")
    assert "linear" not in c.source


def test_unknown_names_are_told_what_there_is():
    c = eqfuse.optimize(lambda x, w: F.linear(x, w).relu(), ROWS, target="h200")
    with pytest.raises(OptionError, match="linear"):
        c.why("out", "linaer")
