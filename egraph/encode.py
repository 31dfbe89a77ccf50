"""Programs into the engine's text, and the engine's tables back into plain data.

Text is flat (one binding per term, in program order), because the engine's parser recurses.  Axes become bits and index
expressions numbers; both are kept in a :class:`Codebook` per program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PlanError
from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.gathers import one_of_each
from ..ir.index import Axis, IndexExpr
from ..ir.nodes import KINDS
from ..ir.ops import OPS
from ..ir.program import Program
from ..ir.reference import round_to
from ..ir.terms import Cast, Const, Gather, Index, Input, Map, Reduce, Scan, Term, View
from ..rewrites.patterns import number_text
from .schema import CONSTRUCTORS, TRACED

if TYPE_CHECKING:
    from egglog.bindings import EGraph

MAX_AXES = 62


@dataclass
class Codebook:
    """Numbers for axes and index expressions."""

    bits: dict[Axis, int] = field(default_factory=dict)
    axes: dict[int, Axis] = field(default_factory=dict)
    numbers: dict[IndexExpr, int] = field(default_factory=dict)
    exprs: list[IndexExpr] = field(default_factory=list)

    def bit(self, axis: Axis) -> int:
        """The axis's bit; a new axis gets the next one."""
        if axis not in self.bits:
            if len(self.bits) >= MAX_AXES:
                raise PlanError(
                    f"a program may have at most {MAX_AXES} axes; axis {axis.name} is one more", cure="optimize the program in parts"
                )
            self.bits[axis] = 1 << len(self.bits)
            self.axes[self.bits[axis]] = axis
        return self.bits[axis]

    def mask(self, axes: Any) -> int:
        """The mask of a set of axes."""
        return sum(self.bit(a) for a in sorted(axes))

    def unmask(self, mask: int) -> frozenset[Axis]:
        """The set of axes in a mask."""
        return frozenset(a for b, a in self.axes.items() if mask & b)

    def number(self, expr: IndexExpr) -> int:
        """The index expression's number."""
        if expr not in self.numbers:
            self.numbers[expr] = len(self.exprs)
            self.exprs.append(expr)
        return self.numbers[expr]

    def text(self, attribute: Any) -> str:
        """An attribute of a node as the engine writes it."""
        if isinstance(attribute, float):
            return number_text(attribute)
        if isinstance(attribute, Axis | IndexExpr):
            return str(self.bit(attribute) if isinstance(attribute, Axis) else self.number(attribute))
        return f'"{attribute.name if isinstance(attribute, DType) else attribute}"'

    def attribute(self, raw: Any, sort: Any) -> Any:
        """An attribute from what the engine keeps of it; there is one zero, whichever sign it was first seen with."""
        if sort is Axis:
            return self.axes[raw]
        return self.exprs[raw] if sort is IndexExpr else dtypes.dtype(raw) if sort is DType else raw + 0.0 if sort is float else raw

    def index_facts(self, start: int = 0) -> list[str]:
        """Facts about index expressions from number ``start`` on."""
        facts = []
        for n, e in enumerate(self.exprs[start:], start):
            facts.append(f"(set (index-axes {n}) {self.mask(e.axes())})")
            axis = e.as_axis()
            if axis is not None:
                facts.append(f"(same-index {n} {self.bit(axis)})")
        return facts


def encode(program: Program, book: Codebook) -> tuple[list[str], dict[Term, str]]:
    """One binding per term and what is known of it, and the name that each term got.

    No name is another one and digits: the engine numbers its uses of a name behind it, so that the 13th use of ``$v4`` would be the second
    of ``$v41``, and an operation that reads both would get one of them twice.
    """
    for axis in program.axes:
        book.bit(axis)
    names: dict[Term, str] = {}
    lines = []
    for k, t in enumerate(program.terms()):
        names[t] = f"$v{k}_"
        lines.append(f"(let {names[t]} {_text(t, names, book)})")
    lines += [f"(movable {names[t]})" for t in _lone_casts(program)]
    lines += [f"(summable {names[t]})" for t in _summable(program)]
    lines += [f'(has-type {names[p]} "{p.dtype.name}")' for p in _positions(program)]
    for t in (t for t in program.terms() if isinstance(t, Input)):
        lines += [f'(has-type {names[t]} "{t.dtype.name}")', f"(set (axes {names[t]}) {book.mask(t.axes)})", f"(settled {names[t]})"]
    lines += [f'(typed {names[t]} "{d.name}")' for t, d in _types(program).items()]
    lines += [f'(written "{t.op}" {names[t]} {names[a]} {names[b]})' for t in _operations(program) for a, b in (t.args, t.args[::-1])]
    return lines, names


def _operations(program: Program) -> list[Map]:
    """What may be written in another order."""
    return [t for t in program.terms() if isinstance(t, Map) and OPS[t.op].commutative and OPS[t.op].associative]


def _lone_casts(program: Program) -> list[Term]:
    """Casts of values that nothing else reads: what a cast rounds away is compared with nothing, as in x - cast(x)."""
    readers = Counter(a for t in program.terms() for a in set(t.args)) + Counter(o.term for o in program.outputs)
    return [t for t in program.terms() if isinstance(t, Cast) and readers[t.args[0]] == 1]


def _summable(program: Program) -> list[Term]:
    """Gathers of floats along axes that something else reduces over, one element of each row."""
    floats = (t for t in program.terms() if isinstance(t, Gather) and t.dtype is not None and t.dtype.is_float)
    return [t for t in floats if one_of_each(program, t)]


