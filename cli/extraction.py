"""The command ``extract``, and e-graphs written by ``optimize --graph``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..extraction import Found, Graph, choose, dot, graph_data, read_graph, selection_data
from .files import check_file, write_file

if TYPE_CHECKING:
    from ..compiled import Compiled


def extract_command(args: argparse.Namespace) -> int:
    """``eqfuse extract``."""
    for option, path in (("--out", args.out), ("--dot", args.dot)):
        if path:
            check_file(option, path, args.overwrite)
    graph = read_graph(args.file, roots=args.root)
    found = choose(graph, method=args.method, time_limit=args.time_limit)
    text = json.dumps(selection_data(found, str(args.file)), indent=2)
    if args.out:
        write_file("--out", args.out, text + "\n", args.overwrite)
    if args.dot:
        write_file("--dot", args.dot, dot(graph, found.selection), args.overwrite)
    print(text if args.json else _report(graph, found, args.show))
    if args.out and not args.json:
        print(f"wrote {args.out}", file=sys.stderr)
    return 0


def _report(graph: Graph, found: Found, show: bool) -> str:
    s = found.selection
    known = {"optimal": "optimal", "gap": f"at most {found.gap:.2%} above the optimum", "none": "not proved"}[found.proof]
    lines = [
        f"{graph.members} nodes in {len(graph.classes)} classes; {len(s.order)} chosen by {found.method} in {found.seconds:.2f} s",
        f"DAG cost {s.dag_cost:g}, tree cost {s.tree_cost:g}; {found.objective} cost {known}",
    ]
    return "\n".join([*lines, str(s)] if show else lines)


def write_graph(c: Compiled, path: Path, overwrite: bool) -> None:
    """The saturated e-graph of a program: JSON, or a picture where the name ends in ``.dot``."""
    from ..extract.interchange import interchange

    graph = interchange(c.graph, c.target)
    text = dot(graph) if path.suffix == ".dot" else json.dumps(graph_data(graph), indent=1, ensure_ascii=False) + "\n"
    write_file("--graph", path, text, overwrite)
