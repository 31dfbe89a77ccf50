"""What tests share is what they would have made themselves, and nothing that could differ is shared."""

import dataclasses

import pytest
from sharing import Same, Shared, Sharing

import eqfuse
from eqfuse.egraph import saturate as saturated
from eqfuse.ir.build import axes, exp, program, sum_over, tensor
from eqfuse.ir.ops import OPS
from eqfuse.rewrites import registry
from eqfuse.testing.programs import PROGRAMS

i, j = axes(i=3, j=5)


def rows(name="rows"):
    return program(name, y=(sum_over(j, exp(tensor("x", i, j))), (i,)))


@pytest.fixture
def sharing():
    """One of its own, beside that of the worker, which takes no part."""
    made = Sharing()
    stop = made.start()
    made.on = True
    yield made
    stop()


pytestmark = pytest.mark.unshared


def test_a_program_of_the_corpus_is_traced_once_for_all_targets(sharing):
    def planned(dtype, target, fn=PROGRAMS["rmsnorm"].fn):
        return eqfuse.optimize(fn, PROGRAMS["rmsnorm"].args("check", dtype, device="meta"), target=target)

    for dtype, target in (("float16", "h200"), ("float16", "a100"), ("float32", "a100")):
        planned(dtype, target)
    assert (sharing.traces.asked, sharing.traces.found) == (3, 1)
    planned("float16", "h200", lambda x, w: PROGRAMS["rmsnorm"].fn(x, w))
    assert sharing.traces.asked == 3, "functions of others may change"


def test_the_same_question_has_one_answer(sharing):
    from importlib import import_module

    saturate = import_module("eqfuse.egraph.saturate").saturate
    first, again, other = saturate(rows()), saturate(rows()), saturate(rows("other"))
    assert again is first
    assert other is not first and other.program.name == "other" and other.classes is first.classes
    assert saturate(rows(), node_budget=7) is not first
    assert saturate(rows(), disabled=[registry.active("real")[0].name]) is not first
    assert saturate(rows(), time_budget=-1.0) is not saturate(rows(), time_budget=-1.0), "what the clock has cut off is made again"


def test_an_operation_that_is_declared_anew_is_another_one(sharing, monkeypatch):
    first = saturated(rows())
    monkeypatch.setitem(OPS, "exp", dataclasses.replace(OPS["exp"]))
    assert saturated(rows()) is not first


def test_the_oldest_goes_when_there_is_no_room():
    kept, made = Shared(10), []

    def ask(key):
        return kept.get(key, lambda: (made.append(key) or key, 4))

    for key in (1, 2, 1, 3, 1, 2):
        assert ask(key) == key
    assert made == [1, 2, 3, 2]


def test_keys_are_objects_and_not_what_they_look_like():
    a, b = [1], [1]
    assert Same(a) == Same(a) and hash(Same(a)) == hash(Same(a))
    assert Same(a) != Same(b)
