"""A standalone Python module with kernels in C: their source, what compiles it, and the host function ``run``.

The module needs only torch and a C compiler.  What it checks, allocates and launches is as for Triton (:mod:`..module`), but for the
device, and for strides: loops run along a dimension whose elements are neighbours, so ``run`` copies a tensor in which they are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ...tiles.kernel import Buffer
from ...tiles.outside import OutsideCall
from ...tiles.program import Dot, Param, TileProgram
from ..host import Host
from ..module import docstring, imports_of_calls, joined
from ..sizes import Language, ModuleSpec
from .printer import arguments, function_name, print_function

FLAGS = (
    "-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fPIC", "-shared",
    "-Werror=implicit-function-declaration",
)  # fmt: skip
# what is tried in turn: only some processors have vectors to prefer, and some compilers come without the library behind OpenMP
ATTEMPTS = (("-fopenmp", "-mprefer-vector-width=512"), ("-fopenmp",), ("-fopenmp-simd",), ())


@cache
def header(name: str = "functions.h") -> str:
    """What kernels call: ``functions.h``, and ``products.h`` after it."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def translation_unit(programs: Iterable[TileProgram]) -> str:
    """Kernels as one C file, which needs no other.  Raises PlanError for one that there is no C for."""
    programs = tuple(programs)
    products = any(isinstance(s, Dot) for p in programs for s in p.statements())
    return "\n".join([header(), *([header("products.h")] if products else []), *map(print_function, programs)])


_IMPORTS = """
import ctypes
import os
import shutil
import subprocess
import tempfile

import torch
"""
_HELPERS = '''
def _build():
    """The kernels as a library, compiled by the compiler of this system in a directory that is gone afterwards."""
    found = [c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)]
    if not found:
        raise RuntimeError("no C compiler: install gcc or clang, or set CC")
    with tempfile.TemporaryDirectory(prefix="eqfuse-") as folder:
        source, library = os.path.join(folder, "kernels.c"), os.path.join(folder, "kernels.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        for more in ATTEMPTS:
            done = subprocess.run([found[0], *FLAGS, *more, "-o", library, source, "-lm"], capture_output=True, text=True)
            if done.returncode == 0:
                return ctypes.CDLL(library)
    raise RuntimeError(f"{found[0]} cannot compile the kernels: {done.stderr}")


_library = None  # what _build makes, when it is first needed; whoever has it already may put it here
_functions = {}


def _function(name):
    """A kernel as a function of a number of programs, pointers and whole numbers."""
    global _library
    if name not in _functions:
        _library = _library or _build()
        function = getattr(_library, name)
        function.argtypes = [ctypes.c_int64, *(ctypes.c_void_p if t == "p" else ctypes.c_int64 for t in TYPES[name])]
        function.restype = None
        _functions[name] = function
    return _functions[name]


def _check_tensor(name, tensor, dtype, dims):
    """Raise ValueError unless ``tensor`` has the element type and the number of dimensions that the kernels expect."""
    if tensor.dtype != dtype or tensor.dim() != dims:
        raise ValueError(f"{name} must be a {dims}-dimensional tensor of {dtype}, not {tensor.dim()}-dimensional of {tensor.dtype}")


def _check_cpu(name, tensor):
    """Raise ValueError for a tensor that is not in memory."""
    if tensor.device.type != "cpu":
        raise ValueError(f"{name} is on {tensor.device}: these kernels are for CPUs; move it with .cpu()")


def _check_shape(name, tensor, shape):
    """Raise ValueError unless the shape fits those of the other arguments."""
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; the other arguments and the plan require {shape}")


def _check_size(axis, condition, requirement):
    """Raise ValueError unless a size is one that the kernels were planned for."""
    if not condition:
        raise ValueError(f"the kernels were planned for {axis} {requirement}; optimize again for this shape")


def _readable(tensor, unit):
    """The tensor as kernels can read it, copied if need be: with signs in its memory, and neighbours along the dimension ``unit``."""
    tensor = tensor.detach().resolve_neg()
    if unit is None or tensor.stride(unit) == 1 or tensor.shape[unit] <= 1:
        return tensor
    return tensor.movedim(unit, -1).contiguous().movedim(-1, unit)
'''


def _kernels(spec: ModuleSpec) -> str:
    """The module without its host function."""
    source = translation_unit(spec.kernels).replace("\\", "\\\\")
    assert '"""' not in source
    types = {function_name(p): "".join(a.kind[0] for a in arguments(p)) for p in spec.kernels}
    table = "".join(f'\n    "{name}": "{t}",' for name, t in types.items())
    constants = f"FLAGS = {FLAGS!r}\nATTEMPTS = {ATTEMPTS!r}\nTYPES = {{  # of arguments: p for a pointer, i for a whole number{table}\n}}"
    return joined([docstring(spec), _IMPORTS + imports_of_calls(spec), constants, f'SOURCE = """\n{source}"""'])


class _HostOfC(Host):
    """The host function of kernels in C."""

    def __init__(self, spec: ModuleSpec, called: str) -> None:
        super().__init__(spec, called)
        self.last = {}  # offsets have 64 bits

    def checks(self) -> None:
        super().checks()
        for b in self.used:
            self.lines += self.made_readable(b)

    def call(self, call: OutsideCall) -> Iterator[str]:
        yield from super().call(call)
        yield from self.made_readable(call.result.buffer)

    def made_readable(self, b: Buffer) -> Iterator[str]:
        """The statement that gives kernels a tensor that they did not make."""
        if any(b.name in p.loads() for p in self.spec.kernels):
            yield f"{self.argument[b.name]} = _readable({self.argument[b.name]}, {b.fastest})"

    def device_check(self, name: str) -> str:
        return f'_check_cpu("{name}", {name})'

    def divided(self, length: str, part: int) -> str:
        return f"-(-{length} // {part})"

    def launched(self, lines: list[str]) -> list[str]:
        return lines

    def launch(self, members: tuple[TileProgram, ...]) -> Iterator[str]:
        for program in members:
            given = [self.value(p) for p in arguments(program)]
            yield f'_function("{function_name(program)}")({", ".join([self.programs(program), *given])})'

    def value(self, p: Param) -> str:
        return super().value(p) + (".data_ptr()" if p.kind == "pointer" else "")


C = Language(_HELPERS, _kernels, lambda spec, called: _HostOfC(spec, called).text())
