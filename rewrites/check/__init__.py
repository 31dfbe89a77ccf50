"""Rules test themselves, so that nobody has to trust them.

:mod:`.variables` takes a rule apart, :mod:`.draw` draws numbers for it, :mod:`.solve` computes what premises define, :mod:`.observe` says
what the conclusions claim of them, :mod:`.compare` decides equality (bitwise, real, rational), :mod:`.loops` runs loops and merges
segments, :mod:`.integers` proves, :mod:`.show` prints counterexamples, and :mod:`.run` does it all.
"""

from .run import CI_EXAMPLES, EXAMPLES, ORACLES, CheckSummary, RuleReport, check_all, check_rule

__all__ = ["CI_EXAMPLES", "EXAMPLES", "ORACLES", "CheckSummary", "RuleReport", "check_all", "check_rule"]
