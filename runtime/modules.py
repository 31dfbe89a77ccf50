"""Generated source becomes a module, and a private, hash-named file that holds its text.

A person who debugs or profiles reads the file.  The directory is the user's cache directory (``EQFUSE_CACHE_DIR`` overrides it), readable
and writable by its owner only.  What runs is the string in memory and not the file, and the source lines that Triton reads back are pinned
to that string, so nothing that another process does to the directory can change what is executed or compiled.  So a file that holds
another text is written again, and where there can be no file (a read-only home, a full disk) or none is wanted (``EQFUSE_CACHE=0``) the
module works without.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from ..errors import CacheError
from ..extract.kept import files

Purpose = Literal["aot", "interpret", "run"]
_PURPOSES = ("aot", "interpret", "run")

_loaded: dict[tuple[Path, str], ModuleType] = {}
_loading = threading.RLock()


def source_hash(source: str) -> str:
    """The name of a source text: 16 hexadecimal digits."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def cache_directory(override: str | Path | None = None) -> Path:
    """The directory of generated modules, created if needed with access for its owner only.

    Raises :class:`~eqfuse.errors.CacheError` if it is a link, belongs to somebody else, or others may write to it.
    """
    named = override or os.environ.get("EQFUSE_CACHE_DIR")
    return files.private_folder(Path(named) if named else files.cache_root() / "modules")


def usable_directory(override: str | Path | None = None) -> Path | None:
    """The same, or ``None`` where nothing is to be kept, or the user's directory cannot be used, which is said once.  Raises
    :class:`~eqfuse.errors.CacheError` for one that the caller names."""
    try:
        if override is None and not files.kept("modules"):
            return None
        folder = cache_directory(override)
    except CacheError as error:
        if override is not None:
            raise
        files.warn_once(f"the cache cannot be used, so nothing is kept: {error.where}: {error.message} (try: {error.cure})")
        return None
    files.remove_stale_once(folder)
    return folder


def load_module(source: str, purpose: Purpose, *, directory: str | Path | None = None) -> ModuleType:
    """The module of ``source``, one per purpose and process.

    ``purpose`` keeps three uses apart that must not share a namespace: ``"aot"`` (compiled ahead of time), ``"interpret"``
    (Triton's interpreter adds names to the globals of what it runs) and ``"run"`` (launched on a device).
    Raises :class:`~eqfuse.errors.CacheError` if ``directory`` is one that others may write to.
    """
    if purpose not in _PURPOSES:
        raise AssertionError(f"purpose is one of {_PURPOSES}, not {purpose!r}")
    folder = usable_directory(directory)
    digest = source_hash(source)
    name = f"eqfuse_{digest}.py"
    path = Path(f"<{name}>") if folder is None else folder / name
    with _loading:
        module = _loaded.get((path, purpose))
        if module is None:
            if folder is not None:
                _keep(path, source.encode())
            module = _execute(f"eqfuse_{digest}_{purpose}", path, source)
            _loaded[path, purpose] = module
        return module


def executed(text: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """What a text defines that mentions other ``names``: no module, for what these stand for is not said in it."""
    found = dict(names)
    exec(compile(text, "<eqfuse>", "exec"), found)
    return found


def unload_module(module: ModuleType) -> None:
    """Forget a module of :func:`load_module`; its file stays.  The next load of its source makes a new one."""
    with _loading:
        for key in [k for k, m in _loaded.items() if m is module]:
            del _loaded[key]
            sys.modules.pop(module.__name__, None)
            if all(path != key[0] for path, _ in _loaded):
                linecache.cache.pop(str(key[0]), None)


def _keep(path: Path, text: bytes) -> None:
    """Put a text into its file, for people to read, unless it is there."""
    if files.read(path, len(text)) == text:
        return
    changed = os.path.lexists(path)
    try:
        files.write(path, text)
    except OSError as error:
        files.warn_once(files.UNWRITTEN.format(path.parent, error.strerror))
    else:
        if changed:
            files.warn_once(f"{path} did not hold the text that its name stands for, and was not executed; it is written again")


def _execute(name: str, path: Path, source: str) -> ModuleType:
    lines = source.splitlines(keepends=True)
    linecache.cache[str(path)] = (len(source), None, lines, str(path))  # no time stamp: linecache never reads the file again
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and inspect look a module up by its name
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
