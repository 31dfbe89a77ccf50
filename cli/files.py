"""Files that commands write: what was there is kept unless the user says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import OptionError
from .programs import UsageError


@contextmanager
def _refusing(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OptionError as error:
        cure = (error.cure or "").replace("overwrite=True", "--overwrite")
        raise UsageError(f"{option} {error.message}", cure=f"mkdir -p {path.parent}" if not path.parent.is_dir() else cure) from error


def check_file(option: str, path: Path, overwrite: bool) -> None:
    """A file can be written here: known before a long planning, not after it."""
    from ..runtime.writing import check_place

    with _refusing(option, path):
        check_place(path, overwrite=overwrite)


def write_file(option: str, path: Path, text: str, overwrite: bool) -> None:
    """Write a file in one step; what EqFuse did not write is replaced with ``--overwrite`` only."""
    from ..runtime.writing import write_module

    with _refusing(option, path):
        write_module(path, text, overwrite=overwrite)
