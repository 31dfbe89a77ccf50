"""The reference evaluator: what it makes a product of matrices is the sum of products that it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.ir import dtypes
from eqfuse.ir.build import axes, exp, sum_over, tensor
from eqfuse.ir.reference import evaluate_terms
from eqfuse.ir.terms import Input, Reduce, postorder

b, h, q, k, d = axes(b=2, h=3, q=5, k=7, d=4)
x, y = tensor("x", b, q, k), tensor("y", k, b, d)
TERMS = {
    "one batch axis": sum_over(k, x * y),
    "several rows": sum_over(k, tensor("u", h, k, q) * tensor("v", d, k, b)),
    "a product of results": sum_over(d, sum_over(k, x * y) * tensor("w", h, d)),
    "no columns": sum_over(k, x * tensor("v", k)),
    "not of both": sum_over(q, x * y),
    "used twice": sum_over(k, x * y) + sum_over(q, x * y),
    "inside": exp(sum_over(k, x * exp(y))),
    "a maximum": Reduce("max", k, x * y),
}


@pytest.mark.parametrize("special", [(), (np.inf,), (np.nan,), (np.inf, -np.inf, 0.0, np.nan)], ids=str)
@pytest.mark.parametrize("name", TERMS)
def test_a_sum_of_products_is_what_adding_them_up_gives(name, special):
    """In longer floats every product is made; infinities and NaN come out where they do there."""
    rng = np.random.default_rng(3)
    inputs = {}
    for t in (t for t in postorder(TERMS[name]) if isinstance(t, Input)):
        inputs[t.name] = rng.normal(size=[a.size for a in t.layout])
        for s in special:
            inputs[t.name].flat[rng.integers(inputs[t.name].size)] = s
    (found,) = evaluate_terms((TERMS[name],), inputs)
    (plain,) = evaluate_terms((TERMS[name],), inputs, np.longdouble)
    assert found.axes == plain.axes
    assert found.array.dtype == np.float64
    np.testing.assert_allclose(found.array, plain.array.astype(float), rtol=1e-13, atol=1e-13)


def test_whole_numbers_stay_whole():
    whole = sum_over(k, tensor("x", q, k, dtype=dtypes.dtype("int64")) * tensor("y", k, d, dtype=dtypes.dtype("int64")))
    (found,) = evaluate_terms((whole,), {"x": np.full((5, 7), 2**61), "y": np.full((7, 4), 4)})
    assert found.array.dtype == np.int64
    assert (found.array == -(2**63)).all()  # 7 times 2**63, modulo 2**64
