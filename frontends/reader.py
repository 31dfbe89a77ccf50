"""From a graph to terms, by asking what each value is at an index.

A node is read at one index expression per dimension.  A permutation reads its argument at the permuted index, a slice at a
shifted one, a matrix product at its own two indices and a bound axis; the question goes down until it reaches inputs, where an
index that is not simply an axis becomes a ``View``.  So reshapes, slices and transposes never are operations of their own:
merging and splitting dimensions again cancels in the arithmetic of index expressions.

Names come from the :class:`~.alignment.Alignment`: a reduction binds the axis of the dimension that it reduces, so a row's
maximum and its sum run over one axis and equal values become one term.  If that axis is already in use outside (``x @ x.T``),
another one is bound; a value with reductions in it that is read under two sets of names is written once and renamed by a
``View``.  The new name must not be bound inside it: whoever bound it outside takes another one (:class:`_InUse`), so that a stack of
layers, whose keys all have the positions of one mask, is read once.  Every answer is right by construction, whatever the names.
"""

from __future__ import annotations

import math
import operator
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import torch

from ..errors import TraceError, UnsupportedOpError
from ..ir import bounds
from ..ir.dtypes import STORED
from ..ir.index import Axis, IndexExpr, index
from ..ir.ranges import Interval
from ..ir.recursion import Retried, arguments_first
from ..ir.terms import Cast, Const, Gather, Index, Input, Reduce, Scan, Term, View, as_term, number_of, whole_number
from . import (  # noqa: F401 - they fill the table
    aten_associative,
    aten_convolutions,
    aten_functions,
    aten_gathers,
    aten_joins,
    aten_norms,
    aten_pointwise,
    aten_pool_gradients,
    aten_ranges,
    aten_reductions,
    aten_scans,
    aten_scatters,
    aten_sources,
    aten_views,
    aten_windows,
)
from .alignment import Alignment, Dims
from .aten import OPS, TURNED, WINDOWS, At, AtenOp, Call, broadcast_at, dims_of, free_axes, fresh_dims, is_inside, shape_of
from .axis_names import AxisNames, Sizes
from .places import place, place_of_node
from .spec import ir_dtype

if TYPE_CHECKING:
    from torch.fx import Graph, Node

    Result = tuple[Node, int | None]  # a node, and which of its results
    Place = tuple[list[Axis], IndexExpr]  # axes, and a position along a dimension that they give

SCANNED = Axis("scanned", 0)  # stands for the axes of all scans
_IGNORED = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "implicit", "generator"})


def arguments(node: Node) -> list[Any]:
    """A node's arguments in schema order with defaults filled in, without those that say where and how a tensor is stored."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return list(node.args)
    given = list(node.args)
    out = []
    for position, a in enumerate(schema.arguments):
        if a.name in _IGNORED:
            continue
        out.append(given[position] if position < len(given) else node.kwargs.get(a.name, a.default_value))
    return out


def substituted(x: Term, replacement: Mapping[Axis, IndexExpr], spare: Any) -> Term:
    """``x`` with several axes re-indexed at once, as a chain of Views; ``spare(axis)`` gives a name where they get in each other's way.

    A View of Views is one: where what was renamed for a moment is read elsewhere, there is no other name of the value in between.
    """
    todo = {a: e for a, e in replacement.items() if a in x.axes and e.as_axis() != a}
    if todo and isinstance(x, View):
        places = {a: todo.get(a, index(a)) for a in x.axes}
        while isinstance(x, View):
            here, at = x.axis, x.index.substitute(places)
            x = x.args[0]
            places = {a: at if a == here else places[a] for a in x.axes}
        todo = {a: e for a, e in places.items() if e.as_axis() != a}
    while todo:
        ready = next((a for a, e in todo.items() if not (e.axes() & (todo.keys() - {a}))), None)
        if ready is not None:
            x = View(x, ready, todo.pop(ready))
            continue
        a = next(iter(todo))  # a cycle, as in x[j, i]: step aside
        other = spare(a)
        x = View(x, a, index(other))
        todo[other] = todo.pop(a)
    return x


def _renaming(before: At, after: At) -> dict[Axis, Axis] | None:
    """The axes that take the places of others in an index, one for one and of one length, if that is all that is different."""
    found: dict[Axis, Axis] = {}
    for old, new in zip(before, after, strict=True):
        places = [{c: a for a, c in e.terms} for e in (old, new)]
        distinct = len(old.terms) == len(places[0]) and len(new.terms) == len(places[1])
        if not distinct or places[0].keys() != places[1].keys() or old.const != new.const:
            return None
        for c, a in places[0].items():
            b = places[1][c]
            if not (isinstance(a, Axis) and isinstance(b, Axis)) or a.size != b.size or found.setdefault(a, b) != b:
                return None
    return found if len(set(found.values())) == len(found) else None


def _quotients(e: IndexExpr) -> frozenset[Axis]:
    """The axes of whose positions an index has quotients or remainders."""
    return frozenset(a for atom, _ in e.terms if not isinstance(atom, Axis) for a in atom.numerator.axes())


def _shape(node: Node, item: int | None) -> Sequence[int]:
    """The shape of one of a node's results."""
    return shape_of(node) if item is None else node.meta["val"][item].shape


