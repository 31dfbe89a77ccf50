"""A folder of entries: private, each written in one step, none believed that is not as it was written.

``EQFUSE_CACHE=0`` does without.  The folder is ``plans`` in ``EQFUSE_CACHE_DIR``, or in the user's cache directory.  It is never an error
that it cannot be used: then nothing is kept.  What belongs to somebody else, or may be written by others, is not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

FORMAT = "eqfuse-plan-1"
SUFFIX = ".plan"
MOST_FILES = 20_000
MOST_BYTES = 512 << 20
LONGEST = 32 << 20  # bytes of one entry
LOOK = 256  # entries written between two looks at how much there is

_written = 0


@dataclass(frozen=True)
class Entry:
    """What is known of an entry without believing it.  ``read``: when it was last read or written, in seconds since 1970."""

    name: str
    bytes: int
    read: float
    data: Any  # None if it is not what was written


def directory() -> Path | None:
    """The folder, made if need be with access for its owner only; ``None`` if nothing is to be kept, or there can be no such folder."""
    if os.environ.get("EQFUSE_CACHE", "").strip() == "0":
        return None
    chosen = os.environ.get("EQFUSE_CACHE_DIR")
    path = (Path(chosen) if chosen else platformdirs.user_cache_path("eqfuse")) / "plans"
    try:
        path = path.expanduser()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except (OSError, RuntimeError):
        return None
    return path if stat.S_ISDIR(status.st_mode) and _own(status) else None


def _own(status: os.stat_result) -> bool:
    """Whether the user owns something, and nobody else may write to it."""
    return os.name != "posix" or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def read(name: str) -> Any:
    """The data of an entry; ``None`` if there is none, or it is not what was written under this name."""
    folder = directory()
    if folder is None:
        return None
    path = folder / f"{name}{SUFFIX}"
    data = _data(path)
    if data is not None:
        with suppress(OSError):
            os.utime(path)  # the entries that were read last are kept longest
    return data


def _data(path: Path) -> Any:
    """What a file says, if it is what was written under its name; else ``None``."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not _own(status) or status.st_size > LONGEST:
                return None
            head, _, body = file.read().partition(b"\n")
        return json.loads(body) if head == _head(path.name.removesuffix(SUFFIX), body) else None
    except (OSError, ValueError, RecursionError):
        return None


def entries() -> Iterator[Entry]:
    """Every entry of the folder, in order of names."""
    folder = directory()
    for path in () if folder is None else sorted(folder.glob(f"*{SUFFIX}")):
        with suppress(OSError):  # another process has removed it
            status = path.lstat()
            yield Entry(path.name.removesuffix(SUFFIX), status.st_size, status.st_mtime, _data(path))


def write(name: str, data: Any) -> None:
    """Put an entry into the folder: whoever reads sees the one before, or this one, whole.  Without a folder, or room, nothing happens."""
    global _written
    folder = directory()
    if folder is None:
        return
    body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > LONGEST // 2:
        return
    made = None
    try:
        handle, made = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_head(name, body) + b"\n" + body)
        Path(made).replace(folder / f"{name}{SUFFIX}")
    except OSError:
        with suppress(OSError):
            if made is not None:
                Path(made).unlink(missing_ok=True)
        return
    if _written % LOOK == 0:
        _bounded(folder)
    _written += 1


def clear() -> int:
    """Remove all entries; how many there were."""
    folder = directory()
    found = [] if folder is None else [p for p in folder.iterdir() if p.suffix in (SUFFIX, ".tmp")]
    for path in found:
        path.unlink(missing_ok=True)
    return sum(p.suffix == SUFFIX for p in found)


def _head(name: str, body: bytes) -> bytes:
    """The first line: the format, and a digest of the name and what follows."""
    return f"{FORMAT} {hashlib.sha256(name.encode() + body).hexdigest()}".encode()


def _bounded(folder: Path) -> None:
    """Remove the entries that were read longest ago, if there are too many, and what writers that died have left."""
    found: list[tuple[float, int, Path]] = []
    with suppress(OSError), os.scandir(folder) as files:
        for file in files:
            with suppress(OSError):  # somebody else has removed it
                status = file.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, Path(file.path)))
    size = 0
    for count, (_, own, path) in enumerate(sorted(found, reverse=True), 1):
        size += own
        if count > MOST_FILES or size > MOST_BYTES:
            with suppress(OSError):
                path.unlink(missing_ok=True)
