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
        (
            lambda x, o: x[o[:-1].clamp(max=len(x) - 1)],
            lambda x, o: x[o[1:].clamp(max=len(x) - 1)],
            [tensors(torch.float32, (N,)), offsets(3, N)],
        ),
    ],
)
def test_printed_code_fails_again(f, g, args):
    text = report(f, g, args)
    code = code_in(text)
    with pytest.raises(EqFuseError):
        exec(code, {"f": f, "g": g, "double": double, "double_but_not_seven": double_but_not_seven})


def scaled_by(k):
    def scaled(x, shift=0.0):
        """The source of this one, and the value of k, are all that is needed."""
        return top_level(x) * k + shift

    return scaled


def top_level(x):
    return 1 * x


def runs(code):
    """What a printed program raises, alone."""
    with pytest.raises((AccuracyError, NotImplementedError)) as caught:
        exec(code, {})
    return caught.value


HALVES = 0.5


@pytest.mark.parametrize(
    ("f", "g", "lines"),
    [
        (lambda x: 2 * x, lambda x: 2 * x + HALVES, ["f = lambda x: 2 * x", "HALVES = 0.5", "g = lambda x: 2 * x + HALVES"]),
        (torch.sin, torch.Tensor.cos, ["assert_equivalent(torch.sin, torch.Tensor.cos, (x0,))"]),
        (double, scaled_by(3), ["k = 3", "def scaled(x, shift=0.0):", "    return top_level(x) * k + shift"]),
        (lambda x: torch.nn.functional.relu(x), lambda x: (lambda y: x)(1), ["import torch", "g = lambda x: (lambda y: x)(1)"]),
    ],
    ids=["lambdas", "torch", "closure", "nested"],
)
def test_lambdas_and_closures_are_printed_with_what_they_use(f, g, lines):
    code = code_in(report(f, g, [X]))
    assert not [line for line in lines if line not in code.splitlines()], code
    assert isinstance(runs(code), AccuracyError)


def test_what_cannot_be_printed_is_asked_for():
    table = {"a": 1}
    code = code_in(report(lambda x: 2 * x, lambda x: 2 * x + table["a"], [X]))
    assert "f = lambda x: 2 * x" in code
    said = str(runs(code))
    assert said.startswith("define g here, which is ") and "(test_reports.py:" in said
    repaired = "\n".join("g = lambda x: 3 * x + 1" if line.startswith("raise") else line for line in code.splitlines())
    assert isinstance(runs(repaired), AccuracyError)
    one_name_two_values = code_in(report(scaled_by(2), scaled_by(3), [X]))
    assert "k = 2" in one_name_two_values and "define g here" in str(runs(one_name_two_values))


def test_what_there_is_to_import():
    import eqfuse.testing

    assert dir(eqfuse.testing) == sorted(eqfuse.testing.__all__)
    assert all(getattr(eqfuse.testing, name) is not None for name in dir(eqfuse.testing))


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

    assert "on contiguous copies of the arguments they agree" in report(
        double, flat, [tensors(torch.float32, ("B", N), layouts=("contiguous", "rows"))]
    )


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


EPSILON = "an epsilon, or its place"


def test_epsilon():
    def norm(x):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    text = report(norm, lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-5), (sample(torch.float32, (3, 40), values="small"),))
    assert "with argument 0 1048576 times as large they agree (something small is added: an epsilon, or its place)" in text


def test_a_large_bias_is_no_epsilon():
    """It hides any error beside it: the error itself must vanish."""

    def f(x, b):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() + b

    def g(x, b):
        return f(x, b) * 1.001 - b * 0.001

    small, b = sample(torch.float32, (3, 40), values="small"), sample(torch.float32, (40,))
    assert EPSILON not in report(f, g, (small, b))
    misplaced = report(f, lambda x, b: x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-5) + b, (small, b))
    assert "with argument 0" in misplaced and EPSILON in misplaced


def rms_norm(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


def padded(tile, value):
    """Rows filled up with a value to a multiple of ``tile``, as a kernel without a mask sees them."""

    def g(x):
        fill = x.new_full((*x.shape[:-1], -x.shape[-1] % tile), value)
        return x * torch.rsqrt(torch.cat([x, fill], -1).square().sum(-1, keepdim=True) / x.shape[-1] + 1e-5)

    return g


def test_padding_is_no_epsilon():
    """The larger the argument the less does a one beside it matter, but that is not what tells the two apart."""
    wide = size("N", 1, 100)
    args = [tensors(torch.float32, ("B", wide), values="normal")]
    for tile in (8, 32):
        text = report(rms_norm, padded(tile, 1.0), args, shrink_seconds=1.0)
        assert "they agree, with" in text and "(padding takes part" in text
        assert EPSILON not in text
    concrete = report(rms_norm, padded(4, 1.0), (sample(torch.float32, (3, 37)),))
    assert "with a last axis of length" in concrete and "(padding takes part" in concrete
    for said in (
        report(rms_norm, padded(128, 1.0), args, shrink_seconds=1.0),
        report(rms_norm, padded(128, 1.0), (sample(torch.float32, (3, 127)),)),
    ):
        assert EPSILON not in said  # every row is padded: there is nothing to tell


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16], ids=str)
def test_a_rounding_inside_is_no_epsilon(narrow):
    def g(x):
        y = rms_norm(x)
        return y if x.dtype == torch.float64 else y.to(narrow).float()

    for args in ([tensors(torch.float32, ("B", N))], (sample(torch.float32, (3, 37)),)):
        text = report(rms_norm, g, args, shrink_seconds=1.0)
        assert f"(something is rounded to {str(narrow).removeprefix('torch.')} inside)" in text
        assert EPSILON not in text


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
