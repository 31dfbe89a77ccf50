"""What is decided between lowering and printing, and that the simulator reads it."""

from __future__ import annotations

import functools
from dataclasses import replace

import hand_kernels as kernels
import numpy as np
import pytest
import torch

import eqfuse
from eqfuse.codegen.triton import print_kernel
from eqfuse.ir import build as b
from eqfuse.ir.terms import Map
from eqfuse.tiles import operations
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.finish import finish
from eqfuse.tiles.finish.contraction import contracts
from eqfuse.tiles.finish.inplace import overwrite
from eqfuse.tiles.finish.multiply_adds import fuse
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Let, Loop, Mean, Value, rewritten
from eqfuse.tiles.simulate import simulate
from eqfuse.tiles.skipping import Skipping
from eqfuse.tiles.walk import walk

I, J = b.axes(i=8, j=8)
X, Y, Z, W = b.tensor("x", I, J), b.tensor("y", I, J), b.tensor("z", I, J), b.tensor("w", I)


def exp2(x):
    return Map("exp2", (x,))


def kernel(*values, roles=None, exact=False):
    p = b.program("k", **{f"o{n}": (v, (I, J) if J in v.axes else (I,)) for n, v in enumerate(values)})
    return replace(kernel_from_program(p, roles or {I: Role("grid", 4), J: Role("resident", 8)}), exact=exact)


def done(program):
    """The operations of a finished program, in order."""
    return [s.op for s in program.statements() if isinstance(s, Let)]


# means that run --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [16384, 13001])
def test_a_running_mean_is_divided_out_once(columns):
    """What the moments of a step are moved from is the number that the step before moved them to, whatever a compiler contracts."""

    def mean_variance(x):
        mean = x.mean(-1, keepdim=True)
        return mean, ((x - mean) ** 2).mean(-1)

    (planned,) = eqfuse.optimize(mean_variance, [torch.empty(4096, columns, device="meta")], target="h100").plan.kernels
    (lowered,) = (s for s in lower(planned.kernel).body if isinstance(s, Loop))
    assert {s.which for s in lowered.body if isinstance(s, Mean)} == {"old", "new"}, "both are asked for"
    (loop,) = (s for s in planned.tiles.body if isinstance(s, Loop))
    means = {s.dst: s for s in loop.body if isinstance(s, Mean)}
    assert {s.which for s in means.values()} == {"new"}
    states = [a for a in loop.accumulators if a.new in means]
    assert states
    for state in states:  # the centre before a step is made of the carried mean as the one after it is of the new mean
        before = [s for s in loop.body if isinstance(s, Let) and state.old in s.args]
        after = [s for s in loop.body if isinstance(s, Let) and state.new in s.args]
        (old,), (new,) = (s for s in before if s.op == "add"), (s for s in after if s.op == "add")
        assert {*old.args} - {state.old} == {*new.args} - {state.new}
        assert any(isinstance(s, Let) and s.op == "sub" and s.args == (new.dst, old.dst) for s in loop.body)


# multiply-adds and subtractions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([X * Y + Z], ["fma"]),
        ([X * 3.0 + Z], ["fma"]),
        ([X * Y - Z], ["fms"]),
        ([Z - X * Y], ["mul", "sub"]),  # the product is negated, which no operation reads
        ([X - Z], ["sub"]),
        ([X * Y + Z, X * Y], ["mul", "add"]),  # the product is stored as well
        ([X - Z, -Z], ["neg", "add"]),
        ([X * Y + Z * W], ["mul", "fma"]),  # one of two products
        ([W * W + X], ["mul", "add"]),  # a product for each row would be computed for each element
        ([b.exp(X * Y + Z)], ["mul", "add", "mul", "exp2"]),  # what a maximum is taken of is rounded the same way
        ([b.exp(X * 3.0)], ["mul", "exp2"]),
        ([b.exp(-(X * 3.0))], ["mul", "exp2"]),
        ([b.exp(X)], ["exp"]),  # not rounded yet
        ([b.exp(X * 3.0 - Z)], ["mul", "sub", "mul", "exp2"]),  # the largest may have come from products, too
    ],
    ids=lambda v: "" if isinstance(v, list) and not isinstance(v[0], str) else " ".join(v),
)
def test_what_is_fused(values, expected):
    assert sorted(done(finish(lower(kernel(*values))))) == sorted(expected)


def test_exact_kernels_round_every_product_but_subtract():
    assert done(finish(lower(kernel(X * Y - Z, exact=True)))) == ["mul", "sub"]


