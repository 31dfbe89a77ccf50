"""The measurement at the end of the demo: who takes part, who does not and why, and that a wrong result is one."""

import pytest
import torch

from eqfuse.cli import measurement
from eqfuse.cli.contest import COMPILED, EAGER, OURS, Contest, Peers, peers
from eqfuse.runtime.measuring import Times
from eqfuse.runtime.native import compiler


def softmax(x):
    return torch.softmax(x, -1)


def contest(**library):
    return Contest("softmax 5x33", softmax, (torch.randn(5, 33, generator=torch.Generator().manual_seed(0)),), library)


@pytest.fixture
def no_inductor(monkeypatch):
    """Its compiler takes seconds."""

    def fails(*args, **kwargs):
        raise RuntimeError("\nno C++ compiler\nsecond line")

    monkeypatch.setattr(torch, "compile", fails)


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_peers_that_do_not_compile_are_said(no_inductor):
    found = peers(contest(half=lambda x: softmax(x) / 2, empty=lambda x: x * float("nan")), "cpu")
    assert list(found.calls) == [EAGER, "half", "empty", OURS]
    assert found.absent == {COMPILED: "RuntimeError: no C++ compiler"}
    assert len(found.plan.kernels) == 1
    errors = found.errors()
    assert errors[OURS] < 1e-6
    assert errors["half"] == pytest.approx(0.5, rel=1e-5)
    assert errors["empty"] == float("inf")
    assert {name: len(t.samples) for name, t in found.times(seconds=0.0, rounds=(2, 2)).items()} == dict.fromkeys(found.calls, 2)


def test_without_a_compiler_ours_is_not_timed_as_torch(no_inductor, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    found = peers(contest(), "cpu")
    assert list(found.calls) == [EAGER]
    assert "there is no C compiler" in found.absent[OURS]


def shown(monkeypatch, capsys, ours, absent=(), took=8e-3):
    """What is printed of one program of which eager takes so many seconds, and ours 2 ms."""
    one = contest()
    calls = {EAGER: lambda: softmax(*one.args), **({OURS: lambda: ours(*one.args)} if ours else {})}
    monkeypatch.setattr(measurement, "contests", lambda device, scale: [one])
    monkeypatch.setattr(measurement, "peers", lambda contest, target: Peers(contest, calls, dict(absent)))
    monkeypatch.setattr(measurement, "keep_freed_memory", lambda: True)
    seconds = {EAGER: took, OURS: 2e-3}
    monkeypatch.setattr(Peers, "times", lambda self, **options: {n: Times((seconds[n],)) for n in self.calls})
    right = measurement.show_measurement("cpu")
    return right, capsys.readouterr().out


def test_the_table_has_ratios_and_bars(monkeypatch, capsys):
    right, text = shown(monkeypatch, capsys, softmax, {COMPILED: "RuntimeError: no C++ compiler"})
    assert right
    eager, ours = (line for line in text.splitlines() if "█" in line)
    assert "\nsoftmax 5x33\n" in text
    assert all(part in eager for part in (EAGER, " 8.00 ", "4.00x faster"))
    assert ours.startswith(OURS)
    assert (eager.count("█"), ours.count("█")) == (measurement.WIDTH, round(measurement.WIDTH / 4))
    assert "not run: torch.compile: RuntimeError: no C++ compiler" in text


def test_what_is_slower_is_called_so(monkeypatch, capsys):
    assert "2.00x slower" in shown(monkeypatch, capsys, softmax, took=1e-3)[1]


@pytest.mark.parametrize("wrong", [lambda x: softmax(x) * 1.01, lambda x: x * float("nan")])
def test_a_wrong_result_fails_the_demo(wrong, monkeypatch, capsys):
    assert shown(monkeypatch, capsys, wrong)[0] is False


def test_the_programs_run_at_a_small_scale():
    """Each of torch's own operations computes what the function does."""
    for one in measurement.contests("cpu", scale=64):
        calls = {EAGER: lambda one=one: one.function(*one.args), **{n: lambda f=f, one=one: f(*one.args) for n, f in one.library.items()}}
        assert max(Peers(one, calls, {}).errors().values()) < 1e-5, one.name
