"""Sources of overflow and cancellation in a plan that its program did not have: a static check of planned kernels.

Equality over the reals is not safety in floating point.  The nodes of the planned kernels and those of the program as it is written go
through the same range analysis, and a *hazard* is an operation whose arguments may lie where digits or finiteness are lost:

===============  =================================================================================================================
``overflow``     an exponential whose argument has no bound (or one beyond what float32 can take)
``domain``       a reciprocal, logarithm or root whose argument may reach its singular point (level 1) or lie beyond it (level 2)
``cancellation`` a sum of two unbounded terms that may have opposite signs.  Its level is (degree, rounded): the degree of the terms in
                 the offset of the data (E[x^2] - mean^2 subtracts degree 2), and how many of both are rounded.  A value minus a
                 reduction of that same value, c x - c R(x), is a shift and no hazard: the rounding of x is common to both; what is
                 made of it has lost the offset, its degree is 0.  Sums of degree 0 are what the data are, and no hazard
``operand``      a computed float16 operand of a matrix product that may exceed 65504
``size``         a value that overflows, or vanishes, for inputs for which the program stays inside float32 (:mod:`.sizes`)
===============  =================================================================================================================

A hazard of the plan is *new* if the program has none of its kind that is at least as bad.  The analysis is conservative, and it is the same
for both sides.  Values that were stored are followed into the kernel that stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import PlanError
from ..ir import dtypes, nodes, ops
from ..ir.bounds import ZERO
from ..ir.index import Axis, index
from ..ir.program import Program
from ..ir.ranges import INF, Interval
from ..ir.recursion import by_arguments
from ..rewrites.comparisons import MODEST
from ..tiles import dots
from ..tiles.analysis import Facts
from ..tiles.centres import plain
from ..tiles.direct import kernel_from_program
from ..tiles.kernel import Kernel, Node
from ..tiles.lower import Lowering
from ..tiles.relations import SIGNS
from .objective import TIE
from .plan import Plan
from .sizes import Escape, escapes, is_free_exponential

MOVES_FACTORS = "factor_out"  # the rule by which products are summed before a factor makes them small, or large


@dataclass(frozen=True)
class Hazard:
    """An operation where finiteness or digits may be lost.  Levels of one kind are compared entry by entry."""

    kind: str
    level: tuple[float, ...]
    what: str
    rule: str | None = None

    def covers(self, other: Hazard) -> bool:
        """Whether this one is of the same kind and at least as bad."""
        return self.kind == other.kind and all(a >= b for a, b in zip(self.level, other.level, strict=True))

    def __str__(self) -> str:
        by = f" (by {self.rule})" if self.rule else ""
        return f"{self.kind} {'.'.join(f'{x:g}' for x in self.level)}: {self.what}{by}"


def new_hazards(plan: Any) -> list[Hazard]:
    """Hazards of a plan, or of what ``optimize`` returned, that its program did not have; but for those of :func:`hazards_of_size`."""
    plan = _plan(plan)
    known = program_hazards(plan.program)
    return [h for h in hazards(plan) if not any(k.covers(h) for k in known)]


def hazards(plan: Any) -> list[Hazard]:
    """Every hazard of the planned kernels.  Means are taken as the e-graph has them: what is counted from an element cancels on purpose."""
    plan = _plan(plan)
    merged = _merged([plain(k.kernel) for k in plan.kernels])
    return [*_of_nodes(merged), *(h for k in plan.kernels for h in _of_operands(k.kernel))]


def hazards_of_size(plan: Any) -> list[Hazard]:
    """What overflows or vanishes in a plan for inputs of a size for which its program does neither: laws of the reals move factors, and
    no fact about values forbids it.  So the plan says it."""
    plan = _plan(plan)
    if plan.calls:  # what they compute is not known
        return []
    ours = _Facts(_merged([k.kernel for k in plan.kernels]))
    written = _Facts(_merged([kernel_from_program(plan.program, {}, anywhere=True)]))
    return [_of_size(ours, e) for e in escapes(ours, written)]


def _of_size(facts: _Facts, e: Escape) -> Hazard:
    sizes = " and ".join(f"{name} is around {2.0**power:.0e}" for name, power in e.sizes.items() if power)
    what = "overflow" if e.large else "lose digits or vanish"
    text = f"{_expression(facts, e.node)} may {what}, for instance where {sizes}, and the program does not"
    return Hazard("size", (1.0,), text, facts.nodes[e.node].rule)


def notes(plan: Plan) -> tuple[str, ...]:
    """What a plan says of them, with the way to avoid them."""
    cure = f"disable=[{MOVES_FACTORS!r}]" if any(MOVES_FACTORS in k.rules for k in plan.kernels) else 'licence="exact"'
    return tuple(f"{h.what}; {cure} keeps the program's order" for h in hazards_of_size(plan))


def in_order_for_nothing(plan: Plan) -> bool:
    """Whether the order of the program may cost nothing: what moved a factor saves no pass over memory, for rows are on chip."""
    moved = [k for k in plan.kernels if MOVES_FACTORS in k.rules]
    return bool(plan.notes and moved) and not any(k.passes for k in moved)


def no_dearer(plan: Plan, than: Plan) -> bool:
    """Whether a plan is as good as another one, as far as the model can tell."""
    return (
        len(plan.steps) <= len(than.steps)
        and plan.dram_bytes <= than.dram_bytes
        and plan.estimated_us <= than.estimated_us * TIE
        and sum(n for k in plan.kernels for n in k.passes.values()) <= sum(n for k in than.kernels for n in k.passes.values())
    )


def _plan(plan: Any) -> Plan:
    return plan if isinstance(plan, Plan) else plan.plan


def program_hazards(program: Program) -> list[Hazard]:
    """Every hazard of a program as it is written."""
    return _of_nodes(_merged([kernel_from_program(program, {}, anywhere=True)]))


def _merged(kernels: list[Kernel]) -> Kernel:
    """All kernels as one list of nodes, where a load of a temporary is the value that was stored."""
    nodes: list[Node] = []
    ids: dict[tuple[object, ...], int] = {}
    stored: dict[str, int] = {}
    for kernel in kernels:
        place: list[int] = []
        for n in kernel.nodes:
            if n.op == "load" and n.attrs[0] in stored:
                place.append(stored[n.attrs[0]])
                continue
            args = tuple(place[a] for a in n.args)
            if n.op == "map" and ops.op(n.attrs[0]).commutative:
                args = tuple(sorted(args))  # x + y and y + x are one value to the last bit
            attrs = n.attrs
            if n.op == "load":  # positions along an axis of length 1 are 0
                attrs = (n.attrs[0], tuple(e.substitute({a: index(0) for a in e.axes() if a.size == 1}) for e in n.attrs[1]), n.attrs[2])
            key = (n.op, attrs, args)
            if key not in ids:
                ids[key] = len(nodes)
                nodes.append(replace(n, args=args, attrs=attrs))
            place.append(ids[key])
        for r in kernel.roots:
            stored[r.buffer] = place[r.node]
    buffers = {name: b for k in kernels for name, b in k.buffers.items()}
    roles = {a: r for k in kernels for a, r in k.roles.items()}
    roots = tuple(replace(r, node=stored[r.buffer]) for k in kernels for r in k.roots if k.buffers[r.buffer].role == "output")
    return replace(kernels[0], nodes=tuple(nodes), roots=roots, buffers=buffers, roles=roles)


class _Facts(Facts):
    """The ranges that lowering uses, and what is known beside them of running references and of sums of exponentials; lengths are those
    of the plan, and what stands past the end of a part is nobody's."""

    @by_arguments
    def number(self, node: int) -> float | None:
        """A constant, the length of an axis, or a scalar function of such."""
        n = self.nodes[node]
        return float(n.attrs[0].size) if n.op == "extent" else super().number(node)

    def before(self, node: int) -> int:
        """As a bound: where a number stands for an infinity, nobody chooses what is made of it."""
        return self.guarded(node)

    def chosen(self, body: int) -> int:
        """x behind where(position < length, x, +-inf): what the last part of a split axis holds past the end is chosen by nobody."""
        n = self.nodes[body]
        if n.scalar == "where" and abs(self.number(n.args[2]) or 0.0) == INF:
            test = self.nodes[n.args[0]]
            if test.scalar == "lt" and [self.nodes[a].op for a in test.args] == ["index", "extent"]:
                return n.args[1]
        return body

    def _met(self, node: int, args: list[Interval], found: Interval, padded: bool) -> Interval:
        n = self.nodes[node]
        found = super()._met(node, args, found, padded)
        if n.op == "ref" and self.nodes[n.args[0]].op == "reduce" and self.nodes[n.args[0]].attrs[0] in ("max", "min"):
            return args[0].join(ZERO)  # where it is still empty a guard puts a harmless value
        return found.at_least(1.0) if n.reduction == "sum" and found.lo == 0 and self.has_one(n.args[0], n.attrs[1]) else found

    def chooses_one(self, choice: Node, along: Axis) -> bool:
        """A part without any element weighs 1 or 0."""
        weights = (Interval(1.0, 1.0), Interval(0.0, 0.0))
        found = [self.has_one(a, along) for a in choice.args[1:]]
        return any(found) and all(one or self.range(a) in weights for one, a in zip(found, choice.args[1:], strict=True))

    def _past(self, node: int) -> int:
        """What a value stands for where only its offset counts: behind references, choices between a number and a value, and products
        with the number of times that a row has an element."""
        n = self.nodes[node]
        if n.op == "ref":
            return n.args[0]
        few = [a for a in n.args if self._one_of(a) is None and not self._whether(a)] if n.scalar == "mul" else []
        rest = [a for a in n.args[1:] if self.nodes[a].op != "const"] if n.scalar == "where" else few if len(few) < len(n.args) else []
        return rest[0] if len(rest) == 1 else node

    def _whether(self, node: int) -> bool:
        """1 or 0, by a condition: whether a row has an element at a position."""
        n = self.nodes[node]
        return n.scalar == "where" and {self.number(a) for a in n.args[1:]} == {0.0, 1.0}

    def shift(self, node: int) -> bool:
        """c x - c R(x) stands here, for a reduction R of that very x, final or running; or two reductions of one value."""
        for p, q in (self.nodes[node].args, self.nodes[node].args[::-1]):
            for c, _, x in self.readings(p, self._past):
                for d, _, m in self.readings(q, self._past):
                    if c == -d and (x == m or (self._origins(x) | {x}) & self._origins(m)):
                        return True
            if any(self.selects(combine, q, p) for combine in SIGNS) or self._scaled_mean(q, p):
                return True
        return False

    def _scaled_mean(self, m: int, x: int) -> bool:
        """m = -(a mean(b)) or -(a sum(b)) with a b = x, factor by factor: a reduction of x with some factors taken out."""
        n = self.nodes[m]
        if n.scalar != "neg":
            return False
        outside = self.factors(n.args[0])
        for f in outside:
            r = self.nodes[f]
            if r.op == "reduce" and r.attrs[0] in ("mean", "sum"):
                rest = [g for g in outside if g != f]
                return sorted(rest + self.factors(r.args[0])) == sorted(self.factors(x))
        return False

    @by_arguments
    def _origins(self, m: int) -> frozenset[int]:
        """The values that a node is a selection or mean of, through references, guards and divisions by a count."""
        n = self.nodes[m]
        chosen = self._one_of(m)
        if chosen is not None:
            return frozenset((chosen,))
        if n.op == "ref" or n.scalar == "where" and self._past(m) != m:
            return self._origins(self._past(m))
        if n.op == "reduce":
            return frozenset((n.args[0], self.chosen(n.args[0]))) | self._origins(n.args[0])
        if n.scalar == "mul":
            return frozenset().union(*(self._origins(a) for a in n.args if not self._varies(n, a)))
        return frozenset()

    def _varies(self, product: Node, factor: int) -> bool:
        """Some other factor of a product is no number: it is not the factor scaled."""
        return any(a != factor and self.nodes[a].axes for a in product.args)

    @by_arguments
    def _one_of(self, node: int) -> int | None:
        """x, if a node is sum_j where(position == at, x, 0): at most one of its terms is not zero; or x is read there."""
        n = self.nodes[node]
        if n.op == "load" and n.attrs[2]:
            return next((k for k, o in enumerate(self.nodes) if o.op == "load" and o.attrs == (*n.attrs[:2], ())), None)
        if n.op != "reduce" or n.attrs[0] != "sum":
            return None
        body = self.nodes[n.args[0]]
        if body.scalar != "where":
            return self._one_of(n.args[0])
        test, zero = self.nodes[body.args[0]], self.nodes[body.args[2]]
        one = test.scalar == "eq" and any(self.nodes[a].op == "index" for a in test.args)
        return body.args[1] if one and zero.op == "const" and zero.attrs[0] == 0 else None


