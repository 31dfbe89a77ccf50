"""Whatever ``optimize`` returns answers to the same names: a program planned as one, in regions, in steps, with its backward pass, across
devices."""

import copy

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard

import eqfuse
from eqfuse.distributed import DTensorSpec
from eqfuse.errors import PlanError

G = torch.Generator().manual_seed(0)
X, W = torch.randn(8, 6, generator=G), torch.randn(6, 4, generator=G)


def product(x, w):
    return torch.softmax(x @ w, -1)


def sorting(x, w):
    return torch.sort(product(x, w), -1).values.exp() + 1


def layers(x, *weights):
    for w in weights:
        x = torch.relu(x @ w)
    return x


def in_regions():
    large = [
        torch.empty(64, 2048, dtype=torch.bfloat16, device="meta"),
        *[torch.empty(2048, 2048, dtype=torch.bfloat16, device="meta")] * 17,
    ]
    c = eqfuse.optimize(layers, large, target="h200", time_budget=2.0)
    few = [torch.rand(n, 20, generator=G).bfloat16() for n in (5, *[20] * 17)]  # nothing cancels
    return c.at(*few), few, layers


def across():
    c = eqfuse.optimize(
        product, (DTensorSpec((8, 6), torch.float32, 2, (Replicate(),)), DTensorSpec((6, 4), torch.float32, 2, (Shard(1),))), target="h200"
    )
    return c, [X, W], product


SHAPES = {
    "whole": lambda: (eqfuse.optimize(product, (X, W), target="h200"), [X, W], product),
    "in regions": in_regions,
    "in steps": lambda: (eqfuse.optimize(sorting, (X, W), target="h200"), [X, W], sorting),
    "training": lambda: (
        eqfuse.optimize(product, (X, W.clone().requires_grad_()), target="h200", training=True),
        [X, W.clone().requires_grad_()],
        product,
    ),
    "across devices": across,
}


def near(found, wanted):
    allowed = 2e-2 if wanted.dtype == torch.bfloat16 else 1e-5
    assert (found.double() - wanted.double()).abs().max() <= allowed * wanted.double().abs().max()


ASKED = {  # what each name is asked, and what is to be true of the answer
    "accuracy": lambda c, args, fn, path: c.accuracy(*args).check(4.0),
    "at": lambda c, args, fn, path: near(c.at(*args).interpret(*args), fn(*args)),
    "bind": lambda c, args, fn, path: _true(tuple(c.bind(tuple(args), {})) == c.inputs),
    "compile": lambda c, args, fn, path: _true(len(c.compile()) >= len(c.parts)),
    "eager": lambda c, args, fn, path: near(c.eager(*args), fn(*args)),
    "estimates": lambda c, args, fn, path: _true(len(c.estimates()) == len(c.compile())),
    "explain": lambda c, args, fn, path: _true(c.name in str(c.explain()) and c.explain().json()),
    "form": lambda c, args, fn, path: _true(c.form is not None),
    "graphs": lambda c, args, fn, path: _true(len(c.graphs) >= len(c.parts)),
    "html": lambda c, args, fn, path: _true("<html" in c.html()),
    "inputs": lambda c, args, fn, path: _true(len(c.inputs) == len(args)),
    "interpret": lambda c, args, fn, path: near(c.interpret(*args), fn(*args)),
    "layouts": lambda c, args, fn, path: _true(len(c.layouts()) == len(c.compile())),
    "missing": lambda c, args, fn, path: _true(c.missing == ""),
    "name": lambda c, args, fn, path: _true(c.name == fn.__name__),
    "names": lambda c, args, fn, path: _true(len(c.names) == 1),
    "parts": lambda c, args, fn, path: _true(all(p.plan.kernels for p in c.parts.values())),
    "plan": lambda c, args, fn, path: _true(fn.__name__ in str(c.plan).splitlines()[0]),
    "replan": lambda c, args, fn, path: _true(c.replan("a100").target.name == "a100"),
    "request": lambda c, args, fn, path: _true(c.request.licence == "real"),
    "save": lambda c, args, fn, path: _true("def run(" in c.save(path / "saved.py").read_text()),
    "simulate": lambda c, args, fn, path: near(c.simulate(*args), fn(*args)),
    "source": lambda c, args, fn, path: _true("def run(" in c.source),
    "target": lambda c, args, fn, path: _true(c.target.name == "h200"),
    "why": lambda c, args, fn, path: _true(c.why(c.inputs[0], c.names[0]).text),
}


def _true(said):
    assert said


LACKING = {("across devices", "at"), ("across devices", "save"), ("across devices", "source"), ("training", "at")}


def test_every_name_is_asked():
    assert {n for n in dir(eqfuse.Compiled) if not n.startswith("_")} == ASKED.keys()
    assert len(LACKING) <= 5


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_answers_to_every_name(shape, tmp_path):
    c, args, fn = SHAPES[shape]()
    assert type(c) is eqfuse.Compiled
    assert c.name in repr(c) and str(c.plan) in str(c)
    for name, ask in ASKED.items():
        if (shape, name) not in LACKING:
            ask(c, args, fn, tmp_path)
            continue
        with pytest.raises(PlanError) as info:
            ask(c, args, fn, tmp_path)
        assert info.value.where == c.name and info.value.cure
    assert repr(copy.deepcopy(c)) == repr(c)
    if shape != "across devices":  # which takes DTensors
        near(c(*args), fn(*args))