def test_a_fused_multiply_add_is_rounded_once():
    """(1 + e)^2 = 1 + 2 e + e^2 is rounded to 1 + 2 e: fused, e^2 is left; by itself, nothing is."""
    e = np.float32(2.0**-12)
    data = {"x": np.full((8, 8), 1 + e), "y": np.full((8, 8), 1 + e), "z": np.full((8, 8), 1 + 2 * e)}
    k = kernel(X * Y - Z)
    assert (simulate(finish(lower(k)), data, np.float32)["o0"] == e * e).all()
    assert (simulate(lower(k), data, np.float32)["o0"] == 0).all()
    assert (simulate(finish(lower(k)), data)["o0"] == simulate(lower(k), data)["o0"]).all()


def test_it_is_not_rounded_to_float64_first():
    """The product is halfway between two float32 numbers, and what is added is too small for float64 to tell."""
    x, tiny = np.float32(1 + 2.0**-12), np.float32(2.0**-70)
    below, above = np.float32(1 + 2.0**-11), np.float32(1 + 2.0**-11 + 2.0**-23)
    assert operations.apply("fma", x, x, tiny) == above
    assert operations.apply("fms", x, x, tiny) == below
    assert operations.apply("fma", x, x, np.float32(0)) == below  # to even
    huge = np.float32(3e38)
    assert operations.apply("fma", huge, huge, -huge) == np.inf
    assert np.isnan(operations.apply("fma", huge, np.float32(np.inf), np.float32(-np.inf)))


@pytest.mark.parametrize("name", operations.PARTS)
def test_operations_of_finished_programs_mean_their_parts(name):
    random, shape = np.random.default_rng(0), (operations.operation(name).arity, 50)
    x = list(random.choice([-1.0, 1.0], shape) * 2.0 ** random.integers(-8, 8, shape))  # what no operation rounds
    np.testing.assert_array_equal(operations.apply(name, *x), operations.by_parts(name, x, lambda op, args: operations.apply(op, *args)))


def test_a_multiply_add_counts_as_one():
    one, two = (walk(f(lower(kernel(X * Y + Z)))).work["let"] for f in (finish, lambda p: p))
    assert (one, two) == (64, 128)


# what a compiler may contract ---------------------------------------------------------------------------------------------------------


def test_a_product_that_only_a_sum_reads_is_part_of_it():
    def marked(*values, **options):
        return [s.op for s in lower(kernel(*values, **options)).statements() if isinstance(s, Let) and s.contracted]

    assert marked(b.sum_over(J, X * Y)) == ["mul"]
    assert marked(b.sum_over(J, b.square(X))) == ["square"]
    assert not marked(b.maximum_over(J, X * Y))
    assert not marked(b.sum_over(J, X * Y), X * Y)
    assert not marked(b.sum_over(J, X * Y), exact=True)


def test_below_exponentials_nothing_is_contracted():
    """Not in the whole kernel: a compiler is told once."""
    assert lower(kernel(X * Y + Z)).contracts
    assert not lower(kernel(X * Y + Z, exact=True)).contracts
    rounded = lower(kernel(b.exp(X * Y + Z), b.sum_over(J, X * Y)))
    assert not rounded.contracts
    assert not contracts(rounded)
    assert not any(s.contracted for s in rounded.statements() if isinstance(s, Let))


# references of rows -------------------------------------------------------------------------------------------------------------------


ONE = ["abs", "ge", "where", "mul", "maximum"]  # a reference


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (lambda x, y, w: exp2((x * y - w) * 0.5), ["mul", *ONE, "fms", "exp2"]),
        (lambda x, y, w: exp2(-((w - x * y) * 0.5)), ["mul", *ONE, "fms", "exp2"]),
        (lambda x, y, w: b.exp((x * y - w) * 0.5), ["mul", *ONE, "fms", "exp2"]),
        (lambda x, y, w: b.exp(x * y - w), ["mul", *ONE, "fms", "exp2"]),
        (lambda x, y, w: exp2((b.maximum(-(x + y), x) - w) * 0.5), ["add", "neg", "maximum", "mul", *ONE, "fms", "exp2"]),
        (lambda x, y, w: exp2((x * y - w) * 2.5), ["mul", "sub", "mul", "exp2"]),
        (lambda x, y, w: exp2((x - w) * 0.5), ["mul", "sub", "mul", "exp2"]),  # data are exact, and a difference of these
        (lambda x, y, w: exp2((x * 0.25 - w) * 0.5), ["mul", "mul", "sub", "mul", "exp2"]),  # so are their products with powers of two
        (lambda x, y, w: exp2((x * y - y) * 0.5), ["mul", "sub", "mul", "exp2"]),  # each element has its own
        (lambda x, y, w: exp2((x * y - w) * y), ["mul", "sub", "mul", "exp2"]),
    ],
)
def test_what_is_scaled_once_for_a_row(of, expected):
    def ops(lanes, **options):
        i, j = b.axes(i=64, j=64)
        x, y = b.tensor("x", i, j), b.tensor("y", i, j)
        e = of(x, y, b.maximum_over(j, x * y))
        p = b.program("k", o=(e / b.sum_over(j, e), (i, j)))
        found = done(finish(lower(replace(kernel_from_program(p, {i: Role("grid", lanes), j: Role("resident", 64)}), **options))))
        if found[-1] == "quotient":  # the sum of what is not known to have a 1 may be tiny
            return found[:-1]
        assert found[-2:] == ["recip", "mul"]
        return found[:-2]

    assert ops(32) == expected
    assert "abs" not in ops(4)  # fewer elements than a reference takes instructions
    assert "abs" not in ops(32, exact=True)


