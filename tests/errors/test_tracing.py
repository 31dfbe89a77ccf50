"""What cannot be traced is refused with the user's line and a cure: one tiny program for each."""

import logging
import sys

import pytest
import torch

from eqfuse.errors import DeviceError, EmptyProgramError, EqFuseError, ShapeError, TraceError, UnsupportedOpError
from eqfuse.frontends import TensorSpec, trace

X = torch.ones(5, 7)


def branches(x):
    if x.sum() > 0:
        return x + 1
    return x


def counts(x):
    return x * x.sum().item()


def sorts(x):
    y = x + 1
    return y.sort(-1).values * 2


def looks_up(x, table):
    return table[x.long()[:, 0]]


def computes(x):
    return x.digamma()


def helper(x):
    return x.median(-1).values


def calls_helper(x):
    return helper(x) + 1


def draws(x):
    return x + torch.rand(5, 7)


def selects(x):
    return x[x > 0]


def misfits(x):
    return x + torch.ones(3)


def multiplies(x):
    return x @ x


def reshapes(x):
    return x.view(4, 9)


def writes(x):
    x.add_(1)
    return x * 2


def writes_to_a_view(x):
    y = (x + 1).mul_(2)
    x.view(35)[3:].mul_(2)
    return x * y


def energy(x):
    return torch.softmax(x, -1).pow(2).sum()


def differentiates(x):
    return torch.func.grad(energy)(x)


def maps_it(x):
    return torch.vmap(computes)(x)


def counts_bytes(x):
    return x * torch.arange(7, dtype=torch.uint16)


def drops(x):
    return torch.nn.functional.dropout(x) * 2


def attends(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)


def breaks(x):
    return x.no_such_method()


def looks_in_a_table(x):
    table = {}
    return x * table["scale"]


def asserts(x):
    assert x.shape[0] == 3, "three rows"
    return x * 2


UNSUPPORTED = {
    branches: (TraceError, "if x.sum() > 0:", "torch.where"),
    counts: (TraceError, "return x * x.sum().item()", "torch.where"),
    selects: (TraceError, "return x[x > 0]", ""),
    sorts: (UnsupportedOpError, "return y.sort(-1).values * 2", "aten.sort"),
    computes: (UnsupportedOpError, "return x.digamma()", "aten.digamma"),
    calls_helper: (UnsupportedOpError, "return x.median(-1).values", "aten.median"),
    differentiates: (TraceError, "return torch.func.grad(energy)(x)", "differentiate what optimize returns"),
    maps_it: (UnsupportedOpError, "return x.digamma()", "aten.digamma"),
    counts_bytes: (TraceError, "return x * torch.arange(7, dtype=torch.uint16)", "torch.uint16"),
    draws: (UnsupportedOpError, "return x + torch.rand(5, 7)", "draw random numbers outside"),
    misfits: (ShapeError, "return x + torch.ones(3)", "shapes"),
    multiplies: (ShapeError, "return x @ x", "shapes"),
    reshapes: (ShapeError, "return x.view(4, 9)", "shapes"),
    writes: (TraceError, "x.add_(1)", "return the new value"),
    writes_to_a_view: (TraceError, "x.view(35)[3:].mul_(2)", "return the new value"),
    drops: (UnsupportedOpError, "return torch.nn.functional.dropout(x) * 2", "call .eval()"),
    attends: (TraceError, "return torch.nn.functional.scaled_dot", "dropout_p=0.0"),
    breaks: (TraceError, "return x.no_such_method()", "no_such_method"),
    looks_in_a_table: (TraceError, 'return x * table["scale"]', "KeyError: 'scale'"),
    asserts: (TraceError, 'assert x.shape[0] == 3, "three rows"', "AssertionError: three rows"),
}


@pytest.mark.parametrize("fn", UNSUPPORTED)
def test_refused_with_place_and_cure(fn):
    kind, line, text = UNSUPPORTED[fn]
    with pytest.raises(kind) as info:
        trace(fn, (X,))
    assert type(info.value) is kind
    if line:
        assert info.value.where.startswith("test_tracing.py:")
        assert line in str(info.value)
    assert text in str(info.value)
    assert info.value.cure
    assert len(str(info.value).splitlines()) <= 2, "torch's own text is left out"


def test_the_line_is_that_of_the_users_innermost_function():
    class Module(torch.nn.Module):
        def part(self, x):
            return torch.relu(helper(x))

        def forward(self, x):
            return self.part(x) * 2

    with pytest.raises(UnsupportedOpError, match=r"^test_tracing\.py:\d+  return x\.median"):
        trace(Module(), (X,))


def graph(build):
    """A graph module made by hand, whose nodes have names of the user's choice."""
    made = torch.fx.Graph()
    x = made.placeholder("x")
    made.output(build(made, made.create_node("call_function", torch.add, (x, 1), name="shifted")))
    return torch.fx.GraphModule({}, made)


