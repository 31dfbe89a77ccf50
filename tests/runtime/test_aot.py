"""Kernels compile for every architecture without a GPU; the report says what the compiled code says; the gate catches what cannot run."""

import dataclasses
import re
import types

import pytest
import torch

from eqfuse.errors import CompileError
from eqfuse.extract.targets import load_target
from eqfuse.ir import dtypes
from eqfuse.runtime import aot
from eqfuse.runtime.aot import compile_kernel
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.tiles.program import Param

ARCHITECTURES = ["sm_80", "sm_90", "sm_100", "gfx942"]


def pointer(name, element=dtypes.float16):
    return Param(name, "pointer", element, None)


def integer(name, value):
    return Param(name, "int", dtypes.int32, value)


def constant(name, value):
    return Param(name, "constexpr", None, value)


SOFTMAX = [pointer("x_ptr"), pointer("y_ptr"), integer("N", 1024), integer("stride", 1024), constant("BLOCK", 1024)]


def attention(bm, bn, d):
    pointers = [pointer(f"{name}_ptr") for name in "qkvo"]
    return [*pointers, integer("S", 4096), integer("stride", d), constant("BM", bm), constant("BN", bn), constant("D", d)]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_row_kernel(kernels, arch):
    warps = 2 if arch == "gfx942" else 4  # 128 lanes of 8 elements of 2 bytes
    report = compile_kernel(load_module(kernels.SOFTMAX, "aot"), "softmax_kernel", SOFTMAX, arch, warps, instructions=True)
    assert report.ok, report
    assert report.arch == arch
    assert 8 <= report.registers <= 128
    assert report.spill_bytes == report.stack_bytes == report.tensor_memory == 0
    assert 0 < report.shared_bytes < 1024  # the reduction between warps
    assert report.occupancy >= 8
    assert report.instructions["total"] > 50
    assert report.instructions["tensor"] == 0
    assert report.instructions["load"] == report.instructions["load_128"] > 0  # 16 bytes at a time and none narrower
    assert report.instructions["special"] > 0


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_tile_kernel_uses_the_matrix_units(kernels, arch):
    module = load_module(kernels.ATTENTION, "aot")
    report = compile_kernel(module, "attention_kernel", attention(64, 64, 64), arch, 4, 2, instructions=True)
    assert report.ok, report
    assert 64 <= report.registers <= 512
    assert report.occupancy >= 1
    assert report.instructions["tensor"] > 0
    if arch == "sm_100":
        assert 0 < report.tensor_memory <= 512
    if arch in ("sm_80", "sm_90"):
        assert report.instructions["async_copy"] == report.instructions["async_copy_128"] > 0
        assert 16 * 1024 <= report.shared_bytes <= 64 * 1024


def test_without_facts_about_divisibility_nothing_is_vectorised(kernels):
    odd = [SOFTMAX[0], SOFTMAX[1], integer("N", 1023), integer("stride", 1023), SOFTMAX[4]]
    report = compile_kernel(load_module(kernels.SOFTMAX, "aot"), "softmax_kernel", odd, "sm_90", instructions=True)
    assert report.instructions["load_128"] == 0


def test_an_integer_of_one_becomes_a_constant(kernels):
    module = load_module(kernels.SOFTMAX, "aot")
    report = compile_kernel(module, "softmax_kernel", [*SOFTMAX[:3], integer("stride", 1), SOFTMAX[4]], "sm_90")
    general = compile_kernel(module, "softmax_kernel", SOFTMAX, "sm_90")
    count = report.assembly.count(".param .u32"), general.assembly.count(".param .u32")
    assert count[0] == count[1] - 1


def test_the_gate_refuses_more_shared_memory_than_a_block_may_have(kernels):
    module = load_module(kernels.ATTENTION, "aot")
    report = compile_kernel(module, "attention_kernel", attention(128, 128, 128), "h200", 8, 4)
    assert not report.ok
    assert report.shared_bytes > load_target("h200").shared_bytes_per_block
    assert report.occupancy == 0
    assert any(said.startswith("shared memory") for said in report.exceeded)
    assert any("cannot be launched" in said for said in report.exceeded)


