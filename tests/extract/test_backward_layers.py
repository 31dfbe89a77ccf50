"""Programs of both passes of a layer: values under other names once, sums exchanged in parts, cuts without scores, kernels by their loops."""

import numpy as np
import pytest
import torch

from eqfuse.egraph import saturate
from eqfuse.extract.covers import Extractor
from eqfuse.extract.covers.loops import groups
from eqfuse.extract.programs.local import with_other_parts
from eqfuse.extract.regions import partition, regions
from eqfuse.extract.regions.aligned import aligned
from eqfuse.extract.saving import parted
from eqfuse.extract.targets import load_target
from eqfuse.frontends import joint, trace
from eqfuse.frontends.joint import trace_joint
from eqfuse.ir.alike import alike
from eqfuse.ir.dtypes import float32
from eqfuse.ir.index import Axis
from eqfuse.ir.program import Output, Program
from eqfuse.ir.reference import evaluate
from eqfuse.ir.terms import Input, Map, Reduce, View
from eqfuse.planning import Request, checked, equal_programs
from eqfuse.testing.models import InfiniteDecoder, LlamaLayer, Sizes

H200 = load_target("h200")


def traced(s, dtype=torch.float32):
    """Both passes of a Llama layer."""
    with torch.device("meta"):
        model = InfiniteDecoder([LlamaLayer(s)]).to(dtype)
        x = torch.empty(s.batch, s.tokens, s.hidden, dtype=dtype, requires_grad=True)
        turns = [torch.empty(1, s.tokens, s.size, dtype=dtype) for _ in range(2)]
    return trace_joint(model, (x, *turns), {})


@pytest.fixture(scope="module")
def small():
    """The program as it is read, and with equal values once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "alike", lambda program: program)
        program = traced(Sizes(1, 6, 16, 4, 20, kv=2)).traced.program
    return program, alike(program)


def same(a, b):
    rng = np.random.default_rng(0)
    data = {i.name: rng.normal(size=i.shape) for i in a.inputs}
    expected, found = evaluate(a, data), evaluate(b, data)
    return all(np.allclose(found[name], value, rtol=1e-11, atol=1e-12) for name, value in expected.items())


def sums(program):
    return sum(isinstance(t, Reduce) for t in program.terms())


def test_values_under_other_names_are_written_once(small):
    written, once = small
    assert sums(once) < sums(written)
    assert same(written, once)


def test_parts_are_put_back(small):
    """Whatever takes the place of a part computes what was there."""
    seen = []

    def itself(part):
        seen.append(part)
        return part

    found = with_other_parts(small[1], H200, itself)
    assert same(small[1], found if seen else small[1])


def attention(x, wq, wk, wv, wo):
    q, k, v = (torch.stack((x @ w).chunk(4, -1)) for w in (wq, wk, wv))
    out = torch.cat((torch.softmax(q @ k.mT * 0.125, -1) @ v).unbind(0), -1) @ wo + x
    return out * torch.rsqrt(out.square().mean(-1, keepdim=True) + 1e-5)


def test_sums_are_exchanged_in_a_part(monkeypatch):
    """The row sums of dP * P are those of dO * O, whose product is there, in a program that is searched in parts."""
    args = [torch.empty(n, 256, dtype=torch.float16, device="meta", requires_grad=True) for n in (4096, *[256] * 4)]
    made = trace_joint(attention, args, {}).traced
    monkeypatch.setattr("eqfuse.planning.exchanged.MOST_ORDERED", len(made.program.terms()) - 1)
    (found,) = equal_programs(checked(Request(made.program, None, None, "h200")), made)

    def row_sums(program):
        """Numbers for each row and head that are sums over what a head has."""
        return [t for t in program.terms() if isinstance(t, Reduce) and t.axis.size == 64 and np.prod([a.size for a in t.axes]) == 4096 * 4]

    assert row_sums(found)
    assert not row_sums(made.program)


@pytest.fixture(scope="module")
def backward():
    """The backward pass of a layer whose scores take 16 times what its tensors do."""
    made = traced(Sizes(1, 1024, 1024, 16, 2816, kv=4), torch.bfloat16)
    program = made.traced.program
    return parted(program, set(made.tangents.values()), {"out"}, set(made.gradients.values()), H200).backward


def test_no_region_stores_scores(backward):
    made = [o for r in regions(partition(backward, H200)) for o in r.program.outputs]
    assert len(made) < 25
    assert max(np.prod(o.shape) for o in made) <= 1024 * 2816


def test_results_that_share_products_and_loops_are_one_kernel(backward):
    """Gradients of keys and values sum over queries, those of queries and the row sums that they need over keys."""
    attention = max((r.program for r in regions(partition(backward, H200))), key=lambda p: len(p.terms()))
    assert sorted(map(len, groups(attention, H200))) == [2, 2]


def test_a_region_reads_nothing_under_another_name_that_can_be_computed_under_it():
    """Scores of one tensor with itself have two names for its rows; what is made of them under a third one is made of them again."""
    i, j, k, other = Axis("i", 6, 1), Axis("j", 6, 2), Axis("k", 4, 3), Axis("other", 6, 4)
    x = Input("x", (i, k), float32)
    below = View(x, i, j)
    scores = Map("exp", (Reduce("sum", k, Map("mul", (x, below))),))
    again = View(View(scores, j, other), i, j)  # the rows that ask are called as those that are asked were
    outputs = Output("a", Reduce("sum", j, scores), (i,), float32), Output("b", Reduce("sum", other, again), (j,), float32)
    program = Program("twice", outputs, (x,))
    called, now = aligned(program)
    called.check()
    assert same(program, called)
    assert [type(t) for t in called.terms()].count(View) == 1, "its rows under two names"
    assert now[again] is now[scores]
    assert called.outputs[0].term is called.outputs[1].term


def test_what_joins_products_is_stored_in_their_place():
    """Of a sum of products that two results need it is the sum that may be stored; a sum inside of a product is no value of its own."""

    def f(x, a, b):
        both = (x.view(64, 4, 16)[:, :, :, None] * a.view(4, 16, 32)).sum((1, 2)) + x @ b
        return both.sum(0), torch.exp(both).sum(1)

    program = trace(f, tuple(torch.empty(s, device="meta") for s in ((64, 64), (64, 32), (64, 32)))).program
    graph = saturate(program, enable=False)
    points = Extractor(graph, H200).points
    terms = dict(zip(graph.original, program.terms(), strict=True))
    stored = [terms[c] for c in points.worth_storing]
    assert [t.op for t in stored if isinstance(t, Map)] == ["add"]
    inner = [t for t in program.terms() if isinstance(t, Reduce) and any(isinstance(u, Reduce) and t in u.args for u in program.terms())]
    assert inner and not {*inner} & {*stored}
