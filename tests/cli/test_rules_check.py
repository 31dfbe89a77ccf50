"""``eqfuse rules check``: a user's file is executed and its rules are tested, all of them; what is false is reported with its place."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eqfuse.cli import main
from eqfuse.rewrites import registry

ROOT = Path(__file__).resolve().parents[2]

GOOD = '''
from eqfuse.rewrites import Axis, Sum, free, rule, NonEmpty


@rule(family="mine")
def constant_out(x, c, k: Axis):
    """sum_k x*c = c * sum_k x."""
    return Sum(k, x * c), c * Sum(k, x), free(c, k), NonEmpty(k)


@rule(register=False)
def beside(x):
    """x + x = 2x, not registered."""
    return x + x, x * 2.0
'''

BAD = (
    GOOD
    + '''

@rule(family="mine")
def without_free(x, c, k: Axis):
    """sum_k x*c = c * sum_k x, wrongly."""
    return Sum(k, x * c), c * Sum(k, x)


@rule(family="other")
def untestable(x):
    """Nothing is both."""
    from eqfuse.rewrites import at_least_one, nonpos

    return x + 0.0, x, at_least_one(x), nonpos(x)


@rule(family="other")
def wrong(x, y):
    """x - y = y - x, wrongly."""
    return x - y, y - x
'''
)


def run(capsys, *argv):
    code = main(["rules", "check", *map(str, argv)])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good_rules.py"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad_rules.py"
    path.write_text(BAD)
    return path


def test_a_good_file(capsys, good):
    before = registry.rules()
    code, out, _ = run(capsys, good)
    assert code == 0
    assert "2 of 2 rules hold" in out
    assert {"constant_out", "beside"} <= {line.split()[0] for line in out.splitlines() if line}
    assert registry.rules() == before, "a check leaves nothing behind"


def test_a_bad_file_reports_every_false_rule(capsys, bad):
    code, out, err = run(capsys, bad)
    assert code == 1
    assert "2 of 5 rules hold" in out
    lines = BAD.splitlines()
    for name in ("without_free", "wrong"):
        line = lines.index(next(x for x in lines if x.startswith(f"def {name}("))) + 1
        assert f"bad_rules.py:{line - 1}: rule {name} is false" in out or f"bad_rules.py:{line}: rule {name} is false" in out
    assert "rule untestable: no example satisfied its premises" in out
    assert "import numpy as np" in out
    assert not err


def test_family_and_name_choose(capsys, bad):
    assert run(capsys, bad, "--family", "other", "--name", "wrong")[1].rstrip().splitlines()[-1].startswith("0 of 1")
    assert run(capsys, bad, "--name", "constant_out", "--name", "beside")[0] == 0
    assert run(capsys, bad, "--family", "theirs")[0] == 2
    assert run(capsys, bad, "--name", "nothing")[0] == 2
    assert run(capsys, bad, "--family", "other", "--name", "constant_out")[0] == 2


def test_examples_are_a_number(capsys, good):
    few, many = (int(run(capsys, good, "--examples", n)[1].rsplit(" examples,", 1)[0].split()[-1]) for n in (20, 200))
    assert few < many
    assert run(capsys, good, "--examples", "0")[0] == 2


def test_json(capsys, bad):
    code, out, _ = run(capsys, bad, "--json")
    assert code == 1
    found = json.loads(out)
    assert {r["rule"]: r["holds"] for r in found["rules"]} == {
        "constant_out": True, "beside": True, "without_free": False, "untestable": False, "wrong": False,
    }  # fmt: skip
    assert found["examples_per_second"] > 0


def test_the_registry_by_family(capsys):
    code, out, _ = run(capsys, "--family", "layout", "--examples", "20")
    assert code == 0
    n = len(registry.rules("layout"))
    assert n and f"{n} of {n} rules hold" in out


def test_no_such_file(capsys, tmp_path):
    assert run(capsys, tmp_path / "nothing.py")[0] == 2
    empty = tmp_path / "empty_rules.py"
    empty.write_text("x = 1\n")
    assert run(capsys, empty)[0] == 2


def test_only_the_named_file_is_executed(good, tmp_path):
    (tmp_path / "trap.py").write_text("raise SystemExit(7)\n")
    command = [sys.executable, "-m", "eqfuse", "rules", "check", str(good), "--examples", "20"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 rules hold" in done.stdout


def test_the_example_holds(capsys):
    code, out, _ = run(capsys, ROOT / "examples" / "own_rule.py")
    assert code == 0
    assert "2 of 2 rules hold" in out
