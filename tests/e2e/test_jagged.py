"""Ragged rows as people have them: jagged operators, segments, repeats, groups of rows, nested tensors under torch.compile."""

import json
import math

import pytest
import torch
from torch.nn import functional

import eqfuse
from eqfuse.runtime.native import compiler

aten = torch.ops.aten
G = torch.Generator().manual_seed(0)
TARGETS = ("h200", pytest.param("cpu", marks=pytest.mark.skipif(compiler() is None, reason="there is no C compiler")))


def randn(*shape):
    return torch.randn(*shape, generator=G)


def offsets(*lengths, dtype=torch.int64):
    return torch.tensor((0, *lengths)).cumsum(0).to(dtype)


def to_padded(x, cu, most, padding=0.0):
    return aten._jagged_to_padded_dense_forward(x, [cu], [most], padding)


def to_jagged(y, cu, total):
    return aten._padded_dense_to_jagged_forward(y, [cu], total)


def mean(x, cu):
    """As nested tensors take it: of padded rows."""
    return to_padded(x, cu, 7).sum(1) / (cu[1:] - cu[:-1]).clamp(min=1).unsqueeze(-1)


def segments(how, **options):
    return lambda x, cu: torch.segment_reduce(x, how, offsets=cu, axis=0, **options)


def by_lengths(how):
    return lambda x, lengths: torch.segment_reduce(x, how, lengths=lengths, axis=0)


def rows_added(how):
    return lambda x, at, y: x.index_reduce(0, at, y, how, include_self=False)


LENGTHS = (3, 0, 7, 1)
CU, SHORT = offsets(*LENGTHS), offsets(*LENGTHS, dtype=torch.int32)
X = randn(11, 13)
SORTED = torch.tensor([0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 3])
CASES = {
    "padded": (lambda x, cu: to_padded(x, cu, 7, -1.5), (X, CU)),
    "padded, int32": (lambda x, cu: to_padded(x, cu, 9), (X, SHORT)),
    "padded, cut short": (lambda x, cu: to_padded(x, cu, 2), (X, CU)),
    "padded, two inner dimensions": (lambda x, cu: to_padded(x, cu, 7), (randn(11, 3, 2), CU)),
    "padded, all empty": (lambda x, cu: to_padded(x, cu, 2) + 1.0, (randn(0, 5), offsets(0, 0))),
    "packed": (lambda y, cu: to_jagged(y, cu, 11), (randn(4, 7, 13), CU)),
    "packed, int32": (lambda y, cu: to_jagged(y, cu, 11), (randn(4, 8, 13), SHORT)),
    "packed, one sequence": (lambda y, cu: to_jagged(y, cu, 6), (randn(1, 6, 5), offsets(6))),
    "packed, empty at the ends": (lambda y, cu: to_jagged(y, cu, 5), (randn(5, 4, 3), offsets(0, 4, 0, 1, 0))),
    "mean": (mean, (X, CU)),
    "sum of segments": (segments("sum"), (X, CU)),
    "mean of segments": (segments("mean"), (X, SHORT)),
    "largest of segments": (segments("max"), (X, CU)),
    "least of segments": (segments("min"), (X, CU)),
    "product of segments": (segments("prod"), (X, CU)),
    "mean with an initial value": (segments("mean", initial=0.5), (X, CU)),
    "largest with an initial value": (segments("max", initial=0.5), (X, CU)),
    "segments beside which there is more": (segments("sum"), (randn(14, 3), CU)),
    "segments by lengths": (by_lengths("mean"), (X, torch.tensor(LENGTHS))),
    "one segment": (by_lengths("max"), (X, torch.tensor([11], dtype=torch.int32))),
    "segments of each row": (
        lambda x, lengths: torch.segment_reduce(x, "sum", lengths=lengths, axis=1), (randn(2, 6, 3), torch.tensor([[2, 0, 4], [1, 1, 4]])),
    ),
    "repeated": (lambda x, n: x.repeat_interleave(n, 0, output_size=11) * 2.0, (randn(4, 13), torch.tensor(LENGTHS))),
    "added by sorted rows": (lambda x, at, y: x.index_add(0, at, y), (randn(4, 13), SORTED, X)),
    "mean by sorted rows": (rows_added("mean"), (randn(4, 13), SORTED, X)),
    "product by sorted rows": (rows_added("prod"), (randn(4, 13), SORTED, X)),
}  # fmt: skip