def _wrapped(shape: Sequence[int], at: At) -> At:
    """An index at positions that there are: what a concatenation chooses is read within its range, and anything beyond it."""
    ends = [e.bounds() for e in at]
    return tuple(e % n if n and (lo < 0 or hi >= n) else e for n, e, (lo, hi) in zip(shape, at, ends, strict=True))


def _overlap(one: At, other: At) -> bool:
    """Whether two readings of a value may read the same element."""
    return all(a.bounds()[0] <= b.bounds()[1] and b.bounds()[0] <= a.bounds()[1] for a, b in zip(one, other, strict=True))


def _linked(axes: Mapping[int, frozenset[Axis]]) -> list[list[int]]:
    """Keys in groups that have no axis in common; without those that have none."""
    groups: list[tuple[set[int], frozenset[Axis]]] = []
    for key, mine in axes.items():
        if mine:
            joined = [g for g in groups if g[1] & mine]
            groups = [g for g in groups if not g[1] & mine]
            groups.append(({key}.union(*(g[0] for g in joined)), mine.union(*(g[1] for g in joined))))
    return [sorted(keys) for keys, _ in groups]


class _InUse(Exception):
    """A value is wanted under the name of an axis that reductions in it bind.  ``bound``: what they all bind, as bits."""

    def __init__(self, axis: Axis, bound: int) -> None:
        super().__init__()
        self.axis, self.bound = axis, bound


