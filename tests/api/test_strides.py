"""Plans for tensors that lie in memory otherwise than without gaps: what they cost is known, and any layout stays right."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from triton._C.libtriton import native_specialize_impl
from triton.backends.compiler import BaseBackend
from triton.runtime.jit import JITFunction

import eqfuse
from eqfuse import planning
from eqfuse.extract import kept
from eqfuse.extract.regions import partition, regions
from eqfuse.extract.targets import load_target
from eqfuse.frontends import trace
from eqfuse.ir.strides import SECTOR_BYTES, footprint, known_strides, layout_kind
from eqfuse.ir.terms import Input
from eqfuse.planning import whole
from eqfuse.runtime.modules import load_module
from eqfuse.testing import lay_out
from eqfuse.tiles.program import Load
from eqfuse.tiles.sizes import run_dim
from eqfuse.tiles.walk import walk


def meta(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype, device="meta")


def planned(fn, *args, **options):
    return eqfuse.optimize(fn, args, target="h200", name="f", **options)


def softmax(x):
    return torch.softmax(x, -1)


def norm(x):
    mean = x.mean((2, 3), keepdim=True)
    return (x - mean) * torch.rsqrt(x.var((2, 3), keepdim=True, unbiased=False) + 1e-5)


def product(x, w):
    return x @ w


def shifted(x, b):
    return torch.relu(x + b)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def packed(b, s, h, d, new=meta):
    """q, k and v of one tensor, heads before positions."""
    return tuple(new(b, s, 3 * h * d).view(b, s, 3, h, d).permute(2, 0, 3, 1, 4))


LAYOUTS = [  # shape, strides, bytes of an element
    ((64, 32), (32, 1), 4), ((64, 32), (1, 64), 4), ((64, 32), (0, 1), 4), ((64, 32), (0, 0), 2), ((64, 32), (128, 2), 4),
    ((64, 32), (1024, 16), 4), ((64, 32), (64, 1), 2), ((16, 8), (64, 1), 4), ((16, 8), (64, 1), 2), ((50, 16), (1, 1), 4),
    ((50, 16), (8, 1), 4), ((4, 6, 8, 32), (6144, 32, 768, 1), 2), ((5, 1, 16), (16, 99, 1), 4), ((8,), (2,), 8),
    ((40, 16, 5), (64, 1, 64), 2),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "strides", "itemsize"), LAYOUTS, ids=str)
def test_bytes_are_those_of_an_enumeration(shape, strides, itemsize):
    at = {sum(p * s for p, s in zip(where, strides, strict=True)) for where in itertools.product(*map(range, shape))}
    sectors = {a * itemsize // SECTOR_BYTES for a in at}
    elements, moved = footprint(shape, known_strides(shape, strides), itemsize)
    assert elements == len(at) * itemsize
    assert (len(sectors) - 1) * SECTOR_BYTES < moved <= len(sectors) * SECTOR_BYTES


def test_kinds_of_layouts():
    """Tensors that one plan suits are of one kind, and of the kind without gaps if they are read as those are."""
    assert layout_kind((64, 128), (128, 1), 2) is None
    assert layout_kind((64, 128), (384, 1), 2) is None, "rows of a wider tensor, as aligned"
    assert all(layout_kind(x.shape, x.stride(), 2) is None for x in packed(2, 32, 4, 16))
    kinds = [layout_kind((64, 128), s, 2) for s in ((1, 64), (0, 1), (256, 2), (129, 1), (132, 1))]
    assert None not in kinds and len(set(kinds)) == len(kinds)
    assert layout_kind((64, 128), (1, 64), 2) == layout_kind((32, 256), (1, 4096), 2)


@pytest.mark.parametrize(
    ("fn", "x", "runs", "faster"),
    [
        (softmax, meta(4096, 4096).t(), "rows", 3),
        (norm, meta(32, 256, 56, 56).contiguous(memory_format=torch.channels_last), "batch1", 3),
        (shifted, (meta(4096, 4096), meta(4096).expand(4096, 4096)), "cols", 1),
    ],
    ids=["transposed", "channels last", "expanded"],
)
def test_kernels_run_along_memory(fn, x, runs, faster):
    """Lanes are neighbours in memory in whole sectors; the kernel that is chosen as if there were no gaps is priced for what it is."""
    args = x if isinstance(x, tuple) else (x,)
    known = planned(fn, *args)
    assumed = planned(fn, *(torch.empty(a.shape, dtype=a.dtype, device="meta") for a in args))
    there = planning.like(assumed.planned, known.planned.request, known.planned.traced).plan
    assert there.estimated_us >= faster * known.plan.estimated_us * (1 - 1e-9)
    (kernel,) = known.plan.kernels
    loads = [s.access for s in kernel.tiles.statements() if isinstance(s, Load)]
    assert {run_dim(at, kernel.kernel.buffers[at.buffer]).axes[-1].name for at in loads} == {runs}
    counts = walk(kernel.tiles)
    assert all(t.vectorised and t.in_sectors == t.bytes for t in counts.loads)
    assert known.plan.compulsory_bytes <= assumed.plan.compulsory_bytes
    if any(n > 1 for n in counts.passes.values()):  # the cache of a multiprocessor has what later loops read, but for a few percent
        assert known.plan.dram_bytes <= 1.1 * known.plan.compulsory_bytes
    else:
        assert known.plan.dram_bytes == known.plan.compulsory_bytes
    assert "at strides" in str(known.plan) and "at strides" not in str(assumed.plan)


@pytest.mark.parametrize("x", [meta(4096, 4096), meta(4096, 4096).t(), meta(4096, 8192)[:, ::2]], ids=["dense", "transposed", "gaps"])
def test_machine_code_loads_what_the_model_says(x):
    c = planned(softmax, x)
    (load,) = walk(c.plan.kernels[0].tiles).loads
    found = set(re.findall(r"ld\.global\.(\w+\.\w+|\w+)", c.compile()[0].assembly))
    assert [{"v4.b32": 16, "b16": 2}[f] for f in found] == [load.vector]


def test_what_repeats_itself_is_read_once_and_gaps_are_read_too():
    once = planned(shifted, meta(4096, 4096), meta(4096).expand(4096, 4096)).plan
    assert once.compulsory_bytes == 2 * 4096 * 4096 * 2 + 4096 * 2
    every = planned(softmax, meta(4096, 8192)[:, ::2]).plan
    assert every.compulsory_bytes == every.dram_bytes == pytest.approx(3 * 4096 * 4096 * 2, rel=1e-6)


@pytest.mark.parametrize("x", [meta(4096, 8192), meta(4096, 4096, 2)], ids=["every second column", "the first of pairs"])
def test_a_view_made_inside_costs_what_it_costs_as_an_argument(x):
    def view(x):
        return x[:, ::2] if x.dim() == 2 else x[..., 0]

    inside, outside = planned(lambda x: softmax(view(x)), x).plan, planned(softmax, view(x)).plan
    (mine,), (theirs,) = ((walk(k.tiles).loads[0] for k in p.kernels) for p in (inside, outside))
    assert (mine.vector, mine.run, mine.spread) == (2, 16, 2.0) and (theirs.vector, theirs.run, theirs.spread) == (2, 16, 1.0)
    assert inside.estimated_us == pytest.approx(outside.estimated_us, rel=1e-6)
    assert inside.compulsory_bytes == inside.dram_bytes == pytest.approx(outside.dram_bytes, rel=1e-6)
    both = planned(lambda x: softmax(x[..., ::2] + x[..., 1::2]), meta(4096, 8192)).plan
    assert both.compulsory_bytes == both.dram_bytes == 3 * 4096 * 4096 * 2, "what lies between is read, too"


def test_kernels_for_aligned_tensors_run_on_no_others():
    """Triton compiles for addresses that 16 bytes divide, and for others: it looks at each argument, and no kernel promises more."""
    c = planned(softmax, meta(4096, 4096)[:, 1:])
    (kernel,) = (f for f in vars(load_module(c.source, "aot")).values() if isinstance(f, JITFunction) and not f.__name__.startswith("_"))
    pointers = [p for p in kernel.params if p.name.endswith("_ptr")]
    assert len(pointers) == 2 and not any(p.do_not_specialize or p.do_not_specialize_on_alignment for p in pointers)
    assert not re.search("multiple_of|max_contiguous|assume|descriptor", c.source)
    x = torch.empty(64, dtype=torch.float16)
    kinds = [native_specialize_impl(BaseBackend, t, False, True, True) for t in (x, x[1:], x[8:])]
    assert kinds[0] == kinds[2] != kinds[1]


def test_packed_heads_are_read_as_if_they_were_alone():
    strided, alone = planned(attention, *packed(2, 512, 4, 64)), planned(attention, *[meta(2, 4, 512, 64)] * 3)
    assert [k.kernel.roles for k in strided.plan.kernels] == [k.kernel.roles for k in alone.plan.kernels]
    assert strided.plan.estimated_us == alone.plan.estimated_us


def test_a_copy_without_gaps_pays_where_many_programs_read_it():
    c = planned(product, meta(4096, 8192)[:, ::2], meta(4096, 4096))
    assert [k.loads for k in c.plan.kernels] == [{"x"}, {"t0", "w"}] and c.plan.buffers["t0"].dtype.name == "float16"
    assert len(planned(product, meta(4096, 4096), meta(4096, 4096)).plan.kernels) == 1
    inside = planned(lambda x, w: x[:, ::2] @ w, meta(4096, 8192), meta(4096, 4096)).plan
    assert [k.loads for k in inside.kernels] == [{"x"}, {"t1", "w"}] and inside.buffers["t1"].dtype.name == "float16"
    x, w = torch.randn(37, 70).half()[:, ::2], torch.randn(35, 19).half()
    torch.testing.assert_close(c.at(x, w).interpret(x, w), (x.float() @ w.float()).half(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("fn", [softmax, product, shifted, norm], ids=lambda f: f.__name__)
def test_every_layout_is_right_under_a_plan_for_every_other(fn):
    """Odd sizes; what lies between the elements is NaN."""
    shapes = {softmax: [(13, 37)], product: [(13, 37), (37, 21)], shifted: [(13, 37)] * 2, norm: [(2, 5, 7, 3)]}[fn]
    large = {softmax: [(4096, 512)], product: [(512, 1024), (1024, 512)], shifted: [(512, 1024)] * 2, norm: [(8, 64, 28, 28)]}[fn]
    values = [torch.randn(s) for s in shapes]
    for planned_for in ("contiguous", "transposed", "expanded", "strided"):
        c = planned(fn, *(lay_out(torch.zeros(s), planned_for) for s in large))
        small = c.at(*(lay_out(x, planned_for) for x in values))
        for called_with in ("contiguous", "transposed", "expanded", "strided", "rows"):
            args = [lay_out(x, called_with) for x in values]
            torch.testing.assert_close(small.interpret(*args), fn(*args), rtol=1e-4, atol=1e-5)


def test_regions_know_the_strides_of_what_they_read():
    def layers(x, *weights):
        for w in weights:
            x = torch.relu(x @ w)
        return x

    args = [meta(256, 512), *(meta(512, 512).t() for _ in range(8))]
    parts = regions(partition(trace(layers, args).program, load_target("h200")))
    for r in parts:
        weights = [i.name for i in r.program.inputs if i.name.startswith("weights")]
        assert dict(r.program.strides) == dict.fromkeys(weights, (1, 512)) and r.program_like(r.program).strides == r.program.strides
    dense = regions(partition(trace(layers, (args[0], *(w.t() for w in args[1:]))).program, load_target("h200")))
    assert len(parts) > 1 and not {r.key for r in parts} & {r.key for r in dense}


def test_a_plan_on_disk_is_for_its_strides(tmp_path, monkeypatch):
    monkeypatch.setenv("EQFUSE_CACHE", "1")
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    plans = [planned(softmax, x).plan for x in (meta(4096, 512), meta(512, 4096).t(), meta(512, 4096).t())]
    assert str(plans[1]) == str(plans[2]) != str(plans[0])
    monkeypatch.setattr(whole, "saturate", None)  # what is read is not searched
    assert str(planned(softmax, meta(512, 4096).t()).plan) == str(plans[1])
    keys = {kept.key("plan", p.program, load_target("h200"), (), (), 1.0) for p in plans}
    assert len({k.name for k in keys}) == 2


def test_a_program_takes_the_strides_of_its_examples():
    p = planned(softmax, meta(512, 64)).program
    assert not eqfuse.optimize(p, target="h200").program.strides
    assert eqfuse.optimize(p, (meta(64, 512).t(),), target="h200").program.strides == {"x": (1, 512)}
    assert "at strides (1, 512)" in str(eqfuse.optimize(p, (meta(64, 512).t(),), target="h200").program)
    assert isinstance(p.inputs[0], Input) and p.inputs[0].shape == (512, 64)
