"""One function of a library, what it should compute, and on which arguments."""

import importlib.util
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Case:
    """``theirs`` should compute what ``reference`` does on ``args`` (strategies of eqfuse.testing).

    ``fault``: what is wrong with ``theirs``, in a line; then the comparison must fail.  ``shows``: a plain check of that, without the
    comparison: the error of ``theirs`` against ``reference`` on arguments chosen by hand, and what would be right.
    """

    name: str
    reference: Callable[..., Any]
    theirs: Callable[..., Any]
    args: list[Any]
    gradients: bool = True
    examples: int = 8
    options: dict[str, Any] = field(default_factory=dict)
    fault: str = ""
    shows: Callable[[], tuple[float, float]] | None = None


def package(name: str, path: Any) -> None:
    """A package whose modules can be imported, but not its own __init__, which may ask for what is not here."""
    module = types.ModuleType(name)
    module.__path__ = [str(path)]
    sys.modules[name] = module


class _Absent(types.ModuleType):
    """A module that is not installed: it has every name, and none does anything."""

    __path__: list[str] = []
    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return mock.MagicMock(name=f"{self.__name__}.{name}")


def absent(*names: str) -> None:
    """Stand-ins for modules that a library imports and that its kernels do not need."""
    for name in names:
        top = name.partition(".")[0]
        if isinstance(sys.modules.get(top), _Absent) or (top not in sys.modules and importlib.util.find_spec(top) is None):
            sys.modules.setdefault(top, _Absent(top))
            sys.modules[name] = _Absent(name)