class Reader:
    """Reads one graph.  ``names`` and ``constants`` say what the placeholders are: named inputs, or numbers known now; ``sizes`` what
    the source calls their sizes.  ``several`` and ``apart``: what another reading found there."""

    def __init__(
        self,
        graph: Graph,
        names: Mapping[Node, str],
        constants: Mapping[Node, float],
        sizes: Sizes,
        *,
        exact: bool = False,
        several: Collection[Result] = (),
        apart: Collection[int] = (),
    ) -> None:
        self.several: set[Result] = set()  # values with reductions of which some element is read at several indices that are no renamings
        self.apart: set[int] = set()  # dimensions along which some of these are read both as a whole and by the parts that were merged
        self._apart = frozenset(apart)
        self._once = frozenset(several)  # of these: to be written at their own axes,
        self._own: defaultdict[Result, set[At]] = defaultdict(set)  # which are these
        self.names, self.constants, self.exact = names, constants, exact
        self.inputs: dict[Node, Input] = {}
        self.sources: dict[Term, str] = {}
        self.alignment = Alignment()
        self._ranks = count(1)
        self._axes: dict[tuple[int, int], Axis] = {}
        self._slices: dict[tuple[int, int, int, int], Axis] = {}
        self._asked = Retried()  # the ops ask for their arguments as they go, as deep as the graph is
        self._bounds: dict[Term, Interval] = {}
        self._first: dict[Result, tuple[At, Term]] = {}
        self._bound: dict[Term, int] = {}  # axes that reductions in a term bind, a bit for each
        self._bits: dict[Axis, int] = {}
        self._avoided = 0  # axes that the node that is being read must not bind
        self._kept: set[Axis] = set()  # axes of results, whose names stay: what is wanted under these is written again
        self._align_all(graph)
        self._one = whole = self._read_as_one(graph)
        uncut = self.alignment.cut_and_overlapped()
        if whole or uncut:
            self.alignment = Alignment()
            self.alignment.whole = uncut
            self._align_all(graph, whole)
        values: list[tuple[str, bool, Dims]] = []
        for node in graph.nodes:
            dims = node.meta.get("eqfuse_dims", ())
            for d in dims if any(isinstance(x, tuple) for x in dims) else (dims,):
                values.append((names.get(node) or _operation(node), node in names, d))
            if WINDOWS in node.meta:
                values.append(("window", False, node.meta[WINDOWS]))
        self._called = AxisNames(self.alignment, values, sizes)

    # names ------------------------------------------------------------------------------------------------------------------
    def _align_all(self, graph: Graph, whole: Collection[Node] = ()) -> None:
        """``whole``: what puts values side by side in a dimension of its own."""
        for node in graph.nodes:
            self.alignment.joins = node not in whole
            self._align(node)

    def _read_as_one(self, graph: Graph) -> set[Node]:
        """What puts values side by side in a dimension that reductions of reductions keep, or that is summed with windows.  Each would be
        there for each part, and each layer of a model as often as the one before, times the parts; what is reduced next, or stored, is the
        better for being apart."""
        depth: dict[Node, dict[int, int]] = {}  # of a dimension that is joined: how many reductions are of each other
        made: dict[int, set[Node]] = defaultdict(set)
        deep: set[int] = set()
        for node in graph.nodes:
            below = [x for x in node.all_input_nodes if x in depth]
            own = self._items(node)
            joined = {i for i in own if self.alignment.joined(i)}
            op = OPS.get(str(node.target)) if node.op == "call_function" else None
            reduces = op is not None and op.whole and any(self._items(x) - own for x in below)
            depth[node] = {i: reduces + max((depth[x].get(i, 0) for x in below), default=0) for i in joined}
            for i in joined - {*chain(*(depth[x] for x in below))}:
                made[i].add(node)
            summed = {self.alignment.find(i) for i in node.meta.get(WINDOWS, ()) if i is not None}
            deep |= {i for x in below for i in depth[x] if i in summed}
        deep |= {i for found in depth.values() for i, n in found.items() if n > 1}
        return {node for i in deep for node in made[i]}

    def _items(self, node: Node) -> set[int]:
        """The dimensions of a node's values, and those that they were merged from."""
        dims = node.meta.get("eqfuse_dims", ())
        flat = [i for d in dims for i in (d if isinstance(d, tuple) else (d,)) if i is not None]
        return {self.alignment.find(p) for i in flat for p in (i, *self.alignment.parts(i))}

    def _align(self, node: Node) -> None:
        value = node.meta.get("val")
        if node.op == "output" or value is None:
            return
        op = OPS.get(str(node.target)) if node.op == "call_function" else None
        if node.target is operator.getitem:
            source, item = node.args
            dims = dims_of(source)[item]
        elif op is not None:
            dims = op.align(self.alignment, node, *arguments(node))
        else:
            dims = fresh_dims(self.alignment, node)
        several = isinstance(value, list | tuple)
        node.meta["eqfuse_dims"] = tuple(self.alignment.tensor(d) for d in dims) if several else self.alignment.tensor(dims)

    def axis(self, item: int, alias: int = 0) -> Axis:
        """The axis of a dimension; ``alias`` numbers further axes of the same extent."""
        key = (self.alignment.find(item), alias)
        if key not in self._axes:
            name = self._called.of.get(key[0]) or self._called.fresh("axis")
            self._axes[key] = self._new(self._called.fresh(name) if alias else name, self.alignment.size(item))
        return self._axes[key]

    def _new(self, name: str, size: int) -> Axis:
        return Axis(name, size, next(self._ranks))

    def bound(self, item: int | None, taken: frozenset[Axis]) -> Axis | None:
        """The axis for reducing a dimension, other than the ones in use outside; ``None`` for size 1."""
        if item is None:
            return None
        for alias in count():
            found = self.axis(item, alias)
            if found not in taken and not self._avoided & self._bit(found):
                return found
        raise AssertionError

    def bind(self, item: int | None, taken: frozenset[Axis]) -> tuple[list[Axis], IndexExpr]:
        """Axes for reducing a dimension and where it is read then: one axis, or one for each part that a reshape merged."""
        axes: list[Axis] = []
        position = index(0)
        for part in () if item is None else self.alignment.parts(item):
            a = self.bound(part, taken | frozenset(axes))
            assert a is not None
            axes.append(a)
            position = position * a.size + index(a)
        return axes, position

    def places(self, item: int | None, taken: frozenset[Axis]) -> list[Place]:
        """Axes for reducing a dimension and where it is read then: one place, or one for each range that a concatenation joined."""
        if item is None:
            return [([], index(0))]
        if (found := self.alignment.parts(item)) != (item,):
            places: list[Place] = [([], index(0))]
            for part in found:
                size, outer = self.alignment.size(part), places
                places = [
                    ([*axes, *more], position * size + at)
                    for axes, position in outer
                    for more, at in self.places(part, taken | frozenset(axes))
                ]
            return places
        if joined := self.alignment.joined(item):
            return [(axes, at + start) for part, start in joined for axes, at in self.places(part, taken)]
        a = self.bound(item, taken)
        assert a is not None
        return [([a], index(a))]

    def stored(self, node: Node) -> tuple[int, list[list[Place]]]:
        """How a result is stored: in the parts that a concatenation joined along one of its dimensions, and by the dimensions that a
        reshape merged where a reduction has these.  That dimension, and for each part the axes and the position along every one."""
        dims = dims_of(node)
        plain: list[Place] = [([], index(0)) if item is None else ([self.axis(item)], index(self.axis(item))) for item in dims]
        if 0 in shape_of(node):
            return 0, [plain]
        merged = self._taken_apart(node, tuple(e for _, e in plain))
        ranges = [() if item is None or len(self.alignment.parts(item)) > 1 else self.alignment.joined(item) for item in dims]
        along = next((d for d, found in enumerate(ranges) if found), 0)
        parts: list[list[Place]] = [[]]
        for d, (item, (axes, _)) in enumerate(zip(dims, plain, strict=True)):
            joined = ranges[d] if d == along else ()
            more = []
            for before in parts:
                taken = frozenset(a for own, _ in before for a in own)
                for part, start in joined or ((item, 0),):
                    apart = part is not None and (bool(joined) or bool((merged | taken) & {*axes}) or self._is_apart(part))
                    own, at = self.bind(part, taken) if apart else ([], index(0)) if part is None else plain[d]
                    more.append([*before, (own, at + start)])
            parts = more
        return along, parts

    def _is_apart(self, item: int) -> bool:
        """Whether values are read both as a whole and by parts along a dimension, or are made by its parts."""
        return self.alignment.find(item) in self._apart or self.alignment.is_apart(item)

    def _taken_apart(self, node: Node, at: At) -> frozenset[Axis]:
        """Axes of a result at whose quotients and remainders a value is read that a reduction makes."""
        found: set[Axis] = set()
        todo: list[tuple[Any, At, int | None]] = [(node, at, None)]
        seen = set[Any]()
        while todo:
            x, where, item = here = todo.pop()
            if x.target is operator.getitem:
                todo.append((x.args[0], where, x.args[1]))
            op = OPS.get(str(x.target)) if x.op == "call_function" else None
            if here in seen or op is None:
                continue
            seen.add(here)
            if op.move is not None:
                source = arguments(x)
                todo.append((source[0], op.move(Call(self, x, where, item), *source), None))
            elif op.whole:
                found |= {a for e in where for a in _quotients(e)}
                own: Any = dims_of(x) if item is None else dims_of(x)[item]
                todo += [(y, where, None) for y in x.all_input_nodes if set(own) != {None} and dims_of(y) == own]  # what it normalises
            elif str(x.target) != "aten.cat.default":
                todo += [(y, broadcast_at(shape_of(y), where), None) for y in x.all_input_nodes]
        return frozenset(found)

    def _spare(self, axis: Axis) -> Axis:
        return self._new(self._called.fresh(axis.name), axis.size)

    # reading ----------------------------------------------------------------------------------------------------------------
    def read(self, x: Any, at: At) -> Term:
        """The term for a node (or number) at an index."""
        if not hasattr(x, "meta"):
            return as_term(whole_number(x))
        item: int | None = None
        while x.op == "call_function" and x.target is operator.getitem:
            x, item = x.args
        return self._read_result(x, at, item)

    def once(self, x: Any, at: At) -> Term:
        """The same, of what several positions share: a pointwise value at its own axes, as values with reductions are read anyway, so that
        it may be stored as it is; what moves or joins others is read through, unless it is one value."""
        op = OPS.get(str(x.target))
        same = x in self._one or any(hasattr(y, "meta") and dims_of(y) == dims_of(x) for y in x.all_input_nodes)
        if x.op == "call_function" and op is not None and op.move is not None:
            source = arguments(x)
            return self.once(source[0], op.move(Call(self, x, at), *source))
        return (self._shared(x, _wrapped(shape_of(x), at), None) if same else None) or self.read(x, at)

    def result(self, x: Node, at: At) -> Term:
        """The term for what the program returns."""
        while True:
            try:
                return self.read(x, at)
            except _InUse as found:
                self._kept.add(found.axis)
                self._asked.forget(lambda answer: isinstance(answer, _InUse))

    def _read_result(self, x: Node, at: At, item: int | None) -> Term:
        found = self._asked(self._read_now, x, at, item)
        if isinstance(found, _InUse):
            raise _InUse(found.axis, found.bound)
        return found

    def _read_now(self, x: Node, at: At, item: int | None) -> Term | _InUse:
        before, self._avoided = self._avoided, 0
        try:
            found = self._renamed(x, at, item)
            while found is None:
                try:
                    found = self._read(x, at, item)
                except _InUse as wanted:
                    if wanted.axis in free_axes(at):
                        raise
                    self._avoided |= wanted.bound  # the axis is bound here
        except _InUse as wanted:
            return wanted
        except (UnsupportedOpError, TraceError) as error:  # of a term that cannot be made, or its type: they know no line
            if error.where or place_of_node(x) is None:
                raise
            raise type(error)(error.message, where=place_of_node(x), cure=error.cure) from None
        finally:
            self._avoided = before
        self._record(found, x)
        return found

    def _read(self, node: Node, at: At, item: int | None) -> Term:
        if node.op == "placeholder":
            return as_term(whole_number(self.constants[node])) if node in self.constants else self._read_input(node, at)
        known = self.integer(node, at)
        if known is not None:
            return self.position(known)
        op = self._op(node)
        if (op.whole or TURNED in node.meta) and (inside := _wrapped(_shape(node, item), at)) != at:
            return self._read_result(node, inside, item)
        call = Call(self, node, at, item)
        if op.move is not None:
            source = arguments(node)
            return self.read(source[0], op.move(call, *source))
        assert op.read is not None
        several = op.whole or len(node.users) > 1  # what is computed of others is written again where it is read, for one reader
        if several and (op.whole or (node, item) in self._once) and (shared := self._shared(node, at, item)):
            return shared
        term = op.read(call, *arguments(node))
        term = self._typed(node, item, term)
        if self._bound_in(term):
            before, _ = self._first.setdefault((node, item), (at, term))
            if several and before != at and _overlap(before, at):
                self.several.add((node, item))
                dims: Any = dims_of(node) if item is None else dims_of(node)[item]
                different = (d for d, a, b in zip(dims, before, at, strict=True) if (a.as_axis() is None) != (b.as_axis() is None))
                self.apart |= {self.alignment.find(d) for d in different if d is not None and len(self.alignment.parts(d)) > 1}
        return term

    def _read_input(self, node: Node, at: At) -> Term:
        shape = shape_of(node)
        at = _wrapped(shape, at)
        known = self.inputs.get(node)
        if known is None:
            layout: list[Axis | None] = []
            wanted = {e.as_axis() for e in at}
            for d, (n, e) in enumerate(zip(shape, at, strict=True)):
                a = e.as_axis()
                if n == 1:
                    layout.append(None)
                elif a is not None and a.size == n and a not in layout:
                    layout.append(a)
                else:
                    item = dims_of(node)[d]
                    layout.append(self.bound(item, frozenset(b for b in (*layout, *wanted) if b is not None)))
            dtype = ir_dtype(node.meta["val"].dtype, f"input {self.names[node]!r}")
            known = self.inputs[node] = Input(self.names[node], tuple(layout), dtype)
        if 0 in shape and any(e.as_axis() is None for n, e in zip(shape, at, strict=True) if n != 1):
            return Cast(known.dtype, Const(0.0))  # an element that is not there: nothing depends on its value, and no kernel may load it
        return substituted(known, {a: e for a, e in zip(known.layout, at, strict=True) if a is not None}, self._spare)

    def _renamed(self, node: Node, at: At, item: int | None) -> Term | None:
        """A value with reductions that was read before under other names: that value, its axes renamed."""
        first = self._first.get((node, item))
        if first is None:
            return None
        before, term = first
        renaming = _renaming(before, at)
        if renaming is None:
            return None
        inside = self._bound_in(term)
        for a, b in renaming.items():
            if a != b and inside & self._bit(b):
                if b in self._kept:
                    return None
                raise _InUse(b, inside)
        return substituted(term, {a: index(b) for a, b in renaming.items()}, self._spare)

    def _shared(self, node: Node, at: At, item: int | None) -> Term | None:
        """A value with reductions whose elements several positions share: that value at its own axes, and a ``View``.

        Key and value heads of grouped queries are read at ``h // 4``, the mean of a group of channels at ``c // 10``.  Written at the
        reader's axes, such a value would be computed once for each head or channel.  And what is read at several indices, as queries and
        their rotated halves are, would be computed once for each of these.  And what a reshape lists by one dimension has several: a matrix
        product that is read at ``i // 64`` and ``i % 64`` is none.
        """
        dims: Any = dims_of(node) if item is None else dims_of(node)[item]
        once = (node, item) in self._once and at not in self._own[node, item]

        def own_axis(d: int) -> Axis | None:
            a = at[d].as_axis()
            return None if a is None or (once and a.size != self.alignment.size(dims[d])) else a

        plain = frozenset(a for d in range(len(at)) if dims[d] is not None and (a := own_axis(d)) is not None)
        taken = frozenset(a for e in at for a in e.axes())
        own, moved = list(at), dict[Axis, IndexExpr]()
        for group in _linked({d: e.axes() - plain for d, e in enumerate(at) if dims[d] is not None and own_axis(d) is None}):
            readers = frozenset(a for d in group for a in at[d].axes()) - plain
            ends = {d: (max(lo, 0), min(hi, self.alignment.size(dims[d]) - 1)) for d in group for lo, hi in (at[d].bounds(),)}
            fewer = math.prod(hi - lo + 1 for lo, hi in ends.values()) < math.prod(a.size for a in readers)
            if not fewer and not once and not any(_quotients(at[d]) for d in group):
                continue
            for d in group:
                lo, hi = ends[d]
                inner = size = self.alignment.size(dims[d])
                if (lo == 0 and hi == size - 1) or once or not fewer:
                    axes, own[d] = self.bind(dims[d], taken | frozenset(moved))
                    for a in axes:
                        inner //= a.size
                        moved[a] = at[d] // inner % a.size
                elif lo == hi:
                    own[d] = index(lo)
                else:  # a slice: what is not read is not computed
                    a = self._slice(dims[d], lo, hi, taken | frozenset(moved))
                    own[d], moved[a] = index(a) + lo, at[d] - lo
        if not moved:
            return None
        # of a merged dimension the part that the reader does not share
        same = {a: e for a, e in moved.items() if (b := e.as_axis()) is not None and b.size == a.size}
        at = tuple(e.substitute(same) for e in own)
        self._own[node, item].add(at)
        term = self._read_result(node, at, item)
        return substituted(term, {a: e for a, e in moved.items() if a not in same}, self._spare)

    def _slice(self, item: int, lo: int, hi: int, taken: frozenset[Axis]) -> Axis:
        """An axis for the positions of a dimension from ``lo`` to ``hi``, one of those not in use."""
        for alias in count():
            key = (self.alignment.find(item), lo, hi, alias)
            if key not in self._slices:
                self._slices[key] = self._new(self._called.fresh(f"{self.axis(item).name}_part"), hi - lo + 1)
            if self._slices[key] not in taken:
                return self._slices[key]
        raise AssertionError

    def _bit(self, axis: Axis) -> int:
        return self._bits.setdefault(axis, 1 << len(self._bits))

    def _bound_in(self, term: Term) -> int:
        """Axes that some reduction in the term binds; of scans, which keep theirs, that there are any."""
        for t in arguments_first([term], lambda t: t.args, self._bound.__contains__):
            found = self._bit(t.axis) if isinstance(t, Reduce | Gather) else self._bit(SCANNED) if isinstance(t, Scan) else 0
            for a in t.args:
                found |= self._bound[a]
            self._bound[t] = found
        return self._bound[term]

    def _typed(self, node: Node, item: int | None, term: Term) -> Term:
        """The term in the type that torch gives the value, where the usual promotion gives another."""
        value = node.meta["val"]
        value = value[item] if item is not None else value
        if is_inside(node, value.dtype):
            return term
        wanted = ir_dtype(value.dtype, f"the result of {node.target}")
        if wanted.name in STORED:
            raise self.unsupported(node, f"with a result of type {wanted.name}, which kernels only load")
        if wanted.kind == "int" and number_of(term) is None:
            return bounds.wrapped(term, self._bounds) if term.dtype == wanted else Cast(wanted, term)
        return term if term.dtype in (None, wanted) else Cast(wanted, term)

    def small(self, term: Term) -> bool:
        """Whether every integer that the value may be is a number of float32."""
        return self.interval(term).magnitude <= 2.0**24

    def interval(self, term: Term) -> Interval:
        """What a value may be, whatever the data are."""
        return bounds.bounds(term, self._bounds)

    # integers that are index expressions ----------------------------------------------------------------------------------------
    def integer(self, x: Any, at: At) -> IndexExpr | None:
        """An integer value as an index expression of the axes, if it does not depend on data."""
        if isinstance(x, int) and not isinstance(x, bool):
            return index(x)
        if not hasattr(x, "meta") or x.op != "call_function":
            return None
        value = x.meta["val"]
        if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int64, torch.int32):
            return None
        return self._asked(self._integer, x, at)

    def _integer(self, x: Node, at: At) -> IndexExpr | None:
        op = OPS.get(str(x.target))
        if op is None:
            return None
        given = arguments(x)
        if op.move is not None:
            return self.integer(given[0], op.move(Call(self, x, at), *given))
        if op.integer is None:
            return None
        if not any(hasattr(a, "meta") for a in given) or str(x.target).startswith("aten.full"):
            return op.integer(at, *given)
        parts: list[Any] = []
        for a in given:
            part = self.integer(a, broadcast_at(shape_of(a), at)) if hasattr(a, "meta") or isinstance(a, int) else a
            if part is None and (hasattr(a, "meta") or isinstance(a, float)):
                return None
            parts.append(part if hasattr(a, "meta") or len(parts) < 2 else a)
        if any(isinstance(p, float) for p in parts):
            return None
        return op.integer(*parts)

    def position(self, e: IndexExpr) -> Term:
        """The value of an index expression as a term."""
        total: Term | None = None
        for atom, c in sorted(e.terms, key=lambda t: t[1] < 0):
            if isinstance(atom, Axis):
                value: Term = Index(atom)
            else:
                alone = IndexExpr(((atom, 1),))
                whole = self._spare(Axis("position", alone.bounds()[1] + 1))
                value = View(Index(whole), whole, alone)
            value = value if c == 1 else -value if c == -1 else value * whole_number(c)
            total = value if total is None else total + value
        if total is None:
            return as_term(whole_number(e.const))
        return total + whole_number(e.const) if e.const else total

    def arguments(self, node: Node) -> list[Any]:
        """A node's arguments in schema order."""
        return arguments(node)

    def values(self) -> dict[tuple[Node, int | None], list[Term]]:
        """The terms that each node (or item of a node with several results) was read as, in order of reading."""
        found: dict[tuple[Node, int | None], list[Term]] = {}
        for (f, node, _, *item), term in self._asked.memo.items():
            if f == self._read_now and isinstance(term, Term):
                found.setdefault((node, item[0]), []).append(term)
        return found

    # places -----------------------------------------------------------------------------------------------------------------
    def _record(self, term: Term, node: Node) -> None:
        """Say where a term comes from, and what is below it that no other node claimed."""
        where = place(node)
        if where is None:
            return
        todo = [term]
        while todo:
            t = todo.pop()
            if t not in self.sources and not isinstance(t, Input | Const | Index):
                self.sources[t] = where
                todo.extend(t.args)

    def _op(self, node: Node) -> AtenOp:
        found = OPS.get(str(node.target))
        if found is None or node.op != "call_function":
            raise self.unsupported(node, "")
        if _is_complex(node) and not any(_is_complex(a) for a in node.all_input_nodes):  # complex inputs are refused as inputs
            raise self.unsupported(node, "with complex numbers")
        return found

    def unsupported(self, node: Node, why: str) -> UnsupportedOpError:
        """The error for an op without meaning here."""
        name = str(node.target)
        text = f"the operator {name} is not supported" if not why else f"the operator {name} is not supported {why}"
        return UnsupportedOpError(text, where=place_of_node(node), cure=_cure(name))


def _operation(node: Node) -> str:
    """What a node does, in a word without a number, for with symbols in the place of sizes a graph has more nodes."""
    words = str(node.target).split(".")  # aten.slice.Tensor
    return words[1] if len(words) > 1 else "value"


def _is_complex(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype.is_complex


def _cure(name: str) -> str:
    kind = name.partition(".")[2] or name
    hints = {
        "index.": "choose with torch.where, or select outside and pass in what is left",
        "index_put": "write with torch.where, or keep it outside the optimised function",
        "scatter": "write with torch.where, or keep it outside the optimised function",
        "native_batch_norm": "call .eval(), or pass training=False",
        "_native_batch_norm": "call .eval(), or pass training=False",
        "native_dropout": "call .eval(), or pass p=0",
        "bernoulli": "call .eval() if this is a dropout, or draw random numbers outside and pass them in",
        "rand": "draw random numbers outside and pass them in",
        "convolution": "keep the convolution outside",
    }
    for key, hint in hints.items():
        if kind.startswith(key):
            return hint
    return "write it with pointwise ops, sums, maxima and matrix products, or keep it outside the optimised function"
