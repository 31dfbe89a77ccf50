"""What ``optimize`` and its result refuse: one clear class, the place, the cure."""

import pytest
import torch

import eqfuse
from eqfuse.compiled import Compiled
from eqfuse.errors import (
    DeviceError,
    EmptyProgramError,
    EqFuseError,
    OptionError,
    PlanError,
    RuleError,
    ShapeError,
    TraceError,
    UnknownTargetError,
    UnsupportedOpError,
)
from eqfuse.frontends import TensorSpec
from eqfuse.ir import dtypes
from eqfuse.ir.build import axes, program, sum_over, tensor
from eqfuse.rewrites import rule
from eqfuse.rewrites.check import check_all, check_rule

X = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))


def rows(x):
    return torch.softmax(x, -1)


def refused(kind, fn, args, *texts, **options):
    """The error that optimize raises: of this class exactly, with these texts, and short."""
    with pytest.raises(EqFuseError) as info:
        eqfuse.optimize(fn, args, **{"target": "h200", **options})
    assert type(info.value) is kind, info.value
    for text in texts:
        assert text in str(info.value)
    assert info.value.cure, "an error tells what to do"
    assert len(str(info.value).splitlines()) <= 2
    return info.value


@pytest.fixture(scope="module")
def compiled():
    return eqfuse.optimize(rows, (X,), target="h200")


# options ----------------------------------------------------------------------------------------------------------------------------
def test_unknown_target():
    refused(UnknownTargetError, rows, (X,), '"h20"', 'did you mean "h200"', target="h20")


def test_unknown_architecture(compiled):
    with pytest.raises(UnknownTargetError, match=r"sm_91(.|\n)*sm_90"):
        compiled.compile("sm_91")


def test_unknown_licence():
    error = refused(OptionError, rows, (X,), "'rael'", "licence='real'", "exact, real, approx", licence="rael")
    assert isinstance(error, ValueError), "a wrong value of an option is also Python's error for one"


def test_unknown_rule_in_disable():
    refused(OptionError, rows, (X,), "'repiar'", "'repair'", disable=["repiar"])


WRONG = [
    *[("node_budget", v) for v in (None, "a", -1, float("nan"), True)],
    *[("time_budget", v) for v in (None, "a", -1, float("nan"))],
    *[("memory_limit", v) for v in ("a", -1, float("nan"), True)],
    *[("objective", v) for v in (None, "speed", 3)],
    *[("accuracy_factor", v) for v in ("a", -1, 0, float("nan"), [])],
    *[("no_spills", v) for v in (None, 1, "yes")],
    *[("refine", v) for v in (None, -1, True, 1.5, 65)],
    *[("tune", v) for v in (None, 1)],
    *[("disable", v) for v in (None, "repair", 3)],
    *[("fusion", v) for v in (3, "out")],
    *[("rules", v) for v in (3, "repair", eqfuse.rules()[0])],
    *[("kwargs", v) for v in (3, ["x"])],
    ("name", 3),
]


@pytest.mark.parametrize(("option", "value"), WRONG, ids=lambda v: str(v))
def test_options_that_have_no_such_value(option, value):
    refused(OptionError, rows, (X,), f"{option} is {value!r}", **{option: value})


def test_options_that_are_long_are_not_repeated():
    refused(OptionError, rows, (X,), "kwargs is a list", kwargs=[X])
    refused(OptionError, rows, (X,), "node_budget is a Tensor", node_budget=X)


def test_names_that_are_no_text():
    refused(OptionError, rows, (X,), "cannot disable 3", disable=[3])
    for request in (None, 3, "out", ("forbid", "out"), ("forbid", "out", 3)):
        refused(OptionError, rows, (X,), f"fusion={request!r} is no verdict", fusion=[request])


def test_a_program_without_limits():
    """Infinity is a budget: none at all."""
    c = eqfuse.optimize(rows, (X,), target="h200", node_budget=float("inf"), time_budget=float("inf"))
    assert "stopped early" not in str(c.plan)


def test_a_level_of_debugging_that_is_no_number(monkeypatch):
    monkeypatch.setenv("EQFUSE_DEBUG", "plan")
    refused(OptionError, rows, (X,), "EQFUSE_DEBUG is 'plan'", "0 to 5")


@pytest.mark.parametrize("options", [{"factor": "a"}, {"factor": 0}, {"orders": "a"}, {"orders": -1}], ids=str)
def test_options_of_accuracy(compiled, options):
    with pytest.raises(OptionError, match=r"accuracy: \w+ is .*\n  try: ") as info:
        compiled.accuracy(X, **options)
    assert info.value.cure


