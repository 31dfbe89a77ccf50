"""Which tests concern a file of the package: ``make test FOR=rewrites/algebra.py``.

    rewrites/algebra.py -> tests that are called with one of its rules, tests/rewrites/test_algebra*.py, modules of tests that import it

A test concerns a file if its module is named after the file, imports the file or anything that is defined there, or names it in its text; or
if a parameter of the test is defined there.  Where no test concerns a file by that, all tests of its package do (``tests/extract`` for
``extract/covers/maker.py``).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent


def asked() -> list[Path]:
    """The files that ``FOR=`` names, by paths from the root, parted by spaces."""
    files = [(ROOT / name).resolve() for name in os.environ.get("EQFUSE_TEST_FOR", "").split()]
    for path in files:
        if not path.is_file() or not path.is_relative_to(ROOT):
            raise pytest.UsageError(
                f"FOR: {path} is no file of the package; name it by its path from the root, such as rewrites/algebra.py"
            )
    return files


def concerned(items: list[Any], files: Iterable[Path]) -> list[Any]:
    """Those of the tests that concern one of the files."""
    wanted = {id(item) for path in files for item in _concerned(items, path)}
    return [item for item in items if id(item) in wanted]


def _concerned(items: list[Any], path: Path) -> list[Any]:
    if path.is_relative_to(TESTS):
        return [item for item in items if item.path == path]
    place = path.relative_to(ROOT)
    found = [item for item in items if _names(item.module, place) or any(_is_of(v, place) for v in _parameters(item))]
    if found or len(place.parts) == 1:
        return found
    return [item for item in items if item.path.is_relative_to(TESTS / place.parts[0])]


@cache
def _names(module: Any, place: Path) -> bool:
    path = Path(module.__file__)
    own = path.is_relative_to(TESTS / place.parts[0]) and path.stem.startswith(f"test_{place.stem}")
    named = _dotted(place) if len(place.parts) > 1 else f"eqfuse.{_dotted(place)}"
    return own or named in inspect.getsource(module) or any(_is_of(v, place) for v in vars(module).values())


def _parameters(item: Any) -> Iterator[Any]:
    for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
        yield from value if isinstance(value, tuple | list) else [value]


def _is_of(value: Any, place: Path) -> bool:
    """Whether a value is the module of the file, was defined in it, or says that it was (a rule)."""
    name = f"eqfuse.{_dotted(place)}"
    defined = inspect.ismodule(value) or inspect.isclass(value) or inspect.isfunction(value)
    return (defined and name in (value.__name__, getattr(value, "__module__", ""))) or getattr(value, "file", None) == str(place)


def _dotted(place: Path) -> str:
    return ".".join(place.with_suffix("").parts).removesuffix(".__init__")
