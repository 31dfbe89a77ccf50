"""What a plan says of inputs for which its kernels leave float32 and the program does not; and where it keeps the order for nothing."""

import re

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import eqfuse

ROWS, KEYS, WIDTH, DEPTH = 8, 2048, 16, 24


def normalised(s, v):
    return (s / s.sum(-1, keepdim=True)) @ v


def polynomial(q, k, v):
    s = (q @ k.T) ** 8
    return (s / s.sum(-1, keepdim=True)) @ v


def by_length(x, v):
    return F.normalize(x, dim=-1) @ v


def rms(x, weight, v):
    return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight) @ v


def softmax(q, k, v):
    return torch.softmax(q @ k.T, -1) @ v


def masked(s, mask, v):
    return torch.softmax(s.masked_fill(mask > 0, -1e30), -1) @ v


S, V, Q, K = (ROWS, KEYS), (KEYS, WIDTH), (ROWS, DEPTH), (KEYS, DEPTH)
SAYS = {
    "normalised": (normalised, (S, V)),
    "polynomial": (polynomial, (Q, K, V)),
    "by length": (by_length, (S, V)),
    "rms": (rms, (S, (KEYS,), V)),
}
SAYS_NOTHING = {
    "softmax": (softmax, (Q, K, V)),
    "masked": (masked, (S, S, V)),
    "late": (lambda s, v: (s @ v) / s.sum(-1, keepdim=True), (S, V)),
}


def streamed(fn, shapes, dtype=torch.float32, **options):
    """The plan of many rows, which it reads in a loop."""
    many = [torch.empty([4096 if n == ROWS and s[0] == n else n for n in s], device="meta", dtype=dtype) for s in shapes]
    return eqfuse.optimize(fn, many, target="h200", **options)


def around(note, c, shapes):
    """Data of the sizes that a note speaks of."""
    sizes = {name: float(number) for name, number in re.findall(r"(\w+) is around (\S+?),? ", note)}
    g = torch.Generator().manual_seed(0)
    names = [i.name for i in c.program.inputs]
    return [(torch.rand(s, generator=g) * 0.1 + 0.95) * sizes.get(n, 1.0) for n, s in zip(names, shapes, strict=True)]


def error(found, args, fn):
    exact = fn(*[a.double() for a in args])
    return ((found.double() - exact).abs() / exact.abs()).max().nan_to_num(torch.inf, posinf=torch.inf).item()


@pytest.mark.parametrize("name", SAYS)
def test_what_a_plan_says_is_so(name):
    """With the numbers of the note: eager keeps its digits, the kernels do not, and those of the cure do."""
    fn, shapes = SAYS[name]
    c = streamed(fn, shapes)
    assert {n for kernel in c.plan.kernels for n in kernel.passes.values()} == {1}
    over = c.plan.notes[0]
    assert "may overflow" in over
    assert all("may lose digits or vanish" in note for note in c.plan.notes[1:])
    assert f"numbers: {over}" in str(c.plan)
    if name == "normalised":
        assert f"numbers: {over}" in str(c.explain())
    kept = streamed(fn, shapes, disable=["factor_out"])
    assert kept.plan.notes == ()
    for note in c.plan.notes:
        assert note.endswith("disable=['factor_out'] keeps the program's order")
        args = around(note, c, shapes)
        small = c.at(*args)
        assert small.plan.notes == c.plan.notes
        eager, ours, cured = (error(run(*args), args, fn) for run in (fn, small.interpret, kept.at(*args).interpret))
        assert max(eager, cured) < 1e-6
        assert ours == torch.inf if note == over else ours > 2 * max(eager, cured)
    args = around(over, c, shapes)
    assert c.at(*args).accuracy(*args).outputs[0].ours == torch.inf


@pytest.mark.parametrize("name", SAYS_NOTHING)
def test_weights_that_are_bounded_say_nothing(name):
    c = streamed(*SAYS_NOTHING[name])
    assert c.plan.notes == ()


def test_float16_says_nothing_of_two_of_its_numbers():
    """Their products fit."""
    c = streamed(*SAYS["normalised"], dtype=torch.float16)
    assert "factor_out" in c.plan.kernels[0].rules
    assert c.plan.notes == ()


def test_rows_on_chip_keep_the_order_of_the_program():
    """Nothing is saved by moving the division, so it stays; and where something is, it moves."""
    s, v = torch.rand(8, 16) * 1e36, torch.randn(16, 4) * 1e4
    c = eqfuse.optimize(normalised, (s, v), target="h200")
    assert c.plan.notes == ()
    for found, rows in ((c.interpret(s, v), s), (c.at(s[:5], v).interpret(s[:5], v), s[:5])):
        torch.testing.assert_close(found, normalised(rows, v), rtol=1e-5, atol=1e-2)
    assert "factor_out" in eqfuse.optimize(softmax, [torch.randn(16, 16)] * 3, target="h200").plan.kernels[0].rules