@pytest.mark.parametrize("more", [lambda m: m, lambda m: m * 0.5, lambda m: b.exp(1.0 - m)])
def test_rows_whose_maximum_others_take_keep_differences(more):
    i, j = b.axes(i=64, j=64)
    x = b.tensor("x", i, j) * b.tensor("y", i, j)
    m = b.maximum_over(j, x)
    p = b.program("k", o=(exp2((x - m) * 0.5), (i, j)), m=(more(m), (i,)))
    assert "abs" not in done(finish(lower(kernel_from_program(p, {i: Role("grid", 32), j: Role("resident", 64)}))))


@pytest.mark.parametrize(
    ("shown", "of"),
    [
        (False, lambda j, e, x: e / b.sum_over(j, e)),
        (False, lambda j, e, x: b.sum_over(j, e * x) * x / b.sum_over(j, e)),
        (False, lambda j, e, x: b.log(b.sum_over(j, e)) * 2.0 + b.maximum_over(j, x)),
        (True, lambda j, e, x: b.log(b.sum_over(j, e))),
        (True, lambda j, e, x: b.log(b.sum_over(j, e)) * x + b.maximum_over(j, x)),
        (True, lambda j, e, x: b._reduction("prod")(j, e * 1.5)),
        (False, lambda j, e, x: e * e / (b.sum_over(j, e) * b.sum_over(j, e))),
        (True, lambda j, e, x: e),
        (True, lambda j, e, x: b.sum_over(j, e * x)),
        (True, lambda j, e, x: e * e / b.sum_over(j, e)),
        (True, lambda j, e, x: (1.0 + b.sum_over(j, e)) * x),
        (True, lambda j, e, x: b.exp(b.sum_over(j, e))),
        (True, lambda j, e, x: e / (1.0 + b.sum_over(j, e))),
    ],
)
def test_a_row_whose_factor_is_stored_keeps_differences(shown, of):
    """A sum that is not divided by another of its row has the factor by which a scaled reference is off."""
    i, j = b.axes(i=64, j=64)
    x = b.tensor("x", i, j) * b.tensor("y", i, j)
    stored = of(j, exp2((x - b.maximum_over(j, x)) * 0.5), x)
    p = b.program("k", o=(stored, tuple(a for a in (i, j) if a in stored.axes)))
    found = done(finish(lower(kernel_from_program(p, {i: Role("grid", 32), j: Role("resident", 64)}))))
    assert ("fms" in found and "maximum" in found) is not shown, found


@functools.cache
def attention(queries, keys, causal=False, scale=0.25, bias=False):
    """The finished kernel of attention, 16 deep, whose loop takes several steps."""

    def f(q, k, v, *more):
        s = q @ k.transpose(-1, -2) * scale
        s = s + more[0] if bias else s
        seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril()
        return torch.softmax(s.masked_fill(~seen, float("-inf")) if causal else s, -1) @ v

    args = [torch.empty(n, 16, device="meta") for n in (queries, keys, keys)] + [torch.empty(queries, keys, device="meta")] * bias
    (planned,) = eqfuse.optimize(f, args, target="h200", memory_limit=0).plan.kernels
    roles = {a: Role("stream", 32) if a.name == "k_rows" else r for a, r in planned.kernel.roles.items()}
    program = finish(lower(replace(planned.kernel, roles=roles, warps=1)))
    assert any(isinstance(s, Loop) for s in program.body)
    return program


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.25, 1.0])
def test_a_loop_carries_its_scaled_reference(causal, scale):
    program = attention(1024, 1024, causal, scale)
    assert not {"empty", "safe"} & {s.dst.name for s in program.statements() if isinstance(s, Let)}
    for loop in (s for s in program.statements() if isinstance(s, Loop)):
        ops = [s.op for s in loop.body if isinstance(s, Let)]
        assert ops.count("exp2") == 2
        assert ops.count("fms") == 1
        assert len({a.old.name.partition("_edge")[0] for a in loop.accumulators if a.monoid == "max"}) == 2


