"""Nested tensors as arguments of ``optimize``: their values and offsets are planned for, and results are nested again."""

import copy
import gc
import itertools
import pickle
import weakref

import pytest
import torch
from torch.nn import functional

import eqfuse
from eqfuse.errors import ShapeError, TraceError
from eqfuse.runtime.native import compiler, load

in_c = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
G = torch.Generator().manual_seed(0)
LENGTHS = (3, 5, 2)
OTHERS = ((2, 3, 5), (1, 8, 1), (2, 2, 2, 2))  # as many rows; another longest one; another total, and another batch


def randn(*shape):
    return torch.randn(*shape, generator=G)


def nested(*lengths, cols=16, **options):
    return torch.nested.nested_tensor([randn(n, cols) for n in lengths], layout=torch.jagged, **options)


def alike(x):
    """Other values in the same rows."""
    return torch.nested.nested_tensor_from_jagged(torch.randn(x.values().shape, generator=G), x.offsets())


def optimized(fn, args, **options):
    return eqfuse.optimize(fn, args, **{"target": "cpu", "time_budget": 0.2, **options})


def plain(x):
    return x.values() if x.is_nested else x


def check(found, want, x=None, tolerance=1e-5):
    assert found.is_nested == want.is_nested
    if want.is_nested:
        assert found._ragged_idx == want._ragged_idx and found.shape == want.shape
        assert x is None or found.offsets() is want.offsets() is x.offsets()
    torch.testing.assert_close(plain(found).float(), plain(want).float(), rtol=tolerance, atol=tolerance)


LINEAR = torch.nn.Linear(16, 24)
BIAS, MATRIX = randn(16), randn(16, 8)
FUNCTIONS = {
    "elementwise": lambda x: torch.relu(x) * 2.0 + x,
    "a linear layer": LINEAR,
    "a norm": lambda x: functional.layer_norm(x, (16,)),
    "a dense tensor": lambda x: x * BIAS,
    "heads and back": lambda x: torch.tanh(x.unflatten(-1, [2, 8]).transpose(1, 2)).transpose(1, 2).flatten(-2) + x,
    "mean of rows": lambda x: x.mean(1),
    "softmax of rows": lambda x: torch.softmax(x, 1),
    "padded": lambda x: x.to_padded_tensor(2.0),
    "made anew": lambda x: torch.nested.nested_tensor_from_jagged(torch.sigmoid(x.values()), x.offsets()),
}


@in_c
@pytest.mark.parametrize("name", FUNCTIONS)
@torch.no_grad()
def test_it_computes_what_torch_does_for_every_batch(name):
    """Of other sizes it is planned again, or not, as with dense tensors."""
    fn, x = FUNCTIONS[name], nested(*LENGTHS)
    c = optimized(fn, (x,), strict=True)
    for given in (x, *(nested(*lengths) for lengths in OTHERS)):
        check(c(given), fn(given), given)
    check(c.simulate(x), fn(x), x)
    assert str(c.plan) and str(c.explain())


@torch.no_grad()
def test_a_plan_for_a_gpu_runs_in_the_interpreter():
    x = nested(*LENGTHS)
    c = optimized(FUNCTIONS["mean of rows"], (x,), target="h200")
    assert len(c.plan.kernels) == 1
    for run in (c.interpret, c.simulate, c):
        check(run(x), x.mean(1))


@in_c
@torch.no_grad()
def test_a_call_runs_kernels_and_not_the_function():
    calls = []

    def fn(x):
        calls.append(x)
        return torch.relu(x.mean(1))

    x = nested(*LENGTHS)
    c = optimized(fn, (x,), strict=True)
    traced = len(calls)
    for given in (x, nested(2, 3, 5)):
        check(c(given), torch.relu(given.mean(1)))
    assert len(calls) == traced and not c.missing


