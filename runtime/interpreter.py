"""Running generated kernels on CPU tensors through Triton's interpreter: an oracle for correctness, not a way to compute.

``TRITON_INTERPRET`` stays unset: for the time of one call, the compiled functions of the language's library and of the generated
module are exchanged for interpreted ones, and put back afterwards, so that a kernel can be compiled and interpreted in one process.
A tile operation costs about 0.05 ms whatever its size: use few, large tiles and small problems.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import triton
import triton.experimental.gluon  # triton imports it lazily, which fails while functions are exchanged
import triton.language as tl
import triton.language.random as tl_random
import triton.language.standard as tl_standard
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from .interpreter_patches import Language, patched_interpreter
from .modules import unload_module
from .sanitizer import sanitizer

# by identity: hashing a JITFunction parses its source, which fails while the language is patched
_interpreted: dict[int, tuple[JITFunction, InterpretedFunction]] = {}


@contextlib.contextmanager
def interpreter_mode(*modules: ModuleType) -> Iterator[Language]:
    """Inside the block, kernels of ``modules`` (from ``load_module(source, "interpret")``) are interpreted when launched.

    Other threads that compile kernels wait.  Warnings of numpy about overflow and NaN are off: these are ordinary values here.
    """
    with patched_interpreter() as language:
        saved: list[tuple[ModuleType, str, Any]] = []
        try:
            for module in (tl, tl.core, tl_standard, tl_random, tl.math, *modules):
                for name, value in list(vars(module).items()):
                    now = _interpreted_function(value) if isinstance(value, JITFunction) else language.now(value)
                    if now is not value:
                        saved.append((module, name, value))
                        setattr(module, name, now)
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="All-NaN")
                yield language
        finally:
            for module, name, value in reversed(saved):
                setattr(module, name, value)


def interpret(module: ModuleType, function: str, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
    """Call the host function ``module.function(*args)`` with its kernels interpreted, and return what it returns.

    ``module`` comes from ``load_module(source, "interpret")``; tensors are on the CPU.
    Raises :class:`~eqfuse.errors.KernelBug` (with ``sanitize``) at the first out-of-bounds access or race, and
    :class:`~eqfuse.errors.KernelError` for a line of a kernel that cannot be interpreted.
    """
    with interpreter_mode(module):
        run = getattr(module, function)
        if not sanitize:
            return run(*args, **kwargs)
        with sanitizer():
            return run(*args, **kwargs)


def forget(module: ModuleType) -> None:
    """Let go of a module from ``load_module`` and of what Triton keeps of its kernels, which is for as long as the process lives.

    For processes that interpret thousands of modules, each once.  Who holds the module can still use it.
    """
    for value in vars(module).values():
        if isinstance(value, JITFunction) and value.fn.__module__ == module.__name__:
            _interpreted.pop(id(value), None)
            InterpretedFunction.rewritten_fn.pop(value.fn, None)
    kept = getattr(triton.runtime.jit, "_triton_jit_function_registry", {})
    for key in [k for k in kept if k.startswith(f"{module.__name__}:")]:
        del kept[key]
    unload_module(module)


def _interpreted_function(function: JITFunction) -> InterpretedFunction:
    found = _interpreted.get(id(function))
    if found is None:
        found = _interpreted[id(function)] = (function, InterpretedFunction(function.fn))
    return found[1]
