"""What a function finds around it while it is recorded, and leaves as it was."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch
from torch.utils import _pytree as pytree

_HIDDEN = "__dynamo_disable"  # of a function that torch hides from dynamo: the one that is called then


class NotRecorded(Exception):
    """The program does something that is not written down."""


@contextmanager
def unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Attributes of the module that the function writes are restored; raises if there is a tensor among them."""
    before = [(m, dict(vars(m)), pytree.tree_flatten({k: v for k, v in vars(m).items() if k != "_modules"})) for m in module.modules()]
    written: list[Any] = []
    try:
        yield
    finally:
        for m, attributes, (leaves, spec) in before:
            found, now = pytree.tree_flatten({k: v for k, v in vars(m).items() if k != "_modules"})
            if now != spec or any(x is not y for x, y in zip(leaves, found, strict=True)):
                known = {id(x) for x in leaves}
                written += [x for x in found if id(x) not in known]
                vars(m).clear()
                vars(m).update(attributes | pytree.tree_unflatten(leaves, spec))
    if any(isinstance(x, torch.Tensor) for x in written):
        raise NotRecorded("an attribute of the module is assigned")


@functools.cache
def _hidden_from_dynamo() -> tuple[Any, ...]:
    """What torch calls to find shapes, and hides from dynamo: it imports that for it when it first calls one."""
    marked = torch._disable_dynamo(lambda: None).__code__
    found: dict[Any, None] = {}
    seen = {*torch._decomp.global_decomposition_table["post_autograd"].values(), *torch._decomp.meta_table.values()}
    todo = list(seen)
    while todo:
        f = todo.pop()
        inner = [c.cell_contents for c in getattr(f, "__closure__", None) or ()]
        wrapped = {g for g in inner if isinstance(g, FunctionType)} - seen
        if getattr(f, "__code__", None) is marked:
            found.update(dict.fromkeys(g for g in inner if isinstance(g, FunctionType)))
        seen |= wrapped
        todo += wrapped
    return tuple(found)


@contextmanager
def without_dynamo() -> Iterator[None]:
    """Where torch does not import dynamo, a second of CPU time, to say that nothing here is for it."""
    own = [] if "torch._dynamo" in sys.modules else [f for f in _hidden_from_dynamo() if not hasattr(f, _HIDDEN)]
    for f in own:
        setattr(f, _HIDDEN, f)
    try:
        yield
    finally:
        for f in own:
            vars(f).pop(_HIDDEN, None)  # which another thread may have done


_recording: list[int] = []  # the threads that record
_lock = threading.Lock()


@contextmanager
def without_compilers() -> Iterator[None]:
    """Where ``torch.compile``, which ``torch.cond`` calls, raises: what it sees in a recording it would never compile again."""
    compiled = torch.compile

    @functools.wraps(compiled)
    def refusing(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() in _recording:
            raise NotRecorded("torch.compile")
        return compiled(*args, **kwargs)

    with _lock:
        if not _recording:
            torch.compile = refusing
            refusing.original = compiled  # type: ignore[attr-defined]
        _recording.append(threading.get_ident())
    try:
        yield
    finally:
        with _lock:
            _recording.remove(threading.get_ident())
            if not _recording:
                torch.compile = getattr(torch.compile, "original", torch.compile)


@contextmanager
def exporting() -> Iterator[None]:
    """Where torch says that it exports, as it does to a function that it does export."""
    compiler: Any = torch.compiler
    flags = compiler._is_compiling_flag, compiler._is_exporting_flag
    compiler._is_compiling_flag = compiler._is_exporting_flag = True
    try:
        yield
    finally:
        compiler._is_compiling_flag, compiler._is_exporting_flag = flags


@contextmanager
def not_by_fx() -> Iterator[None]:
    """Where torch does not say that it traces a graph: it makes no nested tensors then."""
    module: Any = torch.fx._symbolic_trace
    flag, module._is_fx_tracing_flag = module._is_fx_tracing_flag, False
    try:
        yield
    finally:
        module._is_fx_tracing_flag = flag
