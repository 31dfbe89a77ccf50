"""Generated source becomes a module: text in a private, hash-named file, executed only if it is exactly that text.

Triton reads the source of a kernel back from its file, so emitted text must live in one; a person who debugs or profiles wants to
read it there, too.  The directory is the user's cache directory (``EQFUSE_CACHE_DIR`` overrides it), readable and writable by its
owner only.  What runs is the string in memory and not the file, and the source lines that Triton will read are pinned to that
string, so nothing that another process does to the directory can change what is executed or compiled.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType
from typing import Literal

import platformdirs
from filelock import FileLock

from ..errors import CacheError

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
    chosen = override or os.environ.get("EQFUSE_CACHE_DIR") or platformdirs.user_cache_path("eqfuse") / "modules"
    path = Path(chosen).expanduser()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CacheError(f"cannot create it: {error}", where=str(path), cure="set EQFUSE_CACHE_DIR") from error
    _require_private(path)
    return path


def load_module(source: str, purpose: Purpose, *, directory: str | Path | None = None) -> ModuleType:
    """The module of ``source``, one per purpose and process.

    ``purpose`` keeps three uses apart that must not share a namespace: ``"aot"`` (compiled ahead of time), ``"interpret"``
    (Triton's interpreter adds names to the globals of what it runs) and ``"run"`` (launched on a device).
    Raises :class:`~eqfuse.errors.CacheError` if a file of that name exists with another content.
    """
    if purpose not in _PURPOSES:
        raise AssertionError(f"purpose is one of {_PURPOSES}, not {purpose!r}")
    folder = cache_directory(directory)
    digest = source_hash(source)
    path = folder / f"eqfuse_{digest}.py"
    with _loading:
        _write_once(path, source)
        module = _loaded.get((path, purpose))
        if module is None:
            module = _execute(f"eqfuse_{digest}_{purpose}", path, source)
            _loaded[path, purpose] = module
        return module


def unload_module(module: ModuleType) -> None:
    """Forget a module of :func:`load_module`; its file stays.  The next load of its source makes a new one."""
    with _loading:
        for key in [k for k, m in _loaded.items() if m is module]:
            del _loaded[key]
            sys.modules.pop(module.__name__, None)
            if all(path != key[0] for path, _ in _loaded):
                linecache.cache.pop(str(key[0]), None)


def _require_private(path: Path) -> None:
    """Refuse a directory in which somebody else could place files."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise CacheError("it is not a directory of its own", where=str(path), cure="set EQFUSE_CACHE_DIR to another directory")
    if os.name != "posix":
        return
    if status.st_uid != os.getuid():
        said = f"it belongs to user id {status.st_uid}"
        raise CacheError(said, where=str(path), cure="set EQFUSE_CACHE_DIR to a directory of yours")
    if status.st_mode & 0o022:
        mode = stat.filemode(status.st_mode)
        raise CacheError(f"others may write to it ({mode})", where=str(path), cure=f"chmod 700 {path}")


def _write_once(path: Path, source: str) -> None:
    """Put ``source`` at ``path`` in one step, or check that it is there already."""
    with FileLock(path.parent / ".lock", timeout=60):
        if not os.path.lexists(path):
            handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(source)
            Path(name).replace(path)
        if path.is_symlink() or path.read_bytes() != source.encode():
            said = "this generated file does not hold the text that its name stands for"
            raise CacheError(said, where=str(path), cure=f"look at it, then: rm {path}")


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