def _of_nodes(kernel: Kernel) -> list[Hazard]:
    """Hazards of the operations of a kernel."""
    facts = _Facts(kernel)
    degrees = _Degrees(facts)
    exact = _exact(facts)
    found = []
    for k, n in enumerate(facts.nodes):
        if n.op != "map" or facts.dtype(k) is not None and not facts.dtype(k).is_float:  # type: ignore[union-attr]
            continue
        o = ops.op(n.attrs[0])
        text = f"{o.name}({', '.join(_text(facts, a) for a in n.args)})"
        if is_free_exponential(facts, k):
            found.append(Hazard("overflow", (1.0,), text, n.rule))
        elif o.domain != "real":
            level = _beyond(o.domain, facts.range(n.args[0], finite_inputs=True))
            if level:
                found.append(Hazard("domain", (float(level),), text, n.rule))
        elif o.name == "add":
            x, y = (facts.range(a, finite_inputs=True) for a in n.args)
            same = (x.lo >= 0 and y.lo >= 0) or (x.hi <= 0 and y.hi <= 0)
            if not same and min(x.magnitude, y.magnitude) > MODEST and not facts.shift(k):
                rounded = sum(not exact[a] for a in n.args)
                worst = max(min(degrees.of(a, state) for a in n.args) for state in degrees.states(k))
                if worst > 0:
                    found.append(Hazard("cancellation", (worst, float(rounded)), text, n.rule))
    return found


