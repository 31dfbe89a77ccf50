"""Verdicts about values that a user names, instead of matching them by a rule: ``("forbid", "out", "weights")``."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from ..egraph.frozen import FrozenGraph
from ..errors import OptionError
from ..ir.terms import Input, postorder
from ..rewrites.verdicts import VERDICTS
from .names import Names, ProgramNames

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
        verdict, outer, inner = understood(names, request)
        a, b = names.resolve(outer), names.resolve(inner)
        if a.cls == b.cls:
            raise OptionError(f"{a.name} and {b.name} are one value", cure="name two values, one computed from the other")
        rows.append((verdict, a.cls, b.cls, spelled(request)))
    return replace(graph, facts={**graph.facts, "fuse": (*graph.facts.get("fuse", ()), *rows)})


def spelled(request: Request) -> str:
    """A request as a user writes it."""
    return f"fusion={tuple(request)!r}"


def spoken(request: Request) -> Request:
    """A verdict and two names; what is none raises OptionError."""
    if not isinstance(request, tuple | list) or len(request) != 3 or not all(isinstance(word, str) for word in request):
        raise OptionError(f"fusion={request!r} is no verdict", cure="write it as ('forbid', 'out', 'scores')")
    return request


def understood(names: ProgramNames, request: Request) -> Request:
    """A request about values that the program has; raises what :func:`steer` does."""
    verdict, outer, inner = spoken(request)
    if verdict not in VERDICTS:
        close = difflib.get_close_matches(str(verdict), VERDICTS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise OptionError(f"no verdict is called {verdict!r}", cure=f"{hint}the verdicts are {', '.join(VERDICTS)}")
    a, b = names.term(outer), names.term(inner)
    outer, inner = outer.strip(), inner.strip()
    for name, value in ((outer, a), (inner, b)):
        if isinstance(value, Input):
            raise OptionError(f"{name} is an input, which no kernel makes", cure="name two values that are computed")
    if a is b:
        raise OptionError(f"{outer} and {inner} are one value", cure="name two values, one computed from the other")
    if verdict == "require" and not any(t is b for t in postorder(a)):
        turned = any(t is a for t in postorder(b))
        raise OptionError(
            f"{spelled(request)}: {outer} is not computed from {inner}",
            cure=f"fusion={(verdict, inner, outer)!r}: {inner} is computed from {outer}" if turned else "name an outer value that is",
        )
    return verdict, outer, inner