def test_other_sizes_are_read_off_one_trace_with_symbols():
    """A length is one symbol, and which rows belong together none: else every batch would be traced anew."""
    c = optimized(FUNCTIONS["softmax of rows"], (nested(*LENGTHS),))
    symbolic = c.inner.traced.symbolic()
    assert symbolic is not None and set(symbolic.symbols) == {(0, 0), (1, 0), (2, 0)}
    with torch.no_grad():
        c(nested(3, 7, 4))
    assert [type(v).__name__ for v in c.inner._variants.values()] == ["Executable"]


# arguments --------------------------------------------------------------------------------------------------------------------------
@in_c
@torch.no_grad()
def test_arguments_with_the_same_offsets_share_them():
    x = nested(*LENGTHS)
    y = alike(x)
    c = optimized(lambda x, y: x * 2.0 + y, (x, y))
    assert c.inputs == ("x_values", "x_offsets", "x_longest", "y_values")
    check(c(x, y), x * 2.0 + y, x)


@torch.no_grad()
def test_arguments_with_offsets_of_their_own_are_refused_where_torch_refuses_them():
    x, z = nested(*LENGTHS), nested(*LENGTHS)
    with pytest.raises(ShapeError, match=r"(?s)nested.*offsets are one tensor"):
        optimized(lambda x, z: x + z, (x, z))
    c = optimized(lambda x, y: x + y, (x, alike(x)))
    with pytest.raises(ShapeError, match="offsets are one tensor"):
        c(x, z)


@in_c
@torch.no_grad()
def test_arguments_with_offsets_of_their_own_make_results_with_each():
    x, z = nested(*LENGTHS), nested(4, 4)
    fn = lambda x, z: (torch.relu(x), {"z": z * 3.0}, 7)  # noqa: E731
    c = optimized(fn, (x, z))
    first, second, number = c(x, z)
    check(first, torch.relu(x), x)
    check(second["z"], z * 3.0, z)
    assert number == 7


@in_c
@torch.no_grad()
def test_dense_arguments_and_keywords():
    def fn(w, *, x, scale=2.0):
        return torch.tanh(x) @ w * scale

    x, w = nested(*LENGTHS), randn(16, 8)
    c = optimized(fn, (w,), kwargs={"x": x})
    check(c(w, x=x), fn(w, x=x), x)
    check(c(x=x, w=w, scale=3.0), fn(w, x=x, scale=3.0), x)
    check(c(w, x=x.to_padded_tensor(0.0)), fn(w, x=x.to_padded_tensor(0.0)))


@in_c
@torch.no_grad()
def test_the_ragged_dimension_may_be_another():
    x = nested(*LENGTHS).transpose(1, 2)
    c = optimized(torch.relu, (x,))
    check(c(x), torch.relu(x), x)
    other = nested(4, 4, 4).transpose(1, 2)
    check(c(other), torch.relu(other), other)


def test_gaps_between_rows_are_refused_with_a_cure():
    padded = randn(3, 6, 4)
    x = torch.nested.narrow(padded, 1, torch.tensor([0, 1, 2]), torch.tensor([3, 2, 4]), layout=torch.jagged)
    with pytest.raises(TraceError, match=r"x\.contiguous\(\)"):
        optimized(torch.relu, (x,))
    assert str(optimized(torch.relu, (x.contiguous(),)).plan)


def test_a_nested_tensor_that_is_no_argument_is_refused_with_a_cure():
    x = nested(*LENGTHS)
    for fn, args in (
        (lambda y: x * y, (randn(16),)),
        (torch.nested.nested_tensor_from_jagged, (x.values(), x.offsets())),
    ):
        with pytest.raises(TraceError, match="pass it as an argument"):
            optimized(fn, args)


@in_c
@torch.no_grad()
def test_without_data_rows_are_at_most_all_rows():
    x = nested(*LENGTHS)
    dense = torch.nested.nested_tensor_from_jagged(x.values().to("meta"), x.offsets().to("meta"))
    c = optimized(FUNCTIONS["softmax of rows"], (dense,))
    check(c(x), torch.softmax(x, 1), x)


