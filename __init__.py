"""EqFuse: equality saturation for tensor programs.  Naive PyTorch in, verified fused Triton kernels out.

>>> import eqfuse
>>> c = eqfuse.optimize(fn, args)     # a drop-in callable
>>> print(c.plan); print(c.source)

Everything is imported on first use: ``import eqfuse`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .runtime.loading import collector_resting

__version__ = "0.1.0"

_HOME = {
    "disable": ".rewrites",
    "enable": ".rewrites",
    "fusion": ".rewrites.decorators",
    "op": ".declare",
    "optimize": ".compiled",
    "report": ".backend",
    "Compiled": ".compiled",
    "Layout": ".ir.layout",
    "Plan": ".extract.plan",
    "price": ".prices",
    "Program": ".ir.program",
    "rule": ".rewrites",
    "rules": ".rewrites",
    "targets": ".extract.targets",
    "Target": ".extract.targets",
}
_MODULES = ("distributed", "errors", "extraction", "testing")

__all__ = [
    "Compiled", "Layout", "Plan", "Program", "Target", "disable", "distributed", "enable", "errors", "extraction", "fusion", "op",
    "optimize", "price", "report", "rule", "rules", "targets", "testing",
]  # fmt: skip

if TYPE_CHECKING:
    from . import distributed, errors, extraction, testing
    from .backend import report
    from .compiled import Compiled, optimize
    from .declare import op
    from .extract.plan import Plan
    from .extract.targets import Target, targets
    from .ir.layout import Layout
    from .ir.program import Program
    from .prices import price
    from .rewrites import disable, enable, rule, rules
    from .rewrites.decorators import fusion


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(f".{name}", __name__)
    elif name in _HOME:
        with collector_resting():
            home = importlib.import_module(_HOME[name], __name__)
        value = getattr(home, name)
        if name in ("fusion", "optimize"):
            verdicts: Any = importlib.import_module(".rewrites.verdicts", __name__)
            verdicts.running = _running
    else:
        raise AttributeError(f"module 'eqfuse' has no attribute {name!r}")
    globals()[name] = value
    return value


def _running() -> Any:
    """What implementations that fusion rules offer are called in on the CPU: hand-written Triton kernels are interpreted."""
    from .testing.kernels import interpreted_kernels

    return interpreted_kernels()


def __dir__() -> list[str]:
    return sorted(__all__)
