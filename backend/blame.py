"""Whose an exception is that came up in planning: this package's, which a call survives, or the user's, which reaches the user."""

from __future__ import annotations

import sys
from traceback import walk_tb

from ..errors import OpError, RuleError

OURS = __name__.split(".")[0]
CALLED = (  # with what those call
    "black", "cloudpickle", "egglog", "filelock", "fsspec", "functorch", "highspy", "hypothesis", "jinja2", "markdown_it", "markupsafe",
    "mdurl", "mpmath", "networkx", "numpy", "opentelemetry", "packaging", "platformdirs", "psutil", "pygments", "rich", "setuptools",
    "sortedcontainers", "sympy", "torch", "torchgen", "triton", "typing_extensions", "z3",
)  # fmt: skip
_PARTS = {OURS, *CALLED, *sys.stdlib_module_names}


def of_the_user(error: BaseException) -> bool:
    """Whether code took part in it that is neither of this package nor of what it calls: a handler of signals, an operator, a rule.  What
    is wrong with rules and operators that were declared is the user's as well.

    The traceback of an exception that was caught begins where it was caught, so the user's own call is none of its frames."""
    found: BaseException | None = error
    while found is not None:
        ran = (frame.f_globals.get("__name__") for frame, _ in walk_tb(found.__traceback__))
        if isinstance(found, RuleError | OpError) or any(map(_of_others, ran)):
            return True
        found = found.__cause__
    return False


def _of_others(module: str | None) -> bool:
    """Whether a module is none of those; code that torch makes has no name."""
    return module is not None and not module.startswith(OURS) and module.split(".")[0] not in _PARTS
