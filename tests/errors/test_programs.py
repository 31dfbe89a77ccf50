"""What is refused of programs that are written by hand or bring their own shapes, and of numbers that cannot be held."""

import math

import pytest
import torch

import eqfuse
from eqfuse import errors
from eqfuse.frontends import TensorSpec, trace
from eqfuse.ir import dtypes
from eqfuse.ir.build import axes, const, exp, extent, program, sum_over, tensor, view
from eqfuse.ir.index import Axis
from eqfuse.ir.program import Output, Program
from eqfuse.ir.terms import Const, Map, Reduce
from eqfuse.rewrites.patterns import Map as PatternMap
from eqfuse.rewrites.rule import make_rule

I, J = axes(i=13, j=77)
X, W = tensor("x", I, J), tensor("w", J)
ROWS = program("rows", y=(exp(X), (I, J)))
TWO = program("two", y=(X * W, (I, J)))
LARGE = 2**53 + 1


def refused(kind, run, *texts):
    """The error of this class exactly, with these texts and a cure, in two lines at most."""
    with pytest.raises(errors.EqFuseError) as info:
        run()
    assert type(info.value) is kind, info.value
    for text in texts:
        assert text in str(info.value)
    assert info.value.cure
    assert len(str(info.value).splitlines()) <= 2
    return info.value


def optimize(fn, args=None, **options):
    return eqfuse.optimize(fn, args, **{"target": "h200", **options})


# example arguments of a program that has its shapes ----------------------------------------------------------------------------------
@pytest.mark.parametrize("args", [None, (), [], (torch.randn(13, 77),), torch.randn(13, 77), (TensorSpec((13, 77)),)])
def test_arguments_that_fit_or_are_left_out(args):
    found = trace(ROWS, args).program
    assert found == ROWS
    assert not found.strides


def test_arguments_by_name():
    x, w = torch.randn(13, 77), torch.randn(77)
    assert trace(TWO, (x,), {"w": w}).program == TWO
    refused(errors.ShapeError, lambda: trace(TWO, (x,), {"w": w[1:]}), "'w' is (76,) torch.float32, expected is (77,) torch.float32")
    refused(errors.TraceError, lambda: trace(TWO, (x, w), {"w": w}), "takes the tensors x, w; 3 given")
    refused(errors.TraceError, lambda: trace(TWO, (), {"v": w}), "takes the tensors x, w; 1 given")


