"""Element types: what memory holds, and the number facts (largest value, mantissa) that range analysis and tolerances need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class DType:
    """An element type.  ``name`` is the name that torch and numpy use; ``triton`` the short spelling in kernel signatures."""

    name: str
    kind: str  # "float" | "int" | "bool"
    itemsize: int  # bytes in memory
    triton: str  # "fp16", "i32", ...
    largest: float  # largest finite magnitude
    epsilon: float  # spacing at 1.0 (0 for exact types)

    def __repr__(self) -> str:
        return f"dtype({self.name!r})"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_wide(self) -> bool:
        """A float with at least the exponents of bfloat16 and float32."""
        return self.is_float and self.largest > 1e38

    @property
    def numpy(self) -> np.dtype:
        """The numpy type that stores it; bfloat16 has none and is kept in float32."""
        return np.dtype({"bfloat16": "float32"}.get(self.name, self.name))


float16 = DType("float16", "float", 2, "fp16", 65504.0, 2.0**-10)
bfloat16 = DType("bfloat16", "float", 2, "bf16", 3.3895313892515355e38, 2.0**-7)
float32 = DType("float32", "float", 4, "fp32", 3.4028234663852886e38, 2.0**-23)
float64 = DType("float64", "float", 8, "fp64", 1.7976931348623157e308, 2.0**-52)
int32 = DType("int32", "int", 4, "i32", 2.0**31 - 1, 0.0)
int64 = DType("int64", "int", 8, "i64", 2.0**63 - 1, 0.0)
bool_ = DType("bool", "bool", 1, "i1", 1.0, 0.0)

DTYPES = {d.name: d for d in (float16, bfloat16, float32, float64, int32, int64, bool_)}
_RANK = {"bool": 0, "int32": 1, "int64": 2, "float16": 3, "bfloat16": 3, "float32": 4, "float64": 5}


def dtype(name: str) -> DType:
    """Look a type up by its torch/numpy name."""
    return DTYPES[name]


def promote(*types: DType | None) -> DType | None:
    """The type of an arithmetic result, by torch's rules; ``None`` stands for a weakly typed constant."""
    found: DType | None = None
    for t in types:
        if t is None or t is found:
            continue
        if found is None:
            found = t
        elif {t.name, found.name} == {"float16", "bfloat16"}:
            found = float32
        elif _RANK[t.name] > _RANK[found.name]:
            found = t
    return found
