"""The text of a declared op in generated modules: carried whole, renamed apart, compiled, kept, standing alone."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import eqfuse
from eqfuse import errors
from eqfuse.codegen.spelling import spelling
from eqfuse.runtime.modules import load_module, source_hash

HERE = "test_own_op.py:1"
FACTOR = 3.0


@triton.jit
def third(x):
    """A third."""
    return x * 0.3333333432674408


@triton.jit
def plain(x, y):
    # the comment stays; third in a "text" and tl.third do too
    scale = third(x)  # a local name
    return scale + third(y)


def undecorated(x):
    return tl.exp(x)


@triton.jit
def uses_global(x):
    return x * FACTOR


@triton.jit
def uses_numpy(x):
    return np.exp(x)


@triton.jit
def uses_nothing(x):
    return missing(x)  # noqa: F821


def test_functions_become_text_under_the_name_of_the_op():
    call, text = spelling("mix", 2, plain, "", HERE)
    assert call == "_mix({}, {})"
    assert text == (
        '@triton.jit\ndef _mix_third(x):\n    """A third."""\n    return x * 0.3333333432674408\n\n\n'
        "@triton.jit\ndef _mix(x, y):\n"
        '    # the comment stays; third in a "text" and tl.third do too\n'
        "    scale = _mix_third(x)  # a local name\n    return scale + _mix_third(y)\n"
    )
    assert spelling("e", 1, undecorated, "", HERE)[1] == "@triton.jit\ndef _e(x):\n    return tl.exp(x)\n"


@pytest.mark.parametrize(
    ("function", "arity", "said"),
    [
        (uses_global, 1, "'FACTOR' from outside"),
        (uses_numpy, 1, "'np' from outside"),
        (uses_nothing, 1, "'missing', which is not defined"),
        (plain, 1, "numpy takes 1 argument, the Triton function 2"),
        (lambda x: x, 1, "the text of"),
        (eval("lambda x: x"), 1, "the text of"),
        (len, 1, "triton= is a builtin"),
    ],
)
def test_functions_that_cannot_stand_alone_are_refused(function, arity, said):
    with pytest.raises(errors.OpError, match=said) as info:
        spelling("f", arity, function, "", HERE)
    assert info.value.where == HERE


def declare(prelude="_seventh_of", factor=0.14285714285714285):
    text = f"""
        @triton.jit
        def {prelude}(x):
            return x * {factor}
    """
    return eqfuse.op("seventh", numpy=lambda x: x * factor, triton=f"{prelude}({{}})", prelude=text, increasing=True, keeps_zero=True)


@pytest.fixture
def seventh():
    f = declare()
    yield f
    f.unregister()


def program(f):
    return lambda x: f(x).sum(-1) + f(x).amax(-1)


def test_modules_carry_the_prelude_once(seventh):
    c = eqfuse.optimize(program(seventh), (torch.randn(64, 256),), target="h200")
    assert c.source.count("def _seventh_of(") == 1
    plain_source = eqfuse.optimize(lambda x: x.sum(-1), (torch.randn(64, 256),), target="h200").source
    assert "_seventh" not in plain_source


def test_other_text_is_another_module_in_the_cache(seventh):
    x = torch.ones(8, 16)
    first = eqfuse.optimize(program(seventh), (x,), target="h200")
    before = first.interpret(x)
    seventh.unregister()
    other = declare(factor=0.5)
    try:
        second = eqfuse.optimize(program(other), (x,), target="h200")
        assert source_hash(first.source) != source_hash(second.source)
        assert load_module(first.source, "interpret").__file__ != load_module(second.source, "interpret").__file__
        assert second.interpret(x)[0].item() == 16 * 0.5 + 0.5
        assert first.interpret(x).equal(before)  # what was made keeps its own text
    finally:
        other.unregister()


def test_kernels_with_the_op_compile_ahead_of_time(seventh):
    c = eqfuse.optimize(program(seventh), (torch.randn(64, 256),), target="h200")
    (report,) = c.compile()
    assert report.ok


ALONE = """
import importlib.util, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "eqfuse":
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
spec = importlib.util.spec_from_file_location("kept", sys.argv[1])
kept = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kept)
from triton.runtime.jit import JITFunction
import torch
assert isinstance(kept._seventh_of, JITFunction)
assert not any(name.split(".")[0] == "eqfuse" for name in sys.modules)
try:
    kept.run(torch.zeros(3))
except ValueError as error:
    print(error)
"""


def test_saved_modules_stand_alone(seventh, tmp_path):
    c = eqfuse.optimize(program(seventh), (torch.randn(64, 256),), target="h200")
    path = c.save(tmp_path / "kept.py")
    script = tmp_path / "alone.py"
    script.write_text(ALONE)
    done = subprocess.run([sys.executable, str(script), str(path)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "x must be a 2-dimensional tensor" in done.stdout


def test_a_helper_of_another_op_is_taken(seventh):
    with pytest.raises(errors.OpError, match="helper '_seventh_of' is one of op seventh"):
        eqfuse.op("other", numpy=lambda x: x * 0.5, triton="_seventh_of({})", increasing=True,
                  prelude="@triton.jit\ndef _seventh_of(x):\n    return x * 0.5\n")  # fmt: skip
