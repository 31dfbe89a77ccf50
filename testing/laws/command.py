"""The command line of the laws."""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from . import drawn, fixed, ratchet
from .law import Outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Laws of planning: programs that mean the same cost the same, a whole no more than its parts, n layers no more than n times one."""
    parser = argparse.ArgumentParser(prog="python -m eqfuse.testing.laws", description=main.__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only laws whose family or name has one of these in it")
    parser.add_argument("--target", default="h200", help="the device whose model is asked (default: %(default)s)")
    parser.add_argument(
        "--drawn", nargs=2, type=int, metavar=("FIRST", "LAST"), help="a law of a random chain for each seed from FIRST to before LAST"
    )
    parser.add_argument("--known", type=Path, metavar="FILE", help="the list of known violations, which outcomes are compared with")
    parser.add_argument("--update", action="store_true", help="write the list of known violations anew")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes")
    options = parser.parse_args(arguments)
    os.environ.setdefault("EQFUSE_CACHE", "0")  # plans of this code alone
    console = Console()
    began, found = time.process_time(), []
    if options.drawn:
        found = [*_drawn(range(*options.drawn), options.target, console)]
    else:
        wanted = [x for x in fixed.laws() if not options.words or any(w in f"{x.family}: {x.name}" for w in options.words)]
        found = [x.looked_at(options.target) for x in track(wanted, "laws", console=console, transient=True)]
    console.print(_table(found))
    broken = [o for o in found if not o.holds]
    console.print(f"{len(found)} laws on {options.target}, {len(broken)} broken, {time.process_time() - began:.0f} s of CPU time")
    if options.json:
        options.json.write_text(json.dumps([_row(o) for o in found], indent=1) + "\n")
    if options.known is None:
        return int(bool(broken))
    known = ratchet.read(options.known)
    if options.update:
        options.known.write_text(ratchet.updated(found, known))
        return 0
    said = ratchet.judged(found, known)
    console.print(*said, sep="\n")
    return int(bool(said))


def _drawn(seeds: Iterable[int], target: str, console: Console) -> Iterator[Outcome]:
    """The outcomes of the laws of random chains; a broken one with as few blocks as possible, once."""
    seen: set[str] = set()
    for seed in track(list(seeds), "chains", console=console, transient=True):
        _, found = drawn.looked_at(seed, target)
        if found.holds or found.key not in seen:
            seen.add(found.key)
            yield found


def _row(o: Outcome) -> dict[str, object]:
    def number(x: float) -> float | None:
        return round(x, 3) if math.isfinite(x) else None

    return {"family": o.law.family, "name": o.law.name, "target": o.target, "us": number(o.us), "most": number(o.most), "holds": o.holds}


def _table(found: Sequence[Outcome]) -> Table:
    """Broken laws, and each family in a line."""
    table = Table("family", "law", "us", "at most", "times")
    families: dict[str, list[Outcome]] = defaultdict(list)
    for o in found:
        families[o.law.family].append(o)
    for family, own in families.items():
        broken = sorted((o for o in own if not o.holds), key=lambda o: o.most - o.us)
        table.add_row(family, f"{len(own) - len(broken)} of {len(own)} hold", "", "", "", style="bold")
        for o in broken:
            table.add_row("", o.law.name, f"{o.us:.1f}", f"{o.most:.1f}", f"{o.ratio:.2f}")
    return table
