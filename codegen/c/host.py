"""A standalone Python module with kernels in C: their source, what compiles it, and the host function ``run``.

The module needs only torch and a C compiler.  What it checks, allocates and launches is as for Triton (:mod:`..module`), but for the
device, and for strides: loops run along a dimension whose elements are neighbours, so ``run`` copies a tensor in which they are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from ...tiles.kernel import Buffer
from ...tiles.outside import OutsideCall
from ...tiles.program import Dot, Param, TileProgram
from ..host import Host, calculated, function, tuple_text
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
import functools
import inspect
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
MOST_PREPARED = 256  # kinds of tensors for which a function keeps what is prepared


def _function(name):
    """A kernel as a function of a number of programs, pointers and whole numbers."""
    global _library
    _library = _library or _build()
    function = getattr(_library, name)
    function.argtypes = [ctypes.c_int64, *(ctypes.c_void_p if t == "p" else ctypes.c_int64 for t in TYPES[name])]
    function.restype = None
    return function


def _prepared(prepare):
    """A function that calls what ``prepare`` returns, which checks tensors, once for all that are alike: in shape, strides, type, device
    and whether their signs are in memory."""
    known = {}

    @functools.wraps(prepare)
    def run(*tensors, **named):
        if named:
            tensors = inspect.signature(prepare).bind(*tensors, **named).args
        key = tuple([(t.shape, t.stride(), t.dtype, t.device, t.is_neg()) for t in tensors])
        launch = known.get(key)
        if launch is None:
            launch = prepare(*tensors)
            for oldest in list(known)[: 1 - MOST_PREPARED]:
                known.pop(oldest, None)
            known[key] = launch
        return launch(*tensors)

    run.prepare = prepare
    return run


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
    """Whether kernels can read the tensor as it is: with signs in its memory, and neighbours along the dimension ``unit``."""
    return not tensor.is_neg() and (unit is None or tensor.stride(unit) == 1 or tensor.shape[unit] <= 1)


def _copied(tensor, unit):
    """A copy that they can read."""
    tensor = tensor.detach().resolve_neg()
    return tensor if _readable(tensor, unit) else tensor.movedim(unit, -1).contiguous().movedim(-1, unit)
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
    """The host function of kernels in C.  What is the same for all tensors that are alike stands before the function ``launch`` that it
    returns: checks, lengths, strides, the kernels themselves."""

    def __init__(self, spec: ModuleSpec, called: str) -> None:
        super().__init__(spec, called)
        self.last = {}  # offsets have 64 bits
        self.loaded = {name for p in spec.kernels for name in p.loads()}
        self.same: dict[str, str] = {}  # what stays the same, and the variable that has it
        made = (b for b in (*spec.temporaries, *spec.outputs) if b.name not in {i.name for i in spec.inputs} | self.outside)
        self.dense = {b.name: b for b in made if b.name not in self.joined}
        self.taken = {*self.argument.values(), *self.sizes.names.values(), *re.findall(r"^def (\w+)", _HELPERS, re.MULTILINE)}

    def text(self) -> str:
        given = [self.argument[b.name] for b in self.spec.inputs]
        self.checks()
        copies = []
        for b in self.used:
            if b.name in self.loaded:
                name = self.argument[b.name]
                copied = self.variable(f"{name}_copied")
                copies.append(f"{name} = _copied({name}, {b.fastest}) if {copied} else {name}")
                self.lines += [f"{copied} = not _readable({name}, {b.fastest})", copies[-1]]
        launch = function("launch", given, "What is left to do for every call.", [*copies, *self.body()])
        self.lines += [f"{name} = {text}" for text, name in self.same.items()]
        return "@_prepared\n" + function(self.called, given, self.summary(), [*self.lines, "", *launch.split("\n"), "", "return launch"])

    def once(self, text: str, name: str) -> str:
        """What has the value of an expression that is the same for all tensors that are alike."""
        if text.isdigit() or text.isidentifier():
            return text
        if text not in self.same:
            self.same[text] = self.variable(name)
        return self.same[text]

    def variable(self, name: str) -> str:
        """A variable of its own."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    @property
    def device(self) -> str:
        return self.once(super().device, "device")

    def empty(self, lengths: list[str], b: Buffer) -> str:
        like = self.once(super().empty(["0"], b), f"new_{b.dtype.name}")
        strides = [calculated(lengths[d + 1 :] or ["1"], "*") for d in range(len(lengths))]
        return f"{like}.new_empty_strided({tuple_text(lengths)}, {tuple_text(strides)})"  # in a compiled graph torch.empty takes 5 us more

    def call(self, call: OutsideCall) -> Iterator[str]:
        yield from super().call(call)
        b = call.result.buffer
        if b.name in self.loaded:
            yield f"{self.argument[b.name]} = _copied({self.argument[b.name]}, {b.fastest})"

    def device_check(self, name: str) -> str:
        return f'_check_cpu("{name}", {name})'

    def divided(self, length: str, part: int) -> str:
        return f"-(-{length} // {part})"

    def launched(self, lines: list[str]) -> list[str]:
        return lines

    def launch(self, members: tuple[TileProgram, ...]) -> Iterator[str]:
        for program in members:
            name = function_name(program)
            given = [self.once(self.programs(program), f"{name}_programs"), *(self.value(p) for p in arguments(program))]
            kernel = self.once(f'_function("{name}")', name)
            yield f"{kernel}({', '.join(given)})"

    def value(self, p: Param) -> str:
        text = super().value(p)
        if p.kind == "pointer":
            return f"{text}.data_ptr()"
        if p.axis is not None or p.buffer is None:
            return text
        b = self.dense.get(p.buffer)
        if b is not None:  # made here, without gaps
            at = 0 if p.position is None else p.position + 1
            text = calculated([self.sizes.of_dimension(b, d) for d in range(at, len(b.shape))] or ["1"], "*")
        elif all(p.buffer != i.name for i in self.spec.inputs):
            return text
        return self.once(text, f"{self.argument[p.buffer]}_stride_{p.position}")


C = Language(_HELPERS, _kernels, lambda spec, called: _HostOfC(spec, called).text())
