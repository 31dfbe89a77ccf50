"""Kernels in C, run by this machine, against torch in float64: the corpus, what is planned for CPUs, and calls as a user makes them.

A printer is a function of a tile program and its parameters: the plans for a GPU run in C as they are.
"""

from __future__ import annotations

import copy
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan

import eqfuse
from eqfuse.backend import compile_graph
from eqfuse.codegen.c.host import FLAGS, translation_unit
from eqfuse.codegen.c.printer import arguments, function_name
from eqfuse.runtime.native import compiler
from eqfuse.testing.native import Native
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.program import Reduce, Scan

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
ROUNDINGS = {"float32": 2e-6, "float16": 2**-9, "bfloat16": 2**-6}  # of the largest element
TYPED = ("rmsnorm_linear", "cross_entropy", "attention_grouped")  # these run in 16-bit types as well


class Neon(Native):
    """Kernels in C for a processor with NEON, which an emulator runs: a program that reads its arguments and gives back the arrays."""

    CALLS = """
    #include <stdio.h>
    static int64_t next(void) { int64_t x; if (fread(&x, 8, 1, stdin) != 1) exit(1); return x; }
    int main(void) {
      int64_t x[256], size[256], at = next(), n = next();
      for (int64_t k = 0; k < n; k++) {
        size[k] = next();
        if (size[k] < 0) { x[k] = next(); continue; }
        x[k] = (int64_t)aligned_alloc(64, (size_t)(size[k] / 64 + 1) * 64);
        if (fread((void *)x[k], 1, (size_t)size[k], stdin) != (size_t)size[k]) exit(1);
      }
      switch (at) { %s }
      for (int64_t k = 0; k < n; k++) if (size[k] > 0) fwrite((void *)x[k], 1, (size_t)size[k], stdout);
    }
    """
    COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

    def __init__(self, programs):
        self.programs = tuple(replace(p, kernel=replace(p.kernel, name=f"k{at}")) for at, p in enumerate(programs))
        cases = ""
        for at, p in enumerate(self.programs):
            given = ", ".join(f"{'(void *)' * (a.kind != 'int')}x[{k}]" for k, a in enumerate(arguments(p), 1))
            cases += f"case {at}: {function_name(p)}(x[0], {given}); break;\n"
        self.folder = tempfile.TemporaryDirectory()
        self.made, flags = f"{self.folder.name}/kernels", [f for f in FLAGS if f not in ("-march=native", "-shared", "-fPIC")]
        source = translation_unit(self.programs) + self.CALLS % cases
        command = [self.COMPILER, *flags, "-static", "-fopenmp", "-o", self.made, "-x", "c", "-", "-lm"]
        subprocess.run(command, input=source.encode(), check=True)

    def call(self, at, given):
        words = [np.int64([-1, x]).tobytes() if isinstance(x, int) else np.int64(x.nbytes).tobytes() + x.tobytes() for x in given]
        said = b"".join([np.int64([at, len(given)]).tobytes(), *words])
        got = subprocess.run([self.EMULATOR, self.made], input=said, capture_output=True, check=True).stdout
        for x in given:
            if not isinstance(x, int):
                np.copyto(x, np.frombuffer(got[: x.nbytes], x.dtype).reshape(x.shape))
                got = got[x.nbytes :]


@pytest.fixture(scope="module")
def corpus():
    """All programs at the shapes that no tile divides, with the plans of the bench shapes, compiled as one file for a machine."""

    @functools.cache
    def made(machine, at_check):
        wanted = [(name, "float32") for name in PROGRAMS] + [(name, t) for name in TYPED for t in ("float16", "bfloat16")]
        plans = {x: at_check(*x).plan for x in wanted}
        return plans, machine([k.tiles for p in plans.values() for k in p.kernels])

    return made


EVERY = pytest.mark.parametrize(("name", "dtype"), [(name, t) for name in PROGRAMS for t in ROUNDINGS if t == "float32" or name in TYPED])


@EVERY
def test_the_corpus_runs_in_c(name, dtype, at_check, corpus):
    check(name, dtype, *corpus(Native, at_check))


