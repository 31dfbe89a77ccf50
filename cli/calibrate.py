"""The command ``calibrate``."""

from __future__ import annotations

import argparse
import json
import sys

from .tables import show_table


def calibrate_command(args: argparse.Namespace) -> int:
    """``eqfuse calibrate``."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ..calibration.file import write
    from ..calibration.measure import calibrate
    from ..extract.targets.machine import calibrated_path
    from . import data

    path = args.output or calibrated_path()
    columns = (TextColumn("measuring {task.description:10}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("caches", total=1.0)
        found = calibrate(lambda what, share: progress.update(task, description=what, completed=share))
    target = write(found.target, found.spread, path)
    core = target.core
    assert core is not None
    if args.json:
        print(json.dumps({"path": str(path), "spread": found.spread, "target": data.plain(target)}, indent=2))
        return 0
    print(f"measured {target.measured}; the median run took up to {100 * found.spread:.0f} % longer than the shortest\n")
    rows = [(v.name, f"{v.bytes / 1024:.0f} KB" if v.bytes < 1e12 else "", f"{v.read_gb_s:.0f}", f"{v.copy_gb_s:.0f}") for v in core.levels]
    show_table(("one core", "holds", "read GB/s", "copy GB/s"), rows)
    print()
    facts = [
        ("products, GFLOP/s", f"{core.product_gflops:.0f}"),
        ("of which all cores", f"{core.product_gflops * target.sm_count:.0f}"),
        ("micro-kernel", f"{core.rows} x {core.columns}"),
        ("instructions on elements, 1e9/s", f"{core.vector_gops:.0f}"),
        *((f"{name}, ns an element", f"{ns:.2f}") for name, ns in core.special_ns.items()),
        ("packing, 1e9 elements/s", f"{core.pack_gelem_s:.1f}"),
        ("packing of columns", f"{core.turn_gelem_s:.1f}"),
        ("hidden behind memory", f"{100 * core.overlap:.0f} %"),
        ("a launch, us", f"{target.launch_us:.1f}"),
    ]
    show_table(("", ""), facts)
    use = 'target="cpu"' if path == calibrated_path() else f"target={str(path)!r}"
    print(f"\nwrote {path}, which {use} reads")
    return 0
