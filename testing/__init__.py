"""Checking equality: of rules, of functions, of kernels.  A product of its own: nothing here needs ``optimize``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..rewrites import check_rule
    from .equivalence import assert_equivalent

__all__ = ["assert_equivalent", "check_rule"]


def __getattr__(name: str) -> Any:
    home = {"assert_equivalent": "eqfuse.testing.equivalence", "check_rule": "eqfuse.rewrites"}.get(name)
    if home is None:
        raise AttributeError(f"module 'eqfuse.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
