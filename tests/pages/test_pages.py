"""Pages: nothing in them refers to anything else, whatever a program is called is text, and numbers are those of the plan."""

import json
from html.parser import HTMLParser

import pytest
import torch

import eqfuse
from eqfuse.pages import page, page_data
from eqfuse.pages.data import repeats
from eqfuse.pages.html import roofline

VOID = {"meta", "br", "hr", "img", "input", "link", "polyline"}


class Elements(HTMLParser):
    """Tags with their attributes, and whether each is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def compiled():
    def block(x, w, g):
        h = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g
        return x + torch.relu(h @ w)

    return eqfuse.optimize(block, (torch.empty(96, 64), torch.empty(64, 64), torch.empty(64)), target="h200")


def test_a_page_is_whole_and_refers_to_nothing(compiled):
    found = Elements(compiled.html())
    assert not found.open, "every element is closed"
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in found.tags}
    links = [v for _, attrs in found.tags for k, v in attrs.items() if k in ("href", "src", "action")]
    assert all(v.startswith("#") for v in links)
    assert set(links) <= {f"#{attrs['id']}" for _, attrs in found.tags if "id" in attrs}, "every link leads somewhere"
    steps = [attrs for tag, attrs in found.tags if tag == "article" and attrs.get("class", "").startswith("step ")]
    assert len(steps) == len(compiled.plan.steps)


def test_the_data_is_the_plan(compiled):
    data = json.loads(json.dumps(page_data([(compiled.plan, compiled.target)])))
    (graph,) = data["graphs"]
    plan = compiled.plan
    (part,) = graph["parts"]
    assert sum(op["bytes"] for op in part["written"]) == plan.baseline_bytes and len(part["written"]) == plan.baseline_kernels
    assert part["bytes"] == graph["bytes"] == plan.dram_bytes
    assert [s["name"] for s in part["steps"]] == [k.kernel.name for k in plan.kernels]
    last = part["steps"][-1]
    assert any(line.startswith("out = ") for line in last["equations"]) and "def " in last["source"]
    assert page(data, "a & b").count("a &amp; b") == 2


def test_names_are_text():
    hostile = "<script>alert(1)</script>"
    data = page_data([])
    assert hostile not in page(data, hostile)


def test_equal_regions_stand_once():
    def mlp(x, *weights):
        for w in weights:
            x = torch.relu(x @ w)
        return x

    args = [torch.empty(2048, 2048, dtype=torch.bfloat16, device="meta") for _ in range(18)]
    c = eqfuse.optimize(mlp, args, target="h200")
    (graph,) = page_data([(c.plan, c.target)])["graphs"]
    assert [p["often"] for p in graph["parts"]] == [17] and graph["order"] == [{"times": 17, "parts": [0]}]
    assert sum(p["bytes"] * p["often"] for p in graph["parts"]) == sum(k.cost.dram_bytes for k in c.plan.steps)


@pytest.mark.parametrize(
    ("order", "found"),
    [([], []), ([0, 1, 2], [(1, [0, 1, 2])]), ([0, 1, 2, 1, 2, 3], [(1, [0]), (2, [1, 2]), (1, [3])]), ([4, 4, 4], [(3, [4])]),
     ([0, 1, 1, 0, 1, 1], [(2, [0, 1, 1])])],
)  # fmt: skip
def test_what_repeats_is_counted(order, found):
    runs = repeats(order)
    assert [(r["times"], r["parts"]) for r in runs] == found
    assert [p for r in runs for p in r["parts"] * r["times"]] == order


def test_what_torch_runs_stands_where_it_runs():
    def f(x):
        return torch.sort(torch.softmax(x, -1), -1).values.exp() / 2

    c = eqfuse.optimize(f, (torch.randn(4, 8),), target="h200")
    found = Elements(c.html())
    boxes = [attrs["class"] for tag, attrs in found.tags if tag == "a" and attrs.get("class", "").startswith("box")]
    assert boxes == ["box piece", "box torch", "box piece"]
    text = c.html()
    assert "aten.sort" in text and "test_pages.py:" in text and c.plan.library[0].reason in text


def test_both_passes_and_what_is_saved():
    def f(x, w):
        return torch.softmax(x @ w, -1)

    args = (torch.randn(8, 16, requires_grad=True), torch.randn(16, 4, requires_grad=True))
    c = eqfuse.optimize(f, args, target="h200", training=True)
    text = c.html()
    assert text.count('<h2 id="graph') == 1 and "saved for the backward pass" in text
    assert all(f">{s.input.name}<" in text for s in c.saved)


def test_no_kernel_stands_over_the_roof():
    steps = [{"us": 1.0, "bytes": 1000.0, "operations": 1e6, "name": "a"}, {"us": 2.0, "bytes": 8.0, "operations": 2.0, "name": "b"}]
    chart = roofline(steps, {"bytes_per_us": 1e6, "operations_per_us": 1e6})
    assert float(chart["points"][0]["y"]) > float(chart["roof"].split()[1].split(",")[1]) - 1e-6, "at the peak"
    assert [p["number"] for p in chart["points"]] == [1, 2]
