"""What Triton's interpreter computes again for every operation, remembered: the shapes of types, and numpy's names of them.

Half of the time of an interpreted kernel went there.  Nothing else changes: what is remembered is what Triton's own constructors made
the first time, and where a version's objects have other attributes than these, its constructors are called as ever.

Triton also computes each sum, difference and product of integers a second time, in 64 bits, for an assertion that it makes in debug mode
alone; in the interpreter there is no such mode.  The sanitizer looks for offsets that wrap by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as ti

_TENSOR, _BLOCK = {"handle", "shape", "numel", "type", "dtype"}, {"element_ty", "shape", "numel", "name"}

_SEQUENCES = (list, tl.tuple)
_POINTER = np.dtype(np.uint64)

_tensors: dict[tuple[int, ...], tuple[Any, Any]] = {}  # shape -> what a tensor has as its shape and its number of elements
_blocks: dict[tuple[int, ...], tuple[Any, int, str]] = {}  # the same of a type, and how the shape is written
_numpy: dict[str, np.dtype[Any]] = {}  # name of a scalar type -> what holds its values


def remember(patch: Callable[[Any, str, Any], Any]) -> None:
    """Install this; ``patch(owner, name, value)`` replaces an attribute for the time of an interpretation and returns what it was."""
    options = ti.interpreter_builder.options
    if getattr(options, "sanitize_overflow", False) and not options.debug:
        patch(ti.interpreter_builder, "options", dataclasses.replace(options, sanitize_overflow=False))

    def tensor(self: Any, handle: Any, kind: Any) -> None:
        shape = tuple(kind.shape) if kind.is_block() else ()
        known = _tensors.get(shape)
        if known is not None:
            self.handle, self.type, self.dtype = handle, kind, kind.scalar
            self.shape, self.numel = known
            return
        new_tensor(self, handle, kind)
        if vars(self).keys() == _TENSOR:
            _tensors[shape] = self.shape, self.numel

    def block(self: Any, element_ty: Any, shape: Any) -> None:
        plain = tuple([n.value if isinstance(n, tl.constexpr) else n for n in shape]) if isinstance(shape, _SEQUENCES) else None
        if plain is None or not all(type(n) is int for n in plain):  # an error, or something new
            new_block(self, element_ty, shape)
            return
        known = _blocks.get(plain)
        if known is not None:
            self.element_ty = element_ty
            self.shape, self.numel, text = known
            self.name = f"<{text}, {element_ty}>"
            return
        new_block(self, element_ty, shape)
        if vars(self).keys() == _BLOCK and self.name == f"<{self.shape}, {element_ty}>":
            _blocks[plain] = self.shape, self.numel, str(self.shape)

    def of_numpy(dtype: Any) -> np.dtype[Any]:
        scalar = dtype.element_ty if isinstance(dtype, tl.block_type) else dtype
        if isinstance(scalar, tl.pointer_type):
            return _POINTER
        known = _numpy.get(scalar.name)
        if known is None:
            known = _numpy[scalar.name] = name_of(scalar)
        return known

    new_tensor = patch(tl.tensor, "__init__", tensor)
    new_block = patch(tl.block_type, "__init__", block)
    name_of = patch(ti, "_get_np_dtype", of_numpy)
