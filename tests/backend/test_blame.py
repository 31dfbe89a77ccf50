"""What the user's code raises reaches the user: no signal, operator or rule of theirs becomes "torch runs it"."""

import warnings
from unittest.mock import Mock

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import eqfuse
from eqfuse.backend import compile_graph, compiling, partitioning
from eqfuse.backend.blame import of_the_user
from eqfuse.errors import PlanError, RuleError

X = torch.randn(3, 7)
OPTIONS = {"run": "interpret", "target": "h200", "time_budget": 1.0}


class Late(Exception):
    """What a handler of signals raises."""


@pytest.fixture(autouse=True)
def from_the_beginning():
    torch._dynamo.reset()
    eqfuse.report(reset=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="eqfuse: torch runs all")
        yield
    torch._dynamo.reset()


def interrupts(*_, **__):
    """As a handler does, in the middle of anything."""
    raise Late


def compiled(f):
    return torch.compile(f, backend=compile_graph, options=OPTIONS)


@pytest.mark.parametrize("where", ["capture_graph", "Steps", "of_steps"])
def test_a_timeout_in_planning_is_not_caught(where, monkeypatch):
    monkeypatch.setattr(compiling, where, interrupts)
    with pytest.raises(BackendCompilerFailed) as info:  # torch's, around whatever a backend raises
        compiled(lambda x: torch.softmax(x, -1))(X)
    assert isinstance(info.value.inner_exception, Late)
    assert not any(g.reasons for g in eqfuse.report().graphs)


def test_a_timeout_while_a_joint_graph_is_parted(monkeypatch):
    monkeypatch.setattr(partitioning, "_opaque", interrupts)
    with pytest.raises(BackendCompilerFailed) as info:
        compiled(lambda x: torch.softmax(x, -1))(X.clone().requires_grad_())
    assert isinstance(info.value.inner_exception, Late)


@torch.library.custom_op("eqfuse_blame::checked", mutates_args=())
def checked(x: torch.Tensor) -> torch.Tensor:
    """Refuses what is negative, as an operator of the user's may."""
    CALLS.append(1)
    if (x < 0).any():
        raise ValueError("negative")
    return x.clone()


@checked.register_fake
def _(x):
    return torch.empty_like(x)


CALLS: list[int] = []


def test_an_operator_that_raises_is_called_once():
    CALLS.clear()
    f = compiled(lambda x: checked(torch.exp(x) - 1.0) * 2)
    with pytest.raises(ValueError, match="negative"):
        f(-X.abs())
    assert len(CALLS) == 1
    torch.testing.assert_close(f(X.abs()), (torch.exp(X.abs()) - 1.0) * 2)
    assert eqfuse.report().graphs[0].ran == 1


def test_what_torch_refuses_is_no_fault_of_the_kernels():
    """A position out of range: torch raises, and the graph is none that could not be planned."""
    f = compiled(lambda x, at: torch.nn.functional.embedding_bag(at, torch.exp(x), torch.tensor([0])) * 2)
    with pytest.raises((IndexError, RuntimeError)):
        f(X, torch.tensor([5]))
    assert not eqfuse.report().graphs[0].reasons


def raised(error, cause=None):
    try:
        raise error from cause
    except type(error) as found:
        return found


def in_a_library(error):
    """Raised without a frame of these tests, as planning does: the traceback of what is caught in the package has none of its callers."""
    try:
        Mock(side_effect=error)()
    except type(error) as found:
        found.__traceback__ = found.__traceback__.tb_next
        return found


def test_whose_an_exception_is():
    assert of_the_user(raised(Late()))
    assert not of_the_user(in_a_library(KeyError("a fault of ours")))
    assert not of_the_user(in_a_library(PlanError("none")))
    assert of_the_user(in_a_library(RuleError("not sound")))
    wrapped = in_a_library(PlanError("none"))
    wrapped.__cause__ = raised(TypeError("in a function of the user's"))
    assert of_the_user(wrapped)
    wrapped.__cause__, wrapped.__context__ = None, raised(TypeError("that the user handles around the call"))
    assert not of_the_user(wrapped)
