"""Outside implementations: the calls that rules offer, taken into a cover where they lower its price."""

from __future__ import annotations

from ...ir.terms import Input
from ..outside import Outside, misfits, spoken
from ..plan import PlannedCall
from ..search import Rejection
from .cover import Cover
from .maker import CoverMaker
from .points import Points
from .record import Record


class Calls:
    """The offers of one graph.

    ``refused``: fusion rule -> why no plan with its offer exists.  ``offered``: fusion rule -> the offer, and the best cover with it.
    """

    def __init__(self, maker: CoverMaker, points: Points, record: Record) -> None:
        self.maker, self.points, self.record = maker, points, record
        self.refused: dict[str, str] = {}
        self.offered: dict[str, tuple[Outside, Cover]] = {}

    def added_to(self, best: Cover | None) -> Cover | None:
        """The cover with outside implementations where they lower the price, added one at a time, best first."""
        available = [o for o in self.maker.offers if o.cls in self.maker.graph.original]
        self.refused.update(misfits(self.maker.graph))
        for o in self.maker.offers:
            if o.offer.by not in {a.offer.by for a in available}:
                self.refused[o.offer.by] = f"{spoken(o.offer)} for what is no value of the program as written"
        taken: dict[int, Outside] = {}
        while available and not self.maker.meter.over():
            covers = []
            for o in available:
                using = {**taken, o.cls: o}
                needed = tuple(c for u in using.values() for c in (u.cls, *u.reads) if c in self.maker.graph.original)
                for more in ((), self.points.worth_storing):
                    inputs = {c for t, c in zip(self.maker.program.terms(), self.maker.graph.original, strict=True) if isinstance(t, Input)}
                    points = tuple(dict.fromkeys(c for c in (*needed, *more) if c not in inputs))
                    roots = {r.cls for r in self.maker.outputs}
                    described = f"{', '.join(u.offer.by for u in using.values())} outside"
                    found = self.maker.chain(tuple(c for c in points if c not in roots), described, using)
                    if isinstance(found, Cover) and not any(isinstance(k, PlannedCall) for k in found.steps):
                        found = Rejection("nothing uses it")
                    if isinstance(found, Rejection):
                        self.record.failed(f"{o.offer.by} outside", found.reason)
                        self.refused[o.offer.by] = found.reason if o.offer.by in found.reason else f"{o.offer.by}: {found.reason}"
                    else:
                        covers.append((o, found))
                        before = self.offered.get(o.offer.by)
                        if before is None or found.us < before[1].us:
                            self.offered[o.offer.by] = (o, found)
            if not covers:
                break
            o, found = min(covers, key=lambda c: c[1].us)
            if best is not None and found.us >= best.us * (1 - 1e-9):
                self.record.beaten(found, best)
                break
            best, taken[o.cls] = found, o
            available = [other for other in available if other.cls not in taken]
        return best

    def not_taken(self, best: Cover) -> tuple[str, ...]:
        """Why each offer that was made is not in the plan: no plan with it exists, or it lost."""
        taken = {k.rule for k in best.steps if isinstance(k, PlannedCall)}
        said = [why for by, why in self.refused.items() if by not in self.offered and by not in taken]
        lost = [(o, c) for by, (o, c) in self.offered.items() if by not in taken]
        said += [f"{spoken(o.offer)} for {c.us:.1f} us in all, {self.record.reason(c, best)}" for o, c in lost]
        late = {o.offer.by: o for o in self.maker.offers if o.offer.by not in {*self.offered, *self.refused, *taken}}
        if not self.maker.meter.ended:
            return tuple(said)
        return (*said, *(f"{spoken(o.offer)}, but time_budget ran out before it was tried" for o in late.values()))
