"""The check of an op's declaration in numbers: its meaning, its range transfer and its algebraic traits, tried out on samples.

A declaration is believed only after this: every claim that a rewrite, range analysis or a kernel will rely on is tested, among them
those that the package *derives* (signs and finiteness, from the range transfer).  Samples are fixed: edges (zeros, the smallest and
largest numbers of float32, infinities) and numbers of many magnitudes from a seeded generator.  Numbers are float64, where what
overflows or underflows is told from a true infinity or zero by walking to the border: a value that vanishes has grown tiny before.
The check of the Triton spelling is in :mod:`.op_spelling`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from ...errors import EqFuseError, OpError, UnsoundOpError, expect
from ...ir.ops import DOMAINS, OPS, RESULTS, ScalarOp
from ...ir.ranges import ALL, INF, Interval
from ...ir.signs import sign_traits

SEED = 20
TOLERANCE = 1e-9  # of float64 formulas, relative
TINY, HUGE = 1e-290, 1e290  # beyond these float64 may have lost a value

EDGES = np.array(
    [0.0, -0.0, 1e-45, 1.2e-38, 1e-30, 1e-8, 1e-3, 0.1, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0,
     87.0, 89.0, 104.0, 300.0, 1000.0, 1e4, 1e6, 1e10, 1e20, 1e30, 3.4e38]
)  # fmt: skip
"""Non-negative edges, within float32."""


def check_op(op: ScalarOp) -> None:
    """Test everything that an op declares except its Triton spelling.

    Raises :class:`~eqfuse.errors.OpError` for what is malformed, :class:`~eqfuse.errors.UnsoundOpError` with a counterexample
    for what is false; both name the op and the place of its declaration.
    """
    expect(isinstance(op, ScalarOp), "what check_op is given", op, "an op, as eqfuse.op(...) makes it")
    check_form(op)
    check_meaning(op)
    check_increasing(op)  # before the range, which may be derived from it
    check_range(op)
    check_domain(op)
    check_derived(op)
    check_traits(op)


def samples(op: ScalarOp, *, infinite: bool, inside: bool = True, count: int = 600) -> list[np.ndarray]:
    """Arguments: for each an array of float32 numbers (as float64), edges against edges first."""
    rng = np.random.default_rng(SEED)
    if op.result == "int" and inside:
        return _integers(op.arity, rng, count)
    edges = np.concatenate([EDGES, -EDGES[1:], [INF, -INF] if infinite else []])
    if op.arity == 2:
        edges = edges[::2] if not infinite else np.concatenate([edges[:-2:2], edges[-2:]])
    if op.arity > 2:
        edges = np.array([0.0, 1.0, -1.0, 2.5, -1e-3, 1e10, *([INF, -INF] if infinite else [])])
    grids = [g.ravel() for g in np.meshgrid(*[edges] * op.arity, indexing="ij")]
    drawn = [rng.choice([1.0, 10.0, 100.0, 1e-3, 1e6], count) * rng.standard_normal(count) for _ in grids]
    whole = [np.concatenate([g, d]).astype(np.float32).astype(np.float64) for g, d in zip(grids, drawn, strict=True)]
    if inside:
        keep = np.logical_and.reduce([DOMAINS[op.domain](x) for x in whole])
        whole = [x[keep] for x in whole]
    return whole


def _integers(arity: int, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Integers of 31 bits and a sign: small ones, which are counts and places of bits, and all others."""
    edges = np.array([0, 1, 2, 3, 7, 15, 31, 32, 33, 63, 64, 127, 255, 2**15, 2**24 + 1, 2**31 - 1])
    edges = np.concatenate([edges, -edges[1:]])
    grids = [g.ravel() for g in np.meshgrid(*[edges] * arity, indexing="ij")]
    spans = [2 ** rng.integers(1, 32, count) for _ in grids]
    drawn = [rng.integers(-s, s) for s in spans]
    return [np.concatenate([g, d]).astype(np.float64) for g, d in zip(grids, drawn, strict=True)]


