"""What can be traced, how its tensors become inputs, and how results get their structure back."""

import collections
import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from eqfuse.errors import ShapeError, StaticArgumentError, TraceError
from eqfuse.frontends import TensorSpec, trace
from eqfuse.ir.build import axes, program, sum_over, tensor
from eqfuse.ir.reference import evaluate

from .test_corpus import agree

X = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """A module with parameters, a buffer, a constant, and parts."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(7)
        self.up = nn.Linear(7, 9)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.full((9,), 2.0))
        self.factor = torch.arange(1.0, 10.0).double()
        self.double()

    def forward(self, x, shift):
        return {"value": torch.relu(self.up(self.norm(x))) * self.scale * self.factor + shift, "norm": self.norm(x)}


class Mapped(nn.Module):
    def forward(self, x):
        return torch.vmap(lambda r: torch.softmax(r, -1))(x)


def test_module_inputs_are_arguments_then_parameters_buffers_constants():
    block = Block()
    traced = agree(block, (X, torch.ones(9, dtype=torch.float64)))
    names = [i.name for i in traced.program.inputs]
    assert names[:2] == ["x", "shift"]
    assert set(names[2:6]) == {"norm_weight", "norm_bias", "up_weight", "up_bias"}
    assert names[6] == "scale"
    assert len(names) == 8, "the unused layer is no input, the constant tensor is one"
    assert {o.name for o in traced.program.outputs} == {"value", "norm"}


def test_parameters_are_looked_up_at_every_call():
    block = nn.Linear(7, 3, bias=False).double()
    traced = trace(block, (X,))
    block.weight = nn.Parameter(torch.zeros(3, 7, dtype=torch.float64))
    bound = traced.bind(X)
    assert bound["weight"] is block.weight


def test_tied_parameters():
    block = nn.Sequential(nn.Linear(7, 7, bias=False), nn.Linear(7, 7, bias=False)).double()
    block[1].weight = block[0].weight
    agree(block, (X,))


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_graph_module_and_exported_program():
    block = Block()
    args = (X, torch.ones(9, dtype=torch.float64))
    agree(torch.fx.symbolic_trace(nn.Linear(7, 3).double()), (X,))
    exported = torch.export.export(block, args, strict=False)
    mapped = torch.export.export(nn.Sequential(Mapped()), (X,), strict=False)
    assert trace(mapped).program.outputs
    for program_ in (exported, exported.run_decompositions()):
        traced = trace(program_)
        values = evaluate(traced.program, {n: t.detach().numpy() for n, t in traced.bind(*args).items()})
        result = traced.unflatten([values[o.name] for o in traced.program.outputs])
        np.testing.assert_allclose(result["value"], block(*args)["value"].detach().numpy(), rtol=1e-10)


def test_programs_pass_through():
    i, j = axes(i=5, j=7)
    written = program("rows", y=(sum_over(j, tensor("x", i, j)), (i,)))
    traced = trace(written)
    assert traced.program is written
    assert traced.bind(X) == {"x": X}
    assert traced.unflatten([X]) is X
    with pytest.raises(TraceError, match="takes the tensor x; "):
        traced.bind(X, X)


def test_structured_arguments_and_results():
    Pair = collections.namedtuple("Pair", "first second")

    def f(pair, options, *rest, scale=2.0, mode="sum"):
        a, b = pair
        c = options["c"] * scale
        total = a + b + c + rest[0] if mode == "sum" else a
        return [Pair(total, (a * b).sum(-1)), {"again": total, "nothing": None}, 3]

    traced = trace(f, ([X, X], {"c": X}, X), {"scale": 3.0})
    assert [i.name for i in traced.program.inputs] == ["pair_0", "pair_1", "options_c", "rest_0"]
    assert len(traced.program.outputs) == 2, "a tensor returned twice is computed once"
    result = traced.unflatten(["total", "products"])
    assert result == [("total", "products"), {"again": "total", "nothing": None}, 3]
    assert isinstance(result[0], Pair)


def test_the_same_tensor_twice_is_two_inputs():
    traced = trace(lambda a, b: a * b, (X, X))
    assert [i.name for i in traced.program.inputs] == ["a", "b"]
    assert set(traced.bind(X, X + 1)) == {"a", "b"}


def test_unused_arguments_are_inputs_and_unused_parameters_are_not():
    traced = trace(lambda a, b, c: a + c, (X, X, X))
    assert [i.name for i in traced.program.inputs] == ["a", "b", "c"]


def test_passing_an_input_through_alongside_a_result():
    agree(lambda a, b: (a, a + b), (X, X))


def test_numbers_in_the_function_are_part_of_the_program():
    half = torch.tensor(0.5, dtype=torch.float64)
    traced = agree(lambda x: x * half + torch.tensor(2.0), (X,))
    assert [i.name for i in traced.program.inputs] == ["x"]


def test_tensors_that_are_closed_over_are_inputs():
    table = torch.arange(7, dtype=torch.float64)
    traced = agree(lambda x: x * table, (X,))
    assert len(traced.program.inputs) == 2


def test_specs_in_place_of_tensors():
    spec = TensorSpec((5, 7), torch.float16)
    traced = trace(lambda x: x.float().sum(-1) + torch.arange(5), (spec,))
    assert traced.program.inputs[0].dtype.name == "float16"
    assert traced.specs["x"].stride == (7, 1)
    described = np.zeros((5, 7), dtype=np.float32)
    assert trace(torch.exp, (described,)).program.outputs[0].dtype.name == "float32"


def test_strides_do_not_change_the_program():
    dense, turned = (trace(lambda x: x.sum(-1), (x,)).program for x in (X, X.T.contiguous().T))
    assert dense == turned and not dense.strides and turned.strides == {"x": (1, 5)}, "they are known beside it"


def test_wrong_arguments_at_the_call():
    traced = trace(lambda x, n: x * n, (X, 3))
    with pytest.raises(ShapeError, match=r"'x' has shape \(7, 5\), compiled for \(5, 7\)"):
        traced.bind(X.T, 3)
    with pytest.raises(TraceError, match="number 3"):
        traced.bind(X, 4)
    with pytest.raises(ShapeError, match=r"torch\.float32, compiled for torch\.float64"):
        traced.bind(X.float(), 3)
    with pytest.raises(TraceError, match="other arguments"):
        traced.bind(X)


def test_types_are_torchs():
    x = torch.ones(5, 7, dtype=torch.float16)
    program_ = trace(
        lambda x, b: (x.float() * 2, x * b, x.sum(), (x > 0).sum(), x / 3, x.softmax(-1, dtype=torch.float32)), (x, x.bfloat16())
    ).program
    assert [o.dtype.name for o in program_.outputs] == ["float32", "float32", "float16", "int64", "float16", "float32"]
    assert all(o.term.dtype == o.dtype for o in program_.outputs)


def test_sources_name_the_users_line():
    def f(x):
        y = x.exp()
        return y.sum(-1)

    program_ = trace(f, (X,)).program
    texts = {program_.sources[t].split("  ")[1] for t in program_.terms() if t in program_.sources}
    assert texts == {"y = x.exp()", "return y.sum(-1)"}
    assert all(s.startswith("test_binding.py:") for s in program_.sources.values())


def test_deep_programs():
    def f(x):
        for _ in range(700):
            x = x + 1
        return x

    assert len(trace(f, (X,)).program.terms()) > 700


# -- constants ---------------------------------------------------------------------------------------------------------------


TABLE = torch.arange(7, dtype=torch.float64)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * torch.tensor([1.0, 2, 3, 4, 5, 6, 7], device=x.device),
        lambda x: x * TABLE.to(x.device),
        lambda x: x * TABLE.to(x.device) + torch.arange(7, device=x.device),
    ],
)
def test_constants_follow_the_arguments_to_their_device(f):
    for example in (X, X.to("meta"), TensorSpec(tuple(X.shape), X.dtype, device="cuda:0")):
        traced = trace(f, (example,))
        assert len(traced.program.inputs) == 2
        with FakeTensorMode(allow_non_fake_inputs=True):
            bound = traced.bind(torch.empty(5, 7, dtype=X.dtype, device="cuda:1"))
        assert {str(t.device) for t in bound.values()} == {"cuda:1"}
        assert {str(t.device) for t in traced.bind(X).values()} == {"cpu"}
    agree(f, (X,))


def test_constants_are_read_at_every_call():
    table = np.ones(7)
    traced = trace(lambda x: x * torch.from_numpy(table), (X,))
    (name,) = (i.name for i in traced.program.inputs if i.name != "x")
    table[:] = 2  # unknown to torch
    assert traced.bind(X)[name].tolist() == [2.0] * 7


def test_a_parameter_that_a_function_captures_is_bound_itself():
    """Export's alias of it has no gradient, and its old memory when the module has moved."""
    layer, scale = nn.Linear(7, 3).double(), nn.Parameter(torch.ones(7, dtype=torch.float64))
    learned = torch.ones(7, dtype=torch.float64, requires_grad=True)
    frozen = nn.Parameter(torch.ones(3, dtype=torch.float64), requires_grad=False)
    traced = agree(lambda x: layer(x * scale + learned) * frozen, (X,))
    held = [t for n, t in traced.bind(X).items() if n != "x"]
    assert {id(t) for t in held} == {id(t) for t in (layer.weight, layer.bias, scale, learned, frozen)}
    assert {id(t) for t in traced.captured.values()} == {id(t) for t in held}


