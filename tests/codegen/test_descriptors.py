"""Operands of products as blocks that tensor descriptors load: interpreted, compiled, and by pointers where memory does not allow them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_triton_text import module_of

from eqfuse.codegen.module import emit_module
from eqfuse.ir import build as b
from eqfuse.ir import dtypes
from eqfuse.ir.reference import evaluate
from eqfuse.machine import disassemble
from eqfuse.runtime.aot import compile_kernel
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.tiles.direct import kernel_from_program
from eqfuse.tiles.finish import finish
from eqfuse.tiles.kernel import Role
from eqfuse.tiles.lower import lower
from eqfuse.tiles.program import Load

HALF = dtypes.float16


def product(columns=40, tile=32):
    """Rows of a batch by rows of another matrix, with tiles that end beyond both."""
    n, i, j, k = b.axes(n=2, i=37, j=24, k=columns)
    x, w = b.tensor("x", n, i, k, dtype=HALF), b.tensor("w", j, k, dtype=HALF)
    p = b.program("product", out=(b.sum_over(k, x * w), (n, i, j)))
    roles = {n: Role("grid", 1), i: Role("grid", 16), j: Role("grid", 16), k: Role("stream", tile)}
    return p, replace(kernel_from_program(p, roles), descriptors=True)


def blocks(kernel):
    return {s.access.buffer: s.block for s in finish(lower(kernel)).statements() if isinstance(s, Load) and s.block}


def test_blocks_are_boxes_of_tensors():
    _, kernel = product()
    assert blocks(kernel) == {"x": (1, 16, 32), "w": (16, 32)}
    assert not blocks(replace(kernel, descriptors=False))
    assert not blocks(product(columns=36)[1])  # lines of 72 bytes


@pytest.mark.parametrize("aligned", [True, False])
def test_what_blocks_and_pointers_load(aligned, tmp_path):
    p, kernel = product()
    module = load_module(emit_module(module_of(kernel)), "interpret", directory=tmp_path)
    random = np.random.default_rng(0)
    data = {name: random.standard_normal(shape).astype(np.float16) for name, shape in (("x", (2, 37, 40)), ("w", (24, 40)))}
    given = {name: torch.from_numpy(a) for name, a in data.items()}
    if not aligned:
        given["w"] = torch.nn.functional.pad(given["w"], (0, 1))[:, :40]
    assert module._block(given["x"], (1, 16, 32)) is not None
    assert (module._block(given["w"], (16, 32)) is not None) == aligned
    (found,) = interpret(module, "run", *given.values())
    np.testing.assert_allclose(found.numpy(), evaluate(p, data)["out"], rtol=2e-3, atol=2e-3)


def test_compiled_blocks_are_bulk_copies_whose_bytes_are_known(tmp_path):
    n, i, j, k = b.axes(n=2, i=128, j=128, k=128)
    x, w = b.tensor("x", n, i, k, dtype=HALF), b.tensor("w", j, k, dtype=HALF)
    p = b.program("product", out=(b.sum_over(k, x * w), (n, i, j)))
    kernel = kernel_from_program(p, {n: Role("grid", 1), i: Role("grid", 64), j: Role("grid", 64), k: Role("stream", 64)})
    spec = module_of(replace(kernel, descriptors=True))
    module = load_module(emit_module(spec), "aot", directory=tmp_path)
    report = compile_kernel(module, kernel.name, spec.kernels[0].parameters, "h100", 4, 3)
    listing = disassemble(report.machine_code)
    assert report.ok and any(x.name == "UTMALDG" for x in listing.instructions)
    assert {x.arriving for x in listing.instructions} == {0, 2 * 64 * 64 * 2}  # a block of each, in 16 bits
