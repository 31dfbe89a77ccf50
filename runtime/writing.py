"""Generated modules as files of the user: written in one step, and never through a link or over what somebody else wrote."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ..errors import OptionError, expect
from ..extract.kept import files

_ELSEWHERE = "a file in a directory that you may write to"
MARK = '"""plan for '  # the first words of every generated module


def write_module(path: str | os.PathLike[str], source: str, where: str = "save", *, overwrite: bool = False) -> Path:
    """Put a generated module at ``path``: whoever looks there sees what was there before or the new one, whole.

    An earlier module is replaced, another file only if the user says ``overwrite``, a link never.  Raises
    :class:`~eqfuse.errors.OptionError` if there can be no such file.
    """
    path = check_place(path, where, overwrite=overwrite)
    try:
        files.remove_stale(path.parent, f".{path.name}.", (".tmp",))
        files.write(path, source.encode(), None, durable=True)
    except (OSError, ValueError) as error:
        why = str(getattr(error, "strerror", None) or error)
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        raise _refused(path, where, why, "make room, or name a file on another disk" if full else _ELSEWHERE) from error
    return path


def check_place(path: str | os.PathLike[str], where: str = "save", *, overwrite: bool = False) -> Path:
    """The path, if a module may be written there, by what is to be seen beforehand; OptionError if not."""
    expect(isinstance(path, str | Path), "path", path, "a file name, as 'kernel.py'", where=where)
    expect(isinstance(overwrite, bool), "overwrite", overwrite, "True or False", where=where)
    path = Path(path)
    try:
        if path.is_symlink():
            raise _refused(path, where, "it is a link", f"{path.resolve()}, for which it stands, or another name")
        if path.is_dir():
            raise _refused(path, where, "this is a directory", _ELSEWHERE)
        if path.exists() and not overwrite and not path.read_text(encoding="utf-8", errors="replace").startswith(MARK):
            raise _refused(path, where, "it exists, and EqFuse did not write it", "another name, or overwrite=True to replace it")
        if not path.parent.is_dir():
            raise _refused(path, where, "there is no such directory", f"make the directory {path.parent} first")
        if not os.access(path.parent, os.W_OK):
            raise _refused(path, where, "you may not write there", _ELSEWHERE)
    except (OSError, ValueError) as error:  # a directory that one may not look into, a name that no file can have
        if isinstance(error, OptionError):
            raise
        raise _refused(path, where, str(getattr(error, "strerror", None) or error), "another name") from error
    return path


def _refused(path: Path, where: str, why: str, cure: str) -> OptionError:
    return OptionError(f"cannot write {str(path)!r}: {why}", where=where, cure=cure)
