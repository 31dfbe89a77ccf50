"""The commands ``optimize``, ``explain``, ``price``, ``targets`` and ``demo``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from .files import check_file, write_file
from .programs import load_program, reduced
from .tables import show_heading, show_python, show_table

if TYPE_CHECKING:
    from ..compiled import Compiled


def _compiled(args: argparse.Namespace) -> tuple[Compiled, Any, tuple[Any, ...]]:
    function, example = load_program(args)
    import eqfuse

    more = {option: getattr(args, option) for option in ("no_spills", "refine", "tune") if hasattr(args, option)}
    return eqfuse.optimize(function, example, target=args.target, licence=args.licence, strict=True, **more), function, example


def optimize_command(args: argparse.Namespace) -> int:
    """``eqfuse optimize``."""
    from . import data
    from .extraction import write_graph

    for option, path in (("--save", args.save), ("--graph", args.graph)):
        if path:
            check_file(option, path, args.overwrite)
    c, function, example = _compiled(args)
    reports = [r for arch in args.compile for r in c.compile(arch)]
    check, passed = _check(c, function, example, args) if args.check else (None, True)
    if args.save:
        c.save(args.save, overwrite=args.overwrite)
    if args.graph:
        write_graph(c, args.graph, args.overwrite)
    if args.json:
        out = data.of_compiled(c)
        if args.compile:
            out["static"] = [data.plain(r) for r in reports]
        if args.check:
            out["check"] = {"ok": passed, "report": str(check)}
        if args.source:
            out["source"] = c.source
        print(json.dumps(out, indent=2))
        return 0 if passed else 1
    show_heading("program")
    print(c.program)
    show_heading("saturation")
    for graph in c.graphs:
        print(graph.report)
    show_heading("plan")
    print(c.plan)
    if args.source:
        show_heading("triton")
        show_python(c.source)
    if reports:
        show_heading("static report")
        print(*reports, sep="\n")
    if args.check:
        show_heading("check against float64")
        print(check)
    if written := [str(path) for path in (args.save, args.graph) if path]:
        print(f"\nwrote {', '.join(written)}")
    return 0 if passed else 1


def _check(c: Compiled, function: Any, example: tuple[Any, ...], args: argparse.Namespace) -> tuple[Any, bool]:
    """Accuracy through the interpreter; at the sizes given if they are small, else of the same function at reduced sizes."""
    import eqfuse

    small = reduced(example)
    if [getattr(a, "shape", None) for a in small] != [getattr(a, "shape", None) for a in example]:
        try:
            c = c.at(*small)  # the kernels that were planned, at sizes an interpreter can run
        except eqfuse.errors.PlanError as why:
            print(f"planned again for the check: {why.message}", file=sys.stderr)
            c = eqfuse.optimize(function, small, target=args.target, licence=args.licence, strict=True)
    report = c.accuracy(*small)
    return report, all(o.within() for o in report.outputs)


def explain_command(args: argparse.Namespace) -> int:
    """``eqfuse explain``."""
    from . import data

    if args.html:
        check_file("--html", args.html, args.overwrite)
    c, _, _ = _compiled(args)
    if args.html:
        write_file("--html", args.html, c.html(), args.overwrite)
        print(f"wrote {args.html}", file=sys.stderr)
        return 0
    if args.why:
        answer = c.why(*args.why)
        print(json.dumps(answer.data(), indent=2) if args.json else answer)
        return 0
    if args.layouts:
        found = c.layouts()
        print(json.dumps(data.plain(found), indent=2) if args.json else "\n".join(map(str, found)))
        return 0
    explanation = c.explain(costs=args.costs)
    if args.json or not sys.stdout.isatty():
        print(explanation.json() if args.json else explanation)
        return 0
    from rich.console import Console

    Console(soft_wrap=True).print(str(explanation), markup=False)  # numbers and names in colour
    return 0


def price_command(args: argparse.Namespace) -> int:
    """``eqfuse price``."""
    from . import data

    c, _, _ = _compiled(args)
    import eqfuse

    tiles: dict[str, dict[str, int]] = {}
    for level, axis, size in args.tile:
        tiles.setdefault(level or c.target.on_chip.name, {})[axis] = size
    found = eqfuse.price(c, tiles)
    print(json.dumps(data.plain(found.kernels), indent=2) if args.json else found)
    return 0


def targets_command(args: argparse.Namespace) -> int:
    """``eqfuse targets``."""
    from ..extract.targets import load_target, targets
    from . import data

    facts = {n: data.plain(load_target(n)) for n in ([args.name] if args.name else targets())}
    if args.json:
        print(json.dumps(facts, indent=2))
    elif args.name:
        rows = [(k, str(v)) for k, v in facts[args.name].items() if k != "levels"]
        for x in facts[args.name]["levels"]:
            rows.append((f"level {x['name']}", ", ".join(f"{k} {v}" for k, v in x.items() if v and k != "name")))
        show_table(("fact", "value"), rows)
    else:
        keys = [k for k in next(iter(facts.values())) if k not in ("name", "device_names")][:6]
        levels = {n: " ".join(x["name"] for x in f["levels"]) for n, f in facts.items()}
        show_table(("target", *keys, "levels"), [(n, *(str(f[k]) for k in keys), levels[n]) for n, f in facts.items()])
    return 0


def demo_command(args: argparse.Namespace) -> int:
    """``eqfuse demo``."""
    from . import demo

    return demo.run(target=args.target, tokens=args.tokens, measure=args.measure)