def _positions(program: Program) -> list[Term]:
    """Values that say where an axis is read: by a gather, or by a comparison with its positions, which selects what it reads."""
    found = dict.fromkeys(t.args[1] for t in program.terms() if isinstance(t, Gather))
    for t in program.terms():
        if isinstance(t, Map) and t.op == "eq" and any(isinstance(a, Index) for a in t.args):
            found |= dict.fromkeys(a for a in t.args if not isinstance(a, Index) and a.dtype is not None and a.dtype.kind == "int")
    return list(found)


def selected(program: Program) -> set[Axis]:
    """Axes along which a comparison selects one position, and one reduction goes: it is to read that position alone."""
    over = Counter(t.axis for t in program.terms() if isinstance(t, Reduce))
    found = set[Axis]()
    for t in program.terms():
        if isinstance(t, Map) and t.op == "eq":
            for a, p in (t.args, t.args[::-1]):
                if isinstance(a, Index) and over[a.axis] == 1 and p.dtype is not None and p.dtype.kind == "int" and a.axis not in p.axes:
                    found.add(a.axis)
    return found


def _types(program: Program) -> dict[Term, DType]:
    """The 16-bit types that values are numbers of, wider as their own type may be: x.float() is as exact in float16 as x."""
    found: dict[Term, DType] = {}
    for t in program.terms():
        values = t.args[1:] if isinstance(t, Map) and t.op == "where" else t.args
        known = {found.get(x) for x in values if not isinstance(x, Const)}
        if isinstance(t, Input | Cast):
            own = t.dtype if isinstance(t, Input) else t.to
            kept = found.get(t.args[0]) if isinstance(t, Cast) and own.is_float and own.itemsize > 2 else None
            kind = kept or (own if own.is_float and own.itemsize == 2 else None)
        elif isinstance(t, View | Gather) or (isinstance(t, Reduce | Scan) and t.monoid in ("max", "min")):
            kind = found.get(t.args[0])
        elif isinstance(t, Map) and OPS[t.op].selects and len(known) == 1:
            kind = known.pop()
            if kind is not None and not all(_holds(kind, x.value) for x in values if isinstance(x, Const)):
                kind = None
        else:
            continue
        if kind is not None:
            found[t] = kind
    return found


def _holds(d: DType, value: float) -> bool:
    return bool(round_to(np.array([value]), d.name)[0] == value)


def _text(t: Term, names: dict[Term, str], book: Codebook) -> str:
    if isinstance(t, Input):
        return f'(Input "{t.name}" {book.mask(t.axes)})'
    parts = (names[p] if isinstance(p, Term) else book.text(p) for p in t.parts)
    counted = isinstance(t, Map) or (isinstance(t, Reduce | Scan) and len(t.args) > 1)
    return f"({type(t).__name__}{len(t.args) if counted else ''} {' '.join(parts)})"


class Decoder:
    """Reads one frozen engine state: the present one, or ``tables`` of an earlier one."""

    def __init__(self, engine: EGraph, book: Codebook, tables: Mapping[str, Any] | None = None) -> None:
        self.frozen = engine.freeze().functions if tables is None else tables
        self.book = book
        self._cell = {"String": engine.value_to_string, "i64": engine.value_to_i64, "f64": engine.value_to_f64}

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a relation or function: inputs, then the output of a function; T and L columns are class keys."""
        f = self.frozen.get(table)
        if f is None:
            return []
        sorts = list(f.input_sorts)
        out_sort = f.output_sort if f.output_sort in self._cell else None
        return [
            tuple(self._value(s, v) for s, v in zip(sorts, r.inputs, strict=True)) + ((self._cell[out_sort](r.output),) if out_sort else ())
            for r in f.rows
        ]

    def table(self, constructor: str) -> list[tuple[Any, ...]]:
        """The nodes of a constructor: its arguments, then the class."""
        f = self.frozen.get(constructor)
        sorts = list(f.input_sorts) if f else []
        return [(*(self._value(s, v) for s, v in zip(sorts, r.inputs, strict=True)), r.output) for r in (f.rows if f else ())]

    def _value(self, sort: str, value: Any) -> Any:
        read = self._cell.get(sort)
        return read(value) if read else value

    def bindings(self) -> dict[str, Any]:
        """The class of every ``let``."""
        return {n: f.rows[0].output for n, f in self.frozen.items() if f.is_let_binding and f.rows}

    def nodes(self) -> list[tuple[Any, str, tuple[Any, ...], tuple[Any, ...], str | None]]:
        """Every node: class, op, attributes, argument classes, the rule that made it."""
        out = []
        for name, sorts in CONSTRUCTORS.items():
            table = self.frozen[name]
            why: dict[tuple[Any, ...], Any] = {}
            if name in TRACED:
                why = {tuple(r.inputs): r.output for r in self.frozen[f"why-{name}"].rows}
            for row in table.rows:
                key = tuple(row.inputs)
                cells = [(s, self._value(s, v)) for s, v in zip(sorts, key, strict=True)]
                args = tuple(v for s, v in cells if s == "T")
                raw = tuple(v for s, v in cells if s != "T")
                rule = why.get(key)
                out.append((row.output, *self._decode(name, raw), args, str(self._value("String", rule)) if rule is not None else None))
        return out

    def _decode(self, name: str, raw: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
        kind = name.lower().rstrip("12346")
        return kind, tuple(map(self.book.attribute, raw, KINDS[kind].attrs))
