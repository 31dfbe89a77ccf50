"""Kernels of layers of public models, at sizes that an interpreter can manage, are as accurate as torch's own."""

import pytest

import eqfuse
from eqfuse.testing.models import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_as_accurate_as_eager(name):
    model = MODELS[name]
    module, args = model.module("tiny", 2, device="cpu"), model.args("tiny", device="cpu")
    assert eqfuse.optimize(module, args, target="h200").accuracy(*args, factor=2.0).outputs[0].ours_nonfinite == 0
