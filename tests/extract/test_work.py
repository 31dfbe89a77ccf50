"""How much work planning is, in counts that do not depend on the machine: kernels lowered, searches made."""

from collections import Counter

import pytest
import torch

import eqfuse
from eqfuse.egraph import saturate
from eqfuse.extract import search
from eqfuse.extract.baseline import is_contraction
from eqfuse.extract.covers import Extractor
from eqfuse.extract.fusibility import Leaf
from eqfuse.extract.targets import load_target
from eqfuse.frontends import trace
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles import tilings

# program -> kernels lowered at most, tilings priced at least (of which most have the shape of another)
WORK = {
    "attention": (60, 80),
    "attention_lse": (60, 100),
    "attention_softcap": (120, 110),
    "linear_cross_entropy": (60, 200),
    "matmul": (60, 65),
}


@pytest.fixture
def counted(monkeypatch):
    """Counts calls while a test runs."""
    found, form = Counter(), search._Form

    def count(owner, name):
        original = getattr(owner, name)

        def call(*args, **kwargs):
            found[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    count(tilings, "lowered")
    count(search, "_Form")
    count(form, "_evaluate")
    count(search.KernelSearch, "_search")
    return found


@pytest.mark.parametrize("name", WORK)
def test_tilings_of_one_shape_are_lowered_once(counted, name):
    case = PROGRAMS[name]
    eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    most, least = WORK[name]
    assert counted["_evaluate"] >= least
    assert counted["lowered"] <= most


def test_a_form_is_lowered_a_few_times(counted):
    """However many searches there are: of each form, the orders of its dims are not lowered one by one."""
    case = PROGRAMS["attention"]
    eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target="h200")
    assert counted["lowered"] <= 3 * counted["_Form"]


def test_a_kernel_is_searched_once_whatever_else_is_stored(counted):
    """A stored value that lies behind another one does not make another kernel."""
    args = [torch.empty(256, 256, device="meta", dtype=torch.bfloat16) for _ in range(3)]
    program = trace(lambda x, w, u: (((x @ w).relu() @ u).relu() @ w).softmax(-1), args).program
    extractor = Extractor(saturate(program), load_target("h200"))
    products = [t for t in program.terms() if is_contraction(t)]
    classes = [extractor.graph.original[program.terms().index(t)] for t in products]
    behind, front = (extractor.maker.stored.temporary(c, f"t{c}") for c in classes[:2])
    leaves = {s.cls: Leaf(s.buffer, s.layout) for s in (behind, front)}
    alone = extractor.maker.search.best("k", tuple(extractor.outputs), {front.cls: leaves[front.cls]})
    assert extractor.maker.search.best("k", tuple(extractor.outputs), leaves) is alone
    assert counted["_search"] == 1
    assert extractor.maker.search.best("k", tuple(extractor.outputs), {behind.cls: leaves[behind.cls]}) is not alone
