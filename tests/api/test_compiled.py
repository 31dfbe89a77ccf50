"""What ``optimize`` returns: called, interpreted, simulated, explained, compiled, saved."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse.errors import DeviceError, ShapeError
from eqfuse.explain import explain
from eqfuse.extract.plan import Alternative
from eqfuse.frontends import TensorSpec
from eqfuse.planning import exchanged, whole
from eqfuse.testing.programs import PROGRAMS

G = torch.Generator().manual_seed(0)
X = torch.randn(6, 40, generator=G)


def rows(x, scale=1.0):
    return torch.softmax(x * scale, -1)


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(rows, (X,), target="h200")


@pytest.fixture(scope="module")
def decode():
    """Split over the keys: two kernels and plans that lost."""
    case = PROGRAMS["attention_decode"]
    return eqfuse.optimize(case.fn, case.args("bench", "float16", device="meta"), **case.options, target="h200")


# running ----------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["layernorm", "attention_lse", "cross_entropy"])
def test_cpu_tensors_run_torch_to_the_bit(name):
    case = PROGRAMS[name]
    args = case.args("small", "float32", generator=1)
    compiled = eqfuse.optimize(case.fn, args, target="h200")
    found, expected = compiled(*args), case.fn(*args)
    for f, e in zip(*(([v] if isinstance(v, torch.Tensor) else v) for v in (found, expected)), strict=True):
        assert torch.equal(f, e)
    assert "CPU tensors run the original program in torch" in str(compiled.plan)


def test_a_kernel_prints_on_one_line(compiled):
    (kernel,) = compiled.plan.kernels
    assert repr(kernel).startswith(f"<PlannedKernel {kernel.kernel.name}: ")
    assert len(repr(compiled.plan.kernels)) < 300
    assert "bound by" in repr(kernel)


def test_cpu_and_meta_tensors_of_any_shape_run_torch(compiled):
    assert torch.equal(compiled(X.T), rows(X.T))
    assert torch.equal(compiled(X.half()), rows(X.half()))
    assert compiled(X.to("meta")).is_meta


def test_gradients_on_the_cpu_are_torchs(compiled):
    x = X.clone().requires_grad_()
    compiled(x).square().sum().backward()
    y = X.clone().requires_grad_()
    rows(y).square().sum().backward()
    assert torch.equal(x.grad, y.grad)


def test_interpret_takes_any_memory_layout(compiled):
    expected = compiled.interpret(X)
    torch.testing.assert_close(expected.double(), rows(X.double()), rtol=1e-6, atol=1e-7)
    wide = torch.zeros(6, 80)
    wide[:, ::2] = X
    for x in (X.T.contiguous().T, wide[:, ::2]):
        assert not x.is_contiguous()
        assert torch.equal(compiled.interpret(x), expected)
    assert torch.equal(compiled.interpret(X, sanitize=False), expected)


def test_simulate_is_float64(compiled):
    found = compiled.simulate(X)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, rows(X.double()), rtol=1e-12, atol=1e-14)


def test_keyword_arguments():
    def fn(x, *, shift, scale=2.0):
        return torch.softmax(x * scale + shift, -1)

    shift = torch.randn(40, generator=G)
    compiled = eqfuse.optimize(fn, (X,), kwargs={"shift": shift, "scale": 3.0}, target="h200")
    assert [i.name for i in compiled.program.inputs] == ["x", "shift"]
    assert torch.equal(compiled(X, shift=shift, scale=3.0), fn(X, shift=shift, scale=3.0))
    exact = fn(X.double(), shift=shift.double(), scale=3.0)
    torch.testing.assert_close(compiled.simulate(X, shift=shift, scale=3.0), exact)
    torch.testing.assert_close(compiled.interpret(X, shift=shift, scale=3.0), exact.float())
    compiled.accuracy(X, shift=shift, scale=3.0).check()
    small = compiled.at(X[:3, :20], shift=shift[:20], scale=3.0)
    torch.testing.assert_close(
        small.simulate(X[:3, :20], shift=shift[:20], scale=3.0), fn(X[:3, :20].double(), shift=shift[:20].double(), scale=3.0)
    )


def test_at_keeps_kernels_roles_and_tiles(decode):
    args = PROGRAMS["attention_decode"].args("check", "float16", generator=2)
    small = decode.at(*args)
    assert len(small.plan.kernels) == len(decode.plan.kernels) == 2
    for k, m in zip(small.plan.kernels, decode.plan.kernels, strict=True):
        assert {a.name: r.kind for a, r in k.kernel.roles.items()} == {a.name: r.kind for a, r in m.kernel.roles.items()}
    small.accuracy(*args).check()


def test_accuracy(compiled):
    report = compiled.accuracy(X)
    assert [o.name for o in report.outputs] == ["out"]
    assert 0 < report.outputs[0].ours < 1e-6
    assert "error against float64 (interpret)" in str(report)
    exact = compiled.accuracy(X, runner="simulate").outputs[0]
    assert exact.ours < 1e-14 < exact.eager


# other shapes on a GPU: the decision, without one -------------------------------------------------------------------------------------
@pytest.fixture
def launches(monkeypatch):
    """CPU tensors count as CUDA tensors; launches are recorded and interpreted."""
    from eqfuse.runtime.executable import Executable
    from eqfuse.runtime.interpreter import interpret
    from eqfuse.runtime.modules import load_module

    found = []

    def launcher(self):
        def run(*tensors):
            found.append((self, [tuple(t.shape) for t in tensors]))
            return interpret(load_module(self.generated.called_source, "interpret"), "run", *tensors)

        return run

    monkeypatch.setattr(Executable, "_device", lambda self, tensors: "cuda")
    monkeypatch.setattr(Executable, "_run", property(launcher))
    return found


def test_other_shapes_and_types_are_planned_for_once_each(launches):
    compiled = eqfuse.optimize(rows, (X,), target="h200")
    shorter, half = X[:, :33], X.half()
    for x in (X, shorter, half, X, shorter, half, shorter.T.contiguous().T):
        torch.testing.assert_close(compiled(x).double(), rows(x.double()), rtol=2e-3, atol=1e-3)
    planned = [c for c, _ in launches]
    assert [shape for _, (shape,) in launches] == [(6, 40), (6, 33), (6, 40), (6, 40), (6, 33), (6, 40), (6, 33)]
    assert planned[0] is planned[3] is compiled.form
    assert planned[1] is planned[4] is not compiled.form
    assert planned[6].generated.called_source == planned[1].generated.called_source, "another layout, for which none is better"
    assert planned[2] is planned[5] is not planned[1]
    assert planned[2].program.inputs[0].dtype.name == "float16"


def test_other_shapes_of_keyword_arguments(launches):
    compiled = eqfuse.optimize(lambda x, *, y: x * y + 1, (X,), kwargs={"y": X}, target="h200")
    x = X[:3]
    torch.testing.assert_close(compiled(x, y=x), x * x + 1)
    assert launches[0][1] == [(3, 40), (3, 40)]


def test_programs_of_fixed_size_refuse_other_shapes(launches):
    exported = torch.export.export(torch.nn.Softmax(-1), (X,))
    with pytest.raises(ShapeError, match="compiled for"):
        eqfuse.optimize(exported, target="h200")(X.T)
    assert not launches


def test_a_module_on_another_device_than_its_arguments():
    layer = torch.nn.Linear(40, 3)
    compiled = eqfuse.optimize(layer, (X,), target="h200")
    with pytest.raises(DeviceError, match="arguments are on cpu, meta"):
        compiled(X.to("meta"))


# knowing ----------------------------------------------------------------------------------------------------------------------------
def test_explanation(decode):
    explanation = decode.explain()
    data = json.loads(explanation.json())
    assert data["saved_bytes"] == decode.plan.baseline_bytes - decode.plan.dram_bytes > 0
    assert data["target"] == "h200"
    rules = {r.name for r in eqfuse.rules()}
    used = {r for k in data["kernels"] for r in k["rules"]}
    assert used
    assert used <= rules
    assert data["alternatives"], "plans that lost"
    lost = data["alternatives"][0]
    assert lost["reason"]
    text = str(explanation)
    assert min(used) in text
    assert f"{lost['description']}: {lost['reason']}" in text
    assert "against the unfused plan it saves" in text
    assert "runner-up: " in str(decode.plan)


def test_explanations_are_strict_json(compiled):
    """A plan that could not be made has no time, and infinity is not JSON."""
    impossible = Alternative("one kernel", 0, math.inf, 0, "it needs more shared memory than there is")
    text = explain(compiled.graph, replace(compiled.plan, alternatives=(impossible,))).json()
    data = json.loads(text, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert data["alternatives"] == [{"description": "one kernel", "reason": impossible.reason, "us": None, "kernels": 0}]


def test_plan_prints_as_a_table(compiled):
    plan = compiled.plan
    assert isinstance(plan, eqfuse.Plan)
    assert plan.compulsory_bytes == 2 * 6 * 40 * 4 <= plan.dram_bytes < plan.baseline_bytes
    assert plan.estimated_us > 0
    text = str(plan)
    assert text == str(compiled)
    for word in ("1 kernel", "roles", "loops", "cost", "memory: ", "compulsory 1.92 kB", "search ended"):
        assert word in text


def test_compile_without_a_gpu(compiled):
    for arch in (None, "sm_90", "sm_80"):
        (report,) = compiled.compile(arch)
        assert report.arch == (arch or "sm_90")
        assert report.ok
        assert report.spill_bytes == 0 < report.registers


# saving -----------------------------------------------------------------------------------------------------------------------------
STANDALONE = """
import sys
sys.modules["eqfuse"] = None  # importing it fails from here on
import importlib.util, torch
spec = importlib.util.spec_from_file_location("kernels", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
data = torch.load(sys.argv[2])
torch.save(module.run(*data), sys.argv[2])
assert not any(name.startswith("eqfuse.") for name in sys.modules)
"""


def test_saved_file_runs_alone(tmp_path):
    case = PROGRAMS["attention_lse"]
    args = case.args("small", "float16", generator=3)
    compiled = eqfuse.optimize(case.fn, args, target="h200")
    path = compiled.save(tmp_path / "kernels.py")
    assert "original program" not in path.read_text(), "it has no program to fall back on"
    assert "run() takes tensors on a GPU" in path.read_text()
    assert compiled.source.rpartition("def run")[2] in path.read_text()
    torch.save(list(args), tmp_path / "data.pt")
    command = [sys.executable, "-c", STANDALONE, str(path), str(tmp_path / "data.pt")]
    done = subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for found, expected in zip(torch.load(tmp_path / "data.pt"), compiled.interpret(*args), strict=True):
        assert torch.equal(found, expected)


def test_other_sizes_however_the_first_call_was_spelled():
    def scaled(x, y, scale=1.0):
        return torch.softmax(x * scale, -1) + y

    def args(n):
        random = torch.Generator().manual_seed(n)
        return [torch.randn(n, 7, generator=random) for _ in range(2)]

    x, y = args(5)
    for c in (
        eqfuse.optimize(scaled, (x, y), kwargs={"scale": 2.0}, target="h200"),
        eqfuse.optimize(scaled, (x,), kwargs={"y": y, "scale": 2.0}, target="h200"),
        eqfuse.optimize(scaled, (), kwargs={"x": x, "y": y, "scale": 2.0}, target="h200"),
    ):
        other = c.at(*args(3))
        torch.testing.assert_close(other.interpret(*args(3), scale=2.0), scaled(*args(3), scale=2.0))


def test_save_says_where_it_cannot_write(compiled, tmp_path):
    with pytest.raises(eqfuse.errors.OptionError, match="nowhere"):
        compiled.save(tmp_path / "nowhere" / "kernels.py")


# inputs of other kinds ----------------------------------------------------------------------------------------------------------------
class Feedforward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(40)
        self.up = torch.nn.Linear(40, 24)
        self.register_buffer("scale", torch.full((24,), 0.5))

    def forward(self, x):
        return torch.relu(self.up(self.norm(x))) * self.scale


def check(compiled, model, *args):
    exact = model(*args)
    torch.testing.assert_close(compiled.interpret(*args), exact, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(compiled.simulate(*args).float(), exact, rtol=2e-5, atol=2e-5)
    assert torch.equal(compiled(*args), exact)


def test_module():
    model = Feedforward().eval()
    compiled = eqfuse.optimize(model, (X,), target="h200")
    assert compiled.program.inputs[0].name == "x"
    with torch.no_grad():
        check(compiled, model, X)
        model.up.weight.mul_(2)  # parameters are looked up at every call
        model.scale.add_(1)
        check(compiled, model, X)


def test_exported_program():
    model = Feedforward().eval()
    compiled = eqfuse.optimize(torch.export.export(model, (X,)), target="h200")
    with torch.no_grad():
        check(compiled, model, X)


def test_graph_module():
    graph = torch.fx.symbolic_trace(Feedforward().eval())
    with torch.no_grad():
        check(eqfuse.optimize(graph, (X,), target="h200"), graph, X)


def test_program_from_the_builder():
    from eqfuse.ir.build import axes, exp, maximum_over, program, sum_over, tensor

    i, j = axes(i=6, j=40)
    x = tensor("x", i, j)
    e = exp(x - maximum_over(j, x))
    compiled = eqfuse.optimize(program("rows", y=(e / sum_over(j, e), (j, i))), target="h200")
    exact = rows(X.double()).T
    torch.testing.assert_close(compiled.interpret(X), exact.float())
    torch.testing.assert_close(compiled.simulate(x=X), exact)
    torch.testing.assert_close(compiled(X), exact.float(), rtol=1e-6, atol=1e-7)
    assert isinstance(compiled.program, eqfuse.Program)


def test_specs_in_place_of_tensors():
    compiled = eqfuse.optimize(rows, (TensorSpec((6, 40)),), target="h200")
    torch.testing.assert_close(compiled.interpret(X), rows(X))


# determinism --------------------------------------------------------------------------------------------------------------------------
SOURCES = """
import hashlib, eqfuse
from eqfuse.testing.programs import PROGRAMS
for name in ("attention_decode", "softmax_entropy", "softmax_entropy"):
    case = PROGRAMS[name]
    source = eqfuse.optimize(case.fn, case.args("bench", case.dtypes[0], device="meta"), **case.options, target="h200").source
    print(name, hashlib.sha256(source.encode()).hexdigest())
"""


def test_one_program_gives_one_source():
    """Twice in one process, and in processes whose sets and dicts of strings are ordered differently."""
    seen = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", SOURCES], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        seen.add(done.stdout)
    assert len(seen) == 1
    *_, first, again = seen.pop().splitlines()
    assert first == again


def test_one_saturation_serves_every_target(monkeypatch):
    saturate, calls = whole.saturate, []

    def counted(*args, **options):
        calls.append((options.get("order", False), options.get("splits")))
        return saturate(*args, **options)

    for module in (whole, exchanged):
        monkeypatch.setattr(module, "saturate", counted)
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.ones(6, 64),), target="h200")
    other = c.replan("mi300x")
    assert (other.target.name, other.plan.target) == ("mi300x", "mi300x")
    assert other.graph is c.graph
    assert calls == [(True, None), (False, {})], "one for kernels, and one for programs"


# what a call may change besides sizes -------------------------------------------------------------------------------------------------
def test_a_module_in_another_mode_is_another_program():
    """With buffers that training writes: in its steps torch does."""
    m = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).eval()
    other = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).eval()
    other.load_state_dict(m.state_dict())
    x = torch.randn(4, 8, generator=G)
    with torch.no_grad():
        c = eqfuse.optimize(m, (x,), target="cpu")
        for training in (False, True, False, True):
            m.train(training), other.train(training)
            torch.testing.assert_close(c(x), other(x))
    torch.testing.assert_close(m[1].running_var, other[1].running_var)


def test_a_module_of_which_parts_were_exchanged_is_another_program():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.inner(x)

    m, x = Model(), torch.randn(4, 8, generator=G)
    first = m.inner
    with torch.no_grad():
        c = eqfuse.optimize(m, (x,), target="cpu")
        for inner in (first, torch.nn.Linear(8, 8, bias=False), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()), first):
            m.inner = inner
            torch.testing.assert_close(c(x), m(x))


def test_a_gradient_past_buffers_that_have_none():
    m = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)).eval()
    x = torch.randn(4, 8, generator=G)
    c = eqfuse.optimize(m, (x,), target="cpu")
    wanted = torch.autograd.grad(m(x).square().sum(), list(m.parameters()))
    torch.testing.assert_close(torch.autograd.grad(c(x).square().sum(), list(m.parameters())), wanted)


def test_a_call_that_torch_has_to_run_in_part_is_run_in_steps():
    def f(x, ordered=False):
        y = torch.softmax(x, -1)
        return torch.sort(y, -1).values if ordered else y

    c = eqfuse.optimize(f, (X,), target="cpu")
    for args in ((X, True), (X.double(),), (X,), (X, True)):
        torch.testing.assert_close(c(*args), f(*args))


# debugging ----------------------------------------------------------------------------------------------------------------------------
def test_debug_at_its_maximum():
    code = "import torch, eqfuse; eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.ones(6, 40),), target='h200')"
    done = subprocess.run([sys.executable, "-c", code], env=os.environ | {"EQFUSE_DEBUG": "5"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not done.stdout
    for text in (
        "plan for",  # 1
        "timings (CPU ms): trace",  # 2
        "saturate",
        "extract",
        "e-nodes in",  # 3
        "stopped: saturated",
        "@triton.jit",  # 4
        "  c0 = input('x',)()",  # 5
        "= reduce('max', ",
        "  %0[rows, cols] = x[rows, cols]",  # the kernel
        "  x: fp32[cols/64] = x[rows, cols] where cols ok",  # and lowered
    ):
        assert text in done.stderr, text
