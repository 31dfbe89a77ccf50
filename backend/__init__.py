"""The backend of ``torch.compile``: ``torch.compile(f, backend="eqfuse")``, found by its entry point.

:mod:`.settings` reads its options, :mod:`.compiling` takes the graphs of AOTAutograd through :mod:`eqfuse.steps`, and
:mod:`.reporting` remembers what became of them.
"""

from .compiling import compile_graph
from .reporting import Report, report

__all__ = ["Report", "compile_graph", "report"]
