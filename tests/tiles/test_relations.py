"""The domain of intervals and the order of nodes contain what is computed: on random programs, and on running values step by step."""

import functools

import numpy as np
import pytest

from eqfuse.ir import dtypes
from eqfuse.ir.bounds import Intervals, bounds
from eqfuse.ir.index import Axis
from eqfuse.ir.ranges import Interval
from eqfuse.ir.reference import evaluate_terms
from eqfuse.ir.terms import postorder
from eqfuse.testing.fuzz.grammar import draw_program
from eqfuse.tiles.analysis import Facts
from eqfuse.tiles.direct import NodeBuilder, kernel_from_program
from eqfuse.tiles.kernel import Buffer, Kernel
from eqfuse.tiles.relations import Ranges

SEEDS = range(30)
ROUNDING = 1e-9


def outside(r, x):
    """Whether some number of an array is not in an interval, by more than float64 rounds."""
    x = np.asarray(x, float)
    with np.errstate(invalid="ignore"):
        return bool(np.any((x < r.lo - ROUNDING * abs(r.lo)) | (x > r.hi + ROUNDING * abs(r.hi))))


program_of = functools.cache(draw_program)


def data(drawn, seed, finite):
    """The inputs of a program, some of its floats replaced by the ends of their type."""
    rng = np.random.default_rng(seed)
    out = {}
    for i in drawn.program.inputs:
        x = np.array(drawn.inputs[i.name])
        if i.dtype.is_float:
            ends = (i.dtype.largest, -i.dtype.largest) if finite else (np.inf, -np.inf)
            x = np.where(rng.random(x.shape) < 0.2, rng.choice(ends, size=x.shape), x)
        out[i.name] = x
    return out


def values(seed, finite):
    """The terms of a program with the values that the reference gives them."""
    d = program_of(seed)
    terms = postorder(*(o.term for o in d.program.outputs))
    with np.errstate(all="ignore"):
        return d.program, zip(terms, evaluate_terms(tuple(terms), data(d, seed, finite)), strict=True)


@pytest.mark.parametrize("finite", [False, True], ids=["any", "finite"])
def test_ranges_contain_the_values_of_random_programs(finite):
    told = 0
    for seed in SEEDS:
        program, known = values(seed, finite)
        build, found, plain = NodeBuilder(), {}, kernel_from_program(program, {})
        nodes = [(t, build.term(t), v.array) for t, v in known]
        facts = Facts(Kernel("p", tuple(build.nodes), (), plain.buffers, {}, (), ()))
        for t, node, x in nodes:
            r = facts.range(node, finite_inputs=finite)
            assert not outside(r, x), (seed, t, r)
            if not finite:
                assert not outside(bounds(t, found), x), (seed, t, bounds(t, found))
            told += r != Interval()
    assert told > 100, "most ranges say nothing"


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Intervals, "reduce", lambda self, monoid, axis, x: x),  # a sum is not between its elements
        (Intervals, "cast", lambda self, to, x: x.at_least(0.0)),  # only unsigned ones
        (Intervals, "input", lambda self, dtype: Interval(0.0, dtype.largest)),
        (Ranges, "order", lambda self, node: -1),
    ],
)
def test_a_domain_that_leaves_values_out_is_found(monkeypatch, owner, name, broken):
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError):
        test_ranges_contain_the_values_of_random_programs(finite=False)


# running values ---------------------------------------------------------------------------------------------------------------------

I, J = Axis("i", 3), Axis("j", 5)
DRAWS = 8


