"""The oracle is what a function means: casts to narrower types are errors of the first function, unless they are what it computes."""

import pytest
import torch

from eqfuse.errors import AccuracyError
from eqfuse.testing import MASKED, assert_equivalent, sample, size, tensors
from eqfuse.testing.oracle import Unrounded, oracles

SINGLE, BRAIN, HALF = torch.float32, torch.bfloat16, torch.float16
R, N = size("R", 1, 4), size("N", 1, 70)
X = tensors(SINGLE, (R, N))


def cut_off(x):
    """The upper half of the bits of a float32."""
    return (x.contiguous().view(torch.int32) >> 16).to(torch.int16).view(BRAIN)


def toward_zero(x, dtype):
    """Any type: the neighbour that is not larger in magnitude."""
    near = x.contiguous().to(dtype)
    return torch.where(near.double().abs() > x.double().abs(), (near.view(torch.int16) - 1).view(dtype), near)


def softmax(x):
    return torch.softmax(x, -1)


def says(f, g, args, **options):
    with pytest.raises(AccuracyError) as caught:
        assert_equivalent(f, g, args, **{"examples": 60, "shrink_seconds": 0.5, **options})
    return str(caught.value)


# ---- a cast at the end ----


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (lambda x: x.bfloat16(), cut_off),
        (lambda x: softmax(x).bfloat16(), lambda x: cut_off(softmax(x))),
        (lambda x: torch.softmax(x, -1).to(dtype=BRAIN), lambda x: cut_off(softmax(x))),
        (lambda x: torch.empty(x.shape, dtype=BRAIN).copy_(x), cut_off),
        (lambda x: (x / 3).half(), lambda x: toward_zero(x / 3, HALF)),
    ],
    ids=["identity", "softmax", "to", "copy", "half"],
)
def test_truncation_where_the_first_function_casts(f, g):
    assert "instead of rounded to nearest" in says(f, g, [X])
    assert_equivalent(f, f, [X], examples=60)


def test_truncation_is_allowed_where_the_first_function_does_it():
    assert_equivalent(lambda x: toward_zero(x, BRAIN), cut_off, [X], examples=60)
    assert_equivalent(lambda x: toward_zero(x, BRAIN).float(), lambda x: cut_off(x).float(), [X], examples=60)


def test_rounding_is_not_taken_for_truncation():
    for seed in range(40):
        x = sample(SINGLE, (20, 20), seed=seed)
        assert_equivalent(lambda x: softmax(x).bfloat16(), lambda x: (x.exp() / x.exp().sum(-1, keepdim=True)).bfloat16(), (x,), repeats=1)


def test_saturation_is_no_infinity():
    x = torch.tensor([1e6, -1e9, 3.0])
    assert "finite where they should not be" in says(lambda x: x.half(), lambda x: x.clamp(-65504, 65504).half(), (x,))
    assert_equivalent(lambda x: x.half(), lambda x: x.half(), (x,))


@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_through_a_cast(seed):
    x = tensors((SINGLE, HALF, BRAIN), (R, N), values=MASKED)

    def by_hand(x):
        e = torch.exp(x.float() - x.float().amax(-1, keepdim=True).nan_to_num(neginf=0.0))
        return (e / e.sum(-1, keepdim=True)).to(x.dtype)

    assert_equivalent(lambda x: softmax(x.float()).to(x.dtype), by_hand, [x], gradients=True, examples=40, seed=seed)
    lost = says(lambda x: softmax(x).bfloat16(), lambda x: softmax(x.detach()).bfloat16() + 0 * x.bfloat16(), [X], gradients=True)
    assert "gradient of argument 0: error" in lost


# ---- a cast inside ----


def test_truncation_inside():
    said = says(lambda x: x.bfloat16().float() * 3, lambda x: cut_off(x).float() * 3, [X])
    assert "made of numbers that were truncated instead of rounded to nearest" in said
    assert "made of numbers that were truncated" in says(lambda x: 1 - x.bfloat16().float(), lambda x: 1 - cut_off(x).float(), [X])


def product(x, w):
    return (x.bfloat16() @ w.bfloat16()).float()


