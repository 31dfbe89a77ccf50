"""Choices about a tile program that lowering leaves open, each a small pass from one tile program to the next.

What the price of a kernel depends on is decided for every candidate of a search (:func:`.lower.lower` ends with :data:`PRICED`); the
rest for the kernel that is taken (:data:`FINAL`, by :func:`finish`).  What comes out is all that a printer reads.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.spec import wanted
from ..program import TileProgram
from ..spec import check_tiles
from .base_two import to_base_two
from .contraction import contract
from .descriptors import describe
from .hints import hint
from .inplace import overwrite
from .launching import launch
from .means import carry
from .multiply_adds import fuse
from .offsets import widen
from .parameters import parametrise
from .parts import part
from .references import refer
from .starts import start

Pass = Callable[[TileProgram], TileProgram]
PRICED: tuple[Pass, ...] = (start, hint, contract)
FINAL: tuple[Pass, ...] = (to_base_two, refer, carry, part, fuse, overwrite, widen, describe, launch, parametrise)


def finish(program: TileProgram) -> TileProgram:
    """A lowered kernel, with all that is left to decide before it is printed.

    With ``EQFUSE_SPEC=1``, raises :class:`~eqfuse.errors.SpecError` for what is not valid.
    """
    for decide in FINAL:
        program = decide(program)
    if wanted():
        check_tiles(program)
    return program
