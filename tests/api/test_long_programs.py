"""Nothing recurses by the length of a program: long ones go the whole path, with the stack that Python has."""

import copy
import sys
import traceback
from contextlib import contextmanager

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.ir.build import axes, program, tensor
from eqfuse.ir.dtypes import dtype  # noqa: F401
from eqfuse.ir.index import *  # noqa: F403
from eqfuse.ir.reference import evaluate
from eqfuse.ir.source import program_source
from eqfuse.ir.terms import *  # noqa: F403 - what a term prints as
from eqfuse.ir.terms import Map
from eqfuse.runtime.generated import module_spec

FRAMES = 190  # of Python, for a program of STEPS steps
STEPS = 140


@contextmanager
def shallow(frames):
    """Only so many more calls inside each other."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(traceback.extract_stack()) + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def chain(steps):
    (i,) = axes(i=7)
    y = tensor("x", i)
    for _ in range(steps):
        y = Map("tanh", (y,)) + 1.0
    return program("chain", out=(y, (i,)))


def test_fourteen_hundred_operations():
    p = chain(700)
    c = eqfuse.optimize(p, target="h200")
    x = torch.linspace(-1, 1, 7)
    expected = evaluate(p, {"x": x.numpy()})["out"]
    assert np.allclose(c.simulate(x).numpy(), expected, rtol=1e-12)
    assert eval(repr(p.outputs[0].term)) is p.outputs[0].term
    assert copy.deepcopy(p) == p
    known = {}
    exec(program_source(p), known)
    assert known["p"] == p
    assert "t1399" in str(p)
    assert len(c.source.splitlines()) > 1400
    assert str(c.why("x", "out"))
    assert str(c.explain())


def test_a_long_function_is_read():
    def f(x):
        for _ in range(250):
            x = torch.tanh(x) + 1
        return x

    c = eqfuse.optimize(f, (torch.randn(5, 7),), target="h200", licence="exact")
    assert len(c.program.terms()) == 502


def softmaxes(x):
    for _ in range(12):
        x = torch.softmax(x * 2, -1)
    return x


KINDS = {
    "tanh(x) + 1": lambda x, k: torch.tanh(x) + 1,
    "exp(-x)": lambda x, k: torch.exp(-x),
    "x * x": lambda x, k: x * x,
    "where(x > k, 2 x, 1)": lambda x, k: torch.where(x > 0.01 * k, x * 2, 1.0),
    "-1 / (|x| + 1)": lambda x, k: -1 / (x.abs() + 1),
    "x sin(k x)": lambda x, k: x * torch.sin(x * (1 + k)),
    "x - x / k": lambda x, k: x - x / (2 + k),
    "casts": lambda x, k: (x.half() * 2).float(),
}


@pytest.fixture(scope="module", autouse=True)
def warm():
    """What is imported on first use is imported."""
    x = torch.randn(3, 7)
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (x,), target="h200")
    c.simulate(x), str(c.explain()), c.source, c.why("x", "out"), eqfuse.optimize(c.program, target="h200")


@pytest.mark.parametrize("kind", KINDS)
def test_long_programs_of_every_kind(kind):
    step = KINDS[kind]

    def f(x):
        for k in range(STEPS // 2):
            x = step(x, k)
        return x

    x = torch.rand(5, 7)
    p = eqfuse.optimize(f, (x,), target="h200", licence="exact", node_budget=0).program
    with shallow(FRAMES):
        c = eqfuse.optimize(p, target="h200", time_budget=1.0)
        str(c.plan), str(c.explain()), str(c.why("x", "out")), c.source, repr(p), c.simulate(x), repr(c), module_spec(c.plan)


def test_long_programs_with_loops():
    x = torch.rand(5, 7)
    p = eqfuse.optimize(softmaxes, (x,), target="h200", licence="exact", node_budget=0).program
    with shallow(FRAMES):
        c = eqfuse.optimize(p, target="h200", time_budget=1.0)
        str(c.plan), str(c.explain()), c.source, c.simulate(x)