@pytest.mark.parametrize(
    "g",
    [
        product,
        lambda x, w: x @ w,
        lambda x, w: x.bfloat16().float() @ w.bfloat16().float(),
        lambda x, w: (x * 3).bfloat16().float() @ (w / 3).bfloat16().float(),
    ],
    ids=["the same", "no cast", "summed in float32", "cast elsewhere"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_who_casts_elsewhere_is_right_too(g, seed):
    values = ("normal", "ties", "large", "offset", "wide")  # a third of the smallest numbers is another number
    args = [tensors(SINGLE, (R, N), values=values), tensors(SINGLE, (N, 5), values=values)]
    assert_equivalent(product, g, args, examples=60, seed=seed)


def test_products_that_are_wrong():
    args = [X, tensors(SINGLE, (N, 5))]
    assert "error" in says(product, lambda x, w: (x @ w) * 1.05, args)
    assert "error" in says(product, lambda x, w: x[:, 1:] @ w[1:], args)


def test_sums_in_another_order():
    """A reference that says ``.float()`` is no oracle in float32."""
    x = sample(SINGLE, (2, 5000), values="offset")
    assert_equivalent(lambda x: x.float().sum(-1), lambda x: x.float().cumsum(-1)[:, -1], (x,))
    total = torch.zeros(2, dtype=SINGLE)
    assert oracles(lambda x: sum((c.float() for c in x.unbind(-1)), total), (x,))[0].value.tolist() == x.double().sum(-1).tolist()


# ---- where the rounding is what is computed ----


def residual(x):
    return x - x.bfloat16().float()


def test_what_rounding_leaves():
    assert_equivalent(residual, lambda x: -(x.bfloat16().float() - x), [X], examples=60)
    for g in (torch.zeros_like, lambda x: x - cut_off(x).float(), lambda x: 2 * residual(x)):
        assert "the oracle rounds where the first function casts" in says(residual, g, [X])
    both = lambda x: torch.stack([x.bfloat16().float(), residual(x)])  # noqa: E731
    assert_equivalent(both, both, [X], examples=30)
    assert "the oracle rounds" in says(both, lambda x: torch.stack([x.bfloat16().float(), 0 * x]), [X])


def test_what_cancels_is_not_taken_for_a_residual():
    """One number, lost to rounding here, and not elsewhere."""
    x = torch.tensor([[1000.3, -1000.2]])
    (chosen,) = oracles(lambda x: x.bfloat16().float().sum(-1), (x,))
    assert not chosen.rounds
    assert chosen.value.item() == x.double().sum().item()
    assert oracles(residual, (x,))[0].rounds


def test_bits_of_what_is_rounded():
    f = lambda x: x.bfloat16().view(torch.int16)  # noqa: E731
    assert_equivalent(f, f, [X], examples=20)
    assert "not equal" in says(f, lambda x: cut_off(x).view(torch.int16), [X])


def test_whole_numbers_are_those_of_the_function_with_its_casts():
    f = lambda x: (x.bfloat16() * 100).round().long()  # noqa: E731
    assert_equivalent(f, f, [tensors(SINGLE, (R, N), values="normal")], examples=20)


def test_weights_of_another_type_from_outside():
    w = torch.randn(3, 2, generator=torch.Generator().manual_seed(0)).bfloat16()
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    (chosen,) = oracles(lambda x: x.bfloat16() @ w, (x,))
    assert torch.equal(chosen.value, x.double() @ w.double())


def test_inside_everything_is_float64():
    x = torch.randn(3, 4, dtype=torch.float64)
    with Unrounded() as mode:
        made = [
            x.half(),
            x.type(SINGLE),
            x.sum(-1, dtype=SINGLE),
            torch.softmax(x, -1, dtype=SINGLE),
            torch.zeros(2),
            x.new_zeros(2, dtype=HALF),
        ]
        made += [torch.tensor(0.5), torch.full((2,), 0.5), torch.empty_like(x, dtype=BRAIN), torch.arange(3).to(BRAIN)]
    assert {t.dtype for t in made} == {torch.float64}
    assert torch.equal(made[0], x)
    assert mode.coarsest == torch.finfo(BRAIN).eps