@in_c
@torch.no_grad()
def test_what_kernels_lack_torch_runs():
    """A result for each sequence: how long it is, the data say."""
    x, fn = nested(*LENGTHS), lambda x: [torch.relu(row).sum(0) for row in x.unbind()]
    c = optimized(fn, (x,))
    for given in (x, nested(1, 8, 1)):
        for have, want in zip(c(given), fn(given), strict=True):
            torch.testing.assert_close(have, want)


# modules ----------------------------------------------------------------------------------------------------------------------------
@in_c
@torch.no_grad()
def test_a_module_keeps_its_names_mode_and_hooks():
    m = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Dropout(0.5)).eval()
    seen = []
    m.register_forward_hook(lambda _, args, out: seen.append((args[0].is_nested, out.is_nested)))
    x = nested(*LENGTHS)
    c = optimized(m, (x,))
    assert c.inputs[3:] == ("x0_weight", "x0_bias")
    assert set(seen) == {(True, True)}
    check(c(x), m(x), x)
    m[0].weight = torch.nn.Parameter(randn(8, 16))
    check(c(x), m(x), x)
    m.train()
    assert not torch.equal(c(x).values(), c(x).values())


@torch.no_grad()
def test_what_a_module_assigns_while_it_is_traced_is_as_before():
    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return torch.relu(x)

    m = Counting()
    optimized(m, (nested(*LENGTHS),))
    assert m.calls == 0


@in_c
@torch.no_grad()
def test_copies_and_saved_modules(tmp_path):
    x = nested(*LENGTHS)
    c = optimized(LINEAR, (x,))
    for other in (copy.deepcopy(c), pickle.loads(pickle.dumps(c)), c.replan("h200")):
        check(other(x), LINEAR(x), x)
    small = nested(2, 2)
    check(c.at(small).simulate(small), LINEAR(small), small)
    (found,) = load(c.save(tmp_path / "linear.py").read_text()).run(*c.bind((x,), {}).values())
    torch.testing.assert_close(found, LINEAR(x).values(), rtol=1e-5, atol=1e-5)
    assert list(c.bind((x,), {})) == ["input_values", "input_offsets", "input_longest", "weight", "bias"]
    c.accuracy(x, factor=4.0)
    assert "input_values" in c.html()


