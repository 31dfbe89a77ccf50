"""How the values are stored that lie between kernels: type, order of axes, buffer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from ...egraph.frozen import FrozenGraph
from ...ir import dtypes
from ...ir.index import Axis
from ...ir.terms import Input, Map, Reduce, Scan, Term, View
from ...tiles.kernel import Buffer
from ..baseline import is_contraction
from ..layouts import memory_order, summed_in_windows
from ..search import RootSpec
from .examples import Examples


class Stored:
    """What classes are stored as, by class.

    ``buffers``: those of the program, to which temporaries are added.  ``handed``: classes that some offer reads or makes.
    """

    def __init__(self, graph: FrozenGraph, buffers: dict[str, Buffer], handed: Collection[int]) -> None:
        self.graph, self.program, self.buffers, self.handed = graph, graph.program, buffers, handed
        self.temporaries: dict[int, RootSpec] = {}
        self._examples = Examples(graph)

    def temporary(self, c: int, name: str) -> RootSpec:
        """The buffer that a materialised class lives in; statistics stay in float32, matrix products and integers in their own type, and
        so does what an outside implementation may be given: functions expect the types of the program."""
        if c not in self.temporaries:
            terms = self.program.terms()
            term = next((t for t, k in zip(terms, self.graph.original, strict=True) if k == c), None)
            dtype = dtypes.float32
            copy = isinstance(term, Input) or (isinstance(term, View) and isinstance(term.args[0], Input))
            own = term is not None and (is_contraction(term) or isinstance(term, Map | Scan) or copy or c in self.handed)
            if term is not None and own and term.dtype is not None and (term.dtype.is_float or c in self.handed):
                dtype = term.dtype
            whole = [t for t in ([term] if term is not None else self._sums_of_parts(c)) if t.dtype is not None and t.dtype.kind == "int"]
            if whole:
                dtype = max((t.dtype for t in whole if t.dtype is not None), key=lambda d: d.itemsize)
            narrow = self._narrow(c)
            dtype = dtypes.float32 if narrow is not None else dtype
            order = self._order
            # the parts of a matrix outermost: programs that make them would else write into each other's sectors of memory; those of a
            # statistic side by side, as the kernel that merges them reads them
            parts = -1 if sum(a in order for a in self.graph.axes[c]) > 1 else len(order)
            inner = None if term is None else self._windows.get(term)
            layout = tuple(sorted(self.graph.axes[c], key=lambda a: (a == inner, order.get(a, parts), a)))
            spec = RootSpec(c, name, layout, dtype)
            self.temporaries[c] = spec
            results = [o.dtype for o in self.program.outputs if o.dtype.is_float]
            result = max(results, key=lambda d: d.itemsize) if term is None and results else None
            sample = self._examples.of(c, layout) if dtype.kind == "int" else None
            shape = tuple(a.size for a in layout)
            self.buffers[spec.buffer] = Buffer(spec.buffer, dtype, shape, "temporary", narrow, result=result, sample=sample)
        return self.temporaries[c]

    def _sums_of_parts(self, c: int) -> list[Reduce | Scan]:
        """The reductions and scans of the program of which a class may be a part: what reduces by the same monoid."""
        by = {n.attrs[0] for n in self.graph.classes[c] if n.in_order}
        return [t for t in self.program.terms() if isinstance(t, Reduce | Scan) and t.monoid in by]

    def _narrow(self, c: int) -> dtypes.DType | None:
        """The 16-bit type that torch would give a value which is kept in float32; of a part of a sum that of the sum."""
        if not self._kept_wide:
            return None
        while c not in self._kept_wide and c not in self.graph.original and len(wholes := self._wholes.get(c, set())) == 1:
            (c,) = wholes
        return self._kept_wide.get(c)

    @cached_property
    def _kept_wide(self) -> Mapping[int, dtypes.DType | None]:
        """The classes of the program whose values are kept in float32 though their type is narrower."""
        numbered = zip(self.program.terms(), self.graph.original, strict=True)
        return {c: t.dtype for t, c in numbered if t in self.program.widened}

    @cached_property
    def _wholes(self) -> Mapping[int, set[int]]:
        """The sums that a rule makes of a class, by that class: of the parts of a sum the sum."""
        found: dict[int, set[int]] = {}
        for whole, row in enumerate(self.graph.classes):
            for n in row:
                if n.reduction and n.rule is not None:
                    found.setdefault(n.args[0], set()).add(whole)
        return found

    @cached_property
    def _windows(self) -> Mapping[Term, Axis]:
        return summed_in_windows(self.program)

    @cached_property
    def _order(self) -> Mapping[Axis, int]:
        """The places of the program's axes in temporaries."""
        return {a: k for k, a in enumerate(memory_order(self.program))}

    def keeps(self, spec: RootSpec) -> bool:
        """The buffer holds all digits of the value: an output may be stored in a narrower type than its value has."""
        return spec.dtype.itemsize == 4 or not spec.dtype.is_float or self._types.get(spec.cls, set()) <= {spec.dtype, None}

    @cached_property
    def _types(self) -> Mapping[int, set[dtypes.DType | None]]:
        """The types that the program gives the values of a class."""
        found: dict[int, set[dtypes.DType | None]] = {}
        for t, c in zip(self.program.terms(), self.graph.original, strict=True):
            found.setdefault(c, set()).add(t.dtype)
        return found
