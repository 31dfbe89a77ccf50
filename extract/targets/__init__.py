"""Devices as data: one TOML file each, with the rates that the cost model reads and the limits that the static gate checks.

``load_target("h200")`` reads a file of this directory; a path reads a user's own file, an architecture name such as ``"sm_90"``
its representative device, and ``"auto"`` stands for what the environment variable ``EQFUSE_TARGET`` names; without it for the CUDA
device at hand, and where there is none for the CPU.
Rates are per second (bytes in 1e9, operations as each field says), sizes are bytes, ``launch_us`` is microseconds.  Where a
number comes from stands beside it in the file.
"""

from __future__ import annotations

import difflib
import functools
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import UnknownTargetError, expect

_DIRECTORY = Path(__file__).parent
VARIABLE = "EQFUSE_TARGET"  # the environment variable that names what "auto" stands for
_EXAMPLE = "h200"
REPRESENTATIVES = {"sm_80": "a100", "sm_89": "rtx6000ada", "sm_90": "h200", "sm_100": "b200", "gfx942": "mi300x"}


@dataclass(frozen=True)
class Target:
    """What the model knows about one device.  "SM" is AMD's compute unit, "CTA" its workgroup, "warp" its wave."""

    name: str
    vendor: str  # "nvidia" | "amd" | "cpu"
    arch: str  # "sm_90", "gfx942", "cpu"
    device_names: tuple[str, ...]  # parts of the driver's device name that identify it
    sm_count: int
    clock_ghz: float
    dram_gb_s: float
    l2_gb_s: float
    l2_bytes: int
    simt_gops: float  # 1e9 float32 instructions per second, a fused multiply-add being one
    special_gops: float  # 1e9 special-function instructions (exp2, rsqrt, ...) per second
    shared_bytes_per_block: int  # bytes that one CTA may use
    shared_bytes_per_sm: int
    shared_bytes_reserved: int  # bytes that the system takes from every CTA
    registers_per_sm: int  # words of 4 bytes
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

    def tensor_rate(self, operand: str) -> float:
        """TFLOP/s of a matrix product with operands of type ``operand``; IEEE ``float32`` runs on the SIMT units.

        ``operand`` is a dtype name or ``"tf32"``.  Two operations per multiply-add, as the tensor rates count them.
        """
        return self.tensor_tflops.get(operand, 2e-3 * self.simt_gops)

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
        by_shared = self.shared_bytes_per_sm // (shared_bytes + self.shared_bytes_reserved) if shared_bytes else self.ctas_per_sm
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
    known = targets()
    text = REPRESENTATIVES.get(text, text)
    if text not in known:
        choices = [*known, *REPRESENTATIVES, "auto"]
        close = difflib.get_close_matches(text.lower(), choices, n=1)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        raise UnknownTargetError(
            f'no target is called "{name}"',
            cure=f"{hint}known targets: {', '.join(choices)}; or the path of a .toml file like extract/targets/{_EXAMPLE}.toml",
        )
    return _bundled(text)


@functools.cache
def _bundled(name: str) -> Target:
    return _read(_DIRECTORY / f"{name}.toml")


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
    missing, unknown = sorted(declared.keys() - table.keys()), sorted(table.keys() - declared.keys())
    if missing or unknown:
        said = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise UnknownTargetError(f"a target file with {' and '.join(said)}", where=str(path))
    values = {key: _field(key, declared[key], table[key], path) for key in declared}
    return Target(**values)


def _field(key: str, declared: str, value: Any, path: Path) -> Any:
    """One value, converted to its declared type."""
    if declared == "str" and isinstance(value, str):
        return value
    if declared == "int" and type(value) is int and value >= 0:
        return value
    if declared == "float" and type(value) in (int, float) and value > 0:
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
        return _bundled("cpu")
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return _for_device(properties.name, getattr(properties, "gcnArchName", ""), (properties.major, properties.minor))


def _for_device(name: str, gcn_arch: str, capability: tuple[int, int]) -> Target:
    known = [_bundled(target) for target in targets()]
    for target in sorted(known, key=lambda t: -max(map(len, t.device_names))):
        if any(part.lower() in name.lower() for part in target.device_names):
            return target
    arch = gcn_arch.split(":")[0] if gcn_arch else f"sm_{capability[0]}{capability[1]}"
    if arch not in REPRESENTATIVES:
        raise UnknownTargetError(
            f"no target file fits the device {name} ({arch})", cure=f'optimize(..., target="{_EXAMPLE}") or the path of a .toml file'
        )
    return _bundled(REPRESENTATIVES[arch])