MISFITS = {
    "shape, type and count": (
        (torch.randn(3, 3).half(), torch.randn(2)),
        errors.ShapeError,
        "'x' is (3, 3) torch.float16, expected is (13, 77)",
    ),
    "shape": ((torch.randn(77, 13),), errors.ShapeError, "'x' is (77, 13) torch.float32, expected is (13, 77) torch.float32"),
    "type": ((torch.randn(13, 77).half(),), errors.ShapeError, "'x' is (13, 77) torch.float16, expected is (13, 77) torch.float32"),
    "type of a spec": ((TensorSpec((13, 77), torch.float16),), errors.ShapeError, "torch.float16"),
    "too many": ((torch.randn(13, 77),) * 2, errors.TraceError, "rows takes the tensor x; 2 given"),
    "no tensor": ((3,), errors.TraceError, "'x' is a int, not a tensor"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_arguments_that_do_not_fit(misfit):
    args, kind, text = MISFITS[misfit]
    assert refused(kind, lambda: optimize(ROWS, args), "rows", text)


def test_an_exported_program_has_its_shapes():
    x = torch.randn(2, 3)
    exported = torch.export.export(torch.nn.Linear(3, 4), (x,))
    for args in (None, (), (x,)):
        assert [i.name for i in trace(exported, args).program.inputs] == ["input", "weight", "bias"]
    refused(errors.ShapeError, lambda: optimize(exported, (torch.randn(5, 3),)), "'input'", "(5, 3)", "(2, 3)", "leave the arguments out")
    refused(errors.ShapeError, lambda: optimize(exported, (TensorSpec((2, 3), torch.float16),)), "'input'", "float16", "float32")
    refused(errors.TraceError, lambda: optimize(exported, (x, x)), "now 2")


# programs that compute nothing: as functions that do the same ------------------------------------------------------------------------
EMPTY = {
    "no output": (Program("p", (), ()), lambda x: None),
    "an input": (program("p", y=(X, (I, J))), lambda x: x),
    "a number": (program("p", y=(const(3.0), (I,))), lambda x: torch.full((13,), 3.0)),
    "minus zero": (program("p", y=(const(-0.0), (I,))), lambda x: torch.full((13,), -0.0)),
}


@pytest.mark.parametrize("case", EMPTY)
def test_programs_that_compute_nothing(case):
    p, function = EMPTY[case]
    by_hand = refused(errors.EmptyProgramError, lambda: optimize(p, ()), "p ")
    traced = refused(errors.EmptyProgramError, lambda: optimize(function, (torch.randn(13, 77),), name="p", strict=True), "p ")
    assert (by_hand.message, by_hand.cure) == (traced.message, traced.cure)


@pytest.mark.parametrize("outputs", [{"y": (X, (J, I))}, {"y": (const(3.0), (I,)), "z": (exp(X), (I, J))}])
def test_programs_that_move_or_also_return_a_number(outputs):
    assert optimize(program("p", **outputs)).plan.kernels


# axes and names ----------------------------------------------------------------------------------------------------------------------
I7 = Axis("i", 7)
UNFIT = {
    "two sizes": (program("p", y=(X + tensor("w", I7), (I, J))), "axis 'i' has the sizes 13 and 7"),
    "of a sum": (program("p", y=(Reduce("sum", Axis("j", 5), tensor("w", I)) * X, (I, J))), "axis 'j' has the sizes 77 and 5"),
    "of a length": (program("p", y=(X * extent(I7), (I, J))), "axis 'i' has the sizes 13 and 7"),
    "of a position": (program("p", y=(view(tensor("w", J), J, I7) + X, (I, J))), "axis 'i' has the sizes 13 and 7"),
    "of an output": (program("p", y=(exp(W), (J, I)), z=(exp(tensor("v", I7)), (I7,))), "axis 'i' has the sizes 7 and 13"),
    "missing": (program("p", y=(exp(X), (I,))), "the layout of output 'y' lacks the axes j of its value"),
    "twice": (program("p", y=(exp(X), (I, I, J))), "the layout of output 'y' has an axis twice"),
    "two layouts": (program("p", y=(X + tensor("x", J, I), (I, J))), "input 'x' is both [i, j] float32 and [j, i] float32"),
    "two types": (program("p", y=(X + tensor("x", I, J, dtype=dtypes.int64), (I, J))), "[i, j] float32 and [i, j] int64"),
    "not listed": (Program("p", (Output("y", exp(X), (I, J), dtypes.float32),), ()), "input 'x' is not listed once"),
    "one name": (program("p", x=(exp(X), (I, J))), "two tensors are called 'x'"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_axes_and_names_that_do_not_fit(case):
    p, text = UNFIT[case]
    assert refused(errors.ShapeError, lambda: optimize(p), text).where == "p"


def test_one_size_under_two_names_is_two_axes():
    k = Axis("k", 13)
    optimize(program("p", y=(X * sum_over(k, exp(tensor("w", k))), (I, J))))


# operators that do not exist ----------------------------------------------------------------------------------------------------------
def test_an_op_that_does_not_exist():
    refused(errors.UnsupportedOpError, lambda: Map("maximun", (X, W)), "no op is called 'maximun'", "'maximum'")
    refused(errors.UnsupportedOpError, lambda: Map("qqqqqq", (X,)), "no op is called 'qqqqqq'", "one of add, mul")
    refused(errors.UnsupportedOpError, lambda: Map("add", (X,)), "add takes 2 arguments, 1 given")
    refused(errors.UnsupportedOpError, lambda: Reduce("maximum", J, X), "no monoid is called 'maximum'", "'max'")


def test_a_rule_with_an_op_that_does_not_exist():
    def rule(x):
        """nosuch(x) = x."""
        return PatternMap("nosuch", x), x

    refused(errors.RuleError, lambda: make_rule(rule, "user", "real", "factor", True), "no op 'nosuch'")


# integers that float64 does not hold ---------------------------------------------------------------------------------------------------
INTEGERS = torch.tensor([0, 1, LARGE, -LARGE, 2**62, 5])


@pytest.mark.parametrize("n", [LARGE, -LARGE, 2**62 + 1, 2**63 - 1, 10**400])
def test_a_constant_that_would_be_another_number(n):
    refused(errors.UnsupportedOpError, lambda: Const(n), f"the constant {n} is no float64", "integer tensor")
    refused(errors.UnsupportedOpError, lambda: X + n, f"the constant {n} ")


@pytest.mark.parametrize("n", [0, True, 2**53, -(2**53), 2**53 + 2, 2**62, 0.1, 1e300, math.inf, float(LARGE)])
def test_constants_that_are_what_they_are(n):
    assert Const(n).value == n


WIDE = {
    "added": lambda x: x + LARGE,
    "subtracted": lambda x: x - LARGE,
    "compared": lambda x: x == LARGE,
    "filled": lambda x: x + torch.full((6,), LARGE),
    "a tensor": lambda x: x + torch.tensor(LARGE),
    "positions": lambda x: x + (torch.arange(6) + LARGE),
    "a product of whole numbers": lambda x: x + torch.full((6,), 2**27 + 1) * torch.full((6,), 2**27 + 1),
}


@pytest.mark.parametrize("how", WIDE)
def test_integers_that_float64_would_round(how):
    """A front end writes them as two halves."""
    found, expected = optimize(WIDE[how], (INTEGERS,)).interpret(INTEGERS), WIDE[how](INTEGERS)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


KEPT = {
    "a tensor argument": (lambda x, n: x + n, torch.tensor(LARGE)),
    "compared with one": (lambda x, n: (x == n) * 1, torch.tensor(LARGE)),
    "a large constant": (lambda x, n: x + (2**40 + 1) + n, torch.tensor(1)),
    "a power of two": (lambda x, n: x - 2**53 + n, torch.tensor(1)),
    "beside floats": (lambda x, n: n.float() + float(LARGE), torch.tensor(1)),
}


@pytest.mark.parametrize("how", KEPT)
def test_integers_that_arrive(how):
    function, n = KEPT[how]
    found, expected = optimize(function, (INTEGERS, n)).interpret(INTEGERS, n), function(INTEGERS, n)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


# devices -------------------------------------------------------------------------------------------------------------------------------
def test_arguments_with_data_and_without():
    """As at the call: a plan needs shapes only, but of tensors that can meet."""
    x, y = torch.randn(5, 7), torch.empty(5, 7, device="meta")
    refused(errors.DeviceError, lambda: optimize(lambda a, b: a + b, (x, y)), "'a' on cpu, 'b' on meta", "to(device)")
    refused(errors.DeviceError, lambda: optimize(lambda a, b: a + b, (y, x)), "'a' on meta, 'b' on cpu")


def test_what_shapes_alone_may_meet():
    x, y = torch.randn(5, 7), torch.empty(5, 7, device="meta")
    add = torch.add
    for args in ((y, y), (x, TensorSpec((5, 7))), (y, TensorSpec((5, 7))), (TensorSpec((5, 7), device="cuda:0"), TensorSpec((5, 7)))):
        assert len(trace(lambda a, b: add(a, b), args).program.inputs) == 2
    assert len(trace(torch.nn.Linear(7, 3), (y,)).program.inputs) == 3  # a module with its weights, planned for shapes
    with torch.device("meta"):
        linear = torch.nn.Linear(7, 3)
    assert len(trace(linear, (y,)).program.inputs) == 3
