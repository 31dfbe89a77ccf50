"""All orders of a sum of products, by an algebra of its own: what a choice among equal programs is measured against.

A program is a polynomial of tensors with named axes: terms, each a number times factors, summed over the axes that are not wanted.
Nothing here knows a rewrite rule.  :class:`Orders` enumerates what can be computed in its place: common factors are taken out of any
terms that have them, again and again (:meth:`Orders.factored`), and the factors of each term are multiplied two by two in any order,
axes being summed as soon as nothing else has them.  Of every part the cheapest :data:`KEPT` are kept, by operations and bytes, under two
views of what is stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from ..extract.targets import Target

KEPT = 5  # ways to compute a part, under each view
MOST = 100  # ways to take factors out of a sum
STORED = (1.0, 0.0)  # the share of the results in between that goes through memory
FUNCTIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
}


# polynomials ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """An input at some axes; a dimension of length 1 has none."""

    name: str
    axes: tuple[str | None, ...]

    def at(self, new: Mapping[str, str]) -> Leaf:
        """The same at other axes."""
        return Leaf(self.name, tuple(None if a is None else new.get(a, a) for a in self.axes))


@dataclass(frozen=True)
class Applied:
    """A function of every element of a polynomial: nothing goes in or out."""

    function: str
    inner: Poly

    @property
    def axes(self) -> tuple[str | None, ...]:
        """Those of the polynomial."""
        return self.inner.axes

    def at(self, new: Mapping[str, str]) -> Applied:
        """The same at other axes."""
        return Applied(self.function, self.inner.at(new))


@dataclass(frozen=True)
class Term:
    """A number times factors."""

    number: float
    factors: tuple[Factor, ...]

    def at(self, new: Mapping[str, str]) -> Term:
        """The same at other axes."""
        return Term(self.number, tuple(f.at(new) for f in self.factors))

    @cached_property
    def axes(self) -> frozenset[str]:
        """Those of the factors."""
        return frozenset(a for f in self.factors for a in f.axes if a is not None)


@dataclass(frozen=True)
class Poly:
    """Terms, summed over all axes but these."""

    axes: tuple[str, ...]
    terms: tuple[Term, ...]

    def at(self, new: Mapping[str, str]) -> Poly:
        """The same at other axes."""
        return Poly(tuple(new.get(a, a) for a in self.axes), tuple(t.at(new) for t in self.terms))


Factor = Leaf | Applied | Poly


def _same(a: Factor, b: Factor, fixed: frozenset[str], sizes: Mapping[str, int]) -> dict[str, str] | None:
    """The axes of b by which it is a, if both are one value at axes that are summed or the same."""
    if type(a) is not type(b) or len(a.axes) != len(b.axes):
        return None
    new: dict[str, str] = {}
    for x, y in zip(a.axes, b.axes, strict=True):
        if x == y:
            continue
        if x is None or y is None or x in fixed or y in fixed or sizes[x] != sizes[y] or new.get(y, x) != x:
            return None
        new[y] = x
    return new if len({*new.values()}) == len(new) and b.at(new) == a else None


def _without(t: Term, factor: Factor) -> tuple[Factor, ...]:
    k = t.factors.index(factor)
    return (*t.factors[:k], *t.factors[k + 1 :])


def _opened(t: Term) -> tuple[Term, ...]:
    """The terms of a term that is a sum."""
    if len(t.factors) == 1 and isinstance(f := t.factors[0], Poly):
        return tuple(Term(t.number * u.number, u.factors) for u in f.terms)
    return (t,)


# orders ---------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """A way to compute a value: ``kind`` is leaf, apply, add, or multiply (and sum over what is not in ``axes``); 1 if there is nothing
    to multiply."""

    kind: str
    axes: tuple[str, ...]
    parts: tuple[Order, ...] = ()
    numbers: tuple[float, ...] = ()  # of the parts that are added
    leaf: Leaf | None = None
    function: str = ""

    @cached_property
    def summed(self) -> frozenset[str]:
        """The axes that it sums."""
        return frozenset(a for p in self.parts for a in p.axes) - {*self.axes}

    @cached_property
    def text(self) -> str:
        """It, with the axes of leaves as subscripts; brackets say what comes first."""
        if self.leaf is not None:
            return self.leaf.name + "".join(f"_{a}" if k == 0 else a for k, a in enumerate(a for a in self.leaf.axes if a))
        inner = [p.text if p.kind in ("leaf", "apply") else f"({p.text})" for p in self.parts]
        if self.kind == "apply":
            return f"{self.function}({self.parts[0].text})"
        if not self.parts:
            return "1"
        if self.kind == "add":
            return " + ".join(t if n == 1 else f"{n:g} {t}" for n, t in zip(self.numbers, inner, strict=True))
        return (f"sum_{''.join(sorted(self.summed))} " if self.summed else "") + " ".join(inner)

    def __call__(self, tensors: Mapping[str, torch.Tensor]) -> Any:
        """Its value, with the dimensions in the order of ``axes``; a number, if it has no factors."""
        if self.leaf is not None:
            found = tensors[self.leaf.name][tuple(0 if a is None else slice(None) for a in self.leaf.axes)]
            return _arranged(found, [a for a in self.leaf.axes if a], self.axes)
        values = [p(tensors) for p in self.parts]
        if not values:
            return 1.0
        if self.kind == "apply":
            return FUNCTIONS[self.function](values[0])
        if self.kind == "add":
            terms = [_spread(v, p.axes, self.axes) for v, p in zip(values, self.parts, strict=True)]
            scaled = [t if n == 1 else t * n for n, t in zip(self.numbers, terms, strict=True)]
            return sum(scaled[1:], scaled[0])
        return _multiplied(values, [p.axes for p in self.parts], self.axes)


def _arranged(x: torch.Tensor, axes: Sequence[str], wanted: Sequence[str]) -> torch.Tensor:
    return x if list(axes) == list(wanted) else x.permute([axes.index(a) for a in wanted])


def _spread(x: Any, axes: Sequence[str], over: Sequence[str]) -> Any:
    """With a dimension of length 1 for each axis that is missing."""
    return x[tuple(slice(None) if a in axes else None for a in over)] if isinstance(x, torch.Tensor) else x


def _multiplied(values: Sequence[Any], axes: Sequence[tuple[str, ...]], out: tuple[str, ...]) -> Any:
    """A product of two, or one value, summed: as a product of matrices where it is one."""
    if len(values) == 2:
        a, b = axes
        left, right = [x for x in a if x not in b], [x for x in b if x not in a]
        both = [x for x in a if x in b]
        summed, batch = [x for x in both if x not in out], [x for x in both if x in out]
        if len(left) == len(right) == len(summed) == 1 and {*left, *right} <= {*out}:
            made = _arranged(values[0], a, [*batch, *left, *summed]) @ _arranged(values[1], b, [*batch, *summed, *right])
            return _arranged(made, [*batch, *left, *right], out)
    over = tuple(sorted({x for a in axes for x in a}))
    factors = [_spread(v, a, over) for v, a in zip(values, axes, strict=True)]
    found = factors[0] if len(factors) == 1 else factors[0] * factors[1]
    gone = [k for k, a in enumerate(over) if a not in out]
    found = found.sum(gone) if gone else found
    return _arranged(found, [a for a in over if a in out], out)


class TooMany(Exception):
    """More ways to take factors out than are looked at."""


class Orders:
    """The enumeration of the orders of polynomials over axes of some sizes, for a type and a device."""

    def __init__(self, sizes: Mapping[str, int], dtype: str, itemsize: int, target: Target) -> None:
        self.sizes, self.itemsize, self.target = sizes, itemsize, target
        self.rate = target.tensor_rate(dtype) * 1e6
        self.known: dict[tuple[Factor, frozenset[str]], list[Order]] = {}
        self.sums: dict[tuple[tuple[Term, ...], frozenset[str]], list[tuple[Term, ...]]] = {}
        self.us: dict[tuple[Order, float], float] = {}

    def factored(self, terms: tuple[Term, ...], out: frozenset[str]) -> list[tuple[Term, ...]]:
        """A sum with common factors taken out, in all ways, and as it is."""
        found = self.sums.get((terms, out))
        if found is not None:
            return found
        seen, work = dict[tuple[Term, ...], None](), [terms]
        while work:
            now = tuple(sorted(work.pop(), key=repr))
            if now in seen:
                continue
            seen[now] = None
            if len(seen) > MOST:
                raise TooMany
            for p, q in itertools.combinations(now, 2):
                rest = tuple(t for t in now if t is not p and t is not q)
                work.extend((*rest, one) for one in self.merged(p, q, out))
        self.sums[terms, out] = [*seen]
        return [*seen]

    def merged(self, p: Term, q: Term, out: frozenset[str]) -> Iterator[Term]:
        """Two terms as a common factor times a sum."""
        for x, y in itertools.product(p.factors, q.factors):
            new = _same(x, y, out, self.sizes)
            if new is None:
                continue
            new |= {old: y for y, old in new.items() if old not in new}  # so that no two axes become one
            left = (Term(p.number, _without(p, x)), Term(q.number, _without(q.at(new), y.at(new))))
            flat = tuple(t for one in left for t in _opened(one))
            needed = out | {a for a in x.axes if a is not None}
            inner = Poly(tuple(sorted(needed & (flat[0].axes.union(*(t.axes for t in flat))))), flat)
            yield Term(1.0, (x, inner))
            for one in self.factored(inner.terms, frozenset(inner.axes)):
                if len(one) == 1:  # the sum is a product itself
                    yield Term(one[0].number, (x, *one[0].factors))

    def size(self, axes: Iterable[str]) -> float:
        """The number of elements."""
        return math.prod(self.sizes[a] for a in axes)

    def step(self, o: Order, stored: float) -> float:
        """Microseconds of the last step, by operations and bytes; what is not summed is free but for its bytes, and is rarely stored."""
        if o.kind != "multiply" or not o.summed:
            return 1e-3 + 0.3 * stored * self.itemsize * self.size(o.axes) / (self.target.dram_gb_s * 1e3) if o.parts else 0.0
        moved = self.size(o.axes) * stored + sum(self.size(p.axes) * (1.0 if p.kind == "leaf" else stored) for p in o.parts)
        bytes_us = moved * self.itemsize / (self.target.dram_gb_s * 1e3)
        return 1.0 + max(bytes_us, 2 * self.size({*o.axes} | o.summed) / self.rate)

    def price(self, o: Order, stored: float) -> float:
        """Microseconds of all steps."""
        found = self.us.get((o, stored))
        if found is None:
            found = self.us[o, stored] = self.step(o, stored) + sum(self.price(p, stored) for p in o.parts)
        return found

    def least_price(self, o: Order) -> float:
        """Microseconds under the view that suits it."""
        return min(self.price(o, s) for s in STORED)

    def least(self, o: Order) -> float:
        """Microseconds that its sums take at least: their operations at the highest rate, equal ones once."""
        steps, stack = set[Order](), [o]
        while stack:
            now = stack.pop()
            if now not in steps:
                steps.add(now)
                stack.extend(now.parts)
        products = [s for s in steps if s.kind == "multiply" and len(s.parts) == 2 and s.summed]
        return sum(2 * self.size({*s.axes} | s.summed) / self.rate for s in products)

    def best(self, found: Iterable[Order]) -> list[Order]:
        """The cheapest under each view."""
        every = list(dict.fromkeys(found))
        return list(dict.fromkeys(o for s in STORED for o in sorted(every, key=lambda o: self.price(o, s))[:KEPT]))

    def of(self, f: Factor, out: frozenset[str]) -> list[Order]:
        """The ways to compute a factor, summed over all axes but those of ``out``."""
        found = self.known.get((f, out))
        if found is None:
            found = self.known[f, out] = self.best(self.summed(o, out) for o in self.whole(f))
        return found

    def summed(self, o: Order, out: frozenset[str]) -> Order:
        """Without axes that nothing else has."""
        return o if {*o.axes} <= out else Order("multiply", tuple(a for a in o.axes if a in out), (o,))

    def whole(self, f: Factor) -> Iterator[Order]:
        """The ways to compute a factor."""
        if isinstance(f, Leaf):
            yield Order("leaf", tuple(sorted({a for a in f.axes if a})), leaf=f)
        elif isinstance(f, Applied):
            for o in self.of(f.inner, frozenset(f.inner.axes)):
                yield Order("apply", o.axes, (o,), function=f.function)
        else:
            out = frozenset(f.axes)
            for terms in self.factored(f.terms, out):
                ways = [self.product(t.factors, out) for t in terms]
                for parts in itertools.product(*ways):
                    axes = tuple(sorted({a for p in parts for a in p.axes}))
                    plain = len(parts) == 1 and terms[0].number == 1
                    yield parts[0] if plain else Order("add", axes, parts, tuple(t.number for t in terms))

    def product(self, factors: tuple[Factor, ...], out: frozenset[str]) -> list[Order]:
        """The ways to multiply factors, two by two."""
        n = len(factors)
        if not n:
            return [Order("multiply", ())]
        every = [frozenset(a for a in f.axes if a) for f in factors]
        ways: dict[int, list[Order]] = {}
        for chosen in sorted(range(1, 1 << n), key=int.bit_count):
            wanted = out.union(*(every[k] for k in range(n) if not chosen >> k & 1))
            if chosen.bit_count() == 1:
                ways[chosen] = self.of(factors[chosen.bit_length() - 1], wanted)
                continue
            found = []
            part = (chosen - 1) & chosen
            while part > chosen ^ part:
                for a, b in itertools.product(ways[part], ways[chosen ^ part]):
                    found.append(Order("multiply", tuple(sorted(({*a.axes} | {*b.axes}) & wanted)), (a, b)))
                part = (part - 1) & chosen
            ways[chosen] = self.best(found)
        return ways[(1 << n) - 1]