def exact(fn, args):
    return fn(*(x.double() if x.is_floating_point() else x for x in args))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_forward(name, target):
    fn, args = CASES[name]
    c = eqfuse.optimize(fn, args, target=target)
    found, want = c(*args) if target == "cpu" else c.simulate(*args), exact(fn, args)
    assert len(c.plan.kernels) == 1
    torch.testing.assert_close(found.double(), want, rtol=1e-5, atol=1e-5, equal_nan=True)


def gradient(f, x, cu):
    found = f(x, cu)
    weights = torch.linspace(-1.0, 1.0, found.numel()).reshape(found.shape)
    full = torch.where(found.isfinite(), found, 0.0)  # of an empty segment a mean, a largest element is none
    return torch.autograd.grad((full * weights).sum(), x)[0]


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", ["sum of segments", "mean of segments", "repeated"])
def test_backward(name):
    fn, (x, cu) = CASES[name]
    x = x.clone().requires_grad_()
    c = eqfuse.optimize(fn, (x, cu), target="cpu", training=True)
    torch.testing.assert_close(gradient(c, x, cu), gradient(fn, x, cu), rtol=1e-5, atol=1e-5)


def test_elements_that_are_the_largest_share_the_gradient():
    """A negative one, too, of which torch gives all of it to each."""
    x, fn = torch.tensor([[2.0, 1.0], [2.0, 3.0], [1.0, 3.0]], requires_grad=True), segments("max")
    c = eqfuse.optimize(fn, (x, offsets(2, 1, 0)), target="h200", training=True)
    found = c.interpret(x, offsets(2, 1, 0))
    (grad,) = torch.autograd.grad((found[:2] * torch.tensor([[-4.0, 2.0], [1.0, -1.0]])).sum(), x)
    assert grad.tolist() == [[-2.0, 0.0], [-2.0, 2.0], [1.0, -1.0]]


