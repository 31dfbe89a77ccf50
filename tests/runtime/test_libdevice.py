"""Functions of the device library: every one of Triton's is computed or refused by name, and those that are computed are right."""

import math
from unittest import mock

import numpy as np
import pytest
import triton.language as tl
from triton.language.extra.cuda import libdevice as declared

from eqfuse.runtime import libdevice
from eqfuse.runtime.interpreter_patches import ti

UNKNOWN = {"byte_perm", "rcp64h", "jn", "yn"}  # no meaning in numpy or torch
NUMBERS = {
    "fp32": np.float32,
    "fp64": np.float64,
    "int32": np.int32,
    "int64": np.int64,
    "uint32": np.uint32,
    "uint64": np.uint64,
}


def _declarations():
    """(function of Triton's, types of its arguments, symbol, type of the result), for each that it declares."""
    found = []

    def record(library, path, args, table, is_pure, _semantic=None):
        found.extend((current, [str(t) for t in types], symbol, str(result)) for types, (symbol, result) in table.items())
        return mock.MagicMock()

    original, tl.core.extern_elementwise = tl.core.extern_elementwise, record
    try:
        for current, function in vars(declared).items():  # noqa: B007, read by record
            if tl.core.is_builtin(function):
                count = sum(p != "_semantic" for p in function.signature.parameters)
                function(*[None] * count, _semantic=object())
    finally:
        tl.core.extern_elementwise = original
    return found


DECLARED = _declarations()


@pytest.mark.parametrize(("name", "types", "symbol", "result"), DECLARED, ids=lambda v: v if isinstance(v, str) else "")
def test_every_function_is_known_by_its_symbol(name, types, symbol, result):
    args = [np.array([1, 2, 3]).astype(NUMBERS[t]) for t in types]
    with np.errstate(all="ignore"):
        values = libdevice.call(symbol, args, np.dtype(NUMBERS[result]))
    if name in UNKNOWN:
        assert values is None
    else:
        assert values.shape == (3,)
        assert values.dtype == NUMBERS[result]


X = np.array([-2.5, -1.0, -0.5, 0.0, 0.5, 0.75, 1.5, 2.5, 30.0, np.inf, -np.inf, np.nan])
INT, LONG = np.array([0, 1, -1, 6, 2**31 - 1, -(2**31)], np.int32), np.array([0, 1, -1, 2**40], np.int64)


def python(function):
    def at(x):
        try:
            return function(x)
        except (ValueError, OverflowError):
            return None

    return [at(x) for x in X.tolist()]


@pytest.mark.parametrize("name", ["tanh", "exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan",
                                  "sinh", "cosh", "asinh", "acosh", "atanh", "sqrt", "erf", "erfc", "lgamma", "cbrt", "exp2", "floor",
                                  "ceil", "trunc"])  # fmt: skip
def test_values_are_those_of_the_math_module(name):
    expected = python(getattr(math, name))
    with np.errstate(all="ignore"):
        narrow = libdevice.call(f"__nv_{name}f", [X.astype(np.float32)], np.dtype(np.float32))
        fast = libdevice.call(f"__nv_fast_{name}f", [X.astype(np.float32)], np.dtype(np.float32))
        wide = libdevice.call(f"__nv_{name}", [X], np.dtype(np.float64))
    assert np.array_equal(narrow, fast, equal_nan=True)
    for at, value in enumerate(expected):
        if value is not None:
            np.testing.assert_allclose(wide[at], value, rtol=1e-13)
            assert narrow[at] == np.float32(value) or abs(narrow[at] - value) <= 1e-7 * abs(value) or math.isnan(value)


