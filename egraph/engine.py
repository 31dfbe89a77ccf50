"""The engine of egglog, without the language that its Python package has around it.

Only the compiled module ``egglog.bindings`` is used here.  An import statement would run the whole package first, with a code formatter
and a drawing library: 270 ms of CPU time instead of 5.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

NAME = "egglog.bindings"


def _alone() -> Any:
    """The compiled module by itself; the ordinary import where egglog is imported already, or its file is not where it was.

    It leaves ``sys.modules`` again: a later ``import egglog`` then loads it as if nothing had been, and gets this same module.
    """
    package = None if "egglog" in sys.modules else find_spec("egglog")
    spec = PathFinder.find_spec(NAME, package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        return importlib.import_module(NAME)
    try:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.modules.pop(NAME, None)
    return module


if TYPE_CHECKING:
    from egglog import bindings
else:
    bindings = _alone()
