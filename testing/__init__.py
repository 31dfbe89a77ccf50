"""Checking equality: of rules, of functions, of kernels.  A product of its own: nothing here needs ``optimize``.

    assert_equivalent(torch_function, triton_launcher, [tensors(torch.float16, ("B", "N"), values=MASKED)])

See docs/testing.md.  Everything is imported on first use, and only ``check_rule`` needs the e-graph engine.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..rewrites import check_rule
    from .equivalence import Agreement, assert_equivalent
    from .kernels import interpreted_kernels
    from .ops.check import check_op
    from .ops.spelling import check_spelling
    from .strategies import (
        DOCUMENTS,
        FINITE,
        LAYOUTS,
        LENGTHS,
        MASKED,
        MASKS,
        OFFSETS,
        WILD_LENGTHS,
        WILD_WINDOWS,
        WINDOWS,
        arguments,
        documents,
        indices,
        lay_out,
        lengths,
        masks,
        offsets,
        recipe_of,
        sample,
        size,
        tensors,
        windows,
    )  # fmt: skip

__all__ = [
    "DOCUMENTS", "FINITE", "LAYOUTS", "LENGTHS", "MASKED", "MASKS", "OFFSETS", "WILD_LENGTHS", "WILD_WINDOWS", "WINDOWS", "Agreement",
    "arguments", "assert_equivalent", "check_op", "check_rule", "check_spelling", "documents", "indices", "interpreted_kernels", "lay_out",
    "lengths", "masks", "offsets", "recipe_of", "sample", "size", "tensors", "windows",
]  # fmt: skip

_HOME = dict.fromkeys(__all__, "eqfuse.testing.strategies") | {
    "Agreement": "eqfuse.testing.equivalence",
    "assert_equivalent": "eqfuse.testing.equivalence",
    "check_op": "eqfuse.testing.ops.check",
    "check_rule": "eqfuse.rewrites",
    "check_spelling": "eqfuse.testing.ops.spelling",
    "interpreted_kernels": "eqfuse.testing.kernels",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'eqfuse.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
