"""The table of rules.  Tests, saturation and ``eqfuse.rules()`` enumerate it.

Nothing enters unchecked.  A rule from outside the package is run on random arrays when it is registered, or when it is first given
to ``optimize(..., rules=[...])``, and at length before the first plan is given out in whose saturation it matched; the package's own
rules, which would make every import slow, are run by its tests, which enumerate
this table.  ``python -m eqfuse rules check FILE`` puts the check off until the file is read (:func:`deferred`), to report on all its rules.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib import import_module

from ..errors import RuleError, expect
from ..errors import shown as described
from .rule import LICENCES, Rule
from .verdicts import places

FAMILIES = ("signs", "algebra", "reductions", "layout", "tiling", "repair", "reference", "strength", "fusion")

_rules: dict[str, Rule] = {}
_disabled: set[str] = set()
_loaded = False


def load() -> None:
    """Import the built-in families."""
    global _loaded
    if not _loaded:
        for family in FAMILIES:
            import_module(f".{family}", __package__)
        _loaded = True  # only now: a family that fails to import must not leave a registry that looks complete


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


def known(rule: object) -> Rule:
    """A rule, tested or not; raises :class:`~eqfuse.errors.RuleError` for anything else."""
    if isinstance(rule, Rule):
        return rule
    cure = "decorate it with @eqfuse.rule(register=False)" if callable(rule) else "a rule is a function decorated with @eqfuse.rule"
    if isinstance(rule, str):
        load()
        cure = f"eqfuse.rules({rule!r})[0]" if rule in _rules else f"{cure}; eqfuse.rules() lists those that are registered"
    raise RuleError(f"{rule.__name__ if inspect.isfunction(rule) else described(rule)} is no rule", cure=cure)


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
    load()
    named: dict[str, Rule] = {}
    for rule in given:
        admit(rule)
        found = named.setdefault(rule.name, _rules.get(rule.name, rule))
        if found is not rule:
            raise RuleError(
                f"rule {rule.name}: the name is already taken by {found.where}", where=rule.where, cure="give it another name"
            )
    places.update((r.name, r.where) for r in named.values() if r.phase == "fusion")  # names are unique in a call, not in a process
    return tuple(named.values())


def register(rule: Rule) -> Rule:
    """Add a rule; names are unique, and the rule must pass a quick check."""
    found = _rules.get(known(rule).name)
    if found is not None:
        raise RuleError(
            f"rule {rule.name}: the name is already taken by {found.where}", where=rule.where, cure="give it another name"
        )
    if clash := next((r for r in _rules.values() if rule.name == r.family or rule.family == r.name), None):
        raise RuleError(
            f"rule {rule.name} of family {rule.family}: one of these names is that of {clash.name} of family {clash.family}",
            where=rule.where,
            cure="rules and families are disabled by name, so they need different ones",
        )
    _rules[rule.name] = admit(rule)
    return rule


def unregister(name: str) -> None:
    """Remove a rule."""
    _named(name, family=False)
    del _rules[name]
    _disabled.discard(name)


def disable(name: str) -> None:
    """Leave a rule, or all rules of a family, out of saturations from now on."""
    _disabled.update(_named(name))


def enable(name: str) -> None:
    """Undo :func:`disable` for a rule or a family."""
    _disabled.difference_update(_named(name))


def enabled(rule: Rule) -> bool:
    """Whether saturations may use a rule."""
    return rule.name not in _disabled


def families() -> tuple[str, ...]:
    """The families of the registered rules, in order of registration."""
    return tuple(dict.fromkeys(r.family for r in rules()))


def _named(name: str, *, family: bool = True) -> list[str]:
    """The names of the rules that a name stands for."""
    load()
    expect(isinstance(name, str), "the name of a rule or family", name, "a text; eqfuse.rules() lists them", RuleError)
    names = [r.name for r in _rules.values() if r.name == name or (family and r.family == name)]
    if not names:
        known = [*_rules, *(families() if family else ())]
        close = difflib.get_close_matches(name, known, n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise RuleError(f"there is no rule {'or family ' if family else ''}{name!r}", cure=f"{hint}eqfuse.rules() lists them")
    return names


def rules(family: str | None = None) -> tuple[Rule, ...]:
    """All registered rules, in order of registration, or those of a family, or the one of this name.

    Disabled ones are included, and say so: ``rule('name', disabled)``.  Raises :class:`~eqfuse.errors.RuleError` for a name that
    neither a rule nor a family has.
    """
    load()
    return tuple(_rules.values() if family is None else map(_rules.__getitem__, _named(family)))


def active(licence: str = "real", without: Collection[str] = ()) -> tuple[Rule, ...]:
    """The rules of a saturation: enabled, allowed by the licence, and not in ``without``."""
    if not isinstance(licence, str) or licence not in LICENCES:
        raise RuleError(f"unknown licence {licence!r}", cure=f"one of {', '.join(LICENCES)}")
    allowed = LICENCES[: LICENCES.index(licence) + 1]  # each promises less than the one before
    return tuple(r for r in rules() if r.licence in allowed and r.name not in _disabled and r.name not in without)
