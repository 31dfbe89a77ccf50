"""Lengths that 8, 4 or 2 divides and 16 does not: the compiler is told, and told the truth about every call."""

from __future__ import annotations

import re

import pytest
import torch

import eqfuse
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.walk import walk


def planned(fn, *shapes, dtype=torch.float16, target="h200"):
    return eqfuse.optimize(fn, [torch.empty(s, dtype=dtype, device="meta") for s in shapes], target=target)


def units(c):
    return {p.name: 1 << p.value for k in c.plan.kernels for p in k.tiles.parameters if p.divides}


def normalised(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


@pytest.mark.parametrize(("columns", "unit"), [(9000, 8), (1004, 4), (1006, 2), (1001, None), (1008, None), (4096, None)])
def test_units_of_rows(columns, unit):
    found = units(planned(normalised, (64, columns), (columns,)))
    assert set(found.values()) == ({unit} if unit else set())
    if unit:
        assert {"S_x", "S_out"} <= set(found), "w has neighbours only, at a distance of 1"


def test_only_lengths_along_neighbours_have_units():
    """Nothing is split: parts of a split sum would lie side by side along the rows."""
    c = planned(PROGRAMS["attention"].fn, *[(8, 16, 1500, 72)] * 3)
    assert not c.plan.splits
    found = units(c)
    assert c.plan.rewritten == ("pieces_of_powers",)  # of 64 and 8 columns
    assert {"S_q", "S_k", "S_v", "S_out_1"} <= set(found)
    assert not {"S_N_q_rows", "S_N_k_rows"} & set(found), "no row is longer or shorter for 1500 of them"
    assert set(found.values()) == {8}


VECTORS = r"ld\.global[.\w]*\.v4|cp\.async\.\w+\.shared\.global(?:\.L2::\w+)? \[[^]]*\], \[[^]]*\], 0x10"


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_loads_are_as_wide_as_rows_allow(arch):
    """Rows of 72 float16: nine times sixteen bytes; of 1500 (scores that a kernel stores): eight bytes."""
    for report in planned(PROGRAMS["attention"].fn, *[(8, 16, 1500, 72)] * 3).compile(arch):
        loads = re.findall(r"ld\.global[.\w]*|cp\.async\.c[ag]\.\w+\.\w+", report.assembly)
        assert re.findall(VECTORS, report.assembly)
        assert not re.findall(r"ld\.global(?:\.\w+)*\.b16", report.assembly), loads


def test_the_model_knows():
    """Wide loads pass fewer instructions: rows of 9000 take little longer than rows of 9008."""
    us = {n: planned(normalised, (4096, n), (n,)).plan.estimated_us for n in (9000, 9001, 9008)}
    assert us[9000] < 1.01 * us[9008] < us[9001]


@pytest.mark.parametrize(("width", "vector"), [(99, 2), (100, 8), (104, 16)])
def test_the_model_claims_no_more_than_rows_of_a_view_allow(width, vector):
    """Heads of 64 out of rows of 8 x ``width``: the rows are multiples of 8 elements, where heads begin is not."""

    def scores(q, k):
        q, k = (x.reshape(1024, 8, width)[..., :64] for x in (q, k))
        return torch.softmax(torch.einsum("ihd,jhd->hij", q, k), -1)

    c = planned(scores, (1024, 8 * width), (1024, 8 * width))
    (kernel,) = c.plan.kernels
    assert {t.vector for t in walk(kernel.tiles).loads} == {vector}
    (report,) = c.compile("sm_90")
    widest = {2: r"ld\.global(?:\.\w+)*\.b16", 8: r"cp\.async\.ca\.[^;]*, 0x8,|cp\.async\.ca\.[^;]*, 8,", 16: r"cp\.async\.cg"}
    assert re.findall(widest[vector], report.assembly), re.findall(r"cp\.async[^;]*|ld\.global[.\w]*", report.assembly)[:5]


def layouts(x):
    """Tensors equal to x in other memory layouts."""
    wide = torch.zeros(x.shape[0], x.shape[1] + 1, dtype=x.dtype)
    wide[:, :-1] = x
    shifted = torch.zeros(x.shape[0], x.shape[1] + 8, dtype=x.dtype)
    shifted[:, 3:-5] = x
    return {
        "contiguous": x,
        "rows of odd length": wide[:, :-1],
        "a piece of longer rows": shifted[:, 3:-5],
        "transposed": x.t().contiguous().t(),
        "every other column": torch.stack([x, x], dim=2).flatten(1)[:, ::2],
    }


@pytest.mark.parametrize("layout", list(layouts(torch.zeros(2, 2))))
def test_any_strides_are_right(layout):
    x = torch.randn(6, 72)
    given = layouts(x)[layout]
    assert torch.equal(given, x)
    w = torch.randn(72)
    c = eqfuse.optimize(normalised, (x, w), target="h200")
    assert units(c)
    torch.testing.assert_close(c.interpret(given, w), normalised(x.double(), w.double()).float(), rtol=1e-5, atol=1e-6)


def test_one_row_for_all():
    """Expanded tensors have strides of 0, which everything divides."""
    x, w = torch.randn(1, 72).expand(6, 72), torch.randn(72)
    c = eqfuse.optimize(normalised, (x, w), target="h200")
    torch.testing.assert_close(c.interpret(x, w), normalised(x.double(), w.double()).float(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [72, 70, 71, 64, 1])
def test_other_lengths_than_planned_are_right(columns):
    """The host takes units from the call: a module for rows of 72 takes others, too."""
    c = eqfuse.optimize(normalised, (torch.empty(6, 72), torch.empty(72)), target="h200")
    assert units(c)
    x, w = torch.randn(5, columns), torch.randn(columns)
    (found,) = interpret(load_module(c.source, "interpret"), "run", x, w)
    torch.testing.assert_close(found, normalised(x.double(), w.double()).float(), rtol=1e-5, atol=1e-6)


def test_modules_without_units_do_not_import_mathematics():
    assert "import math" in planned(normalised, (64, 1000), (1000,)).source
    assert "math" not in planned(normalised, (64, 1024), (1024,)).source
