"""Kernels of one shape are lowered once and counted under their own sizes: the counts must be those of a kernel lowered for itself."""

import contextlib
import dataclasses
import itertools
import random

import hand_kernels as kernels
import pytest

from eqfuse.errors import PlanError
from eqfuse.testing.fuzz.lowering import cases
from eqfuse.tiles import tilings
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.order import least_penalty, order_penalty
from eqfuse.tiles.tilings import Tilings, shape
from eqfuse.tiles.walk import walk

TILES = (1, 2, 4, 8, 16, 32, 64)


def counted(kernel):
    """What a kernel does, lowered for itself; or why it is none."""
    try:
        return walk(lower(kernel))
    except PlanError as illegal:
        return str(illegal)


def retiled(kernel, rng):
    """The kernel with other tile sizes, and sometimes another order of dims."""
    roles = {a: r if r.kind == "resident" else Role(r.kind, rng.choice(TILES)) for a, r in kernel.roles.items()}
    order = list(kernel.order)
    if rng.random() < 0.2:
        rng.shuffle(order)
    return dataclasses.replace(kernel, roles=roles, order=tuple(order))


def check(kernel, rng, count=24):
    """Count many tilings of a kernel by one ``Tilings``; returns how many shapes they had."""
    known, shapes = Tilings(), set()
    for k in [kernel, *(retiled(kernel, rng) for _ in range(count))]:
        try:
            found = known.counts(k)
        except PlanError as illegal:
            found = str(illegal)
        assert found == counted(k), {a.name: str(r) for a, r in k.roles.items()}
        shapes.add(shape(k))
    return len(shapes)


HAND = [
    kernels.softmax_rows,
    kernels.logsumexp,
    kernels.attention,
    kernels.moments,
    kernels.moments_by_vector_repair,
    kernels.normalised_product,
    kernels.decode_split,
    kernels.matmul,
    kernels.grouped_queries,
]


@pytest.mark.parametrize("make", HAND, ids=lambda f: f.__name__)
def test_counts_of_hand_made_kernels(make):
    assert check(make()[0], random.Random(0), 60) < 60  # some tilings have one shape


def test_counts_of_a_kernel_of_powers_of_two():
    shapes = check(kernels.matmul(1024, 1024, 1024, (64, 64, 64))[0], random.Random(1), 200)
    assert shapes < 60


@pytest.mark.parametrize("saturated", [False, True])
def test_counts_of_random_kernels(saturated):
    rng = random.Random(2)
    for _, _, kernel, _ in cases(range(60), saturated):
        check(kernel, rng, 8)


def without_evenness(kernel):
    return kernel.order, tuple((a, r.kind, r.tile > 1, r.tile >= 16) for a, r in kernel.roles.items())


@pytest.mark.parametrize(
    ("name", "broken", "kernel"),
    [("shape", without_evenness, kernels.softmax_rows(length=48)[0]), ("MIN_DOT_K", 1, kernels.matmul()[0])],
    ids=["evenness", "contractions"],
)
def test_a_shape_that_forgets_something_is_found(monkeypatch, name, broken, kernel):
    monkeypatch.setattr(tilings, name, broken)
    with pytest.raises(AssertionError):
        check(kernel, random.Random(0), 60)


def every_order(kernel):
    """The programs of all orders of a kernel's dims."""
    for order in itertools.permutations(kernel.order):
        with contextlib.suppress(PlanError):
            yield lower(dataclasses.replace(kernel, order=order))


@pytest.mark.parametrize("on_cpu", [False, True])
def test_no_order_is_below_the_least_penalty_that_any_order_tells(on_cpu):
    random_kernels = (k for _, _, k, _ in cases(range(40), saturated=True))
    exact = 0
    for kernel in (*(make()[0] for make in HAND), *random_kernels):
        programs = list(every_order(kernel)) if 1 < len(kernel.order) <= 4 else []
        found = [order_penalty(p, on_cpu) for p in programs]
        for program in programs:
            assert least_penalty(program, on_cpu) <= min(found), (kernel.name, program)
        exact += bool(programs) and least_penalty(programs[0], on_cpu) == min(found) and any(min(found))
    assert exact, "no kernel shows that the bound is met where something is across memory in every order"
