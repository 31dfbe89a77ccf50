"""What is valid at a level, as data: a table with one row for each law of its language, and what runs the table.

Every level has a table of its own beside it: programs of terms here, e-graphs in :mod:`..egraph.spec`, kernels in
:mod:`..tiles.kernel_spec`, tile programs in :mod:`..tiles.spec`.  They run between the stages where ``EQFUSE_SPEC=1``, as it is in all
tests: what a stage hands on is then refused by name, before it turns into a wrong number or into text that calls what nobody has defined.

A row judges one node at one place, and may rely on the rows above it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ..errors import SpecError
from .dtypes import DTYPES, INPUTS
from .monoids import MONOIDS, Monoid
from .nodes import KINDS, REDUCTIONS, mentioned
from .ops import OPS, ScalarOp
from .program import Output, Program
from .terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View

FAULT = "report it with the program: it is a fault of EqFuse, or of a rule, an op or a monoid that was added to it"
LONGEST = 200  # characters of a node in a message


@dataclass(frozen=True)
class Row:
    """A law.  ``holds(place, node)`` for every node of the kinds ``of``; of all kinds if none are named."""

    name: str
    says: str
    holds: Callable[[Any, Any], Any]
    of: tuple[Hashable, ...] = ()
    cure: str = FAULT


@dataclass(frozen=True)
class Spec:
    """The laws of a level.  ``kind`` is what rows tell nodes apart by, ``show`` a node as text, given its place."""

    level: str
    rows: tuple[Row, ...]
    kind: Callable[[Any], Hashable]
    show: Callable[[Any, Any], str]
    _of: dict[Hashable, tuple[Row, ...]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def kinds(self) -> frozenset[Hashable]:
        """Every kind that some row names: the words of the language."""
        return frozenset(k for r in self.rows for k in r.of)

    def check(self, name: str, nodes: Iterable[tuple[Any, Any]]) -> None:
        """Run the table over (place, node).  Raises :class:`~eqfuse.errors.SpecError` at the first row that does not hold."""
        for place, node in nodes:
            kind = self.kind(node)
            rows = self._of.get(kind)
            if rows is None:
                rows = self._of[kind] = tuple(r for r in self.rows if not r.of or kind in r.of)
            for row in rows:
                if not row.holds(place, node):
                    shown = self.show(place, node)
                    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]} ..."
                    raise SpecError(
                        f"{shown}\n  {row.name}: {row.says}",
                        where=f"{self.level} {name}",
                        cure=row.cure,
                        level=self.level,
                        node=shown,
                        rule=row.name,
                    )


def wanted() -> bool:
    """Whether ``EQFUSE_SPEC`` asks for the checks."""
    return os.environ.get("EQFUSE_SPEC", "") not in ("", "0")


# -- what several levels ask ---------------------------------------------------------------------------------------------------
def shaped(kind: str, attrs: tuple[Any, ...], arguments: int) -> bool:
    """Whether a node has the attributes and as many arguments as its kind has."""
    row = KINDS[kind]
    if len(attrs) != len(row.attrs) or not all(map(isinstance, attrs, row.attrs)) or row.args not in (None, arguments):
        return False
    m = MONOIDS.get(attrs[0]) if kind in ("reduce", "scan", "merge") else None
    return m is None or arguments == m.parts * (1 + (kind == "merge"))


def takes(op: str, arguments: int, more: Mapping[str, ScalarOp] = MappingProxyType({})) -> bool:
    """Whether there is such a scalar op, in the table or among some more, and it takes so many arguments."""
    found = more.get(op) or OPS.get(op)
    return found is not None and found.arity == arguments


def carried(name: str) -> Monoid | None:
    """The monoid that carries the state of a monoid, if both are in the table and states are combined by an op that is."""
    m = MONOIDS.get(name)
    state = MONOIDS.get(m.state) if m is not None else None
    return state if state is not None and (state.several is not None or state.combine in OPS) else None


def printable(name: str) -> bool:
    """Whether tiles can be reduced to the state of a monoid."""
    m = carried(name)
    return m is not None and (bool(m.triton) or m.several is not None)


def scanned(name: str) -> bool:
    """Whether there are scans by a monoid."""
    return name in MONOIDS and MONOIDS[name].prefixes is not None


KNOWN_OP = "every scalar op is in the table of ops, and has as many arguments as the table says"
ADD_OP = "declare it: eqfuse.op, or an entry in ir/ops.py"
KNOWN_MONOID = "every monoid, and the one that carries its state, is in the table of monoids, with an op that combines two states"
ADD_MONOID = "add it to MONOIDS in ir/monoids.py"
SCANNED_MONOID = "a scan is by a monoid whose states are its values, combined by an op that says what prefixes are"
ADD_SCAN = "add the op that combines two states to PREFIXES in ir/monoids.py"
PRINTABLE_MONOID = "kernels reduce tiles by monoids that have a Triton spelling"
ADD_SPELLING = "add triton= (and the helper that it calls as prelude=) to the monoid's entry in ir/monoids.py"


def rows_of_nodes(kinds: tuple[str, ...], shape: Callable[[Any], bool]) -> tuple[Row, ...]:
    """What holds of the kinds of nodes at any level where a node has a number."""
    return (
        Row("shape", "a node has the attributes and arguments of its op", lambda at, x: shape(x[1]), kinds),
        Row("known op", KNOWN_OP, lambda at, x: takes(x[1].attrs[0], len(x[1].args)), ("map",), ADD_OP),
        Row("known monoid", KNOWN_MONOID, lambda at, x: carried(x[1].attrs[0]), (*REDUCTIONS, "scan"), ADD_MONOID),
        Row("scanned monoid", SCANNED_MONOID, lambda at, x: scanned(x[1].attrs[0]), ("scan",), ADD_SCAN),
        Row("known type", "a cast is to a type of the table", lambda at, x: x[1].attrs[0].name in DTYPES, ("cast",)),
        Row("which", "a reference is to the old or to the new value", lambda at, x: x[1].attrs[0] in ("old", "new"), ("ref",)),
    )


# -- programs of terms -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Terms:
    """A program, the size of each of its axes by name, and its terms."""

    program: Program
    sizes: dict[str, int]
    inputs: frozenset[Input]


def _axes_of(node: Term | Output) -> list[Any]:
    """Every axis that a node itself names."""
    if isinstance(node, Output | Input):
        return [a for a in node.layout if a is not None]
    return [a for x in node.attrs for a in mentioned(x)]


def _inside(_: _Terms, t: View) -> bool:
    lo, hi = t.index.bounds()
    return t.axis not in t.args[0].axes or 0 in (t.axis.size, *(a.size for a in t.index.axes())) or (lo >= 0 and hi < t.axis.size)


def _whole(name: str) -> bool:
    return MONOIDS[name].of_integers


def _is_integer(t: Term) -> bool:
    return t.dtype is not None and t.dtype.kind == "int"


TERMS: Spec = Spec(
    "program",
    (
        Row("known op", KNOWN_OP, lambda at, t: takes(t.op, len(t.args)), (Map,), ADD_OP),
        Row("known monoid", KNOWN_MONOID, lambda at, t: carried(t.monoid), (Reduce, Scan), ADD_MONOID),
        Row("scanned monoid", SCANNED_MONOID, lambda at, t: scanned(t.monoid), (Scan,), ADD_SCAN),
        Row(
            "known type",
            "inputs, casts and outputs have types of the table",
            lambda at, t: t.dtype.name in (INPUTS if isinstance(t, Input) else DTYPES),
            (Input, Cast, Output),
        ),
        Row(
            "number",
            "a constant is a float",
            lambda at, t: isinstance(t.value, float),
            (Const,),
        ),
        Row("listed input", "an input that is read is one of the program's", lambda at, t: t in at.inputs, (Input,)),
        Row(
            "one size",
            "an axis is one of the program's, and has one size",
            lambda at, t: all(at.sizes.get(a.name) == a.size for a in _axes_of(t)),
            (Input, Index, Extent, Reduce, Scan, View, Gather, Output),
        ),
        Row("view inside", "a view reads positions that the axis has", _inside, (View,)),
        Row(
            "read at whole numbers",
            "a gather reads at integers that do not depend on the axis that it reads along",
            lambda at, t: t.axis not in t.args[1].axes and _is_integer(t.args[1]),
            (Gather,),
        ),
        Row(
            "exact integers",
            "integers are reduced by the monoids of integers, and nothing else is",
            lambda at, t: _whole(t.monoid) == _is_integer(t.args[0]) or not (_whole(t.monoid) or MONOIDS[t.monoid].integer),
            (Reduce, Scan),
        ),
        Row(
            "bits of integers",
            "ops of integers take nothing that is a float",
            lambda at, t: OPS[t.op].result != "int" or not any(a.dtype is not None and a.dtype.is_float for a in t.args),
            (Map,),
        ),
        Row(
            "stored axes",
            "an output has every axis of its value once",
            lambda at, o: o.term.axes <= set(_axes_of(o)) and len(set(_axes_of(o))) == len(_axes_of(o)),
            (Output,),
        ),
        Row("word", "a term is one of the language", lambda at, t: type(t) in TERMS.kinds),
    ),
    type,
    lambda at, t: f"output {t.name}" if isinstance(t, Output) else repr(t),
)


def check_program(program: Program) -> None:
    """Raise SpecError unless the terms of a program are valid."""
    place = _Terms(program, {a.name: a.size for a in program.every_axis[::-1]}, frozenset(program.inputs))
    TERMS.check(program.name, ((place, x) for x in (*program.terms(), *program.outputs)))
