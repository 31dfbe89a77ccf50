"""The mutants are shared by the tests of rules and of e-graphs; unsound rules and what is said of them, by those of the audit."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "rewrites"))


@pytest.fixture
def registered(monkeypatch):
    """Puts an unsound rule into the registry, past its check, for one test: minimal programs run with registered rules."""
    from eqfuse.rewrites import registry
    from eqfuse.rewrites.rule import make_rule

    def add(function):
        rule = make_rule(function, "user", "real", "factor", True)
        registry.rules()
        monkeypatch.setitem(registry.RULES, rule.name, rule)
        return rule

    return add


@pytest.fixture
def shown():
    """Runs the code of an error's minimal program, which must fail again and name the same rules; gives the program and its rules."""
    from eqfuse.errors import UnsoundGraphError

    def run(error, match):
        code = error.minimal.split("minimal program:\n", 1)[1]
        text = "\n".join(line.removeprefix("    ") for line in code.splitlines())
        space: dict = {}
        with pytest.raises(UnsoundGraphError, match=match) as again:
            exec(text.replace("masked=False)", "masked=False, shrink_seconds=0)"), space)  # the code is our own, printed by the audit
        assert again.value.rules == error.rules
        return space["p"], space["names"]

    return run
