"""A printer is a function of a tile program and its parameters: the corpus through another one, which shares no line with Triton's.

The plans are those of the bench shapes, at the shapes that no tile divides: loops, masks, tails, splits, several kernels.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import torch
from c_printer import HEAD, print_c

from eqfuse.testing.programs import PROGRAMS
from eqfuse.tiles.program import Param, TileProgram

COMPILER = shutil.which("cc")
OPTIONS = ("-std=c11", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-w")  # every operation of the text is rounded by itself


def library(kernels: list[TileProgram], folder) -> ctypes.CDLL:
    """The kernels as functions ``kernel_0``, ``kernel_1``, ..."""
    (folder / "kernels.c").write_text(HEAD + "\n".join(print_c(k, f"kernel_{at}") for at, k in enumerate(kernels)))
    subprocess.run([COMPILER, *OPTIONS, "kernels.c", "-o", "kernels.so", "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


def argument(p: Param, arrays: dict[str, np.ndarray]) -> object:
    """What a kernel takes for a parameter; all tensors are dense, as they were planned."""
    return arrays[p.buffer].ctypes.data_as(ctypes.c_void_p) if p.kind == "pointer" else ctypes.c_int64(p.value)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc)")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corpus_runs_in_c(name, at_check, tmp_path):
    case = PROGRAMS[name]
    args = case.args("check", "float32")
    plan = at_check(name, "float32").plan
    kernels = [k.tiles for k in plan.kernels]
    compiled = library(kernels, tmp_path)
    arrays = {i.name: x.contiguous().numpy() for i, x in zip(plan.program.inputs, args, strict=True)}
    for at, k in enumerate(kernels):
        arrays |= {b: np.full(k.kernel.buffers[b].shape, np.nan, k.kernel.buffers[b].dtype.numpy) for b in k.stores()}
        given = [argument(p, arrays) for p in k.parameters if p.kind != "constexpr"]
        compiled[f"kernel_{at}"](*given, ctypes.c_int64(k.tasks))
    exact = case.fn(*(x.double() if x.is_floating_point() else x for x in args))
    for o, want in zip(plan.program.outputs, exact if isinstance(exact, tuple) else (exact,), strict=True):
        error = (torch.from_numpy(arrays[o.name]).double().reshape(want.shape) - want).abs().max() / want.abs().max()
        assert error < 2e-6
