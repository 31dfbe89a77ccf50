"""One language: terms, patterns, e-nodes and the engine's constructors are rows of one table, and two evaluators agree on it."""

import inspect

import numpy as np
import pytest

from eqfuse.egraph import saturate
from eqfuse.egraph.drawn import Drawn
from eqfuse.egraph.schema import CONSTRUCTORS
from eqfuse.ir import nodes, terms
from eqfuse.ir.dtypes import DType
from eqfuse.ir.index import Axis, IndexExpr
from eqfuse.ir.nodes import KINDS, REDUCTIONS, RUNNING
from eqfuse.ir.reference import evaluate_terms
from eqfuse.ir.semantics import Arrays
from eqfuse.rewrites import patterns
from eqfuse.testing.fuzz.grammar import draw_program

SORTS = {str: "String", float: "f64", Axis: "i64", IndexExpr: "i64", DType: "String"}


def subclasses(of):
    """Of EqFuse's own: other tests make some, which live until they are collected."""
    return {c for k in of.__subclasses__() for c in (k, *subclasses(k)) if c.__module__.startswith("eqfuse.")}


def test_the_engine_has_the_kinds_of_the_table():
    made = {name.lower().rstrip("12346"): columns for name, columns in CONSTRUCTORS.items() if name != "Input"}
    assert made.keys() == KINDS.keys() - {"load", "input"}
    for kind, columns in made.items():
        row = KINDS[kind]
        assert sorted(c for c in columns if c != "T") == sorted(SORTS[a] for a in row.attrs), kind
        assert row.args in (None, columns.count("T")), kind


def test_terms_and_patterns_have_the_kinds_of_the_table():
    assert {c.__name__.lower() for c in subclasses(terms.Term)} == KINDS.keys() - {"load", "merge", "roll", *RUNNING}
    written = {c for c in subclasses(patterns.Node) if c.sort == "T" and c.__name__.lower() in KINDS}
    assert {c.__name__.lower() for c in written} == KINDS.keys() - {"load", "input"}
    for c in written - {patterns.Map, patterns.Merge, patterns.Reduce, patterns.Scan, patterns.Acc}:
        row = KINDS[c.__name__.lower()]
        assert len(inspect.signature(c.__init__).parameters) - 1 == len(row.attrs) + row.args, c


def test_what_means_the_same_anywhere_has_a_meaning():
    context = {"input", "load", "roll", *RUNNING}  # what programs, kernels and loops say
    assert {k for k in KINDS if hasattr(Arrays, k)} == KINDS.keys() - context


@pytest.mark.parametrize(
    ("kind", "attrs", "below", "expected"),
    [
        ("reduce", ("sum", Axis("j", 4)), ["ij"], "i"),
        ("reduce", ("sum", Axis("k", 4)), ["ij"], "ij"),
        ("roll", ("sum", Axis("j", 4)), ["ij", "jk"], "ik"),
        ("view", (Axis("j", 4), IndexExpr(((Axis("k", 4), 1),))), ["ij"], "ik"),
        ("view", (Axis("j", 4), IndexExpr(((Axis("k", 4), 1),))), ["i"], "i"),  # free of the axis: nothing is read there
        ("pre", (Axis("j", 4),), ["ij"], "i"),
        ("ref", ("old", Axis("j", 4)), ["i"], "i"),
        ("map", ("add",), ["i", "j"], "ij"),
        ("index", (Axis("j", 4),), [], "j"),
        ("load", ("x", (IndexExpr(((Axis("i", 4), 2),)), IndexExpr()), ()), [], "i"),
        ("extent", (Axis("j", 4),), [], ""),
    ],
)
def test_axes(kind, attrs, below, expected):
    sets = [frozenset(Axis(a, 4) for a in names) for names in below]
    assert {a.name for a in nodes.axes(kind, attrs, sets)} == set(expected)


@pytest.mark.unaudited
def test_the_evaluator_of_graphs_agrees_with_the_oracle_of_programs():
    """The values of a program's classes are those of its terms, by the reference, which shares nothing with them but ops and monoids."""
    compared, kinds = 0, set()
    for seed in range(15):
        drawn = draw_program(seed)
        p = drawn.program
        graph = saturate(p, enable=False)
        of = Drawn(graph, seed, False, drawn.inputs, False)
        if any(of.extents[of.place[a]] != a.size for a in p.every_axis):
            continue  # an axis that no input has is as long as it is drawn
        roots = p.terms()
        for t, c, expected in zip(roots, graph.original, evaluate_terms(roots, drawn.inputs), strict=True):
            order = [of.place[a] for a in expected.axes]
            full = np.asarray(expected.array, float).reshape([n if k in order else 1 for k, n in enumerate(of.extents)])
            a, b = np.broadcast_arrays(of.values[c], full)
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=str(t))
            compared += a.size
            kinds.add(t.kind)
    assert compared > 100
    assert {"input", "const", "map", "reduce", "view", "index"} <= kinds
    assert set(REDUCTIONS) <= KINDS.keys()
