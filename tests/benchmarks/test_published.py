"""Published numbers: every one has a source and a job that is known; ratios and their summary are what they say."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def published(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.published import __main__

    yield __main__
    sys.modules.pop("benchmarks.published.__main__", None)


def test_every_number_has_a_source_and_a_known_job(published):
    jobs, sources = published.jobs()
    numbers = [n for j in jobs for n in j["numbers"]]
    assert {n["source"] for n in numbers} == set(sources)
    assert all(s["url"].startswith("https://") and s["conditions"] for s in sources.values())
    assert {j["program"] for j in jobs} == set(published.PROGRAMS)
    assert {n["unit"] for n in numbers} == {"us", "TFLOP/s"}
    assert sum(not n.get("seen", False) for n in numbers) > sum(n.get("seen", False) for n in numbers), "most are held out"


def test_ratios_are_of_speed(published, capsys):
    jobs, sources = published.jobs(["relu_squared", "causal"])
    found = published.rows(jobs, sources, lambda job: (50.0, 100.0, "matrix"))
    causal, small, large = found
    flops = 4 * 16 * 16384 * 16384 * 128 / 2
    assert causal["static"] == pytest.approx(1e-6 * flops / 378 / 100) and causal["model"] == pytest.approx(2 * causal["static"])
    assert causal["shown"][0] == pytest.approx(378)
    assert small["static"] == pytest.approx(0.279) and large["shown"] == [94.4, 50.0, 100.0]
    text = published.table(found, sources)
    assert "| 27.9 us | 50.0 (0.56) | 100 (0.28) | matrix |" in text and "[liger]: https://" in text
    assert "1 numbers seen" in text and "2 numbers held out" in text
