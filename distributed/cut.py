"""What was chosen, cut where values move: local programs at local sizes.

Every value is computed by the last stage that can, and stored if it moves or a later stage reads it; what is made of positions and
constants alone, and views of tensors that are there, is made again where it is needed.  An axis that is shared out is an axis of its own
there, shorter; of length 1 it is none.  A device's position along it is an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from ..egraph.frozen import ENode
from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Axis, index
from ..ir.program import Output, Program
from ..ir.recursion import Steps, completed
from ..ir.terms import Cast, Const, Index, Input, Map, Reduce, Term, View
from .choice import Chosen, Key, Made, Space
from .mesh import Mesh, Place
from .plan import Local, Moved, Placed, Position, Spread

Item = tuple[Key, bool]  # a value computed at a place, or moved there
Form = tuple[tuple[Axis | None, ...], DType]  # in which a value is stored: its dimensions and type

FREE = ("const", "extent", "index")  # made from nothing


def cut(space: Space, chosen: Chosen) -> Placed:
    """The steps of a choice."""
    return _Cut(space, chosen).placed()


@dataclass
class _Cut:
    space: Space
    chosen: Chosen
    tensors: dict[str, Spread] = field(default_factory=dict)
    names: dict[tuple[Item, Form], str] = field(default_factory=dict)  # of what is stored, in which form
    wanted: dict[Item, dict[Form, None]] = field(default_factory=dict)

    def placed(self) -> Placed:
        program = self.space.forms.program
        for i in program.inputs:
            place = next((key[1] for key, moved in self.made if not moved and self.input_of((key, moved)) == i.name), None)
            if place is not None:
                self.tensors[i.name] = Spread(i.name, i.layout, i.dtype, place)
        self.level = self._levels()
        self.stage = self._stages()
        outputs = self._want()
        steps: list[Local | Moved] = [*self._moves_at(0)]
        for s in range(1 + max(self.level.values())):
            if (local := _Stage(self, s).local()) is not None:
                steps.append(local)
            steps += self._moves_at(s + 1)
        named = {o.name: self.names[item, form] for o, (item, form) in zip(program.outputs, outputs, strict=True)}
        return Placed(program, self.space.mesh, self.tensors, tuple(steps), named, self.chosen)

    # what is where --------------------------------------------------------------------------------------------------------------------
    @property
    def made(self) -> Mapping[Item, Made]:
        """How each item is made."""
        return self.chosen.made

    def read(self, key: Key) -> Item:
        """What is read of a value at a place."""
        return key, (key, True) in self.made

    def node(self, item: Item) -> ENode | None:
        """The form by which an item is computed; ``None`` for what is moved."""
        (c, _), moved = item
        return None if moved else self.space.forms.members[c][self.made[item].member or 0]

    def input_of(self, item: Item) -> str | None:
        """The input that an item is."""
        n = self.node(item)
        return n.attrs[0] if n is not None and n.op == "input" else None

    def sources(self, item: Item) -> list[Item]:
        """What an item is made of."""
        found = self.made[item].sources
        return [(s, False) for s in found] if item[1] else [self.read(s) for s in found]

    def _levels(self) -> dict[Item, int]:
        """The number of moves that an item has to wait for; those of inputs come before everything."""
        found: dict[Item, int] = {}
        for item in self.made:
            level = max((found[s] for s in self.sources(item)), default=0)
            found[item] = level + int(item[1] and self.input_of(self.sources(item)[0]) is None)
        return found

    def _stages(self) -> dict[Item, int]:
        """The last stage that may compute an item."""
        last = max(self.level.values())
        found: dict[Item, int] = {}
        for item in reversed(list(self.made)):
            found.setdefault(item, last)
            here = self.level[item] - 1 if item[1] else found[item]
            for s in self.sources(item):
                found[s] = min(found.get(s, last), max(here, 0))
        return found

    def light(self, item: Item) -> bool:
        """Whether an item is made again where it is read: positions, constants, what is made of these; views of tensors that are there."""
        if item not in self._light:
            n = self.node(item)
            if n is None or n.op == "input":
                self._light[item] = False
            elif n.op in FREE:
                self._light[item] = True
            elif n.op == "view":
                s = self.sources(item)[0]
                self._light[item] = s[1] or self.input_of(s) is not None or self.light(s)
            else:
                self._light[item] = n.op != "reduce" and all(map(self.light, self.sources(item)))
        return self._light[item]

    _light: dict[Item, bool] = field(default_factory=dict)
    level: dict[Item, int] = field(default_factory=dict)
    stage: dict[Item, int] = field(default_factory=dict)

    # what is stored -------------------------------------------------------------------------------------------------------------------
    def form(self, item: Item) -> Form:
        """How a value is stored for others to read."""
        c = item[0][0]
        name = self.input_of(item) or (self.input_of(self.sources(item)[0]) if item[1] else None)
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
            item = self.read(self.chosen.outputs[o.name])
            outputs.append((item, (o.layout, o.dtype)))
            self._store(item, (o.layout, o.dtype), o.name)
        for item in self.made:
            if item[1]:
                self._store(item, self.form(item))
            elif self.input_of(item) is None and not self.light(item):
                if any(self.stage[u] > self.stage[item] for u in self.users.get(item, ()) if not u[1] and not self.light(u)):
                    self._store(item, self.form(item))
                elif any(self.light(u) for u in self.users.get(item, ()) if not u[1]):
                    self._store(item, self.form(item))  # by whichever stage reads the view
        return outputs

    @property
    def users(self) -> Mapping[Item, list[Item]]:
        """Who reads an item."""
        if not self._users:
            for item in self.made:
                for s in self.sources(item):
                    self._users.setdefault(s, []).append(item)
        return self._users

    _users: dict[Item, list[Item]] = field(default_factory=dict)

    def _store(self, item: Item, form: Form, name: str | None = None) -> None:
        """A name for an item that is stored in a form, and for what it is moved from."""
        if (item, form) in self.names:
            return
        given = self.input_of(item)
        if given is not None and form == self.form(item):
            self.names[item, form] = given
            return
        if item[1]:
            self._store(self.sources(item)[0], form)
        base = name or f"t{item[0][0]}"
        taken = {*self.tensors, *self.space.inputs, *((o.name for o in self.space.forms.program.outputs) if name is None else ())}
        chosen = next(n for n in (base if not k else f"{base}_{k}" for k in count()) if n not in taken)
        self.names[item, form] = chosen
        self.tensors[chosen] = Spread(chosen, *form, item[0][1])

    def _moves_at(self, level: int) -> list[Moved]:
        """The moves that follow the stages before a level; of inputs, none."""
        found = []
        for (item, form), name in self.names.items():
            if item[1] and self.level[item] == level:
                source = self.sources(item)[0]
                found.append(Moved(self.names[source, form], name, self.made[item].moves))
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
            stored_here = whole.stage[item] == self.number and not item[1] and name != whole.input_of(item)
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
                for s in self.whole.sources(item):
                    args.append((yield self.term(s)))
                made = self.rounded(item[0][0], self.made(item, args))
            self.memo[item] = made
        return self.memo[item]

    def leaf(self, item: Item) -> Term | None:
        """A tensor that is there."""
        whole = self.whole
        form = whole.form(item)
        name = whole.input_of(item) or whole.names.get((item, form))
        if name is None or (whole.input_of(item) is None and not item[1] and whole.stage[item] >= self.number):
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
        n, place = self.whole.node(item), item[0][1]
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
        (_, below), *_ = self.whole.made[item].sources
        if n.op == "reduce":
            return self.reduced(n, below, args[0])
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
