"""The engine is used again and again: what it says of a program is checked against the program."""

from dataclasses import replace

import torch

from eqfuse.egraph import run, saturate
from eqfuse.frontends import trace
from eqfuse.rewrites import registry


def chain(x, y, z):
    c = torch.where(z > 0, ((x * y + z) / (y.abs() + 0.3) - x * 0.7) / 3.0, 1.0 / (x * x + 0.1))
    return torch.maximum(c, -z) * x - torch.clamp(y, -1.0, 1.0) / x + torch.floor(z * 0.3)


def test_an_engine_that_is_used_again_gives_the_same_graph():
    """Once, the second saturation by one engine had y / x as x / x, in a graph without a contradiction."""
    program = trace(chain, (torch.randn(33, 70), torch.randn(33, 70), torch.randn(70)), exact=True).program
    rules = registry.active("exact")
    first, *others = (saturate(program, rules=rules) for _ in range(4))
    assert all(run.holds_program(g) and g.classes == first.classes for g in others)


def test_a_graph_that_lacks_an_operation_is_noticed():
    program = trace(lambda x, y: torch.exp(x) - y, (torch.randn(5), torch.randn(5))).program
    graph = saturate(program)
    assert run.holds_program(graph)
    at = next(c for c, row in enumerate(graph.classes) if any(n.attrs == ("exp",) for n in row))
    y = next(c for c, row in enumerate(graph.classes) if any(n.attrs == ("y",) for n in row))
    wrong = tuple(replace(n, args=(y,)) if n.attrs == ("exp",) else n for n in graph.classes[at])
    assert not run.holds_program(replace(graph, classes=(*graph.classes[:at], wrong, *graph.classes[at + 1 :])))


def test_a_constant_that_is_no_number_is_there():
    program = trace(lambda x: torch.where(x > 0, x, float("nan")) * float("inf"), (torch.randn(5),)).program
    assert run.holds_program(saturate(program))