@pytest.mark.parametrize("run", ["interpret", "simulate", "accuracy"])
def test_tensors_without_data(compiled, run):
    with pytest.raises(DeviceError, match=r"rows: x is on the meta device, where tensors hold no data\n  try: CPU or CUDA tensors"):
        getattr(compiled, run)(X.to("meta"))


def test_files_that_cannot_be_written(compiled, tmp_path):
    with pytest.raises(OptionError, match=r"rows: cannot write .*x\.py.*\n  try: make the directory .*absent first"):
        compiled.save(tmp_path / "absent" / "x.py")
    with pytest.raises(OptionError, match=r"rows: cannot write .*\n  try: a file in a directory"):
        compiled.save(tmp_path)


def test_unknown_runner(compiled):
    with pytest.raises(OptionError, match="gpu"):
        compiled.accuracy(X, runner="gpu")


# devices ----------------------------------------------------------------------------------------------------------------------------
def test_mixed_devices_at_optimize():
    other = TensorSpec((5, 7), device="cuda:0")
    refused(DeviceError, lambda a, b: a + b, (X, other), "'a' on cpu", "'b' on cuda:0", "to(device)")


def test_module_and_arguments_on_different_devices():
    refused(DeviceError, torch.nn.Linear(7, 3), (TensorSpec((5, 7), device="cuda:0"),), "cuda:0", "weight")


def test_mixed_devices_at_the_call():
    c = eqfuse.optimize(lambda a, b: a * b + 1, (X, X), target="h200")
    with pytest.raises(DeviceError, match=r"arguments are on cpu, meta\n  try: move every argument to one device"):
        c(X, X.to("meta"))


def test_no_kernels_for_other_devices(compiled):
    class Elsewhere:
        device = torch.device("xpu")

    with pytest.raises(DeviceError, match="no kernels run on xpu"):
        compiled._device([Elsewhere()])


# programs ---------------------------------------------------------------------------------------------------------------------------
def branches(x):
    if x.sum() > 0:
        return x + 1
    return x


def sorts(x):
    return x.sort(-1).values * 2


def misfits(x):
    return x + torch.ones(3)


def doubles(x):
    y = x.double()
    return y.sum(-1).float()


PROGRAMS = {
    branches: (TraceError, X, "if x.sum() > 0:", "torch.where"),
    sorts: (UnsupportedOpError, X, "return x.sort(-1).values * 2", "aten.sort"),
    misfits: (ShapeError, X, "return x + torch.ones(3)", "shapes"),
    doubles: (UnsupportedOpError, X, "test_pipeline_errors.py:", "float64", "drop .double()"),
}


@pytest.mark.parametrize("fn", PROGRAMS)
def test_programs_that_are_refused(fn):
    """What is wrong with a function is always an error; what kernels cannot compute of one that is right only where that is asked for."""
    kind, arg, *texts = PROGRAMS[fn]
    error = refused(kind, fn, (arg,), *texts, strict=fn in (sorts, doubles))
    assert error.where.startswith("test_pipeline_errors.py:")


@pytest.mark.parametrize("fn", [lambda x: x, lambda x: None, lambda x: (x, x), lambda x: torch.ones(3)])
def test_empty_programs(fn):
    refused(EmptyProgramError, fn, (X,), strict=True)


@pytest.mark.parametrize("fn", [lambda x: x, lambda x: x[None].squeeze(0), lambda x: (x, 3), lambda x: torch.ones(3)])
def test_where_nothing_is_computed_torch_runs_it(fn):
    compiled = eqfuse.optimize(fn, (X,), target="h200")
    assert not compiled.plan.kernels
    for found in (compiled(X), compiled.interpret(X)):
        torch.testing.assert_close(found, fn(X))


def test_float64_inputs():
    """The kernels would compute in float32; eager on the CPU would not, so the loss would show only on a GPU."""
    refused(UnsupportedOpError, rows, (X.double(),), "input 'x' is float64", "x.float()", strict=True)


def test_float64_in_a_program_written_by_hand():
    i, j = axes(i=5, j=7)
    x = tensor("x", i, j, dtype=dtypes.float64)
    refused(UnsupportedOpError, program("total", y=(sum_over(j, x), (i,))), None, "total", "'x' is float64")


@pytest.mark.parametrize(("dtype", "fn"), [(torch.complex64, lambda x: x * 2), (torch.uint16, lambda x: x)])
def test_element_types_without_meaning(dtype, fn):
    refused(TraceError, fn, (X.abs().to(dtype),), f"'x' has element type {dtype}", "use one of float16", strict=True)


