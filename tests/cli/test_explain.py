"""``eqfuse explain``: the derivation, two values, costs; as text and as JSON."""

import json

import pytest

from eqfuse import cli

PROGRAM = """
import torch

def weighted(q, k, v):
    scores = q @ k.transpose(-1, -2)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v

def rows(x):
    return torch.exp(x - x.amax(-1, keepdim=True)).sum(-1)

def example_rows():
    return (torch.empty(512, 100_000, device="meta"),)

def example_args():
    return tuple(torch.empty(4, 1024, 64, device="meta", dtype=torch.float16) for _ in range(3))
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "explained.py"
    path.write_text(PROGRAM)
    return path


def run(capsys, *argv):
    code = cli.main([str(a) for a in argv])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_text(file, capsys):
    code, out, _ = run(capsys, "explain", f"{file}:weighted")
    assert code == 0
    assert "rewrites from the program, each replayed on random numbers" in out
    assert "runner-up: " in out
    assert "values to ask about, two at a time: q, k, v, out, scores, weights" in out
    assert "\x1b" not in out  # no colours in a pipe


def test_json(file, capsys):
    code, out, _ = run(capsys, "explain", f"{file}:weighted", "--json", "--costs")
    assert code == 0
    data = json.loads(out)
    assert data["schema"] == "eqfuse.explain/2"
    assert {s["rule"] for s in data["savings"]} >= {"factor_out", ""}
    assert sum(s["saved_bytes"] for s in data["chain"]) == data["saved_bytes"]
    assert {p["rule"] for s in data["chain"] for p in s["parts"]} >= {"factor_out"}


def test_costs(file, capsys):
    code, out, _ = run(capsys, "explain", f"{file}:rows", "--costs", "--args", "example_rows")
    assert code == 0
    assert "fusion of the program as written -> 1 kernel" in out
    assert "step 1, roll_by_factor -> 1 kernel" in out
    assert "rule by rule" in out


def test_why(file, capsys):
    code, out, _ = run(capsys, "explain", f"{file}:weighted", "--why", "weights", "out")
    assert code == 0
    assert "the rule factor_out (rewrites/reductions.py:" in out
    code, out, _ = run(capsys, "explain", f"{file}:weighted", "--why", "explained.py:5", "out", "--json")
    assert code == 0
    answer = json.loads(out)
    assert (answer["a"], answer["verdict"]) == ("explained.py:5", "shared")


def test_layouts(file, capsys):
    code, out, _ = run(capsys, "explain", f"{file}:rows", "--args", "example_rows", "--layouts", "--json")
    (kernel, *_) = json.loads(out)
    assert code == 0 and {"tensor": "x", "level": "device", "layout": "(512,100000):(100000,1)"}.items() <= kernel["held"][0].items()
    assert any(h["tensor"] == "out" and h["level"] == "registers" and h["layout"] for h in kernel["held"])


def test_unknown_values_are_an_error_with_the_names_that_there_are(file, capsys):
    code, out, err = run(capsys, "explain", f"{file}:weighted", "--why", "wheights", "out")
    assert code == 1
    assert not out
    assert err.startswith("OptionError: weighted computes no value called 'wheights'")
    assert "did you mean 'weights'" in err
    assert "Traceback" not in err
