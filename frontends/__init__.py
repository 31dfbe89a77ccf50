"""From what the user has to a program: PyTorch functions and modules are traced, their dimensions named, their ops given meaning.

``trace`` is the one entry point.  :mod:`.recorded` writes down the core ATen ops that a function runs, :mod:`.capture` asks
``torch.export`` for what cannot be recorded, :mod:`.alignment` finds which dimensions of which values are the same axis, :mod:`.reader`
turns the graph into terms by asking each op what it reads at a given index, and the ``aten_*`` modules hold the ops.
"""

from .spec import TensorSpec
from .traced import Read, Traced, example_arguments, read, same_tensors, trace, without_data

__all__ = ["Read", "TensorSpec", "Traced", "example_arguments", "read", "same_tensors", "trace", "without_data"]
