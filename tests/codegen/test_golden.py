"""Kernels are golden files: what a change of the sources does to any of them is seen in a diff."""

import difflib

import pytest
from golden import FOLDER, TARGETS, golden

from eqfuse.testing.programs import PROGRAMS

LONGEST = 60  # lines of a diff that a failing test shows


def difference(path, wanted):
    """How a golden file differs from what is printed today; empty if it does not."""
    where = path.relative_to(FOLDER.parents[1])
    there = path.read_text().splitlines() if path.exists() else []
    lines = list(difflib.unified_diff(there, wanted.splitlines(), f"{where} (golden)", f"{where} (now)", lineterm="", n=2))
    if len(lines) > LONGEST:
        lines = [*lines[:LONGEST], f"... and {len(lines) - LONGEST} more lines"]
    return "\n".join(lines)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_kernels_of_the_corpus(name):
    found = [text for path, wanted in golden(name) if (text := difference(path, wanted))]
    if found:
        pytest.fail("\n".join([*found, "", "if this was intended: make golden, and review its diff"]), pytrace=False)


def test_every_golden_file_is_of_a_program():
    there = {p.relative_to(FOLDER) for p in FOLDER.rglob("*.*")}
    assert there == {(FOLDER / t / f"{name}.py").relative_to(FOLDER) for t in TARGETS for name in PROGRAMS}


def test_a_difference_is_shown_as_a_diff():
    path = FOLDER / TARGETS[0] / "matmul.py"
    text = path.read_text()
    assert not difference(path, text)
    shown = difference(path, text.replace("tl.dot(", "tl.dot_scaled("))
    assert "+        dot_" in shown.replace("sum_", "dot_")
    assert "tl.dot_scaled(" in shown
    assert "- " in shown
    assert len(difference(FOLDER / "missing.py", text).splitlines()) == LONGEST + 1
