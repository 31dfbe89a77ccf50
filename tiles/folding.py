"""A block of statements in which some truth values are known: choices that are made, and what only they needed left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from .program import Cast, Let, Literal, Loop, Operand, Statement, Store, Value, defines, uses

Body = tuple[Statement, ...]
Found = dict[str, Operand | bool]  # value name -> what it is


def folded(body: Body, known: Mapping[Value, bool], results: Iterable[Value]) -> tuple[Body, dict[str, Value]]:
    """The statements (without loops) that make ``results`` where conditions are ``known``, and values that are others now, by name.

    A value takes the place of another one of its type where what reads it keeps its dims.
    """
    found: Found = {v.name: truth for v, truth in known.items()}
    kept: list[Statement] = []
    for s in body:
        if isinstance(s, Let):
            s = _let(s, found)
        elif isinstance(s, Cast) and isinstance(truth := found.get(s.src.name), bool) and s.dst.dtype.is_float:
            found[s.dst.name] = Literal(float(truth))
        kept.append(_reading(s, found))
    made = {v.name: v for s in body for v in defines(s)}
    same = {name: v for name, v in found.items() if isinstance(v, Value) and _alike(v, made[name])}
    wanted = {same.get(v.name, v).name for v in results}
    needed: list[Statement] = []
    for s in reversed(kept):
        if isinstance(s, Store) or any(v.name in wanted for v in defines(s)):
            needed.append(s)
            wanted.update(v.name for v in uses(s))
    return tuple(reversed(needed)), same


def _let(s: Let, found: Found) -> Let:
    """An operation with the values that its arguments are now; enters what its own value is."""
    args = [found.get(a.name, a) if isinstance(a, Value) else a for a in s.args]
    truths = [a for a in args if isinstance(a, bool)]
    value: Operand | bool | None = None
    if s.dst.name in found:
        return s
    if s.op == "where" and truths:
        value = args[1] if args[0] else args[2]
    elif s.op == "not" and truths:
        value = not args[0]
    elif s.op in ("and", "or") and truths:
        decided = s.op == "or"
        value = decided if decided in truths else next((a for a in args if not isinstance(a, bool)), not decided)
    elif s.op in ("mul", "add"):
        neutral = 1.0 if s.op == "mul" else 0.0
        rest = [a for a in args if a != Literal(neutral)]
        value = rest[0] if len(rest) == 1 else None
    if value is not None and not (isinstance(value, Value) and value.dtype != s.dst.dtype):
        found[s.dst.name] = value
    operands = tuple(old if isinstance(new, bool) else new for old, new in zip(s.args, args, strict=True))
    dims = {d for a in operands if isinstance(a, Value) for d in a.dims}
    return replace(s, args=operands) if dims == set(s.dst.dims) else s


def _alike(x: Value, y: Value) -> bool:
    return (x.dims, x.dtype) == (y.dims, y.dtype)


def _reading(s: Statement, found: Found) -> Statement:
    """Another statement with values in the place of others, of the same dims and type."""
    if isinstance(s, Let):
        return s
    names = ("src", "parts", "new", "kept", "small", "a", "b", "acc")

    def now(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(now, x))
        other = found.get(x.name) if isinstance(x, Value) else None
        return other if isinstance(other, Value) and isinstance(x, Value) and _alike(other, x) else x

    return replace(s, **{n: now(getattr(s, n)) for n in names if hasattr(s, n)})


def gone(loop: Loop) -> frozenset[str]:
    """The values of a loop's body that the tiles of its clear stretch do without."""
    if loop.clear is None or loop.part:
        return frozenset()
    body, _ = folded(loop.body, dict(loop.clear.known), [a.new for a in loop.accumulators])
    return frozenset(v.name for s in loop.body for v in defines(s)) - {v.name for s in body for v in defines(s)}
