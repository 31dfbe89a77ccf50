"""Axes and the quasi-affine index expressions over them.

A tensor value is a function of *named axes*.  A view re-indexes one of them: ``x[e]`` read at ``e = h*128 + d`` is a reshape,
at ``e = N-1-i`` a flip, at ``e = i`` a diagonal.  Expressions are kept in one canonical form, a constant plus integer multiples
of *atoms*, an atom being an axis, a floor division or a remainder by a positive constant.  Canonical form is what makes
"split, then merge again" cancel by itself: ``(h*128 + d) // 128`` is ``h`` because ``0 <= d < 128``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Axis:
    """A named axis.  ``size`` is its extent (the hint the plan is made for); names are unique within a program.

    ``rank`` comes first where axes are ordered: in what order a trace met them, so that its names decide nothing but what is printed.
    Axes that are written by hand have one rank, and are ordered by their names.
    """

    name: str
    size: int
    rank: int = 0

    def __repr__(self) -> str:
        return f"Axis({self.name!r}, {self.size}{f', {self.rank}' if self.rank else ''})"

    @property
    def place(self) -> int | str:
        """Which axis of its program it is, whatever its size.  The name may be another one where sizes are: what an axis is called follows
        from all dimensions of arguments, and those of length 1 vanish."""
        return self.rank or self.name

    def __lt__(self, other: Axis) -> bool:
        return (self.rank, self.name, self.size) < (other.rank, other.name, other.size)


@dataclass(frozen=True, order=True)
class FloorDiv:
    """``numerator // divisor`` for a positive constant."""

    numerator: IndexExpr
    divisor: int


@dataclass(frozen=True, order=True)
class Mod:
    """``numerator % divisor`` for a positive constant (the result is never negative)."""

    numerator: IndexExpr
    divisor: int


Atom = Axis | FloorDiv | Mod


