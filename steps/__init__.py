"""Programs that kernels compute in part: pieces of ours, and what torch runs between them.

:mod:`.pieces` cuts a graph, :mod:`.planning` plans what can be read of it, :mod:`.plan` says what came out, :mod:`.running` runs it, and
:mod:`.stepped` is what :class:`eqfuse.Compiled` asks.
"""

from .stepped import Stepped

__all__ = ["Stepped"]
