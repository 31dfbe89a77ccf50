"""One ``Compiled`` at many sizes: traced once, planned where the model asks for it, right everywhere."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import eqfuse
from eqfuse import planning, ranges
from eqfuse.planning import Request, whole
from eqfuse.runtime.executable import Executable
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module


@pytest.fixture
def on_device(monkeypatch):
    """CPU tensors count as CUDA tensors; launches are interpreted, and what is launched is recorded."""
    launched = []

    def launcher(self):
        def run(*tensors):
            launched.append(self.generated.called_source)
            return interpret(load_module(self.generated.called_source, "interpret"), "run", *tensors, sanitize=False)

        return run

    monkeypatch.setattr(Executable, "_device", lambda self, tensors: "cuda")
    monkeypatch.setattr(Executable, "_run", property(launcher))
    return launched


@pytest.fixture
def counted(monkeypatch):
    """How often programs are traced with numbers, saturated and searched for a plan."""
    found = {"trace": 0, "saturate": 0, "extract": 0}

    def counting(owner, name):
        real = getattr(owner, name)

        def run(*args, **kwargs):
            found[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, run)

    for owner, name in ((Request, "trace"), (whole, "saturate"), (whole, "extract")):
        counting(owner, name)
    return found


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v


def heads(queries, keys, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn((2, 2, n, 16), generator=generator) for n in (queries, keys, keys))


def assert_right(c, *args):
    wanted = attention(*(x.double() for x in args))
    torch.testing.assert_close(c(*args).double(), wanted, rtol=1e-5, atol=1e-5)


ODD = (3, 7, 13, 17, 29, 31, 37, 61, 67, 97, 101, 127, 131, 255, 257, 333, 511, 513, 777, 1000)


def test_attention_at_every_number_of_keys(on_device, counted):
    c = eqfuse.optimize(attention, heads(16, 256), target="h200")
    assert counted == {"trace": 1, "saturate": 1, "extract": 1}
    for keys in (2, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, *ODD):
        assert_right(c, *heads(16, keys))
    assert counted["trace"] == 1
    assert len(set(on_device)) <= 16, "of 31 sizes"
    searched = counted["extract"]
    for keys in (5, 11, 100, 250, 999, 1023):
        assert_right(c, *heads(16, keys, seed=1))
    assert counted["trace"] == 1
    assert counted["extract"] == searched, "between sizes that were served nothing is searched"
    assert searched <= 8


def mlp(x, up, down):
    return torch.nn.functional.gelu(x @ up) @ down


MANY = {
    "attention": (attention, "h200", lambda n: heads(n, n), 16, (2, 7, 31, 128, 333, 1000)),
    "an mlp on a CPU": (mlp, "cpu", lambda n: tuple(map(torch.randn, ((n, 32), (32, 128), (128, 32)))), 128, (2, 7, 31, 333, 1000)),
}


@pytest.mark.parametrize("name", MANY)
def test_a_plan_that_serves_is_nearly_as_good_as_one_of_its_own(name):
    """By the model, of those tiles that no search was made for; few sizes are searched."""
    f, target, make, planned, lengths = MANY[name]
    c = eqfuse.optimize(f, make(planned), target=target)
    for n in lengths:
        args = make(n)
        c._serving(args, {})
        there = c.traced.at(args, {})
        sizes = {a.name: a.size for a in there.program.every_axis}
        serve = (known for known in c._range._plans if any(s.has(sizes, ()) for s in known.spans))
        served = next(serve).ratio(c.request, there)
        fresh = eqfuse.optimize(f, args, target=target)
        assert served <= (1 + ranges.MARGIN) * ranges.ratio(fresh.planned), n
    assert len(c._range._searched) < len(lengths)


def test_a_length_of_one_is_another_program(on_device, counted):
    c = eqfuse.optimize(attention, heads(16, 256), target="h200")
    assert_right(c, *heads(16, 1))
    assert counted["trace"] == 2


def test_4000_and_4096_are_one_plan_prefill_and_decode_are_two(on_device, counted):
    def meta(queries, keys):
        return tuple(torch.empty((2, 16, n, 128), dtype=torch.bfloat16, device="meta") for n in (queries, keys, keys))

    c = eqfuse.optimize(attention, meta(4096, 4096), target="h200")
    there, here = c._serving(meta(4000, 4000), {}).plan.kernels[0].kernel.roles, c.plan.kernels[0].kernel.roles
    assert {a.name: r for a, r in there.items()} == {a.name: r for a, r in here.items()}
    assert len(c._range._plans) == 1
    c._serving(meta(2, 8192), {})
    assert len(c._range._plans) == 2
    prefill, decode = c._range._plans
    assert (
        decode.planned.plan.estimated_us * (1 + ranges.MARGIN)
        < planning.like(prefill.planned, decode.planned.request, decode.planned.traced).plan.estimated_us
    )


def cache(keys, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn((1, n, 16), generator=generator) for n in (2, keys, keys))


def rows(columns, seed=0):
    """The first row begins with parts of which nothing is chosen."""
    x = 3 + torch.randn((2, columns), generator=torch.Generator().manual_seed(seed))
    x[0, :700] = -torch.inf
    return (x,)


# arguments of one length, the planned one, one from which on kernels with masks are made, and others: with a last part of one element, and
# with parts of which none is shorter
SPLIT = {
    "decode": (attention, cache, 2048, 1025, (1409, 1536)),
    "a long row": (lambda x: torch.softmax(x, -1), rows, 32768, 16385, (24577, 20480)),
}


@pytest.mark.parametrize("name", SPLIT)
def test_a_reduction_that_is_split_over_the_grid_serves_a_range(name, on_device, counted):
    f, make, planned, least, lengths = SPLIT[name]
    c = eqfuse.optimize(f, make(planned), target="h200")
    assert c.plan.splits

    def check(*some):
        for n in some:
            args = make(n, seed=n)
            torch.testing.assert_close(c(*args).double(), f(*(x.double() for x in args)), rtol=1e-5, atol=1e-6)

    check(least)
    before = dict(counted)
    check(*lengths)
    assert counted == before, "nothing is traced, saturated or searched within the range"
    (plan,) = c._range._plans
    assert len(plan.kernels) == 2, "with masks and without"


@pytest.mark.parametrize("correction", [1, pytest.param(2.5, marks=pytest.mark.exhaustive)])
def test_what_a_variance_divides_by_is_read_at_run_time(correction, on_device, counted):
    def f(x):
        return x.var(-1, correction=correction)

    c = eqfuse.optimize(f, (torch.randn(8, 128),), target="h200")  # which no power of two is a piece of
    for n in (99, 77, 3, 4, 127):
        x = torch.randn(8, n)
        torch.testing.assert_close(c(x).double(), f(x.double()), rtol=1e-5, atol=0)
    assert (counted["trace"], counted["saturate"], len(c._range._plans)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("planned", "taken", "refused", "requirement"),
    [pytest.param(2048, 1920, 1999, "divisible by 128", marks=pytest.mark.exhaustive), (1999, 1501, 4001, "of at most 4000")],
)
def test_a_saved_module_of_a_split_reduction_serves_a_range(planned, taken, refused, requirement):
    module = load_module(eqfuse.optimize(attention, cache(planned), target="h200").source, "interpret")
    args = cache(taken)
    wanted = attention(*(x.double() for x in args))
    torch.testing.assert_close(interpret(module, "run", *args, sanitize=False)[0].double(), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=f"planned for k_rows {requirement}"):
        interpret(module, "run", *cache(refused))


def test_a_program_that_looks_at_sizes_is_planned_for_each_side(on_device, counted):
    def f(x):
        return torch.softmax(x, -1) if x.shape[-1] > 64 else x.exp()

    c = eqfuse.optimize(f, (torch.randn(8, 100),), target="h200")
    for n in (70, 90, 64, 10):
        x = torch.randn(8, n)
        torch.testing.assert_close(c(x), f(x))
    assert counted["trace"] == 3, "below 65 it is another program, and each of these is traced by itself"


def test_what_the_kernels_need_of_sizes_is_said():
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.ones(64, 2048),), target="h200")
    assert all(g.holds({"x": (64, 2048)}) for g in c.guards)
    x = torch.ones(64, 2000)
    assert all(g.holds({"x": x.shape}) for g in c.guards) == (
        c.traced.at((x,), {}) is not None and c.serving(c.traced.at((x,), {})) is not None
    )
    assert all(f'{g.axis}", ' in c.source and g.requirement in c.source for g in c.guards)


LENGTHS = {
    "an input that is only as long": (lambda x, y: x * torch.ones_like(y).sum(), ((8,), (9,)), ((8,), (12,))),
    "a result as long as an input that is not read": (lambda x, y: torch.zeros(y.shape[0]) + x.sum(), ((8,), (9,)), ((8,), (12,))),
    "expanded": (lambda x, y: x[:, None].expand(x.shape[0], y.shape[0]) * 2, ((8,), (9,)), ((8,), (12,))),
    "a slice": (lambda x, y: x[: y.shape[0]] * 2, ((10,), (8,)), ((10,), (5,))),
    "a slice of something as long": (lambda x, y: x[: y.shape[0]] * 2, ((8,), (8,)), ((12,), (8,))),
    "repeated": (lambda x, y: x.repeat(y.shape[0], 1) * 2, ((6, 3), (2,)), ((6, 3), (3,))),
    "a diagonal": (lambda x: torch.diagonal(x) * 2, ((8, 8),), ((16, 24),)),
    "a diagonal, less": (lambda x: torch.diagonal(x) * 2, ((12, 12),), ((9, 12),)),
    "a type of sizes": (lambda x: x * (2.0 if isinstance(x.shape[0], int) else 3.0), ((8,),), ((9,),)),
    "a size as text": (lambda x: x * {"8": 2.0, "9": 3.0}.get(f"{x.shape[0]}", 1.0), ((8,),), ((9,),)),
    "a branch": (lambda x: x.exp() if x.shape[0] % 64 else x.sin(), ((100,),), ((128,),)),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_what_no_tensor_shows_is_looked_at(name, on_device):
    f, shapes, others = LENGTHS[name]
    c = eqfuse.optimize(f, tuple(torch.randn(s) for s in shapes), target="h200")
    for some in (others, shapes, others):
        args = tuple(torch.randn(s) for s in some)
        torch.testing.assert_close(c(*args), f(*args))


def test_a_gradient_at_another_size():
    """The operator that has the backward pass takes the sizes that it was made for."""
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.ones(64, 100),), target="h200")
    there = c.traced.at((torch.ones(8, 50),), {})
    served = c.serving(there)
    if served is None:
        served = c._serving((torch.ones(8, 50),), {})
    x = torch.randn(8, 50)
    module = load_module(served.generated.exact_source, "interpret")
    torch.testing.assert_close(interpret(module, "run", x)[0], torch.softmax(x, -1))
    with pytest.raises(ValueError, match="of 50"):
        interpret(module, "run", torch.randn(8, 100))


def test_a_part_of_a_longer_tensor_is_as_long_as_what_it_is_added_to():
    """Embeddings of positions: one set of kernels up to the length of the table."""

    def f(x, table):
        return (x + table[2 : 2 + x.shape[0]]).exp()

    c = eqfuse.optimize(f, (torch.randn(5, 8), torch.randn(40, 8)), target="cpu")
    assert "x_rows of at most 38" in map(str, c.guards)
    for rows in (5, 6, 13, 38):
        x, table = torch.randn(rows, 8), torch.randn(40, 8)
        torch.testing.assert_close(c(x, table), f(x, table))
    assert len(c.form._range._plans) == 1


def test_a_parameter_of_another_shape_is_planned_for(on_device):
    m = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU())
    with torch.no_grad():
        c = eqfuse.optimize(m, (torch.randn(4, 16),), target="h200")
        c(torch.randn(5, 16))
        m[0] = torch.nn.Linear(16, 32)
        for rows in (6, 7, 4):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(c(x), m(x), rtol=1e-4, atol=1e-5)


def test_arguments_are_not_kept(on_device):
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.randn(64, 100),), target="h200")
    for shape in ((8, 50), (8, 1)):
        x = torch.randn(shape)
        c(x)
        kept = weakref.ref(x)
        del x
        gc.collect()
        assert kept() is None


def test_what_is_kept_is_bounded(on_device):
    c = eqfuse.optimize(lambda x: x * x.shape[0], (torch.randn(8),), target="h200")
    for n in range(2, 24):
        x = torch.randn(n)
        torch.testing.assert_close(c(x), x * n)
    assert len(c._range._plans) <= ranges.MOST_PLANS
    assert all(len(p.kernels) <= ranges.MOST_KERNELS for p in c._range._plans)


def test_a_saved_module_asks_what_the_function_asked(tmp_path):
    asked = {
        "of at most 5000, on which": lambda x: x.exp() if x.shape[-1] <= 5000 else x.sin(),
        "of 100": lambda x: x.exp() if x.shape[-1] % 64 else x.sin(),
    }
    for requirement, f in asked.items():
        c = eqfuse.optimize(f, (torch.randn(2, 100),), target="h200")
        module = load_module(c.source, "interpret")
        with pytest.raises(ValueError, match=requirement):
            interpret(module, "run", torch.randn(2, 6016))


def test_a_call_with_another_layout_is_planned_once_for_its_kind(monkeypatch, counted):
    """What is launched is recorded; that it is right for any layout, other tests show (``tests/api/test_strides.py``)."""

    def norm(x):
        return x - x.mean(1, keepdim=True)

    def launch(executable):
        return lambda *tensors: launched.append(executable.generated.called_source) or [norm(*tensors)]

    def by(x):
        torch.testing.assert_close(c(x), norm(x))
        return launched[-1]

    launched = []
    monkeypatch.setattr(Executable, "_device", lambda self, tensors: "cuda")
    monkeypatch.setattr(Executable, "_run", property(launch))
    x = torch.randn(1024, 1024)
    c = eqfuse.optimize(norm, (x,), target="h200")
    first = by(x)
    assert by(torch.randn(1024, 2048)[:, 512:1536]) == first and counted["extract"] == 1, "as aligned as without gaps"
    other = by(x.t())
    assert other != first and len(c._range._plans) == 2
    assert by(torch.randn(1024, 2048).t()[512:1536]) == other and by(x) == first
    assert len(c._range._plans) == 2
    by(x[:1].expand(1024, 1024))
    assert len(c._range._plans) == 2, "one of these is within a tenth of the bound"
    by(torch.randn(1024, 512).t())
    assert counted["trace"] == 1