def test_the_gate_reports_spills(kernels):
    module = load_module(kernels.ATTENTION, "aot")
    report = compile_kernel(module, "attention_kernel", attention(128, 128, 128), "a100", 4, 2, instructions=True)
    assert report.registers >= 32
    assert report.spill_bytes > 0
    assert report.stack_bytes > 0
    assert report.instructions["spill"] > 0
    assert any(said.startswith("spills") for said in report.exceeded)


def test_a_kernel_out_of_the_cache_has_the_same_report(kernels):
    """The assembler reports spills when it runs, and it runs once."""
    module = load_module(kernels.ATTENTION, "aot")
    first, again = (compile_kernel(module, "attention_kernel", attention(128, 64, 128), "a100", 4, 2) for _ in range(2))
    assert first.spill_bytes != first.stack_bytes, "or the test shows nothing"
    assert again.spill_bytes == first.spill_bytes
    assert again.compile_ms < first.compile_ms


@pytest.mark.parametrize(("arch", "shape"), [("a100", (128, 64, 64)), ("h200", (128, 128, 128))])
def test_registers_are_those_that_the_assembler_reports(kernels, arch, shape, monkeypatch):
    logs = []
    spills = aot.binary.nvidia_spills
    monkeypatch.setattr(aot.binary, "nvidia_spills", lambda log: logs.append(log) or spills(log))
    report = compile_kernel(load_module(kernels.ATTENTION, "aot"), "attention_kernel", attention(*shape), arch, 4, 3)
    assert [int(n) for n in re.findall(r"Used (\d+) registers", logs[0])] == [report.registers]


def test_compile_interpret_compile_gives_the_same_code(kernels, monkeypatch, tmp_path):
    """Interpreting must leave no trace in the language.  Both compilations start from an empty cache."""
    caches = iter([tmp_path / "before", tmp_path / "after"])
    monkeypatch.setattr(aot, "_cache", lambda: types.SimpleNamespace(name=str(next(caches))))
    module = load_module(kernels.SOFTMAX, "aot")
    before = compile_kernel(module, "softmax_kernel", SOFTMAX, "sm_90")
    x = torch.randn(3, 20)
    y = interpret(load_module(kernels.SOFTMAX, "interpret"), "run", x)
    assert torch.allclose(y, x.softmax(-1), atol=1e-6)
    after = compile_kernel(module, "softmax_kernel", SOFTMAX, "sm_90")
    assert list((tmp_path / "after").iterdir())
    assert before.assembly == after.assembly
    assert before == dataclasses.replace(after, compile_ms=before.compile_ms)


@pytest.mark.parametrize("arch", ["sm_90", "gfx942"])
def test_a_rejected_kernel_is_named_with_the_reason(kernels, arch, capfd):
    source = kernels.HEADER + (
        "@triton.jit\ndef odd_kernel(x_ptr, BLOCK: tl.constexpr):\n"
        "    at = tl.arange(0, BLOCK)\n    tl.store(x_ptr + at, tl.load(x_ptr + at))\n"
    )
    params = [pointer("x_ptr"), constant("BLOCK", 24)]
    with pytest.raises(CompileError, match=r"odd_kernel.*power of (2|two)"):
        compile_kernel(load_module(source, "aot"), "odd_kernel", params, arch)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_printed(kernels, capfd):
    compile_kernel(load_module(kernels.SOFTMAX, "aot"), "softmax_kernel", [*SOFTMAX[:4], constant("BLOCK", 2048)], "sm_90")
    assert capfd.readouterr() == ("", "")


def test_parameters_must_be_those_of_the_kernel(kernels):
    with pytest.raises(AssertionError, match="softmax_kernel takes"):
        compile_kernel(load_module(kernels.SOFTMAX, "aot"), "softmax_kernel", SOFTMAX[::-1], "sm_90")
