"""Calls take turns, times are those of one call, and memory is what a call adds."""

import sys
from itertools import pairwise

import pytest
import torch

from eqfuse.runtime import measuring
from eqfuse.runtime.measuring import Times, added_memory, interleaved, sampler


def test_every_round_has_every_call_once_and_begins_with_another():
    order, parts = [], []

    def sample(call, times):
        call()
        return 1.0

    names = "abc"
    found = interleaved({n: lambda n=n: order.append(n) for n in names}, sample=sample, seconds=0.0, rounds=(6, 9), tick=parts.append)
    rounds = [order[i : i + 3] for i in range(3, len(order), 3)]  # the first three are the warm-up
    assert len(rounds) == 6
    assert all(sorted(r) == list(names) for r in rounds)
    assert all(later == [*earlier[1:], earlier[0]] for earlier, later in pairwise(rounds))
    assert {n: len(t.samples) for n, t in found.items()} == dict.fromkeys(names, 6)
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


def test_short_calls_are_sampled_many_at_a_time_and_long_ones_once():
    asked = {"short": [], "long": []}

    def sample(call, times):
        name = call()
        asked[name].append(times)
        return 1e-6 if name == "short" else 0.5

    interleaved({n: lambda n=n: n for n in asked}, sample=sample, seconds=0.0, rounds=(2, 2))
    assert asked == {"short": [1, 1000, 1000], "long": [1, 1, 1]}


def test_rounds_end_with_the_time_or_their_number():
    calls = {"a": lambda: None}
    assert len(interleaved(calls, sample=lambda call, times: 1.0, seconds=60.0, rounds=(1, 7))["a"].samples) == 7


def test_median_and_quartiles():
    t = Times((5.0, 1.0, 4.0, 2.0, 3.0))
    assert (t.median, t.quartiles) == (3.0, (2.0, 4.0))
    assert Times((7.0,)).quartiles == (7.0, 7.0)


@pytest.mark.parametrize(("threads", "clock"), [(1, "thread_time"), (2, "perf_counter")])
def test_one_thread_is_measured_in_processor_time(threads, clock, monkeypatch):
    now = iter((10.0, 16.0))
    monkeypatch.setattr(measuring.time, clock, lambda: next(now))
    calls = []
    assert sampler("cpu", threads)(lambda: calls.append(1), 3) == 2.0
    assert len(calls) == 3


class Event:
    """Counts calls instead of time: a millisecond each."""

    calls = 0

    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = Event.calls

    def synchronize(self):
        pass

    def elapsed_time(self, stop):
        return float(stop.at - self.at)


def test_a_time_between_events_is_that_of_one_call(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)

    def call():
        Event.calls += 1

    assert sampler("cuda", 1)(call, 10) == pytest.approx(1e-3)


@pytest.mark.skipif(sys.platform != "linux", reason="the system keeps no highest mark")
def test_memory_is_the_most_that_a_call_held():
    def call():
        large = torch.ones(1 << 24)  # 64 MB, freed before the end
        large = None
        return torch.ones(1 << 20) if large is None else large

    call()
    found = added_memory(call)
    if found is None:
        pytest.skip("the highest mark cannot be set back")
    assert 60e6 < found < 80e6
    assert added_memory(lambda: torch.ones(16)) < 4e6
