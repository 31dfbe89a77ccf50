"""Which sizes a saved module takes.

What it accepts must be right, against the original function in float64 at that size, and what the function computed from sizes when it
was traced must be refused.  The modules are saved and run in Triton's interpreter.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import eqfuse
from eqfuse.codegen.sizes import ModuleSpec, lengths
from eqfuse.frontends import trace
from eqfuse.ir.build import axes, mean_over, program, sum_over, tensor
from eqfuse.ir.terms import Extent
from eqfuse.runtime import saved_sizes
from eqfuse.runtime.generated import module_spec
from eqfuse.runtime.interpreter import forget, interpret
from eqfuse.runtime.modules import load_module
from eqfuse.runtime.saved_sizes import dependence, same_program
from eqfuse.testing.programs import PROGRAMS

F = torch.nn.functional
DEPENDS = "on which the program depends; optimize again for this shape"
EQUAL = "as long as"
ON_CHIP = "of at most 128"  # keys of which a program keeps all: tiles are powers of two
OTHER = r"planned for|require"  # refused by any check


def tensors(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(s, generator=generator) for s in shapes)


@pytest.fixture
def saved(tmp_path):
    """``saved(compiled)``: the function ``run`` of the module that ``save`` writes, interpreted."""
    modules = []

    def load(compiled):
        modules.append(load_module(compiled.save(tmp_path / "module.py").read_text(), "interpret"))
        return lambda *given: interpret(modules[-1], "run", *given)

    yield load
    for module in modules:
        forget(module)


def assert_right(found, f, given, held=()):
    wanted = pytree.tree_leaves(f(*(x.double() for x in given)))
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        torch.testing.assert_close(x.double(), y.double(), rtol=1e-4, atol=2e-5)


def scaled(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def literal(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def causal(q, k, v):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    keep = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    return torch.softmax(s.masked_fill(~keep, -torch.inf), -1) @ v


def causal_square(q, k, v):
    n = q.shape[-2]
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return torch.softmax(s.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -torch.inf), -1) @ v


def grouped(q, k, v):
    times = q.shape[1] // k.shape[1]
    return scaled(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1))


def shifted(x):
    n = x.shape[0]
    return x.roll(1, 0) + n


def heads(b, h, n, m, d, e):
    return (b, h, n, d), (b, h, m, d), (b, h, m, e)


# function, planned shapes, shapes to accept, shapes to refuse with what the message says
CASES = {
    "attention": (
        scaled, heads(2, 3, 67, 131, 16, 16),
        [heads(1, 3, 67, 131, 16, 16), heads(4, 2, 67, 131, 16, 16), heads(2, 3, 19, 131, 16, 16), heads(2, 3, 131, 67, 16, 16),
         heads(1, 1, 5, 7, 16, 16)],
        [(heads(2, 3, 67, 131, 8, 16), f"of 16, {DEPENDS}"), (heads(2, 3, 67, 131, 32, 16), f"of 16, {DEPENDS}")],
    ),
    "attention with a literal scale": (
        literal, heads(2, 3, 67, 131, 13, 16),
        [heads(2, 3, 67, 131, 9, 16), heads(2, 3, 67, 131, 16, 16), heads(1, 2, 40, 50, 7, 16)],
        [(heads(2, 3, 67, 131, 17, 16), "of at most 16")],
    ),
    "attention by torch": (
        F.scaled_dot_product_attention, heads(2, 3, 67, 131, 16, 16),
        [heads(3, 2, 19, 67, 16, 16)],
        [(heads(2, 3, 67, 131, 8, 16), DEPENDS)],
    ),
    "causal attention by torch": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), heads(2, 3, 67, 67, 16, 16),
        [heads(3, 2, 101, 101, 16, 16), heads(3, 2, 20, 20, 16, 16), heads(1, 2, 40, 67, 16, 16), heads(1, 2, 131, 101, 16, 16)],
        [(heads(2, 3, 67, 67, 8, 16), DEPENDS), (heads(3, 2, 131, 131, 16, 16), ON_CHIP)],
    ),
    "causal attention": (
        causal, heads(2, 3, 67, 67, 16, 16),
        [heads(3, 2, 101, 101, 16, 16), heads(3, 2, 20, 20, 16, 16), heads(1, 2, 70, 40, 16, 16), heads(1, 2, 131, 101, 16, 16)],
        [(heads(2, 3, 67, 67, 8, 16), DEPENDS), (heads(3, 2, 131, 131, 16, 16), ON_CHIP)],
    ),
    "causal attention with one length": (
        causal_square, heads(2, 3, 67, 67, 16, 16),
        [heads(3, 2, 101, 101, 16, 16), heads(3, 2, 20, 20, 16, 16)],
        [(heads(2, 3, 67, 67, 8, 16), DEPENDS), (heads(3, 2, 131, 131, 16, 16), ON_CHIP), (heads(2, 3, 67, 40, 16, 16), EQUAL), (heads(2, 3, 40, 67, 16, 16), EQUAL)],
    ),
    "causal attention, all lengths alike": (
        causal_square, heads(3, 3, 16, 16, 16, 16),
        [heads(2, 5, 16, 16, 16, 16)],
        [(heads(3, 3, 16, 16, 8, 16), DEPENDS), (heads(3, 3, 8, 16, 16, 16), EQUAL)],
    ),
    "grouped heads": (
        grouped, ((2, 4, 67, 16), (2, 2, 67, 16), (2, 2, 67, 16)),
        [((1, 4, 67, 16), (1, 2, 67, 16), (1, 2, 67, 16)), ((3, 4, 20, 16), (3, 2, 51, 16), (3, 2, 51, 16))],
        [(((2, 4, 67, 8), (2, 2, 67, 8), (2, 2, 67, 16)), DEPENDS), (((2, 6, 67, 16), (2, 2, 67, 16), (2, 2, 67, 16)), OTHER),
         (((2, 4, 67, 16), (2, 1, 67, 16), (2, 1, 67, 16)), OTHER)],
    ),
    "scores that are more than torch counts far above": (
        lambda x: torch.softmax(x @ x.transpose(-1, -2) * x.shape[-1] ** -0.5, -1).sum(-1), ((3, 40, 16),),
        [((5, 60, 16),), ((2, 9, 16),)], [(((3, 40, 8),), DEPENDS)],
    ),
    "variance": (lambda x: x.var(-1), ((64, 300),), [((7, 300),), ((64, 400),), ((64, 299),), ((6, 2),)], []),
    "variance with a larger correction": (lambda x: x.var(-1, correction=3.5), ((64, 300),), [((7, 30),), ((64, 4),), ((64, 3),)], []),
    "biased variance": (lambda x: x.var(-1, correction=0), ((64, 300),), [((7, 299),), ((64, 400),)], []),
    "standard deviation of all": (lambda x: x.std(), ((6, 50),), [((7, 50),), ((6, 51),), ((8, 3),)], []),
    "sum by length": (
        lambda x: x.sum(-1) * x.shape[-1] ** -0.5, ((64, 300),), [((65, 300),)], [(((64, 400),), DEPENDS), (((64, 3),), DEPENDS)],
    ),
    "sum by how many it adds": (lambda x: x.sum(-1) / x.shape[-1], ((64, 300),), [((65, 300),), ((64, 400),), ((64, 3),)], []),
    "mean": (lambda x: x.mean(-1), ((64, 300),), [((7, 300),), ((64, 400),), ((3, 5),)], []),
    "softmax": (lambda x: torch.softmax(x, -1), ((64, 300),), [((7, 300),), ((64, 400),), ((3, 5),)], []),
    "halves": (
        lambda x: x[..., : x.shape[-1] // 2] * x[..., x.shape[-1] // 2 :], ((64, 300),), [((5, 300),)], [(((64, 400),), OTHER)],
    ),
    "chunks": (lambda x: torch.mul(*x.chunk(2, -1)), ((64, 300),), [((5, 300),)], [(((64, 400),), OTHER)]),
    "the first half of the rows counts": (
        lambda x: torch.where(torch.arange(x.shape[0])[:, None] < x.shape[0] // 2, x, 0.0), ((64, 30),),
        [((64, 7),)], [(((128, 30),), DEPENDS), (((66, 30),), DEPENDS)],
    ),
    "an index from a size": (
        lambda x, y: x.sum(-1) * y[x.shape[0] - 1], ((5, 30), (30,)), [((5, 17), (30,))], [(((6, 30), (30,)), DEPENDS), (((4, 30), (30,)), DEPENDS)],
    ),
    "at most a number": (
        lambda x: x.sum(-1) * min(x.shape[0], 512), ((600, 7),), [((600, 8),)], [(((300, 7),), DEPENDS), (((700, 7),), DEPENDS)],
    ),
    "at least a number": (lambda x: x.sum(-1) * max(x.shape[0], 64), ((8, 7),), [((8, 8),)], [(((300, 7),), DEPENDS)]),
    "rounded up": (
        lambda x: x.sum(-1) * (-(-x.shape[0] // 128) * 128), ((300, 7),), [((300, 6),)], [(((301, 7),), DEPENDS), (((7, 7),), DEPENDS)],
    ),
    "even or odd": (lambda x: x.sum(-1) * (x.shape[0] % 2), ((64, 7),), [((64, 8),)], [(((63, 7),), DEPENDS), (((66, 7),), DEPENDS)]),
    "a slice that is the whole": (lambda x: x[:64].exp(), ((64, 30),), [((64, 31),)], [(((65, 30),), DEPENDS), (((63, 30),), DEPENDS)]),
    "another path for long rows": (
        lambda x: x.sum(-1) if x.shape[-1] > 4096 else torch.softmax(x, -1).sum(-1), ((5, 30),), [((6, 30),), ((5, 31),), ((5, 9),)],
        [(((5, 4097),), "cols of at most 4096, on which"), (((5, 33),), "of at most 32;")],
    ),
    "another path for short rows": (
        lambda x: x.sum(-1) if x.shape[-1] > 20 else torch.softmax(x, -1).sum(-1), ((5, 30),), [((6, 30),), ((5, 31),), ((5, 21),)],
        [(((5, 20),), "cols of at least 21, on which")],
    ),
    "a quotient that changes far above": (
        lambda x: x.exp() / (1 + x.shape[-1] // 10000), ((2, 100),), [((3, 100),)], [(((2, 20000),), DEPENDS), (((2, 101),), DEPENDS)],
    ),
    "rows of a range": (
        lambda x, y: (torch.relu(x) if 16 <= x.shape[0] <= 100 else x, y + 1), ((64,), (7,)), [((16,), (8,)), ((100,), (1000,))],
        [(((15,), (7,)), "of at least 16, on which"), (((101,), (7,)), "of at most 100, on which")],
    ),
    "a quotient of sizes": (
        lambda x, y: (x * (y.shape[0] // x.shape[0]), y + 1), ((64,), (64,)),
        [], [(((32,), (128,)), DEPENDS), (((128,), (32,)), DEPENDS), (((32,), (32,)), DEPENDS)],  # equal here, and nothing says why
    ),
    "which one is longer": (
        lambda x, y: (x.exp(), y.exp() * (3.0 if x.shape[0] > y.shape[0] else 2.0)), ((6, 8), (9, 11)),
        [((6, 12), (9, 4))], [(((6, 8), (4, 11)), DEPENDS), (((16, 8), (9, 11)), DEPENDS)],  # either one decides
    ),
    "how many elements": (
        lambda x: x.exp() * (3.0 if x.numel() > 500 else 2.0), ((20, 12),), [], [(((20, 60),), DEPENDS), (((60, 12),), DEPENDS)],
    ),
    "positions beside": (
        lambda x: (x.sum(-1), torch.arange(x.shape[0]) * 2.0), ((64, 30),), [((64, 5),)], [(((63, 30),), DEPENDS), (((65, 30),), DEPENDS)],
    ),
    "expanded to a size": (
        lambda x, y: (x.exp(), (y + 1).expand(x.shape[0], -1)), ((64, 5), (6,)), [((64, 7), (8,))], [(((32, 5), (6,)), DEPENDS)],
    ),
    "a tensor that only gives its size": (
        lambda x, y: y * x.shape[0], ((5, 6), (7, 8)), [((5, 9), (4, 8)), ((5, 6), (7, 16))], [(((6, 6), (7, 8)), rf"x\.shape\[0\] of 5, {DEPENDS}")],
    ),
    "a tensor that is not used": (lambda x, y: torch.relu(y), ((5, 6), (7, 8)), [((9, 1), (3, 8))], []),
    "rows beside themselves": (
        lambda x: torch.softmax(x @ x.T, -1) @ x, ((67, 16),), [((40, 16),), ((128, 16),)], [],
    ),
    "a list of parts": (
        lambda x: torch.stack([x[i] * (i + 1) for i in range(x.shape[0])]).sum(0) if x.shape[0] > 3 else x.sum(0), ((3, 40),),
        [((3, 7),)], [(((4, 40),), DEPENDS), (((5, 40),), DEPENDS)],
    ),
    "refuses others": (
        lambda x: torch.relu(x) if x.shape[0] % 16 == 0 else 1 / 0, ((64, 30),), [((64, 16),)], [(((65, 30),), DEPENDS), (((80, 30),), DEPENDS)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_accepted_is_right_and_the_rest_is_refused(name, saved):
    f, planned, accepted, refused = CASES[name]
    run = saved(eqfuse.optimize(f, tensors(*planned), target="h200"))
    for shapes in (planned, *accepted):
        given = tensors(*shapes, seed=1)
        assert_right(run(*given), f, given)
    for shapes, message in refused:
        with pytest.raises(ValueError, match=message):
            run(*tensors(*shapes, seed=1))


@pytest.mark.parametrize("name", ["sum by length", "attention", "causal attention with one length"])
def test_under_exact_rules_too(name, saved):
    f, planned, accepted, refused = CASES[name]
    run = saved(eqfuse.optimize(f, tensors(*planned), target="h200", licence="exact"))
    given = tensors(*accepted[-1], seed=1)
    assert_right(run(*given), f, given)
    with pytest.raises(ValueError, match=DEPENDS):
        run(*tensors(*refused[0][0]))


SHOWN = ("row_softmax", "layernorm", "rmsnorm_linear", "cross_entropy", "attention_causal", "attention_grouped", "attention_decode")


@pytest.mark.parametrize("name", [n if n in SHOWN else pytest.param(n, marks=pytest.mark.exhaustive) for n in PROGRAMS])
def test_the_corpus_is_right_wherever_it_is_accepted(name):
    """Every axis in turn at several other sizes: a call that is not refused gives what the program gives in float64."""
    case = PROGRAMS[name]
    kind = "float32" if "float32" in case.dtypes else case.dtypes[0]
    compiled = eqfuse.optimize(case.fn, case.args("small", kind), **case.options, target="h200")
    module = load_module(compiled.source, "interpret")
    inputs = compiled.program.inputs
    accepted = set()
    for axis in dict.fromkeys(a for i in inputs for a in i.layout if a is not None):
        for n in (2 * axis.size, axis.size + 1, max(axis.size - 1, 1), axis.size + 16):
            generator = torch.Generator().manual_seed(1)
            given = []
            for i, like in zip(inputs, case.shapes["small"], strict=True):
                shape = [n if a == axis else size for a, size in zip(i.layout, like.shape, strict=True)]
                numbers = torch.randn(shape, generator=generator) * like.scale + like.offset
                labels = like.labels and torch.randint(0, min(like.labels, 4), shape, generator=generator)
                given.append(numbers.to(getattr(torch, kind)) if labels is None else labels)
            try:
                found = interpret(module, "run", *given)
            except ValueError:
                continue
            accepted.add(axis.name)
            wanted = pytree.tree_leaves(case.fn(*(x.double() if x.is_floating_point() else x for x in given)))
            for x, y in zip(found, wanted, strict=True):
                assert x.shape == y.shape
                error = (x.double() - y).abs().max() / y.abs().max()
                assert error < {"float32": 2e-5, "float16": 4e-3}[kind], (axis, n)
    forget(module)
    assert accepted, "rows at least are free"


# what cannot change --------------------------------------------------------------------------------------------------------------------


def test_parameters_have_their_sizes_and_tokens_are_free(saved):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(24)
            self.up = torch.nn.Linear(24, 40)

        def forward(self, x):
            return torch.relu(self.up(self.norm(x)))

    torch.manual_seed(0)
    block = Block()
    compiled = eqfuse.optimize(block, tensors((3, 17, 24)), target="h200")
    run = saved(compiled)
    held = [compiled.traced.bind(*tensors((3, 17, 24)))[i.name].detach() for i in compiled.program.inputs[1:]]
    for shape in ((3, 17, 24), (5, 17, 24), (1, 40, 24)):
        (x,) = tensors(shape, seed=1)
        torch.testing.assert_close(run(x, *held)[0], block(x).detach(), rtol=1e-4, atol=1e-5)
    smaller = [t[..., :16] if t.shape[-1] == 24 else t for t in held]
    with pytest.raises(ValueError, match="of 24"):
        run(*tensors((3, 17, 16)), *smaller)
    narrow = [t[:32] if t.shape[0] == 40 else t for t in held]
    with pytest.raises(ValueError, match="of 40"):
        run(*tensors((3, 17, 24)), *narrow)


def test_a_captured_tensor_has_its_size(saved):
    (table,) = tensors((30,), seed=2)
    run = saved(eqfuse.optimize(lambda x: torch.softmax(x + table, -1), tensors((64, 30)), target="h200"))
    assert run(*tensors((5, 30)), table)[0].shape == (5, 30)
    with pytest.raises(ValueError, match=DEPENDS):
        run(*tensors((64, 29)), table[:29])


def test_tensors_made_from_sizes_are_no_constants_of_the_program(saved):
    """``torch.tensor([...])`` is held by what was traced: its numbers count, though its shape stays."""
    f = lambda x: x.sum(-1, keepdim=True) * torch.tensor([1.0, 1.0 / x.shape[-1]])  # noqa: E731
    compiled = eqfuse.optimize(f, tensors((64, 30)), target="h200")
    found = dependence(compiled.traced, module_spec(compiled.plan))
    assert ("x", 1) in found.fixed


def test_an_exported_program_has_its_sizes(saved):
    class Rows(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1)

    given = tensors((64, 30))
    exported = torch.export.export(Rows(), given)
    run = saved(eqfuse.optimize(exported, target="h200"))
    torch.testing.assert_close(run(*given)[0], torch.softmax(*given, -1))
    for shape in ((63, 30), (64, 29)):
        with pytest.raises(ValueError, match=DEPENDS):
            run(*tensors(shape))


def test_a_graph_of_literal_sizes_is_told_from_one_without(saved):
    def f(x):
        return torch.softmax(x.expand(x.shape[0], x.shape[1]), -1)

    given = tensors((64, 30))
    literal = torch.fx.experimental.proxy_tensor.make_fx(f)(*given)
    general = torch.fx.symbolic_trace(f)
    (other,) = tensors((40, 20))
    torch.testing.assert_close(saved(eqfuse.optimize(general, given, target="h200"))(other)[0], f(other))
    del literal  # make_fx drops an expand that does nothing: a graph that keeps its sizes is written out
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    flat = graph.call_method("view", (x, 1920))
    graph.output(graph.call_function(torch.exp, (graph.call_method("view", (flat, 64, 30)),)))
    run = saved(eqfuse.optimize(torch.fx.GraphModule({}, graph), given, target="h200"))
    torch.testing.assert_close(run(*given)[0], given[0].exp())
    with pytest.raises(ValueError, match=OTHER):
        run(other)


def test_a_program_in_terms_says_itself_what_depends_on_sizes(saved):
    i, k = axes(i=64, k=300)
    x = tensor("x", i, k)
    written = program(
        "mean", out=(sum_over(k, x) / Extent(k), (i,)), constant=(sum_over(k, x) * (1 / 300), (i,)), mean=(mean_over(k, x), (i,))
    )
    run = saved(eqfuse.optimize(written, target="h200"))
    (given,) = tensors((7, 200))
    found = [t.double() for t in run(given)]
    wanted = [given.double().mean(-1), given.double().sum(-1) / 300, given.double().mean(-1)]
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_what_changed_since_is_not_trusted(saved):
    """The function is traced again: if it means something else by now, no size but the planned one is known to be right."""
    scale = [2.0]
    compiled = eqfuse.optimize(lambda x: x.exp() * scale[0], tensors((64, 30)), target="h200")
    scale[0] = 3.0
    run = saved(compiled)
    (x,) = tensors((64, 30))
    torch.testing.assert_close(run(x)[0], x.exp() * 2)
    for shape in ((63, 30), (64, 29)):
        with pytest.raises(ValueError, match=DEPENDS):
            run(*tensors(shape))


def test_plans_at_other_sizes_know_their_own(saved):
    compiled = eqfuse.optimize(scaled, tensors(*heads(2, 3, 67, 131, 16, 16)), target="h200")
    small = compiled.at(*tensors(*heads(2, 2, 20, 70, 16, 16)))
    run = saved(small)
    given = tensors(*heads(3, 2, 40, 50, 16, 16), seed=1)
    assert_right(run(*given), scaled, given)
    with pytest.raises(ValueError, match=DEPENDS):
        run(*tensors(*heads(2, 2, 20, 70, 8, 16)))


def test_arguments_of_every_kind_are_resized(saved):
    """Keyword arguments, structures and numbers stay what they are, memory layouts too."""

    def f(x, parts, scale=1.0, *, beside):
        return x * scale + parts["a"] @ parts["b"], beside.sum(-1)

    (x, a, b, beside) = tensors((64, 30), (64, 5), (5, 30), (7, 8))
    compiled = eqfuse.optimize(f, (x.T.contiguous().T, {"a": a, "b": b}), kwargs={"beside": beside, "scale": 3.0}, target="h200")
    run = saved(compiled)
    names = [i.name for i in compiled.program.inputs]
    (x, a, b, beside) = tensors((48, 20), (48, 5), (5, 20), (3, 8), seed=1)
    given = {"x": x, "parts_a": a, "parts_b": b, "beside": beside}
    found = run(*(given[n] for n in names))
    torch.testing.assert_close(found[0], f(x, {"a": a, "b": b}, 3.0, beside=beside)[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1], beside.sum(-1))


# cost and determinism ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def traces(monkeypatch):
    """The traces that the search makes, counted."""
    made = []
    resized = saved_sizes.Trials.same

    def counted(self, *args):
        made.append(args)
        return resized(self, *args)

    monkeypatch.setattr(saved_sizes.Trials, "same", counted)
    return made


def test_nothing_is_traced_again_before_the_source_is_asked_for(traces):
    given = tensors(*heads(2, 3, 67, 131, 16, 16))
    compiled = eqfuse.optimize(scaled, given, target="h200")
    compiled.interpret(*given, sanitize=False)
    compiled.compile()
    assert isinstance(compiled.op.name, str)
    assert not traces
    text = compiled.source
    assert 2 <= len(traces) <= 16, "some tens of ms each"
    count = len(traces)
    assert compiled.source is text
    assert len(traces) == count
    assert eqfuse.optimize(scaled, given, target="h200").source == text


def test_where_all_is_free_four_traces_are_enough(traces):
    compiled = eqfuse.optimize(literal, tensors(*heads(2, 3, 67, 131, 16, 16)), target="h200")
    assert DEPENDS not in compiled.source[compiled.source.index("def run") :]
    assert len(traces) == 4


def test_what_is_not_known_after_many_traces_is_fixed(monkeypatch):
    made = []
    monkeypatch.setattr(saved_sizes, "MOST_READINGS", 4)
    monkeypatch.setattr(saved_sizes, "same_program", lambda *given: bool(made.append(given)) or same_program(*given))
    f = lambda x, y: (x.sum(-1) * x.shape[0], y.exp())  # noqa: E731
    compiled = eqfuse.optimize(f, tensors((5, 7), (11, 13)), target="h200")
    assert compiled.source.count(f"{DEPENDS.split(';')[0]}") == 4
    assert len(made) == 4


def test_the_operator_takes_the_planned_sizes_alone():
    compiled = eqfuse.optimize(lambda x: torch.softmax(x, -1), tensors((64, 30)), target="h200")
    module = load_module(compiled.generated.exact_source, "interpret")
    with pytest.raises(ValueError, match="of 30"):
        interpret(module, "run", *tensors((64, 29)))


def test_the_source_waits_for_a_thread_that_traces_and_not_the_other_way_round():
    given = tensors(*heads(2, 3, 67, 131, 16, 16))
    compiled = eqfuse.optimize(scaled, given, target="h200")
    found = []
    other = threading.Thread(target=lambda: found.append(compiled.source), daemon=True)

    def calls(q, k, v):
        if not other.ident:
            other.start()
            other.join(0.2)
            assert not found, "it waits until nobody traces"
            assert compiled.op.name, "needs the kernels, and no other trace"
        return compiled(q, k, v)

    trace(calls, given)
    other.join(60)
    assert found == [eqfuse.optimize(scaled, given, target="h200").source]


# comparison ------------------------------------------------------------------------------------------------------------------------------


def test_programs_are_compared_to_the_last_bit():
    def traced(f, *shapes):
        return trace(f, tensors(*shapes), name="f").program

    scale = 0.1
    before = traced(lambda x: x.exp() * scale, (5, 7))
    (i, j) = (a.name for a in before.inputs[0].layout)
    assert same_program(before, traced(lambda x: x.exp() * 0.1, (5, 7)), {})
    assert same_program(before, traced(lambda x: x.exp() * 0.1, (6, 7)), {i: 6})
    assert not same_program(before, traced(lambda x: x.exp() * 0.1, (6, 7)), {})
    assert not same_program(before, traced(lambda x: x.exp() * 0.1, (6, 7)), {i: 6, j: 8})
    assert not same_program(before, traced(lambda x: x.exp() * float(np.nextafter(0.1, 1)), (5, 7)), {})
    assert not same_program(before, traced(lambda x: x.exp() * 0.1 + 1, (5, 7)), {})
    assert not same_program(before, traced(lambda x: x.sin() * 0.1, (5, 7)), {})
    assert not same_program(before, traced(lambda x: (x.exp() * 0.1).T, (5, 7)), {})
    assert same_program(traced(lambda x: x.exp() * torch.nan, (5, 7)), traced(lambda x: x.exp() * torch.nan, (5, 8)), {j: 8})
    flip = [traced(lambda x: x.flip(0).exp(), (n, 7)) for n in (5, 6)]
    assert not same_program(*flip, {i: 6}), "n - 1 - i has a constant"


def test_sizes_that_are_tried_tell_thresholds_and_periods():
    compiled = eqfuse.optimize(lambda x, y: (x.exp(), y.exp()), tensors((64, 300), (8, 2)), target="h200")
    spec: ModuleSpec = module_spec(compiled.plan)
    units = saved_sizes.units_of(
        compiled.traced, [*(one.dimensions for one in lengths(spec)), *((x,) for x in saved_sizes._changing(compiled.traced, spec))]
    )
    assert sorted(u.size for u in units) == [2, 8, 64, 300]
    trials = saved_sizes.Trials(compiled.traced, lambda other: True)
    below, beside, above = (trials.sizes(where, units) for where in ("below", "beside", "above"))
    for sizes in (below, beside, above):
        assert len(set(sizes.values())) == 4, "to each a size of its own"
        for u in units:
            assert u.size < 64 or all((sizes[u] - u.size) % m for m in (2, 3)), "another remainder"
    for u in units:
        assert above[u] >= max(4096, 2 * u.size)
        assert 0 < beside[u] - u.size < 30
        assert u.size < 8 or below[u] < u.size
    assert np.prod([float(n) for n in above.values()]) <= saved_sizes.COUNTABLE
