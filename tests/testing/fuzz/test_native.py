"""Random programs under random roles and tiles, in C: loops, tails, masks, packs, states that loops carry, several outputs."""

import pytest

from eqfuse.codegen.c import expressions
from eqfuse.runtime.native import compiler
from eqfuse.testing.fuzz.command import main
from eqfuse.testing.fuzz.lowering import compiled
from eqfuse.testing.fuzz.native import Log, fuzz_native

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.mark.parametrize("saturated", [False, True])
def test_random_tile_programs_in_c(saturated):
    covered, wrong = compiled(range(24), saturated=saturated)
    assert not wrong, "\n\n".join(map(str, wrong))
    assert covered["programs"] >= 20
    assert min(covered[x] for x in ("loops", "nested", "passes", "dots", "roots")) > 0
    assert not saturated or covered["rolls"] > 0


def test_programs_and_plans_in_batches(tmp_path, capsys):
    """A run that is cut off goes on where its log ends, and is then the same as one."""
    arguments = ("--native", "--plan-every", "10", "--json", str(tmp_path / "log.json"))
    assert main(["0", "6", *arguments]) == 0
    assert main(["0", "12", *arguments]) == 0
    log, whole = Log.read(tmp_path / "log.json"), fuzz_native(Log((0, 12), 10, 0))
    assert (log.programs, log.kernels, log.ran, log.findings) == (whole.programs, whole.kernels, whole.ran, [])
    assert log.ran["random tiles"] >= 8
    assert log.ran["planned"] == 2
    assert "12 programs" in capsys.readouterr().out


@pytest.mark.parametrize(("wrong", "said"), [("({} - {})", "is off by"), ("*(volatile int *)16 + ({} + {})", "ended with -11")])
def test_wrong_kernels_are_found_whatever_they_do(wrong, said, monkeypatch):
    spelled = expressions.spelled
    monkeypatch.setattr(expressions, "spelled", lambda op: wrong if op == "add" else spelled(op))
    log = fuzz_native(Log((0, 8), 0, 0), shrink_seconds=0.0)
    assert log.findings
    assert all(said in f["message"] for f in log.findings)
    assert len(log.findings) < log.ran["random tiles"], "programs without a sum are right"
