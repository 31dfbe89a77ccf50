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


def test_a_file_with_another_content_is_refused():
    source = SOURCE.format(3)
    path = cache_directory() / f"eqfuse_{source_hash(source)}.py"
    path.write_text("raise SystemExit('executed a foreign file')\n")
    with pytest.raises(CacheError, match="does not hold the text"):
        load_module(source, "run")


def test_a_file_changed_later_is_refused_and_never_read():
    source = SOURCE.format(4)
    module = load_module(source, "run")
    Path(module.__file__).write_text(source.replace("return VALUE", "return 666"))
    assert "666" not in inspect.getsource(module.value)
    with pytest.raises(CacheError, match="rm "):
        load_module(source, "aot")


def test_a_link_in_place_of_the_file_is_refused(tmp_path):
    source = SOURCE.format(5)
    (tmp_path / "elsewhere.py").write_text(source)
    (cache_directory() / f"eqfuse_{source_hash(source)}.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(CacheError):
        load_module(source, "run")


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
    made = cache_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


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
