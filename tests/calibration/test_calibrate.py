"""A machine is measured, its file read back, and plans for a CPU are made with it; a file that others may have written is not read."""

import itertools
import re
from dataclasses import replace

import pytest
import torch

import eqfuse
from eqfuse.calibration import file, measure, probes
from eqfuse.cli import main
from eqfuse.errors import OptionError, UnknownTargetError
from eqfuse.extract.targets import bundled, load_target
from eqfuse.extract.targets.machine import calibrated_path


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("EQFUSE_TARGETS", str(tmp_path / "targets"))
    return tmp_path


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(probes, "ROUNDS", 2)
    monkeypatch.setattr(probes, "RUN", 2e-4)
    monkeypatch.setattr(measure, "MEMORY", 1 << 21)


def mine():
    return replace(bundled("cpu"), sm_count=3, measured="2026-01-01 on a machine")


def test_the_command_measures_and_plans_use_it(home, hasty, capsys):
    assert main(["calibrate"]) == 0
    assert str(calibrated_path()) in capsys.readouterr().out
    t = load_target("cpu")
    assert t is load_target("cpu")  # read once
    assert t != bundled("cpu")
    # what holds of any processor: levels further away are no faster (1.5: noise), few rows waste the micro-kernel, exp is many instructions
    reads = [v.read_gb_s for v in t.core.levels]
    assert all(0.1 < far < 1.5 * near for near, far in itertools.pairwise(reads))
    full = 2 * t.core.rows * t.core.columns / t.core.product_gflops
    assert t.core.step_ns < full < t.core.rows * t.core.step_ns * 1.5
    assert t.core.special_ns["exp"] > 4 / t.core.vector_gops
    assert 0 < t.launch_us < 1e4
    plan = str(eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.empty(64, 256),), target="cpu").plan)
    assert f"on cpu (measured {t.measured})" in plan.splitlines()[0]


def test_a_file_is_read_back_and_replaced_only_if_it_is_one(home):
    path = home / "mine.toml"
    assert file.write(mine(), 0.1, path) == mine()
    assert file.write(mine(), 0.1, path) == load_target(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("mine = 1")
    with pytest.raises(OptionError, match="it exists"):
        file.write(mine(), 0.1, path)


def test_only_what_the_user_alone_may_write_is_read(home):
    path = calibrated_path()
    file.write(mine(), 0.1, path)
    assert load_target("cpu") == mine()
    path.chmod(0o622)
    assert load_target("cpu") == bundled("cpu")
    path.rename(home / "other.toml")
    path.symlink_to(home / "other.toml")
    assert load_target("cpu") == bundled("cpu")


@pytest.mark.parametrize(("key", "after", "says"), [
    ("call_ns", "call_ns = -6", "call_ns = -6"),
    ("call_ns", "calls_ns = 6", "missing call_ns and unknown calls_ns"),
    ("overlap", "overlap = nan", "overlap = nan"),
    ("exp", "expo = 1", "no exp"),
])  # fmt: skip
def test_a_wrong_table_is_refused(tmp_path, key, after, says):
    text, n = re.subn(rf"^{key} = .*$", after, file.text_of(mine(), 0.1), flags=re.MULTILINE)
    assert n == 1
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(UnknownTargetError, match=says):
        load_target(tmp_path / "t.toml")


def test_without_a_compiler_the_command_says_so(home, monkeypatch, capsys):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main(["calibrate"]) == 1
    assert "no C compiler" in capsys.readouterr().err
