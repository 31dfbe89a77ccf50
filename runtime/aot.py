"""Compiling kernels ahead of time, without a GPU, and judging the result: registers, spills, shared memory, launchability.

The compiler itself accepts kernels that no device can launch (more shared memory than a CTA may have) and says nothing of spilled
registers; the gate here does.  A kernel is compiled with the facts that a launch would find: pointers and integers divisible by 16
say so (without this nothing is vectorised), and integers that are 1 are constants.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from ..codegen.text import parameter_type
from ..errors import CompileError
from ..extract.targets import Target, load_target
from ..tiles.program import Param
from . import binary
from .interpreter_patches import LANGUAGE_LOCK

_DIVISIBLE_BY_16 = [["tt.divisibility", 16]]


@dataclass(frozen=True)
class StaticReport:
    """What the compiled kernel needs of the device.  ``ok`` means that nothing in ``exceeded`` forbids or spoils it."""

    kernel: str
    arch: str
    registers: int  # per thread
    spill_bytes: int  # per thread, written by spilling stores (a slot may be written more than once)
    stack_bytes: int  # per thread, the slots of spilled registers included
    shared_bytes: int  # per CTA
    tensor_memory: int  # columns (sm_100)
    warps: int  # per CTA, those that the compiler added included
    occupancy: int  # CTAs per SM; 0 cannot be launched
    exceeded: tuple[str, ...]
    compile_ms: float
    modelled_us: float | None = field(default=None, compare=False)  # what a launch takes: by the model of plans,
    static_us: float | None = field(default=None, compare=False)  # by its machine code, and by a clock, where optimize(refine=...) asked
    measured_us: float | None = field(default=None, compare=False)
    instructions: Mapping[str, int] | None = field(default=None, compare=False)  # static counts by group, if asked for
    assembly: str = field(default="", repr=False, compare=False)  # PTX or AMD assembly
    ttgir: str = field(default="", repr=False, compare=False)  # Triton's IR of it on the GPU
    machine_code: bytes = field(default=b"", repr=False, compare=False)  # NVIDIA's object file

    @property
    def ok(self) -> bool:
        """Whether the kernel passes the static gate."""
        return not self.exceeded

    def __str__(self) -> str:
        verdict = "ok" if self.ok else "; ".join(self.exceeded)
        return (
            f"{self.kernel} {self.arch}: {self.registers} registers, {self.spill_bytes} B spilled, {self.shared_bytes} B shared, "
            f"{self.occupancy} CTAs/SM, {self.compile_ms:.0f} ms{self.times}: {verdict}"
        )

    @property
    def times(self) -> str:
        """What a launch takes, as far as it is known."""
        by = {"modelled": self.modelled_us, "static": self.static_us, "measured": self.measured_us}
        known = ", ".join(f"{us:.1f} us {how}" for how, us in by.items() if us is not None)
        return f", {known}" if known else ""


def compile_kernel(
    module: ModuleType,
    kernel: str,
    params: Sequence[Param],
    target: Target | str,
    num_warps: int = 4,
    num_stages: int = 2,
    *,
    instructions: bool = False,
    registers: int = 0,
    contract: bool = True,
) -> StaticReport:
    """Compile ``module.kernel`` for a target and report.  ``module`` comes from ``load_module(source, "aot")``.

    ``params`` describe the kernel's parameters in order.  ``instructions`` adds the instruction mix (about one second on NVIDIA).
    ``registers``: what a thread may take at most, if not 0; ``contract``: the compiler may make one operation of a product and a sum.
    Raises :class:`~eqfuse.errors.CompileError` if Triton rejects the kernel; a kernel that compiles but cannot run well has
    ``report.ok == False``.
    """
    device = load_target(target)
    function = getattr(module, kernel)
    if not isinstance(function, JITFunction):
        raise CompileError(
            "this kernel is set up for Triton's interpreter", where=kernel, cure="unset TRITON_INTERPRET, compile outside interpreter_mode"
        )
    where = f"{kernel} ({device.arch}, {num_warps} warps, {num_stages} stages)"
    started = time.perf_counter()
    compiled, log = _compile(_source(function, params), device, num_warps, num_stages, registers, contract, where)
    elapsed = 1e3 * (time.perf_counter() - started)
    return _report(kernel, device, compiled, log, elapsed, instructions)


def gpu_target(target: Target) -> GPUTarget:
    """Triton's name of a target."""
    if target.vendor == "nvidia":
        return GPUTarget("cuda", int(target.arch.removeprefix("sm_")), target.warp_size)
    return GPUTarget("hip", target.arch, target.warp_size)


def _source(function: JITFunction, params: Sequence[Param]) -> ASTSource:
    """The kernel with its signature, specialised as a launch with the planned values would be."""
    names = [p.name for p in params]
    if names != list(function.arg_names):
        raise AssertionError(f"{function.__name__} takes {list(function.arg_names)}, described as {names}")
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for i, p in enumerate(params):
        if p.kind == "constexpr" or (p.kind == "int" and p.value == 1):
            types[p.name], constants[p.name] = "constexpr", p.value
            continue
        types[p.name] = parameter_type(p)
        if p.kind == "pointer" or (p.value is not None and p.value % 16 == 0):
            attributes[(i,)] = _DIVISIBLE_BY_16
    return ASTSource(fn=function, signature=types, constexprs=constants, attrs=attributes)


