"""`eqfuse extract`, and e-graphs of our own in its format."""

import json

import pytest
import torch

import eqfuse
from eqfuse import cli
from eqfuse.cli.extraction import write_graph
from eqfuse.extract.interchange import interchange
from eqfuse.extract.targets import load_target
from eqfuse.extraction import Selection, choose, dot, graph_data, read_graph

# x and y are dearer with s than alone, and cheaper if both have it
GRAPH = {
    "nodes": {
        "r": {"op": "pair", "children": ["x1", "y1"], "eclass": "r", "cost": 0},
        "x1": {"op": "x", "eclass": "x", "cost": 5},
        "x2": {"op": "f", "children": ["s"], "eclass": "x", "cost": 0},
        "y1": {"op": "y", "eclass": "y", "cost": 5},
        "y2": {"op": "g", "children": ["s"], "eclass": "y", "cost": 0},
        "s": {"op": "s", "eclass": "s", "cost": 6},
    },
    "root_eclasses": ["r"],
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    return path


def run(capsys, *argv):
    code = cli.main([str(a) for a in argv])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_a_selection_is_printed_and_written(capsys, file, tmp_path):
    out, picture = tmp_path / "chosen.json", tmp_path / "graph.dot"
    code, text, _ = run(capsys, "extract", file, "--show", "--out", out, "--dot", picture)
    assert code == 0
    assert "DAG cost 6, tree cost 12; dag cost optimal" in text
    assert text.endswith("s = s()  # 6\ny = g(s)  # 0\nx = f(s)  # 0\nr = pair(x, y)  # 0\n")
    data = json.loads(out.read_text())
    assert (data["dag"], data["proof"], data["choices"]["x"]) == (6, "optimal", "x2")
    assert picture.read_text().startswith("digraph {")
    assert run(capsys, "extract", file, "--method", "greedy-dag")[1].count("not proved") == 1
    found = json.loads(run(capsys, "extract", file, "--method", "tree", "--root", "x", "--json")[1])
    assert (found["extractor"], found["tree"]) == ("tree", 5)


def test_what_is_there_is_not_replaced(capsys, file, tmp_path):
    out = tmp_path / "chosen.json"
    out.write_text("mine")
    code, _, err = run(capsys, "extract", file, "--out", out)
    assert code == 2 and "--overwrite" in err and out.read_text() == "mine"
    assert run(capsys, "extract", file, "--out", out, "--overwrite")[0] == 0
    assert run(capsys, "extract", file, "--out", tmp_path / "absent" / "x.json")[0] == 2


def test_errors_have_a_place_and_no_traceback(capsys, file, tmp_path):
    file.write_text(json.dumps({**GRAPH, "root_eclasses": []}))
    code, _, err = run(capsys, "extract", file)
    assert code == 1 and err.startswith("GraphError: graph.json: it has no root") and "try: " in err
    assert run(capsys, "extract", tmp_path / "none.json")[0] == 1
    assert run(capsys, "extract", file, "--root", "r", "--time-limit", "-1")[0] == 1


PROGRAM = """
def rows(x):
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)
"""


def test_an_e_graph_of_ours_is_written_read_and_extracted(capsys, tmp_path):
    program, out = tmp_path / "rows_program.py", tmp_path / "rows.json"
    program.write_text(PROGRAM)
    command = ("optimize", f"{program}:rows", "--shape", "x=48,96", "--graph", out)
    assert run(capsys, *command)[0] == 0
    assert run(capsys, *command)[0] == 2, "it is there"
    graph = read_graph(out)
    by_name = dict(zip(graph.names, graph.classes, strict=True))
    assert [m.op for m in by_name["weights"]][:1] == ["exp"]
    assert by_name["sum"][0].op == "reduce sum cols" and by_name["sum"][1].op == "roll sum cols"
    assert graph.types[graph.names.index("weights")] == "[rows, cols]"
    target = load_target("h200")
    assert by_name["sum"][0].cost == pytest.approx(48 * 96 / (target.simt_gops * 1e3))
    assert by_name["x"][0].cost == pytest.approx(48 * 96 * 4 / (target.dram_gb_s * 1e3))
    code, text, _ = run(capsys, "extract", out, "--show")
    assert code == 0 and "dag cost optimal" in text and "reduce sum cols(weights)" in text


def test_the_program_as_written_is_a_selection_of_its_graph(tmp_path):
    """And no cheaper than what is chosen: the format says of our graphs what they say."""
    x, w = torch.empty(64, 96), torch.empty(96, 32)
    c = eqfuse.optimize(lambda x, w: torch.softmax(x @ w, -1), (x, w), target="h200")
    graph = interchange(c.graph, load_target("h200"))
    assert graph_data(graph)["root_eclasses"] == ["out"]
    own = {k: [i for i, n in enumerate(ns) if n.rule is None] for k, ns in enumerate(c.graph.classes)}
    written = Selection(graph, {k: found[0] for k, found in own.items() if found})
    assert choose(graph, start=written).cost <= written.dag_cost
    write_graph(c, tmp_path / "g.dot", overwrite=False)
    assert (tmp_path / "g.dot").read_text() == dot(graph)
    assert "reduce sum" in dot(graph)
