"""Memory access: index expressions, the masks they need, and identities in padded lanes.

A load is masked by the validity of every padded axis that its index mentions, and reads zero there.  Where an index expression can
leave its buffer dimension although all its axes are valid (a split that does not divide), the expression has a bounds mask of its
own.  A reduction never relies on what a padded lane holds: it replaces it by the identity of its monoid first.
"""

from __future__ import annotations

from ..ir.index import IndexExpr
from .kernel import Kernel
from .program import Access, Binding, Dim, Inside, Looked


def padded(bindings: tuple[Binding, ...]) -> tuple[Binding, ...]:
    """Those bindings that have padded lanes."""
    return tuple(b for b in bindings if not b.even)


def access(
    kernel: Kernel,
    buffer: str,
    index: tuple[IndexExpr, ...],
    bindings: tuple[Binding, ...],
    dims: tuple[Dim, ...],
    looked: tuple[Looked, ...] = (),
) -> Access:
    """An access with exactly the masks it needs; an axis that is looked up is masked by what says where it is read."""
    shape = kernel.buffers[buffer].shape
    assert len(index) == len(shape), f"{buffer} has {len(shape)} dimensions and {len(index)} index expressions"
    inside = []
    for position, (e, n) in enumerate(zip(index, shape, strict=True)):
        axis = e.as_axis()
        if axis is not None and axis.size <= n:
            continue
        lo, hi = e.bounds()
        if lo < 0 or hi >= n:
            whole = kernel.whole(e)
            inside.append(Inside(e, position, n, lo < 0, hi >= n, whole if whole is not None and whole.size == n else None))
    return Access(buffer, index, bindings, dims, padded(bindings), tuple(inside), looked=looked)
