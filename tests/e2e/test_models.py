"""Kernels of layers of public models, at sizes that an interpreter can manage, are as accurate as torch's own."""

import pytest

import eqfuse
from eqfuse.testing.models import MODELS


# a layer of each, and two of the one that is planned quickest
@pytest.mark.parametrize(("name", "layers"), [*((name, 1) for name in MODELS), ("bert", 2)])
def test_as_accurate_as_eager(name, layers):
    model = MODELS[name]
    module, args = model.module("tiny", layers, device="cpu"), model.args("tiny", device="cpu")
    assert eqfuse.optimize(module, args, target="h200").accuracy(*args, factor=2.0).outputs[0].ours_nonfinite == 0
