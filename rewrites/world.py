"""The numbers of one check of a rule: what its variables are, and in which arithmetic it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
        if not to.is_float and ((self.rational and to.kind != "bool") or not castable(x, to).all()):
            raise Undefined(f"a cast to {to.name}, out of its range or of fractions")
        return super().cast(to, x)