def value(op: ScalarOp, *args: Any) -> np.ndarray:
    """The op's meaning as float64; OpError if numpy refuses."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(op.numpy(*(np.asarray(a, dtype=np.float64) for a in args)))
            return found if found.dtype.kind == "c" else found.astype(np.float64)
    except Exception as error:
        raise OpError(
            f"op {op.name}: numpy= is not vectorised or fails on arrays: {type(error).__name__}: {error}",
            where=op.where,
            cure="write it with numpy functions (np.where instead of if, np.exp instead of math.exp), or wrap it in np.vectorize",
        ) from None


def _point(*args: Any) -> str:
    return ", ".join(f"{n} = {float(v)!r}" for n, v in zip("xyz", args, strict=False))


def _false(op: ScalarOp, claim: str, counterexample: str, cure: str | None = None) -> UnsoundOpError:
    return UnsoundOpError(f"op {op.name}: {claim}, but {counterexample}", where=op.where, cure=cure)


# form -----------------------------------------------------------------------------------------------------------------------------------
def check_form(op: ScalarOp) -> None:
    """Words that exist, numbers that are numbers, traits that fit the number of arguments."""

    def require(condition: bool, message: str, cure: str | None = None) -> None:
        if not condition:
            raise OpError(f"op {op.name}: {message}", where=op.where, cure=cure)

    require(op.result in RESULTS, f"unknown result {op.result!r}", f"one of {', '.join(RESULTS)}")
    require(op.domain in DOMAINS, f"unknown domain {op.domain!r}", f"one of {', '.join(DOMAINS)}")
    require(all(isinstance(c, int | float) and 0 <= c < INF for c in (op.cost, op.special)), "a cost is a number, 0 or more")
    require(not (op.increasing and op.arity != 1), "increasing is a trait of ops with one argument")
    require(not ((op.commutative or op.associative) and op.arity != 2), "commutative and associative are traits of ops with two arguments")
    require(not (op.turns and op.arity != 1), "turns is a trait of ops with one argument")
    require(isinstance(op.turns, tuple), "turns is a tuple of pairs", 'turns=(("add", "mul"),)')
    for pair in op.turns:
        good = isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(n, str) and n in OPS and OPS[n].arity == 2 for n in pair)
        require(good, f"turns has {pair!r}, which is no pair of ops with two arguments", 'turns=(("add", "mul"),)')


def check_meaning(op: ScalarOp) -> None:
    """Element by element, by broadcasting, the same twice, real numbers; for ``bool`` 0 or 1, for ``same`` integers to integers."""
    args = samples(op, infinite=True)
    whole = value(op, *args)
    n = args[0].size
    if whole.shape != (n,):
        raise OpError(
            f"op {op.name}: numpy= gives shape {whole.shape} for arguments of shape ({n},)",
            where=op.where,
            cure="an op is applied element by element",
        )
    with np.errstate(all="ignore"):
        narrow = np.asarray(op.numpy(*[x.astype(np.float32) for x in args])).dtype.kind
    kind = whole.dtype.kind if whole.dtype.kind == "c" else narrow
    if kind not in "bfiu":
        raise OpError(f"op {op.name}: numpy= gives values of kind {kind!r}", where=op.where, cure="an op gives real numbers")
    picks = np.unique(np.linspace(0, n - 1, 25).astype(int))
    for k in picks:
        alone = value(op, *[x[k : k + 1] for x in args])
        if alone.shape != (1,) or not _close(alone[0], whole[k], 1e-12):
            raise _false(op, "numpy= works element by element", f"it gives {alone.ravel().tolist()} for {_point(*(x[k] for x in args))} "
                         f"alone and {float(whole[k])!r} among others")  # fmt: skip
        value(op, *[x[k] for x in args])  # numbers: constants are folded so
    if op.arity > 1:
        few = [x[picks[:5]].reshape([-1 if i == j else 1 for j in range(op.arity)]) for i, x in enumerate(args)]
        if value(op, *few).shape != (5,) * op.arity:
            raise OpError(f"op {op.name}: numpy= does not broadcast", where=op.where)
    if value(op, *[np.zeros((0, 3))] * op.arity).shape != (0, 3):
        raise OpError(f"op {op.name}: numpy= changes the shape of empty arrays", where=op.where)
    again = value(op, *args)
    if not np.array_equal(whole, again, equal_nan=True):
        raise OpError(f"op {op.name}: numpy= gives other values the second time", where=op.where, cure="an op is a function")
    if op.result == "bool":
        _find(op, "its result is a truth value", args, ~np.isin(whole, (0.0, 1.0)))
    if op.result in ("same", "int"):
        ints = [np.round(np.clip(x, -50, 50)) for x in args]
        found = value(op, *ints)
        _find(op, 'result="same" makes integers of integers', ints, np.isfinite(found) & (found != np.round(found)), 'result="float"')


def _find(op: ScalarOp, claim: str, args: list[np.ndarray], bad: np.ndarray, cure: str | None = None) -> None:
    """Raise for the simplest argument where a claim is false."""
    if not bad.any():
        return
    where = np.flatnonzero(bad)
    size = sum(np.abs(np.log2(np.maximum(np.abs(x[where]), 1e-300))) + 4.0 * (x[where] != np.round(x[where])) for x in args)
    k = where[int(np.argmin(size))]
    at = [x[k] for x in args]
    raise _false(op, claim, f"{op.name}({', '.join(f'{float(v)!r}' for v in at)}) = {float(value(op, *at))!r}", cure)


def _close(a: Any, b: Any, tolerance: float, scale: Any = 0.0) -> Any:
    """Equal, both NaN, or within a tolerance of the larger."""
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * np.maximum(np.maximum(np.abs(a), np.abs(b)), scale)
        return (a == b) | (np.isnan(a) & np.isnan(b)) | (near & np.isfinite(a) & np.isfinite(b))


# range ----------------------------------------------------------------------------------------------------------------------------------
_ENDS = (-INF, -1e30, -300.0, -20.0, -2.0, -1.0, -0.3, 0.0, 1e-6, 0.5, 1.0, 3.0, 40.0, 600.0, 1e30, INF)


def _intervals(arity: int) -> Iterator[tuple[Interval, ...]]:
    every = [Interval(a, b) for i, a in enumerate(_ENDS) for b in _ENDS[i:]]
    every.sort(key=lambda s: (not s.finite, s.magnitude, s.lo))  # counterexamples are simple
    if arity == 1:
        yield from ((i,) for i in every)
        return
    rng = np.random.default_rng(SEED)
    few = [ALL, Interval(0.0, INF), Interval(-1.0, 1.0), Interval(0.5, 3.0), Interval(-INF, -INF), Interval(0.0, 0.0)]
    yield from product(few, repeat=arity)
    for _ in range(150):
        yield tuple(every[int(k)] for k in rng.integers(0, len(every), arity))


def check_range(op: ScalarOp) -> None:
    """The range transfer contains every value of the op on every interval; it answers for all of them."""
    rng = np.random.default_rng(SEED)
    for spans in _intervals(op.arity):
        said = transfer(op, *spans)
        columns = []
        for s in spans:
            inner = rng.uniform(max(s.lo, -1e30), min(s.hi, 1e30), 8) if s.hi > -1e30 and s.lo < 1e30 else np.zeros(0)
            near = rng.uniform(max(s.lo, -5.0), min(s.hi, 5.0), 8) if s.hi > -5 and s.lo < 5 else np.zeros(0)
            marks = np.array([s.lo, s.hi, 0.0, 1.0, -1.0, 0.25, -10.0, 10.0, 100.0, *inner, *near])
            columns.append(marks[(marks >= s.lo) & (marks <= s.hi)])
        grids = [g.ravel() for g in np.meshgrid(*columns, indexing="ij")]
        found = value(op, *grids)
        slack = 1e-12 * np.abs([said.lo, said.hi])
        with np.errstate(all="ignore"):
            out = (found < said.lo - (slack[0] if said.lo > -INF else 0)) | (found > said.hi + (slack[1] if said.hi < INF else 0))
        shown = " and ".join(f"[{s.lo:g}, {s.hi:g}]" for s in spans)
        _find(op, f"its range on {shown} is said to be [{said.lo:g}, {said.hi:g}]", grids, out, "widen range=")


def transfer(op: ScalarOp, *spans: Interval) -> Interval:
    """What the range transfer says; OpError if it fails."""
    shown = ", ".join(f"Interval({s.lo:g}, {s.hi:g})" for s in spans)
    try:
        found = op.range(*spans)
    except EqFuseError:
        raise
    except Exception as error:
        raise OpError(
            f"op {op.name}: range= fails on {shown}: {type(error).__name__}: {error}",
            where=op.where,
            cure="it must answer for every interval, infinite ones included; Interval() is a safe answer",
        ) from None
    if not isinstance(found, Interval):
        raise OpError(f"op {op.name}: range= gives {found!r} on {shown}", where=op.where, cure="return an Interval, or (low, high)")
    return found


# finiteness and signs -------------------------------------------------------------------------------------------------------------------
def _lost(op: ScalarOp, at: tuple[float, ...], bad: Callable[[float], bool]) -> bool:
    """Whether a value that is bad (infinite, or zero) is so by overflow or underflow alone.

    On the way from a good point to this one the last good value is huge, or tiny, if float64 merely ran out of exponents; at a pole or
    a true zero it is not.  Arguments near zero have no reason to overflow: what is infinite there is a pole.  The way is one of all
    arguments, or of the last one alone: x^y goes from 0 to infinity within one step of x where y is 1e20.
    """

    def finds(points: Iterator[tuple[float, ...]]) -> tuple[float, ...] | None:
        return next((p for p in points if not bad(float(value(op, *p)))), None)

    scales = (0.5, 0.1, 1e-2, 1e-4, 1e-8, 1e-20, 1e-40)
    together = finds(tuple(a * s for a in at) for s in scales) or finds(product((1.0, -1.0, 0.5), repeat=op.arity))
    alone = finds((*at[:-1], at[-1] * s) for s in scales)
    return any(good is not None and _lost_between(op, good, at, bad) for good in (together, alone))


def _lost_between(op: ScalarOp, good: tuple[float, ...], at: tuple[float, ...], bad: Callable[[float], bool]) -> bool:
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        point = tuple(g + (a - g) * middle for g, a in zip(good, at, strict=True))
        low, high = (low, middle) if bad(float(value(op, *point))) else (middle, high)
    border = tuple(g + (a - g) * low for g, a in zip(good, at, strict=True))
    last = abs(float(value(op, *border)))
    return (last > HUGE and max(map(abs, border)) > 1e-100) or last < TINY


def check_domain(op: ScalarOp) -> None:
    """Inside the domain finite numbers give finite numbers, but for overflow."""
    args = samples(op, infinite=False)
    found = value(op, *args)
    claim = f"finite numbers of its domain ({op.domain}) give finite numbers"
    cure = 'name a smaller domain ("nonneg", "positive", "nonzero"), or write numpy= so that nothing cancels to NaN'
    _find(op, claim, args, np.isnan(found), cure)
    _find(op, claim, args, _truly(op, args, np.isinf(found), math.isinf), cure)


def _truly(op: ScalarOp, args: list[np.ndarray], bad: np.ndarray, is_bad: Callable[[float], bool]) -> np.ndarray:
    """Of the bad elements those that are not lost to overflow or underflow (the first few are looked at)."""
    out = np.zeros_like(bad)
    for k in np.flatnonzero(bad)[:60]:
        out[k] = not _lost(op, tuple(float(x[k]) for x in args), is_bad)
    return out


def check_derived(op: ScalarOp) -> None:
    """What is derived from the range transfer about signs and finiteness is true of the values."""
    if op.arity > 2:
        return
    everything = [x + 0.0 for x in samples(op, infinite=True, inside=False)]  # -0.0 + 0.0 = 0.0: the sign of a zero is not tracked
    finite = [x + 0.0 for x in samples(op, infinite=False, inside=False)]
    cure = "widen range=, or write numpy= so that it says what range= says"

    def chosen(args: list[np.ndarray], *tests: _Test) -> list[np.ndarray]:
        keep = np.logical_and.reduce([t(x) for t, x in zip(tests, args, strict=False)])
        return [x[keep] for x in args]

    def any_(x: np.ndarray) -> np.ndarray:
        return np.ones(x.shape, bool)

    def is_zero(v: float) -> bool:
        return v <= 0

    def nonpos(x: np.ndarray) -> np.ndarray:
        return x <= 0

    nonneg, positive = DOMAINS["nonneg"], DOMAINS["positive"]
    claims: dict[str, tuple[list[np.ndarray], _Test, _Test, Callable[[np.ndarray], np.ndarray], Callable[[float], bool] | None]] = {
        # trait: samples, which first and second arguments, what is bad of a value, and, where it may be so by a loss, of one value
        "always-nonneg": (everything, any_, any_, lambda v: v < 0, None),
        "keeps-nonneg": (everything, nonneg, nonneg, lambda v: v < 0, None),
        "keeps-nonpos": (everything, nonpos, nonpos, lambda v: v > 0, None),
        "nonneg-if-one": (everything, any_, nonneg, lambda v: v < 0, None),
        "keeps-positive": (finite, positive, positive, lambda v: v <= 0, is_zero),
        "positive-if-one": (finite, any_, positive, lambda v: v <= 0, is_zero),
        "positive-if-bounded": (finite, any_, any_, lambda v: v <= 0, is_zero),
        "keeps-bounded": (finite, any_, any_, np.isinf, math.isinf),
        "makes-truth": (everything, any_, any_, lambda v: ~np.isin(v, (0.0, 1.0)), None),
    }
    for trait in sign_traits(op):
        drawn, first, second, is_bad, lossy = claims[trait]
        args = chosen(drawn, first, second)
        with np.errstate(all="ignore"):
            bad = is_bad(value(op, *args))
        _find(op, f"its range transfer says {trait!r}", args, bad if lossy is None else _truly(op, args, bad, lossy), cure)


_Test = Callable[[np.ndarray], np.ndarray]


# traits ---------------------------------------------------------------------------------------------------------------------------------
def check_traits(op: ScalarOp) -> None:
    """Every algebraic trait that is declared, but for the order of values."""
    if op.keeps_zero:
        at_zero = float(value(op, *[0.0] * op.arity))
        if at_zero != 0:  # or NaN
            raise _false(op, "keeps_zero", f"{op.name}({', '.join(['0'] * op.arity)}) = {at_zero!r}")
    if op.commutative:
        x, y = samples(op, infinite=True)
        a, b = value(op, x, y), value(op, y, x)
        _pairs(op, "commutative", x, y, a, b, _close(a, b, 1e-14), "f(x, y)", "f(y, x)")
    if op.associative:
        _check_associative(op)
    for source, target in op.turns:
        _check_turns(op, source, target)
    if op.addition is not None:
        _check_addition(op, *op.addition)


def _check_addition(op: ScalarOp, g: str, h: str, k: str, l: str, a: float) -> None:  # noqa: E741
    """f(x + y) = g(x) h(y) + a k(x) l(y), for numbers at which nothing overflows."""
    x = np.random.default_rng(7).uniform(-20.0, 20.0, 200)
    y = np.roll(x, 1)
    left, right = value(op, x + y), value(OPS[g], x) * value(OPS[h], y) + a * value(OPS[k], x) * value(OPS[l], y)
    scale = np.abs(value(OPS[g], x) * value(OPS[h], y)) + np.abs(value(OPS[k], x) * value(OPS[l], y))
    _pairs(op, "addition", x, y, left, right, _close(left, right, TOLERANCE, scale), "f(x + y)", "g(x) h(y) + a k(x) l(y)")


def _pairs(
    op: ScalarOp, claim: str, x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray, good: np.ndarray, left: str, right: str
) -> None:
    if good.all():
        return
    bad = np.flatnonzero(~good)
    k = bad[int(np.argmin(np.abs(x[bad]) + np.abs(y[bad]) + (x[bad] != np.round(x[bad])) + (y[bad] != np.round(y[bad]))))]
    raise _false(op, claim, f"{left} = {float(a[k])!r} and {right} = {float(b[k])!r} at {_point(x[k], y[k])}")


def check_increasing(op: ScalarOp) -> None:
    """An op that is declared increasing never falls."""
    if not op.increasing:
        return
    x = np.unique(np.concatenate([samples(op, infinite=True, inside=False, count=3000)[0], np.linspace(-10, 10, 401)]))
    y = value(op, x)
    x, y = x[~np.isnan(y)], y[~np.isnan(y)]
    with np.errstate(all="ignore"):
        falls = (y[1:] < y[:-1]) & ~_close(y[1:], y[:-1], 1e-13)
    if falls.any():
        places = np.flatnonzero(falls)
        k = int(places[np.argmin(np.abs(np.maximum(np.abs(x[places]), np.abs(x[places + 1])) - 1.0))])  # not the steepest: the plainest
        shown = [f"{op.name}({float(a)!r}) = {float(b)!r}" for a, b in zip(x[k : k + 2], y[k : k + 2], strict=True)]
        raise _false(op, "increasing", " and ".join(shown), "leave increasing= out, and give its range=")


def _moderate(op: ScalarOp, source: str, count: int = 800) -> np.ndarray:
    """Numbers of the domain whose sums or products leave float64 room; infinities where the domain has them."""
    rng = np.random.default_rng(SEED + 1)
    if source == "mul":
        drawn = np.exp(rng.uniform(-40, 40, count)) * rng.choice([1.0, -1.0], count)
    else:
        drawn = rng.standard_normal(count) * rng.choice([0.1, 1.0, 10.0, 40.0], count)
    x = np.concatenate([drawn, rng.choice([0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, INF, -INF], count // 2)])
    return rng.permutation(x[DOMAINS[op.domain](x)])


def _check_turns(op: ScalarOp, source: str, target: str) -> None:
    """f(x . y) = f(x) : f(y) on the domain, and what rules conclude from it: the identity goes to the identity, and an increasing
    exponential vanishes at -inf."""
    claim = f"turns {source} into {target}"
    s, t = OPS[source], OPS[target]
    x = _moderate(op, source)
    y = np.roll(x, 1)
    both = value(s, x, y)
    keep = DOMAINS[op.domain](both)
    x, y, both = x[keep], y[keep], both[keep]
    fx, fy, left = value(op, x), value(op, y), value(op, both)
    right = value(t, fx, fy)
    scale = np.maximum(np.abs(fx), np.abs(fy)) if target != "mul" else 0.0
    with np.errstate(all="ignore"):
        inputs_finite = np.isfinite(x) & np.isfinite(y)
        sizes = np.abs(np.array([fx, fy, left, right]))
        spent = inputs_finite & ((sizes > HUGE) | (sizes < TINY) | np.isnan(sizes)).any(axis=0) & (left != 0) | (
            inputs_finite & (sizes < TINY).any(axis=0) & (sizes[:2] > 0).all(axis=0)
        )
        open_ = ~np.isfinite(left) & ~np.isfinite(right)  # neither side is a number: nothing is claimed
    good = _close(left, right, TOLERANCE, scale) | spent | open_
    _pairs(op, claim, x, y, left, right, good, f"f({_spell(source)})", _spell(target, "f(x)", "f(y)"))
    one = {"add": 0.0, "mul": 1.0, "maximum": -INF, "minimum": INF}
    if source in one and target in one and source in ("add", "mul") and target in ("add", "mul"):
        at = float(value(op, one[source]))
        if not at == one[target]:
            raise _false(op, claim, f"{op.name}({one[source]:g}) = {at!r}, not {one[target]:g}")
    if (source, target) == ("add", "mul") and op.increasing and float(value(op, -INF)) != 0:
        raise _false(op, f"{claim} and is increasing", f"{op.name}(-inf) = {float(value(op, -INF))!r}, not 0", "leave a trait out")


def _spell(name: str, x: str = "x", y: str = "y") -> str:
    infix = OPS[name].infix
    return f"{x} {infix} {y}" if infix else f"{name}({x}, {y})"


def _check_associative(op: ScalarOp) -> None:
    x = _moderate(op, "add" if op.name != "mul" else "mul")
    y, z = np.roll(x, 1), np.roll(x, 2)
    a, b = value(op, value(op, x, y), z), value(op, x, value(op, y, z))
    with np.errstate(all="ignore"):
        scale = np.nanmax(np.where(np.isfinite([x, y, z, a, b]), np.abs([x, y, z, a, b]), 0), axis=0)
    good = _close(a, b, TOLERANCE, scale) | (~np.isfinite(a) & ~np.isfinite(b))
    if not good.all():
        k = int(np.flatnonzero(~good)[0])
        sides = f"f(f(x, y), z) = {float(a[k])!r} and f(x, f(y, z)) = {float(b[k])!r}"
        raise _false(op, "associative", f"{sides} at {_point(x[k], y[k], z[k])}")
