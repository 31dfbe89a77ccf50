"""Every program compiles ahead of time in every type for every architecture: no spill, within shared memory, launchable.

How many registers a kernel needs is the compiler's business, and the model of it was fitted to the version that torch 2.13 brings.
Of the same kernels under other versions, those in ``SPILLS`` spill a few bytes, and no other.
"""

from __future__ import annotations

import pytest
import triton

from eqfuse.testing.programs import PROGRAMS

NAMES = sorted(PROGRAMS)
# Bytes per thread at most, by Triton version.  The assembler gives the first one 80 registers, to have three programs on a multiprocessor,
# where it may take 255, and the third one 72; it loads the second tile of the second one so early that the 128 registers of sixteen warps
# do not suffice.  The one of few rows gets 128, to have four programs where two are launched, and so do the attentions, of 167 that the
# model counts on.  The last ones take all 255 under any version.
# None spills if it is planned with no_spills (test_compile_shapes.py).
SPILLS = {
    ("rmsnorm_linear", "float32", "sm_80"): {"3.6.0": 4, "3.9.0": 40},
    ("attention_decode", "float32", "sm_80"): {"3.9.0": 8},
    ("attention", "float32", "sm_80"): {"3.7.1": 8},
    ("attention_normalised_inside", "float32", "sm_80"): {"3.7.1": 8},
    ("matmul", "float32", "sm_80"): {"3.6.0": 4},
    ("linear_cross_entropy_few_rows", "float32", "sm_100"): {"3.7.1": 12},
    ("matmul", "float16", "sm_90"): {"3.9.0": 44},
    ("matmul", "bfloat16", "sm_90"): {"3.9.0": 44},
}
REPRESENTATIVE = {"sm_80": "a100", "sm_90": "h200", "sm_100": "b200", "gfx942": "mi300x"}


def cases() -> list[object]:
    """(program, architecture, type); without ``exhaustive`` one type for a program on an architecture, and all that is known to spill."""
    found = []
    for p, name in enumerate(NAMES):
        for a, arch in enumerate(sorted(REPRESENTATIVE)):
            for t, dtype in enumerate(("float16", "bfloat16", "float32")):
                always = (p + a) % 3 == t or (name, dtype, arch) in SPILLS
                found.append(pytest.param(name, arch, dtype, marks=() if always else pytest.mark.exhaustive))
    return found


@pytest.mark.parametrize(("name", "arch", "dtype"), cases())
def test_compiles_within_limits(name, arch, dtype, planned):
    compiled = planned(name, dtype, REPRESENTATIVE[arch])
    reports = compiled.compile(arch)
    assert len(reports) == len(compiled.plan.kernels)
    for report, kernel in zip(reports, compiled.plan.kernels, strict=True):
        assert report.arch == arch
        assert report.spill_bytes <= SPILLS.get((name, dtype, arch), {}).get(triton.__version__, 0), report
        assert len(report.exceeded) == bool(report.spill_bytes), report
        assert report.occupancy >= 1
        # the search keeps to a budget of shared memory: what the model predicts must cover what the compiler uses
        assert report.shared_bytes <= compiled.target.shared_bytes_per_block
        assert report.shared_bytes <= 1.1 * kernel.cost.shared_bytes + 8192, "the model underestimates shared memory"
