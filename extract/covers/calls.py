"""Outside implementations: the calls that rules offer, taken into a cover where they lower its price."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from ...ir.terms import Input
from ..library import MADE_FOR_ALL, buffer_names
from ..outside import Outside, misfits, spoken
from ..plan import PlannedCall
from ..search import BEATEN, FIRST, Rejection
from .cover import Cover, Step
from .maker import CoverMaker
from .points import Points
from .record import Record


class Calls:
    """The offers of one graph, by who makes them and for what.

    ``refused``: why no plan with an offer exists.  ``offered``: the offer, and the best cover with it.
    """

    def __init__(self, maker: CoverMaker, points: Points, record: Record) -> None:
        self.maker, self.points, self.record = maker, points, record
        self.names = buffer_names(maker.graph)
        self.refused: dict[tuple[str, str], str] = {}
        self.offered: dict[tuple[str, str], tuple[Outside, Cover]] = {}

    def added_to(self, best: Cover | None) -> Cover | None:
        """The cover with outside implementations where they lower the price: from all that are offered, or none where that does not pay,
        one more, one less, or another one for the same value at a time, as long as the price falls."""
        available = [o for o in self.maker.offers if o.cls in self.maker.graph.original]
        for by, why in misfits(self.maker.graph).items():
            self.refused[by, ""] = why
        for o in self.maker.offers:
            if o.by not in {a.by for a in available}:
                self.refused[_key(o)] = f"{spoken(o)} for what is no value of the program as written"
        every = {o.cls: o for o in sorted(available, key=lambda o: -o.us(self.maker.target))}  # of each value the cheapest
        taken: dict[int, Outside] = {}
        if self.maker.meter.over():
            with self._hasty():
                return self._late(available, best)
        if len(every) > 1 and (found := self._with(every, best)) is not None and (best is None or found.us < best.us * (1 - 1e-9)):
            best, taken = found, every
        while available and not self.maker.meter.over():
            ways = [(o, {**taken, o.cls: o}) for o in available if taken.get(o.cls) is not o]
            ways += [(None, {k: o for k, o in taken.items() if k != c}) for c in taken if len(taken) > 1]
            covers = [(o, using, found) for o, using in ways if (found := self._with(using, best, o)) is not None]
            if not covers:
                break
            _, using, found = min(covers, key=lambda c: c[2].us)
            if best is not None and found.us >= best.us * (1 - 1e-9):
                self.record.beaten(found, best)
                break
            if best is not None:
                self.offered.update({_key(taken[c]): (taken[c], best) for c in taken.keys() - using.keys()})
            best, taken = found, using
        return best

    def _late(self, available: Sequence[Outside], best: Cover | None) -> Cover | None:
        """The best cover with one call, with one for each value, or with those that pay alone: calls need no search, so they are looked at
        however late it is.  A sum of products over several axes is one value."""
        nests = self.points.work.nests.values()
        inside = {c for t, c in self.points.classes.items() if any(t in nest.inner for nest in nests if nest.product)}
        alone = [(found.us, o, found) for o in available if o.cls not in inside and (found := self._with({o.cls: o}, best, o)) is not None]
        alone.sort(key=lambda x: -x[0])
        covers = [found for *_, found in alone]
        most = math.inf if best is None else best.us
        for together in ({o.cls: o for _, o, _ in alone}, {o.cls: o for us, o, _ in alone if us < most}):  # of each value the cheapest
            if len(together) > 1 and (found := self._with(together, covers[-1])) is not None:
                covers.append(found)
        return min((*covers, *([best] if best is not None else [])), key=lambda c: c.us, default=None)

    @contextmanager
    def _hasty(self) -> Iterator[None]:
        """What is beside calls by the first kernels that fit, whatever time there is."""
        with self.maker.meter.unbounded(), self.maker.search.at(FIRST):
            yield

    def _with(self, using: Mapping[int, Outside], known: Cover | None, added: Outside | None = None) -> Cover | None:
        """The best cover with some offers, of which one may have been added to others.  What those of the library take is of no interest
        where it is more than another cover does."""
        graph, program = self.maker.graph, self.maker.program
        needed = tuple(c for o in using.values() for c in (o.cls, *(r.cls for r in o.reads)) if c in graph.original)
        inputs = {c for t, c in zip(program.terms(), graph.original, strict=True) if isinstance(t, Input)}
        roots = {r.cls for r in self.maker.outputs}
        described = f"{', '.join(dict.fromkeys(o.by for o in using.values()))} outside"
        best: Cover | None = None
        for more in ((), self.points.worth_storing):
            points = tuple(c for c in dict.fromkeys((*needed, *more)) if c not in inputs and c not in roots)
            many = len(self.maker.offers) > 1 and all(o.by in MADE_FOR_ALL for o in using.values())  # of one the plan says what it takes
            limit = known.us if known is not None and many else math.inf
            chain = partial(self.maker.chain, points, described, using, floors=self._floors(using))
            rough = self.maker.roughly_below(limit, lambda us, c=chain: c(limit=us))  # type: ignore[misc]
            found = chain(limit=limit) if rough else BEATEN
            asked = [added] if added is not None else using.values()
            if isinstance(found, Cover) and not any(self._made_by(k, o) for k in found.steps for o in asked):
                found = Rejection("nothing uses it")
            if isinstance(found, Cover):
                best = found if best is None or found.us < best.us else best
            elif added is not None:
                self.record.failed(f"{added.by} outside", found.reason)
                said = spoken(added) if found.beaten else added.by
                self.refused[_key(added)] = found.reason if added.by in found.reason else f"{said}: {found.reason}"
        if best is not None and added is not None:
            before = self.offered.get(_key(added))
            if before is None or best.us < before[1].us:
                self.offered[_key(added)] = (added, best)
        return best

    def _floors(self, using: Mapping[int, Outside]) -> dict[int, float]:
        """What those steps of a cover with some offers take at least that there are in any case: the calls, a launch for each output, and
        one for each value that a call reads and that is no view of another."""
        classes, target = self.maker.graph.classes, self.maker.target
        read = {r.cls for o in using.values() for r in o.reads if not any(n.op in ("input", "view", "gather") for n in classes[r.cls])}
        launched = {*(r.cls for r in self.maker.outputs), *(read & {*self.maker.graph.original})}
        return {**dict.fromkeys(launched, target.launch_us), **{c: o.us(target) for c, o in using.items()}}

    def _made_by(self, step: Step, o: Outside) -> bool:
        """Whether a step is the call of an offer."""
        return isinstance(step, PlannedCall) and step.rule == o.by and step.call.result.buffer.name == self.names[o.cls]

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