_logs: dict[str, str] = {}  # by the compiler's hash of a kernel: what was printed when this process compiled it


def _compile(
    source: ASTSource, device: Target, num_warps: int, num_stages: int, registers: int, contract: bool, where: str
) -> tuple[Any, str]:
    """Run the compiler in its own cache, silently; returns the compiled kernel and what was printed."""
    options = {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": contract}
    if registers:
        options["maxnreg"] = registers
    with LANGUAGE_LOCK, _silence() as noise, _compiler_settings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compiled = triton.compile(source, target=gpu_target(device), options=options)
        except Exception as error:
            printed = noise()
            raise CompileError(_first_relevant_line(error, printed), where=where) from error
        return compiled, _logs.setdefault(compiled.metadata.hash, noise())  # a kernel from the cache comes without one


@functools.cache
def _cache() -> tempfile.TemporaryDirectory[str]:
    """Triton's cache of this process, deleted when it ends: a report is never about a foreign artefact."""
    return tempfile.TemporaryDirectory(prefix="eqfuse-triton-")


@contextlib.contextmanager
def _compiler_settings() -> Iterator[None]:
    """Triton's knobs for the time of one compilation; those that a version lacks are left alone."""
    knobs = triton.knobs
    with knobs.cache.scope(), knobs.nvidia.scope():
        knobs.cache.dir = _cache().name
        if hasattr(knobs.nvidia, "dump_ptxas_log"):
            knobs.nvidia.dump_ptxas_log = True  # the one place that tells spilled bytes from other stack
        yield


@contextlib.contextmanager
def _silence() -> Iterator[Any]:
    """Keep what the compiler prints, from Python and from C++, off the terminal; yields a function that returns it."""
    printed = io.StringIO()
    with tempfile.TemporaryFile() as file:
        if sys.stderr is not None:
            sys.stderr.flush()
        try:
            saved: int | None = os.dup(2)
            os.dup2(file.fileno(), 2)
        except OSError:  # a process without a standard error
            saved = None

        def read() -> str:
            size = file.seek(0, os.SEEK_END)
            return printed.getvalue() + os.pread(file.fileno(), size, 0).decode(errors="replace")

        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                yield read
        finally:
            if saved is not None:
                os.dup2(saved, 2)
                os.close(saved)


def _first_relevant_line(error: BaseException, printed: str) -> str:
    """One line that says what was wrong: the compiler's own diagnosis before the exception's text."""
    for text in (str(error), printed):
        for line in text.splitlines():
            if re.search(r"\berror\b|fatal\b", line, re.IGNORECASE) and "PTXAS error" not in line:
                return line.strip()
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    cause = error.__cause__
    if cause is not None and str(cause):
        lines.append(str(cause).splitlines()[0])
    said = lines[-1] if lines else type(error).__name__
    place = re.match(r"at (\d+):\d+", lines[0]) if lines else None
    return f"line {place.group(1)} of the kernel: {said}" if place else said


def _report(kernel: str, device: Target, compiled: Any, log: str, elapsed: float, instructions: bool) -> StaticReport:
    metadata = compiled.metadata
    mix: Mapping[str, int] | None = None
    if device.vendor == "nvidia":
        cubin = compiled.asm["cubin"]
        found = binary.nvidia_resources(cubin)
        spilled = binary.nvidia_spills(log)
        spill_bytes = found["stack"] if spilled is None else spilled
        mix = binary.nvidia_instructions(cubin) if instructions else None
        assembly = compiled.asm["ptx"]
    else:
        assembly = compiled.asm["amdgcn"]
        found = binary.amd_resources(assembly)
        spill_bytes = found["spills"]
        mix = binary.amd_instructions(assembly) if instructions else None
    tensor_memory = int(getattr(metadata, "tmem_size", None) or 0)
    shared, warps = int(metadata.shared), int(metadata.num_warps)
    occupancy = device.occupancy(registers=found["registers"], shared_bytes=shared, num_warps=warps)
    return StaticReport(
        kernel=kernel,
        arch=device.arch,
        registers=found["registers"],
        spill_bytes=spill_bytes,
        stack_bytes=found["stack"],
        shared_bytes=shared,
        tensor_memory=tensor_memory,
        warps=warps,
        occupancy=occupancy,
        exceeded=_exceeded(device, spill_bytes, shared, tensor_memory, occupancy),
        compile_ms=elapsed,
        instructions=mix,
        assembly=assembly,
        ttgir=compiled.asm["ttgir"],
        machine_code=compiled.asm.get("cubin", b""),
    )


def _exceeded(device: Target, spill_bytes: int, shared: int, tensor_memory: int, occupancy: int) -> tuple[str, ...]:
    """The gate: what forbids a launch, and what makes it slow."""
    said = []
    if shared > device.shared_bytes_per_block:
        said.append(f"shared memory {shared} B > {device.shared_bytes_per_block} B")
    if tensor_memory > device.tensor_memory_columns:
        said.append(f"tensor memory {tensor_memory} columns > {device.tensor_memory_columns}")
    if spill_bytes:
        said.append(f"spills {spill_bytes} B per thread (optimize(no_spills=True) plans around that)")
    if occupancy == 0:
        said.append("cannot be launched: not one CTA fits an SM")
    return tuple(said)
