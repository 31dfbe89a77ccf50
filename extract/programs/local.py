"""Other programs for parts of a large program: an exchange of sums is looked for where products are shared, whatever is around them.

A neighbourhood (:func:`~eqfuse.extract.regions.neighbourhoods`) is a program of its own, which reads what is stored around it; what is
found for it is put back in its place.  Of a program of both passes it has what the forward pass makes beside what the backward pass makes
of the same products.  So sums over the largest values of a layer of any size are found to be sums over what is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir.index import Axis
from ...ir.nodes import renamed
from ...ir.program import Output, Program
from ...ir.recursion import arguments_first
from ...ir.terms import Const, Extent, Index, Input, Term
from ..regions import neighbourhoods
from ..regions.partition import stored_names
from ..regions.region import Natural
from ..targets import Target


@dataclass(frozen=True)
class Neighbourhood:
    """``program`` makes ``roots``, values of a larger one, of ``leaves``: by its inputs, the larger one's values."""

    program: Program
    roots: tuple[Term, ...]
    leaves: Mapping[Input, Term]


def parts_of(program: Program, target: Target) -> Iterator[Neighbourhood]:
    """The neighbourhoods of a program."""
    for roots, stored in neighbourhoods(program, target):
        numbers = {t: k for k, t in enumerate(program.terms())}
        names = stored_names(program, [numbers[t] for t in stored])
        natural = Natural()
        now: dict[Term, Term] = {}
        leaves: dict[Input, Term] = {}

        def ends(t: Term, own: frozenset[Term] = frozenset(roots), cut: Mapping[Term, None] = stored) -> bool:
            return t in cut and t not in own and not isinstance(t, Const | Extent | Index)

        for t in arguments_first(roots, lambda t: () if ends(t) else t.args):
            if isinstance(t, Input) or ends(t):
                now[t] = t if isinstance(t, Input) else Input(names[numbers[t]], natural.order(t), t.dtype)
                leaves[now[t]] = t  # type: ignore[index]
            else:
                now[t] = t.over([now[a] for a in t.args])
        outputs = tuple(Output(f"{names[numbers[t]]}_made", now[t], natural.order(t), t.dtype) for t in roots if t.dtype is not None)
        widened = frozenset(now[t] for t in program.widened if t in now)
        strides = {i.name: program.strides[i.name] for i in leaves if i.name in program.strides}
        yield Neighbourhood(Program(program.name, outputs, tuple(leaves), {}, {}, widened, (), strides), tuple(roots), leaves)


def put_back(whole: Program, others: Sequence[tuple[Neighbourhood, Program]]) -> Program | None:
    """The program with other terms for the values of neighbourhoods; ``None`` if they would be made of themselves."""
    known = {a for part, _ in others for a in part.program.every_axis}
    taken = {a.name for a in whole.every_axis}
    new = _Fresh(taken, max((a.rank for a in whole.every_axis), default=0), known)
    made: dict[Term, Term] = {}  # of the whole
    inside: dict[Term, Term] = {}  # of the other program
    become = {t: o.term for part, other in others for t, o in zip(part.roots, other.outputs, strict=True)}
    leaf = {i.name: t for part, _ in others for i, t in part.leaves.items()}
    widened = [t for _, other in others for t in other.widened]
    Step = tuple[bool, Term]  # whether it is a term of the other program

    def needs(step: Step) -> list[Step]:
        within, t = step
        if within:
            return [(False, leaf[t.name])] if isinstance(t, Input) and leaf[t.name] is not t else [(True, a) for a in t.args]
        return [(True, become[t])] if t in become else [(False, a) for a in t.args]

    open_: set[Step] = set()
    todo = [(False, o.term) for o in whole.outputs]
    while todo:
        step = todo[-1]
        within, t = step
        table = inside if within else made
        if t in table:
            todo.pop()
            continue
        missing = [s for s in needs(step) if s[1] not in (inside if s[0] else made)]
        if missing:
            if step in open_:
                return None
            open_.add(step)
            todo += missing
            continue
        todo.pop()
        if within and isinstance(t, Input):
            table[t] = t if leaf[t.name] is t else made[leaf[t.name]]
        elif within:
            table[t] = t.over([inside[a] for a in t.args], lambda x: renamed(x, new))
        else:
            table[t] = inside[become[t]] if t in become else t.over([made[a] for a in t.args]) if t.args else t
    return replace(
        whole,
        outputs=tuple(replace(o, term=made[o.term]) for o in whole.outputs),
        sources={made[t]: text for t, text in whole.sources.items() if t in made},
        names={n: tuple(dict.fromkeys(made[t] for t in ts if t in made)) for n, ts in whole.names.items()},
        widened=frozenset((*(made[t] for t in whole.widened if t in made), *(inside[t] for t in widened if t in inside))),
    )


class _Fresh:
    """Axes of another program, under names that the whole one does not have."""

    def __init__(self, taken: set[str], rank: int, known: set[Axis]) -> None:
        self.taken, self.rank, self.known, self.made = taken, rank, known, dict[Axis, Axis]()

    def __call__(self, a: Axis) -> Axis:
        if a in self.known:
            return a
        if a not in self.made:
            name = next(n for n in (a.name, *(f"{a.name}_{k}" for k in range(2, 2 + len(self.taken)))) if n not in self.taken)
            self.taken.add(name)
            self.rank += 1
            self.made[a] = Axis(name, a.size, a.rank and self.rank)
        return self.made[a]


def with_other_parts(program: Program, target: Target, better: Callable[[Program], Program | None]) -> Program | None:
    """The program with better ones for its neighbourhoods, as far as there are any."""
    found = [(part, other) for part in parts_of(program, target) if (other := better(part.program)) is not None]
    return put_back(program, found) if found else None
