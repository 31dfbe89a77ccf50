"""`eqfuse.op`: an op from one declaration is traced, fused, repaired by its traits and verified; false declarations are refused."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch._subclasses import FakeTensorMode

import eqfuse
from eqfuse import errors
from eqfuse.egraph import audit, saturate
from eqfuse.egraph.frozen import levels
from eqfuse.frontends import aten, custom_op
from eqfuse.ir import ops
from eqfuse.ir.build import axes, lt, maximum_over, program, select, sum_over, tensor
from eqfuse.ir.ranges import ALL, INF, Interval
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Const, Map
from eqfuse.rewrites.check import check_rule
from eqfuse.tiles.analysis import Facts


@triton.jit
def log_one_plus(e):
    """log(1 + e) for e in [0, 1]."""
    u = 1.0 + e
    return tl.where(u == 1.0, e, tl.log(u) * (e / (u - 1.0)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log_one_plus(tl.exp(-tl.abs(x)))


SOFTPLUS = {
    "name": "soft_plus", "numpy": lambda x: np.logaddexp(x, 0.0), "triton": softplus, "increasing": True, "cost": 14, "special": 3,
    "torch": lambda x: torch.nn.functional.softplus(x, threshold=40.0),
}  # fmt: skip
EXP10 = {
    "name": "exp10", "numpy": lambda x: np.power(10.0, x), "triton": "tl.exp2({} * 3.321928094887362)", "increasing": True,
    "turns": (("add", "mul"),), "cost": 2, "special": 1,
}  # fmt: skip
APART = {
    "name": "apart", "numpy": lambda x, y: (x - y) ** 2, "triton": "({0} - {1}) * ({0} - {1})", "range": (0, INF), "commutative": True,
    "keeps_zero": True,
}  # fmt: skip


@pytest.fixture
def declare():
    """``eqfuse.op`` whose ops are gone after the test."""
    made = []

    def go(**declaration):
        made.append(eqfuse.op(**declaration))
        return made[-1]

    yield go
    for f in made:
        f.unregister()
    assert set(ops.OPS) == ops.BUILT_IN
    assert not [k for k in aten.OPS if k.startswith(custom_op.NAMESPACE)]


def passes(compiled):
    return [dict(k.passes) for k in compiled.plan.kernels]


def normalised(f, *, shifted=False):
    """Weights f(s) / sum f(s), applied to v; ``shifted`` takes the maximum off first."""

    def attention(q, k, v):
        s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        w = f(s - s.amax(-1, keepdim=True) if shifted else s)
        return (w / w.sum(-1, keepdim=True)) @ v

    return attention


def qkv(n, dtype, heads=2, device="cpu"):
    return tuple(torch.randn(1, heads, n, 64, device=device).to(dtype) for _ in range(3))


# (i) a new op, whole ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_softplus_normalised_attention_is_one_kernel_and_one_pass(declare, dtype):
    f = declare(**SOFTPLUS)
    objective = "memory" if dtype == torch.float32 else "time"  # full float32 products are so slow that to store the scores costs less time
    c = eqfuse.optimize(normalised(f), qkv(4096, dtype, 16, "meta"), target="h200", objective=objective)
    assert passes(c) == [{"k_rows": 1}], str(c.plan)
    assert c.source.count("_soft_plus(") == 2  # its definition and one call
    torch.manual_seed(0)
    small = qkv(200, dtype)
    same = c.at(*small)
    q, k, v = (t.double().numpy() for t in small)
    w = np.logaddexp(q @ k.swapaxes(-1, -2) / 8, 0.0)
    exact = w / w.sum(-1, keepdims=True) @ v
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6}[dtype]
    assert np.abs(same.interpret(*small).double().numpy() - exact).max() <= tolerance * np.abs(exact).max()
    assert np.abs(same.simulate(*small).double().numpy() - exact).max() <= 1e-12 * np.abs(exact).max()
    same.accuracy(*small).check()


# (ii) repair follows from a trait -----------------------------------------------------------------------------------------------------
def test_a_running_maximum_is_derived_from_the_trait_alone(declare):
    large = qkv(4096, torch.float16, 16, "meta")
    f = declare(**EXP10)
    once = eqfuse.optimize(normalised(f, shifted=True), large, target="h200")
    assert passes(once) == [{"k_rows": 1}], str(once.plan)
    assert "factor_of_exponential" in str(once.plan)
    torch.manual_seed(0)
    small = qkv(200, torch.float16)
    once.at(*small).accuracy(*small).check()
    f.unregister()

    f = declare(**{**EXP10, "turns": ()})
    twice = eqfuse.optimize(normalised(f, shifted=True), large, target="h200")
    assert sum(n for k in passes(twice) for n in k.values()) >= 2, str(twice.plan)
    assert "factor_of_exponential" not in str(twice.plan)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_masked_rows_are_repaired_too(declare, dtype):
    """A causal mask puts -inf into the running maximum; exp10(-inf) is 0, which the check made sure of."""
    f = declare(**EXP10)

    def causal(q, k, v):
        s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        future = torch.arange(k.shape[-2], device=q.device) > torch.arange(q.shape[-2], device=q.device)[:, None]
        s = s.masked_fill(future, -torch.inf)
        w = f(s - s.amax(-1, keepdim=True))
        return (w / w.sum(-1, keepdim=True)) @ v

    c = eqfuse.optimize(causal, qkv(2048, dtype, 16, "meta"), target="h200")
    assert passes(c) == [{"k_rows": 1}], str(c.plan)
    torch.manual_seed(0)
    small = qkv(200, dtype)
    q, k, v = (t.double() for t in small)
    s = (q @ k.mT / 8 * np.log(10)).masked_fill(torch.ones(200, 200, dtype=torch.bool).triu(1), -torch.inf)
    exact = torch.softmax(s, -1) @ v
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6}[dtype]
    same = c.at(*small)
    for found, allowed in ((same.interpret(*small), tolerance), (same.simulate(*small), 1e-12)):
        assert (found.double() - exact).abs().max() <= allowed * exact.abs().max()


def rows(f, i, j):
    x = tensor("x", i, j)
    return program("rows", y=(sum_over(j, f(x - maximum_over(j, x))), (i,)))


def test_levels_say_one_loop_with_the_trait_and_two_without(declare):
    i, j = axes(i=4, j=8)
    f = declare(**EXP10)
    graph = saturate(rows(f, i, j))
    assert levels(graph, graph.roots["y"], j) == 1
    audit(graph)
    f.unregister()
    graph = saturate(rows(declare(**{**EXP10, "turns": ()}), i, j))
    assert levels(graph, graph.roots["y"], j) == 2


# (iii) rules that are loaded already --------------------------------------------------------------------------------------------------
def test_an_op_takes_part_in_rules_and_engines_that_exist_before_it(declare):
    i, j = axes(i=4, j=8)
    x = tensor("x", i, j)
    saturate(program("before", y=(sum_over(j, x), (i,))))  # rules loaded, engine compiled and kept
    quantified = next(r for r in eqfuse.rules() if r.name == "factor_of_exponential")
    f = declare(**EXP10)
    graph = saturate(rows(f, i, j))
    assert levels(graph, graph.roots["y"], j) == 1
    name = next(v for v in quantified.variables if v.name == "o")
    assert "exp10" in name.choices()  # the rule's own check draws it, too
    check_rule(quantified, examples=20)


# tensors and terms ----------------------------------------------------------------------------------------------------------------------
def test_eager_says_what_numpy_says(declare):
    f, h = declare(**EXP10), declare(**APART)
    x = torch.linspace(-3, 3, 13)
    np.testing.assert_allclose(f(x).numpy(), 10.0 ** x.double().numpy(), rtol=1e-7)
    assert f(x.half()).dtype == torch.float16
    assert f(torch.arange(3)).tolist() == [1.0, 10.0, 100.0]
    assert h(torch.tensor([[3.0], [6.0]]), torch.tensor([4.0, 8.0])).shape == (2, 2)
    assert h(torch.tensor([3.0]), 5).item() == 4.0
    assert h(3.0, torch.tensor([4], dtype=torch.int32)).dtype == torch.float32
    assert h(3.0, 5.0) == 4.0
    assert f(torch.ones(0, 3)).shape == (0, 3)


def test_torch_knows_the_operator(declare):
    f, h = declare(**SOFTPLUS), declare(**APART)
    torch.library.opcheck(getattr(torch.ops.eqfuse_op, f.name), (torch.randn(4, 5, requires_grad=True),))
    torch.library.opcheck(
        getattr(torch.ops.eqfuse_op, h.name), (torch.randn(4, 1), torch.randn(5).half()), test_utils=("test_schema", "test_faketensor")
    )


def test_terms_build_and_mean_what_numpy_says(declare):
    h = declare(**APART)
    i, j = axes(i=4, j=8)
    x, y = tensor("x", i, j), tensor("y", j)
    p = program("long", z=(h(x, y) + h(x, 3.0) + h(3.0, Const(5.0)), (i, j)))
    given = {"x": np.random.default_rng(0).standard_normal((4, 8)), "y": np.arange(8.0)}
    np.testing.assert_allclose(evaluate(p, given)["z"], (given["x"] - given["y"]) ** 2 + (given["x"] - 3.0) ** 2 + 4.0)
    c = eqfuse.optimize(p, target="h200")
    x_, y_ = (torch.from_numpy(v.astype(np.float32)) for v in given.values())
    c.accuracy(x_, y_).check()


def test_numbers_integers_and_truth_values_in_programs(declare):
    h = declare(**APART)
    near = declare(name="near", numpy=lambda x, y: np.abs(x - y) < 0.5, triton="tl.abs({} - {}) < 0.5", range=(0, 1), result="bool",
                   commutative=True)  # fmt: skip
    double = declare(name="double", numpy=lambda x: x + x, triton="{0} + {0}", range=lambda a: (2 * a.lo, 2 * a.hi), result="same",
                     increasing=True, keeps_zero=True, turns=(("add", "add"),))  # fmt: skip
    x, n = torch.randn(6, 40), torch.arange(40)
    c = eqfuse.optimize(lambda x, n: (h(x, 2.0) + double(n)).sum(-1) + torch.where(near(x, 0), x, 0.0).sum(-1), (x, n), target="h200")
    c.accuracy(x, n).check()
    assert eqfuse.optimize(lambda n: double(n), (n,), target="h200").interpret(n).tolist() == (2 * n).tolist()


def test_gradients_come_from_the_torch_function(declare):
    f, g = declare(**SOFTPLUS), declare(**EXP10)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,))
    (found,) = torch.autograd.grad((f(x) * 3).sum(), x)
    torch.testing.assert_close(found, 3 * torch.sigmoid(x))
    with pytest.raises(errors.UnsupportedOpError, match=r"exp10 has no derivative[\s\S]*torch="):
        g(x).sum().backward()


def test_derivatives_of_any_kind(declare):
    f = declare(**SOFTPLUS)
    x = torch.randn(4)
    torch.testing.assert_close(torch.func.hessian(lambda x: f(x).sum())(x), torch.diag(torch.sigmoid(x) * torch.sigmoid(-x)))
    compiled = torch.compile(lambda x: f(x).sum(), backend="aot_eager")
    y = x.clone().requires_grad_()
    compiled(y).backward()
    torch.testing.assert_close(y.grad, torch.sigmoid(x))


def test_modules_with_parameters_and_exported_programs(declare):
    """A parameter wants a gradient; tracing still sees one operator."""
    f, g = declare(**SOFTPLUS), declare(**EXP10)

    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(16, 8) / 10)

        def forward(self, x):
            return f(g(x @ self.weight)).sum(-1)

    module, x = Gated(), torch.randn(4, 16)
    exported = torch.export.export(module, (x,))
    for program_ in (module, exported, torch.fx.symbolic_trace(module)):
        c = eqfuse.optimize(program_, None if program_ is exported else (x,), target="h200")
        assert {"soft_plus", "exp10"} <= {t.op for t in c.program.terms() if isinstance(t, Map)}
        torch.testing.assert_close(c.interpret(x), module(x).detach(), rtol=1e-5, atol=1e-5)


def test_backward_of_a_compiled_program(declare):
    f = declare(**SOFTPLUS)
    x = torch.randn(4, 16, requires_grad=True)
    c = eqfuse.optimize(lambda x: (f(x) / f(x).sum(-1, keepdim=True)) * x, (x,), target="h200")
    weight = torch.randn(4, 16)
    (ours,) = torch.autograd.grad((c.op(x)[0] * weight).sum(), x)
    soft = torch.nn.functional.softplus(x)
    (exact,) = torch.autograd.grad((soft / soft.sum(-1, keepdim=True) * x * weight).sum(), x)
    torch.testing.assert_close(ours, exact)


def test_without_a_torch_function_torch_runs_it_on_the_cpu_only(declare):
    f = declare(**EXP10)
    with FakeTensorMode(), pytest.raises(errors.DeviceError, match="torch cannot run it on cuda"):
        custom_op.in_numpy(f.spec, (torch.empty(3, device="cuda"),))


def test_arguments_that_do_not_fit(declare):
    f = declare(**EXP10)
    with pytest.raises(errors.OpError, match="takes 1 arguments, not 2"):
        f(torch.ones(2), torch.ones(2))
    with pytest.raises(errors.UnsupportedOpError, match="complex"):
        f(torch.ones(2, dtype=torch.complex64))


def test_unregistered_means_unknown(declare):
    f = declare(**EXP10)
    f.unregister()
    f.unregister()  # twice is once
    with pytest.raises(errors.UnsupportedOpError, match=r"eqfuse_op\.exp10"):
        eqfuse.optimize(lambda x: f(x) * 2, (torch.randn(5, 7),), target="h200", strict=True)
    with pytest.raises(AssertionError):
        ops.unregister("exp")


def test_ranges_reach_the_analyses(declare):
    """Declared, or asked at the ends of an increasing op; they are facts of the e-graph and of the kernel."""
    f = declare(**SOFTPLUS)
    assert f.spec.range(Interval(-INF, 0.0)) == Interval(0.0, np.log(2.0))
    assert f.spec.range(ALL) == Interval(0.0, INF)
    gate = declare(name="gate", numpy=lambda x: 1 + x / (1 + np.abs(x)), triton="1.0 + {0} / (1.0 + tl.abs({0}))", range=(0, 2),
                   atol=2e-7)  # fmt: skip
    c = eqfuse.optimize(lambda x: f(x) * gate(x), (torch.randn(8, 64),), target="h200")
    classes = {n.attrs[0]: k for k, members in enumerate(c.graph.classes) for n in members if n.op == "map"}
    facts = {name: {row[0] for row in c.graph.facts[name]} for name in ("nonneg", "size")}
    assert classes["soft_plus"] in facts["nonneg"] - facts["size"]
    assert classes["gate"] in facts["nonneg"]
    assert (classes["gate"], 2.0) in c.graph.facts["size"]
    kernel = c.plan.kernels[0].kernel
    nodes = {n.attrs[0]: k for k, n in enumerate(kernel.nodes) if n.op == "map"}
    assert Facts(kernel).range(nodes["gate"]) == Interval(0.0, 2.0)


def test_a_decreasing_exponential_is_not_moved_beyond_its_maximum(declare):
    """exp(-x): o(x - max x) is huge where o(x + l) is at most 1, so a late l may not be exchanged for the maximum."""
    f = declare(name="nexp", numpy=lambda x: np.exp(-x), triton="tl.exp(-{})", turns=(("add", "mul"),),
                range=lambda a: (np.exp(-a.hi), np.exp(-a.lo)), cost=2, special=1)  # fmt: skip

    def lightest(x, v):
        m = x.amin(-1, keepdim=True)
        late = torch.log(f(x - m).sum(-1, keepdim=True)) - m
        return (f(x + late) * v).sum(-1)

    c = eqfuse.optimize(lightest, [torch.randn(64, 1 << 20, device="meta")] * 2, target="h200")
    torch.manual_seed(0)
    x, v = 60 * torch.randn(8, 10000), torch.randn(8, 10000)
    found = c.at(x, v).simulate(x, v, dtype=np.float32)
    w = torch.softmax(-x.double(), -1)
    torch.testing.assert_close(found.double(), (w * v.double()).sum(-1), rtol=1e-3, atol=1e-3)


def test_known_truth_values_are_not_printed():
    """`and` with a number that is known folds: a kernel has no truth value to print for it."""
    (i,) = axes(i=32)
    x = tensor("x", i)
    for op, number, kept in (("and", 1.0, "below"), ("and", 0.0, "none"), ("or", 0.0, "below"), ("or", 2.0, "all")):
        c = eqfuse.optimize(program("p", y=(select(Map(op, (Const(number), lt(x, 0.0))), x, 0.0), (i,))), target="h200")
        given = torch.randn(32)
        want = {"below": given.clamp(max=0), "none": torch.zeros(32), "all": given}[kept]
        assert c.interpret(given).equal(want), (op, number)


# the page ---------------------------------------------------------------------------------------------------------------------------------
def test_the_page_runs(tmp_path):
    """The blocks of docs/ops.md, in order, as one file."""
    page = (Path(eqfuse.__file__).parent / "docs" / "ops.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    (tmp_path / "ops.py").write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, "ops.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (shown,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for line in shown.splitlines():
        told = line.removeprefix("ops.py:83: ").split("(0.002")[0]  # digits of a float32 logarithm may differ
        assert told in done.stdout, done.stdout


# what is refused ------------------------------------------------------------------------------------------------------------------------
def halve(x):
    return x / 2


HALF = {"name": "halve", "numpy": halve, "triton": "{} * 0.5", "increasing": True}
MEAN = {"name": "middle", "numpy": lambda x, y: x / 2 + y / 2, "triton": "{} * 0.5 + {} * 0.5", "range": (-INF, INF)}
MALFORMED = {
    "a name of the library": ({"name": "exp"}, "the library has an op of this name"),
    "a name that is none": ({"name": "10x"}, "cannot be the name"),
    "a keyword": ({"name": "lambda"}, "cannot be the name"),
    "a hidden name": ({"name": "_halve"}, "cannot be the name"),
    "no range": ({"increasing": False}, "range= is missing"),
    "a range that is no pair": ({"range": (1, 2, 3)}, "no pair"),
    "a range the wrong way round": ({"range": (2, 1)}, "no pair"),
    "a range that fails": ({"range": lambda a: Interval(a.lo / 0, 1)}, "range= fails on"),
    "a range of something else": ({"range": lambda a: 3}, "range= gives 3"),
    "not vectorised": ({"numpy": lambda x: float(x) / 2}, "not vectorised"),
    "a branch": ({"numpy": lambda x: x / 2 if x > 0 else x * 0.5}, "not vectorised"),
    "a reduction": ({"numpy": lambda x: np.sum(x) / 2}, "shape"),
    "not a function": ({"numpy": 3}, "not a function"),
    "any arguments": ({"numpy": lambda *x: x[0]}, "how many arguments"),
    "no arguments": ({"numpy": lambda: 1.0}, "takes 0 arguments"),
    "four arguments": ({"numpy": lambda a, b, c, d: a, "triton": "{} + {} + {} + {}", "range": (-INF, INF), "increasing": False}, "takes 4 arguments"),
    "complex": ({"numpy": lambda x: np.sqrt(x + 0j)}, "kind 'c'|not vectorised"),
    "too few places": ({"triton": "tl.exp(2.0)"}, "numpy takes 1 argument, .* names 0"),
    "too many places": ({"triton": "{} * {}"}, "names 2"),
    "a place beyond": ({"triton": "{1} * 0.5"}, "names 1"),
    "a named place": ({"triton": "{x} * 0.5"}, "neither"),
    "an attribute": ({"triton": "{0.shape} * 0.5"}, "neither"),
    "an open brace": ({"triton": "{ * 0.5"}, "no format string|neither"),
    "no expression": ({"triton": "{} *"}, "no expression"),
    "a statement": ({"triton": "y = {}"}, "no expression"),
    "numpy in Triton": ({"triton": "np.divide({}, 2)"}, "uses 'np'"),
    "no such function": ({"triton": "tl.halve({})"}, "does not run: .*halve"),
    "a branch in Triton": ({"triton": "({0} * 0.5 if {0} > 0 else {0} * 0.5)"}, "does not (run|compile)"),
    "not Triton at all": ({"triton": 5}, "triton= is a int"),
    "a result of another type": ({"triton": "{} > 0"}, "halve must give tl.float32"),
    "a prelude that is no text of functions": ({"triton": "_h({})", "prelude": "import os"}, "no @triton.jit function"),
    "a prelude that is no Python": ({"triton": "_h({})", "prelude": "def"}, "no Python"),
    "a helper with a local's name": ({"triton": "h({})", "prelude": "@triton.jit\ndef h(x):\n    return x * 0.5"}, "call it _h"),
    "a helper of the library": ({"triton": "_tanh({})", "prelude": "@triton.jit\ndef _tanh(x):\n    return x * 0.5"}, "one of op tanh"),
    "an unknown result": ({"result": "complex"}, "unknown result"),
    "an unknown domain": ({"domain": "complex"}, "unknown domain"),
    "turns of an unknown op": ({"turns": (("plus", "mul"),)}, "no pair of ops"),
    "turns that is no list": ({"turns": "add"}, "turns is a tuple|no pair of ops"),
    "a negative cost": ({"cost": -1}, "cost is -1"),
    "commutative with one argument": ({"commutative": True}, "two arguments"),
    "increasing with two": ({**MEAN, "increasing": True}, "increasing is a trait"),
    "torch that fails": ({"torch": lambda x: x.halve()}, "torch= fails"),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_declarations_are_refused(case):
    change, said = MALFORMED[case]
    with pytest.raises(errors.OpError, match=said) as info:
        eqfuse.op(**{**HALF, **change})
    assert type(info.value) is errors.OpError
    assert "api/test_own_op.py:" in info.value.where
    assert set(ops.OPS) == ops.BUILT_IN


FALSE = {
    "not by element": ({"numpy": lambda x: x / np.size(x), "triton": "{}"}, "element by element"),
    "the spelling": ({"triton": "{} * 0.25"}, "Triton spelling"),
    "the spelling at infinity": ({"numpy": lambda x: x / 2, "triton": "tl.minimum({} * 0.5, 3e38)"}, r"halve\(inf\)"),
    "the spelling of a NaN": ({"triton": "tl.where({0} > 0, {0} * 0.5, tl.where({0} < 0, {0} * 0.5, 0.0))"}, r"halve\(nan\)"),
    "digits near a zero": ({"numpy": lambda x: 1 + x / (1 + np.abs(x)), "triton": "1.0 + {0} / (1.0 + tl.abs({0}))"}, r"halve\(-1000.0\)"),
    "digits of the spelling": ({"numpy": np.log1p, "domain": "nonneg", "triton": "tl.log(1.0 + {})"}, r"halve\(0.00"),
    "a range too narrow": ({"range": (-10, 10)}, "its range on"),
    "a range of other ends": ({"range": lambda a: (a.lo, a.hi)}, "its range on"),
    "a range of the wrong sign": ({"range": (0, INF)}, "its range on"),
    "increasing": ({"numpy": np.negative, "triton": "-{}", "range": (-INF, INF)}, "increasing"),
    "increasing, and no range": ({"numpy": lambda x: x**2, "triton": "{0} * {0}"}, r"increasing, but halve\(-1.0\) = 1.0 and halve\(-0.99"),
    "increasing at both ends of many ranges": ({"numpy": lambda x: x**3 - x, "triton": "{0} * {0} * {0} - {0}"}, "increasing, but"),
    "increasing in places": ({"numpy": np.sin, "triton": "tl.sin({})", "range": (-1, 1)}, "finite numbers|increasing"),
    "keeps_zero": ({"numpy": lambda x: x + 1, "triton": "{} + 1.0", "keeps_zero": True}, "keeps_zero"),
    "turns add into mul": ({"turns": (("add", "mul"),)}, "turns add into mul"),
    "turns mul into mul": ({"turns": (("mul", "mul"),)}, "turns mul into mul"),
    "turns where it is finite only": (
        {"numpy": lambda x: np.ones_like(x), "triton": "{} * 0.0 + 1.0", "range": (0, 2), "turns": (("add", "mul"),)},
        r"\(-inf\) = 1.0, not 0|Triton",
    ),
    "turns of zero": ({"numpy": lambda x: x * 0.0, "triton": "{} * 0.0", "range": (0, 0), "turns": (("add", "mul"),)}, "finite|not 1"),
    "the domain of a logarithm": ({"numpy": np.log, "triton": "tl.log({})"}, "finite numbers of its domain"),
    "a pole": ({"numpy": lambda x: 1 / (x - 5), "triton": "1.0 / ({} - 5.0)", "range": (-INF, INF), "increasing": False}, r"halve\(5.0\) = inf"),
    "a pole at zero": ({"numpy": lambda x: 1 / x, "triton": "1.0 / {}", "range": (-INF, INF), "increasing": False}, r"halve\(-?0.0\) = -?inf"),
    "integers from integers": ({"result": "same"}, "integers"),
    "truth values": ({"result": "bool", "range": (-INF, INF)}, "truth value"),
    "commutative": ({"name": "less_of", "numpy": lambda x, y: x - y, "triton": "{} - {}", "increasing": False, "range": (-INF, INF),
                     "commutative": True}, "commutative"),
    "associative": ({**MEAN, "increasing": False, "associative": True}, "associative"),
    "the torch function": ({"torch": lambda x: x * 0.5 + 1e-3}, "torch function"),
    "the second time": ({"numpy": lambda x, state=[0]: (state.append(0), x / 2 + len(state))[1], "range": (-INF, INF)}, "element|second time"),
}  # fmt: skip


@pytest.mark.parametrize("case", FALSE)
def test_false_declarations_are_refused_with_a_counterexample(case):
    change, said = FALSE[case]
    with pytest.raises(errors.OpError, match=said) as info:
        eqfuse.op(**{**HALF, **change})
    assert type(info.value) is errors.UnsoundOpError
    assert "api/test_own_op.py:" in info.value.where
    assert set(ops.OPS) == ops.BUILT_IN


def test_the_true_declaration_of_the_tables_is_accepted(declare):
    declare(**HALF)
    declare(**MEAN)


def test_a_name_is_declared_once(declare):
    first = declare(**HALF)
    with pytest.raises(errors.OpError, match=r"already declared at .*test_own_op\.py") as info:
        eqfuse.op(**HALF)
    assert "unregister" in info.value.cure
    first.unregister()
    again = declare(**{**HALF, "numpy": lambda x: x / 4, "triton": "{} * 0.25"})
    assert again(torch.tensor([8.0])).item() == 2.0
    c = eqfuse.optimize(lambda x: again(x) + 1, (torch.randn(6, 8),), target="h200")
    assert c.interpret(torch.full((6, 8), 8.0)).eq(3.0).all()


def test_signs_that_ranges_seem_to_say_are_not_believed_too_early(declare):
    """x + 2 is positive on [-1, 1]; that must not make it positive for every finite x."""
    f = declare(name="plus_two", numpy=lambda x: x + 2, triton="{} + 2.0", range=lambda a: (a.lo + 2, a.hi + 2), increasing=True)
    i, j = axes(i=4, j=8)
    x = tensor("x", i, j)
    graph = saturate(program("signs", y=(f(x * 0.0), (i, j))))
    assert graph.roots["y"] not in {c for (c,) in graph.facts["positive"]}
