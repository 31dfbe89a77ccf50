"""Tables of facts: which programs reach one loop, and which must not."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from eqfuse.egraph.audit import audit
from eqfuse.egraph.saturate import levels, saturate
from eqfuse.errors import UnsoundGraphError
from eqfuse.ir.build import (
    abs_, axes, cast, const, eq, exp, extent, index, iota, le, log, maximum_over, mean_over, program, recip, rsqrt, select, square,
    sum_over, tanh, tensor, view,
)  # fmt: skip
from eqfuse.ir import dtypes
from eqfuse.ir.program import Program
from eqfuse.ir.terms import Reduce
from eqfuse.rewrites import registry
from eqfuse.rewrites.patterns import Const, Map, Max, Sum
from eqfuse.rewrites.rule import Axis, make_rule

i, j, d, e = axes(i=128, j=1024, d=64, e=64)
k, o = axes(k=1024, o=512)
h, hk, v = axes(h=8, hk=2, v=32000)


def softmax() -> Program:
    x = tensor("x", i, j)
    p = exp(x - maximum_over(j, x))
    return program("softmax", y=(p / sum_over(j, p), (i, j)))


def log_softmax() -> Program:
    x = tensor("x", i, j)
    s = x - maximum_over(j, x)
    return program("log_softmax", y=(s - log(sum_over(j, exp(s))), (i, j)))


def logsumexp() -> Program:
    x = tensor("x", i, j)
    m = maximum_over(j, x)
    return program("logsumexp", y=(m + log(sum_over(j, exp(x - m))), (i,)))


def logsumexp_decomposed() -> Program:
    x = tensor("x", i, j)
    m = maximum_over(j, x)
    safe = select(eq(abs_(m), math.inf), 0.0, m)
    return program("logsumexp_decomposed", y=(log(sum_over(j, exp(x - safe))) + safe, (i,)))


def entropy() -> Program:
    x = tensor("x", i, j)
    p = exp(x - maximum_over(j, x))
    q = p / sum_over(j, p)
    return program("entropy", y=(-sum_over(j, q * log(q)), (i,)))


def mean_variance() -> Program:
    x = tensor("x", i, j)
    mu = mean_over(j, x)
    return program("mean_variance", mean=(mu, (i,)), var=(mean_over(j, square(x - mu)), (i,)))


def variance_by_sum() -> Program:
    x = tensor("x", i, j)
    mu = mean_over(j, x)
    return program("variance_by_sum", var=(sum_over(j, square(x - mu)) * recip(extent(j)), (i,)))


def skewness() -> Program:
    x = tensor("x", i, j)
    u = x - mean_over(j, x)
    return program("skewness", y=(mean_over(j, u * square(u)), (i,)))


def layernorm() -> Program:
    x = tensor("x", i, j)
    u = x - mean_over(j, x)
    y = u * rsqrt(mean_over(j, square(u)) + 1e-5) * tensor("g", j) + tensor("b", j)
    return program("layernorm", y=(y, (i, j)))


def rmsnorm() -> Program:
    x = tensor("x", i, j)
    return program("rmsnorm", y=(x * rsqrt(mean_over(j, square(x)) + 1e-6) * tensor("g", j), (i, j)))


def rmsnorm_linear() -> Program:
    x = tensor("x", i, k)
    y = x * rsqrt(mean_over(k, square(x)) + 1e-6) * tensor("g", k)
    return program("rmsnorm_linear", y=(sum_over(k, y * tensor("W", k, o)), (i, o)))


def attention(causal=False, cap=False, bias=False, grouped=False, lse=True, normalise="outside", name="attention") -> Program:
    heads = (h,) if grouped else ()
    q = tensor("Q", *heads, i, d)
    key, value = tensor("K", *((hk,) if grouped else ()), j, d), tensor("V", *((hk,) if grouped else ()), j, e)
    if grouped:
        key, value = view(key, hk, index(h) // 4), view(value, hk, index(h) // 4)
    s = sum_over(d, q * key) * 0.125
    if cap:
        s = tanh(s * (1 / 30)) * 30.0
    if bias:
        s = s + tensor("bias", i, j)
    if causal:
        s = select(le(iota(j), iota(i)), s, -math.inf)
    m = maximum_over(j, s)
    p = exp(s - m)
    l = sum_over(j, p)  # noqa: E741
    if normalise == "inside":
        out = sum_over(j, p / l * value)
    elif normalise == "log":
        out = sum_over(j, exp(s - m - log(l)) * value)
    elif normalise == "lse":
        out = sum_over(j, exp(s - (m + log(l))) * value)
    else:
        out = sum_over(j, p * value) / l
    outs = {"o": (out, (*heads, i, e))}
    if lse:
        outs["lse"] = (m + log(l), (*heads, i))
    return program(name, **outs)


def cross_entropy(linear=False) -> Program:
    z = sum_over(d, tensor("H", i, d) * tensor("W", v, d)) if linear else tensor("z", i, v)
    label = tensor("label", i, dtype=dtypes.int64)
    m = maximum_over(v, z)
    logp = z - m - log(sum_over(v, exp(z - m)))
    return program("cross_entropy", y=(-sum_over(v, select(eq(iota(v), label), logp, 0.0)), (i,)))


def unrelated_reference() -> Program:
    x, z = tensor("x", i, j), tensor("z", i, j)
    return program("unrelated_reference", y=(sum_over(j, exp(z - maximum_over(j, x))), (i,)))


def saturating() -> Program:
    x = tensor("x", i, j)
    return program("saturating", y=(sum_over(j, tanh(x - maximum_over(j, x))), (i,)))


def root_of_signed() -> Program:
    x = tensor("x", i, j)
    return program("root_of_signed", y=(sum_over(j, rsqrt(x * sum_over(j, x))), (i,)))


def divided_by_amax() -> Program:
    x = tensor("x", i, j)
    return program("divided_by_amax", y=(sum_over(j, exp(x * recip(maximum_over(j, abs_(x))))), (i,)))


def cast_attention() -> Program:
    q, key = tensor("Q", i, d, dtype=dtypes.float16), tensor("K", j, d, dtype=dtypes.float16)
    s = sum_over(d, q * key)
    p = exp(s - maximum_over(j, s))
    return program("cast_attention", y=(sum_over(j, cast(dtypes.float16, p) * tensor("V", j, e)), (i, e)))


ONE_PASS = [  # program, axis, loops before the outputs as written, loops after saturation
    (softmax(), j, 2, 1),
    (log_softmax(), j, 2, 1),
    (logsumexp(), j, 2, 1),
    (logsumexp_decomposed(), j, 2, 1),
    (entropy(), j, 3, 1),
    (mean_variance(), j, 2, 1),
    (variance_by_sum(), j, 2, 1),
    (skewness(), j, 2, 1),
    (layernorm(), j, 2, 1),
    (rmsnorm(), j, 1, 1),
    (rmsnorm_linear(), k, 2, 1),
    (attention(), j, 2, 1),
    (attention(normalise="inside", name="attention_inside"), j, 3, 1),
    (attention(normalise="log", name="attention_log"), j, 3, 1),
    (attention(normalise="lse", name="attention_lse"), j, 3, 1),
    (attention(causal=True, name="attention_causal"), j, 2, 1),
    (attention(cap=True, name="attention_cap"), j, 2, 1),
    (attention(bias=True, name="attention_bias"), j, 2, 1),
    (attention(cap=True, bias=True, normalise="inside", name="attention_cap_bias"), j, 3, 1),
    (attention(grouped=True, normalise="inside", name="attention_grouped"), j, 3, 1),
    (cross_entropy(), v, 3, 1),
    (cross_entropy(linear=True), v, 3, 1),
]
NOT_ONE_PASS = [
    (unrelated_reference(), j, 2),  # a masked prefix of x would lose what z has summed
    (saturating(), j, 2),  # tanh turns nothing into anything
    (root_of_signed(), j, 2),  # roots split over products of non-negative numbers only
    (divided_by_amax(), j, 2),  # a factor of the argument is no factor of the exponential
    (cast_attention(), j, 2),  # rounding is not linear
]
ALL = [row[0] for row in (*ONE_PASS, *NOT_ONE_PASS)]


def most(graph, axis) -> int:
    return max(levels(graph, c, axis) for c in graph.roots.values())


@pytest.mark.parametrize(("p", "axis", "before", "after"), ONE_PASS, ids=lambda x: getattr(x, "name", None))
def test_reaches_one_pass(p, axis, before, after):
    assert most(saturate(p, enable=False), axis) == before
    graph = saturate(p)
    assert (most(graph, axis), graph.report.stopped) == (after, "saturated")