@EVERY
@pytest.mark.skipif(not (shutil.which(Neon.COMPILER) and shutil.which(Neon.EMULATOR)), reason=f"no {Neon.COMPILER}, or no {Neon.EMULATOR}")
def test_the_corpus_runs_with_neon(name, dtype, at_check, corpus):
    check(name, dtype, *corpus(Neon, at_check))


def check(name, dtype, plans, native):
    case = PROGRAMS[name]
    args = case.args("check", dtype)
    plan = plans[name, dtype]
    first = sum(len(p.kernels) for x, p in list(plans.items())[: list(plans).index((name, dtype))])
    arrays = {i.name: (x.float() if x.is_floating_point() else x).numpy() for i, x in zip(plan.program.inputs, args, strict=True)}
    for at in range(len(plan.kernels)):
        arrays |= native.run(first + at, arrays)
    exact = case.fn(*(x.double() if x.is_floating_point() else x for x in args))
    for o, want in zip(plan.program.outputs, exact if isinstance(exact, tuple) else (exact,), strict=True):
        error = np.abs(arrays[o.name].reshape(want.shape) - want.numpy()).max() / want.abs().max().item()
        assert error < ROUNDINGS[dtype]


def softmax(x):
    return torch.softmax(x, -1)


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(softmax, (torch.randn(33, 100),), target="cpu")


@pytest.fixture
def only_kernels(compiled, monkeypatch):
    def no(*args, **kwargs):
        raise AssertionError("torch runs the program")

    monkeypatch.setattr(compiled.form, "eager", no)


def test_calls_run_kernels_in_any_layout_and_size(compiled, only_kernels):
    wide = torch.randn(66, 200)
    for x in (wide[:33, :100], wide[::2, ::2], torch.randn(100, 33).T, torch.randn(1, 100).expand(33, 100), -wide[:33, :100]):
        torch.testing.assert_close(compiled(x), softmax(x))
    for shape in ((5, 100), (64, 100), (0, 100), (3, 1)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), softmax(x))
    x = torch.randn(33, 100, requires_grad=True)
    with torch.no_grad():
        assert not compiled(x).requires_grad


def test_infinities_and_nan_are_as_in_torch(compiled, only_kernels):
    x = torch.randn(33, 100)
    x[0, 3], x[1], x[2, 4], x[3, 5:], x[4], x[5, 99] = torch.nan, -torch.inf, torch.inf, -torch.inf, 3e38, torch.nan
    torch.testing.assert_close(compiled(x), softmax(x), equal_nan=True)


def test_where_a_gradient_is_wanted_the_derivative_runs_in_torch(compiled, only_kernels):
    x = torch.randn(33, 100, requires_grad=True)
    (got,) = torch.autograd.grad(compiled(x)[:, 0].sum(), x)  # `eager`, which would fail, computes neither; torch replays the graph
    torch.testing.assert_close(got, torch.autograd.grad(softmax(x)[:, 0].sum(), x)[0])


def test_the_operator_is_one_of_torch_with_kernels(compiled):
    op, x = compiled.op, torch.randn(33, 100, requires_grad=True)
    assert torch.equal(op(x)[0], compiled(x.detach())), "the same kernels, so the same bits"
    torch.library.opcheck(op.op, ([x],))


def linear(a, b):
    return associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (a, b), dim=1, combine_mode="generic")[1]


UNUSUAL = torch.randn(7, 300, generator=torch.Generator().manual_seed(0))
UNUSUAL[3, 5], UNUSUAL[4], UNUSUAL[5], UNUSUAL[6, 100] = torch.nan, -torch.inf, 1.0, torch.inf
STATES = {  # of several parts: the function and its arguments
    "largest, where it stands, and beside it": (lambda x: (*torch.max(x, -1), x.argmin(-1), torch.softmax(x, -1)), (UNUSUAL,)),
    "over the outer axis": (lambda x: (x.argmin(0), torch.logcumsumexp(x, 0)), (UNUSUAL,)),
    "integers": (lambda x: x.argmax(-1), (torch.arange(6 * 77).reshape(6, 77) * 37 % 11 - 5,)),
    "prefixes along rows": (lambda x: (torch.logcumsumexp(x, -1), torch.cummax(x, -1)[0]), (UNUSUAL,)),
    "a recurrence in a loop": (linear, (torch.linspace(-1, 1, 2 * 9000).view(2, 9000), torch.ones(2, 9000))),
    "a recurrence beside other lanes": (linear, (torch.linspace(-1, 1, 3 * 130 * 17).view(3, 130, 17), torch.ones(3, 130, 17))),
}


