"""What a failing comparison says: the kind of fault, what experiments showed, and code that fails again."""

import pytest
import torch

from eqfuse.errors import AccuracyError, EqFuseError
from eqfuse.testing import MASKED, assert_equivalent, lay_out, masks, offsets, sample, size, tensors

N = size("N", 1, 40)
X = tensors(torch.float32, ("B", N))


def double(x):
    return 2 * x


def double_but_not_seven(x):
    return torch.where(x > 1.5, 2 * x + 1, 2 * x)


def report(f, g, args, **options):
    with pytest.raises(AccuracyError) as caught:
        assert_equivalent(f, g, args, **{"shrink_seconds": 20.0, **options})
    return str(caught.value)


def code_in(text):
    """The indented program at the end of a report."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("    ") and "import" in line)
    return "\n".join(line[4:] for line in lines[start:])


@pytest.mark.parametrize(
    ("f", "g", "args"),
    [
        (double, double_but_not_seven, [X]),
        (double, lambda x: 2 * x.nan_to_num(neginf=0.0), [tensors(torch.float16, ("B", N), values=MASKED)]),
        (double, lambda x: 2 * x + (x.shape[1] > 20), [X]),
        (lambda x, m: x.masked_fill(m, 0), lambda x, m: x * ~m + 1e-3 * m.all(), [X, masks(("B", N))]),
        (lambda x, o: x[o[:-1].clamp(max=len(x) - 1)], lambda x, o: x[o[1:].clamp(max=len(x) - 1)], [tensors(torch.float32, (N,)), offsets(3, N)]),
    ],
)
def test_printed_code_fails_again(f, g, args):
    text = report(f, g, args)
    code = code_in(text)
    with pytest.raises(EqFuseError):
        exec(code, {"f": f, "g": g, "double": double, "double_but_not_seven": double_but_not_seven})


def test_counterexamples_are_small():
    text = report(double, double_but_not_seven, [X])
    assert "x0 = torch.tensor([[2.0]], dtype=torch.float32)" in text
    text = report(double, lambda x: 2 * x + (x.shape[1] > 20), [X])
    literal = next(line for line in text.splitlines() if "x0 = torch.tensor([[" in line)
    assert literal.count("0.0") == 21


def test_one_seed_one_report():
    first = report(double, double_but_not_seven, [X], seed=5)
    assert first == report(double, double_but_not_seven, [X], seed=5)


def test_names_and_lines_of_both_functions():
    text = report(double, double_but_not_seven, [X])
    assert text.startswith("double_but_not_seven (test_reports.py:")
    assert "does not compute what double (test_reports.py:" in text.splitlines()[0]


def test_options_are_part_of_the_code():
    assert "gradients=True" in report(torch.sin, lambda x: x.sin().detach() + x - x.detach(), [X], gradients=True)


# ---- kinds ----


def test_gradients():
    def cube(x):
        return x * x * x

    assert_equivalent(cube, lambda x: x.pow(3), [X], gradients=True, examples=10)
    text = report(cube, lambda x: x.detach() ** 2 * x, [X], gradients=True)
    assert "gradient of argument 0: error" in text
    assert "output 0 has no gradient" in report(cube, lambda x: x.detach() ** 3, [X], gradients=True)


def test_gradients_of_some_arguments_only():
    index = torch.tensor([0, 2])
    assert_equivalent(lambda x, i, w: x[i] * 2, lambda x, i, w: x[i] + x[i], (torch.randn(3, 4), index, torch.randn(2)), gradients=True)


def test_arguments_that_change():
    def in_place(x):
        return x.mul_(2)

    x = torch.randn(4)
    kept = x.clone()
    assert "changed argument 0 in place" in report(double, in_place, (x,))
    assert torch.equal(x, kept)  # put back

    def beside(x):
        torch.as_strided(x, (1,), (1,), 0).fill_(7)
        return 2 * x

    assert "changed argument 0 in place" in report(double, beside, (lay_out(torch.randn(3, 4), "rows"),))
    assert "the first function changed argument 0" in report(in_place, double, (x,))


def test_results_that_differ_from_run_to_run():
    def noisy(x):
        return 2 * x + torch.rand(x.shape) * 1e-9

    x = torch.zeros(8)
    assert "elements differ when the second function runs again" in report(double, noisy, (x,))
    assert_equivalent(lambda x: x + 1, lambda x: x + 1 + torch.rand(x.shape) * 1e-7, (x,), repeats=1, roundings=4)


def test_what_is_never_written():
    def forgets(x):
        y = torch.empty_like(x)
        y[..., :-1] = 2 * x[..., :-1]
        return y

    text = report(double, forgets, [X])
    assert "never written" in text
    assert "the last index of axis 1" in text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_truncation(dtype):
    bits = torch.int16

    def truncated(x):
        exact = x.double() / 3
        near = exact.to(dtype)
        return torch.where(near.double().abs() > exact.abs(), (near.view(bits) - 1).view(dtype), near)

    def third(x):
        return x / 3

    x = tensors(dtype, ("B", N), values="normal")
    assert f"truncated to {str(dtype).removeprefix('torch.')} instead of rounded to nearest" in report(third, truncated, [x])
    assert_equivalent(third, lambda x: (x.float() / 3).to(dtype), [x])
    assert_equivalent(truncated, truncated, [x])  # allowed where the first function does it


def test_rounding_is_not_taken_for_truncation():
    """Sixty seeds of the best case: many results, each rounded once."""
    for seed in range(60):
        x = sample(torch.bfloat16, (20, 20), seed=seed)
        assert_equivalent(lambda x: x / 3, lambda x: (x.float() * (1 / 3)).bfloat16(), (x,), repeats=1)


# ---- observations ----


def test_strides():
    def flat(x):
        return 2 * torch.as_strided(x, x.shape, (x.shape[1], 1), x.storage_offset())

    assert "on contiguous copies of the arguments they agree" in report(double, flat, [tensors(torch.float32, ("B", N), layouts=("contiguous", "rows"))])


def test_narrow_sums():
    def variance(x):
        return x.var(-1, correction=0)

    def narrow(x):
        mean = x.mean(-1, keepdim=True)
        total = torch.zeros_like(x[..., 0])
        for apart in (x - mean).unbind(-1):
            total = total + apart * apart
        return total / x.shape[-1]

    x = sample(torch.float16, (3, 2000), values="normal")
    assert "on float32 copies of the arguments they agree" in report(variance, narrow, (x,))


def test_epsilon():
    def norm(x):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    text = report(norm, lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-5), (sample(torch.float32, (3, 40), values="small"),))
    assert "with argument 0 1048576 times as large they agree (something small is added: an epsilon, or its place)" in text


def test_masked_rows():
    def f(x):
        return torch.softmax(x, -1).nan_to_num(0.0)

    text = report(f, lambda x: torch.softmax(x, -1), [tensors(torch.float32, ("B", N), values=MASKED)])
    assert "with -1e4 in place of -inf they agree" in text


def test_an_index_that_is_not_looked_at():
    text = report(lambda x: x.sum(-1), lambda x: x[..., :-1].sum(-1), [X])
    assert "does not depend on the last index of the last axis of argument 0 (off by one)" in text


def test_exceptions_of_the_function_itself_keep_their_type_and_say_where():
    def picky(x):
        if x.shape[-1] == 17:
            raise KeyError("not seventeen")
        return 2 * x

    with pytest.raises(KeyError) as caught:
        assert_equivalent(double, picky, [tensors(torch.float32, (size("M", 1, 33),))])
    assert "it raised an exception" in caught.value.__notes__[0]
    assert "(17,)" in caught.value.__notes__[0]


def test_inside_a_given_of_ones_own():
    from hypothesis import given, settings

    @settings(max_examples=10, deadline=None, database=None)
    @given(X)
    def outer(x):
        assert_equivalent(double, lambda x: x + x, (x,))

    outer()


# ---- what is right passes, however it is written ----

ANY = (torch.float32, torch.float16, torch.bfloat16)
ROWS, WEIGHT = tensors(ANY, ("B", N)), tensors(ANY, (N,))


def in_single(f):
    """As a kernel does it: computed in float32, rounded once."""

    def g(*args):
        wide = [a if a.dtype == torch.float64 else a.float() for a in args]
        return f(*wide).to(args[0].dtype)

    return g


def softmax_by_hand(x):
    e = torch.exp(x - x.amax(-1, keepdim=True).nan_to_num(neginf=0.0))
    return e / e.sum(-1, keepdim=True)


def norm_by_hand(x, w, b):
    apart = x - x.mean(-1, keepdim=True)
    return apart * (apart.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w + b


@pytest.mark.parametrize(
    ("f", "g", "args"),
    [
        (lambda x: torch.softmax(x, -1), softmax_by_hand, [tensors(ANY, ("B", N), values=MASKED)]),
        (lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b), norm_by_hand, [ROWS, WEIGHT, WEIGHT]),
        (lambda x: x.var(-1, correction=0), lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1), [ROWS]),
        (lambda x: x - x.mean(-1, keepdim=True), lambda x: x - x.flip(-1).sum(-1, keepdim=True) / x.shape[-1], [ROWS]),
        (lambda x: torch.nn.functional.gelu(x), lambda x: 0.5 * x * (1 + torch.erf(x * 0.70710678)), [ROWS]),
    ],
    ids=["softmax", "layer norm", "variance", "centred", "gelu"],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_false_alarms(f, g, args, seed):
    assert_equivalent(f, in_single(g), args, gradients=True, examples=40, seed=seed)


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (torch.nn.functional.silu, lambda x: x / (1 + torch.exp(-x))),  # infinity times zero, in backward
        (lambda x: torch.nn.functional.normalize(x, dim=-1), lambda x: x / x.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-12)),
    ],
    ids=["silu", "normalise"],
)
def test_backward_that_fails_where_forward_does_not(f, g):
    assert_equivalent(f, in_single(g), [ROWS], examples=40)
    assert "gradient of argument 0" in report(f, in_single(g), [ROWS], gradients=True, shrink_seconds=2.0)