def node(name, f, *more):
    return lambda g, x: g.create_node("call_function", f, (x, *more), name=name)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (node("digamma", torch.digamma), UnsupportedOpError),
        (node("wrong", torch.reshape, (4, 9)), ShapeError),
        (lambda g, _: g.create_node("call_method", "add_", (next(iter(g.nodes)), 1), name="written"), TraceError),
    ],
)
def test_a_graph_without_source_names_its_node(build, kind):
    module = graph(build)
    name = list(module.graph.nodes)[-2].name
    with pytest.raises(kind) as info:
        trace(module, (X,))
    assert type(info.value) is kind
    assert info.value.where == f"node {name} of the graph"


def test_an_exported_program_without_source_names_its_node():
    exported = torch.export.export(graph(node("digamma", torch.digamma)), (X,))
    with pytest.raises(UnsupportedOpError) as info:
        trace(exported)
    assert info.value.where == "node digamma of the graph"


def attends_by_row(x):
    return torch.vmap(
        lambda r: torch.nn.functional.scaled_dot_product_attention(r[None], r[None], r[None], dropout_p=0.1), randomness="same"
    )(x)


@pytest.mark.parametrize("fn", [maps_it, attends_by_row, differentiates, lambda x: torch.func.jvp(torch.exp, (x,), (x,))[1]])
def test_torch_is_as_before_after_a_transform_that_is_refused(fn):
    """A level of torch.func that is left open changes every operation of the process."""
    with pytest.raises(EqFuseError):
        trace(fn, (X,))
    assert torch._C._functorch.maybe_current_level() is None
    assert type(torch.randn(3) + 1) is torch.Tensor
    assert trace(torch.exp, (X,)).program.outputs


def test_large_writes_at_positions_that_are_data_are_refused():
    table, at = torch.empty(2**17, 64, device="meta"), torch.empty(2**10, dtype=torch.int64, device="meta")
    with pytest.raises(UnsupportedOpError, match=r"8,589,934,592 comparisons.*\n.*torch\.where"):
        trace(lambda t, i: t.index_add(0, i, t[i]), (table, at))


@pytest.mark.parametrize("fn", [lambda x: x, lambda x: None, lambda x: 3, lambda x: torch.ones(3), lambda x: (x, x.clone())])
def test_empty_programs(fn):
    with pytest.raises(EmptyProgramError) as info:
        trace(fn, (X,))
    assert info.value.where.startswith("test_tracing.py:")
    assert info.value.cure


def test_what_the_function_raised_is_kept():
    with pytest.raises(TraceError) as info:
        trace(asserts, (X,))
    assert isinstance(info.value.__cause__, AssertionError)
    assert "call it on tensors of these shapes yourself" in info.value.cure


class Two(torch.nn.Module):
    def forward(self, x, y):
        return x + y


@pytest.mark.parametrize(("fn", "given", "kwargs"), [(looks_up, 1, {}), (looks_up, 3, {}), (Two(), 1, {}), (looks_up, 2, {"scale": 2.0})])
def test_a_call_with_other_arguments_than_the_function_takes(fn, given, kwargs):
    with pytest.raises(TraceError, match=rf"was given {given + len(kwargs)} argument.*(missing|too many|unexpected)") as info:
        trace(fn, (X,) * given, kwargs)
    assert info.value.where.startswith("test_tracing.py:")
    assert "args=" in info.value.cure
    assert "table)" in info.value.message or "y)" in info.value.message


def test_torch_is_silent_and_what_the_function_prints_is_not(capfd, caplog):
    """A branch on data makes torch log a warning and print its graph, twice; both are as before afterwards.  The function runs twice."""

    def chatty(x):
        print("traced", file=sys.stderr)
        if x.sum() > 0:
            return x + 1
        return x

    names = ("torch.fx.experimental.symbolic_shapes", "torch.export._trace", "torch._subclasses.fake_tensor")
    before = [logging.getLogger(n).disabled for n in names]
    with pytest.raises(TraceError, match="depends on the data"):
        trace(chatty, (X,))
    assert capfd.readouterr().err == "traced\n" * 2
    trace(lambda x: print("once", file=sys.stderr) or x + 1, (X,))
    assert capfd.readouterr().err == "once\n"
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert [logging.getLogger(n).disabled for n in names] == before == [False] * 3
    assert "print" not in vars(torch.export._trace)


def test_a_lambda_has_the_name_that_it_is_bound_to():
    twice = lambda x: x * 2  # noqa: E731
    assert trace(twice, (X,)).program.name == "twice"
    assert trace(lambda x: x * 2, (X,)).program.name == "lambda_x"
    assert trace(lambda: X * 2, ()).program.name == "lambda"


def test_arguments_that_are_no_tensors():
    with pytest.raises(TraceError, match="'x' is a object"):
        trace(lambda x: x, (object(),))
    with pytest.raises(TraceError, match="example arguments"):
        trace(lambda x: x)
    with pytest.raises(TraceError, match="cannot trace a int"):
        trace(3, (X,))
    with pytest.raises(TraceError, match="complex64"):
        trace(lambda x: x * 2, (X.to(torch.complex64),))


def test_mixed_devices():
    with pytest.raises(DeviceError, match=r"'a' on cpu, 'b' on cuda:0\n  try: move them"):
        trace(lambda a, b: a + b, (X, TensorSpec((5, 7), device="cuda:0")))
