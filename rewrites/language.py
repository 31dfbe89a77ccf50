"""The words that the package's rules are written with: rule files import all of them.

A word that is missing, or misspelt, is found on import: every rule function is run then.
"""

from __future__ import annotations

from . import comparisons, decorators, facts, iters, patterns, relations
from . import rule as parameters

WORDS = {
    name: word
    for module in (facts, comparisons, relations, patterns, iters, parameters, decorators)
    for name, word in vars(module).items()
    if not name.startswith("_") and (getattr(word, "__module__", None) or "").startswith(f"{__package__}.")
}
globals().update(WORDS)
__all__ = list(WORDS)
