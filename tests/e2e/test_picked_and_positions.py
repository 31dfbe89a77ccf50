"""Elements picked from tables, which are what they are in every type, and integer arithmetic on positions."""

import pytest
import torch

import eqfuse

LABELS = torch.tensor([3, 0, 6, 2, 5])
BEYOND_FLOATS = torch.randint(-(2**62), 2**62, (5, 7), generator=torch.Generator().manual_seed(0))
PICKS = {
    "gather": (lambda t, at: t.gather(1, at[:, None]).squeeze(1), (BEYOND_FLOATS, LABELS)),
    "gather of bytes": (lambda t, at: t.gather(1, at[:, None]), (BEYOND_FLOATS.to(torch.uint8), LABELS)),
    "from the end": (lambda t, at: t[torch.arange(5), at - 7], (BEYOND_FLOATS, LABELS)),
    "from a list": (lambda t, at: t[at], (BEYOND_FLOATS[0], LABELS[:, None])),
    "index_select": (lambda t, at: t.index_select(0, at), (BEYOND_FLOATS[0], LABELS)),
}


@pytest.mark.parametrize("name", PICKS)
def test_one_element_of_an_integer_table(name):
    fn, args = PICKS[name]
    c = eqfuse.optimize(fn, args, target="h200")
    found, wanted = c.interpret(*args), fn(*args)
    assert found.dtype == wanted.dtype
    assert torch.equal(found, wanted)


def of_positions(x):
    i, j = torch.arange(5)[:, None], torch.arange(7)[None, :]
    apart = i - j
    numbers = (apart.abs() % 2) + 10 * apart.clamp(-2, 2) + 100 * (apart // 3) + 1000 * torch.minimum(i, j)
    return (
        torch.where(apart.abs() % 2 == 0, x, 0.0),
        numbers,
        torch.where(i > j, i, j) % 4 + torch.fmod(apart, 3) * 10,
        (apart % 3 == 0).sum(1),
    )


def test_arithmetic_on_positions_is_that_of_integers():
    x = torch.randn(5, 7)
    c = eqfuse.optimize(of_positions, (x,), target="h200")
    for found, wanted in zip(c.interpret(x), of_positions(x), strict=True):
        assert found.dtype == wanted.dtype
        assert torch.equal(found, wanted)


def of_its_own_maximum(f):
    def keep(*args):
        p = f(*args)
        return torch.where(p >= p.amax(-1, keepdim=True), p, 0.0)

    return keep


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


OWN_MAXIMA = {  # each row keeps what eager code keeps; each of these once lost rows, or took another form of the value than its maximum did
    "contracted on one side": (lambda x: torch.log_softmax(x * 1.7, -1), (drawn(16, 300),)),
    "in 16 bits": (lambda x: torch.log_softmax(x * 1.7, -1), (drawn(16, 300, dtype=torch.bfloat16),)),
    "in several loops": (lambda x: torch.log_softmax(x * 1.7, -1), (drawn(8, 20000),)),
    "of exponentials": (lambda x: torch.softmax(x * 1.7, -1), (drawn(8, 20000),)),
    "split over the grid": (lambda x, b: x * 1.7 + b, (drawn(2, 60000), drawn(60000))),
    "of sums of products": (lambda x, w, b: x @ w + b, (drawn(32, 64), drawn(64, 100), drawn(100))),
}


@pytest.mark.parametrize("name", OWN_MAXIMA)
def test_a_computed_value_ties_with_its_own_maximum(name):
    f, args = OWN_MAXIMA[name]
    f = of_its_own_maximum(f)
    c = eqfuse.optimize(f, args, target="h200")
    assert ((c.interpret(*args) != 0) == (f(*args) != 0)).all()
    assert not any(k.tiles.contracts for k in c.plan.kernels)


def test_other_comparisons_leave_every_form():
    def positive(x, w):
        return torch.where(x * 1.7 + w > 0, torch.softmax(x * 1.7, -1), 0.0)

    c = eqfuse.optimize(positive, (drawn(16, 300), drawn(16, 300)), target="h200")
    assert all(k.tiles.contracts for k in c.plan.kernels)
    assert any(k.rules for k in c.plan.kernels)


def test_a_largest_and_a_smallest_value_are_equal_where_all_are():
    def constant(x):
        t = x * 1.7 + 0.3
        return t.amax(-1) == t.amin(-1)

    x = drawn(7, 1).expand(7, 300).contiguous()
    assert eqfuse.optimize(constant, (x,), target="h200").interpret(x).all()
