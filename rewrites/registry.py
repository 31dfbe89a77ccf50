"""The table of rules.  Tests, saturation and ``eqfuse.rules()`` enumerate it."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module

from ..errors import RuleError
from .rule import Rule

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


def register(rule: Rule) -> Rule:
    """Add a rule; names are unique."""
    found = _rules.get(rule.name)
    if found is not None:
        raise RuleError(
            f"rule {rule.name}: the name is already taken by {found.where}", where=rule.where, cure="give it another name"
        )
    _rules[rule.name] = rule
    return rule


def unregister(name: str) -> None:
    """Remove a rule."""
    _known(name)
    del _rules[name]
    _disabled.discard(name)


def disable(name: str) -> None:
    """Leave a rule out of saturations from now on."""
    _known(name)
    _disabled.add(name)


def enable(name: str) -> None:
    """Undo :func:`disable`."""
    _known(name)
    _disabled.discard(name)


def _known(name: str) -> None:
    if name not in _rules:
        raise RuleError(f"there is no rule {name!r}", cure="eqfuse.rules() lists them")


def rules(family: str | None = None) -> tuple[Rule, ...]:
    """All registered rules, in order of registration, disabled ones included."""
    load()
    return tuple(r for r in _rules.values() if family is None or r.family == family)


def active(licence: str = "real", without: Collection[str] = ()) -> tuple[Rule, ...]:
    """The rules of a saturation: enabled, allowed by the licence, and not in ``without``."""
    allowed = {"exact": ("exact",), "real": ("exact", "real"), "approx": ("exact", "real", "approx")}[licence]
    return tuple(r for r in rules() if r.licence in allowed and r.name not in _disabled and r.name not in without)
