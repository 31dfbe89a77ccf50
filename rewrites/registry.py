"""How rules enter the table of rules (:mod:`.table`, whose functions are here, too).

Nothing enters unchecked.  A rule from outside the package is run on random arrays when it is registered, or when it is first given
to ``optimize(..., rules=[...])``, and at length before the first plan is given out in whose saturation it matched; the package's own
rules, which would make every import slow, are run by its tests, which enumerate
this table.  ``python -m eqfuse rules check FILE`` puts the check off until the file is read (:func:`deferred`), to report on all its rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ..errors import RuleError
from .rule import Rule
from .table import RULES, active, analyses, disable, enable, enabled, families, known, rules, unregister
from .verdicts import places

__all__ = [
    "active", "admit", "analyses", "deferred", "disable", "enable", "enabled", "extras", "families", "known", "register", "rules",
    "unregister", "vouch",
]  # fmt: skip

QUICK = 100  # examples before a rule from outside the package may be used: a third of a second
_admitted: dict[int, Rule] = {}  # by identity; kept alive, so that an identity stays one
_vouched: dict[int, tuple[Rule, str | RuleError]] = {}  # by identity, too: what the full check said
LONGEST = 10.0  # seconds of one check of one rule, the quick one and the full one before a plan uses it
_deferring = False


@contextmanager
def deferred() -> Iterator[None]:
    """Register without testing: for a caller that tests right afterwards."""
    global _deferring
    before, _deferring = _deferring, True
    try:
        yield
    finally:
        _deferring = before


def admit(rule: Rule) -> Rule:
    """A rule that may be used: the package's own, or one that has passed a quick check now or before.

    Raises :class:`~eqfuse.errors.RuleError` for what is no rule or cannot be tested, and its subclass
    :class:`~eqfuse.errors.UnsoundRuleError` for a false one.
    """
    known(rule)
    if not rule.builtin and not _deferring and id(rule) not in _admitted:
        from .check import check_rule  # which loads Hypothesis

        check_rule(rule, QUICK, seconds=LONGEST)
        _admitted[id(rule)] = rule
    return rule


def vouch(rules: Collection[Rule]) -> tuple[str, ...]:
    """Check in full, once in a process, what a plan is about to use: registration has time for a quick look only.

    Returns what there is to say of checks that ended early, after ``LONGEST`` seconds.  Raises
    :class:`~eqfuse.errors.UnsoundRuleError` for a false rule, each time that it is about to be used.
    """
    theirs = [r for r in rules if not r.builtin]
    if not theirs:
        return ()
    from .check import EXAMPLES, check_rule  # which loads Hypothesis

    notes = []
    for rule in theirs:
        if id(rule) not in _vouched:
            note: str | RuleError = ""
            try:
                report = check_rule(rule, seconds=LONGEST)
                if report.stopped:
                    note = f"rule {rule.name} ({rule.where}): its check stopped after {report.seconds:.0f} s, short of {EXAMPLES} examples"
            except RuleError as error:
                cure = f"{error.cure}; until then leave it out: disable=[{rule.name!r}]"
                note = type(error)(error.message, where=error.where, cure=cure)
            _vouched[id(rule)] = rule, note
        found = _vouched[id(rule)][1]
        if isinstance(found, RuleError):
            raise found
        notes += [found] if found else []
    return tuple(notes)


def extras(given: Collection[Rule]) -> tuple[Rule, ...]:
    """Rules that are given to one call: each passes :func:`admit`, and none has the name of another rule."""
    named: dict[str, Rule] = {}
    for rule in given:
        admit(rule)
        found = named.setdefault(rule.name, RULES.get(rule.name, rule))
        if found is not rule:
            raise RuleError(f"rule {rule.name}: the name is already taken by {found.where}", where=rule.where, cure="give it another name")
    places.update((r.name, r.where) for r in named.values() if r.phase == "fusion")  # names are unique in a call, not in a process
    return tuple(named.values())


def register(rule: Rule) -> Rule:
    """Add a rule; names are unique, and the rule must pass a quick check."""
    found = RULES.get(known(rule).name)
    if found is not None:
        raise RuleError(f"rule {rule.name}: the name is already taken by {found.where}", where=rule.where, cure="give it another name")
    if clash := next((r for r in RULES.values() if rule.name == r.family or rule.family == r.name), None):
        raise RuleError(
            f"rule {rule.name} of family {rule.family}: one of these names is that of {clash.name} of family {clash.family}",
            where=rule.where,
            cure="rules and families are disabled by name, so they need different ones",
        )
    RULES[rule.name] = admit(rule)
    return rule
