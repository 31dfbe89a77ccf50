"""Kernels in C become a library: compiled once by the compiler of the system, kept in the private directory of generated modules.

A library is named by a hash of its source, the flags, and what the compiler says of itself and of the processor it compiles for (the macros
that it defines), so a home directory that several machines share has one for each.  It is compiled in a directory of its own and put in its
place in one step.  The compiler is called with a list of arguments; no shell reads them.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from filelock import FileLock

from ..codegen.c.host import ATTEMPTS, FLAGS
from ..errors import CacheError, CompileError
from .modules import cache_directory, load_module

COMPILERS = ("cc", "gcc", "clang")  # after what CC names
_CURE = "install gcc or clang, or set CC to a C compiler"


def compiler() -> str | None:
    """The path of a C compiler, if there is one."""
    named = os.environ.get("CC")
    return next((p for c in ((named,) if named else COMPILERS) if (p := shutil.which(c))), None)


def library(source: str, directory: str | Path | None = None) -> ctypes.CDLL:
    """The library of a C file.

    Raises :class:`~eqfuse.errors.CompileError` without a compiler, and where it rejects the file.
    """
    found = compiler()
    if found is None:
        raise CompileError("no C compiler", cure=_CURE)
    return _library(source, found, cache_directory(directory))


@functools.cache
def _library(source: str, found: str, folder: Path) -> ctypes.CDLL:
    digest = hashlib.sha256("\0".join((source, repr((FLAGS, ATTEMPTS)), _identity(found))).encode()).hexdigest()[:16]
    path = folder / f"eqfuse_{digest}.so"
    with FileLock(folder / f".{digest}.lock", timeout=600):
        if not os.path.lexists(path):
            _compile(source, found, path)
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise CacheError("this library may have been written by somebody else", where=str(path), cure=f"rm {path}")
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CacheError(f"the system cannot load this library: {error}", where=str(path), cure=f"rm {path}") from error


@functools.cache
def _identity(found: str) -> str:
    """What a compiler says of itself and of this processor: every macro that it defines."""
    done = subprocess.run([found, "-march=native", "-dM", "-E", "-"], input="", capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{found} does not know this processor: {done.stderr.strip()[:500]}", cure=_CURE)
    return done.stdout


def passing_library(source: str, attempts: Sequence[Sequence[str]]) -> ctypes.CDLL:
    """The library of a C file by other options of the compiler, the first that it knows; nothing of it is kept."""
    found = compiler()
    if found is None:
        raise CompileError("no C compiler", cure=_CURE)
    with tempfile.TemporaryDirectory(prefix="eqfuse-") as folder:
        path = Path(folder, "kernels.so")
        _compile(source, found, path, attempts)
        return ctypes.CDLL(str(path))


def _compile(source: str, found: str, path: Path, attempts: Sequence[Sequence[str]] = ATTEMPTS) -> None:
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
        text, made = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        text.write_text(source, encoding="utf-8")
        said = ""
        for more in attempts:
            done = subprocess.run([found, *FLAGS, *more, "-o", made, text, "-lm"], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                made.chmod(0o700)
                made.replace(path)
                return
            said = said or done.stderr
    raise CompileError(f"{found} rejects the kernels: {said.strip()[:1000]}", cure=_CURE)


def load(source: str) -> ModuleType:
    """A generated module whose kernels are in C, with the library that they are compiled to."""
    module = load_module(source, "run")
    if module.TYPES and vars(module)["_library"] is None:
        vars(module)["_library"] = library(module.SOURCE)
    return module
