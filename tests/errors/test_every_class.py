"""Every class of ``errors.py`` is raised by a tiny program: a new class without one fails here."""

import inspect
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import eqfuse
from eqfuse import errors
from eqfuse.cli import programs
from eqfuse.egraph import audit, engine, saturate
from eqfuse.ir.build import axes, program, tensor
from eqfuse.ir.spec import check_program
from eqfuse.rewrites.patterns import Const
from eqfuse.rewrites.rule import make_rule
from eqfuse.runtime.aot import compile_kernel
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import cache_directory, load_module
from eqfuse.testing import assert_equivalent, check_rule

X = torch.ones(5, 7)


def vanishes(x):
    """x + 0 = 1."""
    return x + 0.0, Const(1.0)


def unbound(x, y):
    """x + 0 = y."""
    return x + 0.0, y


def optimize(fn, args=(X,), **options):
    return lambda tmp_path: eqfuse.optimize(fn, args, **{"target": "h200", **options})


def false_rule(tmp_path):
    check_rule(make_rule(vanishes, "user", "real", "factor", True))


def false_graph(tmp_path):
    (i,) = axes(i=4)
    p = program("shifted", y=(tensor("x", i) + 0.0, (i,)))
    audit(saturate(p, rules=(make_rule(vanishes, "user", "real", "factor", True),)))


def unlisted_input(tmp_path):
    (i,) = axes(i=4)
    p = program("unlisted", y=(tensor("x", i) * 2.0, (i,)))
    check_program(replace(p, inputs=()))


def fixed_sizes(tmp_path):
    written = eqfuse.optimize(eqfuse.optimize(lambda x: x * 2, (X,), target="h200").program, target="h200")
    written.at(X)  # a program in terms has its sizes


def no_kernel(tmp_path):
    compile_kernel(load_module("def kernel():\n    pass\n", "aot", directory=tmp_path), "kernel", [], "h200")


def public_cache(tmp_path):
    tmp_path.chmod(0o777)
    cache_directory(tmp_path)


BEYOND = """
import triton
import triton.language as tl


@triton.jit
def kernel(y_ptr):
    tl.store(y_ptr + 4 + tl.arange(0, 4), 1.0)


def run(y):
    kernel[(1,)](y)
"""


def out_of_bounds(tmp_path):
    interpret(load_module(BEYOND, "interpret", directory=tmp_path), "run", torch.zeros(6))


def no_method(tmp_path):
    interpret(load_module(BEYOND.replace("tl.arange(0, 4)", "y_ptr.rank"), "interpret", directory=tmp_path), "run", torch.zeros(6))


def inaccurate(tmp_path):
    assert_equivalent(lambda x: x + 1, lambda x: x + 1.5, (X,))


def false_op(tmp_path):
    eqfuse.op("halve", numpy=lambda x: x / 2, triton="{} * 0.25", increasing=True)


def broken_file(tmp_path):
    (tmp_path / "broken.py").write_text("x = (\n")
    programs.load_file(tmp_path / "broken.py")


RAISES = {
    errors.SourceError: broken_file,
    errors.OptionError: optimize(lambda x: x * 2, licence="free"),
    errors.UnsupportedOpError: optimize(lambda x: x.sort().values, strict=True),
    errors.ShapeError: optimize(lambda x: x @ x),
    errors.LayoutError: lambda tmp_path: eqfuse.Layout([(6, 1)]).group((4, 6)),
    errors.TraceError: optimize(lambda x: x[x > 0], strict=True),
    errors.StaticArgumentError: lambda tmp_path: eqfuse.optimize(lambda x, s: x + s, (X, 3.0), target="h200").interpret(X, 5.0),
    errors.DeviceError: lambda tmp_path: eqfuse.optimize(lambda x, y: x * y, (X, X), target="h200")(X, X.to("meta")),
    errors.EmptyProgramError: optimize(lambda x: None),
    errors.UnknownTargetError: optimize(lambda x: x * 2, target="abacus"),
    errors.RuleError: lambda tmp_path: make_rule(unbound, "user", "real", "factor", True),
    errors.UnsoundRuleError: false_rule,
    errors.OpError: lambda tmp_path: eqfuse.op("exp", numpy=np.exp, triton="tl.exp({})", increasing=True),
    errors.UnsoundOpError: false_op,
    errors.UnsoundGraphError: false_graph,
    errors.SpecError: unlisted_input,
    errors.EngineError: lambda tmp_path: engine._copied(str(tmp_path / "not there")),
    errors.GraphError: lambda tmp_path: eqfuse.extraction.Graph((), ()),
    errors.PlanError: fixed_sizes,
    errors.CompileError: no_kernel,
    errors.CacheError: public_cache,
    errors.PickleError: lambda tmp_path: pickle.dumps(eqfuse.optimize(lambda x: x * 2, (X,), target="h200")),
    errors.KernelBug: out_of_bounds,
    errors.KernelError: no_method,
    errors.AccuracyError: inaccurate,
}
CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.EqFuseError) and c is not errors.EqFuseError]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda c: c.__name__)
def test_every_class_has_a_program_that_raises_it(kind, tmp_path):
    with pytest.raises(kind) as info, np.errstate(all="ignore"):
        RAISES[kind](tmp_path)
    assert type(info.value) is kind
    assert info.value.message in str(info.value)
    assert kind.__doc__


def test_an_error_reads_place_message_cure():
    error = errors.ShapeError("3 is not 4", where="f.py:2", cure="pass 4")
    assert str(error) == "f.py:2: 3 is not 4\n  try: pass 4"
    assert (error.where, error.message, error.cure) == ("f.py:2", "3 is not 4", "pass 4")
    assert str(errors.ShapeError("alone")) == "alone"
