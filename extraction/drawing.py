"""An e-graph as text for graphviz: a box for each class, its members inside, what is chosen in bold."""

from __future__ import annotations

import json
import math

from .graph import Graph, Selection


def dot(graph: Graph, selection: Selection | None = None) -> str:
    """A picture in the language of ``dot``: ``dot -Tsvg FILE.dot -o FILE.svg`` draws it."""
    choice = selection.choice if selection else {}
    lines = ["digraph {", "  compound=true; node [shape=box, fontname=monospace]; graph [fontname=monospace, style=rounded]"]
    first: dict[int, str] = {}
    for c, members in enumerate(graph.classes):
        title = graph.names[c] + (f": {graph.types[c]}" if graph.types[c] else "")
        wide = 3 if c in graph.roots else 1
        color = "black" if c in choice else "grey"
        lines.append(f"  subgraph cluster_{c} {{ label={_text(title)}; penwidth={wide}; color={color};")
        for k, m in enumerate(members):
            first.setdefault(c, f"n{c}_{k}")
            style = "penwidth=2.5" if choice.get(c) == k else "color=grey" if selection else ""
            cost = "barred" if m.cost == math.inf else f"{m.cost:.4g}"
            lines.append(f"    n{c}_{k} [label={_text(f'{m.op}  {cost}')}{f', {style}' if style else ''}];")
        lines.append("  }")
    for c, members in enumerate(graph.classes):
        for k, m in enumerate(members):
            for d in m.children:
                if d not in first:
                    continue
                head = "" if d == c else f"lhead=cluster_{d}, "  # an edge cannot end at the box that it starts in
                style = "penwidth=2.5" if choice.get(c) == k else "color=grey" if selection else "penwidth=1"
                lines.append(f"  n{c}_{k} -> {first[d]} [{head}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _text(s: str) -> str:
    return json.dumps(s, ensure_ascii=False)
