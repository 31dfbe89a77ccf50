"""The page itself: one file without references to others.  Whatever comes from a program is escaped by the template engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..extract.quantities import bytes_text, plural

FOLDER, TEMPLATE = Path(__file__).parent, "page.html.j2"
LEAST = 0.002  # of the widest bar: what is narrower could not be seen


def page(data: Mapping[str, Any], title: str = "EqFuse") -> str:
    """A page about plans, from what :func:`~eqfuse.pages.page_data` says of them."""
    import jinja2

    loader = jinja2.FileSystemLoader(FOLDER)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(bytes=bytes_text, us=_us, plural=plural, code=_coloured, percent=_percent, times=_times)
    environment.globals.update(roofline=roofline, width=_width)
    return environment.get_template(TEMPLATE).render(title=title, graphs=data["graphs"], costs=data["costs"])


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _times(more: float, less: float) -> str:
    """How many times as much, if that is to be told."""
    return f"{more / less:.1f}x" if less and more > 1.05 * less else ""


def _us(n: float) -> str:
    return f"{n:,.1f} us"


def _width(n: float, most: float) -> str:
    """The width of a bar in percent."""
    return f"{100 * max(LEAST, n / most) if most and n else 0:.2f}%"


def _coloured(source: str) -> Any:
    """Python text with colours for words of the language, text and remarks; numbers and operators, which are most of it, have none."""
    import markupsafe
    from pygments.lexers import PythonLexer
    from pygments.token import Token

    kinds = {Token.Keyword: "k", Token.Literal.String: "s", Token.Comment: "s", Token.Name.Function: "f", Token.Name.Decorator: "k"}
    found = markupsafe.Markup("")
    for kind, said in PythonLexer().get_tokens(source):
        name = next((c for token, c in kinds.items() if kind in token), None)
        found += markupsafe.escape(said) if name is None else markupsafe.Markup('<b class="{}">{}</b>').format(name, said)
    return markupsafe.Markup('<pre class="code" tabindex="0">{}</pre>').format(found)


def roofline(steps: Sequence[Mapping[str, Any]], roof: Mapping[str, float]) -> dict[str, Any]:
    """Where kernels stand under the roofs of memory and arithmetic, in the coordinates of a picture of 100 x 60, logarithmic both ways.

    After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009).
    """
    points = []
    for number, s in enumerate(steps, 1):
        if s["us"] and s["bytes"] and s["operations"]:
            points.append((s["operations"] / s["bytes"], s["operations"] / s["us"], s.get("number", number), s["name"]))
    ridge = roof["operations_per_us"] / roof["bytes_per_us"]
    low = min([ridge / 100, *(p[0] / 2 for p in points)])
    high = max([ridge * 10, *(p[0] * 2 for p in points)])
    top, bottom = roof["operations_per_us"] * 2, min([roof["bytes_per_us"] * low, *(p[1] / 2 for p in points)])

    def x(intensity: float) -> float:
        return 100 * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        return 60 - 60 * math.log(rate / bottom) / math.log(top / bottom)

    ends = [(low, roof["bytes_per_us"] * low), (ridge, roof["operations_per_us"]), (high, roof["operations_per_us"])]
    return {
        "roof": " ".join(f"{x(i):.2f},{y(r):.2f}" for i, r in ends),
        "points": [{"x": f"{x(i):.2f}", "y": f"{y(r):.2f}", "number": n, "name": name} for i, r, n, name in points],
        "ridge": f"{ridge:.0f}",
    }
