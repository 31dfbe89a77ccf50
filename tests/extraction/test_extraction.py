"""Extractors against every selection of small graphs; what separates them; what every selection is."""

import itertools
import math
import random
import time

import pytest
from brute import draw, optimum
from hypothesis import given, settings
from hypothesis import strategies as st

from eqfuse.errors import GraphError, OptionError
from eqfuse.extraction import METHODS, Graph, Member, Selection, choose
from eqfuse.extraction import exact as integer_program
from eqfuse.extraction.graph import components
from eqfuse.extraction.greedy import without_cycles
from eqfuse.extraction.reduction import Problem, derivable, reduce


def graph(roots, **classes):
    """Classes by name, each a list of (cost, names of children)."""
    number = {name: k for k, name in enumerate(classes)}
    made = [[Member(name, tuple(number[d] for d in ds), cost) for cost, ds in ms] for name, ms in classes.items()]
    return Graph(tuple(map(tuple, made)), tuple(number[r] for r in roots), tuple(classes))


# ---- against enumeration ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(4))
def test_every_method_against_enumeration(seed):
    """Two thousand graphs: exact is optimal, tree is for its own cost, greedy is no better than possible; and they agree on what has none."""
    none = fooled = 0
    for k in range(500):
        g = draw(random.Random(1000 * seed + k))
        best = optimum(g)
        if best is None:
            none += 1
            for method in METHODS:
                with pytest.raises(GraphError, match="nothing can be chosen for the root"):
                    choose(g, method=method)
            continue
        tree, greedy, exact = (choose(g, method=m) for m in METHODS)
        assert exact.cost == pytest.approx(best, abs=1e-9)
        assert (exact.proof, exact.gap) == ("optimal", 0.0) or exact.gap < 1e-6
        assert best <= greedy.cost + 1e-9 and greedy.cost <= tree.selection.dag_cost + 1e-9
        assert tree.cost == pytest.approx(optimum(g, "tree_cost"), abs=1e-9)
        fooled += greedy.cost > best + 1e-9
    assert none > 50 and fooled > 3


@pytest.mark.parametrize("relaxed", [True, False])
def test_the_integer_program_alone(monkeypatch, relaxed):
    """Without the reductions, which leave nothing of most small graphs, and without the relaxation: cycles are left to the rows."""
    calls = dict.fromkeys(("branch", "forbid"), 0)
    for name in calls:
        plain = getattr(integer_program._Search, name)

        def counted(self, *args, plain=plain, name=name):
            calls[name] += 1
            return plain(self, *args)

        monkeypatch.setattr(integer_program._Search, name, counted)
    if not relaxed:
        monkeypatch.setattr(integer_program._Search, "relax", lambda self: None)
    compared = 0
    for seed in range(150):
        g = draw(random.Random(seed), classes=9, members=4, arity=2)
        best = optimum(g)
        if best is None:
            continue
        p = Problem.of(g)
        derivable(p)
        found = integer_program._Search(p, time.monotonic() + 60).run()
        assert found.cost == pytest.approx(best, abs=1e-9)
        assert found.bound == pytest.approx(best, rel=1e-5, abs=1e-9)
        compared += 1
    assert compared > 70
    assert calls["forbid"] > 20
    assert relaxed or calls["branch"] > compared / 2


def test_reductions_alone_keep_an_optimal_selection():
    """What is left, with what was decided, has a selection as good as the best; by enumeration of what is left."""
    for seed in range(300):
        g = draw(random.Random(seed), classes=7)
        best = optimum(g)
        if best is None:
            continue
        p = Problem.of(g)
        assert reduce(p, best, time.monotonic() + 60), "an upper bound that is the optimum excludes nothing"
        left = Graph(tuple(tuple(Member("", p.children[n], p.cost[n]) for n in ns) for ns in p.members), tuple(sorted(p.wanted)) or (0,))
        assert p.paid + (optimum(left) if p.wanted else 0) == pytest.approx(best, abs=1e-9)


# ---- what separates them ---------------------------------------------------------------------------------------------------------
# tree: a is dearer than b alone, but is there anyway
SHARED = {"root": [(0, ["x", "y"])], "x": [(1, ["a"]), (0, ["b"])], "y": [(0, ["a"])], "a": [(10, [])], "b": [(9, [])]}
# greedy: neither x nor y gains by s alone, both together do
TOGETHER = {"root": [(0, ["x", "y"])], "x": [(5, []), (0, ["s"])], "y": [(5, []), (0, ["s"])], "s": [(6, [])]}


def costs(g):
    return [choose(g, method=m).selection.dag_cost for m in METHODS]


def test_sharing_that_tree_does_not_see():
    g = graph(["root"], root=[(0, ["x", "y"])], x=[(0, ["s", "s"]), (7, [])], y=[(0, ["s"])], s=[(4, [])])
    assert costs(g) == [11, 4, 4]


def test_sharing_across_classes_that_greedy_does_not_see():
    assert costs(graph(["root"], **TOGETHER)) == [10, 10, 6]
    assert costs(graph(["root"], **SHARED)) == [19, 19, 11]


