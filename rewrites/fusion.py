# mypy: ignore-errors
# Parameters are pattern variables and annotations say of what kind: notation, not Python types.

"""Fusion rules of the library: decisions about which values share a kernel; see :mod:`.verdicts`."""

from __future__ import annotations

from .decorators import fusion
from .facts import match
from .patterns import Reduce
from .relations import part
from .rule import AnyMonoid, Axis
from .verdicts import forbid


@fusion
def parts_are_stored(e, u, t, g: AnyMonoid, jo: Axis, ji: Axis):
    """The results of the parts of a split axis go through memory: that is what the split is for."""
    return [match(e, Reduce(g, jo, u)), match(u, Reduce(g, ji, t)), part(jo, ji)], forbid(e, u)
