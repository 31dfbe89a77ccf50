"""Pages: nothing in them refers to anything else, whatever a program is called is text, and numbers are those of the plan."""

import json
from html.parser import HTMLParser

import pytest
import torch

import eqfuse
from eqfuse.pages import page, page_data
from eqfuse.pages.html import roofline

VOID = {"meta", "br", "hr", "img", "input", "link", "polyline", "circle"}


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
    steps = [attrs for tag, attrs in found.tags if tag == "div" and attrs.get("class", "").startswith("step ")]
    assert len(steps) == len(compiled.plan.steps)


def test_the_data_is_the_plan(compiled):
    data = json.loads(json.dumps(page_data([(compiled.plan, compiled.target)])))
    (graph,) = data["graphs"]
    plan = compiled.plan
    assert sum(op["bytes"] for op in graph["written"]) == plan.baseline_bytes and len(graph["written"]) == plan.baseline_kernels
    assert sum(s["bytes"] * s["often"] for s in graph["steps"]) == plan.dram_bytes
    assert [s["name"] for s in graph["steps"]] == [k.kernel.name for k in plan.kernels]
    last = graph["steps"][-1]
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
    assert [s["often"] for s in graph["steps"]] == [17] and len(c.plan.steps) == 17
    assert sum(s["bytes"] * s["often"] for s in graph["steps"]) == sum(k.cost.dram_bytes for k in c.plan.steps)


def test_no_kernel_stands_over_the_roof():
    steps = [{"us": 1.0, "bytes": 1000.0, "operations": 1e6, "name": "a"}, {"us": 2.0, "bytes": 8.0, "operations": 2.0, "name": "b"}]
    chart = roofline(steps, {"bytes_per_us": 1e6, "operations_per_us": 1e6})
    assert float(chart["points"][0]["y"]) > float(chart["roof"].split()[1].split(",")[1]) - 1e-6, "at the peak"
    assert [p["number"] for p in chart["points"]] == [1, 2]
