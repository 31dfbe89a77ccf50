"""The files: e-graphs in the JSON of ``egraph-serialize``, which ``extraction-gym`` and the exports of egg and egglog use.

.. code-block:: json

    {"nodes": {"a0": {"op": "*", "children": ["b0", "c0"], "eclass": "a", "cost": 2.0}, "...": {}},
     "root_eclasses": ["a"], "class_data": {"a": {"type": "Math"}}}

A child names a node and means the class of that node.  ``children``, ``cost`` (1) and ``subsumed`` (false) may be left out; a
node that is subsumed may not be chosen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import GraphError, shown
from .graph import Graph, Member
from .methods import Found

LARGEST = 1 << 28  # bytes of a file; Python needs about 20 times as much memory to read it
FORMAT = "docs/extraction.md shows the format"


def read_graph(path: str | Path, roots: Iterable[str] = (), largest: int = LARGEST) -> Graph:
    """The e-graph in a file.  ``roots``, names of classes, replace those of the file.

    Raises :class:`~eqfuse.errors.GraphError`, with the node and the field, for a file that is missing, larger than ``largest``
    bytes, or no such e-graph: no JSON, a field that is missing or of another type, a node twice, a child or root that does not
    exist, no roots, a cost that is negative or no number.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > largest:
            raise GraphError(
                f"the file has {size} bytes; files of at most {largest} are read", where=path.name,
                cure="a part of it, or eqfuse.extraction.read_graph(path, largest=...) on a machine with memory for it",
            )  # fmt: skip
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except OSError as error:
        raise GraphError(f"cannot be read: {error.strerror}", where=str(path), cure="a file with an e-graph in JSON") from error
    except _Twice as error:
        message = f"the name {shown(str(error))} stands twice in one object"
        raise GraphError(message, where=path.name, cure="names that differ") from error
    except (ValueError, RecursionError) as error:
        raise GraphError(f"no JSON: {error}", where=path.name, cure=FORMAT) from error
    return graph_of(data, path.name, roots)


class _Twice(Exception):
    """A key that is in an object twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice(next(k for n, (k, _) in enumerate(pairs) if any(k == j for j, _ in pairs[:n])))
    return found


def graph_of(data: Any, where: str = "e-graph", roots: Iterable[str] = ()) -> Graph:
    """The e-graph in parsed JSON; ``where`` names it in messages."""

    def get(source: dict[str, Any], key: str, kind: type | tuple[type, ...], says: str, place: str, default: Any = None) -> Any:
        value = source.get(key, default)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            what = f"the field {key!r} is missing" if value is None else f"the field {key!r} is {shown(value)}"
            raise GraphError(what, where=place, cure=f"{key!r} as {says}; {FORMAT}")
        return value

    def names(source: dict[str, Any], key: str, place: str) -> list[str]:
        found = get(source, key, list, "a list of names", place, [])
        if bad := [x for x in found if not isinstance(x, str)]:
            raise GraphError(f"the field {key!r} has {shown(bad[0])}", where=place, cure=f"{key!r} as a list of names")
        return found

    if not isinstance(data, dict):
        raise GraphError(f"it is {shown(data)}", where=where, cure=f'an object with "nodes" and "root_eclasses"; {FORMAT}')
    nodes = get(data, "nodes", dict, "an object of nodes", where)
    number: dict[str, int] = {}
    owner: dict[str, int] = {}
    for name, node in nodes.items():
        place = f"{where}: node {name}"
        if not isinstance(node, dict):
            raise GraphError(f"it is {shown(node)}", where=place, cure=f"an object; {FORMAT}")
        owner[name] = number.setdefault(get(node, "eclass", str, "the name of its class", place), len(number))
    classes: list[list[Member]] = [[] for _ in number]
    for name, node in nodes.items():
        place = f"{where}: node {name}"
        op, cost = get(node, "op", str, "a text", place), get(node, "cost", (int, float), "a number", place, 1.0)
        if not 0 <= cost < math.inf:
            raise GraphError(f"the field 'cost' is {cost}", where=place, cure='a number of at least 0, or "subsumed" to bar the node')
        children = names(node, "children", place)
        if bad := [x for x in children if x not in owner]:
            cure = "children that are names of nodes (not of classes)"
            raise GraphError(f"its child {shown(bad[0])} is no node", where=place, cure=cure)
        barred = get(node, "subsumed", bool, "true or false", place, False)
        classes[owner[name]].append(Member(op, tuple(owner[x] for x in children), math.inf if barred else float(cost), name))
    wanted = list(roots) or names(data, "root_eclasses", where)
    if not wanted:
        cure = 'names of classes in "root_eclasses", or --root CLASS'
        raise GraphError("it has no root: nothing is wanted of it", where=where, cure=cure)
    if bad := [x for x in wanted if x not in number]:
        cure = "roots that are names of classes (not of nodes), or --root CLASS"
        raise GraphError(f"the root {shown(bad[0])} is no class of a node", where=where, cure=cure)
    about = get(data, "class_data", dict, "an object of classes", where, {})
    types = [str(about[c].get("type") or "") if isinstance(about.get(c), dict) else "" for c in number]
    return Graph(tuple(map(tuple, classes)), tuple(number[x] for x in wanted), tuple(number), tuple(types))


def graph_data(graph: Graph) -> dict[str, Any]:
    """An e-graph for :func:`json.dumps`; reading it gives an equal one.  Members without a name are called
    ``class.position``."""
    names = [[m.name or f"{graph.names[c]}.{k}" for k, m in enumerate(ms)] for c, ms in enumerate(graph.classes)]
    every = [n for ns in names for n in ns]
    if len(set(every)) < len(every) or len(set(graph.names)) < len(graph.names):
        raise GraphError("two classes or two members have the same name", cure="names that differ")
    nodes: dict[str, Any] = {}
    for c, members in enumerate(graph.classes):
        for k, m in enumerate(members):
            if bad := [d for d in m.children if not names[d]]:
                cure = "leave this member out: it can never be chosen"
                raise GraphError(f"its child, the class {graph.names[bad[0]]}, has no members", where=graph.place(c, k), cure=cure)
            barred = m.cost == math.inf
            nodes[names[c][k]] = {
                "op": m.op, "children": [names[d][0] for d in m.children], "eclass": graph.names[c], "cost": 0.0 if barred else
                m.cost, **({"subsumed": True} if barred else {}),
            }  # fmt: skip
    about = {name: {"type": t} for name, t in zip(graph.names, graph.types, strict=True) if t}
    return {"nodes": nodes, "root_eclasses": [graph.names[r] for r in graph.roots], "class_data": about}


def selection_data(found: Found, name: str = "") -> dict[str, Any]:
    """A selection for :func:`json.dumps`: the fields that extraction-gym writes (name, extractor, tree, dag, micros), how good
    it is known to be, and the node of each class that is needed, children first."""
    s = found.selection

    def number(x: float) -> float | None:
        return x if x < math.inf else None  # JSON has no infinity

    return {
        "name": name, "extractor": found.method, "tree": number(s.tree_cost), "dag": s.dag_cost, "micros": round(found.seconds *
        1e6), "objective": found.objective, "proof": found.proof, "bound": number(found.bound), "gap": found.gap,
        "choices": {s.graph.names[c]: s.member(c).name or f"{s.graph.names[c]}.{s.choice[c]}" for c in s.order},
    }  # fmt: skip
