"""Public kernels for the jobs of benchmarks/instructions.py: where they are in a checkout, with which arguments and in which variants.

A variant is what the library or its tuner would launch for the job.  Arguments: ``"*fp16"`` a pointer, an ``int`` an integer that a launch
would know, a ``float`` a number, ``Const(x)`` a constant of the compiler.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

BATCH_HEADS, LENGTH = 32, 4096  # of attention
ROWS, COLUMNS, VOCABULARY, TOKENS = 16384, 4096, 131072, 4096
M, N, K = 4096, 4096, 4096
DECODE = {"batch": 16, "heads": 32, "key_heads": 8, "keys": 8192, "depth": 128}


ATTENTION_TILES = (  # of the tutorial's list, and whether by descriptors: rows, keys, warps, stages
    (128, 64, 4, 3, False), (128, 64, 8, 3, False), (128, 32, 4, 4, False), (128, 128, 8, 3, False),
    (128, 64, 8, 3, True), (128, 128, 8, 3, True),
)  # fmt: skip
PRODUCT_TILES = (  # of the tutorial's list: rows, columns, depth, warps, stages
    (128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 32, 4, 4),
)  # fmt: skip


@dataclass(frozen=True)
class Const:
    """A constant of the compiler."""

    value: Any


@dataclass(frozen=True)
class Public:
    """One kernel in one variant.  ``blocks``: of the launch; ``edge``: how often the masked loop runs, if it has one of its own;
    ``by_loop``: the work is that of one of its loops alone, others being for what does not occur."""

    job: str
    library: str
    file: str
    name: str
    variant: str
    args: Mapping[str, Any]
    warps: int
    stages: int
    blocks: int
    edge: float | None = None
    archs: tuple[str, ...] = ("sm_80", "sm_90", "sm_100")
    by_loop: bool = False
    moved: Callable[[], float] | None = field(default=None)  # bytes through the second level, where it is not the job's


def _tutorial_attention(depth: int, causal: bool, rows: int, keys: int, warps: int, stages: int, bulk: bool) -> Public:
    strides = {
        f"stride_{t}{d}": v
        for t, names in (("q", "zhmk"), ("k", "zhnk"), ("v", "zhkn"), ("o", "zhmn"))
        for d, v in zip(names, (BATCH_HEADS * LENGTH * depth, LENGTH * depth, depth, 1), strict=True)
    }
    args = {
        "Q": "*bf16", "K": "*bf16", "V": "*bf16", "sm_scale": 0.1, "M": "*fp32", "Out": "*bf16", **strides,
        "Z": 1, "H": BATCH_HEADS, "N_CTX": LENGTH, "BLOCK_M": Const(rows), "BLOCK_N": Const(keys), "HEAD_DIM": Const(depth),
        "STAGE": Const(3 if causal else 1), "ENABLE_TMA": Const(bulk), "LOOP_SCHEDULE": Const("default"), "ENABLE_WS": Const(False),
        "HAS_EXPLICIT_WS": Const(None),
    }  # fmt: skip
    return Public(
        f"{'causal' if causal else 'full'} attention, {depth} deep",
        "tritonbench",
        "tritonbench/kernels/triton_fused_attention.py",
        "_attn_fwd_tma_unified",
        f"tutorial 06, {'descriptors' if bulk else 'pointers'}, {rows}x{keys}, {warps} warps, {stages} stages",
        args,
        warps,
        stages,
        BATCH_HEADS * (LENGTH // rows),
        edge=rows / keys if causal else None,
        archs=("sm_90", "sm_100") if bulk else ("sm_80", "sm_90", "sm_100"),
    )


def _attention():
    for depth in (64, 128):
        for causal in (False, True):
            for rows, keys, warps, stages, bulk in ATTENTION_TILES:
                if keys <= depth:  # as the kernel asserts
                    yield _tutorial_attention(depth, causal, rows, keys, warps, stages, bulk)


def _product():
    for rows, columns, depth, warps, stages in PRODUCT_TILES:
        args = {
            "a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16", "M": M, "N": N, "K": K,
            "stride_am": K, "stride_ak": 1, "stride_bk": N, "stride_bn": 1, "stride_cm": N, "stride_cn": 1,
            "BLOCK_M": Const(rows), "BLOCK_N": Const(columns), "BLOCK_K": Const(depth), "GROUP_M": Const(8), "ACTIVATION": Const(None),
            "ENABLE_BUFFER_OPS_ASSUMES": Const(True),
        }  # fmt: skip
        yield Public(
            "product", "tritonbench", "tritonbench/operators/gemm/triton_matmul.py", "matmul_kernel",
            f"tutorial 03, {rows}x{columns}x{depth}, {warps} warps, {stages} stages", args, warps, stages, (M // rows) * (N // columns),
            moved=lambda r=rows, c=columns: 2 * (M * K * (N // c) + K * N * (M // r) + M * N),
        )  # fmt: skip


def _rows():
    yield Public(
        "softmax", "liger", "src/liger_kernel/ops/softmax.py", "_softmax_single_block_forward_kernel", "Liger",
        {
            "Y_ptr": "*fp16", "Y_row_stride": COLUMNS, "X_ptr": "*fp16", "X_row_stride": COLUMNS, "n_cols": COLUMNS,
            "BLOCK_SIZE": Const(COLUMNS),
        }, 8, 3, ROWS,
    )  # fmt: skip
    yield Public(
        "rms norm", "liger", "src/liger_kernel/ops/rms_norm.py", "_rms_norm_forward_kernel", "Liger",
        {
            "Y_ptr": "*fp16", "Y_row_stride": COLUMNS, "X_ptr": "*fp16", "X_row_stride": COLUMNS, "W_ptr": "*fp16", "W_row_stride": 1,
            "RSTD_ptr": "*fp32", "RSTD_row_stride": 1, "n_cols": COLUMNS, "eps": 1e-6, "offset": 0.0, "casting_mode": Const(0),
            "elementwise_affine": Const(True), "BLOCK_SIZE": Const(COLUMNS),
        }, 8, 3, ROWS,
    )  # fmt: skip
    yield Public(
        "rms norm", "unsloth", "unsloth/kernels/rms_layernorm.py", "_rms_layernorm_forward", "Unsloth",
        {
            "Y": "*fp16", "Y_row_stride": Const(COLUMNS), "X": "*fp16", "X_row_stride": Const(COLUMNS), "W": "*fp16",
            "W_row_stride": Const(1), "r": "*fp32", "r_row_stride": Const(1), "n_cols": Const(COLUMNS), "eps": Const(1e-6),
            "BLOCK_SIZE": Const(COLUMNS),
        }, 8, 3, ROWS,
    )  # fmt: skip
    yield Public(
        "layer norm", "liger", "src/liger_kernel/ops/layer_norm.py", "_layer_norm_forward_kernel", "Liger",
        {
            "Y_ptr": "*fp16", "Y_row_stride": COLUMNS, "X_ptr": "*fp16", "X_row_stride": COLUMNS, "W_ptr": "*fp16", "W_row_stride": COLUMNS,
            "B_ptr": "*fp16", "B_row_stride": COLUMNS, "Mean_ptr": "*fp32", "Mean_row_stride": 1, "RSTD_ptr": "*fp32", "RSTD_row_stride": 1,
            "n_cols": COLUMNS, "eps": 1e-6, "BLOCK_SIZE": Const(COLUMNS),
        }, 8, 3, ROWS,
    )  # fmt: skip


def _cross_entropy():
    for warps in (16, 32):
        yield Public(
            "cross-entropy", "liger", "src/liger_kernel/ops/cross_entropy.py", "liger_cross_entropy_kernel", f"Liger, {warps} warps",
            {
                "X_ptr": "*fp16", "X_stride": VOCABULARY, "Y_ptr": "*i64", "Y_stride": 1, "weight_ptr": Const(None), "loss_ptr": "*fp16",
                "z_loss_ptr": Const(None), "loss_stride": 1, "token_accuracy_ptr": Const(None), "token_accuracy_stride": Const(0),
                "predicted_tokens_ptr": Const(None), "predicted_tokens_stride": Const(0), "n_cols": VOCABULARY, "n_non_ignore": TOKENS,
                "sum_non_ignore_weight": TOKENS, "weight_sum": 0.0, "ignore_index": -100, "lse_square_scale": Const(0.0),
                "label_smoothing": Const(0.0), "reduction": Const("none"), "softcap": Const(None), "RETURN_Z_LOSS": Const(False),
                "RETURN_TOKEN_ACCURACY": Const(False), "RETURN_PREDICTED_TOKENS": Const(False), "BLOCK_SIZE": Const(32768),
                "HAS_WEIGHT": Const(False), "HAS_SOFTCAPPING": Const(False), "HAS_GRADIENTS": Const(False),
            }, warps, 3, TOKENS, by_loop=True,
        )  # fmt: skip
    yield Public(
        "cross-entropy", "flash-attention", "flash_attn/ops/triton/cross_entropy.py", "cross_entropy_fwd_kernel", "FlashAttention",
        {
            "loss_ptr": "*fp32", "lse_ptr": "*fp32", "z_loss_ptr": "*fp32", "logits_ptr": "*fp16", "labels_ptr": "*i64", "smoothing": 0.0,
            "logit_scale": 1.0, "lse_square_scale": 0.0, "ignore_index": -100, "total_classes": VOCABULARY, "class_start_idx": 0,
            "n_cols": VOCABULARY, "logits_row_stride": VOCABULARY, "BLOCK_SIZE": Const(16384), "HAS_SMOOTHING": Const(False),
            "SPLIT": Const(False), "PRECOMPUTED_LSE": Const(False),
        }, 16, 3, TOKENS,
    )  # fmt: skip


def _decode():
    d = DECODE
    rows = d["key_heads"] * d["depth"]
    args = {
        "Q": "*fp16", "K": "*fp16", "V": "*fp16", "sm_scale": 0.1, "Req_to_tokens": "*i32", "B_req_idx": "*i32", "B_Seqlen": "*i32",
        "Mid_O": "*fp32", "Mid_O_LogExpSum": "*fp32", "stride_req_to_tokens_b": d["keys"], "stride_req_to_tokens_s": 1,
        "stride_qbs": d["heads"] * d["depth"], "stride_qh": d["depth"], "stride_qd": 1,
        "stride_kbs": rows, "stride_kh": d["depth"], "stride_kd": 1, "stride_vbs": rows, "stride_vh": d["depth"], "stride_vd": 1,
        "stride_mid_ob": 1 << 16, "stride_mid_oh": 1 << 12, "stride_mid_os": d["depth"], "stride_mid_od": 1,
        "stride_mid_o_eb": 1 << 12, "stride_mid_o_eh": 64, "stride_mid_o_es": 1, "gqa_group_size": d["heads"] // d["key_heads"],
        "Q_HEAD_NUM": Const(16), "BLOCK_SEQ": Const(128), "BLOCK_DMODEL": Const(d["depth"]), "BLOCK_N": Const(16),
    }  # fmt: skip
    for keys, seq, warps in ((16, 128, 2), (64, 512, 4)):
        some = {**args, "BLOCK_N": Const(keys), "BLOCK_SEQ": Const(seq)}
        yield Public(
            "grouped decode", "lightllm", "lightllm/models/llama/triton_kernel/gqa_flash_decoding_stage1.py",
            "_fwd_kernel_flash_decode_stage1", f"lightllm stage 1, {keys} keys of {seq}, {warps} warps", some, warps, 2,
            d["batch"] * d["key_heads"] * math.ceil(d["keys"] / seq),
        )  # fmt: skip


def kernels():
    """All of them."""
    for some in (_attention, _product, _rows, _cross_entropy, _decode):
        yield from some()
