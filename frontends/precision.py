"""What torch's settings let matrix units do with float32: read its operands in tf32, which has ten digits after the point.

Eager code on a GPU does so for convolutions unless ``torch.backends.cudnn.allow_tf32`` is off, and for products after
``torch.set_float32_matmul_precision("high")``.  An operand of such a call is read as ``tf32(x)``, which is ``x`` wherever no matrix unit
reads it.
"""

from __future__ import annotations

import torch

from ..ir import dtypes
from ..ir.terms import Map, Term


def products_in_tf32() -> bool:
    """Whether products of float32 matrices may be taken in tf32."""
    return _allowed(torch.backends.cuda.matmul)


def convolutions_in_tf32() -> bool:
    """The same of convolutions."""
    return _allowed(getattr(torch.backends.cudnn, "conv", torch.backends.cudnn))


def _allowed(setting: object) -> bool:
    # before torch 2.9 a setting is a truth value
    return bool(
        getattr(setting, "fp32_precision", None) == "tf32" if hasattr(setting, "fp32_precision") else getattr(setting, "allow_tf32", False)
    )


def operand(x: Term, allowed: bool) -> Term:
    """An operand of a product that may be taken in tf32, if that is ``allowed``; of other types it is as it is."""
    return Map("tf32", (x,)) if allowed and x.dtype is dtypes.float32 else x
