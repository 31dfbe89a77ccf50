"""Every form of a scan is the scan: views and factors beside it, parts of its axis, equal and not."""

import numpy as np
import pytest

from eqfuse.egraph import saturate
from eqfuse.egraph.audit import audit
from eqfuse.ir import build as b
from eqfuse.ir.index import index
from eqfuse.ir.states import THREE
from eqfuse.ir.terms import Reduce, Scan, View


@pytest.mark.parametrize("monoid", ["sum", "max"])
@pytest.mark.parametrize(("length", "parts"), [(12, (3,)), (13, (4,)), (5, (5,)), (1, ())])
def test_parts_of_a_scanned_axis(length, parts, monoid):
    i, j = b.axes(i=2, j=length)
    x, y = b.tensor("x", i, j), b.tensor("y", i)
    t = Scan(monoid, j, b.exp(x - b.maximum_over(j, x)) * y)
    graph = saturate(b.program("p", o=(t, (i, j)), w=(b.sum_over(j, t), (i,))), splits={j: parts} if parts else {})
    assert audit(graph).numbers > 0
    assert audit(graph, masked=True).numbers > 0
    assert len(graph.facts["before"]) == len(parts)


@pytest.mark.parametrize("state", ["linear", "argmin", "logsumexp", THREE])
@pytest.mark.parametrize("length", [12, 13])
def test_parts_of_an_axis_of_states(length, state):
    """Beside a reduction of what is scanned, views along other axes, and the last state."""
    i, j, k = b.axes(i=2, j=length, k=2)
    values = (b.tensor("x", i, j), b.exp(b.tensor("y", i)), b.tensor("z", j))[: 3 if state == THREE else 2]
    t, u = (fold(f"{state}[1]", j, *values) for fold in (Scan, Reduce))
    graph = saturate(b.program("p", o=(View(t, i, index(k)), (k, j)), u=(u, (i,)), v=(View(t, j, length - 1), (i,))), splits={j: (3,)})
    assert audit(graph).numbers > 0
    assert audit(graph, masked=True).numbers > 0
    assert graph.roots["u"] == graph.roots["v"]
    made = {n.rule for nodes in graph.classes for n in nodes} - {None}
    assert {"view_beside_scan", f"split_scan_of_{'triples' if state == THREE else 'pairs'}"} <= made


def test_a_scan_is_read_under_other_names():
    i, j, k, m = b.axes(i=2, j=7, k=4, m=14)
    x = b.tensor("x", i, j)
    t = Scan("sum", j, x * 2.0)
    first, last, flat = View(t, j, index(k)), View(t, j, 6), View(View(t, j, index(m) % 7), i, index(m) // 7)
    graph = saturate(b.program("p", f=(first, (i, k)), l=(last, (i,)), g=(flat, (m,)), c=(Scan("sum", j, b.const(3.0)), (j,))))
    audit(graph)
    forms = {name: {(n.op, *n.attrs[:2]) for n in graph.classes[c]} for name, c in graph.roots.items()}

    def below(name):
        """The forms of a value, and of the factors of its products."""
        found = set(forms[name])
        for n in graph.classes[graph.roots[name]]:
            found |= {(m.op, *m.attrs[:2]) for a in n.args for m in graph.classes[a]}
        return found

    assert ("scan", "sum", k) in below("f"), "a prefix of a scan is a scan"
    assert ("reduce", "sum", j) in below("l"), "the last element is the sum"
    assert not any(form[0] == "scan" and form[2] == m for form in below("g")), "one that starts again is none"
    assert any(form[0] == "map" for form in forms["c"]), "multiples of a constant"


def test_the_reference_follows_arrays():
    """At any size: extents are those of the arrays."""
    from eqfuse.ir.reference import evaluate

    (j,) = b.axes(j=4)
    p = b.program("p", y=(b.running_sum(j, b.tensor("x", j)), (j,)))
    np.testing.assert_array_equal(evaluate(p, {"x": np.arange(6.0)})["y"], np.arange(6.0).cumsum())