@pytest.mark.parametrize("size", [1.0, 2.0**20, 2.0**23, 2.0**25, 2.0**29, 2.0**40, 2.0**100])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("scale", [0.25, 1.0])
def test_references_of_all_sizes(size, sign, scale):
    """Finite, and what the program gives where scores are no neighbours: from below, where every tile has a new reference, and from above."""
    program = attention(256, 1024, scale=scale)
    rng = np.random.default_rng(0)
    q, v = np.full((256, 16), np.sqrt(size)), rng.standard_normal((1024, 16))
    keys = np.sort(sign * rng.uniform(0.5, 1.0, (1024, 1)), axis=0) * np.ones(16) * np.sqrt(size)
    scores = (q.astype(np.float32) @ keys.astype(np.float32).T).astype(np.float64) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    for order in (slice(None), slice(None, None, -1)):
        (found,) = simulate(program, {"q": q, "k": keys[order], "v": v[order]}, np.float32).values()
        np.testing.assert_allclose(found, expected, atol=1e-5 if size == 1 else 1e-3)


@pytest.mark.parametrize("masked", [-1e4, -1e9, float(np.finfo(np.float32).min), -np.inf])
def test_masks_by_numbers(masked):
    """Rows begin with tiles of which all is masked by a number; some have nothing else, and weigh all alike."""
    program = attention(1024, 1024, bias=True)
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((n, 16)) for n in (1024,) * 3)
    seen = np.arange(1024) >= np.arange(1024)[:, None] + 128
    bias = np.where(seen, 0.0, masked)
    scores = (q @ k.T * 0.25).astype(np.float32) + bias.astype(np.float32)
    weights = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    (name,) = {b.name for b in program.kernel.buffers.values() if b.shape == (1024, 1024)}
    (found,) = simulate(program, {"q": q, "k": k, "v": v, name: bias}, np.float32).values()
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True) @ v, atol=1e-4)


def test_a_row_whose_first_elements_are_masked_has_a_reference():
    program = attention(1024, 1024, causal=True)
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1024, 16)) for _ in range(3))
    scores = np.where(np.tri(1024) > 0, q @ k.T * 0.25, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    (found,) = simulate(program, {"q": q, "k": k, "v": v}, np.float32).values()
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True) @ v, atol=1e-5)


# accumulators -----------------------------------------------------------------------------------------------------------------------


def accumulators(program):
    return [a for s in program.statements() if isinstance(s, Loop) for a in s.accumulators]


def test_accumulators_whose_old_value_is_read_later_are_not_in_place():
    found = {a.old.name: a.inplace for a in accumulators(finish(lower(kernels.attention()[0])))}
    assert found == {"sum_j": True, "max_j": False, "sum_j_2": True, "lost_j": True}


@pytest.mark.parametrize("name", kernels.CASES)
def test_storage_in_place_changes_nothing(name):
    k, _ = kernels.CASES[name]()
    data = kernels.inputs(k)
    for found, expected in zip(simulate(overwrite(lower(k)), data).values(), simulate(lower(k), data).values(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_simulator_shows_an_old_value_that_was_overwritten_too_soon():
    k, _ = kernels.attention()
    program = finish(lower(k))

    def all_in_place(s):
        return replace(s, accumulators=tuple(replace(a, inplace=True) for a in s.accumulators)) if isinstance(s, Loop) else s

    wrong = replace(program, body=rewritten(program.body, all_in_place))
    data = kernels.inputs(k)
    assert not np.allclose(simulate(wrong, data)["o"], simulate(program, data)["o"])


# readers ------------------------------------------------------------------------------------------------------------------------------


def test_edges_are_found_among_differences_too():
    k, _ = kernels.attention(mask=kernels.causal)
    program = lower(k)

    def edges(body):
        return [(s.starts, s.stops, s.clear) for s in body if isinstance(s, Loop)]

    assert any(stops for _, stops, _ in edges(program.body))
    bare = rewritten(fuse(program).body, lambda s: replace(s, starts=(), stops=(), clear=None) if isinstance(s, Loop) else s)
    again = Skipping(set(), program.dims, Value).program(bare, program.fixed)
    assert edges(again) == edges(program.body)


def test_a_printer_refuses_what_is_not_finished():
    with pytest.raises(AssertionError, match="k is not finished"):
        print_kernel(lower(kernel(X + Y)))
