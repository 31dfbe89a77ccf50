"""Kernels in C become a library: compiled once by the compiler of the system, kept in the private directory of generated modules.

A library is named by a hash of its source, the flags, and what the compiler says of itself and of the processor it compiles for (the macros
that it defines), so a home directory that several machines share has one for each.  It is compiled in a directory of its own and put in its
place in one step, sealed by a digest (:mod:`..extract.kept.files`).  What is loaded is what was verified: a copy in a directory of this
process, for a mapped file that somebody cuts short, or a server loses, ends the process with SIGBUS.  Where no directory can be used, or
``EQFUSE_CACHE=0`` keeps nothing, every process compiles.  The compiler is called with a list of arguments; no shell reads them.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ..codegen.c.host import ATTEMPTS, FLAGS
from ..errors import CacheError, CompileError
from ..extract.kept import files
from .modules import load_module, usable_directory

COMPILERS = ("cc", "gcc", "clang")  # after what CC names
LONGEST = 1 << 28  # bytes of one library
FULL = (errno.ENOSPC, errno.EDQUOT)
_CURE = "install gcc or clang, or set CC to a C compiler"


def compiler() -> str | None:
    """The path of a C compiler, if there is one."""
    named = os.environ.get("CC")
    return next((p for c in ((named,) if named else COMPILERS) if (p := shutil.which(c))), None)


def library(source: str, directory: str | Path | None = None) -> ctypes.CDLL:
    """The library of a C file.

    Raises :class:`~eqfuse.errors.CompileError` without a compiler, where it rejects the file, and where the disk is full;
    :class:`~eqfuse.errors.CacheError` where the system loads no library from any directory of this process.
    """
    found = compiler()
    if found is None:
        raise CompileError("no C compiler", cure=_CURE)
    return _library(source, found, usable_directory(directory))


@functools.cache
def _library(source: str, found: str, folder: Path | None) -> ctypes.CDLL:
    name = _name(source, found)
    if folder is None:
        return _load(_compile(source, found), name)
    body = files.read_sealed(folder / name, LONGEST)
    if body is None:
        with files.alone(folder / name):
            body = files.read_sealed(folder / name, LONGEST) or _keep(folder / name, _compile(source, found))
    return _load(body, name, folder)


def _name(source: str, found: str) -> str:
    """What a library is called: a digest of all that it is made from."""
    told = (source, repr((FLAGS, ATTEMPTS, files.FORMAT)), _identity(found))
    return f"eqfuse_{hashlib.sha256(chr(0).join(told).encode()).hexdigest()[:16]}.so"


def _keep(path: Path, body: bytes) -> bytes:
    """Put a library into its place, if that can be."""
    changed = os.path.lexists(path)
    try:
        files.write_sealed(path, body, durable=True)
    except OSError as error:
        files.warn_once(files.UNWRITTEN.format(path.parent, error.strerror))
    else:
        if changed:
            files.warn_once(f"{path} was not as it was written, and was not loaded; it is compiled again")
    return body


def _load(body: bytes, name: str, *others: Path) -> ctypes.CDLL:
    """A library from its bytes, by a file that is gone at once: in the system's directory of temporary files or, where that is full or
    nothing may be executed from it, in one of the ``others``."""
    failed: OSError | None = None
    for place in (None, *others):
        try:
            with tempfile.TemporaryDirectory(prefix="eqfuse-", dir=place) as folder:
                path = Path(folder, name)
                path.write_bytes(body)
                return ctypes.CDLL(str(path))
        except OSError as error:
            failed = failed or error
    assert failed is not None
    cure = _room() if failed.errno in FULL else "name a directory from which libraries may be loaded by TMPDIR"
    raise CacheError(f"the system cannot load this library: {failed}", where=name, cure=cure) from failed


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
    return _load(_compile(source, found, attempts), "kernels.so")


def _compile(source: str, found: str, attempts: Sequence[Sequence[str]] = ATTEMPTS) -> bytes:
    """What a compiler makes of a C file."""
    said = ""
    try:
        with tempfile.TemporaryDirectory(prefix="eqfuse-") as folder:
            text, made = Path(folder, "kernels.c"), Path(folder, "kernels.so")
            text.write_text(source, encoding="utf-8")
            for more in attempts:
                command = [found, *FLAGS, *more, "-o", str(made), str(text), "-lm"]
                done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"LC_ALL": "C"})
                if done.returncode == 0:
                    return made.read_bytes()
                said = said or done.stderr
    except OSError as error:
        cure = _room() if error.errno in FULL else "name a directory that you may write to by TMPDIR"
        raise CompileError(f"kernels cannot be compiled: {error}", cure=cure) from error
    if any(os.strerror(full) in said for full in FULL):
        raise CompileError(f"kernels cannot be compiled, the disk is full: {said.strip()[:1000]}", cure=_room())
    raise CompileError(f"{found} rejects the kernels: {said.strip()[:1000]}", cure=_CURE)


def _room() -> str:
    return f"make room in {tempfile.gettempdir()}, or name another directory by TMPDIR"


def load(source: str) -> ModuleType:
    """A generated module whose kernels are in C, with the library that they are compiled to."""
    module = load_module(source, "run")
    if module.TYPES and vars(module)["_library"] is None:
        vars(module)["_library"] = library(module.SOURCE)
    return module