def test_the_gap_of_greedy_grows_without_bound():
    """n users of one dear class: greedy pays n times."""
    n = 50
    users = {f"x{k}": [(5, []), (0, ["s"])] for k in range(n)}
    assert costs(graph(["root"], root=[(0, [*users])], s=[(6, [])], **users)) == [5 * n, 5 * n, 6]


def test_the_cheapest_is_a_cycle():
    g = graph(["a"], a=[(0, ["b"]), (9, [])], b=[(0, ["c"]), (8, [])], c=[(0, ["a"]), (7, [])])
    assert costs(g) == [7, 7, 7]


def test_a_cycle_that_only_the_integer_program_meets():
    """Two classes that are both needed, each cheap given the other: one of them must be had for itself."""
    g = graph(["r"], r=[(0, ["a", "b"])], a=[(0, ["b"]), (9, [])], b=[(0, ["a"]), (8, [])])
    p = Problem.of(g)
    found = integer_program._Search(p, time.monotonic() + 60).run()
    assert found.cost == 8 == costs(g)[2]


def test_choices_of_the_greedy_estimates_that_form_a_cycle_are_mended():
    """Nodes 0: a <- b, 1: b <- a, 2: a alone, 3: b alone; as if the estimates had chosen both of the first."""
    found = without_cycles({0: 0, 1: 1}, [1.0, 1.0], [(1,), (0,), (), ()], [0, 1, 0, 1], [1, 1, 5, 4])
    assert found == {1: 3, 0: 0}


# ---- at size ---------------------------------------------------------------------------------------------------------------------
def test_chains_are_no_recursion_and_no_product_of_paths():
    """A thousand doublings: 2**1000 paths, a tree cost beyond floats, one class each."""
    n = 1100
    g = Graph((*((Member("+", (k + 1, k + 1), 1.0),) for k in range(n)), (Member("x"),)), (0,))
    for method in METHODS:
        found = choose(g, method=method)
        assert found.selection.dag_cost == n + 1
        assert found.selection.tree_cost == math.inf


def test_the_time_limit_ends_the_search_and_the_gap_is_said():
    """A covering of a random set system, which no reduction decides."""
    r = random.Random(0)
    sets, elements = 90, 130
    covers = [tuple((Member("in", (elements + s,), 0.0)) for s in r.sample(range(sets), 9)) for _ in range(elements)]
    chosen = [(Member("set", (), 1.0 + r.random()),) for _ in range(sets)]
    g = Graph((*covers, *chosen, (Member("all", tuple(range(elements)), 0.0),)), (elements + sets,))
    greedy = choose(g, method="greedy-dag")
    for limit in (1.0, 4.0, 16.0):  # a busy machine has not solved the first relaxation after one second
        began = time.monotonic()
        found = choose(g, time_limit=limit)
        assert time.monotonic() - began < limit + 3
        assert 0 <= found.bound < found.cost <= greedy.cost
        assert found.proof == ("gap" if found.bound > 0 else "none") and 0 < found.gap <= 1
        if found.gap < 0.6 and found.cost < greedy.cost:
            break
    else:
        raise AssertionError(f"no better than greedy after {limit} s: {found}")
    assert (greedy.proof, greedy.gap) == ("none", 1.0)


def test_the_search_may_end_anywhere(monkeypatch):
    """Wherever the time ends, what is left has the same optimum or is given up: the selection is valid, the bound true."""
    early = 0
    for k in range(300):
        g = draw(random.Random(k), classes=14)
        if (best := optimum(g)) is None:
            continue
        clock = itertools.count()
        with monkeypatch.context() as at:
            at.setattr(time, "monotonic", lambda clock=clock: float(next(clock)))
            found = choose(g, time_limit=1 + k % 23)
        assert found.bound - 1e-9 <= best <= found.cost + 1e-9
        early += found.proof != "optimal"
    assert early > 20


# ---- the interface ---------------------------------------------------------------------------------------------------------------
@given(st.integers(0, 10**9), st.sampled_from(list(METHODS)))
@settings(max_examples=60, deadline=None)
def test_every_selection_is_valid_and_costs_what_it_says(seed, method):
    """By the definition, written once more; and the same again for the same graph."""
    g = draw(random.Random(seed), classes=14)
    try:
        found = choose(g, method=method)
    except GraphError:
        return
    s = found.selection
    assert set(g.roots) <= set(s.choice) == set(s.order)
    done = set()
    for c in s.order:  # children first: there is no cycle
        assert set(s.member(c).children) <= done
        done.add(c)
    used = {d for c in s.order for d in s.member(c).children} | set(g.roots)
    assert used == set(s.choice), "nothing is chosen that is not needed"
    assert s.dag_cost == pytest.approx(sum(g.classes[c][k].cost for c, k in s.choice.items()))

    def tree(c):
        return s.member(c).cost + sum(map(tree, s.member(c).children))

    assert s.tree_cost == pytest.approx(sum(map(tree, g.roots)))
    assert found.bound <= found.cost * (1 + 1e-9)
    assert choose(g, method=method).selection == s