@pytest.mark.parametrize("name", STATES)
def test_states_of_several_parts(name):
    f, args = STATES[name]
    c = eqfuse.optimize(f, args, target="cpu", strict=True)
    assert not c.missing
    assert any(isinstance(s, Reduce | Scan) and s.parts for k in c.plan.kernels for s in k.tiles.statements())
    torch.testing.assert_close(c(*args), f(*args), equal_nan=True, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_prefixes_of_exponentials_keep_their_digits(axis):
    """Over 65536 elements, which are parts over a grid in some candidates: there the count of a state has no axis."""
    x = torch.randn(2, 65536, generator=torch.Generator().manual_seed(0))
    x = x if axis else x.t().contiguous()
    c = eqfuse.optimize(lambda x: torch.logcumsumexp(x, axis), (x,), target="cpu", strict=True)
    assert not c.missing
    wanted = torch.logcumsumexp(x.double(), axis)
    assert (c(x) - wanted).abs().max() < 2 * 2.0**-20, "two units in the last place of numbers from 8 to 16"


class Normalized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 2.0, 12))

    def forward(self, x):
        return torch.softmax(x * x.square().mean(-1, keepdim=True).rsqrt() * self.weight, -1)


def losses_of(model, call, steps=3):
    """Losses of steps of training; the batches are the same in every run."""
    optimizer, draw, found = torch.optim.Adam(model.parameters(), 0.01), torch.Generator().manual_seed(0), []
    for _ in range(steps):
        x = torch.randn(5, 7, 12, generator=draw)
        loss = (call(x) - x.roll(1, -1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return torch.stack(found)


def test_both_passes_of_training_are_kernels(monkeypatch):
    """By ``torch.compile`` and by ``optimize(training=True)``, on a machine without a GPU with no options at all."""
    monkeypatch.setenv("EQFUSE_TARGET", "cpu")  # what is the default where there is none; the tests have another
    model = Normalized()
    compiled_model, trained_model, plain = (copy.deepcopy(model) for _ in range(3))
    wanted = losses_of(plain, plain)
    torch._dynamo.reset()
    eqfuse.report(reset=True)
    torch.testing.assert_close(losses_of(compiled_model, torch.compile(compiled_model, backend=compile_graph)), wanted)
    graphs = eqfuse.report().graphs
    assert [(g.kind, g.calls, g.ran, g.plans[0].target, len(g.plans[0].library)) for g in graphs] == [
        ("forward", 3, 3, "cpu", 0), ("backward", 3, 3, "cpu", 0),
    ]  # fmt: skip
    assert all(g.plans[0].kernels for g in graphs)

    c = eqfuse.optimize(trained_model, (torch.randn(5, 7, 12),), training=True)
    with monkeypatch.context() as patched:
        patched.setattr(trained_model, "forward", None)  # torch does not run the model
        torch.testing.assert_close(losses_of(trained_model, c), wanted)


def test_narrow_types_and_several_outputs():
    def statistics(x):
        return x.mean(-1), torch.softmax(x, -1), x.argmax(-1)

    for dtype in (torch.float16, torch.bfloat16):
        x = torch.randn(7, 300, dtype=dtype)
        c = eqfuse.optimize(statistics, (x,), target="cpu")
        for got, want in zip(c(x), statistics(x), strict=True):
            assert got.dtype == want.dtype
            torch.testing.assert_close(got, want)


def test_a_program_partly_in_torch():
    def sorted_softmax(x):
        return torch.sort(torch.softmax(x, -1) * 2.0, -1).values + 1.0

    x = torch.randn(5, 60)
    c = eqfuse.optimize(sorted_softmax, (x,), target="cpu")
    assert "CPU tensors run these steps" in str(c.plan)
    torch.testing.assert_close(c(x), sorted_softmax(x))


def test_saved_files_build_and_test_themselves(compiled, tmp_path):
    """One plan, both passes of training, and a program partly in torch; and a fault is seen."""
    x = torch.randn(9, 60)
    trained = eqfuse.optimize(softmax, (x.clone().requires_grad_(),), target="cpu", training=True)
    parted = eqfuse.optimize(lambda x: torch.sort(torch.softmax(x, -1) * 2.0, -1).values.cumsum(-1) + 1.0, (x,), target="cpu")
    paths = [c.save(tmp_path / f"kernels_{k}.py") for k, c in enumerate((compiled, trained, parted))]
    script = (
        "import runpy, sys, torch\nx = torch.randn(40, 100)\n"
        f"paths = {list(map(str, paths))!r}\n"
        "torch.testing.assert_close(runpy.run_path(paths[0])['run'](x)[0], torch.softmax(x, -1))\n"
        "for path in paths: runpy.run_path(path, run_name='__main__')\n"
        "text = open(paths[0]).read()\n"
        "open(paths[0], 'w').write(text.replace('return (out', 'return (out * 1.001', 1))\n"
        "try: runpy.run_path(paths[0], run_name='__main__')\nexcept AssertionError as error: print(error)\n"
        "assert not {'eqfuse', 'triton'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert done.stdout.count("by kernels in C") == 4
    assert done.stdout.endswith("not what torch computes: out\n")


def test_without_a_compiler_torch_runs_and_says_so(monkeypatch):
    monkeypatch.setenv("CC", os.devnull)
    c = eqfuse.optimize(softmax, (torch.randn(4, 10),), target="cpu")
    assert "there is no C compiler" in str(c).splitlines()[-1]
    x = torch.randn(4, 10, requires_grad=True)
    with pytest.warns(UserWarning, match="no C compiler.*torch runs the original program"):
        assert torch.equal(c(x), softmax(x))
    assert torch.equal(c.op(x)[0], softmax(x))
    trained = eqfuse.optimize(softmax, (x,), target="cpu", training=True)
    assert torch.equal(trained(x), softmax(x))
    torch._dynamo.reset()
    eqfuse.report(reset=True)
    compiled = torch.compile(softmax, backend=compile_graph, options={"target": "cpu"})
    torch.testing.assert_close(compiled(x), softmax(x))
    plans = [plan for g in eqfuse.report().graphs for plan in g.plans]
    for said in (str(trained), *map(str, plans)):
        assert "there is no C compiler" in said
    assert not any(p.kernels for p in plans)


def test_an_op_without_a_spelling_in_c_runs_in_torch():
    given = {"numpy": lambda x: np.exp2(2.0 * x), "triton": "tl.exp2({} * 2.0)", "torch": lambda x: torch.exp2(2.0 * x), "increasing": True}
    x = torch.randn(4, 10)
    for c, said in (("eq_exp2({} * 2.0f)", ""), ("", "op exp4 has no spelling in C")):
        exp4 = eqfuse.op("exp4", c=c, **given)
        try:
            compiled = eqfuse.optimize(lambda x: exp4(x) + 1.0, (x,), target="cpu")  # noqa: B023
            assert said in str(compiled)
            assert not said or "torch" in str(compiled).splitlines()[-1]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.testing.assert_close(compiled(x), torch.exp2(2.0 * x) + 1.0)
        finally:
            exp4.unregister()
    with pytest.raises(eqfuse.errors.UnsoundOpError, match="C spelling"):
        eqfuse.op("exp4", c="eq_exp2({} * 2.5f)", **given)
    with pytest.raises(eqfuse.errors.OpError, match="does not compile"):
        eqfuse.op("exp4", c="no_such_function({})", **given)
