"""One launch of several kernels: the same numbers at sizes that tiles do not divide, one function to compile, no parameter that means two
things."""

import pytest
import torch

import eqfuse
from eqfuse.codegen.joint import Joint
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module


def projections(x, wq, wk, wv):
    return x @ wq, x @ wk, x @ wv


def drawn(*shapes):
    random = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=random) for s in shapes]


@pytest.fixture(scope="module")
def compiled():
    shapes = [(5, 3000), (3000, 4001), (3000, 1003), (3000, 517)]
    found = eqfuse.optimize(projections, [torch.empty(s, device="meta") for s in shapes], target="h200")
    assert [len(kernels) for kernels in found.plan.launched] == [3]
    return found


@pytest.mark.parametrize(
    ("rows", "cols"),
    [(5, (150, 67, 33)), (23, (7, 200, 1)), (5, (150, 0, 33)), (0, (150, 67, 33))],
    ids=["several programs", "one program", "a kernel without programs", "no programs"],
)
def test_the_same_numbers_at_odd_sizes(compiled, rows, cols):
    args = drawn((rows, 300), *((300, n) for n in cols))
    found = interpret(load_module(compiled.source, "interpret"), "run", *args)
    for f, wanted in zip(found, projections(*args), strict=True):
        torch.testing.assert_close(f, wanted, rtol=1e-4, atol=1e-4)


def test_one_launch_is_compiled_once(compiled):
    (report,) = compiled.compile()
    assert report.ok
    assert report.kernel == f"joint_{compiled.plan.kernels[0].kernel.name}"
    assert compiled.source.count("num_warps=") == 1


def test_the_stages_of_a_launch_are_those_of_its_product():
    """The first member is a reduction without a loop."""

    def rows_and_a_product(x, y, w):
        return torch.tanh(x.sum(-1)), y @ w

    shapes = [(128, 2048), (16, 1024), (1024, 4096)]
    planned = eqfuse.optimize(rows_and_a_product, [torch.empty(s, device="meta") for s in shapes], target="h200")
    ((_, product),) = planned.plan.launched
    assert f"num_stages={product.kernel.stages}," in planned.source and product.kernel.stages > 1
    small = drawn((5, 2048), (16, 1024), (1024, 64))
    found = interpret(load_module(planned.source, "interpret"), "run", *small)
    for f, wanted in zip(found, rows_and_a_product(*small), strict=True):
        torch.testing.assert_close(f, wanted, rtol=1e-4, atol=1e-3)


def test_chains_run_in_the_order_of_launches():
    """Kernels of both chains by turns, which is not the order in which they are planned."""

    def chains(x, a, b, y, c, d):
        return x @ a @ b, y @ c @ d

    small = drawn(*[(3, 40), (40, 128), (128, 50)] * 2)
    large = [torch.empty(s, device="meta") for s in [(16, 4096), (4096, 128), (128, 4096)] * 2]
    planned = eqfuse.optimize(chains, large, target="h200")
    each = len(planned.plan.steps) // 2
    assert [one.steps for one in planned.plan.launches] == [(k, k + each) for k in range(each)]
    at = planned.at(*small)
    assert [one.steps for one in at.plan.launches] == [(k, k + each) for k in range(each)]
    for f, wanted in zip(at.interpret(*small), chains(*small), strict=True):
        torch.testing.assert_close(f, wanted, rtol=1e-4, atol=1e-4)


def test_parameters_that_mean_different_things_have_different_names():
    tiles = [eqfuse.optimize(lambda x: torch.softmax(x, -1), drawn((8, n)), target="h200").plan.kernels[0].tiles for n in (100, 500)]
    joint = Joint(tuple(tiles))
    values = {p.name: (p.value, p.axis) for p in joint.parameters}
    assert len(values) == len(joint.parameters)
    for kernel, called in zip(tiles, joint._known[1], strict=True):
        assert [values[name] for name in called] == [(p.value, p.axis) for p in kernel.parameters]
    assert {"T_cols", "T_cols_2"} < set(values)
