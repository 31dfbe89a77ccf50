"""What a user asks of a program in steps, handed to the pieces that it is about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..errors import OptionError
from ..extract.names import ProgramNames
from ..extract.plan import Decision
from ..extract.steering import Request, spelled, understood
from ..frontends import Traced


def handed_out(
    requests: Sequence[Request], pieces: Mapping[str, Traced], outside: Collection[str]
) -> tuple[dict[str, tuple[Request, ...]], tuple[Decision, ...]]:
    """The verdicts about two values for each piece that computes both, by its name, and what became of the others.  ``outside``: values
    that torch computes.

    Values of different steps share no kernel: what forbids that is content.  OptionError for names that there are not, and for what
    requires it.
    """
    names = {name: ProgramNames(t.program) for name, t in pieces.items()}
    asked: dict[str, list[Request]] = {}
    decisions = []
    for request in requests:
        homes, apart, unknown = [], [set[str](), set[str]()], None
        for name, known in names.items():
            both = []
            for k, value in enumerate(_values(request)):
                try:
                    known.term(value)
                    apart[k].add(name)
                    both.append(k)
                except OptionError as error:
                    unknown = error
            homes += [name] if len(both) == 2 else []
        for k, value in enumerate(_values(request)):
            if not apart[k] and value not in outside:
                cure = f"a value of a piece: {', '.join(dict.fromkeys(x for n in names.values() for x in n.spoken))}"
                raise OptionError(f"no step computes a value called {value!r}", where="fusion", cure=cure) from unknown
        for name in homes:
            asked.setdefault(name, []).append(understood(names[name], request))
        if homes:
            continue
        verdict, outer, inner = request
        if verdict == "require":
            cure = "leave it out; c.plan says what torch runs between them, and why"
            raise OptionError(f"{outer} and {inner} are made in different steps, which share no kernel", where=spelled(request), cure=cure)
        decisions.append(Decision(verdict, spelled(request), "", outer, inner, "they are made in different steps, and share no kernel"))
    return {name: tuple(found) for name, found in asked.items()}, tuple(decisions)


def _values(request: Request) -> tuple[str, ...]:
    """The two values; what is no verdict says so."""
    if not isinstance(request, tuple | list) or len(request) != 3 or not all(isinstance(word, str) for word in request):
        raise OptionError(f"fusion={request!r} is no verdict", cure="write it as ('forbid', 'out', 'scores')")
    return request[1], request[2]
