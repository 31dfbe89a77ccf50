"""Facts about fusion are obeyed: two values that must not share a kernel do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqfuse.egraph import saturate
from eqfuse.extract import extract
from eqfuse.extract.targets import load_target
from eqfuse.ir import reference
from eqfuse.ir.build import axes, exp, maximum_over, program, sum_over, tensor
from eqfuse.tiles.simulate import simulate


def test_forbidden_values_are_in_different_kernels():
    i, j = axes(i=64, j=300)
    x = tensor("x", i, j)
    top = maximum_over(j, x)
    p = program("rows", y=(sum_over(j, exp(x - top)), (i,)))
    graph = saturate(p)
    free = extract(graph, load_target("h200"))
    assert len(free.kernels) == 1
    maximum = next(c for t, c in zip(p.terms(), graph.original, strict=True) if t is top)
    facts = {**graph.facts, "fuse": (*graph.facts.get("fuse", ()), ("forbid", graph.roots["y"], maximum))}
    plan = extract(replace(graph, facts=facts), load_target("h200"))
    assert len(plan.kernels) == 2, str(plan)
    arrays = {"x": np.random.default_rng(0).normal(size=(64, 300))}
    exact = reference.evaluate(p, arrays)["y"]
    for k in plan.kernels:
        arrays.update(simulate(k.tiles, arrays))
    np.testing.assert_allclose(arrays["y"], exact, rtol=1e-12)