def _beyond(domain: str, r: Interval) -> int:
    """0 inside the domain, 1 where its border may be reached, 2 beyond."""
    if domain == "nonneg":
        return 2 if r.lo < 0 else 0
    if domain == "positive":
        return 2 if r.lo < 0 else 1 if r.lo == 0 else 0
    return 2 if r.lo < 0 < r.hi else 1 if 0 in (r.lo, r.hi) else 0


POWERS: Mapping[str, float] = {"square": 2.0, "recip": -1.0, "rsqrt": -0.5, "sqrt": 0.5, "log": 0.0, "log1p": 0.0, "floor": 1.0}


class _Degrees:
    """How a node grows with the offset of the data: 0 for what is modest or shifted, 1 for a load; products add."""

    def __init__(self, facts: _Facts) -> None:
        self.facts = facts
        self.memo: dict[Any, Any] = {}
        self.depth = 0
        self.below = facts.below
        self.rolls: dict[int, list[int]] = {}  # node that mentions a state -> the rolls whose state it is
        for k, n in enumerate(facts.nodes):
            if n.op == "roll":
                stack = [n.args[1]]
                while stack:
                    x = stack.pop()
                    if facts.has_state(x) and k not in self.rolls.setdefault(x, []):
                        self.rolls[x].append(k)
                        stack.extend(facts.nodes[x].args)

    def states(self, node: int) -> list[float]:
        """The degrees that the state may have where a node stands: those of the bodies of its rolls."""
        return [self.of(self.facts.nodes[r].args[0], 0.0) for r in self.rolls.get(node, [])] or [0.0]

    def of(self, node: int, state: float) -> float:
        """The degree of a node."""
        return self._of(node, state if self.facts.has_state(node) else 0.0)

    @by_arguments
    def _of(self, node: int, state: float) -> float:
        n = self.facts.nodes[node]
        if n.op in ("const", "extent", "index") or self.facts.range(node, finite_inputs=True).magnitude <= MODEST:
            return 0.0
        if n.op == "load":
            return 1.0 if self.facts.kernel.buffers[n.attrs[0]].dtype.is_float else 0.0
        if n.op == "acc":
            return state
        of = [self.of(a, state) for a in n.args]
        if n.op == "map":
            name = n.attrs[0]
            if name == "add" and self.facts.shift(node):
                return 0.0
            if name == "mul":
                return max(sum(of), 0.0)
            return max(POWERS[name] * of[0], 0.0) if name in POWERS else max(of[1:] if name == "where" else of)
        return of[0]


