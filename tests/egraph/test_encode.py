"""What encoding says of a program before any rule runs."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.egraph.encode import _types
from eqfuse.ir import dtypes
from eqfuse.ir.build import abs_, axes, cast, maximum, maximum_over, program, select, square, tensor
from eqfuse.ir.reference import evaluate_terms, round_to
from eqfuse.testing.fuzz.grammar import draw_program

i, j = axes(i=4, j=6)
x = tensor("x", i, j, dtype=dtypes.float16)
y = tensor("y", i, j, dtype=dtypes.bfloat16)
wide = cast(dtypes.float32, x)


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (x, "float16"),
        (wide, "float16"),
        (-abs_(wide), "float16"),
        (maximum_over(j, maximum(wide, x)), "float16"),
        (cast(dtypes.float32, cast(dtypes.float16, square(wide))), "float16"),
        (cast(dtypes.bfloat16, wide), "bfloat16"),  # which rounds it
        (square(x), None),
        (wide * 2.0, None),
        (maximum(x, y), None),
        (select(x, x, y), None),
        (select(y, x, x), "float16"),
        (maximum(wide, 0.0), "float16"),
        (select(y, wide, -1.5), "float16"),
        (maximum(wide, 0.1), None),  # no float16 number
        (maximum(wide, 1e5), None),
    ],
    ids=str,
)
def test_types_of_numbers(t, expected):
    found = _types(program("p", y=(t, tuple(sorted(t.axes))))).get(t)
    assert (found and found.name) == expected


def test_values_are_numbers_of_the_types_that_are_said_of_them():
    """Random programs, evaluated with every rounding that they ask for."""
    said = 0
    for seed in range(300):
        drawn = draw_program(seed)
        types = _types(drawn.program)
        inputs = {n.name: round_to(drawn.inputs[n.name], n.dtype.name) for n in drawn.program.inputs}
        values = evaluate_terms(tuple(types), inputs, casts=True)
        for (t, d), v in zip(types.items(), values, strict=True):
            a = np.asarray(v.array, float)
            np.testing.assert_array_equal(a, round_to(a, d.name), err_msg=str(t))
            said += not hasattr(t, "layout")
    assert said > 100