def test_costs_roots_and_start_are_given_in_memory():
    g = graph(["root"], **TOGETHER)
    x, y, s = (g.names.index(n) for n in "xys")
    assert choose(g, roots=[x]).cost == 5
    assert choose(g, costs=lambda c, k: 0 if c == s else 1).cost == 3
    barred = choose(g, costs=lambda c, k: math.inf if c == s else g.classes[c][k].cost)
    assert barred.cost == 10
    start = {g.names.index("root"): 0, x: 1, y: 1, s: 0}
    assert choose(g, method="greedy-dag", start=start).cost == 6, "never dearer than the start"
    assert choose(g, start=Selection(g, start)).cost == 6


def test_a_graph_of_any_objects():
    terms = [[("mul", (1, 2)), ("shift", (1,))], [("x", ())], [("two", ())]]
    g = Graph.of(terms, [0], children=lambda t: t[1], cost=lambda t: {"mul": 3, "shift": 1}.get(t[0], 0), op=lambda t: t[0])
    assert str(choose(g).selection) == "1 = x()  # 0\n0 = shift(1)  # 1"


def test_components_come_children_first():
    assert components([[1], [2, 3], [1], [], [0]]) == [[3], [1, 2], [0], [4]]


A = Member("a")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Graph(((A,),), ()), "no root"),
        (lambda: Graph(((A,),), (1,)), "the root 1 is no class; there are 1"),
        (lambda: Graph(((Member("f", (3,)),),), (0,)), r"class 0, member 0 \('f'\): its child 3 is no class"),
        (lambda: Graph(((Member("f", (), -1.0),),), (0,)), "its cost is -1.0"),
        (lambda: Graph(((Member("f", (), math.nan),),), (0,)), "its cost is nan"),
        (
            lambda: choose(Graph(((Member("f", (0,)),),), (0,))),
            "nothing can be chosen for the root 0: every way to it needs the class itself",
        ),
        (lambda: choose(Graph(((Member("f", (1,)),), ()), (0,))), "nothing can be chosen"),
        (lambda: choose(Graph(((Member("f", (), math.inf),),), (0,))), "nothing can be chosen"),
        (lambda: Selection(Graph(((Member("f", (1,)),), (A,)), (0,)), {0: 0}), "nothing is chosen for the class 1"),
        (lambda: Selection(Graph(((Member("f", (0,)),),), (0,)), {0: 0}), "the class 0 needs itself"),
        (lambda: choose(Graph(((A,),), (0,)), costs=lambda c, k: -3), "its cost is -3"),
        (lambda: choose(Graph(((A,),), (0,)), costs=lambda c, k: "dear"), "its cost is 'dear'"),
        (lambda: choose(Graph(((A,),), (0,)), roots=3), "no e-graph: 'int' object is not iterable"),
        (lambda: choose(Graph(((A,),), (0,)), roots=["a"]), "the root 'a' is no class"),
        (lambda: Graph(3, (0,)), "no e-graph"),
        (lambda: Graph(((("f", ()),),), (0,)), "member 0 of class 0 is"),
        (lambda: Graph(((A,),), (0,), ("a", "b")), "2 names for 1 classes"),
    ],
)
def test_what_is_no_graph_or_no_selection(make, says):
    with pytest.raises(GraphError, match=says) as info:
        make()
    assert info.value.cure


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "magic"}, "method is 'magic'\n  try: one of tree, greedy-dag, exact"),
        ({"time_limit": 0}, "time_limit is 0"),
        ({"time_limit": math.nan}, "time_limit is nan"),
        ({"costs": 3}, "costs is 3"),
        ({"start": 3}, "start is 3"),
        ({"start": {0: 0}, "costs": lambda c, k: math.inf if k == 0 else 1}, "start chooses a member that may not be chosen"),
    ],
)
def test_what_is_no_option(options, says):
    with pytest.raises(OptionError, match=says):
        choose(Graph(((A, A),), (0,)), **options)


def test_graphs_that_are_too_large_for_sets_of_classes(monkeypatch):
    monkeypatch.setattr("eqfuse.extraction.methods.LARGEST", 3)
    g = Graph(((A,),) * 4, (0,))
    assert choose(g, method="tree").cost == 1
    with pytest.raises(OptionError, match=r'the graph has 4 classes(.|\n)*try: method="tree"'):
        choose(g)


def test_without_the_solver_there_is_a_cure(monkeypatch):
    """And what the reductions decide needs none."""
    import sys

    monkeypatch.setitem(sys.modules, "highspy", None)
    r = random.Random(1)
    sets = [(Member("set", (), 1.0 + r.random()),) for _ in range(12)]
    covers = [tuple(Member("in", (s,), 0.0) for s in r.sample(range(12), 4)) for _ in range(14)]
    g = Graph((*sets, *covers, (Member("all", tuple(range(12, 26)), 0.0),)), (26,))
    with pytest.raises(OptionError, match=r"needs the solver highspy(.|\n)*try: pip install highspy"):
        choose(g)
    assert choose(g, method="greedy-dag").cost > 0
    assert choose(graph(["a"], a=[(0, ["b"]), (9, [])], b=[(1, [])])).cost == 1
