"""The cache kills no process and stops none: not by what became of its files, by a folder that cannot be used, or by a disk that is full.

``benchmarks/cache.py`` draws a thousand corruptions of every kind of file, each met by a process of its own.
"""

import ctypes
import importlib
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import eqfuse
from eqfuse.errors import CacheError, CompileError, OptionError
from eqfuse.extract.kept import files, folder
from eqfuse.runtime import native
from eqfuse.runtime.modules import load_module
from eqfuse.runtime.writing import write_module

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
needs_c = pytest.mark.skipif(native.compiler() is None, reason="there is no C compiler")
ONE, TWO = (f"int value(void) {{ return {n}; }}" for n in (1, 2))


def corruptions():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module("cache")
    finally:
        sys.path.remove(str(BENCHMARKS))


CORRUPTIONS = corruptions()


@pytest.fixture
def place(monkeypatch, tmp_path):
    place = tmp_path / "cache"
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(place))
    monkeypatch.setenv("EQFUSE_CACHE", "1")
    another_process()
    yield place
    another_process()


def another_process():
    """What a process knows of the cache is forgotten."""
    native._library.cache_clear()
    files.warn_once.cache_clear()
    files.remove_stale_once.cache_clear()


def value(source):
    return native.library(source).value()


@contextmanager
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# files that are not as they were written ------------------------------------------------------------------------------------------------


@needs_c
@pytest.mark.parametrize("corrupt", CORRUPTIONS.OF_FILES, ids=lambda f: f.__name__)
def test_a_corrupt_library_is_not_loaded_but_compiled_again(place, corrupt):
    assert (value(ONE), value(TWO)) == (1, 2)
    (*_, path) = sorted(place.glob("*.so"))
    corrupt(path, random.Random(corrupt.__name__))
    another_process()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert (value(ONE), value(TWO)) == (1, 2)
    if corrupt is CORRUPTIONS.removed:
        assert not said
    elif corrupt is CORRUPTIONS.permitted and not said:
        assert os.getuid() == 0 and not path.stat().st_mode & 0o022, "root reads what nobody may"
    elif corrupt is CORRUPTIONS.a_folder:
        assert "cannot be written, so kernels are compiled again" in str(said[0].message)
        return
    else:
        assert "was not as it was written, and was not loaded; it is compiled again" in str(said[0].message)
    assert all(files.read_sealed(p, native.LONGEST) for p in place.glob("*.so"))
    another_process()
    with silence():
        assert (value(ONE), value(TWO)) == (1, 2)


@needs_c
def test_a_library_that_is_loaded_survives_its_file(place):
    far = 'int value(void) { return 3; } __attribute__((aligned(65536))) int other(void) { puts("4"); return 4; }'
    library = native.library(f"#include <stdio.h>\n{far}")
    (path,) = place.glob("*.so")
    os.truncate(path, 0)
    assert (library.value(), library.other()) == (3, 4)


@pytest.mark.parametrize("corrupt", CORRUPTIONS.OF_FILES, ids=lambda f: f.__name__)
def test_a_corrupt_entry_or_module_is_as_if_it_were_not_there(place, corrupt):
    sources = [f"VALUE = {n}  # {corrupt.__name__}\n" for n in range(2)]
    for n, source in enumerate(sources):
        folder.write(f"e{n}", {"n": n})
        load_module(source, "run")
    for n, pattern in enumerate(("plans/*.plan", "*.py")):
        corrupt(sorted(place.glob(pattern))[-1], random.Random(n))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [load_module(source, "aot").VALUE for source in sources] == [0, 1]
    assert all(folder.read(f"e{n}") in (None, {"n": n}) for n in range(2)) and None in map(folder.read, ("e0", "e1"))
    list(folder.entries())
    for n in range(2):
        folder.write(f"e{n}", {"n": n})
    if corrupt is not CORRUPTIONS.a_folder:
        assert sorted(p.read_text() for p in place.glob("*.py")) == sources
        assert [folder.read(f"e{n}") for n in range(2)] == [{"n": 0}, {"n": 1}]
    folder.clear()


# folders that cannot be used ------------------------------------------------------------------------------------------------------------


def of_the_system(place):
    return Path("/proc/eqfuse")


def a_file(place):
    place.write_text("mine")
    return place


def a_link(place):
    place.with_name("real").mkdir(mode=0o700)
    place.symlink_to(place.with_name("real"))
    return place


def open_to_others(place):
    place.mkdir()
    place.chmod(0o777)
    return place


@needs_c
@pytest.mark.parametrize("make", [of_the_system, a_file, a_link, open_to_others])
def test_without_a_folder_kernels_run_all_the_same(place, monkeypatch, make):
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(make(place)))
    x = torch.linspace(-3, 3, 35).reshape(5, 7)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = eqfuse.optimize(lambda x: torch.softmax(x, -1), (x,), target="cpu")(x)
        assert value(ONE) == 1
        load_module("VALUE = 1\n", "aot")
    (once,) = (str(w.message) for w in said if "cache" in str(w.message))
    assert re.search("the cache cannot be used, so nothing is kept: .* \\(try: ", once)
    torch.testing.assert_close(found.double(), torch.softmax(x.double(), -1), rtol=1e-6, atol=1e-7)


