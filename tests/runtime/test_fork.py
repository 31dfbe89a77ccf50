"""A process that forks leaves the engine's threads behind; its children start an engine of their own."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, torch, eqfuse
import eqfuse.planning

def f(x):
    return torch.softmax(x, -1)

x = torch.randn(5, 7)
wanted = f(x)  # torch's own threads may not outlive a fork of a fork
expected = str(eqfuse.optimize(f, (x,), target="h200").plan) if "before" in sys.argv else None

def forked(depth):
    child = os.fork()
    if child == 0:
        try:
            c = eqfuse.optimize(f, (x,), target="h200")
            assert expected in (None, str(c.plan)), c.plan
            torch.testing.assert_close(c.interpret(x), wanted)
            if depth:
                forked(depth - 1)
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status

forked(1)
assert eqfuse.optimize(f, (x,), target="h200")  # the parent goes on
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")


def python(code: str, *args: str) -> str:
    """What a program prints; it may take two minutes, and then hangs."""
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_child_and_its_child_optimise_and_interpret(when):
    python(PROGRAM, when)


def test_a_child_that_cannot_load_an_engine_says_so():
    code = """
import os, shutil
from eqfuse.egraph import engine
from eqfuse.errors import EngineError

engine.new_engine()

def full(*_):
    raise OSError(28, "No space left on device")

shutil.copyfile = full
child = os.fork()
if child == 0:
    try:
        engine.new_engine()
    except EngineError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    said = python(code)
    assert "No space left on device" in said
    assert "try: room for" in said and "spawn" in said