@dataclass(frozen=True, order=True)
class IndexExpr:
    """``const + sum(coefficient * atom)``.  Build with :func:`index`, ``+``, ``*``, ``//`` and ``%``; never by hand."""

    terms: tuple[tuple[Atom, int], ...] = ()
    const: int = 0

    def __add__(self, other: IndexExpr | int) -> IndexExpr:
        other = index(other)
        total: dict[Atom, int] = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + c
        kept = sorted(((a, c) for a, c in total.items() if c), key=lambda t: order_key(t[0]))
        return _rejoined(IndexExpr(tuple(kept), self.const + other.const))

    def __mul__(self, factor: int) -> IndexExpr:
        if factor == 0:
            return IndexExpr()
        return IndexExpr(tuple((a, c * factor) for a, c in self.terms), self.const * factor)

    def __sub__(self, other: IndexExpr | int) -> IndexExpr:
        return self + index(other) * -1

    def _divide(self, divisor: int) -> tuple[IndexExpr, IndexExpr]:
        """Split into ``divisor * quotient + rest`` where quotient holds every term that the divisor divides.  The least value of
        the rest is at least 0, so that kernels, where division rounds to zero and not down, divide alike; and below the divisor.
        """
        rest = IndexExpr(tuple((a, c) for a, c in self.terms if c % divisor))
        blocks = (self.const + rest.bounds()[0]) // divisor
        whole = IndexExpr(tuple((a, c // divisor) for a, c in self.terms if c % divisor == 0), blocks)
        return whole, rest + (self.const - blocks * divisor)

    def _units(self, divisor: int) -> tuple[IndexExpr, IndexExpr, int]:
        """Split into ``unit * coarse + fine`` for the largest unit that divides the divisor and that ``fine`` stays below, or 1.
        Then ``self // divisor`` is ``coarse // (divisor // unit)``: whether a position is in a block does not depend on ``fine``.
        """
        for unit in sorted({math.gcd(divisor, c) for _, c in self.terms}, reverse=True):
            fine = IndexExpr(tuple((a, c) for a, c in self.terms if c % unit), self.const % unit)
            lo, hi = fine.bounds()
            if unit > 1 and lo >= 0 and hi < unit:
                return IndexExpr(tuple((a, c // unit) for a, c in self.terms if c % unit == 0), self.const // unit), fine, unit
        return self, IndexExpr(), 1

    def __floordiv__(self, divisor: int) -> IndexExpr:
        if divisor == 1:
            return self
        whole, rest = self._divide(divisor)
        lo, hi = rest.bounds()
        if lo // divisor == hi // divisor:  # the rest never leaves one block
            return whole + lo // divisor
        if len(rest.terms) == 1 and rest.const == 0 and rest.terms[0][1] == 1 and isinstance(rest.terms[0][0], FloorDiv):
            inner = rest.terms[0][0]  # (x // a) // b == x // (a*b)
            return whole + inner.numerator // (inner.divisor * divisor)
        coarse, _, unit = rest._units(divisor)
        if unit > 1:
            return whole + coarse // (divisor // unit)
        return whole + IndexExpr(((FloorDiv(rest, divisor), 1),))

    def __mod__(self, divisor: int) -> IndexExpr:
        if divisor == 1:
            return IndexExpr()
        flat = IndexExpr((), self.const)  # (x % (a*n)) % n == x % n
        for atom, c in self.terms:
            inside = isinstance(atom, Mod) and atom.divisor % divisor == 0
            flat = flat + (atom.numerator if inside else IndexExpr(((atom, 1),))) * c  # type: ignore[union-attr]
        _, rest = flat._divide(divisor)
        lo, hi = rest.bounds()
        if lo // divisor == hi // divisor:
            return rest - (lo // divisor) * divisor
        coarse, fine, unit = rest._units(divisor)
        if unit > 1:
            return coarse % (divisor // unit) * unit + fine
        return IndexExpr(((Mod(rest, divisor), 1),))

    def axes(self) -> frozenset[Axis]:
        """Every axis that the expression mentions."""
        return frozenset(_atom_axes(self))

    def bounds(self, sizes: Mapping[Axis, int] | None = None) -> tuple[int, int]:
        """Smallest and largest value when every axis runs over ``0 .. size-1``; ``sizes`` overrides extents (padding)."""
        lo = hi = self.const
        for atom, c in self.terms:
            a, b = _atom_bounds(atom, sizes)
            lo, hi = lo + min(c * a, c * b), hi + max(c * a, c * b)
        return lo, hi

    def substitute(self, replacement: Mapping[Axis, IndexExpr]) -> IndexExpr:
        """Replace axes by expressions, all at once, and simplify again."""
        out = IndexExpr((), self.const)
        for atom, c in self.terms:
            if isinstance(atom, Axis):
                e = replacement.get(atom, index(atom))
            elif isinstance(atom, FloorDiv):
                e = atom.numerator.substitute(replacement) // atom.divisor
            else:
                e = atom.numerator.substitute(replacement) % atom.divisor
            out = out + e * c
        return out

    def evaluate(self, values: Mapping[Axis, np.ndarray | int]) -> np.ndarray | int:
        """Numbers for numbers: ``values`` gives each axis an integer or an integer array (broadcast by numpy)."""
        total: np.ndarray | int = self.const
        for atom, c in self.terms:
            if isinstance(atom, Axis):
                v = values[atom]
            elif isinstance(atom, FloorDiv):
                v = atom.numerator.evaluate(values) // atom.divisor
            else:
                v = atom.numerator.evaluate(values) % atom.divisor
            total = total + v * c
        return total

    def as_axis(self) -> Axis | None:
        """The axis, if the expression is just one."""
        if self.const == 0 and len(self.terms) == 1 and self.terms[0][1] == 1 and isinstance(self.terms[0][0], Axis):
            return self.terms[0][0]
        return None

    def __repr__(self) -> str:
        if not self.terms:
            return f"index({self.const})"
        parts = []
        for atom, c in self.terms:
            if isinstance(atom, Axis):
                text = f"index({atom!r})"
            else:
                text = f"({atom.numerator!r} {'//' if isinstance(atom, FloorDiv) else '%'} {atom.divisor})"
            parts.append(text if c == 1 else f"{text}*{c}")
        if self.const:
            parts.append(str(self.const))
        return " + ".join(parts)

    def __str__(self) -> str:
        parts = []
        for atom, c in self.terms:
            if isinstance(atom, Axis):
                text = atom.name
            else:
                text = f"({atom.numerator}) {'//' if isinstance(atom, FloorDiv) else '%'} {atom.divisor}"
                text = f"({text})" if c != 1 else text
            parts.append(text if c == 1 else f"{text}*{c}")
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


def order_key(x: object) -> str:
    """A text by which attributes of nodes, or rows of them, are ordered: like ``repr``, with the ranks of axes before their names."""
    if isinstance(x, Axis):
        return f"Axis({x.rank:04d}{x.name!r}, {x.size})"
    if isinstance(x, FloorDiv | Mod):
        return f"{type(x).__name__}({order_key(x.numerator)}, {x.divisor})"
    if isinstance(x, IndexExpr):
        return f"IndexExpr({order_key(x.terms)}, {x.const})"
    return f"({', '.join(map(order_key, x))})" if isinstance(x, tuple) else repr(x)


def index(value: IndexExpr | Axis | int) -> IndexExpr:
    """An index expression from an axis, an integer, or an expression."""
    if isinstance(value, IndexExpr):
        return value
    if isinstance(value, Axis):
        return IndexExpr(((value, 1),))
    return IndexExpr((), int(value))


def _rejoined(expr: IndexExpr) -> IndexExpr:
    """What a reshape took apart, another one puts together: ``x // n * n + x % n`` is x, ``x // n % m * n + x % n`` is ``x % (m*n)``."""
    for atom, c in expr.terms:
        if isinstance(atom, Mod):
            quotient = FloorDiv(atom.numerator, atom.divisor)
            for other, k in expr.terms:
                if k != c * atom.divisor:
                    continue
                if other == quotient:
                    whole = atom.numerator
                elif isinstance(other, Mod) and other.numerator == IndexExpr(((quotient, 1),)):
                    whole = atom.numerator % (atom.divisor * other.divisor)
                else:
                    continue
                return IndexExpr(tuple((a, k) for a, k in expr.terms if a not in (atom, other)), expr.const) + whole * c
    return expr


def _atom_axes(expr: IndexExpr) -> Iterator[Axis]:
    for atom, _ in expr.terms:
        if isinstance(atom, Axis):
            yield atom
        else:
            yield from _atom_axes(atom.numerator)


def _atom_bounds(atom: Atom, sizes: Mapping[Axis, int] | None) -> tuple[int, int]:
    if isinstance(atom, Axis):
        n = sizes.get(atom, atom.size) if sizes else atom.size
        return 0, max(n - 1, 0)
    lo, hi = atom.numerator.bounds(sizes)
    if isinstance(atom, FloorDiv):
        return lo // atom.divisor, hi // atom.divisor
    if lo // atom.divisor == hi // atom.divisor:
        return lo % atom.divisor, hi % atom.divisor
    return 0, atom.divisor - 1
