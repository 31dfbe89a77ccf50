"""Rewrite rules: equations that check themselves.

Everything that a rule of your own is written with can be imported from here::

    from eqfuse.rewrites import Axis, NonEmpty, Sum, free, rule

:mod:`.rule` is how one is written, :mod:`.patterns` what its sides are made of, :mod:`.facts` its conditions, :mod:`.check` its test,
:mod:`.table` the table of all, :mod:`.registry` how one enters it.  Each module that :mod:`.library` names is one family, opened by its
mathematics; importing this package loads them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import comparisons, facts, patterns, relations, verdicts
from . import library as library
from .comparisons import *
from .decorators import fact_rule, rule
from .facts import *
from .patterns import *
from .registry import active, disable, enable, families, register, rules, unregister
from .relations import *
from .rule import *
from .rule import __all__ as of_parameters
from .verdicts import *

if TYPE_CHECKING:
    from .check import CheckSummary, check_all, check_rule

__all__ = [
    "CheckSummary", "active", "check_all", "check_rule", "disable", "enable", "fact_rule", "families", "register", "rule",
    "rules", "unregister",
]  # fmt: skip
__all__ += comparisons.__all__ + facts.__all__ + relations.__all__ + patterns.__all__ + of_parameters + verdicts.__all__


def __getattr__(name: str) -> Any:
    if name not in ("CheckSummary", "check_all", "check_rule"):  # they draw with Hypothesis, which nothing else here needs
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".check", __name__), name)