def test_a_parameter_without_dimensions_is_no_number():
    """It changes with every step of training."""
    temperature = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    traced = trace(lambda x: x * temperature, (X,))
    x, held = traced.program.inputs
    assert x.name == "x"
    assert traced.bind(X)[held.name] is temperature


def test_data_of_a_captured_tensor_is_refused():
    """Export leaves a tensor without data of it, which no kernel can read."""
    scale = nn.Parameter(torch.ones(7, dtype=torch.float64))
    with pytest.raises(TraceError, match=r"no data when it is traced\n  try: use \.detach\(\)"):
        trace(lambda x: x * scale.data, (X,))


# -- arguments that are no tensors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("traced_with", "others"), [(2, [2.0, 3, True]), (1, [True, 1.0]), (2.0, [2]), (True, [1]), (0.0, [-0.0, 0])])
def test_numbers_of_another_type_are_others(traced_with, others):
    traced = trace(lambda x, n: x * n, (X, traced_with))
    assert traced.bind(X, traced_with)["x"] is X
    for other in others:
        with pytest.raises(StaticArgumentError, match=f"number {traced_with}"):
            traced.bind(X, other)


def test_nan_is_the_number_that_it_is():
    traced = trace(lambda x, n: x.masked_fill(x > 0, n), (X, float("nan")))
    assert traced.bind(X, float("nan"))["x"] is X
    with pytest.raises(StaticArgumentError):
        traced.bind(X, 0.0)


