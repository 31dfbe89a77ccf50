"""The PyTorch references that public kernels are compared with: those of the tests of Liger (github.com/linkedin/Liger-Kernel), of the
examples of Helion (github.com/pytorch/helion) and of the demos of Mirage (github.com/mirage-project/mirage).

A file gives definitions by name; what else it imports and does is left out, so that neither the library nor a GPU is needed."""

import abc
import itertools
import math
import types
import typing
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional

from .case import Case, definitions, unwritten

TYPES = {n: getattr(typing, n) for n in ("Any", "Optional", "List", "Tuple")}
KNOWN = {
    "device": "cpu", "math": math, "itertools": itertools, "Callable": Callable, "KLDivLoss": torch.nn.KLDivLoss,
    "abstractmethod": abc.abstractmethod, **TYPES,
}  # fmt: skip


class New:
    """Tensors and sizes of a program: at sizes of models without data, or at small odd ones with data."""

    def __init__(self, large):
        self.device = "meta" if large else "cpu"
        self.b, self.t, self.h, self.v = (4, 1024, 4096, 32000) if large else (2, 6, 12, 19)  # batch, positions, hidden, vocabulary
        self.n, self.d, self.chunk = (32, 128, 256) if large else (4, 6, 3)  # heads, of so many elements; positions of a chunk

    def __call__(self, *shape, dtype=torch.float32):
        return torch.randn(shape, device=self.device, dtype=torch.float32).to(dtype)

    def logs(self, *shape):
        return torch.log_softmax(self(*shape), -1)

    def whole(self, most, *shape, dtype=torch.int64):
        return torch.randint(0, most, shape, device=self.device, dtype=dtype)

    def ones(self, *shape):
        return torch.ones(shape, device=self.device)


def module(kind, *args, **kwargs):
    with unwritten():
        return kind(*args, **kwargs).eval()