def test_the_largest_of_nothing():
    refused(ShapeError, lambda x: x.amax(-1), (torch.ones(5, 0),), "zero-size")


def test_arguments_that_are_no_tensors():
    refused(TraceError, lambda x: x * 2, (object(),), "'x' is a object")
    refused(TraceError, rows, None, "example arguments")
    refused(TraceError, 3, (X,), "cannot trace a int")


# rules ------------------------------------------------------------------------------------------------------------------------------
def test_rule_with_an_unbound_name():
    with pytest.raises(RuleError, match=r"rule invents: 'y' is used on the right side.*\n  try: match 'y' on the left") as info:

        @rule(family="user")
        def invents(x, y):
            """x + 0 = x + y."""
            return x + 0.0, x + y

    assert "test_pipeline_errors.py:" in info.value.where
    assert "invents" not in {r.name for r in eqfuse.rules()}


def returned(x):
    return x


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        (None, "decorated with @eqfuse.rule"),
        ("factor_out_of_nothing", "eqfuse.rules() lists"),
        (returned, "@eqfuse.rule(register=False)"),
        (eqfuse.rules()[0].name, "eqfuse.rules('"),
    ],
    ids=["nothing", "unknown name", "function", "name"],
)
def test_checks_of_what_is_no_rule(value, cure):
    for check in (check_rule, lambda v: check_all([v])):
        with pytest.raises(RuleError, match="is no rule") as info:
            check(value)
        assert cure in info.value.cure


@pytest.mark.parametrize("options", [{"examples": None}, {"examples": 0}, {"oracles": ["array"]}, {"oracles": 3}], ids=str)
def test_options_of_a_check(options):
    for check in (check_rule, lambda v, **o: check_all([v], **o)):
        with pytest.raises(OptionError) as info:
            check(eqfuse.rules()[0], **options)
        assert info.value.cure


# calls ------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("run", ["interpret", "simulate"])
def test_arguments_of_another_shape(compiled, run):
    with pytest.raises(ShapeError, match=r"'x' has shape \(7, 5\), compiled for \(5, 7\)\n  try: optimise again"):
        getattr(compiled, run)(X.T)


@pytest.mark.parametrize("run", ["interpret", "simulate"])
def test_programs_written_by_hand_check_shapes_too(run):
    i, j = axes(i=5, j=7)
    c = eqfuse.optimize(program("total", y=(sum_over(j, tensor("x", i, j)), (i,))), target="h200")
    with pytest.raises(ShapeError, match=r"total: x is \(7, 5\).*compiled for \(5, 7\) float32\n  try: call optimize"):
        getattr(c, run)(X.T)
    with pytest.raises(TraceError, match="takes the tensor x; "):
        getattr(c, run)()


@pytest.mark.parametrize("run", [Compiled.__call__, Compiled.interpret, Compiled.simulate], ids=lambda f: f.__name__)
def test_wrong_number_of_arguments(compiled, run):
    for args in ((), (X, X)):
        with pytest.raises(TraceError, match="traced with other arguments"):
            run(compiled, *args)
    with pytest.raises(TraceError, match="traced with other arguments"):
        run(compiled, X, y=X)


@pytest.mark.parametrize("run", ["__call__", "interpret", "simulate", "accuracy"])
def test_arguments_that_are_no_dense_tensors(compiled, run):
    with pytest.raises(TraceError, match=r"rows: x is no dense torch tensor but a ndarray\n  try: torch.as_tensor"):
        getattr(compiled, run)(X.numpy())
    with pytest.raises(TraceError, match="x is no dense torch tensor"):
        getattr(compiled, run)(X.to_sparse())


def test_sparse_example_arguments():
    refused(TraceError, rows, (X.to_sparse(),), "sparse", ".to_dense()")


@pytest.mark.parametrize("run", ["interpret", "simulate"])
def test_arguments_of_another_type(compiled, run):
    with pytest.raises(ShapeError, match=r"'x' is torch\.float16, compiled for torch\.float32"):
        getattr(compiled, run)(X.half())


def test_sizes_that_are_fixed(compiled):
    written = eqfuse.optimize(compiled.program, target="h200")
    with pytest.raises(PlanError, match=r"rows: .*fixed.*\n  try: call at"):
        written.at(X)
    assert compiled.at(X[:4]).at(X).plan.kernels[0].kernel.roles.keys() == compiled.plan.kernels[0].kernel.roles.keys()
