"""A file of the cache: private, written whole, and believed only if it is as it was written.

The folders of the cache hold plans (:mod:`.folder`), and generated modules and libraries of kernels in C (``runtime/``).  What others could
have written is not read: a file or a folder belongs to the user, nobody else may write to it, and it is no link.  A *sealed* file ends with
a digest of its name and its content, so one that was cut, changed, lengthened or swapped for another is as if it were not there.

Whoever reads sees the file before a write or after it.  A process that is killed leaves a file ``.NAME.*.tmp``, or ``.NAME.lock``; the next
writer removes those older than ``STALE``.
"""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import platformdirs
from filelock import FileLock

from ...errors import CacheError

FORMAT = b"eqfuse-2"
STALE = 60.0  # seconds: a file is written in less
LONGEST_WAIT = 600.0  # seconds that another process may take to make a file
UNWRITTEN = "files in {} cannot be written, so kernels are compiled again in every process: {}"
_SEAL = len(FORMAT) + 66  # bytes: a new line, the format, a space, 64 hexadecimal digits


def cache_root() -> Path:
    """The folder that ``EQFUSE_CACHE_DIR`` names, or that of the user's cache."""
    return Path(os.environ.get("EQFUSE_CACHE_DIR") or platformdirs.user_cache_path("eqfuse"))


def kept(kind: str) -> bool:
    """Whether files of a kind, "plans" or "modules", are kept: ``EQFUSE_CACHE=0`` keeps none, ``EQFUSE_CACHE=modules`` these alone."""
    said = os.environ.get("EQFUSE_CACHE", "").strip()
    return said != "0" and (said != "modules" or kind == "modules")


def private_folder(path: Path) -> Path:
    """The folder, made if need be, like its parents with access for the user only.  Raises :class:`~eqfuse.errors.CacheError` if there can
    be none, or somebody else could put files into it."""
    try:
        path = path.expanduser()
        for folder in () if path.is_dir() else reversed((path, *path.parents)):
            folder.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        said = f"cannot create it: {getattr(error, 'strerror', None) or error}"
        raise CacheError(said, where=str(path), cure="set EQFUSE_CACHE_DIR") from error
    if not stat.S_ISDIR(status.st_mode):
        raise CacheError("it is not a directory of its own", where=str(path), cure="set EQFUSE_CACHE_DIR to another directory")
    if os.name == "posix" and status.st_uid != os.getuid():
        said = f"it belongs to user id {status.st_uid}"
        raise CacheError(said, where=str(path), cure="set EQFUSE_CACHE_DIR to a directory of yours")
    if not _own(status):
        mode = stat.filemode(status.st_mode)
        raise CacheError(f"others may write to it ({mode})", where=str(path), cure=f"chmod 700 {path}")
    return path


def _own(status: os.stat_result) -> bool:
    """Whether the user owns something, and nobody else may write to it."""
    return os.name != "posix" or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


@functools.cache
def warn_once(text: str) -> None:
    """Say something about the cache, once in a process."""
    warnings.warn(f"eqfuse: {text}", stacklevel=3)


# reading ----------------------------------------------------------------------------------------------------------------------------


def read(path: Path, longest: int) -> bytes | None:
    """What is in a file of the user's of at most ``longest`` bytes; ``None`` if there is no such file."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            good = stat.S_ISREG(status.st_mode) and _own(status) and status.st_size <= longest
            return file.read(longest) if good else None
    except OSError:
        return None


def read_sealed(path: Path, longest: int) -> bytes | None:
    """The content of a sealed file, if it is what was written under its name; else ``None``."""
    data = read(path, longest + _SEAL)
    if data is None:
        return None
    body, end = data[:-_SEAL], data[-_SEAL:]
    return body if end == seal(path.name, body) else None


def seal(name: str, body: bytes) -> bytes:
    """The last line of a sealed file."""
    return b"\n%b %b" % (FORMAT, hashlib.sha256(name.encode() + b"\0" + body).hexdigest().encode())


# writing ----------------------------------------------------------------------------------------------------------------------------


def write(path: Path, data: bytes, mode: int | None = 0o600, *, durable: bool = False) -> None:
    """Put a file into its place in one step; a link is replaced, not followed.  Raises OSError if that cannot be.

    ``mode``: its permissions; ``None``: those of the file that it replaces, or what the system gives a new file.  ``durable``: the file is
    whole after a loss of power, too, for which the disk is waited for."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        opened = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666 if mode is None else mode)
        with os.fdopen(opened, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if mode is None and path.exists():
            made.chmod(stat.S_IMODE(path.stat().st_mode))
        made.replace(path)
    except BaseException:
        with suppress(OSError, ValueError):  # ValueError: a name that no file can have
            made.unlink(missing_ok=True)
        raise
    if durable:
        with suppress(OSError):  # where folders cannot be opened
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def write_sealed(path: Path, body: bytes, *, durable: bool = False) -> None:
    """Put a sealed file into its place in one step.  Raises OSError if that cannot be."""
    write(path, body + seal(path.name, body), durable=durable)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """While one process makes a file, others that want to make it wait.  It spares work and no more: a file that two make is whole all the
    same.  So where there can be no lock nobody waits, and the lock is removed while somebody may still wait for it."""
    lock = path.with_name(f".{path.name}.lock")
    with ExitStack() as held:
        with suppress(OSError, NotImplementedError):  # NotImplementedError: a file system without locks
            held.enter_context(FileLock(lock, timeout=LONGEST_WAIT))
            held.callback(remove, lock)
        yield


def remove(path: Path) -> None:
    """Remove a file, if it is there and that is allowed."""
    with suppress(OSError):
        path.unlink()


def remove_stale(folder: Path, start: str = "", ends: tuple[str, ...] = (".tmp", ".lock")) -> None:
    """Remove what killed writers have left in a folder: files whose names begin and end so."""
    with suppress(OSError), os.scandir(folder) as files:
        for file in files:
            if file.name.startswith(start) and file.name.endswith(ends):
                with suppress(OSError):  # another process has removed it
                    status = file.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > STALE:
                        Path(file.path).unlink()


@functools.cache
def remove_stale_once(folder: Path) -> None:
    """The same for a folder of the cache, once in a process."""
    remove_stale(folder)
