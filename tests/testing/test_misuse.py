"""Every public function of eqfuse.testing says what it takes; a comparison of nothing is none; and whose exception it is."""

import numpy as np
import pytest
import torch

import eqfuse.testing
from eqfuse.errors import AccuracyError, EmptyProgramError, EqFuseError, OptionError
from eqfuse.testing import (
    assert_equivalent,
    check_op,
    check_rule,
    check_spelling,
    documents,
    indices,
    interpreted_kernels,
    lay_out,
    lengths,
    masks,
    offsets,
    recipe_of,
    sample,
    size,
    tensors,
    windows,
)

F32, X = torch.float32, torch.randn(3)
ROWS = tensors(F32, ("B", "N"))


def double(x):
    return 2 * x


def compare(*args, **options):
    return lambda: assert_equivalent(*args, **options)


def enter(block):
    with block:
        pass


class Function(torch.autograd.Function):
    pass


MISUSE = {
    "no functions": (compare(3, 4, [X]), "the first function is 3, which cannot be called"),
    "one function": (compare(double, None, [X]), "the second function is None"),
    "a class of autograd": (compare(double, Function, [X]), r"the second function is the class Function\n  try: Function\.apply"),
    "a bare tensor": (compare(double, double, X), r"args is a Tensor of shape \(3,\)\n  try: the arguments in a list"),
    "a bare strategy": (compare(double, double, ROWS), "args is .*\n  try: the arguments in a list"),
    "named arguments": (compare(double, double, {"x": X}), "args is {'x'"),
    "no examples": (compare(double, double, [ROWS], examples=0), "examples is 0\n  try: a whole number, 1 or more"),
    "half an example": (compare(double, double, [ROWS], examples=2.5), "examples is 2.5"),
    "a negative factor": (compare(double, double, [X], factor=-1), "factor is -1"),
    "roundings": (compare(double, double, [X], roundings="few"), "roundings is 'few'"),
    "no number": (compare(double, double, [X], factor=float("nan")), "factor is nan"),
    "repeats": (compare(double, double, [X], repeats=0), "repeats is 0"),
    "seed": (compare(double, double, [ROWS], seed="one"), "seed is 'one'"),
    "shrink_seconds": (compare(double, double, [ROWS], shrink_seconds=None), "shrink_seconds is None"),
    "sanitize": (compare(double, double, [X], sanitize="yes"), "sanitize is 'yes'\n  try: True or False"),
    "shuffle": (compare(double, double, [X], shuffle=3), "shuffle is 3"),
    "constants": (compare(double, double, [X], constants=["A"]), "constants is"),
    "a type by name": (lambda: tensors("float32", ("N",)), "dtype is 'float32'\n  try: torch.float32, or several"),
    "types by name": (lambda: tensors(["float32"], ("N",)), "a type is 'float32'"),
    "no type": (lambda: tensors([], ("N",)), "dtype is empty"),
    "integers": (lambda: tensors(torch.int64, ("N",)), "tensors are of floating point.*\n  try: indices"),
    "complex numbers": (lambda: tensors(torch.complex64, ("N",)), "a type is torch.complex64"),
    "a shape that is a name": (lambda: tensors(F32, "N"), "shape is 'N'\n  try: sizes"),
    "a shape that is a number": (lambda: tensors(F32, 3), "shape is 3"),
    "a negative size": (lambda: tensors(F32, (-3,)), "a size is -3\n  try: a whole number, a name"),
    "half a size": (lambda: tensors(F32, (2.5,)), "a size is 2.5"),
    "values": (lambda: tensors(F32, ("N",), values="odd"), "values: there is no 'odd'\n  try: one or some of normal, ties"),
    "values that are numbers": (lambda: tensors(F32, ("N",), values=[1]), "values: there is no 1"),
    "no values": (lambda: tensors(F32, ("N",), values=[]), "values is empty"),
    "layouts": (lambda: tensors(F32, ("N",), layouts="diagonal"), "layouts: there is no 'diagonal'"),
    "kinds of masks": (lambda: masks(("N",), kinds="normal"), "kinds: there is no 'normal'\n  try: one or some of random, all"),
    "layouts of masks": (lambda: masks(("N",), layouts="odd"), "layouts: there is no 'odd'"),
    "shape of masks": (lambda: masks(None), "shape is None"),
    "indices below nothing": (lambda: indices(("N",), below=0), "below is 0: no integer is at least 0 and below 0"),
    "indices below a tensor": (lambda: indices(("N",), below=X), r"below is a Tensor of shape \(3,\)"),
    "real indices": (lambda: indices(("N",), 3, dtype=F32), "dtype is torch.float32\n  try: a type of integers"),
    "layouts of indices": (lambda: indices(("N",), 3, layouts="odd"), "layouts: there is no 'odd'"),
    "lengths": (lambda: lengths("B", longest=-1), "longest is -1"),
    "real lengths": (lambda: lengths("B", 3, dtype="int64"), "dtype is 'int64'\n  try: a type of integers"),
    "kinds of lengths": (lambda: lengths("B", 3, kinds="offsets"), "kinds: there is no 'offsets'\n  try: one or some of zeros, ones"),
    "documents": (lambda: documents("T", count=-1), "count is -1"),
    "windows": (lambda: windows("B", columns=None), "columns is None"),
    "kinds of windows": (lambda: windows("B", 3, kinds="odd"), "kinds: there is no 'odd'"),
    "count of lengths": (lambda: lengths(-1, 3), "a size is -1"),
    "offsets": (lambda: offsets("B", total=None), "total is None"),
    "real offsets": (lambda: offsets("B", 3, dtype=torch.bool), "dtype is torch.bool"),
    "a size without a name": (lambda: size(3), "the name of a size is 3"),
    "a size the wrong way round": (lambda: size("A", 3, 2), "size 'A': high is 2\n  try: a whole number, 3 or more"),
    "a size below 0": (lambda: size("A", -1), "size 'A': low is -1"),
    "a size between halves": (lambda: size("A", 1, 2.5), "size 'A': high is 2.5"),
    "sample: size": (lambda: sample(F32, (-3,)), "a size is -3"),
    "sample: shape": (lambda: sample(F32, 3), "shape is 3"),
    "sample: name": (lambda: sample(F32, ("N",)), "a size is 'N'"),
    "sample: type": (lambda: sample("float32", (3,)), "a type is 'float32'"),
    "sample: values": (lambda: sample(F32, (2,), values="lengths"), "values: there is no 'lengths'"),
    "sample: many values": (lambda: sample(F32, (2,), values=("normal",)), "values is"),
    "sample: integers": (lambda: sample(torch.int64, (2,)), "values: there is no 'normal'\n  try: one or some of below, same"),
    "sample: truth": (lambda: sample(torch.bool, (2,)), "one or some of random"),
    "sample: seed": (lambda: sample(F32, (2,), seed=-1), "seed is -1"),
    "sample: layout": (lambda: sample(F32, (2,), layout=3), "layout is 3"),
    "sample: below": (lambda: sample(torch.int64, (2,), values="below", below=-1), "below is -1"),
    "sample: below nothing": (lambda: sample(torch.int64, (2,), values="below", below=0), "no integer is at least 0 and below 0"),
    "layout": (lambda: lay_out(torch.ones(2, 2), "diagonal"), "layout: there is no 'diagonal'"),
    "layout of a list": (lambda: lay_out([1.0], "rows"), r"what lay_out is given is \[1\.0\]"),
    "recipe of a list": (lambda: recipe_of([1.0]), r"what recipe_of is given is \[1\.0\]"),
    "rule": (lambda: check_rule(3), "3"),
    "op": (lambda: check_op("exp"), "what check_op is given is 'exp'"),
    "spelling": (lambda: check_spelling(None), "what check_spelling is given is None"),
    "order": (lambda: enter(interpreted_kernels(order="random")), "order is 'random'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name):
    call, said = MISUSE[name]
    with pytest.raises(EqFuseError, match=f"(?s){said}"):
        call()


def test_every_public_function_is_looked_at():
    takes_anything = {"arguments"} | {n for n in eqfuse.testing.__all__ if not n.islower()}
    called = {"assert_equivalent"}.union(*(call.__code__.co_names for call, _ in MISUSE.values()))
    assert set(eqfuse.testing.__all__) == called & set(eqfuse.testing.__all__) | takes_anything


def test_a_kernel_is_no_launcher():
    triton = pytest.importorskip("triton")

    @triton.jit
    def kernel(x_ptr):
        pass

    with pytest.raises(OptionError, match="the second function is the Triton kernel kernel\n  try: a function that allocates"):
        assert_equivalent(double, kernel, [X])


# ---- nothing ----

NOTHING = {
    "None": (lambda x: None, lambda x: None),
    "an empty tuple": (lambda x: (), lambda x: []),
    "a text": (lambda x: "done", lambda x: "other"),
    "empty tensors": (lambda x: x[:0], lambda x: x[:0] + 1),
}


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("args", [(X,), [ROWS]], ids=["one call", "examples"])
def test_nothing_is_not_compared_with_nothing(name, args):
    f, g = NOTHING[name]
    with pytest.raises(EmptyProgramError, match=r"(?s)nothing was compared: neither .* try: return the results from both functions"):
        assert_equivalent(f, g, args, **({} if isinstance(args, tuple) else {"examples": 3}))


def test_what_is_empty_because_its_arguments_are():
    assert assert_equivalent(double, lambda x: x + x, (torch.empty(0, 3),)).examples == 1
    with pytest.raises(AccuracyError, match="shape"):
        assert_equivalent(double, lambda x: (x + x).T, (torch.empty(0, 3),))
    assert_equivalent(double, lambda x: x + x, [tensors(F32, (size("M", 0, 0), "N"))], examples=2)


def test_a_launcher_that_forgets_to_return():
    with pytest.raises(AccuracyError, match="the second function has 0 outputs, the first 1; if it writes to an argument, wrap it"):
        assert_equivalent(double, lambda x: None, (X,))


def test_numbers_are_outputs():
    assert_equivalent(lambda x: x.sum().item(), lambda x: float(x.flip(0).sum()), (torch.rand(50),))
    assert_equivalent(lambda x: {"n": len(x), "y": x}, lambda x: {"n": x.shape[0], "y": x + 0}, [tensors(F32, ("N",))], examples=5)
    for other in (lambda x: x.sum().item() * 1.001, lambda x: np.float32(2.0), lambda x: x.sum().item() > 0):
        with pytest.raises(AccuracyError, match="output 0"):
            assert_equivalent(lambda x: x.sum().item(), other, (torch.rand(50),))
    with pytest.raises(AccuracyError, match=r"output 1: 1 element is not equal; first at .*: 4 against 3"):
        assert_equivalent(lambda x: (x, len(x)), lambda x: (x, len(x) + 1), (X,))
    assert_equivalent(lambda x: x.numpy(), lambda x: x.numpy().copy(), (X,))


# ---- whose exception ----


def raising(x):
    raise KeyError("not today")


@pytest.mark.parametrize("args", [(X,), [tensors(F32, (3,))]], ids=["one call", "examples"])
def test_an_exception_is_named_as_whose_it_is(args):
    with pytest.raises(KeyError) as caught:
        assert_equivalent(raising, double, args)
    (note,) = caught.value.__notes__
    assert note.startswith("raising (test_misuse.py:") and "the first function, raised this itself, on arguments of shapes (3,)" in note
    assert "does not compute" not in note
    with pytest.raises(KeyError) as caught:
        assert_equivalent(double, raising, args)
    assert "raising (test_misuse.py:" in caught.value.__notes__[0]
    assert "it raised an exception, on arguments of shapes (3,)" in caught.value.__notes__[0]
