"""Only the text itself is executed, whatever stands in the cache directory."""

import inspect
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eqfuse.errors import CacheError
from eqfuse.runtime.modules import cache_directory, load_module, source_hash

SOURCE = "VALUE = {}\n\n\ndef value():\n    return VALUE\n"


def test_the_file_is_named_by_its_content_and_private():
    source = SOURCE.format(1)
    module = load_module(source, "run")
    path = Path(module.__file__)
    assert module.value() == 1
    assert path.read_text() == source
    assert source_hash(source) in path.name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert inspect.getsource(module.value) == "def value():\n    return VALUE\n"


def test_one_module_per_purpose():
    source = SOURCE.format(2)
    modules = [load_module(source, purpose) for purpose in ("aot", "interpret", "run")]
    assert len({id(m) for m in modules}) == 3
    assert load_module(source, "aot") is modules[0]


def test_a_file_with_another_content_is_written_again_and_never_executed():
    source = SOURCE.format(3)
    path = cache_directory() / f"eqfuse_{source_hash(source)}.py"
    path.write_text("raise SystemExit('executed a foreign file')\n")
    with pytest.warns(UserWarning, match=f"{path.name} did not hold the text"):
        assert load_module(source, "run").value() == 3
    assert path.read_text() == source


def test_a_file_changed_later_is_never_read():
    source = SOURCE.format(4)
    module = load_module(source, "run")
    path = Path(module.__file__)
    path.write_text(source.replace("return VALUE", "return 666"))
    assert "666" not in inspect.getsource(module.value)
    with pytest.warns(UserWarning, match="did not hold the text"):
        assert load_module(source, "aot").value() == 4
    assert path.read_text() == source


def test_a_link_in_place_of_the_file_is_replaced(tmp_path):
    source = SOURCE.format(5)
    (tmp_path / "elsewhere.py").write_text("mine")
    path = cache_directory() / f"eqfuse_{source_hash(source)}.py"
    path.symlink_to(tmp_path / "elsewhere.py")
    with pytest.warns(UserWarning, match="did not hold the text"):
        load_module(source, "run")
    assert path.read_text() == source and not path.is_symlink()
    assert (tmp_path / "elsewhere.py").read_text() == "mine"


def test_without_a_file_a_module_works_from_memory(monkeypatch, tmp_path):
    monkeypatch.setenv("EQFUSE_CACHE", "0")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path / "new"))
    module = load_module(SOURCE.format(8), "run")
    assert module.value() == 8 and load_module(SOURCE.format(8), "run") is module
    assert inspect.getsource(module.value) == "def value():\n    return VALUE\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_a_directory_that_others_may_write_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(CacheError, match="others may write"):
        load_module(SOURCE.format(6), "run", directory=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="user ids")
def test_a_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CacheError, match="belongs to user id"):
        cache_directory(tmp_path)


def test_a_link_to_a_directory_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(CacheError):
        cache_directory(tmp_path / "link")


def test_a_new_directory_is_private(tmp_path):
    made = cache_directory(tmp_path / "a" / "b" / "c")
    assert [stat.S_IMODE(p.stat().st_mode) for p in (made, *made.parents[:2])] == [0o700] * 3


def test_many_threads_load_one_module():
    source = SOURCE.format(7)
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(lambda _: load_module(source, "run"), range(16)))
    assert len({id(m) for m in modules}) == 1


def test_a_module_that_fails_is_not_kept():
    source = "raise ValueError('broken')\n"
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            load_module(source, "run")
