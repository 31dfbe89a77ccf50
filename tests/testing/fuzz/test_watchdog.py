"""The fuzzer's limit of time: what does not end is a finding that says where it was, and the run goes on."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading

import pytest

from eqfuse.testing.fuzz import watchdog, whole_path
from eqfuse.testing.fuzz.watchdog import TooLong, limited
from eqfuse.testing.fuzz.whole_path import Tally, fuzz, one

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no interval timers")


def endless(path):
    """A stage that computes for ever, and handles what exceptions there are."""
    while True:
        with contextlib.suppress(Exception):
            sum(range(100))


def waiting(path):
    """A stage that waits for what never comes."""
    threading.Event().wait()


def test_a_stage_that_does_not_end_is_a_finding_and_the_run_goes_on(monkeypatch):
    tiles = whole_path._Path.tiles
    monkeypatch.setattr(whole_path._Path, "tiles", lambda path: endless(path) if path.seed == 41 else tiles(path))
    handlers = signal.getsignal(signal.SIGPROF), signal.getsignal(signal.SIGALRM)
    tally = fuzz(range(40, 44), limit=3.0)
    (finding,) = tally.findings
    assert (finding.seed, finding.stage) == (41, "tiles")
    assert finding.message.startswith("took longer than 3 s of processor time, at\n")
    assert "in endless" in finding.message
    assert "Program(" in finding.minimal
    assert str(finding).startswith("seed 41, tiles: took longer")
    assert tally.programs == 4
    assert tally.stages["tiles"] + tally.skipped.total() >= 3, "the others have passed"
    assert (signal.getsignal(signal.SIGPROF), signal.getsignal(signal.SIGALRM)) == handlers


def test_waiting_takes_no_processor_time_and_ends_too(monkeypatch):
    monkeypatch.setattr(whole_path._Path, "plan", waiting)
    monkeypatch.setattr(watchdog, "CLOCK", 0.5)
    tally = Tally()
    one(40, tally, limit=6.0)
    (finding,) = tally.findings
    assert finding.stage == "plan"
    assert finding.message.startswith("took longer than 3 s by the clock, for a limit of 6 s of processor time")
    assert "in waiting" in finding.message


def test_a_program_that_cannot_be_drawn_is_a_finding():
    tally = Tally()
    one(3, tally, limit=0.3, draw=endless)
    (finding,) = tally.findings
    assert (finding.stage, finding.program) == ("draw", None)
    assert "in endless" in str(finding)


def test_shrinking_that_does_not_end_keeps_the_finding(monkeypatch):
    def wrong(path):
        raise AssertionError("wrong")

    monkeypatch.setattr(whole_path._Path, "hazards", wrong)
    monkeypatch.setattr(whole_path, "minimal", lambda *args: endless(args))
    tally = Tally()
    one(40, tally, limit=3.0, shrink_seconds=0.1)
    (finding,) = tally.findings
    assert finding.message == "raised AssertionError: wrong"
    assert "Program(" in finding.minimal


def test_other_peoples_timers_go_on():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 300)
        with pytest.raises(TooLong), limited(0.05):
            endless(None)
        assert not rang
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] < 300, "it has gone on meanwhile"
        signal.raise_signal(signal.SIGALRM)
        assert rang
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_no_limit_and_other_threads_have_none():
    with limited(0):
        assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    done = []

    def work():
        with limited(0.01):
            done.append(sum(range(1000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done


NATIVE = """
import sys
from eqfuse.testing.fuzz import watchdog, whole_path
from eqfuse.testing.fuzz.command import main
{work}
plan = whole_path._Path.plan
whole_path._Path.plan = lambda path: native() if path.seed == 41 else plan(path)
watchdog.GRACE, watchdog.CLOCK = 1.0, 4.0
sys.exit(main(["40", "45", "--limit", "3", "--json", sys.argv[1]]))
"""
RELEASES = """
import sqlite3
def native():
    sqlite3.connect(":memory:").execute("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c").fetchall()
"""
HOLDS = """
import collections, itertools
def native():
    collections.deque(itertools.repeat(0), maxlen=0)
"""


def run_native(work: str, file) -> subprocess.CompletedProcess:
    code = NATIVE.format(work=work)
    return subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, timeout=120, check=False)


def test_native_code_that_does_not_return_ends_the_run_with_all_that_is_known(tmp_path):
    done = run_native(RELEASES, tmp_path / "log.jsonl")
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert re.search(r"seed 41, plan: took longer than \d+ s .*, in native code that does not return", said)
    assert "in native" in said
    assert "go on with seed 42" in said
    assert "2 programs, 1 findings" in done.stdout
    _, *programs = map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines())
    assert [(line["seed"], [f["seed"] for f in line.get("findings", ())]) for line in programs] == [(40, []), (41, [41])]


def test_native_code_that_lets_no_thread_run_ends_with_the_stacks(tmp_path):
    done = run_native(HOLDS, tmp_path / "log.json")
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert "in native" in done.stderr
