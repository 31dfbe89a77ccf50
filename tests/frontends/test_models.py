"""Layers of public models mean what torch computes, and what tracing a stack costs grows with the number of its layers, no faster."""

import pytest
import torch

from eqfuse.frontends import trace
from eqfuse.testing.models import MODELS

from .test_corpus import agree

EQUAL = [name for name, model in MODELS.items() if len(model.sizes["tiny"]) == 1]  # their layers are


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_means_what_torch_computes(name, layers):
    """Statistics and softmax are in float32, as the models write it: torch rounds there, the reference computes on."""
    model = MODELS[name]
    agree(model.module("tiny", layers, torch.float64, "cpu"), model.args("tiny", torch.float64, "cpu"), tolerance=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_bench_sizes_need_no_data(name):
    model = MODELS[name]
    module, args = model.module(), model.args()
    program = trace(module, args).program
    (result,) = program.outputs
    assert result.shape == tuple(args[0].shape)
    assert result.dtype.name == model.dtype


@pytest.mark.parametrize("name", EQUAL)
def test_every_layer_after_the_first_is_read_once(name):
    """A layer adds as many terms and axes as the one before it: what its keys are read from is not written again for their positions."""
    programs = [trace(MODELS[name].module("tiny", layers), MODELS[name].args("tiny")).program for layers in (1, 2, 3, 5)]
    for found in ([len(p.terms()) for p in programs], [len({a for t in p.terms() for a in t.axes}) for p in programs]):
        first, step, two = found[1] - found[0], found[2] - found[1], found[3] - found[2]
        assert abs(first - step) <= 2, "two Views may be one"
        assert abs(two - 2 * step) <= 2
        assert step <= found[0]


def test_layers_have_weights_of_their_own():
    module = MODELS["llama"].module("tiny", 2, device="cpu")
    first, second = (layer.q_proj.weight for layer in module.layers)
    assert not torch.equal(first, second)
