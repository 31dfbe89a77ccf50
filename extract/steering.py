"""Verdicts about values that a user names, instead of matching them by a rule: ``("forbid", "out", "weights")``."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from ..egraph.frozen import FrozenGraph
from ..errors import OptionError
from ..ir.terms import Input, postorder
from ..rewrites.verdicts import VERDICTS
from .names import Names

Request = tuple[str, str, str]


def steer(graph: FrozenGraph, requests: Sequence[Request]) -> FrozenGraph:
    """The graph with a verdict for each request ``(verdict, outer, inner)``.

    ``verdict`` is ``allow``, ``forbid`` or ``require``; the values are named as :meth:`~eqfuse.Compiled.explain` names them, the one
    that is computed from the other first.  Raises :class:`~eqfuse.errors.OptionError` for an unknown verdict or name, for a
    pair that no kernel could part or join (an input, or one value twice), and for a required pair of which neither needs the other
    or the second needs the first.
    """
    if not requests:
        return graph
    names = Names(graph)
    rows = []
    for request in requests:
        if not isinstance(request, tuple | list) or len(request) != 3 or not all(isinstance(word, str) for word in request):
            raise OptionError(f"fusion={request!r} is no verdict", cure="write it as ('forbid', 'out', 'scores')")
        verdict, outer, inner = request
        if verdict not in VERDICTS:
            close = difflib.get_close_matches(str(verdict), VERDICTS, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise OptionError(f"no verdict is called {verdict!r}", cure=f"{hint}the verdicts are {', '.join(VERDICTS)}")
        a, b = names.resolve(outer), names.resolve(inner)
        for value in (a, b):
            if isinstance(value.term, Input):
                raise OptionError(f"{value.name} is an input, which no kernel makes", cure="name two values that are computed")
        if a.cls == b.cls:
            raise OptionError(f"{a.name} and {b.name} are one value", cure="name two values, one computed from the other")
        if verdict == "require" and not any(t is b.term for t in postorder(a.term)):
            turned = any(t is a.term for t in postorder(b.term))
            raise OptionError(
                f"fusion={(verdict, outer, inner)!r}: {a.name} is not computed from {b.name}",
                cure=f"fusion={(verdict, inner, outer)!r}: {b.name} is computed from {a.name}" if turned else "name an outer value that is",
            )
        rows.append((verdict, a.cls, b.cls, f"fusion={(verdict, outer, inner)!r}"))
    return replace(graph, facts={**graph.facts, "fuse": (*graph.facts.get("fuse", ()), *rows)})
