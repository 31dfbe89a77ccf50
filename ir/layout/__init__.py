"""Layouts on named hardware axes, after the Axe paper.  It stands alone: all it needs of EqFuse are its errors, and index expressions
to read and write them."""

from .encodings import of_encoding
from .inverses import inverse, left_inverse, right_inverse
from .iters import Iter
from .layout import Layout
from .placements import Partial, Replicate, Shard, Sharding
from .swizzle import Swizzle, Swizzled

__all__ = [
    "Iter", "Layout", "Partial", "Replicate", "Shard", "Sharding", "Swizzle", "Swizzled",
    "inverse", "left_inverse", "of_encoding", "right_inverse",
]  # fmt: skip
