"""Hand-written Triton kernels, tested on a machine without a GPU; and kernels with planted faults, every one caught.

pytest examples/test_kernels.py
python examples/test_kernels.py        the reports
"""

import sys
from pathlib import Path

import pytest
import torch

from eqfuse.errors import AccuracyError, KernelBug
from eqfuse.testing import MASKED, assert_equivalent, size, tensors

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kernels import layernorm, planted, softmax

HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32
ANY = (SINGLE, HALF, BRAIN)
R, N = size("R", 1, 4), size("N", 1, 70)

LOGITS = tensors(ANY, (R, N), values=MASKED)
FINITE_LOGITS = tensors(SINGLE, (R, N), layouts=("contiguous", "rows"))
NORMS = tensors(ANY, (R, N)), tensors(ANY, (N,), values=("normal", "ties")), tensors(ANY, (N,), values="normal")
L = size("L", 100, 300)  # rounding errors add up in long rows
NARROW = (HALF, BRAIN)
LONG = tensors(NARROW, (size("few", 1, 2), L)), tensors(NARROW, (L,), values="normal"), tensors(NARROW, (L,), values="normal")
RMS = tensors(SINGLE, (R, N)), tensors(SINGLE, (N,), values="normal")
FAR = tensors(HALF, (size("some", 2, 4), N), values="normal", layouts=("contiguous", "huge"))

CORRECT = {
    "softmax, a row in one tile": (softmax.reference, softmax.one_tile, [LOGITS], {}),
    "softmax, a row in many tiles": (softmax.reference, softmax.many_tiles, [LOGITS], {}),
    "softmax, rows 2³¹ elements apart": (softmax.reference, softmax.many_tiles, [FAR], {"examples": 10}),
    "softmax, float32 to bfloat16": (softmax.narrowing_reference, softmax.narrowing, [tensors(SINGLE, (R, N), values=MASKED)], {}),
    "layer norm": (layernorm.reference, layernorm.layernorm, NORMS, {}),
    "layer norm, backward": (layernorm.reference, layernorm.layernorm, NORMS, {"gradients": True, "examples": 20}),
}

FAULTY = {
    # name in planted.py: what it should be, arguments, options, the error, what the report says
    "missing_mask": (softmax.reference, [FINITE_LOGITS], {}, KernelBug, "out-of-bounds load.*mask the lanes"),
    "missing_other": (softmax.reference, [FINITE_LOGITS], {}, AccuracyError, "missing mask"),
    "unguarded_rescale": (softmax.reference, [LOGITS], {}, AccuracyError, "not finite.*a tile or row that is masked entirely"),
    "narrow_offset": (softmax.reference, [FAR], {}, KernelBug, "int32 offset overflow"),
    "truncating_cast": (softmax.reference, [tensors(BRAIN, (R, N))], {}, AccuracyError, "truncated to bfloat16"),
    "truncating_narrowing": (softmax.narrowing_reference, [FINITE_LOGITS], {}, AccuracyError, "truncated to bfloat16"),
    "lost_tail": (softmax.reference, [FINITE_LOGITS], {}, AccuracyError, "never written.*are at the last index of axis 1"),
    "short_mask": (softmax.reference, [FINITE_LOGITS], {}, AccuracyError, "last index of the last axis"),
    "ignored_stride": (softmax.reference, [FINITE_LOGITS], {}, KernelBug, "between the elements.*a stride is ignored"),
    "racing_sum": (planted.column_sums, [FINITE_LOGITS], {}, KernelBug, "race"),
    "uncleared_sum": (planted.column_sums, [FINITE_LOGITS], {}, AccuracyError, "never written"),
    "missing_upcast": (layernorm.reference, LONG, {}, AccuracyError, "missing upcast"),
    "eps_outside_root": (layernorm.reference, NORMS, {}, AccuracyError, "an epsilon, or its place"),
    "padding_of_ones": (planted.rms_norm, RMS, {}, AccuracyError, "with 0 in the masked lanes of loads they agree"),
    "narrow_inside": (planted.rms_norm, RMS, {}, AccuracyError, "something is rounded to float16 inside"),
    "forgotten_term": (layernorm.reference, NORMS, {"gradients": True}, AccuracyError, "gradient of argument 0: error"),
    "writes_its_argument": (softmax.reference, [FINITE_LOGITS], {}, AccuracyError, "changed argument 0 in place"),
    "noisy": (softmax.reference, [FINITE_LOGITS], {}, AccuracyError, "when the second function runs again"),
}


@pytest.mark.parametrize("name", CORRECT)
def test_correct_kernels_pass(name):
    f, g, args, options = CORRECT[name]
    assert_equivalent(f, g, args, **{"examples": 30, **options})


@pytest.mark.parametrize("name", FAULTY)
def test_planted_faults_are_caught(name):
    f, args, options, error, said = FAULTY[name]
    with pytest.raises(error, match=f"(?s){said}"):
        assert_equivalent(f, getattr(planted, name), args, shrink_seconds=1.5, **options)


if __name__ == "__main__":
    for name in sys.argv[1:] or ("missing_mask", "unguarded_rescale"):
        f, args, options, _, _ = FAULTY[name]
        try:
            assert_equivalent(f, getattr(planted, name), args, **options)
        except (AccuracyError, KernelBug) as report:
            print(f"{name}\n\n{report}\n")
