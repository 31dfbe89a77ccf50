"""What the first call of a process loads: our own modules, the rules, and what torch computes shapes with.

Python's cyclic garbage collector runs again and again while objects only accumulate, and goes each time through what torch has made
before: a quarter of the time.  Here it rests meanwhile.
"""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_resting() -> Iterator[None]:
    """No garbage collection in here, by reference counts apart; where the program itself has turned it off, it stays off."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # else these are the program's own, and stay frozen
            gc.freeze()
            gc.unfreeze()  # modules live long: they are with the old objects at once, not after having been searched three times
        gc.enable()


@functools.cache
def for_optimize(traced: bool) -> None:
    """Load what every ``optimize`` needs, if the program is ``traced`` torch's symbolic shapes, which its operators on the meta device
    import; later calls do nothing."""
    with collector_resting():
        if traced:
            importlib.import_module("torch.fx.experimental.symbolic_shapes")
        from .. import frontends  # noqa: F401
        from . import executable  # noqa: F401
