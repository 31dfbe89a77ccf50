"""Which numbers a value is surely one of, and how products of such operands are multiplied."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.dtypes import INPUTS, Numbers, number
from eqfuse.ir.products import IEEE, Operands, operands
from eqfuse.ir.terms import Index, View
from eqfuse.tiles.analysis import Facts
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Cast, Dot
from eqfuse.tiles.simulate import simulate

SHORT = [d for d in INPUTS.values() if d.itemsize <= 2]
FLOATS = [d for d in INPUTS.values() if d.is_float]


def every(d):
    """Every finite number of a type of at most 16 bits, in float64."""
    of = getattr(torch, d.name)
    if d.kind == "bool":
        return torch.tensor([0.0, 1.0], dtype=torch.float64)
    bits = torch.arange(1 << 8 * d.itemsize, dtype=torch.int32).to(torch.uint8 if d.itemsize == 1 else torch.int16)
    values = bits.view(of).double()
    return values[values.isfinite()]


def inside(numbers, values):
    """Whether each value is a multiple of the step, of so many digits, and no larger than the largest."""
    mantissa = np.frexp(values)[0] * 2.0**numbers.digits
    return bool(((values / numbers.step % 1 == 0) & (mantissa % 1 == 0) & (np.abs(values) <= numbers.largest)).all())


@pytest.mark.parametrize("d", SHORT, ids=repr)
def test_the_numbers_of_a_type_are_those_that_it_has(d):
    values = every(d).numpy()
    assert inside(d.numbers, values)
    assert np.abs(values).max() == d.numbers.largest
    assert np.abs(values[values != 0]).min() == d.numbers.step


@pytest.mark.parametrize(("narrow", "wide"), [*itertools.product(SHORT, FLOATS)], ids=repr)
def test_a_type_has_the_numbers_of_another_if_a_cast_keeps_each(narrow, wide):
    values = every(narrow)
    kept = values.to(getattr(torch, wide.name)).double()
    assert (narrow.numbers in wide.numbers) == bool((kept == values).all())


def test_products_and_choices_of_numbers():
    short = [d for d in SHORT if d.itemsize == 1]
    for x, y in itertools.product(short, short):
        a, c = every(x).numpy(), every(y).numpy()
        assert inside(x.numbers * y.numbers, np.multiply.outer(a, c))
        assert inside(x.numbers | y.numbers, np.concatenate([a, c]))
    for value in (0.1, -0.75, 6.0, 1e-40, 2.0**-149, 3e38, 1.0):
        assert inside(number(value), np.array([value]))
        assert number(value) in dtypes.float64.numbers
        assert (number(value) in dtypes.float16.numbers) == (torch.tensor(value, dtype=torch.float64).half().double().item() == value)
    for value in (0.0, math.inf, -math.inf, math.nan):
        assert all(number(value) | d.numbers == d.numbers for d in INPUTS.values())


F16, BF16, F32 = (d.numbers for d in (dtypes.float16, dtypes.bfloat16, dtypes.float32))


@pytest.mark.parametrize(
    ("a", "c", "unit", "products"),
    [
        (F16, F16, "float16", 1),
        (BF16, BF16, "bfloat16", 1),
        (F16, BF16, "tf32", 1),
        (BF16, dtypes.int8.numbers, "bfloat16", 1),
        (F16, dtypes.float8_e5m2.numbers, "float16", 1),
        (F32, BF16, "bfloat16", 3),
        (F16, F32, "bfloat16", 5),
        (dtypes.int16.numbers, F16, "bfloat16", 4),
        (F32, F32, "float32", 1),
        (dtypes.float64.numbers, BF16, "float32", 1),
        (F16 * F16, BF16, "bfloat16", 3),
        (F16 * dtypes.bool_.numbers, F16, "float16", 1),
        (F16 * number(0.125), F16, "tf32", 1),  # the smallest ones are no float16
    ],
)
def test_how_operands_are_multiplied(a, c, unit, products):
    for x, y in ((a, c), (c, a)):
        found = operands(dtypes.float32, x, y, 14)
        assert (found.unit, len(found.pairs), found.rounded) == (unit, products, False)
    assert operands(dtypes.float32, a, c, 1) == IEEE
    assert products == 1 or operands(dtypes.float32, a, c, products - 1) == IEEE
    assert operands(dtypes.float16, a, c, 14) == Operands(dtypes.float16, rounded=True)


def test_weights_take_two_products_with_what_float16_holds():
    for weights, other, many in (((True, False), F16, (2, 1)), ((True, False), dtypes.int8.numbers, (2, 1))):
        found = operands(dtypes.float32, F32, other, 14, weights)
        assert (found.unit, found.pieces, found.scale > 1) == ("float16", many, True)
    assert operands(dtypes.float32, F16, F32, 14, (False, True)).pieces == (1, 2)
    assert operands(dtypes.float32, F32, BF16, 14, (True, False)).unit == "bfloat16"


# -- terms and nodes ----------------------------------------------------------------------------------------------------------


I, J, K = b.axes(i=32, j=48, k=48)
X = b.tensor("x", I, K, dtype=dtypes.float16)
WIDE = b.cast(dtypes.float32, X)
VALUES = {
    "cast": (WIDE, F16),
    "sign": (-b.abs_(WIDE), F16),
    "choice": (b.select(b.lt(Index(I), Index(K)), WIDE, float("-inf")), F16),
    "choice of another number": (b.select(b.lt(Index(I), Index(K)), WIDE, 0.1), F32),
    "bound": (b.maximum(WIDE, 0.0), F16),
    "half": (WIDE * 0.5, Numbers(11, 2.0**-25, 32752.0)),
    "square": (b.square(WIDE), Numbers(22, 2.0**-48, 65504.0**2)),
    "rounded": (b.cast(dtypes.float32, b.cast(dtypes.bfloat16, WIDE * WIDE)), BF16),
    "sum": (WIDE + 1.0, F32),
    "exponential": (b.exp(WIDE), F32),
    "view": (View(b.cast(dtypes.float32, b.tensor("x", I, J, dtype=dtypes.float16)), J, K), F16),
}


@pytest.mark.parametrize("name", VALUES)
def test_terms_and_nodes_are_held_in_the_same_numbers(name):
    term, expected = VALUES[name]
    k = kernel_from_program(b.program("p", y=(term, (I, K))), {I: Role("grid", 16), K: Role("grid", 16)})
    assert term.held == Facts(k).held(k.roots[0].node) == expected


def test_a_value_of_16_bits_that_a_kernel_does_not_round_is_not_held_in_them():
    term = b.cast(dtypes.float32, X * X)
    k = kernel_from_program(b.program("p", y=(term, (I, K))), {I: Role("grid", 16), K: Role("grid", 16)})
    assert term.held == F16
    assert Facts(k).held(k.roots[0].node) == F16 * F16


def product_of(x, w, narrow=14):
    """A kernel for a matrix product, on a device that multiplies 16 bits so many times as fast as float32."""
    y = b.sum_over(K, x * w)
    roles = {I: Role("grid", 16), J: Role("grid", 16), K: Role("stream", 16)}
    return replace(kernel_from_program(b.program("p", y=(y, (I, J))), roles), narrow_products=narrow)


@pytest.mark.parametrize("other", [dtypes.bfloat16, dtypes.float16], ids=repr)
def test_pieces_are_as_good_as_float32(other):
    """Simulated with every operand rounded to the type that it has, against operands of float32."""
    wide = b.tensor("x", I, K)
    k = product_of(wide, b.cast(dtypes.float32, b.tensor("w", K, J, dtype=other)))
    assert {s.a.dtype for s in lower(k).statements() if isinstance(s, Dot)} == {dtypes.bfloat16}
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 48)).astype(np.float32)
    w = dtypes.cast(rng.standard_normal((48, 48)), other)
    exact = x.astype(np.float64) @ w

    def error(kernel):
        return np.abs(simulate(lower(kernel), {"x": x, "w": w}, np.float32, rounding=True)["y"] - exact).mean()

    assert error(k) <= error(replace(k, narrow_products=1))


def test_operands_that_were_only_widened_go_straight_to_the_unit():
    k = product_of(WIDE, b.cast(dtypes.float32, b.tensor("w", K, J, dtype=dtypes.float16)))
    (dot,) = (s for s in lower(k).statements() if isinstance(s, Dot))
    assert dot.loaded == (True, True)
    assert not any(isinstance(s, Cast) for s in lower(k).statements())
