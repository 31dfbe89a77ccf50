# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Fusion rules: facts for extractors about which values share a kernel.

``fuse(verdict, outer, inner)`` with verdict ``allow``, ``forbid`` or ``require`` speaks about two values of the graph.  These facts
change no value, so they need no numeric check.  They are in ``FrozenGraph.facts["fuse"]``.  Extraction obeys ``forbid``: no kernel
computes both values, though it may read one that another kernel stored; ``allow`` and ``require`` are not read yet.
"""

from __future__ import annotations

from .facts import fuse, match, part
from .patterns import Reduce
from .rule import AnyMonoid, Axis, fact_rule


@fact_rule(family="fusion", licence="exact", phase="fusion")
def parts_are_stored(e, u, t, g: AnyMonoid, jo: Axis, ji: Axis):
    """The results of the parts of a split axis go through memory: that is what the split is for."""
    return [match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji)], [fuse("forbid", e, u)]
