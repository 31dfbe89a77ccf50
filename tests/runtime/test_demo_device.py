"""The part of the demo that runs on a GPU, on CPU tensors: a wrong kernel is found."""

import pytest
import torch

from eqfuse.cli import demo


@pytest.fixture(autouse=True)
def device(monkeypatch):
    example = demo.example
    monkeypatch.setattr(demo, "example", lambda *shape, device: example(*shape))


@pytest.mark.parametrize(
    ("kernel", "right"),
    [
        (demo.attention, True),
        (lambda q, k, v: demo.attention(q, k, v) * 1.01, False),
        (lambda q, k, v: torch.full_like(v, torch.nan), False),
    ],
    ids=["right", "wrong", "unwritten"],
)
def test_the_result_on_the_device_decides(kernel, right, capsys):
    assert demo._on_device(kernel, (1, 2, 32, 16)) is right
    assert "head  0: max error" in capsys.readouterr().out
