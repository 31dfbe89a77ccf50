"""The part of the demo that runs on a GPU, on CPU tensors: a wrong kernel is found, and times are of calls behind each other."""

import pytest
import torch

from eqfuse.cli import demo


class Event:
    """Counts calls instead of time: a microsecond each."""

    calls = 0

    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = Event.calls

    def synchronize(self):
        pass

    def elapsed_time(self, stop):
        return 1e-3 * (stop.at - self.at)


@pytest.fixture(autouse=True)
def device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    example = demo.example
    monkeypatch.setattr(demo, "example", lambda *shape, device: example(*shape))
    monkeypatch.setattr(demo, "median_us", lambda f: 1.0)


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


def test_a_time_is_that_of_one_call(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(torch.cuda, "Event", Event)

    def call():
        Event.calls += 1

    assert demo.median_us(call) == pytest.approx(1.0)
