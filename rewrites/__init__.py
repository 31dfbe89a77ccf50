"""Rewrite rules: equations that check themselves.

:mod:`.rule` is how one is written, :mod:`.facts` its conditions, :mod:`.check` its test, :mod:`.registry` the table of all.  Every
other module here is one family, opened by its mathematics.
"""

from .check import check_rule
from .registry import active, disable, enable, register, rules, unregister
from .rule import Rule, fact_rule, rule

__all__ = ["Rule", "active", "check_rule", "disable", "enable", "fact_rule", "register", "rule", "rules", "unregister"]
