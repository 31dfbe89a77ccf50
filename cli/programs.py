"""What the command line names: a function in a file, which is executed, and tensors by their shapes."""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import EqFuseError, SourceError

if TYPE_CHECKING:
    import torch


class UsageError(Exception):
    """Something on the command line does not name what it should; exit code 2.  ``cure`` says what to try."""

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message + (f"\n  try: {cure}" if cure else ""))


@dataclass(frozen=True)
class Shape:
    """An argument described on the command line."""

    name: str
    dims: tuple[int, ...]
    dtype: str

    def tensor(self) -> torch.Tensor:
        """A tensor without data: planning reads shapes and types only, so any size is free."""
        import torch

        try:
            return torch.empty(self.dims, dtype=getattr(torch, self.dtype), device="meta")
        except (RuntimeError, TypeError, OverflowError):
            raise UsageError(f"--shape {self.name}: no tensor is that large", cure="dimensions whose product is below 2**63") from None


DTYPES = ("float16", "bfloat16", "float32", "int32", "int64", "bool")


def shape_spec(text: str) -> Shape:
    """``q=1,32,4096,128:float16``."""
    found = re.fullmatch(r"(\w+)=(\d+(?:,\d+)*)?(?::(\w+))?", text.replace(" ", ""))
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DIMS[:DTYPE], such as q=1,32,4096,128:float16")
    name, dims, dtype = found.groups()
    if dtype and dtype not in DTYPES:
        raise argparse.ArgumentTypeError(f"unknown element type {dtype!r}; one of {', '.join(DTYPES)}")
    return Shape(name, tuple(map(int, dims.split(","))) if dims else (), dtype or "float32")


def load_file(path: Path) -> ModuleType:
    """Import a Python file under its own name, with its folder importable, as if it were run."""
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    if path.suffix != ".py":
        raise UsageError(f"{path} is no Python file", cure="a file whose name ends in .py")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    with executing(path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def executing(path: Path, what: str = "the file is executed first, as python FILE would do it") -> Iterator[None]:
    """Turns what a user's file raises into a :class:`~eqfuse.errors.SourceError` with the line of the file; our own errors have one."""
    try:
        yield
    except EqFuseError:
        raise
    except SystemExit as error:
        raise SourceError(
            f"it ends the process: sys.exit({'' if error.code is None else repr(error.code)})",
            where=_own_line(path, error),
            cure="""put what is for a run as a script under if __name__ == "__main__":""",
        ) from error
    except SyntaxError as error:
        file, text = Path(error.filename or path).name, (error.text or "").strip()
        message = f"{type(error).__name__}: {error.msg}"
        where = f"{file}:{error.lineno}  {text}"
        raise SourceError(message, where=where, cure="correct the syntax of this line, or of one above it") from error
    except Exception as error:
        cure = "install it, or run where it can be imported" if isinstance(error, ImportError) else f"{what}: correct what raises"
        raise SourceError(f"{type(error).__name__}: {error}", where=_own_line(path, error), cure=cure) from error


def _own_line(path: Path, error: BaseException) -> str:
    """The line of a file in which an error came up, or was passed on last."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    return f"{path.name}:{own[-1].lineno}  {(own[-1].line or '').strip()}" if own else path.name


def load_program(args: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    """The function that was named and its example arguments."""
    file, _, name = args.program.rpartition(":")
    if not file or not name.isidentifier():
        raise UsageError(f"{args.program!r} is not FILE:FUNCTION, such as model.py:attention")
    module = load_file(Path(file))

    def member(wanted: str) -> Any:
        if not hasattr(module, wanted):
            own = sorted(n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__)
            close = difflib.get_close_matches(wanted, own, n=1)
            cure = f"{file}:{close[0]}" if close and wanted == name else ""
            raise UsageError(f"{file} has no {wanted!r}; it defines: {', '.join(own) or 'nothing callable'}", cure=cure)
        return getattr(module, wanted)

    function = member(name)
    if isinstance(function, type):
        raise UsageError(f"{name} is a class", cure=f"an object of it in the file, such as model = {name}(), and {file}:model")
    if args.shape:
        return function, tuple(s.tensor() for s in in_order(function, args.shape, name))
    if not args.args and not hasattr(module, "example_args"):
        parameters = _parameters(function, name)
        shapes = " ".join(f"--shape {p.name}=DIMS" for p in parameters if p.default is p.empty) or "--shape NAME=DIMS"
        raise UsageError(
            f"{file} has no example_args(); describe the arguments of {_called(function, name)} with --shape or --args", cure=shapes
        )
    make = member(args.args or "example_args")
    if not callable(make):
        raise UsageError(f"{args.args or 'example_args'} is no function but a {type(make).__name__}", cure="--args with a function")
    with executing(Path(file), "it is called for the example arguments"):
        made = make()
    return function, tuple(made) if isinstance(made, tuple | list) else (made,)


def _parameters(function: Any, name: str) -> list[inspect.Parameter]:
    """What a function, or the forward of a module, takes."""
    called = function.forward if hasattr(function, "forward") else function
    if not callable(called):
        raise UsageError(f"{name} is no function or nn.Module but a {type(function).__name__}")
    try:
        return list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):  # a function in C, of which Python knows no names
        raise UsageError(f"the parameters of {name} have no names", cure="--args, or a function of your own that calls it") from None


def _called(function: Any, name: str) -> str:
    """A function with its arguments and its place, for messages."""
    code = getattr(function.forward if hasattr(function, "forward") else function, "__code__", None)
    place = f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
    return f"{name}({', '.join(p.name for p in _parameters(function, name))}){place}"


def in_order(function: Any, shapes: Sequence[Shape], name: str = "the function") -> list[Shape]:
    """The shapes in the order of the function's parameters; each must name one, and each parameter without a default needs one."""
    parameters = _parameters(function, name)
    names = [p.name for p in parameters]
    given = [s.name for s in shapes]
    if len(set(given)) != len(given):
        raise UsageError(f"an argument is given twice: {', '.join(given)}", cure="one --shape for each argument")
    unknown = [n for n in given if n not in names]
    if unknown:
        close = difflib.get_close_matches(unknown[0], names, n=1)
        cure = f"did you mean {close[0]}?" if close else ""
        raise UsageError(f"no parameter {', '.join(map(repr, unknown))}; the function takes {', '.join(names)}", cure=cure)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if missing := [n for n in needed if n not in given]:
        raise UsageError(
            f"no --shape for {', '.join(map(repr, missing))} of {_called(function, name)}",
            cure=" ".join(f"--shape {n}=DIMS" for n in missing) + ", with DIMS such as 4096,128 or 4096,128:float16",
        )
    return sorted(shapes, key=lambda s: names.index(s.name))


def reduced(args: Sequence[Any], limit: int = 200, to: int = 197) -> tuple[Any, ...]:
    """The arguments with every dimension above ``limit`` cut to ``to``: equal sizes stay equal.

    Tensors without data get random values, normal ones for floats and zeros and ones for the rest.
    """
    import torch

    def cut(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        shape = [to if n > limit else n for n in x.shape]
        if not x.is_meta:
            return x[tuple(slice(0, n) for n in shape)].contiguous()
        return (torch.randn(shape) if x.is_floating_point() else torch.randint(0, 2, shape)).to(x.dtype)

    return tuple(map(cut, args))
