"""Devices as data: one TOML file each, with the rates that the cost model reads and the limits that the static gate checks.

``load_target("h200")`` reads a file of this directory; a path reads a user's own file, an architecture name such as ``"sm_90"``
its representative device, and ``"auto"`` stands for what the environment variable ``EQFUSE_TARGET`` names; without it for the CUDA
device at hand, and where there is none for the CPU.  ``"cpu"`` is the machine at hand where ``eqfuse calibrate`` has measured it.
Rates are per second (bytes in 1e9, operations as each field says), sizes are bytes, ``launch_us`` is microseconds.  Where a
number comes from stands beside it in the file.
"""

from __future__ import annotations

import difflib
import functools
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import UnknownTargetError, expect
from .core import Core, Stated, core_of
from .levels import Level, levels_of
from .machine import calibrated

_DIRECTORY = Path(__file__).parent
VARIABLE = "EQFUSE_TARGET"  # the environment variable that names what "auto" stands for
_EXAMPLE = "h200"
WAYS = ("warp", "group", "block")  # who multiplies
REPRESENTATIVES = {"sm_80": "a100", "sm_89": "rtx6000ada", "sm_90": "h200", "sm_100": "b200", "gfx942": "mi300x"}


@dataclass(frozen=True)
class Target(Stated):
    """What the model knows about one device.  "SM" is AMD's compute unit, "CTA" its workgroup, "warp" its wave."""

    name: str
    vendor: str  # "nvidia" | "amd" | "cpu"
    arch: str  # "sm_90", "gfx942", "cpu"
    device_names: tuple[str, ...]  # parts of the driver's device name that identify it
    sm_count: int
    clock_ghz: float
    simt_gops: float  # 1e9 float32 instructions per second, a fused multiply-add being one
    special_gops: float  # 1e9 special-function instructions (exp2, rsqrt, ...) per second
    registers_per_thread: int
    tile_registers: int  # of these, what the tiles of a kernel may take by the model's count before the compiler spills
    register_granule: int  # registers handed out at a time to a warp
    threads_per_sm: int
    ctas_per_sm: int
    warp_size: int
    tensor_memory_columns: int
    launch_us: float
    link_gb_s: float  # to other devices of the node, in one direction
    link_us: float  # what a collective takes however little it moves
    tensor_tflops: Mapping[str, float]  # dense TFLOP/s by "float16" | "bfloat16" | "tf32"
    levels: tuple[Level, ...]  # memories, outermost first
    issue_per_clock: float = 4.0  # instructions of warps that an SM issues
    matrix_way: str = "warp"  # who multiplies: "warp" | "group" of four warps | "block" (:mod:`eqfuse.extract.units`)
    warp_share: float = 1.0  # of the rate of the matrix unit, by products of a warp
    descriptor_us: float = 0.0  # what a launch takes longer for each tensor descriptor; 0 where none are used
    library_us: float = 5.0  # what a call of the vendor's library takes before it computes
    library_tflops: Mapping[str, float] = field(default_factory=dict)  # its matrix products by element type; of no other is one called
    core: Core | None = None  # of a CPU
    measured: str = ""  # when and on what, if its numbers are those of a machine

    def __hash__(self) -> int:
        return hash((self.name, self.arch))

    @property
    def on_cpu(self) -> bool:
        """Kernels for it are C, and run on tensors in memory."""
        return self.vendor == "cpu"

    @property
    def device(self) -> str:
        """What torch calls the kind of device that kernels for it run on."""
        return "cpu" if self.on_cpu else "cuda"

    def _of(self, scope: str) -> list[Level]:
        return [x for x in self.levels if x.scope == scope]

    @cached_property
    def dram_gb_s(self) -> float:
        """What the memory of the device gives, in 1e9 bytes per second."""
        return self._of("device")[0].gb_s

    @cached_property
    def cache(self) -> Level:
        """The last memory before the SMs that all of them share: the L2 of the cost model."""
        return self._of("device")[-1]

    @property
    def l2_gb_s(self) -> float:
        """What :attr:`cache` gives, in 1e9 bytes per second."""
        return self.cache.gb_s

    @property
    def l2_bytes(self) -> int:
        """The size of :attr:`cache`."""
        return int(self.cache.bytes)

    @cached_property
    def on_chip(self) -> Level:
        """The memory of an SM where tiles lie: the shared memory of the cost model."""
        return self._of("sm")[0]

    @property
    def shared_bytes_per_sm(self) -> int:
        """The size of :attr:`on_chip`."""
        return int(self.on_chip.bytes)

    @property
    def shared_bytes_per_block(self) -> int:
        """Bytes of it that one CTA may use."""
        return int(self.on_chip.for_tiles)

    def least_us(self, bytes_: float) -> float:
        """Microseconds in which a kernel moves so many bytes at least.  A CPU has what its caches hold from the call before, and may read
        memory faster than it copies, which is what its rate says."""
        if self.core is None:
            return bytes_ / (self.dram_gb_s * 1e3)
        memory = self.core.levels[-1]
        held = self.core.levels[-2].bytes if len(self.core.levels) > 1 else 0.0
        return bytes_ / (self.dram_gb_s * 1e3 * max(memory.read_gb_s / memory.copy_gb_s, 1.0)) if bytes_ > held else 0.0

    @property
    def registers_per_sm(self) -> int:
        """Words of 4 bytes for the values of programs.  Those of a CPU lie in its caches: as many as no kernel needs."""
        return 1 << 18 if self.on_cpu else int(self.levels[-1].bytes) // 4

    def with_level(self, name: str, **changes: float) -> Target:
        """The same device but for some numbers of one level: ``with_level("dram", gb_s=4300.0)``."""
        return replace(self, levels=tuple(replace(x, **changes) if x.name == name else x for x in self.levels))  # type: ignore[arg-type]

    def tensor_rate(self, operand: str) -> float:
        """TFLOP/s of a matrix product with operands of type ``operand``; IEEE ``float32`` runs on the SIMT units.

        ``operand`` is a dtype name or ``"tf32"``.  Two operations per multiply-add, as the tensor rates count them.
        """
        return self.tensor_tflops.get(operand, 2e-3 * self.simt_gops)

    @property
    def narrow_products(self) -> int:
        """How many matrix products of operands of 16 bits take no longer than one of float32; at least 1."""
        return max(1, int(self.tensor_rate("float16") / self.tensor_rate("float32")))

    def occupancy(self, *, registers: int, shared_bytes: int, num_warps: int) -> int:
        """How many CTAs fit an SM at a time; 0 means that the kernel cannot be launched.

        ``registers`` are per thread; ``num_warps`` counts all warps of the CTA.
        """
        threads = num_warps * self.warp_size
        if shared_bytes > self.shared_bytes_per_block or registers > self.registers_per_thread or threads > 1024:
            return 0
        granule = self.register_granule
        per_warp = -(-max(registers, 1) * self.warp_size // granule) * granule
        by_registers = self.registers_per_sm // per_warp // num_warps
        by_shared = self.shared_bytes_per_sm // (shared_bytes + self.on_chip.reserved) if shared_bytes else self.ctas_per_sm
        return min(by_registers, by_shared, self.threads_per_sm // threads, self.ctas_per_sm)


def targets() -> list[str]:
    """The names of the devices in this directory, sorted."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.toml"))


def load_target(name: str | Path | Target) -> Target:
    """A target by device name, architecture name, path of a TOML file, or ``"auto"``.

    Raises :class:`~eqfuse.errors.UnknownTargetError` for anything else, with the nearest known name.
    """
    if isinstance(name, Target):
        return name
    expect(isinstance(name, str | Path), "target", name, f"a name, as in target={_EXAMPLE!r}: {', '.join(targets())}", UnknownTargetError)
    text = str(name)
    if text == "auto":
        return _device_at_hand()
    if isinstance(name, Path) or text.endswith(".toml"):
        return _read(Path(text).expanduser())
    if text == "cpu" and (mine := calibrated()) is not None:
        return _of_machine(mine, mine.stat().st_mtime_ns)
    known = targets()
    text = REPRESENTATIVES.get(text, text)
    if text not in known:
        choices = [*known, *REPRESENTATIVES, "auto"]
        close = difflib.get_close_matches(text.lower(), choices, n=1)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        if text.lower() in ("cuda", "gpu", "hip", "rocm"):
            hint = '"auto" is the GPU at hand, or the CPU where torch finds none; '
        raise UnknownTargetError(
            f'no target is called "{name}"',
            cure=f"{hint}known targets: {', '.join(choices)}; or the path of a .toml file like extract/targets/{_EXAMPLE}.toml",
        )
    return bundled(text)


@functools.cache
def bundled(name: str) -> Target:
    """A target of this directory."""
    return _read(_DIRECTORY / f"{name}.toml")


@functools.lru_cache(1)
def _of_machine(path: Path, _: int) -> Target:
    return _read(path)


def _read(path: Path) -> Target:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnknownTargetError("no such file", where=str(path), cure=f"known targets: {', '.join(targets())}") from None
    except (OSError, ValueError) as error:
        raise UnknownTargetError(f"not a readable TOML file: {error}", where=str(path)) from error
    return _target(table, path)


def _target(table: dict[str, Any], path: Path) -> Target:
    """Check a parsed file field by field and freeze it."""
    declared = {field.name: str(field.type) for field in fields(Target)}
    needed = {field.name for field in fields(Target) if field.default is MISSING and field.default_factory is MISSING}
    missing, unknown = sorted(needed - table.keys()), sorted(table.keys() - declared.keys())
    if missing or unknown:
        said = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise UnknownTargetError(f"a target file with {' and '.join(said)}", where=str(path))
    try:
        levels = levels_of(table["levels"])
    except ValueError as wrong:
        raise UnknownTargetError(str(wrong), where=str(path)) from None
    absent = {f.name for f in fields(Target) if f.default == 0.0}
    values = {key: _field(key, declared[key], table[key], path, key in absent) for key in declared if key in table and key != "levels"}
    if (way := values.get("matrix_way", "warp")) not in WAYS:
        raise UnknownTargetError(f"matrix_way = {way!r} is not one of {', '.join(WAYS)}", where=str(path))
    if values["vendor"] == "cpu" and "core" not in values:
        raise UnknownTargetError("a target file of a CPU without a table [core]", where=str(path), cure="eqfuse calibrate --output")
    return Target(**values, levels=levels)


def _field(key: str, declared: str, value: Any, path: Path, zero: bool) -> Any:
    """One value, converted to its declared type.  ``zero``: a number may be 0, for what a device has not."""
    if declared == "str" and isinstance(value, str):
        return value
    if declared.startswith("Core"):
        try:
            return core_of(value)
        except ValueError as wrong:
            raise UnknownTargetError(f"core: {wrong}", where=str(path)) from None
    if declared == "int" and type(value) is int and value >= 0:
        return value
    if declared == "float" and type(value) in (int, float) and (value > 0 or (zero and value == 0)):
        return float(value)
    if declared.startswith("tuple") and isinstance(value, list) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if declared.startswith("Mapping") and isinstance(value, dict) and all(type(v) in (int, float) for v in value.values()):
        return MappingProxyType({k: float(v) for k, v in value.items()})
    raise UnknownTargetError(f"{key} = {value!r} is not a valid {declared.split('[')[0]}", where=str(path))


def _device_at_hand() -> Target:
    """What the environment names; else the target that fits the current CUDA (or ROCm) device, by name or by architecture; else the CPU."""
    named = os.environ.get(VARIABLE, "").strip()
    if named not in ("", "auto"):
        try:
            return load_target(named)
        except UnknownTargetError as error:
            raise UnknownTargetError(error.message, where=f"{VARIABLE}={named}", cure=error.cure) from None
    import torch

    if not torch.cuda.is_available():
        return load_target("cpu")
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return _for_device(properties.name, getattr(properties, "gcnArchName", ""), (properties.major, properties.minor))


def _for_device(name: str, gcn_arch: str, capability: tuple[int, int]) -> Target:
    known = [bundled(target) for target in targets()]
    for target in sorted(known, key=lambda t: -max(map(len, t.device_names))):
        if any(part.lower() in name.lower() for part in target.device_names):
            return target
    arch = gcn_arch.split(":")[0] if gcn_arch else f"sm_{capability[0]}{capability[1]}"
    if arch not in REPRESENTATIVES:
        raise UnknownTargetError(
            f"no target file fits the device {name} ({arch})", cure=f'optimize(..., target="{_EXAMPLE}") or the path of a .toml file'
        )
    return bundled(REPRESENTATIVES[arch])
