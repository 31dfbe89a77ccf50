"""Outside implementations: the calls that rules offer, taken into a cover where they lower its price."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.terms import Input
from ..outside import Outside, misfits, spoken
from ..plan import PlannedCall
from ..search import Rejection
from .cover import Cover
from .maker import CoverMaker
from .points import Points
from .record import Record


class Calls:
    """The offers of one graph, by who makes them and for what.

    ``refused``: why no plan with an offer exists.  ``offered``: the offer, and the best cover with it.
    """

    def __init__(self, maker: CoverMaker, points: Points, record: Record) -> None:
        self.maker, self.points, self.record = maker, points, record
        self.refused: dict[tuple[str, str], str] = {}
        self.offered: dict[tuple[str, str], tuple[Outside, Cover]] = {}

    def added_to(self, best: Cover | None) -> Cover | None:
        """The cover with outside implementations where they lower the price: all that are offered, and then one less at a time; or, where
        that does not pay, one more at a time; the best first."""
        available = [o for o in self.maker.offers if o.cls in self.maker.graph.original]
        for by, why in misfits(self.maker.graph).items():
            self.refused[by, ""] = why
        for o in self.maker.offers:
            if o.by not in {a.by for a in available}:
                self.refused[_key(o)] = f"{spoken(o)} for what is no value of the program as written"
        every = {o.cls: o for o in sorted(available, key=lambda o: -o.us(self.maker.target))}  # of each value the cheapest
        if len(every) > 1 and (found := self._with(every)) is not None and (best is None or found.us < best.us * (1 - 1e-9)):
            return self._fewer(every, found)
        taken: dict[int, Outside] = {}
        while available and not self.maker.meter.over():
            covers = [(o, found) for o in available if (found := self._with({**taken, o.cls: o}, o)) is not None]
            if not covers:
                break
            o, found = min(covers, key=lambda c: c[1].us)
            if best is not None and found.us >= best.us * (1 - 1e-9):
                self.record.beaten(found, best)
                break
            best, taken[o.cls] = found, o
            available = [other for other in available if other.cls not in taken]
        return best

    def _fewer(self, taken: dict[int, Outside], best: Cover) -> Cover:
        """A cover without those of its offers that it is faster without, left out one at a time."""
        while len(taken) > 1 and not self.maker.meter.over():
            ways = {c: self._with({k: o for k, o in taken.items() if k != c}) for c in taken}
            better = {c: found for c, found in ways.items() if found is not None and found.us < best.us * (1 - 1e-9)}
            if not better:
                break
            c = min(better, key=lambda c: better[c].us)
            self.offered[_key(taken[c])] = taken[c], best
            best, taken = better[c], {k: o for k, o in taken.items() if k != c}
        return best

    def _with(self, using: Mapping[int, Outside], added: Outside | None = None) -> Cover | None:
        """The best cover with some offers, of which one may have been added to others."""
        graph, program = self.maker.graph, self.maker.program
        needed = tuple(c for o in using.values() for c in (o.cls, *(r.cls for r in o.reads)) if c in graph.original)
        inputs = {c for t, c in zip(program.terms(), graph.original, strict=True) if isinstance(t, Input)}
        roots = {r.cls for r in self.maker.outputs}
        described = f"{', '.join(dict.fromkeys(o.by for o in using.values()))} outside"
        best: Cover | None = None
        for more in ((), self.points.worth_storing):
            points = tuple(c for c in dict.fromkeys((*needed, *more)) if c not in inputs and c not in roots)
            found = self.maker.chain(points, described, using)
            if isinstance(found, Cover) and not any(isinstance(k, PlannedCall) for k in found.steps):
                found = Rejection("nothing uses it")
            if isinstance(found, Cover):
                best = found if best is None or found.us < best.us else best
            elif added is not None:
                self.record.failed(f"{added.by} outside", found.reason)
                self.refused[_key(added)] = found.reason if added.by in found.reason else f"{added.by}: {found.reason}"
        if best is not None and added is not None:
            before = self.offered.get(_key(added))
            if before is None or best.us < before[1].us:
                self.offered[_key(added)] = (added, best)
        return best

    def not_taken(self, best: Cover) -> tuple[str, ...]:
        """Why each offer that was made is not in the plan: no plan with it exists, or it lost."""
        taken = {(k.rule, about) for k in best.steps if isinstance(k, PlannedCall) for about in ("", k.call.result.buffer.name)}
        said = [why for key, why in self.refused.items() if key not in self.offered and key not in taken]
        lost = [(o, c) for key, (o, c) in self.offered.items() if key not in taken]
        said += [f"{spoken(o)} for {c.us:.1f} us in all, {self.record.reason(c, best)}" for o, c in lost]
        late = {_key(o): o for o in self.maker.offers if _key(o) not in {*self.offered, *self.refused, *taken}}
        if not self.maker.meter.ended:
            return tuple(said)
        return (*said, *(f"{spoken(o)}, but time_budget ran out before it was tried" for o in late.values()))


def _key(o: Outside) -> tuple[str, str]:
    """Who makes an offer, and for which value if that matters."""
    return o.by, o.about
