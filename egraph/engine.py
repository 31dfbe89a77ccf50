"""The engine of egglog, without the language that its Python package has around it.

Only the compiled module ``egglog.bindings`` is used here.  An import statement would run the whole package first, with a code formatter
and a drawing library: 270 ms of CPU time instead of 5.

The module starts a pool of threads when it is loaded, and works in them.  A process that forks leaves its threads behind: in the child
the engine would wait for them for ever, and a library that is loaded cannot be loaded again.  A copy of its file can, and starts threads
of its own: that is what the child of a process that had loaded it uses.  It is loaded when it is first needed, not on import, so
that most children need no copy.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineError

if TYPE_CHECKING:
    from egglog.bindings import EGraph

NAME = "egglog.bindings"

_here: Any = None  # the module as this process has loaded it
_file = ""  # of the module that a parent of this process had loaded
_left: list[Any] = []  # what belongs to threads that this process does not have: kept, for to free it might wait for them


def new_engine() -> EGraph:
    """An engine without a program or a rule.

    Raises :class:`~eqfuse.errors.EngineError` in a process that was forked and cannot load an engine of its own.
    """
    return loaded().EGraph()


def loaded() -> Any:
    """The compiled module, loaded by this process."""
    global _here
    if _here is None:
        _here = _copied(_file) if _file else _alone()
    return _here


def leave_behind(what: Any) -> None:
    """Keep objects of an engine that this process has inherited, without ever using them again."""
    _left.append(what)


def _forked() -> None:
    global _here, _file
    if _here is not None:
        leave_behind(_here)
        _here, _file = None, _file or _here.__file__


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


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


def _copied(file: str) -> Any:
    """The compiled module from a copy of its file: another library to the loader, with threads of its own."""
    before = sys.modules.get(NAME)
    try:
        with tempfile.TemporaryDirectory(prefix="eqfuse-") as folder:
            loader = ExtensionFileLoader(NAME, str(shutil.copyfile(file, Path(folder) / Path(file).name)))
            spec = spec_from_loader(NAME, loader)
            assert spec is not None
            module = module_from_spec(spec)
            loader.exec_module(module)
    except (OSError, ImportError) as error:
        raise EngineError(
            f"this process was forked from one that had used the engine, and cannot load its own: {error}",
            where=f"process {os.getpid()}",
            cure=f"room for {file} in {tempfile.gettempdir()}, or multiprocessing.get_context('spawn') or 'forkserver' in place of fork",
        ) from error
    finally:
        if before is None:
            sys.modules.pop(NAME, None)
        else:
            sys.modules[NAME] = before
    return module
