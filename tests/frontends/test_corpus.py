"""Every program of the corpus means, as terms in float64 numpy, what torch computes in float64."""

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from eqfuse.frontends import trace
from eqfuse.ir.reference import evaluate
from eqfuse.testing.programs import PROGRAMS


def agree(fn, args, kwargs=None, tolerance=1e-10):
    """Trace, evaluate in float64, compare every leaf with torch in float64; returns the traced program."""
    kwargs = kwargs or {}
    traced = trace(fn, args, kwargs)
    bound = traced.bind(*args, **kwargs)
    assert list(bound) == [i.name for i in traced.program.inputs]
    values = evaluate(traced.program, {n: x.detach().numpy() for n, x in bound.items()})
    got = traced.unflatten([torch.as_tensor(values[o.name]) for o in traced.program.outputs])
    want = fn(*args, **kwargs)
    assert pytree.tree_structure(got) == pytree.tree_structure(want)
    for g, w in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g.double().numpy(), w.detach().double().numpy(), rtol=tolerance, atol=tolerance)
    for o, w in zip(traced.program.outputs, pytree.tree_leaves(want), strict=False):
        assert o.dtype.name == str(w.dtype).removeprefix("torch.")
    return traced


@pytest.mark.parametrize("size", ["small", "odd"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_means_what_torch_computes(name, size):
    case = PROGRAMS[name]
    agree(case.fn, case.args(size, torch.float64))


@pytest.mark.parametrize("name", PROGRAMS)
def test_bench_sizes_need_no_data(name):
    case = PROGRAMS[name]
    program = trace(case.fn, case.args("bench", "float16", device="meta")).program
    results = pytree.tree_leaves(case.fn(*case.args("bench", "float16", device="meta")))
    assert [o.shape for o in program.outputs] == [tuple(r.shape) for r in results]
    assert [o.dtype.name for o in program.outputs] == [str(r.dtype).removeprefix("torch.") for r in results]


def test_arguments_are_the_same_numbers_in_every_type():
    a, b = (PROGRAMS["attention"].args("small", d)[0] for d in ("float16", "float32"))
    assert torch.equal(a, b.half())
