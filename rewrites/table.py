"""The table of rules.  Tests, saturation and ``eqfuse.rules()`` enumerate it; :mod:`.registry` is how rules enter it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection

from ..errors import RuleError, expect
from ..errors import shown as described
from .rule import DISABLED, LICENCES, Rule

RULES: dict[str, Rule] = {}  # by name, in order of registration
ANALYSES = "analyses"  # the family that every saturation has


def known(rule: object) -> Rule:
    """A rule, tested or not; raises :class:`~eqfuse.errors.RuleError` for anything else."""
    if isinstance(rule, Rule):
        return rule
    cure = "decorate it with @eqfuse.rule(register=False)" if callable(rule) else "a rule is a function decorated with @eqfuse.rule"
    if isinstance(rule, str):
        cure = f"eqfuse.rules({rule!r})[0]" if rule in RULES else f"{cure}; eqfuse.rules() lists those that are registered"
    raise RuleError(f"{rule.__name__ if inspect.isfunction(rule) else described(rule)} is no rule", cure=cure)


def unregister(name: str) -> None:
    """Remove a rule."""
    _named(name, family=False)
    del RULES[name]
    DISABLED.discard(name)


def analyses() -> tuple[Rule, ...]:
    """The rules that every saturation has: other rules, and whoever reads the graph, rely on them."""
    return tuple(r for r in RULES.values() if r.family == ANALYSES)


def disable(name: str) -> None:
    """Leave a rule, or all rules of a family, out of saturations from now on."""
    found = _named(name)
    if any(RULES[n].family == ANALYSES for n in found):
        raise RuleError(f"{name} cannot be left out: every saturation needs the analyses", cure="eqfuse.rules() lists the other families")
    DISABLED.update(found)


def enable(name: str) -> None:
    """Undo :func:`disable` for a rule or a family."""
    DISABLED.difference_update(_named(name))


def enabled(rule: Rule) -> bool:
    """Whether saturations may use a rule."""
    return rule.enabled


def families() -> tuple[str, ...]:
    """The families of the registered rules, in order of registration."""
    return tuple(dict.fromkeys(r.family for r in rules()))


def _named(name: str, *, family: bool = True) -> list[str]:
    """The names of the rules that a name stands for."""
    expect(isinstance(name, str), "the name of a rule or family", name, "a text; eqfuse.rules() lists them", RuleError)
    names = [r.name for r in RULES.values() if r.name == name or (family and r.family == name)]
    if not names:
        known = [*RULES, *(families() if family else ())]
        close = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise RuleError(f"there is no rule {'or family ' if family else ''}{name!r}", cure=f"{hint}eqfuse.rules() lists them")
    return names


def rules(family: str | None = None) -> tuple[Rule, ...]:
    """All registered rules, in order of registration, or those of a family, or the one of this name.

    Disabled ones are included, and say so: ``rule('name', disabled)``.  Raises :class:`~eqfuse.errors.RuleError` for a name that
    neither a rule nor a family has.
    """
    return tuple(RULES.values() if family is None else map(RULES.__getitem__, _named(family)))


def active(licence: str = "real", without: Collection[str] = ()) -> tuple[Rule, ...]:
    """The rules of a saturation: enabled, allowed by the licence, and not in ``without``."""
    if not isinstance(licence, str) or licence not in LICENCES:
        raise RuleError(f"unknown licence {licence!r}", cure=f"one of {', '.join(LICENCES)}")
    allowed = LICENCES[: LICENCES.index(licence) + 1]  # each promises less than the one before
    return tuple(r for r in rules() if r.licence in allowed and r.name not in DISABLED and r.name not in without)
