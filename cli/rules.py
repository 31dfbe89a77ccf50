"""The command ``rules``: the registered rules, or those of a file; listed, or tested."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .programs import UsageError, load_file
from .tables import first_line, indent, show_table


def rules_command(args: argparse.Namespace) -> int:
    """``eqfuse rules``."""
    from ..rewrites import registry
    from . import data

    if args.examples is not None and args.examples < 1:
        raise UsageError("--examples needs a positive number")
    before = {r.name for r in registry.rules()}
    try:
        chosen = _rules_of(args.file) if args.file else list(registry.rules())
        if not chosen:
            raise UsageError(f"no rule in {args.file}")
        names, families = {r.name for r in chosen}, sorted({r.family for r in chosen})
        if args.family is not None and args.family not in families:
            close = difflib.get_close_matches(args.family, families, n=1)
            cure = f"--family {close[0]}" if close else ""
            raise UsageError(f"no rule of family {args.family!r}; families: {', '.join(families)}", cure=cure)
        if unknown := [n for n in args.name if n not in names]:
            close = difflib.get_close_matches(unknown[0], sorted(names), n=1)
            cure = f"--name {close[0]}" if close else ""
            raise UsageError(f"no rule {', '.join(map(repr, unknown))}; see: eqfuse rules", cure=cure)
        chosen = [r for r in chosen if args.family in (None, r.family) and (not args.name or r.name in args.name)]
        if not chosen:
            raise UsageError(f"no rule of family {args.family!r} is called that")
        if args.action == "check":
            return _check_rules(chosen, args)
    finally:
        for r in registry.rules():
            if r.name not in before:
                registry.unregister(r.name)
    if args.json:
        keys = ("name", "family", "licence", "doc", "file", "line", "enabled")
        print(json.dumps([{k: data.plain(getattr(r, k)) for k in keys} for r in chosen], indent=2))
        return 0
    rows = [
        (r.name + ("" if r.enabled else " (disabled)"), r.family, r.licence, first_line(r.doc), f"{Path(str(r.file)).name}:{r.line}")
        for r in chosen
    ]
    show_table(("rule", "family", "licence", "equation", "where"), rows)
    return 0


def _rules_of(path: Path) -> list[Any]:
    """The rules of a user's file, registered or not; the file is executed, and its rules are not tested before they are asked for."""
    from ..rewrites import registry
    from ..rewrites.rule import Rule

    before = set(registry.rules())
    with registry.deferred():
        module = load_file(path)
        found = [r for r in registry.rules() if r not in before]
        found += [r for r in vars(module).values() if isinstance(r, Rule) and r not in before]
    return list(dict.fromkeys(found))


def _check_rules(chosen: Sequence[Any], args: argparse.Namespace) -> int:
    """Every rule by every oracle; all are tried before the exit code is decided."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ..rewrites.check import CI_EXAMPLES, EXAMPLES, check_all

    examples = args.examples or (EXAMPLES if args.file else CI_EXAMPLES)
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("rules", total=len(chosen))

        def tick(rule: Any, report: Any) -> None:
            progress.update(task, description=rule.name, advance=0 if report is None else 1)

        done = check_all(chosen, examples=examples, progress=tick)
    failed = {r.rule.name for r in done.failures}
    if args.json:
        found = [
            {
                "rule": r.rule.name, "family": r.rule.family, "licence": r.rule.licence, "where": r.rule.where, "holds": r.error is None,
                "oracles": list(r.oracles), "checks": r.checks, "examples": r.examples, "numbers": r.numbers, "notes": list(r.notes),
                "seconds": round(r.seconds, 4), "error": str(r.error) if r.error else None,
            }
            for r in done.reports
        ]  # fmt: skip
        print(json.dumps({"rules": found, "summary": str(done), "examples_per_second": round(done.examples_per_second)}, indent=2))
        return 1 if failed else 0
    for r in done.failures:
        print(f"FAILED {r.rule.name}\n{indent(str(r.error))}\n")
    if args.file or args.name:
        rows = [
            (r.rule.name, r.rule.licence, "FAILED" if r.error else "holds", str(r.checks), str(r.examples), ", ".join(r.oracles or r.notes))
            for r in done.reports
        ]
        show_table(("rule", "licence", "", "checks", "examples", "tested by"), rows)
    else:
        table = []
        for family in dict.fromkeys(r.rule.family for r in done.reports):
            of = [r for r in done.reports if r.rule.family == family]
            bad = sum(1 for r in of if r.error)
            sums = (sum(r.checks for r in of), sum(r.examples for r in of))
            table.append((family, str(len(of)), f"{bad} FAILED" if bad else "hold", *map(str, sums), f"{sum(r.seconds for r in of):.1f} s"))
        show_table(("family", "rules", "", "checks", "examples", "time"), table)
    for note, count in done.notes().items():
        print(f"{count} {'rule' if count == 1 else 'rules'}: {note}")
    print(done)
    return 1 if failed else 0