FACTS = [
    ("__nv_roundf", [np.float32([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997])], [1, -1, 2, 3, -3, 0]),
    ("__nv_rintf", [np.float32([0.5, 1.5, 2.5])], [0, 2, 2]),
    ("__nv_llrintf", [np.float32([2.5, -1e30, np.nan])], [2, -(2**63), 0]),
    ("__nv_sinpi", [np.float64([0.5, 1.0, 1.5, 1e6, -0.5])], [1, 0, -1, 0, -1]),
    ("__nv_cospi", [np.float64([0.0, 0.5, 1.0, 1.5, 2.0])], [1, 0, -1, 0, 1]),
    ("__nv_powf", [np.float32([2, -2, 0]), np.float32([0.5, 3, 0])], [2**0.5, -8, 1]),
    ("__nv_powif", [np.float32([2, -2]), np.int32([-1, 3])], [0.5, -8]),
    ("__nv_remainderf", [np.float32([5, -5, 5]), np.float32([3, 3, np.inf])], [-1, 1, 5]),
    ("__nv_fmodf", [np.float32([5, -5]), np.float32([3, 3])], [2, -2]),
    ("__nv_fdimf", [np.float32([3, 1]), np.float32([1, 3])], [2, 0]),
    ("__nv_tgammaf", [np.float32([5, 0.5])], [24, math.sqrt(math.pi)]),
    ("__nv_normcdff", [np.float32([0.0])], [0.5]),
    ("__nv_saturatef", [np.float32([-1, 0.5, 2, np.nan])], [0, 0.5, 1, 0]),
    ("__nv_ilogbf", [np.float32([8, 0.25])], [3, -2]),
    ("__nv_rsqrtf", [np.float32([4, 0])], [0.5, np.inf]),
    ("__nv_fast_fdividef", [np.float32([1]), np.float32([4])], [0.25]),
    ("__nv_clz", [INT], [32, 31, 0, 29, 1, 0]),
    ("__nv_clzll", [LONG], [64, 63, 0, 23]),
    ("__nv_popc", [INT], [0, 1, 32, 2, 31, 1]),
    ("__nv_ffs", [INT], [0, 1, 1, 2, 1, 32]),
    ("__nv_brev", [INT], [0, -(2**31), -1, 0x60000000, -2, 1]),
    ("__nv_mulhi", [np.int32([2**30, -1]), np.int32([8, 8])], [2, -1]),
    ("__nv_umulhi", [np.uint32([2**31, 1]), np.uint32([8, 8])], [4, 0]),
    ("__nv_mul64hi", [np.int64([2**62]), np.int64([8])], [2]),
    ("__nv_hadd", [np.int32([2**31 - 1]), np.int32([2**31 - 1])], [2**31 - 1]),
    ("__nv_float_as_int", [np.float32([1.0])], [0x3F800000]),
    ("__nv_int_as_float", [np.int32([0x3F800000])], [1.0]),
    ("__nv_float2int_rn", [np.float32([2.5, -2.5, 1e30])], [2, -2, 2**31 - 1]),
    ("__nv_float2int_ru", [np.float32([2.1, -2.9])], [3, -2]),
    ("__nv_fadd_ru", [np.float32([1.0]), np.float32([2.0**-60])], [1 + 2.0**-23]),
    ("__nv_fadd_rz", [np.float32([-1.0]), np.float32([2.0**-60])], [-1 + 2.0**-24]),
    ("__nv_fadd_rn", [np.float32([1.0]), np.float32([2.0**-60])], [1]),
    ("__nv_fdiv_rd", [np.float32([1.0]), np.float32([3.0])], [np.nextafter(np.float32(1 / 3), np.float32(0))]),
    ("__nv_ll2float_rd", [np.int64([2**24 + 1])], [2**24]),
    ("__nv_nextafterf", [np.float32([1.0]), np.float32([2.0])], [1 + 2.0**-23]),
]
RESULTS = {symbol: np.dtype(NUMBERS[result]) for _, _, symbol, result in DECLARED}


@pytest.mark.parametrize(("symbol", "args", "expected"), FACTS, ids=lambda v: v if isinstance(v, str) else "")
def test_facts(symbol, args, expected):
    with np.errstate(all="ignore"):
        found = libdevice.call(symbol, args, RESULTS[symbol])
    assert found.dtype == RESULTS[symbol]
    np.testing.assert_allclose(found.astype(float), np.array(expected, float), rtol=2e-7, atol=1e-15)


def test_the_interpreter_calls_it():
    builder = ti.InterpreterBuilder()
    with pytest.raises(NotImplementedError):  # without the repairs
        builder.create_extern_elementwise("", "", "__nv_tanhf", [], tl.float32, True)
