"""The pins, the ranges and the commands agree with each other."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
PINS = {name.lower().replace("_", "-"): version for name, version in PINS.items()}
REQUIREMENTS = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]


def test_every_line_is_a_pin():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(PINS)
    assert not [line for line in lines if "+" in line]  # a local build exists on one index only


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_pins_lie_in_the_ranges(text):
    requirement = Requirement(text)
    assert requirement.specifier.contains(PINS[requirement.name.lower()])


def test_the_project_states_ranges_not_pins():
    assert not [r for r in REQUIREMENTS if "==" in str(Requirement(r).specifier)]


def test_triton_versions():
    makefile = (ROOT / "Makefile").read_text()
    versions = re.search(r"^TRITON_VERSIONS \?= (.*)$", makefile, flags=re.MULTILINE)[1].split()
    assert versions == ["3.6.0", "3.7.1", "3.9.0"]
    triton = next(Requirement(r) for r in PROJECT["dependencies"] if r.startswith("triton"))
    assert all(triton.specifier.contains(v) for v in versions)
    assert PINS["triton"] in versions
    assert f"torch=={PINS['torch']}" in makefile


def test_every_make_target_is_explained():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)[1].split()
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make ([\w-]+)", shown, flags=re.MULTILINE)) == set(phony)


def test_ci_runs_the_make_targets():
    text = (ROOT / ".ci" / "run").read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
    assert re.findall(r"^make ([\w-]+)", text, flags=re.MULTILINE) == ["setup", "lint", "types", "test", "test-rest"]
