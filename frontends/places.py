"""Where in the user's file something comes from: the innermost frame that belongs to neither torch, EqFuse nor Python itself."""

from __future__ import annotations

import functools
import inspect
import linecache
import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import Node

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n\s*(?P<text>[^\n]*)')
_SKIPPED = (str(Path(torch.__file__).parent), str(Path(__file__).parent), str(Path(inspect.__file__).parent), f"{sys.prefix}/lib", "<")


def _text(file: str, line: str | int | None, text: str | None) -> str:
    return f"{Path(file).name}:{line}  {(text or '').strip()}"


def place(node: Node) -> str | None:
    """``file.py:line  source text`` of the line that made a graph node, if it is known."""
    frames = [m for m in _FRAME.finditer(node.meta.get("stack_trace") or "") if not m["file"].startswith(_SKIPPED)]
    return _text(frames[-1]["file"], frames[-1]["line"], frames[-1]["text"]) if frames else None


def place_of_function(obj: object) -> str | None:
    """The same for a function or a module of the user: where it is defined."""
    target: Any = type(obj).forward if isinstance(obj, torch.nn.Module) else inspect.unwrap(obj) if callable(obj) else obj
    while isinstance(target, functools.partial):
        target = target.func
    code = getattr(target, "__code__", None)
    if code is None or code.co_filename.startswith(_SKIPPED):
        return None
    return _text(code.co_filename, code.co_firstlineno, linecache.getline(code.co_filename, code.co_firstlineno))


def user_frames(node: Node) -> list[tuple[str, int]]:
    """(file, line) of every frame of the user that was at work when a graph node was made, outermost first."""
    frames = _FRAME.finditer(node.meta.get("stack_trace") or "")
    return [(m["file"], int(m["line"])) for m in frames if not m["file"].startswith(_SKIPPED)]


def place_of_error(error: BaseException) -> str | None:
    """The same for an exception."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_SKIPPED)]
    return _text(frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else None
