"""Axes without elements, the whole way: what torch returns for them is what plans return; nothing is launched where nothing is stored.

The oracle is eager torch; for programs in terms it is written out.  ``optimize`` must work, or raise the error that torch raises, as one
of ours.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.codegen.module import emit_module
from eqfuse.egraph import saturate
from eqfuse.errors import PlanError, ShapeError
from eqfuse.extract import extract
from eqfuse.extract.targets import load_target
from eqfuse.ir.build import axes, exp, maximum_over, mean_over, program, sigmoid, sum_over, tensor
from eqfuse.ir.index import Axis, index
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Input, Reduce, View
from eqfuse.runtime.generated import module_spec
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.testing.fuzz import whole_path
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.simulate import simulate

F = torch.nn.functional


def tensors(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(s, generator=generator) for s in shapes)


CASES = {  # name -> function, shapes
    "pointwise": (lambda x: torch.sin(x) + 1, ((0, 5),)),
    "softmax of no rows": (lambda x: torch.softmax(x, -1), ((0, 5),)),
    "softmax of empty rows": (lambda x: torch.softmax(x, -1), ((5, 0),)),
    "sum of nothing": (lambda x: x.sum(-1), ((5, 0),)),
    "sum of exponentials of nothing": (lambda x: x.exp().sum(), ((0, 3),)),
    "mean of nothing is NaN": (lambda x: x.mean(-1), ((5, 0),)),
    "variance of nothing is NaN": (lambda x: x.var(-1), ((5, 0),)),
    "logsumexp of nothing is -inf": (lambda x: x.logsumexp(-1), ((5, 0),)),
    "any and all of nothing": (lambda x: ((x > 0).any(-1), (x > 0).all(-1)), ((5, 0),)),
    "norm of nothing": (lambda x: torch.linalg.vector_norm(x, dim=-1), ((5, 0),)),
    "maxima of no rows": (lambda x: x.amax(-1), ((0, 5),)),
    "layer norm of no rows": (lambda x: F.layer_norm(x, (5,)), ((0, 5),)),
    "matrix product without rows": (lambda x, y: x @ y, ((0, 5), (5, 3))),
    "matrix product of nothing": (lambda x, y: x @ y, ((5, 0), (0, 3))),
    "linear without inputs": (F.linear, ((2, 0), (3, 0), (3,))),
    "rms norm and linear of nothing": (PROGRAMS["rmsnorm_linear"].fn, ((5, 0), (0,), (3, 0))),
    "outer product summed over nothing": (lambda x, y: torch.outer(x, y).sum(0), ((0,), (3,))),
    "attention of an empty batch": (F.scaled_dot_product_attention, ((0, 2, 4, 8),) * 3),
    "attention to no keys": (F.scaled_dot_product_attention, ((2, 4, 8), (2, 0, 8), (2, 0, 8))),
    "attention without queries": (lambda q, k, v: torch.softmax(q @ k.T, -1) @ v, ((0, 8), (7, 8), (7, 8))),
    "merged": (lambda x: (x.flatten() + 1).sum(), ((2, 0),)),
    "split": (lambda x: x.reshape(2, 3, 0).sum(-1), ((6, 0),)),
    "split, the rest summed": (lambda x: x.reshape(0, 2, 3).sum(0), ((0, 6),)),
    "heads": (lambda x: torch.softmax(x.reshape(4, 0, 2, 3).transpose(1, 2), -1).sum(1), ((4, 0, 6),)),
    "a slice of nothing": (lambda x: x[:0].sum(0) * 2 + x[:, 3:3].sum(), ((4, 5),)),
    "flipped and expanded": (lambda x, y: x.flip(0) + y.expand(0, 5), ((0, 5), (1, 5))),
    "triangle": (lambda x: x.tril().sum(0), ((0, 5),)),
    "one output of two is empty": (lambda x, y: (x.sum(), y * 2, x + 1), ((0, 3), (4,))),
    "an empty output beside a scalar of others": (lambda x, y: (x + y.sum(), y.sum() * 2), ((0,), (4,))),
}


@pytest.mark.filterwarnings("ignore:var")  # torch's, about the variance of nothing
@pytest.mark.parametrize("name", CASES)
def test_empty_axes_as_in_torch(name):
    f, shapes = CASES[name]
    args = tensors(*shapes)
    wanted = f(*args)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    c = eqfuse.optimize(f, args)
    for run in (c.interpret, c.simulate):
        found = run(*args)
        found = found if isinstance(found, tuple) else (found,)
        for x, y in zip(found, wanted, strict=True):
            assert x.shape == y.shape
            torch.testing.assert_close(x.double(), y.double(), rtol=1e-5, atol=1e-6, equal_nan=True)


def test_nothing_is_launched_for_an_empty_batch():
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), tensors((0, 300)))
    for k in c.plan.kernels:
        assert math.prod(-(-b.axis.size // b.tile) for b in k.tiles.grid) == 0
        assert k.cost.us > 0  # the launch itself; the model divides by nothing


@pytest.mark.parametrize(
    "f", [lambda x: x.max(), lambda x: x.min(), lambda x: x.amax(-1), lambda x: x.amin(-1), lambda x: x.max(-1).values]
)
def test_an_extremum_of_nothing_is_refused_as_torch_refuses_it(f):
    (x,) = tensors((5, 0))
    with pytest.raises((IndexError, RuntimeError)):
        f(x)
    with pytest.raises(ShapeError, match=r"test_empty_axes\.py"):
        eqfuse.optimize(f, (x,))


def test_a_plan_is_tried_at_empty_sizes():
    f = lambda x, w: torch.softmax(x @ w, -1)  # noqa: E731
    c = eqfuse.optimize(f, tensors((64, 32), (32, 48)))
    args = tensors((0, 32), (32, 48))
    assert c.at(*args).interpret(*args).shape == (0, 48)


def test_a_module_refuses_no_elements_where_it_relies_on_them():
    """Quotients and maxima of rewritten programs are those of the program if there is an element; an empty grid is no matter."""
    f = lambda q, k, v: torch.softmax(q @ k.T, -1) @ v  # noqa: E731
    c = eqfuse.optimize(f, tensors((20, 16), (300, 16), (300, 16)))
    module = load_module(c.source, "interpret")
    assert interpret(module, "run", *tensors((0, 16), (9, 16), (9, 16)))[0].shape == (0, 16)
    with pytest.raises(ValueError, match=r"planned for \w+ of at least 1"):
        interpret(module, "run", *tensors((7, 16), (0, 16), (0, 16)))
    beside = eqfuse.optimize(lambda x, y: (x + 1, y.sum()), tensors((600,), (300,)))
    assert len(beside.plan.kernels) == 1
    assert any(b.axis.size == 600 for b in beside.plan.kernels[0].tiles.grid)
    with pytest.raises(ValueError, match="of at least 1"):
        interpret(load_module(beside.source, "interpret"), "run", *tensors((0,), (300,)))
    empty = eqfuse.optimize(lambda x: (x + 1).exp().sum(-1), tensors((5, 0)))
    with pytest.raises(ValueError, match="without elements"):
        interpret(load_module(empty.source, "interpret"), "run", *tensors((5, 1)))


# programs in terms --------------------------------------------------------------------------------------------------------------------

i, j, k = axes(i=5, j=0, k=3)


@pytest.mark.parametrize(("monoid", "identity"), [("sum", 0.0), ("mean", 0.0), ("max", -math.inf), ("min", math.inf)])
@pytest.mark.parametrize("along", [True, False])
def test_a_reduction_of_nothing_is_the_identity(monoid, identity, along):
    """Of values along the empty axis, and of values that do not depend on it."""
    x = tensor("x", *((i, j) if along else (i,)))
    p = program("p", o=(Reduce(monoid, j, exp(x) + 1.0), (i,)))
    data = {"x": np.zeros((5, 0) if along else 5)}
    np.testing.assert_array_equal(evaluate(p, data)["o"], np.full(5, identity))
    plan = extract(saturate(p), load_target("h200"))
    arrays = dict(data)
    for kernel in plan.kernels:
        arrays.update(simulate(kernel.tiles, arrays))
    np.testing.assert_array_equal(arrays["o"], np.full(5, identity))
    module = load_module(emit_module(module_spec(plan)), "interpret")
    (found,) = interpret(module, "run", *[torch.from_numpy(data[b.name]).float() for b in p.inputs])
    np.testing.assert_array_equal(found.numpy(), np.full(5, identity))


def test_a_value_without_the_empty_axis_is_stored():
    """In a grid over the empty axis of the other output, no program would store it."""
    x, y = tensor("x", j), tensor("y", k)
    whole_path.check(program("p", a=(exp(x), (j,)), b=(exp(y), (k,)), c=(sum_over(k, y), ())), {"x": np.zeros(0), "y": np.ones(3)}, 0)


@pytest.mark.parametrize("t", [lambda x: sum_over(j, exp(x)), lambda x: maximum_over(j, x), lambda x: mean_over(j, x + 1.0)])
def test_lanes_of_an_empty_resident_axis_are_masked(t):
    x = tensor("x", j)
    p = program("p", o=(t(x), ()))
    expected = evaluate(p, {"x": np.zeros(0)})["o"]
    for role in (Role("resident", 2), Role("stream", 1), Role("stream", 4)):
        assert simulate(lower(kernel_from_program(p, {j: role})), {"x": np.zeros(0)})["o"] == expected
    with pytest.raises(PlanError, match="no elements"):
        lower(kernel_from_program(p, {j: Role("resident", 1)}))


def test_the_whole_path_with_an_empty_axis():
    """Normalisation, attention and a view, each with each axis empty in turn."""
    for empty in "ijk":
        a = {n: Axis(n, 0 if n == empty else 4) for n in "ijk"}
        x, y = Input("x", (a["i"], a["j"]), tensor("x").dtype), tensor("y", a["j"], a["k"])
        e = exp(x - maximum_over(a["j"], x))
        p = program(
            "p",
            o=(sum_over(a["j"], e * y), (a["k"], a["i"])),
            n=(x - mean_over(a["j"], x), (a["i"], a["j"])),
            f=(View(x, a["i"], index(a["i"]) * -1 + (a["i"].size - 1)), (a["i"], a["j"])),
        )
        numbers = np.random.default_rng(0)
        data = {"x": numbers.normal(size=(a["i"].size, a["j"].size)), "y": numbers.normal(size=(a["j"].size, a["k"].size))}
        for seed in range(4):
            whole_path.check(p, data, seed, interpret=seed == 0)


def test_the_least_of_nothing_is_in_the_range_of_a_factor():
    """min over nothing is infinite, whatever its elements would be: padded lanes times that are no zeros."""
    n = Axis("n", 0)
    x = tensor("x", n)
    p = program("least", o=(sum_over(n, Reduce("min", n, sigmoid(x)) * x), ()))
    c = eqfuse.optimize(p, target="h200")
    assert c.simulate(torch.zeros(0)).item() == 0.0
    assert c.interpret(torch.zeros(0)).item() == 0.0


def test_kernels_of_a_cpu_that_read_a_diagonal_of_nothing():
    """How far a tile goes in one piece is counted in elements, of which there is none."""
    i, j, k = Axis("i", 3), Axis("j", 0), Axis("k", 8)
    product = sum_over(i, tensor("x", j, i) * tensor("y", i, k))
    c = eqfuse.optimize(program("p", o=(View(product, k, index(j)), (j,))), target="cpu")
    assert c(torch.zeros(0, 3), torch.zeros(3, 8)).shape == (0,)
    m = Axis("m", 9)
    windows = View(exp(tensor("x", k)), k, index(m) + index(j))  # over the end, and without any position
    assert eqfuse.optimize(program("p", o=(windows, (m, j))), target="cpu")(torch.zeros(8)).shape == (9, 0)
