"""A folder of entries, each a sealed file (:mod:`.files`).

``EQFUSE_CACHE=0`` and ``EQFUSE_CACHE=modules`` do without.  The folder is ``plans`` in ``EQFUSE_CACHE_DIR``, or in the user's cache
directory.  It is never an error that it cannot be used: then nothing is kept.  What belongs to somebody else, or may be written by others,
is not read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import CacheError
from . import files

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
    try:
        return files.private_folder(files.cache_root() / "plans") if files.kept("plans") else None
    except CacheError:
        return None


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
    body = files.read_sealed(path, LONGEST)
    try:
        return None if body is None else json.loads(body)
    except (ValueError, RecursionError):
        return None


def entries() -> Iterator[Entry]:
    """Every entry of the folder, in order of names."""
    for path in _paths():
        with suppress(OSError):  # another process has removed it
            status = path.lstat()
            yield Entry(path.name.removesuffix(SUFFIX), status.st_size, status.st_mtime, _data(path))


def _paths() -> list[Path]:
    folder = directory()
    try:
        return [] if folder is None else sorted(p for p in folder.iterdir() if p.suffix == SUFFIX)
    except OSError:  # it may not be looked into
        return []


def write(name: str, data: Any) -> None:
    """Put an entry into the folder: whoever reads sees the one before, or this one, whole.  Without a folder, or room, nothing happens."""
    global _written
    folder = directory()
    if folder is None:
        return
    body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > LONGEST // 2:
        return
    files.remove_stale_once(folder)
    try:
        files.write_sealed(folder / f"{name}{SUFFIX}", body)
    except OSError:
        return
    if _written % LOOK == 0:
        _bounded(folder)
    _written += 1


def clear() -> int:
    """Remove all entries, and what killed writers have left; how many entries there were."""
    found = _paths()
    for path in found:
        files.remove(path)
    if found:
        files.remove_stale(found[0].parent)
    return len(found) - len(_paths())


def _bounded(folder: Path) -> None:
    """Remove the entries that were read longest ago, if there are too many."""
    found: list[tuple[float, int, Path]] = []
    with suppress(OSError), os.scandir(folder) as listed:
        for file in listed:
            with suppress(OSError):  # somebody else has removed it
                status = file.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, Path(file.path)))
    size = 0
    for count, (_, own, path) in enumerate(sorted(found, reverse=True), 1):
        size += own
        if count > MOST_FILES or size > MOST_BYTES:
            with suppress(OSError):
                path.unlink(missing_ok=True)