@needs_c
def test_switched_off_nothing_is_kept_and_nothing_said(place, monkeypatch):
    monkeypatch.setenv("EQFUSE_CACHE", "0")
    with silence():
        assert value(ONE) == 1
    assert not place.exists()


@needs_c
def test_where_nothing_may_be_executed_from_temporary_files_another_folder_serves(place, monkeypatch):
    loaded, tried = ctypes.CDLL, []

    def refused(path):
        tried.append(Path(path).parents[1])
        if tried[-1] != place:
            raise OSError("failed to map segment from shared object")
        return loaded(path)

    monkeypatch.setattr(ctypes, "CDLL", refused)
    assert value(ONE) == 1 and tried[-1] == place
    assert [p.suffix for p in place.iterdir()] == [".so"]
    another_process()
    monkeypatch.setenv("EQFUSE_CACHE", "0")
    with pytest.raises(CacheError, match=r"cannot load this library: failed to map(.|\n)*try: .*TMPDIR"):
        value(ONE)


# full disks -----------------------------------------------------------------------------------------------------------------------------


@needs_c
def test_a_linker_without_room_is_said(place, monkeypatch, tmp_path):
    (tmp_path / "full").write_text(
        f"#!/bin/sh\ncase $* in *-dM*) exec {native.compiler()} \"$@\";; esac\necho 'ld: final link failed: No space left on device' >&2\nexit 1\n"
    )
    (tmp_path / "full").chmod(0o700)
    monkeypatch.setenv("CC", str(tmp_path / "full"))
    with pytest.raises(CompileError, match=r"the disk is full: ld: final link(.|\n)*try: make room in .*TMPDIR") as caught:
        value(ONE)
    assert "gcc" not in caught.value.cure


@pytest.fixture
def tiny(tmp_path):
    """A disk of one page, if the system lets one be made."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = shutil.which("mount") and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", disk], capture_output=True)
    if not made or made.returncode:
        pytest.skip("no file system may be mounted here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@needs_c
def test_a_full_disk(place, monkeypatch, tiny):
    with pytest.raises(OptionError, match="No space left on device\n  try: make room"):
        write_module(tiny / "out.py", "x" * 5000)
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tiny))
    with pytest.warns(UserWarning, match=f"files in {tiny} cannot be written, so kernels .*: No space left on device"):
        assert value(ONE) == 1
    assert not list(tiny.iterdir())
    monkeypatch.setenv("EQFUSE_CACHE", "0")
    monkeypatch.setattr("tempfile.tempdir", str(tiny))
    with pytest.raises(CompileError, match="No space left on device\n  try: make room"):
        value(ONE + "//" + "x" * 5000)


# writers --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_writers_that_are_killed_leave_whole_files(place, tmp_path):
    place.mkdir()
    rng = random.Random(0)
    for _ in range(12):
        child = os.fork()
        if child == 0:
            for n in range(10**6):
                files.write_sealed(place / "entry", b"%d " % n * 20_000)
                write_module(tmp_path / "out.py", f'"""plan for {n}"""' * 2000)
        time.sleep(rng.uniform(0.01, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if (place / "entry").exists():
            assert len(set(files.read_sealed(place / "entry", 1 << 30).split())) == 1
        if (tmp_path / "out.py").exists():
            assert len(set((tmp_path / "out.py").read_text().split("plan for")[1:-1])) == 1
    (tmp_path / ".out.py.123.tmp").touch()
    (tmp_path / ".other.tmp").touch()
    (place / ".eqfuse_1.so.lock").touch()
    (place / ".now.tmp").touch()
    for path in [*tmp_path.glob(".o*.tmp"), *place.glob(".e*")]:
        os.utime(path, (0, 0))
    write_module(tmp_path / "out.py", "")
    files.remove_stale(place)
    assert sorted(p.name for p in (*tmp_path.iterdir(), *place.iterdir()) if p.name != "cache") == [
        ".now.tmp",
        ".other.tmp",
        "entry",
        "out.py",
    ]


@needs_c
def test_of_threads_or_processes_that_want_one_library_one_compiles(place, monkeypatch):
    compiled, count = native._compile, []

    def slow(*args):
        count.append(args)
        time.sleep(0.2)
        return compiled(*args)

    monkeypatch.setattr(native, "_compile", slow)
    threads = [threading.Thread(target=value, args=(ONE,)) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(count) == 1
    assert [p.suffix for p in place.iterdir()] == [".so"], "no lock is left"


@needs_c
def test_a_lock_that_cannot_be_had_is_none(place):
    place.mkdir(mode=0o700)
    name = native._name(ONE, native.compiler())
    (place / f".{name}.lock").mkdir()
    assert value(ONE) == 1 and (place / name).exists()


def test_a_folder_and_its_parents_are_private(place):
    files.private_folder(place / "a" / "b")
    assert {stat.S_IMODE(p.stat().st_mode) for p in (place, place / "a", place / "a" / "b")} == {0o700}