class Steps:
    """Values over the rows and the steps of a loop over j, each as a node and as what it is there: element ``[.., i, t]`` in step t."""

    def __init__(self, x, y):
        self.build = NodeBuilder()
        self.names, self.known = {}, {}
        x = self.add("x", self.build.load("x", I, J), x)
        y = self.add("y", self.build.load("y", I, J), y)
        self.add("x + y", self.build.map("add", x, y), self.known[x] + self.known[y])
        for monoid, name in (("max", "x"), ("min", "x"), ("max", "x + y")):
            self.reductions(f"{monoid} {name}", monoid, self.names[name])

    def add(self, name, node, value):
        self.names[name] = node
        self.known[node] = np.broadcast_to(value, (DRAWS, I.size, J.size))
        return node

    def reductions(self, name, monoid, body):
        """A reduction over j, then over i: final, with and before the present step; guarded; with another value added."""
        combine, start = {"max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}[monoid]
        steps = combine.accumulate(self.known[body], axis=2)
        rows = self.build.reduce(monoid, J, body)
        whole = self.build.reduce(monoid, I, rows)
        for label, node, new in ((name, rows, steps), (f"all {name}", whole, combine.reduce(steps, axis=1, keepdims=True))):
            old = np.concatenate([np.full_like(new[..., :1], start), new[..., :-1]], axis=2)
            for when, value in (("", new[..., -1:]), ("new", new), ("old", old)):
                at = self.add(f"{when} {label}", self.build.ref(when, J, node) if when else node, value)
                test = self.build.map("eq", at, self.build.const(start))
                self.add(
                    f"safe {when} {label}", self.build.map("where", test, self.build.const(2.5), at), np.where(value == start, 2.5, value)
                )
        late = self.build.map("gt", self.build.const(0.0), rows)
        self.add(f"positive {name}", self.build.map("where", late, self.build.const(0.0), rows), np.maximum(0.0, steps[..., -1:]))
        least = self.build.map("add", rows, self.names["y"])
        self.add(f"{name} + y", least, steps[..., -1:] + self.known[self.names["y"]])

    def wrong(self):
        """Differences whose order is not what it is said to be, and how many are ordered."""
        pairs = []
        for factor in (1.0, -0.5):
            scaled = {name: self.build.map("mul", n, self.build.const(factor)) for name, n in self.names.items()}
            negated = {name: self.build.map("neg", n) for name, n in scaled.items()}
            pairs += [
                (f"{factor} ({a} - {b})", self.build.map("add", scaled[a], negated[b]), factor * (self.known[m] - self.known[n]))
                for a, m in self.names.items()
                for b, n in self.names.items()
                if a != b
            ]
        buffers = {name: Buffer(name, dtypes.float32, (I.size, J.size)) for name in "xy"}
        facts = Facts(Kernel("k", tuple(self.build.nodes), (), buffers, {}, (), ()))
        signs = [(name, facts.order(node), x) for name, node, x in pairs]
        return {name for name, sign, x in signs if np.any(sign * x < 0)}, {name for name, sign, _ in signs if sign}


def all_wrong():
    """Of data with -inf in half of the draws and inf in the others, and a row with nothing else."""
    rng = np.random.default_rng(0)
    x, y = np.round(rng.standard_normal((2, DRAWS, I.size, J.size)) * 2)
    holes = rng.random(x.shape) < 0.3
    holes[:, 0] = True
    x = np.where(holes, np.where(np.arange(DRAWS) % 2, np.inf, -np.inf)[:, None, None], x)
    with np.errstate(invalid="ignore"):
        return Steps(x, y).wrong()


def test_the_order_of_running_values_is_true():
    wrong, ordered = all_wrong()
    assert not wrong
    assert {
        "1.0 (x -  max x)", "-0.5 (x -  max x)", "1.0 (x -  min x)", "1.0 (x - new max x)", "1.0 (x - safe  max x)",
        "1.0 (old max x - new max x)", "1.0 (x - new all max x)", "1.0 (x + y - max x + y)",
    } <= ordered  # fmt: skip


def always(self, combine, m, then, x, when):
    return self.selects(combine, m, x) or x == m


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("_bounds", always),
        ("guarded", lambda self, node: self.nodes[node].args[-1] if self.nodes[node].scalar == "where" else node),
        ("is_reduction", lambda self, combine, node: self.nodes[node].op == "reduce"),
    ],
)
def test_a_wrong_order_is_found(monkeypatch, name, broken):
    monkeypatch.setattr(Ranges, name, broken)
    assert all_wrong()[0]
