"""What was chosen, cut where values move: local programs at local sizes.

An axis that is shared out is an axis of its own in a local program, shorter; of length 1 it is none.  A device's position along it is an
input.  Stages are those of the :mod:`.schedule`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from ..egraph.frozen import ENode
from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Axis, index
from ..ir.monoids import MONOIDS
from ..ir.program import Output, Program
from ..ir.recursion import Steps, completed
from ..ir.terms import Cast, Const, Gather, Index, Input, Map, Reduce, Scan, Term, View
from .choice import Chosen, Space
from .mesh import Mesh, Place
from .plan import Local, Moved, Placed, Position, Spread
from .schedule import Item, Schedule

Form = tuple[tuple[Axis | None, ...], DType]  # in which a value is stored: its dimensions and type


def cut(space: Space, chosen: Chosen) -> Placed:
    """The steps of a choice, with the price of what local programs are apart from their operations: what they store for each other, which
    is written and read, and a launch for each."""
    return _Cut(space, chosen).placed()


class _Cut:
    """The tensors of a choice, and its steps."""

    def __init__(self, space: Space, chosen: Chosen) -> None:
        self.space, self.chosen, self.schedule = space, chosen, Schedule(space, chosen)
        self.tensors: dict[str, Spread] = {}
        self.names: dict[tuple[Item, Form], str] = {}  # of what is stored, in which form

    def placed(self) -> Placed:
        """All of it."""
        program, schedule, target = self.space.forms.program, self.schedule, self.space.target
        places = {schedule.input_of(item): item[0][1] for item in schedule.made}
        self.tensors = {i.name: Spread(i.name, i.layout, i.dtype, places[i.name]) for i in program.inputs if i.name in places}
        outputs = self._want()
        steps: list[Local | Moved] = [*self._moves_at(0)]
        for s in range(1 + schedule.last):
            if (local := _Stage(self, s).local()) is not None:
                steps.append(local)
            steps += self._moves_at(s + 1)
        named = {o.name: self.names[item, form] for o, (item, form) in zip(program.outputs, outputs, strict=True)}
        plan = Placed(program, self.space.mesh, self.tensors, tuple(steps), named, self.chosen)
        stored_us = 2 * plan.stored_bytes / (target.dram_gb_s * 1e3)
        return replace(plan, apart_us=stored_us + len(plan.locals) * target.launch_us)

    # what is stored -------------------------------------------------------------------------------------------------------------------
    def form(self, item: Item) -> Form:
        """How a value is stored for others to read."""
        c = item[0][0]
        name = self.schedule.input_of(item) or (self.schedule.input_of(self.schedule.sources(item)[0]) if item[1] else None)
        if name is not None:
            i = self.space.inputs[name]
            return i.layout, i.dtype
        for o in self.space.forms.program.outputs:
            if self.space.forms.graph.roots[o.name] == c and o.dtype == self.space.forms.dtypes[c]:
                return o.layout, o.dtype
        return tuple(sorted(self.space.axes[c])), self.space.forms.dtypes[c]

    def _want(self) -> list[tuple[Item, Form]]:
        """Everything that is stored gets a name; the items and forms of the outputs."""
        outputs = []
        for o in self.space.forms.program.outputs:
            item = self.schedule.read(self.chosen.outputs[o.name])
            outputs.append((item, (o.layout, o.dtype)))
            self._store(item, (o.layout, o.dtype), o.name)
        for item in self.schedule.made:
            if item[1] or (item in self.schedule.stage and self.schedule.stored(item)):
                self._store(item, self.form(item))
        return outputs

    def _store(self, item: Item, form: Form, name: str | None = None) -> None:
        """A name for an item that is stored in a form, and for what it is moved from."""
        if (item, form) in self.names:
            return
        given = self.schedule.input_of(item)
        if given is not None and form == self.form(item):
            self.names[item, form] = given
            return
        if item[1]:
            self._store(self.schedule.sources(item)[0], form)
        base = name or f"t{item[0][0]}"
        taken = {*self.tensors, *self.space.inputs, *((o.name for o in self.space.forms.program.outputs) if name is None else ())}
        chosen = next(n for n in (base if not k else f"{base}_{k}" for k in count()) if n not in taken)
        self.names[item, form] = chosen
        self.tensors[chosen] = Spread(chosen, *form, item[0][1])

    def _moves_at(self, level: int) -> list[Moved]:
        """The moves that follow the stages before a level; of inputs, none."""
        found = []
        for (item, form), name in self.names.items():
            if item[1] and self.schedule.level[item] == level:
                source = self.schedule.sources(item)[0]
                found.append(Moved(self.names[source, form], name, self.schedule.made[item].moves))
        return found


class _Stage:
    """The local program of one stage."""

    def __init__(self, whole: _Cut, number: int) -> None:
        self.whole, self.number = whole, number
        self.mesh: Mesh = whole.space.mesh
        self.axes: dict[tuple[Axis, int], Axis | None] = {}
        self.taken: set[str] = set()
        self.memo: dict[Item, Term] = {}
        self.reads: dict[str, Input] = {}
        self.positions: dict[Position, Input] = {}

    def local(self) -> Local | None:
        """The program of what is stored by this stage; ``None`` where that is nothing."""
        whole = self.whole
        outputs: list[Output] = []
        for (item, (layout, dtype)), name in whole.names.items():
            stored_here = whole.schedule.stage.get(item) == self.number
            if stored_here:
                local = tuple(a and self.axis(a, item[0][1]) for a in layout)
                outputs.append(Output(name, completed(self.term(item)), local, dtype))
        if not outputs:
            return None
        inputs = (*self.reads.values(), *self.positions.values())
        program = Program(f"{whole.space.forms.program.name}_{self.number}", tuple(outputs), inputs)
        program.check()
        return Local(program, tuple(self.reads), tuple(o.name for o in outputs), tuple(self.positions))

    def axis(self, a: Axis, place: Place) -> Axis | None:
        """The axis that a device has of one at a place."""
        parts = self.mesh.parts(place, a)
        if (a, parts) not in self.axes:
            base = a.name if parts == 1 else f"{a.name}_part"
            name = next(n for n in (base if not k else f"{base}{k}" for k in count()) if n not in self.taken)
            self.taken.add(name)
            self.axes[a, parts] = Axis(name, a.size // parts) if parts == 1 or a.size > parts else None
        return self.axes[a, parts]

    def term(self, item: Item) -> Steps[Term]:
        """The value of an item on a device."""
        if item not in self.memo:
            made = self.leaf(item)
            if made is None:
                args = []
                for s in self.whole.schedule.sources(item):
                    args.append((yield self.term(s)))
                made = self.rounded(item[0][0], self.made(item, args))
            self.memo[item] = made
        return self.memo[item]

    def leaf(self, item: Item) -> Term | None:
        """A tensor that is there."""
        whole = self.whole
        form = whole.form(item)
        name = whole.schedule.input_of(item) or whole.names.get((item, form))
        if name is None or whole.schedule.stage.get(item, -1) >= self.number:
            return None
        local = tuple(a and self.axis(a, item[0][1]) for a in form[0])
        return self.reads.setdefault(name, Input(name, local, form[1]))

    def rounded(self, c: int, t: Term) -> Term:
        """In a type that torch gives the value, if that is narrower than the form's: as the program that is run eagerly has it."""
        own = self.whole.space.forms.dtypes[c]
        if t.dtype is not None and t.dtype.is_float and own.is_float and own.itemsize < t.dtype.itemsize:
            return Cast(own, t)
        return t

    def made(self, item: Item, args: list[Term]) -> Term:
        """A form on what a device has."""
        n, place = self.whole.schedule.node(item), item[0][1]
        assert n is not None
        if n.op == "const":
            return Const(n.attrs[0])
        if n.op == "extent":
            return Const(n.attrs[0].size)
        if n.op == "index":
            return self.index(n.attrs[0], place)
        if n.op == "map":
            return Map(n.attrs[0], tuple(args))
        if n.op == "cast":
            return Cast(n.attrs[0], args[0])
        if n.op == "scan":
            along = self.axis(n.attrs[1], place)
            return args[MONOIDS[n.attrs[0]].part] if along is None else Scan(n.attrs[0], along, *args)
        (_, below), *_ = self.whole.schedule.made[item].sources
        if n.op == "reduce":
            return self.reduced(n, below, args[0])
        if n.op == "gather":
            return Gather(args[0], n.attrs[0], args[1])
        j, e = n.attrs
        local = self.axis(j, below)
        if local is None:
            return args[0]
        here = {a: self.axis(a, place) for a in e.axes()}
        return View(args[0], local, e.substitute({a: index(0) if b is None else index(b) for a, b in here.items()}))

    def reduced(self, n: ENode, below: Place, x: Term) -> Term:
        """The reduction of a part; of a mean, the addend."""
        monoid, j = n.attrs
        parts, local = self.mesh.parts(below, j), self.axis(j, below)
        found = x if local is None else Reduce(monoid, local, x)
        return found * (1.0 / parts) if monoid == "mean" and parts > 1 else found

    def index(self, a: Axis, place: Place) -> Term:
        """Positions along an axis."""
        local = self.axis(a, place)
        here: Term = Const(0) if local is None else Index(local)
        for d, p in enumerate(place):
            if p == a:
                at = Position(a, d)
                name = f"first_of_{a.name}_{self.mesh.names[d]}"
                first = self.positions.setdefault(at, Input(name, (), dtypes.int64))
                here = first if local is None else here + first
        return here