# attention and gradients ------------------------------------------------------------------------------------------------------------
class Attention(torch.nn.Module):
    """A layer of nested tensors, and, with ``rows``, the same of one sequence."""

    def __init__(self, cols=16, heads=2):
        super().__init__()
        self.heads, self.norm = heads, torch.nn.LayerNorm(cols)
        self.qkv, self.out = torch.nn.Linear(cols, 3 * cols), torch.nn.Linear(cols, cols)

    def forward(self, x, causal=False):
        at = 1 if x.is_nested else 0
        q, k, v = (t.unflatten(-1, [self.heads, -1]).transpose(at, at + 1) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return x + self.out(y.transpose(at, at + 1).flatten(-2))


ATTENTION = Attention()


def by_rows(fn, x):
    """A function of each sequence."""
    cu = x.offsets().tolist()
    return [fn(x.values()[a:b]) for a, b in itertools.pairwise(cu)]


@torch.no_grad()
def test_attention():
    """Which torch computes on a CPU in some layouts alone, and not where it is causal."""
    x, y = nested(*LENGTHS), nested(2, 4, 4)
    c = optimized(ATTENTION, (x,), kwargs={"causal": True}, target="h200", strict=True)
    for given in (x, y):
        want = torch.cat(by_rows(lambda row: ATTENTION(row, causal=True), given))
        found = c.simulate(x, causal=True) if given is x else c.at(y, causal=True).simulate(y, causal=True)
        torch.testing.assert_close(found.values().float(), want, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_attention_to_other_rows():
    """Of queries to keys of other lengths, some sequences of which have none."""
    q = nested(3, 2, 4, cols=8).unflatten(-1, [2, 4]).transpose(1, 2)
    k = nested(5, 1, 2, cols=8).unflatten(-1, [2, 4]).transpose(1, 2)
    c = optimized(lambda q, k: functional.scaled_dot_product_attention(q, k, k), (q, k), target="h200")
    found = c.simulate(q, k)
    for a, b, have in zip(q.unbind(), k.unbind(), found.unbind(), strict=True):
        torch.testing.assert_close(have.float(), functional.scaled_dot_product_attention(a, b, b), rtol=1e-4, atol=1e-5)


def doubled(x):
    with torch.no_grad():
        return x * 2.0


GRADIENTS = {
    "elementwise": (FUNCTIONS["elementwise"], FUNCTIONS["elementwise"]),
    "a linear layer": (LINEAR, LINEAR),
    "a norm": (FUNCTIONS["a norm"], FUNCTIONS["a norm"]),
    "mean of rows": (lambda x: x.mean(1), lambda x: x.mean(0, keepdim=True)),
    "softmax of rows": (FUNCTIONS["softmax of rows"], lambda x: torch.softmax(x, 0)),
    "detached": (lambda x: torch.exp(x) * x.detach(), lambda x: torch.exp(x) * x.detach()),
    "without a gradient": (lambda x: torch.exp(x) * doubled(x), lambda x: torch.exp(x) * doubled(x)),
    "its data": (lambda x: torch.exp(x) * torch.tanh(x).data, lambda x: torch.exp(x) * torch.tanh(x).data),
    "a product of matrices": (lambda x: x @ MATRIX, lambda x: x @ MATRIX),
    "attention": (ATTENTION, ATTENTION),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_training_step(name):
    """Torch differentiates no mean over rows, and softmax of them otherwise than of each sequence; so each sequence is what is compared."""
    fn, row = GRADIENTS[name]
    learned = list(fn.parameters()) if isinstance(fn, torch.nn.Module) else []
    x = nested(*LENGTHS, requires_grad=True)
    c = optimized(fn, (x,), training=True, strict=True, target="h200")
    found, want = c.simulate(x, dtype="float32"), torch.cat(by_rows(row, x))
    torch.testing.assert_close(plain(found), want, rtol=1e-4, atol=1e-5)
    have = torch.autograd.grad(plain(found).square().sum(), [x, *learned])
    need = torch.autograd.grad(want.square().sum(), [x, *learned])
    for a, b in zip(have, need, strict=True):
        torch.testing.assert_close(plain(a), plain(b), rtol=1e-4, atol=1e-4)


def test_both_passes_are_planned_for_the_lengths_of_the_example():
    """Also by what the forward pass computes of offsets and saves for the backward pass."""
    x = nested(*LENGTHS, requires_grad=True)
    c = optimized(lambda x: torch.relu(x).mean(1), (x,), training=True, target="h200")
    for p in c.parts.values():
        program = p.traced.program
        whole = {i.name for i in program.inputs if i.dtype.kind == "int"}
        assert whole and program.samples.keys() == whole


def test_on_another_device_a_training_step_is_torchs():
    x = nested(*LENGTHS, requires_grad=True)
    c = optimized(ATTENTION.norm, (x,), training=True, target="h200")
    have, want = (torch.autograd.grad(f(x).values().square().sum(), x)[0] for f in (c, ATTENTION.norm))
    torch.testing.assert_close(have.values(), want.values())


def test_a_plan_keeps_no_data():
    x = nested(*LENGTHS)
    seen = [weakref.ref(t) for t in (x, x.offsets(), x._values)]
    c = optimized(FUNCTIONS["elementwise"], (x,))
    del x
    gc.collect()
    assert str(c.plan) and not any(ref() is not None for ref in seen)


@in_c
@pytest.mark.parametrize("training", [True, False])
def test_a_gradient_is_planned_for_or_torchs(training):
    x = nested(*LENGTHS, requires_grad=True)
    c = optimized(FUNCTIONS["elementwise"], (x,), training=training)
    have, want = (torch.autograd.grad(f(x).values().square().sum(), x)[0] for f in (c, FUNCTIONS["elementwise"]))
    torch.testing.assert_close(have.values(), want.values())
    assert training or c(x).grad_fn is not None
