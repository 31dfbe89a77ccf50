"""Who holds the tensors of compiled kernels: the compiler's IR read, and its machine code counted."""

import re
import sys

import pytest
import torch

import eqfuse
from eqfuse.errors import CompileError
from eqfuse.runtime import levels


@pytest.fixture(scope="module")
def compiled():
    x, w = (torch.empty(2048, 2048, dtype=torch.float16, device="meta") for _ in range(2))
    return eqfuse.optimize(lambda x, w: x @ w, (x, w), target="a100")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])  # of tensor cores; without, where operands have copies
def test_the_counts_are_those_of_the_machine_code(compiled, dtype):
    """ldmatrix moves 4 matrices; cp.async is a copy of 16 bytes a lane."""
    args = [torch.empty(shape, dtype=dtype, device="meta") for shape in ((16, 32), (32, 24))]
    c = compiled if dtype == torch.float16 else eqfuse.optimize(lambda x, w: x @ w, args, target="a100")
    (report,), (found,) = c.compile(), c.layouts()
    moves = {way: [m for m in found.moves if m.way == way] for way in ("read", "copy", "write")}
    assert all(m.passes for m in found.moves)
    assert (
        sum(m.passes.instructions for m in moves["read"] if m.passes.matrix)
        == 4 * len(re.findall(r"\bldmatrix\S*\.x4", report.assembly))
        > 0
    )
    copied = [m.passes for m in moves["copy"]]
    assert {p.bytes for p in copied} == ({16} if c is compiled else set()) and sum(p.instructions for p in copied) == len(
        re.findall(r"\bcp\.async\.c[ag]", report.assembly)
    )
    assert {m.tensor for m in moves["read"]} == {"x", "w"} and not any(p.conflicts for p in copied)


def test_every_tensor_is_held_at_its_levels(compiled):
    (found,) = compiled.layouts()
    at = {level: {h.tensor: h for h in found.held if h.level == level} for level in ("device", "shared", "registers")}
    assert set(at["device"]) == {"x", "w", "out"} <= set(at["registers"]) and set(at["shared"]) == {"x", "w"}
    assert at["device"]["x"].layout == eqfuse.Layout.from_strides((2048, 2048))
    for h in found.held:
        assert h.layout.size == torch.Size(h.shape).numel(), h
        if h.level == "registers":  # no lane or warp that there is not
            assert h.layout.span().get("lane", 1) <= 32 and h.layout.span().get("warp", 1) <= found.warps
    text = str(found)
    assert "  shared\n    x: " in text and "no bank conflicts" in text


@pytest.mark.parametrize("target", ["a100", "h200"])
def test_widths_are_those_of_the_machine_code(target):
    """Rows whose length says how many bytes are surely aligned, columns that are no neighbours, tiles with fewer elements than threads."""
    x, y, s = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((4096, 1024), (4096, 1002), (4096,)))
    c = eqfuse.optimize(
        lambda x, y, z, s: (x.sum(-1) + s, y.sum(-1), z.sum(-1)), (x, y, torch.empty_like(x).t().contiguous().t(), s), target=target
    )
    widths = {}
    for found in c.layouts():
        for a in found.accesses:
            widths[a.buffer] = a.width
            assert {n for _, made in a.compiled for n in made} == {a.width}, f"{a.buffer} {a}"
    assert {widths[name] for name in ("x", "z")} == {16} and widths["y"] == 4 and widths["s"] == 2
    rows = next(a for found in c.layouts() for a in found.accesses if a.buffer == "x")
    assert rows.sectors == 16 and "16 B a thread" in str(rows) and "compiled: " in str(rows)


def test_what_is_not_described_is_said(compiled):
    (found,) = compiled.layouts("gfx942")
    assert all(h.note or h.layout for h in found.held) and all(m.passes is None and m.note for m in found.moves)
    assert any("amd_mfma" in h.encoding and h.layout for h in found.held)


def test_without_a_compiler(compiled, monkeypatch):
    monkeypatch.setattr(levels.ir, "parse_mlir_module", None)
    monkeypatch.delattr(levels.ir, "parse_mlir_module")
    with pytest.raises(CompileError, match="cannot be read") as error:
        compiled.layouts()
    assert error.value.cure
    monkeypatch.setitem(sys.modules, "eqfuse.runtime.aot", None)
    with pytest.raises(CompileError, match="compiled by Triton") as error:
        compiled.layouts()
    assert "pip install" in error.value.cure
