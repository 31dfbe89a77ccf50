"""One ``Compiled`` at many sizes: traced once, planned where the model asks for it, right everywhere."""

from __future__ import annotations

import pytest
import torch

import eqfuse
from eqfuse import pipeline, ranges
from eqfuse.runtime.executable import Executable
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module


@pytest.fixture
def on_device(monkeypatch):
    """CPU tensors count as CUDA tensors; launches are interpreted, and what is launched is recorded."""
    launched = []

    def launcher(self):
        def run(tensors):
            launched.append(self._called_source)
            return interpret(load_module(self._called_source, "interpret"), "run", *tensors, sanitize=False)

        return run

    monkeypatch.setattr(Executable, "_device", lambda self, tensors: "cuda")
    monkeypatch.setattr(Executable, "_kernels_on", property(launcher))
    return launched


@pytest.fixture
def counted(monkeypatch):
    """How often programs are traced with numbers, saturated and searched for a plan."""
    found = {"_trace": 0, "_saturate": 0, "_extract": 0}

    def counting(name):
        real = getattr(pipeline, name)

        def run(*args, **kwargs):
            found[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(pipeline, name, run)

    for name in found:
        counting(name)
    return found


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v


def heads(queries, keys, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn((2, 2, n, 16), generator=generator) for n in (queries, keys, keys))


def assert_right(c, *args):
    wanted = attention(*(x.double() for x in args))
    torch.testing.assert_close(c(*args).double(), wanted, rtol=1e-5, atol=1e-5)


ODD = (3, 7, 13, 17, 29, 31, 37, 61, 67, 97, 101, 127, 131, 255, 257, 333, 511, 513, 777, 1000)


def test_attention_at_every_number_of_keys(on_device, counted):
    c = eqfuse.optimize(attention, heads(16, 256), target="h200")
    assert counted == {"_trace": 1, "_saturate": 1, "_extract": 1}
    for keys in (2, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, *ODD):
        assert_right(c, *heads(16, keys))
    assert counted["_trace"] == 1
    assert counted["_extract"] <= 8 and len(set(on_device)) <= 16, "of 31 sizes"
    searched = counted["_extract"]
    for keys in (5, 11, 100, 250, 999, 1023):
        assert_right(c, *heads(16, keys, seed=1))
    assert counted["_trace"] == 1
    assert counted["_extract"] == searched, "between sizes that were served nothing is searched"


def test_a_length_of_one_is_another_program(on_device, counted):
    c = eqfuse.optimize(attention, heads(16, 256), target="h200")
    assert_right(c, *heads(16, 1))
    assert counted["_trace"] == 2


def test_4000_and_4096_are_one_plan_prefill_and_decode_are_two(on_device, counted):
    def meta(queries, keys):
        return tuple(torch.empty((2, 16, n, 128), dtype=torch.bfloat16, device="meta") for n in (queries, keys, keys))

    c = eqfuse.optimize(attention, meta(4096, 4096), target="h200")
    there, here = c._serving(meta(4000, 4000), {}).plan.kernels[0].kernel.roles, c.plan.kernels[0].kernel.roles
    assert {a.name: r for a, r in there.items()} == {a.name: r for a, r in here.items()}
    assert len(c._range._plans) == 1
    c._serving(meta(2, 8192), {})
    assert len(c._range._plans) == 2
    prefill, decode = c._range._plans
    assert decode.planned.plan.estimated_us * (1 + ranges.MARGIN) < pipeline.like(
        prefill.planned, decode.planned.request, decode.planned.traced
    ).plan.estimated_us


def test_a_program_that_looks_at_sizes_is_planned_for_each_side(on_device, counted):
    def f(x):
        return torch.softmax(x, -1) if x.shape[-1] > 64 else x.exp()

    c = eqfuse.optimize(f, (torch.randn(8, 100),), target="h200")
    for n in (70, 90, 64, 10):
        x = torch.randn(8, n)
        torch.testing.assert_close(c(x), f(x))
    assert counted["_trace"] == 3, "below 65 it is another program, and each of these is traced by itself"


def test_what_the_kernels_need_of_sizes_is_said():
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.ones(64, 2048),), target="h200")
    assert all(g.holds({"x": (64, 2048)}) for g in c.guards)
    x = torch.ones(64, 2000)
    assert all(g.holds({"x": x.shape}) for g in c.guards) == (c.traced.at((x,), {}) is not None and c.serving(c.traced.at((x,), {})) is not None)
    assert all(f'{g.axis}", ' in c.source and g.requirement in c.source for g in c.guards)


