"""Greedy against exact extraction on the graphs of a public collection.

    git clone https://github.com/egraphs-good/extraction-gym
    python benchmarks/extraction.py extraction-gym/data               a sample of every family, 10 s a graph
    python benchmarks/extraction.py extraction-gym/data --each 50 --time-limit 60 --out here.json

``--each`` graphs of each family, evenly by the number of nodes, the smallest and the largest with them.  Files that are refused are
counted.
"""

import argparse
import json
import re
from pathlib import Path

from host import commit, host

import eqfuse
from eqfuse.extraction import choose, read_graph


def spread(graphs, count):
    """So many of a family, evenly by size, the smallest and the largest with them."""
    graphs = sorted(graphs)
    if len(graphs) <= count:
        return graphs
    return [graphs[round(k * (len(graphs) - 1) / max(count - 1, 1))] for k in range(count)]


def row(path, data, limit):
    graph = read_graph(path)
    tree, greedy, exact = (choose(graph, method=m, time_limit=limit) for m in ("tree", "greedy-dag", "exact"))
    assert exact.cost <= greedy.cost
    return {
        "graph": str(path.relative_to(data)), "family": path.relative_to(data).parts[0],
        "classes": len(graph.classes), "nodes": graph.members,
        "tree": tree.selection.dag_cost, "greedy": greedy.cost, "exact": exact.cost, "bound": exact.bound, "gap": exact.gap,
        "proof": exact.proof, "tree_s": tree.seconds, "greedy_s": greedy.seconds, "exact_s": exact.seconds,
    }  # fmt: skip


def reason(error):
    """What is wrong with a file, without the names in it."""
    return re.sub(r"(root|child|is) ('[^']*'|-?[0-9.]+)", r"\1 ..", error.message)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", type=Path)
    p.add_argument("--each", type=int, default=4, help="graphs of each family (default %(default)s)")
    p.add_argument("--time-limit", type=float, default=10.0)
    p.add_argument("--out", type=Path)
    args = p.parse_args()
    rows, refused = [], {}
    for family in sorted(d for d in args.data.iterdir() if d.is_dir()):
        readable = []
        for path in sorted(family.rglob("*.json")):
            try:
                readable.append((read_graph(path).members, path))
            except eqfuse.errors.GraphError as error:
                refused.setdefault(f"{family.name}: {reason(error)}", []).append(path.name)
        for _, path in spread(readable, args.each):
            rows.append(row(path, args.data, args.time_limit))
            r = rows[-1]
            costs = f"greedy {r['greedy']:.6g} exact {r['exact']:.6g} {r['proof']} {r['gap']:.4f}"
            print(f"{r['graph'][-60:]:60} {r['nodes']:6} {costs} {r['exact_s']:.1f} s", flush=True)
    environment = {**host("highspy", "numpy"), "commit": commit()}
    result = {"environment": environment, "time_limit_s": args.time_limit, "rows": rows, "refused": {k: len(v) for k, v in refused.items()}}
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
