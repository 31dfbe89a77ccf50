"""Small programs for meshes, as torch code, and what the tests of distribution share."""

import random
from dataclasses import replace

import numpy as np
import torch

from eqfuse.distributed.choice import Allowed, Space
from eqfuse.distributed.forms import forms
from eqfuse.distributed.mesh import PARTIAL, Mesh
from eqfuse.distributed.search import search
from eqfuse.extract.targets import load_target
from eqfuse.frontends import TensorSpec, trace

H100 = load_target("h100")


def mlp(x, w1, b, w2):
    return torch.relu(x @ w1.T + b) @ w2.T


def layer_norm(x, w, b):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b)


def norm_linear(x, g, w):
    return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * g) @ w.T


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v


def causal(q, k, v):
    scores = q @ k.transpose(-1, -2) * 0.3
    seen = torch.arange(k.shape[-2])[None] <= torch.arange(q.shape[-2])[:, None]
    return torch.softmax(torch.where(seen, scores, -torch.inf), -1) @ v


def heads(x, w_in, w_out):
    b, n, _ = x.shape
    q = (x @ w_in.T).view(b, n, 4, -1).transpose(1, 2)
    return attention(q, q, q).transpose(1, 2).reshape(b, n, -1) @ w_out.T


def cross_entropy(x, w, target):
    logs = torch.log_softmax(x @ w.T, -1)
    chosen = torch.arange(w.shape[0])[None] == target[:, None]
    return -torch.where(chosen, logs, 0.0).sum(-1).mean()


def statistics(x):
    return x.var(-1), x.amax(-1), x.amin(0)


def rotary(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def integers(i, j):
    return (i * j).sum(-1), i.amax(0)


def several(x, w):
    y = x @ w.T
    return y, y.sum(0), torch.tanh(y).mean()


def spec(*shape, dtype=torch.float32):
    return TensorSpec(shape, dtype)


PROGRAMS = {
    f.__name__: (f, args)
    for f, args in (
        (mlp, (spec(8, 4), spec(12, 4), spec(12), spec(8, 12))),
        (layer_norm, (spec(4, 16), spec(16), spec(16))),
        (norm_linear, (spec(4, 16), spec(16), spec(8, 16))),
        (attention, (spec(2, 4, 8), spec(2, 16, 8), spec(2, 16, 8))),
        (causal, (spec(2, 16, 8), spec(2, 16, 8), spec(2, 16, 8))),
        (heads, (spec(2, 8, 16), spec(16, 16), spec(8, 16))),
        (cross_entropy, (spec(8, 4), spec(16, 4), spec(8, dtype=torch.int64))),
        (statistics, (spec(8, 16),)),
        (rotary, (spec(4, 8, 16), spec(8, 16), spec(8, 16))),
        (integers, (spec(8, 16, dtype=torch.int32), spec(8, 16, dtype=torch.int32))),
        (several, (spec(8, 4), spec(12, 4))),
    )
}
_made: dict = {}


def program(name):
    if name not in _made:
        _made[name] = trace(*PROGRAMS[name]).program
    return _made[name]


def formed(name, mesh):
    if (name, mesh) not in _made:
        _made[name, mesh] = forms(program(name), mesh)
    return _made[name, mesh]


def drawn(name, mesh, seed):
    """A program with inputs and outputs anywhere, on a device of any rates; with numbers, which may be infinite or none."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    p = program(name)
    rates = {
        "link_gb_s": (1e-6, 1e-3, 1.0, 450.0), "link_us": (1e-3, 0.1, 10.0), "launch_us": (1e-3, 3.0), "dram": (1e-4, 1.0, 3000.0),
        "simt_gops": (1e-6, 1e-3, 3e4),
    }  # fmt: skip
    chosen = {field: rng.choice(values) for field, values in rates.items()}
    target = replace(H100.with_level("dram", gb_s=chosen.pop("dram")), **chosen)
    inputs = {
        i.name: [rng.choice(mesh.places([a for a in i.layout if a], partial=i.dtype.is_float and rng.random() < 0.2))] for i in p.inputs
    }
    outputs = {o.name: [rng.choice(mesh.places([a for a in o.layout if a]))] for o in p.outputs if rng.random() < 0.7}
    values = {}
    for i in p.inputs:
        if not i.dtype.is_float:
            values[i.name] = numbers.integers(0, 16, i.shape)
            continue
        values[i.name] = numbers.standard_normal(i.shape)
        if rng.random() < 0.2 and PARTIAL not in inputs[i.name][0]:
            strange = rng.choice([np.nan, np.inf, -np.inf])
            values[i.name] = np.where(numbers.random(i.shape) < 0.1, strange, values[i.name])
    return Space(formed(name, mesh), mesh, target), Allowed(inputs, outputs), values


def placed(name, mesh, inputs, outputs=None, target=H100):
    """The plan of a program with placements as `{name: axis, or several}`; what is not named is replicated."""
    p, m = program(name), Mesh.of(mesh)

    def place(t, wanted):
        wanted = wanted if isinstance(wanted, tuple) else (wanted,) * len(m.sizes)
        return [tuple(next((a for a in t.layout if a and a.name == w), w) for w in wanted)]

    given = {i.name: place(i, inputs.get(i.name, "replicated")) for i in p.inputs}
    wanted = {o.name: place(o, outputs[o.name]) for o in p.outputs if o.name in (outputs or {})}
    space = Space(formed(name, m), m, target)
    return search(space, Allowed(given, wanted), 0.5)