def test_keyword_arguments_have_no_order():
    def f(x, *, shift, options, by=1.0):
        return x * options["a"] + options["b"][0]["c"] * by + shift

    tensors = [X + n for n in range(4)]
    x, shift, a, c = tensors
    traced = trace(f, (x,), {"shift": shift, "options": {"a": a, "b": [{"c": c, "d": None}]}, "by": 2.0})
    expected = traced.bind(x, shift=shift, options={"a": a, "b": [{"c": c, "d": None}]}, by=2.0)
    found = traced.bind(x, by=2.0, options={"b": [{"d": None, "c": c}], "a": a}, shift=shift)
    assert list(found) == ["x", "shift", "options_a", "options_b_0_c"]
    assert all(found[n] is t for n, t in zip(found, (x, shift, a, c), strict=True))
    assert all(found[n] is expected[n] for n in found)
    with pytest.raises(TraceError, match="other arguments"):
        traced.bind(x, by=2.0, shift=shift)


# -- spellings of one call ---------------------------------------------------------------------------------------------------


def scaled(x, y, scale=2.0, *, activation=torch.relu, bias=None):
    return activation(x) * scale + y if bias is None else activation(x) * scale + y + bias


class Scaled(nn.Module):
    def forward(self, x, y, scale=2.0, *, activation=torch.relu, bias=None):
        return scaled(x, y, scale, activation=activation, bias=bias)


Y, B = X + 1, X + 2
SPELLINGS = [
    ((X, Y), {}),
    ((X,), {"y": Y}),
    ((), {"y": Y, "x": X}),
    ((X, Y, 2.0), {}),
    ((X,), {"scale": 2.0, "y": Y}),
    ((X, Y), {"bias": None, "activation": torch.relu}),
]


