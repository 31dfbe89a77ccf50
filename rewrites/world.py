"""The numbers of one check of a rule: what its variables are, and in which arithmetic it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import trunc
from typing import Any

import numpy as np

from ..ir.dtypes import DType, castable
from ..ir.semantics import Arrays, Noise, Undefined


@dataclass
class World(Arrays):
    """The numbers of one check: variable values, the extents of the universe's axes, and the old form of new-form variables.

    ``refs`` holds the values of references, by time and reduction.
    """

    values: dict[str, Any]
    extents: tuple[int, ...]
    old: dict[str, str] = field(default_factory=dict)
    acc: np.ndarray | None = None
    looking_back: bool = False
    dtype: Any = float
    bitwise: bool = False
    strict: bool = False
    noisy: Noise | None = None
    sizes: list[float] | None = None
    refs: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def back(self) -> World:
        """The same world read at the old reference: each new-form variable has the value of its old form."""
        return replace(self, looking_back=True)

    def __getitem__(self, name: str) -> Any:
        return self.values[self.old.get(name, name) if self.looking_back else name]

    def cast(self, to: DType, x: np.ndarray) -> np.ndarray:
        """A cast.  Nothing is claimed of worlds in which torch does not define it: to an integer type, of fractions and infinities out of
        range."""
        if to.is_float or (self.rational and to.kind == "bool"):
            return super().cast(to, x)
        fits = _castable(x, to) if self.rational else castable(x, to)
        if not fits.all():
            raise Undefined(f"a cast to {to.name}, out of its range or of fractions")
        return _wrapped(x, to) if self.rational else super().cast(to, x)


def _castable(x: np.ndarray, to: DType) -> np.ndarray:
    """:func:`~eqfuse.ir.dtypes.castable` of fractions."""
    limits = np.iinfo(to.numpy)
    return np.array([limits.min <= trunc(v) <= limits.max or (v == trunc(v) and abs(v) < 2**63) for v in x.flat], bool)


def _wrapped(x: np.ndarray, to: DType) -> np.ndarray:
    """Fractions cast to an integer type: without what is behind the point, modulo the number of its values."""
    least, count = int(np.iinfo(to.numpy).min), 1 << 8 * np.dtype(to.numpy).itemsize
    out = np.empty(x.shape, dtype=object)
    out.reshape(-1)[:] = [Fraction((trunc(v) - least) % count + least) for v in x.flat]
    return out
