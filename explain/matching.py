"""What a rule was applied to: its premises matched against the e-graph, given the e-node that it made.

The e-graph does not keep which form of a class a rule matched.  It can be found again: the made side of the rule's equation is
matched against the e-node, which binds most variables; then the premises, patterns and repair facts, are matched with these
bindings.  Conditions are not asked again (they held when the rule fired), nor are relations that the frozen graph does not keep, so
what is found is a form that the rule can have been applied to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ..egraph.frozen import ENode, FrozenGraph
from ..ir.dtypes import DType
from ..rewrites import patterns
from ..rewrites.facts import Equal, Fact, Match
from ..rewrites.relations import Row
from ..rewrites.rule import Rule

Env = dict[str, Any]  # variable -> class, Axis, name, IndexExpr or number
TABLES = ("changes-by-term", "changes-by-factor")  # relations that frozen graphs keep: kind, axis, then classes
MOST = 64  # bindings that are followed


def applied_to(graph: FrozenGraph, rule: Rule, cls: int, made: ENode) -> list[ENode]:
    """The members of a class that a rule can have been applied to when it made another member."""
    found: dict[int, ENode] = {}
    for needs, fact in ((r.needs, f) for r in rule.instances for f in r.gives):
        if not isinstance(fact, Equal):
            continue
        for right, left in ((fact.right, fact.left), (fact.left, fact.right)):
            if isinstance(right, patterns.Var):
                continue
            for env in itertools.islice(_node(graph, right, made, {}), MOST):
                for n in itertools.islice(_sources(graph, needs, left, cls, env), MOST):
                    found[id(n)] = n
    return list(found.values())


def _sources(graph: FrozenGraph, needs: Sequence[Fact], left: Any, cls: int, env: Env) -> Iterator[ENode]:
    """The members of the class that the other side of the equation matches."""
    if not isinstance(left, patterns.Var):
        for form in patterns.orders(left):
            for n in graph.classes[cls]:
                for bound in _node(graph, form, n, env):
                    if next(_solve(graph, needs, bound), None) is not None:
                        yield n
        return
    bound_whole = _bind(env, left.name, cls)
    if bound_whole is None:
        return
    own = [f for f in needs if isinstance(f, Match) and f.var.name == left.name]
    rest = [f for f in needs if not any(f is g for g in own)]
    for fact in own[:1]:
        for form in patterns.orders(fact.pattern):
            for n in graph.classes[cls]:
                for bound in _node(graph, form, n, bound_whole):
                    if next(_solve(graph, [*own[1:], *rest], bound), None) is not None:
                        yield n


def _solve(graph: FrozenGraph, needs: Sequence[Fact], env: Env) -> Iterator[Env]:
    """Bindings that satisfy the matches and the kept relations, as far as their variables become bound."""
    pending = [f for f in needs if isinstance(f, Match) or (isinstance(f, Row) and f.relation.name in TABLES)]
    for k, fact in enumerate(pending):
        rest = [*pending[:k], *pending[k + 1 :]]
        if isinstance(fact, Match):
            if fact.var.name not in env:
                continue
            for form in patterns.orders(fact.pattern):
                for bound in _class(graph, form, env[fact.var.name], env):
                    yield from _solve(graph, rest, bound)
            return
        for row in graph.facts.get(fact.relation.name, ()):
            envs: list[Env] = [env]
            for want, cell in zip(fact.args, row, strict=True):
                envs = [e for before in envs for e in _cell(graph, want, cell, before)]
            for bound in envs:
                yield from _solve(graph, rest, bound)
        return
    yield env


def _bind(env: Env, name: str, value: Any) -> Env | None:
    if name in env:
        return env if env[name] == value else None
    return {**env, name: value}


def _cell(graph: FrozenGraph, want: Any, have: Any, env: Env) -> Iterator[Env]:
    """One attribute or column: a name, an axis, an index expression, a number, or a class."""
    have = have.name if isinstance(have, DType) else have
    if isinstance(want, str):
        if want == have:
            yield env
    elif isinstance(want, patterns.NumberVar | patterns.AxisVar | patterns.NameVar | patterns.IndexVar):
        bound = _bind(env, want.name, have)
        if bound is not None:
            yield bound
    elif isinstance(want, patterns.Pattern):
        yield from _class(graph, want, have, env)
    elif isinstance(want, patterns.NumberLiteral):
        if float(want.number) == have:
            yield env
    else:
        yield env  # a number that the rule computed


def _class(graph: FrozenGraph, pattern: Any, cls: int, env: Env) -> Iterator[Env]:
    """Ways in which some member of a class is an instance of a pattern."""
    if isinstance(pattern, patterns.Summed | patterns.LinearVar | patterns.Along | patterns.LinearSum):
        yield env  # linear forms: the engine rewrites them into accumulators, and the frozen graph does not keep them
        return
    if isinstance(pattern, patterns.Var):
        bound = _bind(env, pattern.name, cls)
        if bound is not None:
            yield bound
        return
    for n in graph.classes[cls]:
        yield from _node(graph, pattern, n, env)


def _node(graph: FrozenGraph, pattern: Any, n: ENode, env: Env) -> Iterator[Env]:
    """Ways in which one e-node is an instance of a pattern."""
    if pattern.kind != n.op:
        return
    args = pattern.arguments()
    if len(args) != len(n.args):
        return
    envs: list[Env] = [env]
    for want, have in zip(pattern.attrs(), n.attrs, strict=True):
        envs = [e for before in envs for e in _cell(graph, want, have, before)]
    for bound in envs:
        yield from _arguments(graph, args, n.args, bound)


def _arguments(graph: FrozenGraph, args: Sequence[Any], classes: Sequence[int], env: Env) -> Iterator[Env]:
    if not args:
        yield env
        return
    for bound in _class(graph, args[0], classes[0], env):
        yield from _arguments(graph, args[1:], classes[1:], bound)
