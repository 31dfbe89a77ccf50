"""Element types of integers: what a conversion and a promotion give, against torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from eqfuse.ir import dtypes

NAMES = [n for n in dtypes.DTYPES if n != "float64"]
WHOLE = [
    0,
    1,
    -1,
    2,
    7,
    127,
    128,
    -128,
    -129,
    255,
    256,
    32767,
    32768,
    -32769,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
]
FLOATS = [0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.5, 2.5, -3.7, 100.9, -100.9, 127.0]


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("of", ["int64", "float64"])
def test_a_conversion_is_that_of_torch(of: str, to: str) -> None:
    data = torch.tensor(WHOLE if of == "int64" else FLOATS, dtype=getattr(torch, of))
    if of == "float64" and to == "uint8":
        data = data[data > -1]  # below, torch says that the result is undefined
    wanted = data.to(getattr(torch, to))
    found = dtypes.cast(data.numpy(), dtypes.dtype(to))
    exact = torch.float64 if dtypes.dtype(to).is_float else torch.int64
    if to in ("float16", "bfloat16", "float32") and of == "int64":
        wanted, found = wanted[:15], found[:15]  # of larger ones torch rounds twice
    np.testing.assert_array_equal(found, wanted.to(exact).numpy())
    assert found.dtype == dtypes.dtype(to).meaning


def test_every_pair_of_types_is_promoted_as_in_torch() -> None:
    for a, b in itertools.product(dtypes.DTYPES, repeat=2):
        expected = torch.promote_types(getattr(torch, a), getattr(torch, b))
        assert f"torch.{dtypes.promote(dtypes.dtype(a), dtypes.dtype(b)).name}" == str(expected), (a, b)  # type: ignore[union-attr]


def test_what_no_integer_is_has_a_value_all_the_same() -> None:
    for to in ("int8", "uint8", "int16", "int32", "int64"):
        found = dtypes.cast(np.array([np.nan, np.inf, -np.inf, 1e30]), dtypes.dtype(to))
        assert set(found) == {-(2**63) if to == "int64" else 0}
