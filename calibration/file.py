"""A calibrated target as a TOML file: every number says that it was measured, or that it was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..extract.targets import Target, load_target
from ..extract.targets.core import Core
from ..runtime.writing import write_module

MARK = "# Measured by `eqfuse calibrate`"
_SIZES = {"sm_count": "cores of this process"}
_MEASURED = {
    "simt_gops": "instructions on elements, all cores",
    "special_gops": "exp, all cores",
    "library_us": "torch.matmul of 64 x 64",
    "launch_us": "a call and a parallel region",
}
_CORE = {
    "rows": "of the micro-kernel",
    "columns": "of the micro-kernel",
    "product_gflops": "the micro-kernel, its operands in the nearest cache",
    "step_ns": "of the micro-kernel, with one row",
    "call_ns": "of the micro-kernel",
    "inner_gflops": "four rows with eight",
    "inner_ns": "of a row with a row",
    "pack_gelem_s": "rows in one piece",
    "turn_gelem_s": "columns in one piece",
    "vector_gops": "17 instructions on each element",
    "loop_ns": "beside the elements of a row",
    "extremum_ns": "a row in the nearest cache",
    "overlap": "exp from memory to memory, beside a copy",
}


def text_of(target: Target, spread: float) -> str:
    """The file.  ``load_target`` reads the same target back, to four digits."""
    core = target.core
    assert core is not None
    lines = [
        f"{MARK}: {target.measured}.",
        f'# The shortest of many runs of each probe; the median run took up to {100 * spread:.0f} % longer.  "assumption": not measured.',
    ]
    tables = {f.name: value for f in fields(Target) if isinstance(value := getattr(target, f.name), Mapping)}
    for f in fields(Target):
        value = getattr(target, f.name)
        if f.name in ("core", "levels", *tables):
            continue
        said = f"size: {_SIZES[f.name]}" if f.name in _SIZES else f"measured: {_MEASURED[f.name]}" if f.name in _MEASURED else "assumption"
        lines.append(f"{f.name} = {_value(value)}" + ("" if isinstance(value, str | tuple) else f"  # {said}"))
    for name, table in tables.items():
        said = "measured: as float32" if name == "tensor_tflops" else "measured: torch.matmul of 1024 x 1024, a core's times the cores"
        lines += ["", f"[{name}]", *(f"{k} = {_value(v)}  # {said}" for k, v in table.items())]
    for memory in target.levels:
        lines += ["", "[[levels]]", *(f"{f.name} = {_value(getattr(memory, f.name))}" for f in fields(memory) if getattr(memory, f.name))]
    lines += ["", "[core]"]
    lines += [f"{k} = {_value(getattr(core, k))}  # measured: {_CORE[k]}" for k in (f.name for f in fields(Core)) if k in _CORE]
    lines += ["", "[core.special_ns]"]
    lines += [f"{k} = {_value(v)}  # measured" for k, v in core.special_ns.items()]
    for level in core.levels:
        lines += ["", "[[core.levels]]"]
        lines += [f'name = "{level.name}"', f"bytes = {_value(level.bytes)}"]
        lines += [f"{n} = {_value(getattr(level, n))}  # measured" for n in ("read_gb_s", "copy_gb_s", "piece_ns")]
    return "\n".join(lines) + "\n"


def write(target: Target, spread: float, path: Path) -> Target:
    """Write the file and read it back.  One that a calibration wrote is replaced; raises :class:`~eqfuse.errors.OptionError` for
    others."""
    ours = path.is_file() and not path.is_symlink() and path.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_module(path, text_of(target, spread), "calibrate", overwrite=ours)
    path.chmod(0o600)
    return load_target(path)


def _value(x: Any) -> str:
    if isinstance(x, str):
        return '"' + "".join(c if c.isprintable() and c not in '"\\' else " " for c in x) + '"'
    if isinstance(x, tuple):
        return "[" + ", ".join(map(_value, x)) + "]"
    if isinstance(x, float):
        return f"{x:.4g}" if 1e-4 < x < 1e4 and x != int(x) else f"{x:.1f}" if x < 1e15 else f"{x:.1e}"
    return str(x)