@pytest.mark.parametrize("obj", [scaled, Scaled(), torch.no_grad()(scaled)])
@pytest.mark.parametrize("traced_with", [s for s in SPELLINGS if "activation" not in s[1]])
def test_every_spelling_of_a_call_is_the_same(obj, traced_with):
    traced = trace(obj, *traced_with)
    for args, kwargs in SPELLINGS:
        bound = traced.bind(*args, **kwargs)
        assert bound["x"] is X
        assert bound["y"] is Y
        assert traced.key(args, kwargs) == traced.key((X, Y), {})
    others = [
        ((X, Y, 3.0), {}),
        ((X, Y), {"scale": 2}),
        ((X,), {"scale": 1.0, "y": Y}),
        ((X, Y), {"activation": torch.exp}),
        ((X, Y), {"bias": B}),
    ]
    for args, kwargs in others:
        with pytest.raises(StaticArgumentError):
            traced.bind(*args, **kwargs)
        assert traced.key(args, kwargs) != traced.key((X, Y), {})
    for args, kwargs, what in [
        ((X,), {}, "missing.*'y'"),
        ((X, Y), {"bais": B}, "unexpected.*'bais'"),
        ((X, Y, 2.0, B), {}, "too many"),
        ((X, Y), {"y": Y}, "multiple"),
    ]:
        with pytest.raises(TraceError, match=rf"other arguments: .*, now .*; it takes \(x, y, scale=2\.0.*{what}"):
            traced.bind(*args, **kwargs)


def test_keys_say_which_parameter_a_value_is_for():
    traced = trace(lambda x, a=1.0, b=1.0: x * a + b, (X,))
    keys = [traced.key((X,), k) for k in ({}, {"a": 2.0}, {"b": 2.0}, {"a": 2})]
    assert len(set(keys)) == 4
    assert traced.key((X, 1.0, 2.0), {}) == traced.key((X,), {"b": 2.0}) == keys[2]


def test_a_default_that_was_given_may_be_left_out():
    """What it then is, is what the function has as its default."""
    table = torch.ones(7, dtype=torch.float64)

    def f(x, by=table, *, bias=None):
        return x * by if bias is None else x * by + bias

    traced = trace(f, (X, table * 2), {"bias": B})
    assert traced.bind(x=X, bias=B)["by"] is table
    with pytest.raises(StaticArgumentError, match="'bias' is a NoneType"):
        traced.bind(X)
    left_out = trace(f, (X,))
    assert left_out.bind(X, by=table).keys() == left_out.bind(X).keys()
    with pytest.raises(StaticArgumentError, match=r"by=a tensor \(7,\), now a tensor \(7,\)"):
        left_out.bind(X, table * 2)


def test_parameters_without_names_of_their_own():
    def f(first, *rest, **named):
        return first + sum(rest) * named["by"] + named["to"]

    traced = trace(f, (X, Y, B), {"by": Y, "to": X})
    assert traced.bind(X, Y, B, to=X, by=Y)["rest_1"] is B
    with pytest.raises(TraceError, match="other arguments: 'rest' was 2 values, now 1"):
        traced.bind(X, Y, by=Y, to=X)
    with pytest.raises(TraceError, match="other arguments: 'named' was 2 values, now 3"):
        traced.bind(X, Y, B, by=Y, to=X, at=X)


def test_a_decorator_may_have_defaults_of_its_own():
    @functools.wraps(scaled)
    def doubled(*args, **kwargs):
        return scaled(*args, **{"scale": 4.0, **kwargs})

    traced = trace(doubled, (X, Y))
    assert traced.bind(X, y=Y)["y"] is Y
    with pytest.raises(StaticArgumentError, match="'scale' left out, now it is given"):
        traced.bind(X, Y, scale=2.0)


def test_without_a_signature_the_message_says_what_differs():
    traced = trace(torch.add, (X, Y))
    assert traced.bind(X, Y)
    with pytest.raises(TraceError, match="other arguments: 2 by position, now 1 by position and other="):
        traced.bind(X, other=Y)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("exported_with", [((X, Y), {}), ((X,), {"y": Y})])
def test_spellings_of_an_exported_program(exported_with):
    traced = trace(torch.export.export(Two(), *exported_with, strict=False))
    for args, kwargs in SPELLINGS[:3]:
        assert traced.bind(*args, **kwargs)["y"] is Y
        assert torch.equal(traced.eager(*args, **kwargs), X + 2 * Y)


class Two(nn.Module):
    def forward(self, x, y):
        return x + 2 * y


# -- threads -----------------------------------------------------------------------------------------------------------------


def test_threads_trace_one_after_the_other():
    def terms(k):
        return [str(trace(lambda x, n=n: torch.softmax(x * (k + n), -1), (X,), name="rows").program) for n in range(5)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(terms, range(4)))
    assert found == [terms(k) for k in range(4)]
