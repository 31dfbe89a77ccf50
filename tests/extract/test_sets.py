"""Which values are stored between kernels: the bounded search finds what the search of every set does, kernel by kernel to the end."""

import itertools
import random

import pytest
import torch

from eqfuse.egraph import saturate
from eqfuse.extract.covers import Cover, Extractor
from eqfuse.extract.covers.sets import FEW
from eqfuse.extract.objective import Objective
from eqfuse.extract.search import ALL, BEATEN, ROUGH, STARTS_ONLY
from eqfuse.extract.targets import load_target
from eqfuse.frontends import trace
from eqfuse.testing.programs import PROGRAMS

NEAR = 1.01  # a bounded search may miss a plan by so much


def of_the_corpus(name, dtype="float16"):
    case = PROGRAMS[name]
    return trace(case.fn, case.args("bench", dtype, device="meta")).program


def drawn(seed):
    """Rows of two inputs through some products, pointwise functions and statistics, of which a few may be stored."""
    rng = random.Random(seed)
    rows, inner, cols = (rng.choice((256, 1024, 4096)) for _ in range(3))
    kinds = [rng.choice(("relu", "softmax", "norm", "gate")) for _ in range(2)]

    def turned(kind, x, w):
        if kind == "norm":
            x = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)
        y = x @ w
        return {"relu": torch.relu, "softmax": lambda y: torch.softmax(y, -1), "norm": lambda y: y, "gate": lambda y: y * torch.sigmoid(y)}[
            kind
        ](y)

    def fn(x, a, b):
        return turned(kinds[1], turned(kinds[0], x, a), b)

    shapes = (rows, inner), (inner, cols), (cols, rng.choice((64, inner)))
    dtype = rng.choice((torch.float16, torch.float32))
    return trace(fn, [torch.empty(s, dtype=dtype, device="meta") for s in shapes]).program


def extractor(program, target="h200"):
    return Extractor(saturate(program), load_target(target), time_budget=1000.0)


def best_of_all_sets(program, target):
    """Every set stored, all kernels searched for tiles, without a limit, joined; or split, as well."""
    ex = extractor(program, target)
    values = ex.points.worth_storing
    assert len(values) <= FEW
    best = float("inf")
    for n in range(len(values) + 1):
        for some in itertools.combinations(values, n):
            cover = ex.maker.chain(tuple(sorted(some)), "", parted=True)
            if isinstance(cover, Cover):
                best = min(best, cover.us, ex.maker.merged(cover).us)
    return best


CASES = [(name, target) for name in ("rmsnorm_linear", "swiglu", "attention_softcap") for target in ("h200", "mi300x")]
CASES += [(("attention_softcap", "float32"), "h200")]  # tiles have to shrink until they fit


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [*CASES, *((seed, "h200") for seed in range(8))], ids=str)
def test_bounds_lose_no_plan(case):
    what, target = case
    program = drawn(what) if isinstance(what, int) else of_the_corpus(*([what] if isinstance(what, str) else what))
    ex = extractor(program, target)
    plan = ex.run()
    assert plan.stopped == "exhausted", "a plan near the bound ends the search: another case"
    assert min(c.us for c in ex.record.considered) <= NEAR * best_of_all_sets(program, target)


def test_a_kernel_that_may_not_take_so_long_is_given_up_and_found_when_it_may():
    """What is remembered of a search that was given up is a bound, by which a higher limit is searched again."""
    ex = extractor(of_the_corpus("matmul"))
    (out,) = ex.outputs
    search = ex.maker.search
    given_up = search.best("k", (out,), {}, limit=1.0)
    assert given_up is BEATEN
    assert search.at_least((out,), {}) == 1.0
    assert search.best("k", (out,), {}, limit=0.5) is BEATEN
    found = search.best("k", (out,), {}, limit=1000.0)
    assert found.cost.us == search.at_least((out,), {}) == search.best("k", (out,), {}).cost.us
    assert found.cost.us == extractor(of_the_corpus("matmul")).maker.kernel((out,), {}).cost.us


def test_the_best_of_the_starts_is_near_the_best_and_is_a_bound():
    ex = extractor(of_the_corpus("linear_gelu"))
    search = ex.maker.search
    with search.at(STARTS_ONLY):
        rough = search.best("k", ex.outputs, {})
    assert search.effort == ALL
    bound = search.at_least(ex.outputs, {})
    found = search.best("k", ex.outputs, {})
    assert bound == rough.cost.us / ROUGH <= found.cost.us <= rough.cost.us


def test_outputs_that_share_a_loop_are_compared_once_they_are_joined():
    """Two gradients of attention from one kernel, another with what both need: only joined kernels take less than one for each loop."""

    def backward(p, g, v):
        d = g @ v.transpose(-1, -2)
        s = p * (d - (p * d).sum(-1, keepdim=True))
        return p.transpose(-1, -2) @ g, s

    args = [torch.empty(s, dtype=torch.float16, device="meta") for s in ((16, 2048, 2048), (16, 2048, 64), (16, 2048, 64))]
    program = trace(backward, args).program
    ex = extractor(program)
    ex.run()
    assert min(c.us for c in ex.record.considered) <= NEAR * best_of_all_sets(program, "h200")


class Known:
    """A plan by what it takes and holds."""

    def __init__(self, us, temporary_bytes):
        self.us, self.temporary_bytes, self.steps = us, temporary_bytes, ()


@pytest.mark.parametrize(
    ("objective", "bytes_", "most"),
    [
        (Objective(), 10, 102.0),  # as much as the plan that is taken: it is to be faster
        (Objective(), 0, 105.0),  # less: within what the model can tell
        (Objective(), 20, 100.0),  # more: faster than any
        (Objective("memory"), 5, float("inf")),
        (Objective("memory"), 11, 0.0),
        (Objective(limit=15), 16, 0.0),
    ],
)
def test_what_a_plan_may_take_to_be_of_use(objective, bytes_, most):
    assert objective.most([Known(100.0, 20), Known(102.0, 10)], bytes_) == most
    assert objective.most([], bytes_) == (0.0 if bytes_ > objective.limit else float("inf"))