# products by groups -----------------------------------------------------------------------------------------------------------------
ENDS = torch.tensor([2, 2, 8], dtype=torch.int32)
GROUPED = {
    "of rows": (randn(8, 12), randn(3, 12, 8)),
    "of what is summed": (randn(8, 12).t(), randn(8, 8)),
    "of columns": (randn(3, 4, 12), randn(12, 8)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", GROUPED)
def test_products_by_groups(name, target):
    args = (*GROUPED[name], ENDS)
    c = eqfuse.optimize(functional.grouped_mm, args[:2], kwargs={"offs": ENDS}, target=target)
    found = c(*args[:2], offs=ENDS) if target == "cpu" else c.simulate(*args[:2], offs=ENDS)
    torch.testing.assert_close(found.float(), functional.grouped_mm(*args[:2], offs=ENDS), rtol=1e-5, atol=1e-5)


def test_an_infinite_matrix_is_nobodys_but_its_groups():
    x, w = GROUPED["of rows"]
    w = w.clone()
    w[0] = math.inf
    c = eqfuse.optimize(functional.grouped_mm, (x, w), kwargs={"offs": ENDS}, target="h200")
    assert c.simulate(x, w, offs=ENDS)[2:].isfinite().all()


# plans ------------------------------------------------------------------------------------------------------------------------------
def test_a_mean_and_a_sum_of_segments_end_where_the_data_say():
    """One kernel, with a loop over the positions that a sequence has."""
    cu = offsets(4000, 300, 0, 1000)
    x = torch.empty(5300, 64)
    for fn in (lambda x, cu: to_padded(x, cu, 4000).sum(1), segments("sum")):
        plan = eqfuse.optimize(fn, (x, cu), target="h200").plan
        assert len(plan.kernels) == 1
        assert "if cu is as in the example" in str(plan)


def test_rows_by_groups_are_one_kernel_on_the_matrix_unit():
    """Which visits the matrices of the groups that a tile of rows has: of eight, one or two."""
    ends = offsets(500, 30, 7, 0, 900, 11, 600)[1:].int()
    x, w = torch.empty(2048, 256, dtype=torch.bfloat16), torch.empty(7, 256, 256, dtype=torch.bfloat16)
    c = eqfuse.optimize(functional.grouped_mm, (x, w), kwargs={"offs": ends}, target="h200")
    (kernel,) = c.plan.kernels
    assert "dot(" in str(kernel.tiles) and "of the tiles of batch" in str(c.plan)


# nested tensors under torch.compile ---------------------------------------------------------------------------------------------------
LINEAR = torch.nn.Linear(16, 24)
NESTED = {
    "linear": lambda x: torch.relu(LINEAR(x)),
    "a norm of a sum": lambda x: functional.layer_norm(x + torch.relu(x), (16,)),
    "mean": lambda x: x.mean(1),
    "softmax": lambda x: torch.softmax(x, 1),
    "padded": lambda x: x.to_padded_tensor(2.0),
}


pytestmark = pytest.mark.usefixtures("nothing_compiled")


def nested(*lengths):
    return torch.nested.nested_tensor([randn(n, 16) for n in lengths], layout=torch.jagged, requires_grad=True)


def plain(x):
    return x.values() if x.is_nested else x


def graphs():
    return json.loads(eqfuse.report().json())["graphs"]


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", NESTED)
def test_a_nested_tensor_runs_in_kernels(name):
    fn = NESTED[name]
    compiled = torch.compile(fn, backend="eqfuse", options={"target": "cpu", "time_budget": 0.2, "strict": True}, fullgraph=True)
    for lengths in ((3, 5, 2), (2, 4, 3)):
        x = nested(*lengths)
        with torch.no_grad():
            torch.testing.assert_close(plain(compiled(x)), plain(fn(x)), rtol=1e-5, atol=1e-5)
    assert graphs() and all(g["ran"] == g["calls"] and not g["library"] for g in graphs())


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", ["linear", "a norm of a sum"])
def test_a_nested_tensor_is_differentiated_in_kernels(name):
    fn = NESTED[name]
    compiled = torch.compile(fn, backend="eqfuse", options={"target": "cpu", "time_budget": 0.2, "strict": True}, fullgraph=True)
    x = nested(3, 5, 2)
    given = [x, *LINEAR.parameters()] if name == "linear" else [x]
    found, want = (torch.autograd.grad(plain(f(x)).square().sum(), given) for f in (compiled, fn))
    for a, b in zip(found, want, strict=True):
        torch.testing.assert_close(plain(a), plain(b), rtol=1e-4, atol=1e-5)
    assert {g["kind"] for g in graphs()} == {"forward", "backward"}
    assert all(g["ran"] == g["calls"] and not g["library"] for g in graphs())


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_another_batch_of_as_many_rows_has_the_same_kernels():
    """Which rows belong together is another number in every call, and lengths are data."""
    compiled = torch.compile(NESTED["linear"], backend="eqfuse", options={"target": "cpu", "strict": True}, fullgraph=True)
    with torch.no_grad():
        for lengths in ((3, 5, 2), (4, 1, 5), (1, 1, 8), (2, 6, 2)):
            x = nested(*lengths)
            torch.testing.assert_close(plain(compiled(x)), plain(NESTED["linear"](x)), rtol=1e-5, atol=1e-5)
    assert [g["calls"] for g in graphs()] == [4] or all(len(g["plans"]) == 1 for g in graphs())
