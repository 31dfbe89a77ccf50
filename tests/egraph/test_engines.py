"""An engine that has grown by other programs makes the graph that a new one makes."""

import random
import subprocess
import sys
import threading

import pytest

from eqfuse import frontends
from eqfuse.egraph import engines, run
from eqfuse.extract.splits import propose_splits
from eqfuse.extract.targets import load_target
from eqfuse.ir.build import axes, exp, program, sum_over, tensor
from eqfuse.rewrites import Rule, registry
from eqfuse.testing.fuzz.grammar import draw_program
from eqfuse.testing.programs import PROGRAMS

pytestmark = [pytest.mark.unaudited, pytest.mark.unshared]

KERNELS, ORDERS = run.for_kernels(registry.active()), run.for_programs(registry.active())
i, j = axes(i=3, j=5)


def traced(name):
    case = PROGRAMS[name]
    found = frontends.trace(case.fn, case.args("bench", "float16", device="meta"), {}, name=name).program
    return found, propose_splits(found, load_target("h200"))


def rows(scale=1.0):
    return program("rows", y=(sum_over(j, exp(tensor("x", i, j)) * scale), (i,)))


def made(graph):
    """All of a graph but what it took."""
    matches = [(r.rule, r.matches) for r in graph.report.rules]
    before = None if graph.before is None else made(graph.before)
    return graph.classes, graph.axes, graph.roots, graph.original, graph.facts, graph.report.stopped, matches, before


def saturated(p, rules=KERNELS, splits=None):
    return run.saturated(p, rules, splits or {}, 3000, 100.0)


@pytest.fixture
def new(monkeypatch):
    """Makes a graph in an engine that nobody has used."""

    def make(*args):
        with monkeypatch.context() as patch:
            patch.setattr(engines, "_kept", engines._Kept())
            return saturated(*args)

    return make


def hold(asked, new, seed):
    """That the law holds of these programs, one after the other in a random order, the first twice."""
    engines.forget_engines()
    random.Random(seed).shuffle(asked)
    for p, splits in (*asked, asked[0]):
        for rules, own in ((KERNELS, splits), (ORDERS, {})):
            assert made(saturated(p, rules, own)) == made(new(p, rules, own)), p.name


def test_the_graph_is_that_of_a_new_engine(new):
    some = ("attention", "softmax_entropy", "linear_cross_entropy", "rmsnorm_linear", "attention_decode")
    hold([*map(traced, some), *((draw_program(seed).program, {}) for seed in range(8))], new, 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
def test_the_graph_is_that_of_a_new_engine_for_the_corpus(new, seed):
    hold([*map(traced, PROGRAMS)], new, seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(5))
def test_the_graph_is_that_of_a_new_engine_for_random_programs(new, seed):
    hold([(draw_program(k).program, {}) for k in range(40 * seed, 40 * seed + 40)], new, seed)


def test_rules_are_compiled_once(monkeypatch):
    """Those that a program needs, and for the next one those that it needs beside them."""
    compiled = []
    original = Rule.egglog
    monkeypatch.setattr(Rule, "egglog", lambda rule, *args: compiled.append(rule.name) or original(rule, *args))
    engines.forget_engines()
    for p, splits in (traced("row_softmax"), traced("attention"), traced("row_softmax")):
        before = len(compiled)
        saturated(p, KERNELS, splits)
    assert before == len(compiled) == len(set(compiled)) < len(KERNELS)


def test_an_engine_that_was_interrupted_is_not_used_again(monkeypatch, new):
    saturated(rows())

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run._Run, "rounds", interrupted)
        with pytest.raises(KeyboardInterrupt):
            saturated(rows())
    assert made(saturated(rows(2.0))) == made(new(rows(2.0)))


def test_saturations_inside_of_one_have_engines_of_their_own(new):
    with run.running(KERNELS, 1000, 100.0) as outer:
        assert made(saturated(rows())) == made(new(rows()))
        assert outer.size() == 0


def test_an_operation_that_is_declared_anew_has_an_engine_of_its_own(monkeypatch):
    """What operations declare is in the base of an engine."""
    from dataclasses import replace

    from eqfuse.ir.ops import OPS

    saturated(rows())
    kept = len(engines._kept.engines)
    monkeypatch.setitem(OPS, "exp", replace(OPS["exp"], turns=()))
    saturated(rows())
    assert len(engines._kept.engines) == kept + 1 or kept == engines.ENGINES_KEPT


def test_every_thread_has_its_own(new):
    found = []
    saturated(rows())
    threads = [threading.Thread(target=lambda: found.extend(made(saturated(rows())) for _ in range(2))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [made(new(rows()))] * 4


FORKED = """
import os, threading
from eqfuse.egraph import saturate
from eqfuse.ir.build import axes, exp, program, sum_over, tensor

i, j = axes(i=3, j=5)
p = program("rows", y=(sum_over(j, exp(tensor("x", i, j))), (i,)))
used, ended = threading.Event(), threading.Event()

def work():
    first = saturate(p)
    used.set()
    ended.wait()
    assert saturate(p).classes == first.classes

thread = threading.Thread(target=work)
thread.start()
used.wait()
saturate(p)
child = os.fork()
if child == 0:
    saturate(p)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
ended.set()
thread.join()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_the_child_of_a_fork_leaves_the_engines_of_other_threads_alone():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
