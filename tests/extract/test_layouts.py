"""The order of axes in temporaries follows the memory of the tensors around them."""

import torch

import eqfuse
from eqfuse.extract.layouts import memory_order
from eqfuse.frontends import trace
from eqfuse.ir import build as b
from eqfuse.ir.dtypes import float32
from eqfuse.ir.index import Axis, index
from eqfuse.ir.terms import Input, View

i, j, k, m = (Axis(n, s) for n, s in zip("ijkm", (5, 6, 4, 3), strict=True))


def order(**outputs):
    return "".join(a.name[0] for a in memory_order(b.program("p", **outputs)))


def test_dimensions_from_the_first_to_the_last():
    x, y = Input("x", (j, i), float32), Input("y", (j, m), float32)
    assert order(z=(x * y, (j, i, m))) == "jim"


def test_the_first_tensor_counts_where_two_disagree():
    x = Input("x", (i, j), float32)
    assert order(z=(x, (j, i))) == "ij"


def test_a_dimension_read_at_several_axes_is_in_their_order_the_large_steps_first():
    flat = Axis("flat", 12)
    w = View(Input("w", (i, flat), float32), flat, index(m) + index(k) * 3)
    assert order(z=(b.sum_over(k, w), (m, i))) == "ikmf"


def test_a_group_is_where_its_members_are():
    x = b.sum_over(j, View(Input("x", (i, k, j), float32), k, index(m)))
    found = order(z=(View(x, m, index(k) // 2) + Input("y", (i, k), float32), (i, k)))
    assert found[0] == "i"
    assert found[-1] == "j"


def test_every_axis_has_one_place():
    def f(x):
        return (x.reshape(4, 6) @ x.reshape(4, 6).t()).sum() * x

    p = trace(f, (torch.ones(24),)).program
    assert sorted(memory_order(p)) == sorted(set(p.every_axis))


def test_a_temporary_is_read_along_its_memory():
    """Heads of attention, stored for the projection that follows: 4 of them share keys, and none of this may part a head's features."""

    def f(q, k, v, w):
        k, v = (t.repeat_interleave(4, 1) for t in (k, v))
        o = torch.softmax(q @ k.transpose(-1, -2) * 0.1, -1) @ v
        return o.transpose(1, 2).reshape(1, 2048, 4096) @ w.t()

    shapes = ((1, 32, 2048, 128), (1, 8, 2048, 128), (1, 8, 2048, 128), (4096, 4096))
    plan = eqfuse.optimize(f, [torch.empty(s, dtype=torch.float16, device="meta") for s in shapes], target="h200").plan
    assert len(plan.kernels) == 2
    (stored,) = plan.kernels[0].stores
    assert stored.shape == (8, 4, 2048, 128)
    assert plan.estimated_us < plan.baseline_us / 3