def _exact(facts: Facts) -> list[bool]:
    """Whether a node is a number of the program that no operation has rounded."""
    found: list[bool] = []
    for n in facts.nodes:
        selects = n.op == "map" and ops.op(n.attrs[0]).selects
        selects |= n.op in ("reduce", "scan") and n.attrs[0] in ("max", "min")
        selects |= n.op in ("ref", "load", "const", "index", "extent")
        values = n.args[1:] if n.scalar == "where" else () if n.op == "load" else n.args
        found.append(selects and all(found[a] for a in values))
    return found


def _text(facts: Facts, node: int) -> str:
    """A node in a few words."""
    n = facts.nodes[node]
    name = str(n.attrs[0]) if n.op in ("load", "map", "const") else n.op if n.in_order is None else f"{n.attrs[0]}_{n.attrs[1].name}"
    r = facts.range(node, finite_inputs=True)
    return f"{name} in [{r.lo:.3g}, {r.hi:.3g}]"


def _expression(facts: Facts, node: int, depth: int = 3) -> str:
    """A node as a formula, down to a few operations."""
    n = facts.nodes[node]
    if n.args and not depth:
        return "..."
    args = [_expression(facts, a, depth - (n.op not in ("ref", "pre", "cast"))) for a in n.args]
    if n.op in ("ref", "pre", "cast"):
        return args[0]
    found = n.op if n.op in ("extent", "index") else nodes.text(n.op, n.attrs, args)
    return f"({found})" if n.op == "map" and ops.op(n.attrs[0]).infix else found


def _of_operands(kernel: Kernel) -> Iterable[Hazard]:
    """Float16 operands of matrix products that are computed here and may not fit."""
    try:
        lowering = Lowering(kernel, Facts(kernel))
    except PlanError:
        return
    for n in kernel.nodes:
        if n.reduction != "sum":
            continue
        found = dots.match(lowering, n.args[0], n.attrs[1])
        if found is None or not (found.how.rounded and found.how.dtype is dtypes.float16):
            continue
        for side in (found.a, found.b):
            size = dots.computed(lowering, side, dtypes.float16)
            if size.magnitude > dtypes.float16.largest:
                what = f"operand of sum_{n.attrs[1].name} in [{size.lo:.3g}, {size.hi:.3g}]"
                yield Hazard("operand", (1.0,), what, n.rule)
