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
import torch.fx.interpreter

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from torch.fx import Node

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n\s*(?P<text>[^\n]*)')
PLACE = "eqfuse_place"  # in a node's "custom" metadata: where it comes from, for errors
_NODE = "node "
_INTERPRETER = torch.fx.interpreter.__file__
SKIPPED = (str(Path(torch.__file__).parent), str(Path(__file__).parent), str(Path(inspect.__file__).parent), f"{sys.prefix}/lib", "<")


def _text(file: str, line: str | int | None, text: str | None) -> str:
    return f"{Path(file).name}:{line}  {(text or '').strip()}"


def place(node: Node) -> str | None:
    """``file.py:line  source text`` of the line that made a graph node, if it is known."""
    frames = [m for m in _FRAME.finditer(node.meta.get("stack_trace") or "") if not m["file"].startswith(SKIPPED)]
    return _text(frames[-1]["file"], frames[-1]["line"], frames[-1]["text"]) if frames else None


def place_of_node(node: Node) -> str | None:
    """The innermost line of the user that made a graph node; of a graph without source, its node."""
    return (node.meta.get("custom") or {}).get(PLACE) or place(node)


def node_name(node: Node) -> str:
    """The place of a node in a graph that the user gave without its source."""
    return f"{_NODE}{node.name} of the graph"


def place_of_frame(frame: FrameType, line: int) -> str | None:
    """The line that a frame of the user is at, or the node of the user's graph that it executes; None for frames of others."""
    file, code = frame.f_code.co_filename, frame.f_code
    if file == _INTERPRETER and code.co_name == "run_node":
        return node_name(frame.f_locals["n"])
    return None if file.startswith(SKIPPED) else _text(file, line, linecache.getline(file, line))


def place_of_call(outermost: CodeType) -> str | None:
    """Where the user's code is now, inside of a call of ``outermost``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outermost:
        where = place_of_frame(frame, frame.f_lineno)
        if where is not None:
            return where
        frame = frame.f_back
    return None


def place_of_function(obj: object) -> str | None:
    """The same for a function or a module of the user: where it is defined."""
    target: Any = type(obj).forward if isinstance(obj, torch.nn.Module) else inspect.unwrap(obj) if callable(obj) else obj
    while isinstance(target, functools.partial):
        target = target.func
    code = getattr(target, "__code__", None)
    if code is None or code.co_filename.startswith(SKIPPED):
        return None
    return _text(code.co_filename, code.co_firstlineno, linecache.getline(code.co_filename, code.co_firstlineno))


def user_frames(node: Node) -> list[tuple[str, int]]:
    """(file, line) of every frame of the user that was at work when a graph node was made, outermost first."""
    frames = _FRAME.finditer(node.meta.get("stack_trace") or "")
    return [(m["file"], int(m["line"])) for m in frames if not m["file"].startswith(SKIPPED)]


def place_of_error(error: BaseException) -> str | None:
    """The same for an exception."""
    places = [w for f, line in traceback.walk_tb(error.__traceback__) if (w := place_of_frame(f, line))]
    lines = [w for w in places if not w.startswith(_NODE)]  # a node says less than the line that it is from
    return lines[-1] if lines else places[-1] if places else None
