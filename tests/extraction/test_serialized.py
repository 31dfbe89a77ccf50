"""Files: what is written is read again, what is wrong is said with its place, and pictures."""

import json
import math
import random

import pytest
from brute import draw

from eqfuse.errors import GraphError
from eqfuse.extraction import Graph, Member, choose, dot, graph_data, read_graph, selection_data

SMALL = {
    "nodes": {
        "a0": {"op": "*", "children": ["x0", "two"], "eclass": "a", "cost": 4},
        "a1": {"op": "<<", "children": ["x0", "one"], "eclass": "a", "cost": 1.5},
        "x0": {"op": "x", "eclass": "x"},
        "two": {"op": "2", "eclass": "2", "cost": 0.0},
        "one": {"op": "1", "eclass": "1", "cost": 0.0, "subsumed": True},
        "one'": {"op": "2 - 1", "children": ["two", "one"], "eclass": "1", "cost": 1},
    },
    "root_eclasses": ["a"],
    "class_data": {"a": {"type": "int"}, "x": {"extra": "?"}},
}


def write(tmp_path, data):
    path = tmp_path / "g.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def changed(**fields):
    """SMALL with other fields: of the node a1 if they are a node's."""
    data = json.loads(json.dumps(SMALL))
    for key, value in fields.items():
        place = data if key in ("nodes", "root_eclasses", "class_data") else data["nodes"]["a1"]
        if value is ...:
            del place[key]
        else:
            place[key] = value
    return data


def test_a_file_is_read(tmp_path):
    g = read_graph(write(tmp_path, SMALL))
    assert g.names == ("a", "x", "2", "1")
    assert g.types == ("int", "", "", "")
    assert g.classes[0][1] == Member("<<", (1, 3), 1.5, "a1")
    assert g.classes[1] == (Member("x", (), 1.0, "x0"),)
    assert g.classes[3][0].cost == math.inf
    assert choose(g).cost == 5, "the node that would save is subsumed, and the other needs itself"
    assert read_graph(write(tmp_path, SMALL), roots=["x", "2"]).roots == (1, 2)


def test_what_is_written_is_read_again(tmp_path):
    for seed in range(60):
        g = draw(random.Random(seed))
        again = read_graph(write(tmp_path, graph_data(g)))
        assert again.roots == g.roots and again.names == g.names
        plain = [[(m.op, m.children, m.cost) for m in ms] for ms in g.classes]
        assert [[(m.op, m.children, m.cost) for m in ms] for ms in again.classes] == plain
        assert read_graph(write(tmp_path, graph_data(again))) == again


def test_a_selection_has_the_fields_of_the_collection(tmp_path):
    g = read_graph(write(tmp_path, SMALL))
    data = json.loads(json.dumps(selection_data(choose(g), "g.json"), allow_nan=False))
    assert {k: data[k] for k in ("name", "extractor", "tree", "dag")} == {"name": "g.json", "extractor": "exact", "tree": 5, "dag": 5}
    assert (data["proof"], data["bound"], data["gap"]) == ("optimal", 5, 0)
    assert data["choices"] == {"x": "x0", "2": "two", "a": "a0"}
    assert list(data["choices"])[-1] == "a"


def test_infinite_tree_costs_are_null():
    n = 1100
    g = Graph((*((Member("+", (k + 1, k + 1), 1.0),) for k in range(n)), (Member("x"),)), (0,))
    assert selection_data(choose(g))["tree"] is None
    assert json.dumps(selection_data(choose(g, method="tree")), allow_nan=False)


TWICE = '{"nodes": {"a": {"op": "x", "eclass": "a"}, "a": {"op": "y", "eclass": "a"}}, "root_eclasses": ["a"]}'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{", "g.json: no JSON: Expecting"),
        ("[" * 100_000, "no JSON"),
        ("[]", r"it is \[\]"),
        ({}, "the field 'nodes' is missing"),
        (changed(nodes=[]), r"the field 'nodes' is \[\]"),
        (changed(eclass=...), "g.json: node a1: the field 'eclass' is missing"),
        (changed(op=...), "node a1: the field 'op' is missing"),
        (changed(op=3), "node a1: the field 'op' is 3"),
        (changed(children="x0"), "node a1: the field 'children' is 'x0'"),
        (changed(children=["x0", 7]), "node a1: the field 'children' has 7"),
        (changed(children=["x"]), r"node a1: its child 'x' is no node\n  try: .*not of classes"),
        (changed(cost=-1), "node a1: the field 'cost' is -1"),
        (changed(cost=math.nan), "node a1: the field 'cost' is nan"),
        (changed(cost=math.inf), "node a1: the field 'cost' is inf"),
        (changed(cost="3"), "node a1: the field 'cost' is '3'"),
        (changed(cost=True), "node a1: the field 'cost' is True"),
        (changed(subsumed=1), "node a1: the field 'subsumed' is 1"),
        (changed(root_eclasses=[]), "it has no root(.|\n)*--root"),
        (changed(root_eclasses=...), "it has no root"),
        (changed(root_eclasses=["a0"]), r"the root 'a0' is no class of a node\n  try: .*not of nodes"),
        (changed(nodes={"a": 3}), "node a: it is 3"),
        (TWICE, "the name 'a' stands twice"),
    ],
)
def test_what_is_no_e_graph(tmp_path, data, says):
    with pytest.raises(GraphError, match=says) as info:
        read_graph(write(tmp_path, data))
    assert info.value.cure and "g.json" in str(info.value)


def test_files_that_are_not_there_or_too_large(tmp_path):
    with pytest.raises(GraphError, match="cannot be read: No such file"):
        read_graph(tmp_path / "absent.json")
    with pytest.raises(GraphError, match="cannot be read: Is a directory"):
        read_graph(tmp_path)
    with pytest.raises(GraphError, match=r"the file has .* bytes; files of at most 100 are read"):
        read_graph(write(tmp_path, SMALL), largest=100)
    (tmp_path / "g.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(GraphError, match="no JSON"):
        read_graph(tmp_path / "g.json")


def test_what_no_file_can_hold():
    with pytest.raises(GraphError, match="the class 1, has no members"):
        graph_data(Graph(((Member("f", (1,)), Member("x")), ()), (0,)))
    with pytest.raises(GraphError, match="the same name"):
        graph_data(Graph(((Member("f", name="n"), Member("g", name="n")),), (0,)))


def test_a_picture(tmp_path):
    g = read_graph(write(tmp_path, SMALL))
    plain, chosen = dot(g), dot(g, choose(g).selection)
    assert plain.count("subgraph cluster_") == 4
    assert plain.count(" -> ") == 6
    assert '"<<  1.5"' in plain and '"a: int"' in plain and '"1  barred"' in plain
    assert "penwidth=2.5" not in plain
    assert chosen.count("penwidth=2.5") == 3 + 2  # a0, x0 and two; the two edges of a0
    assert dot(Graph(((Member('say "x"\\'), Member("f", (0,))),), (0,))).count("lhead") == 0  # an edge into its own box