def liger(n):
    """File under test/, names that it defines (the last is the program), arguments of that if it is a class, arguments of the program."""
    b, t, h, v = n.b, n.t, n.h, n.v
    rows, f32 = (b, t, h), torch.float32
    logits, labels = n(b * t, v), n.whole(v, b * t)
    policy = [n(b, t + 1, v), n(b, t), n(b, t), n.whole(v, b, t), n(b), n.ones(b, t)]
    tokens = [n(2 * b, t, h), n.whole(v, 2 * b, t)]
    ce, jsd = ("test_cross_entropy", "CrossEntropyWithZLoss"), ("test_jsd", "JSD")
    heads = [n(b, 4, min(t, 64), n.d) for _ in range(3)]  # its mask is made position by position
    yield "test_dyt", "torch_dyt_with_beta", None, [n(*rows), n(1), n(h), n(h)]
    yield "test_dyt", "torch_dyt_without_beta", None, [n(*rows), n(1), n(h)]
    for kind in ("BaseRMSNorm", "LlamaRMSNorm", "GemmaRMSNorm"):
        yield "test_rms_norm", kind, (h,), [n(*rows)]
    for kind in ("BaseAddRMSNorm", "LlamaAddRMSNorm", "GemmaAddRMSNorm"):
        yield "test_fused_add_rms_norm", kind, (h,), [n(*rows), n(*rows)]
    yield "test_modulated_rms_norm", "ModulatedRMSNormReference", (h,), [n(*rows), n(b, h), n(b, h)]
    yield "test_poly_norm", "NaivePolyNorm", (), [n(*rows)]
    yield "test_relu_squared", "TorchReLUSquared", (), [n(*rows)]
    yield "test_sparsemax", "torch_sparsemax", None, [n(b * t, v)]
    yield "test_swiglu", "_torch_silu_mul_ref", None, [n(*rows), n(*rows), 0.5, 2.0]
    yield "test_swiglu", "_FalconH1MLPRef", (h, 3 * h, 0.5, 2.0), [n(*rows)]
    yield "test_tvd", "TorchTVDLoss", (), [n(b * t, v).softmax(-1), n(b * t, v).softmax(-1)]
    yield "test_tvd", "TorchTVDLoss", (), [n(b * t, v).softmax(-1), n(b * t, v).softmax(-1), labels]
    for more in ((), (None, 1e-4), (None, 0.0, "mean", -100, 0.1), (None, 0.0, "sum")):
        yield *ce, more, [logits, labels]
    yield "test_fused_linear_cross_entropy", "TorchLMHeadCE", (h, v, f32), [n(b * t, h), labels]
    yield *jsd, (0.5,), [n.logs(b * t, v), n.logs(b * t, v)]
    yield *jsd, (0.5,), [n.logs(b * t, v), n.logs(b * t, v), labels]
    yield "test_fused_linear_jsd", "TorchLMHeadJSD", (h, v, f32, "cpu"), [n(b * t, h // 2), n(b * t, h)]
    yield "test_grpo_loss", "torch_grpo_loss", None, [*policy, 0.9, 0.04, 0.2, 0.4]
    yield "test_grpo_loss", "torch_cispo_loss", None, [*policy, 0.9, 0.04, 0.4]
    yield "test_grpo_loss", "torch_sapo_loss", None, [*policy, 0.9, 0.04, 1.0, 1.05]
    yield "test_grpo_loss", "selective_log_softmax", None, [policy[0], policy[3]]
    yield "test_mhc", "mhc_sinkhorn_ref", {"tmax": 5, "eps": 1e-6}, [n(b * t, 4, 4)]
    coefficients = {"tmax": 5, "rms_eps": 1e-6, "pre_eps": 1e-4, "sinkhorn_eps": 1e-6, "post_mult": 2.0}
    yield "test_mhc", "mhc_coeffs_ref", coefficients, [n(b, t, 4, h), n(4 * h, 24), n(24), n(1), n(1), n(1)]
    yield "test_attn_res", "pytorch_attn_res", None, [n(8, b, t, h), n(h), n(h)]
    yield "test_multi_token_attention", "TorchMultiTokenAttention", (4, 4, 3, 1, True, f32, "cpu"), [n(b, 4, t, t)]
    yield "test_fused_neighborhood_attention", "torch_fused_neighborhood_attention", {"kernel_size": 3}, heads
    for loss in ("DPO", "APOZero", "APODown", "SPPOHARD", "NCAPAIR"):
        yield "../chunked_loss/test_dpo_loss", f"TorchLMHead{loss}", (h, v, f32), [tokens[0], n(2 * b, t, h), tokens[1]]
    yield "../chunked_loss/test_cpo_loss", "TorchLMHeadCPO", (h, v, f32), tokens
    yield "../chunked_loss/test_orpo_loss", "TorchLMHeadORPO", (h, v, f32), tokens
    yield "../chunked_loss/test_cosine_loss", "TorchCosineLoss", (h, v, f32, False, "cpu"), [n(b * t, h // 2), n(b * t, h), labels]
    yield "../chunked_loss/test_jsd_loss", "TorchLMHeadJSD", (h, v, f32, False, "cpu"), [n(b * t, h // 2), n(b * t, h), labels]


def helion(n):
    b, t, h, v, d, half = n.b, n.t, n.h, n.v, n.d, torch.bfloat16
    heads = [n(b, n.n, t, d) for _ in range(3)]
    chunks, positions = 4, 4 * n.chunk
    scan, decay = n(b, n.n, chunks, n.chunk), -n.ones(b, n.n, chunks, n.chunk)
    policy = [n(b, t + 1, v), n(b, t), n(b, t), n.whole(v, b, t), n(b), n.ones(b, t)]
    offsets = torch.tensor([0, 2, 5, 9], device=n.device)
    yield "attention", "_attention_reference", {"causal": True}, [n(1, 2, t, d) for _ in range(3)]  # row sums batch by batch
    yield "attention", "_attention_output_baseline", None, heads
    yield "attention", "_causal_attention_output_baseline", None, heads
    yield "bf16xint16_gemm", "reference_bf16xint16_pytorch", None, [n(t, h, dtype=half), n.whole(100, h, h, dtype=torch.int16)]
    yield "fp8_matmul", "reference_scaled_mm", None, [n(t, h).to(torch.float8_e4m3fn), n(h, h).to(torch.float8_e4m3fn), n(1), n(1)]
    yield "fp8_gemm", "reference_fp8_gemm_pytorch", None, [n(t, h).to(torch.float8_e4m3fn), n(h, h).to(torch.float8_e4m3fn), n(1), n(1)]
    yield "fused_linear_jsd", "fused_linear_jsd_pytorch", None, [0.5, -100, 1.0, n(v, h), n(v, h), n(b * t, h), n(b * t, h)]
    yield "gdn_fwd_h", "ref_gdn_fwd_h", None, [*(n(b, positions, n.n, d) for _ in range(3)), -n.ones(b, positions, n.n), n.chunk]
    for file, act in (("geglu", "gelu_pytorch_tanh"), ("swiglu", "silu")):
        yield file, "BaselineMLP", (types.SimpleNamespace(hidden_size=h, intermediate_size=3 * h, hidden_act=act),), [n(b, t, h)]
    yield "grpo_loss", "torch_grpo_loss", None, [*policy, 0.9, 0.04, 0.2, 0.4]
    yield "grpo_loss", "extract_selected_logits_pytorch", None, [n(b, t, v), policy[3], 0.9]
    yield "int4_gemm", "reference_matmul_bf16_int4", None, [n(t, h, dtype=half), n.whole(100, h // 2, h, dtype=torch.int8)]
    yield "jsd", "TorchJSDBaseline", (), [n.logs(b * t, v), n.logs(b * t, v)]
    yield "long_sum", "baseline_sum", None, [n(b, t * h)]
    yield "mamba2_chunk_scan", "ref_chunk_scan", None, [
        n(b, chunks, 1, n.chunk, n.chunk), n(b, positions, n.n, d), scan, decay, n(b, positions, 1, d),
        n(b, chunks, n.n, d, d), n(n.n),
    ]  # fmt: skip
    yield "mamba2_chunk_state", "ref_chunk_state", None, [n(b, positions, 1, d), n(b, positions, n.n, d), scan, decay]
    yield "matmul_layernorm", "matmul_layernorm_pytorch", None, [n(t, h), n(h, h), n(h), n(h)]
    yield "rms_norm", "rms_norm_pytorch", None, [n(b * t, h), n(h)]
    yield "rope", "rope_pytorch", None, [n(b, n.n, t, d), n(b, 2, t, d), n(b, t, d), n(b, t, d)]
    yield "se_block", "se_block_pytorch", None, [n(t, h), n(h, h)]
    yield "squeeze_and_excitation_net", "squeeze_and_excitation_net_pytorch", None, [n(t, h), n(h, h), n(h, h)]
    yield "segment_reduction", "segmented_reduction_pytorch", None, [n.whole(9, t), n(t, h), 9]
    yield "welford", "eager_layer_norm", None, [n(h), n(h), n(b * t, h)]
    yield "xsa", "ref_xsa", None, heads
    yield "jagged_softmax", "reference_jagged_softmax_pytorch", None, [n(9, h), offsets]
    yield "jagged_sum", "reference_jagged_sum_kernel_pytorch", None, [n(9, h), offsets]
    yield "jagged_layer_norm", "reference_jagged_layer_norm_pytorch", None, [n(9, h), offsets]


def mirage(n):
    h, d, kv, t = n.n * n.d, n.d, n.n // 4, n.t
    cache = [n(t, kv, d), n(t, kv, d)]
    yield "llama3-8b", "torch_llama", None, [n(8, h), n(h, h + 2 * kv * d), n(h, h), n(h, 6 * h), n(3 * h, h), *cache]
    yield "ngpt", "torch_ngpt", None, [n(8, h), n(h, h + 2 * kv * d), n(h, h), n(h, 6 * h), n(3 * h, h), *cache, n(8, 6 * h)]
    low = [n(h, 16), n(16, 3 * h), n(h, 16), n(16, 3 * h), n(3 * h, 16), n(16, h)]
    yield "lora", "torch_llama", None, [n(8, h), n(h, h + 2 * kv * d), n(h, h), n(h, 6 * h), n(3 * h, h), *cache, *low]


def attended(q, k, v, causal):
    """Attention to a cache, of heads whose keys groups share."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)[0].transpose(0, 1)


def of_mirage(n):
    """Names that its programs use from outside."""
    library = types.SimpleNamespace(single_prefill_with_kv_cache=attended)
    return {
        "n_local_heads": n.n, "n_local_kv_heads": n.n // 4, "head_dim": n.d, "silu": torch.nn.SiLU(), "flashinfer": library,
        **dict.fromkeys(("rms_norm4k", "rms_norm1", "rms_norm2"), lambda x: functional.rms_norm(x, x.shape[-1:])),
    }  # fmt: skip


SOURCES = {
    "liger": (liger, "test/transformers", lambda n: {}),
    "helion": (helion, "examples", lambda n: {"HALF_DTYPE": torch.bfloat16, "Config": types.SimpleNamespace}),
    "mirage": (mirage, "demo/pytorch", of_mirage),
}


def programs(root, source):
    for k, (file, name, *_) in enumerate(SOURCES[source][0](New(large=True))):
        both = (partial(made, root, source, k, large) for large in (True, False))
        yield source, f"{Path(file).name.removeprefix('test_')}.{name} {k}", Case(*both)


def made(root, source, k, large):
    """The program of a row and its arguments; ``others``: its file's other functions and classes, as far as it uses them."""
    listed, folder, known = SOURCES[source]
    torch.manual_seed(0)
    n = New(large)
    file, name, options, args = next(itertools.islice(listed(n), k, None))
    found = definitions(Path(root, folder, f"{file}.py"), name, **KNOWN, **known(n))
    if isinstance(found, type):
        return module(found, *(options or ())) if large else drawn(found(*(options or ())).eval()), tuple(args)
    return (partial(found, **options) if options else found), tuple(args)


def drawn(of):
    """A module whose parameters are not all ones or whatever was in memory."""
    for p in of.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return of
