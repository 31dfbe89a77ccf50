"""Products that torch's settings let a matrix unit take in tf32."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as in torch's own documentation

import eqfuse
from eqfuse.frontends import trace
from eqfuse.testing.programs import PROGRAMS


@pytest.fixture(autouse=True)
def settings():
    """Settings as a process begins with them, before and after."""
    products, convolutions = torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision
    yield
    torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision = products, convolutions


def convolved(x, w, b):
    return torch.relu(F.conv2d(x, w, b, stride=2, padding=1))


def depthwise(x, w, b):
    return F.conv2d(x, w, b, padding=1, groups=x.shape[1])


def grouped(x, w, b):
    return F.conv2d(x, w, b, padding=1, groups=2)


def turned(x, w, b):
    return F.conv_transpose2d(x, w, stride=2, padding=1) + b[:, None, None]


def linear(x, w, b):
    return F.gelu(F.linear(x, w, b))


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def einsum(x, w, b):
    return torch.einsum("bik,jk->bij", x, w) + b


IMAGE = ((2, 64, 33, 33), (72, 64, 3, 3), (72,))
ROWS = ((50, 48), (40, 48), (40,))
HEADS = ((2, 70, 32),) * 3
CASES = {  # a function, shapes, and with which settings it is taken in tf32
    "convolution": (convolved, IMAGE, {"default", "high"}),
    "grouped": (grouped, ((2, 64, 17, 17), (64, 32, 3, 3), (64,)), {"default", "high"}),
    "transposed": (turned, ((2, 64, 16, 16), (64, 48, 4, 4), (48,)), {"default", "high"}),
    "depthwise": (depthwise, ((2, 16, 9, 9), (16, 1, 3, 3), (16,)), set()),
    "linear": (linear, ROWS, {"high"}),
    "attention": (attention, HEADS, {"high"}),
    "einsum": (einsum, ((3, 50, 48), (40, 48), (40,)), {"high"}),
}
SETTINGS = {"default": ("highest", True), "high": ("high", True), "highest": ("highest", False)}


def chosen(setting):
    precision, convolutions = SETTINGS[setting]
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = convolutions


def tensors(shapes, dtype=torch.float32):
    random = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=random).to(dtype) for s in shapes]


def units(c):
    """How float32 matrices are multiplied by a plan's kernels."""
    return {word for word in ("ieee", "tf32") if f'input_precision="{word}"' in c.source}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", CASES)
def test_the_unit_is_the_one_that_torch_allows(name, setting):
    f, shapes, able = CASES[name]
    chosen(setting)
    args = tensors(shapes)
    c = eqfuse.optimize(f, args, target="h200")
    found = units(c)
    assert found == (set() if name == "depthwise" else {"tf32"} if setting in able else {"ieee"})
    torch.testing.assert_close(c.interpret(*args), f(*args), rtol=2e-5, atol=2e-5)  # the interpreter rounds no operand


@pytest.mark.parametrize("name", ["convolution", "linear"])
def test_other_types_are_multiplied_as_they_were(name):
    """Of 16 bits, and of what was 16 bits before a cast."""
    f, shapes, _ = CASES[name]
    chosen("high")
    half = tensors(shapes, torch.bfloat16)
    for g in (f, lambda *args: f(*(a.float() for a in args))):
        assert not units(eqfuse.optimize(g, half, target="h200"))


def test_exact_plans_have_none():
    chosen("high")
    assert units(eqfuse.optimize(linear, tensors(ROWS), target="h200", licence="exact")) == {"ieee"}


def test_the_price_is_that_of_the_unit():
    args = [torch.empty(s, device="meta") for s in ((4096, 4096), (4096, 4096))]
    us = {}
    for setting in ("highest", "high"):
        chosen(setting)
        c = eqfuse.optimize(torch.mm, args, target="h200")
        us[setting] = c.plan.estimated_us, c.plan.baseline_us
    assert us["high"][0] < us["highest"][0] / 5
    assert us["high"][1] < us["highest"][1] / 5, "and so is that of eager code"


def test_a_loop_over_keys_stays_one():
    """What lets the unit round is passed by factors and by sums: an online softmax is one kernel."""
    chosen("high")
    args = [torch.empty(8, 4096, 64, device="meta")] * 3
    plan = eqfuse.optimize(attention, args, target="h200").plan
    assert len(plan.kernels) == 1


def test_programs_without_it_are_as_they_were():
    """A setting that nothing of a program hangs on changes nothing of it."""
    p = PROGRAMS["row_softmax"]
    texts = set()
    for setting in SETTINGS:
        chosen(setting)
        texts.add(str(trace(p.fn, p.args("check")).program))
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["convolution", "linear"])
def test_a_cpu_has_float32(name):
    f, shapes, _ = CASES[name]
    args = tensors(shapes)
    found = []
    for setting in ("highest", "high"):
        chosen(setting)
        c = eqfuse.optimize(f, args, target="cpu")
        found.append((c.plan.estimated_us, [type(s).__name__ for s in c.plan.steps]))
        torch.testing.assert_close(c.interpret(*args), f(*args), rtol=2e-5, atol=2e-5)
    assert found[0] == found[1], "the library's products among them"
