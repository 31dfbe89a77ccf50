"""Libraries of which a few functions are tried: kernels of serving and training.

lightllm, lmdeploy, mamba, applied_ai, xformers, flash_attention, bitsandbytes: each a table of cases.
"""

import importlib
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

from eqfuse.testing import indices, interpreted_kernels, size, tensors
from eqfuse.testing.kernels import unwritten_memory

from .case import STRIDE_SEEN, Case, absent, package, undefined_lanes

F32 = torch.float32
ROWS, COLUMNS = size("rows", 1, 6), size("columns", 1, 70)
APART = ("contiguous", "offset", "rows")
M, TURNED, ONES = torch.arange(6.0).view(2, 3) / 4, torch.arange(6.0).view(3, 2).T / 4, torch.ones(3)


def module(name):
    """A module of the checkout on the path, without what the packages around it import."""
    parts = name.split(".")[:-1]
    root = next(Path(p) for p in sys.path if Path(p, *parts).is_dir())
    for k in range(len(parts)):
        package(".".join(parts[: k + 1]), root.joinpath(*parts[: k + 1]))
    return importlib.import_module(name)


def drawn(*shape, values=("normal", "small", "offset", "equal"), layouts=("contiguous",)):
    return tensors(F32, shape, values=values, layouts=layouts)


def at(place, theirs, reference, *args):
    """A plain check: one element of the first result, as it is and as it should be."""

    def first(function):
        out = function(*args)
        return (out[0] if isinstance(out, tuple) else out)[place].item()

    return lambda: (first(theirs), first(reference))


def rms_norm(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-5)


def glu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def to_integers(x, scale):
    """Rounded half away from zero, as CUDA's ``round`` has it."""
    v = x / scale
    return ((v.abs() + 0.5).floor() * v.sign()).clamp(-128, 127).to(torch.int8)


# ---- serving ---------------------------------------------------------------------------------------------------------------------


def lightllm():
    rmsnorm = module("lightllm.models.llama.triton_kernel.rmsnorm").rmsnorm_forward
    silu = module("lightllm.models.llama.triton_kernel.silu_and_mul").silu_and_mul_fwd
    softmax_topk = module("lightllm.common.fused_moe.softmax_topk").softmax_topk

    def norm(x, w):
        return rmsnorm(x, w, 1e-5)

    def gated(x):
        out = x.new_empty(x.shape[0], x.shape[1] // 2)
        silu(x, out)
        return out

    def top(x, renorm=False):
        values, experts = softmax_topk(x, 3, renorm)
        return values, experts.long()

    def best(x, renorm=False):
        values, experts = x.softmax(-1).topk(3)
        return values / values.sum(-1, keepdim=True) if renorm else values, experts

    x, w = drawn(ROWS, COLUMNS, layouts=APART), drawn(COLUMNS, values="normal")
    scores = drawn(ROWS, size("experts", 3, 40), values="normal", layouts=APART)
    turned = drawn(ROWS, size("experts", 3, 40), values="normal", layouts="transposed")
    one = torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf]])
    plain = {"gradients": False}
    return [
        Case("rmsnorm_forward", rms_norm, norm, [x, w], **plain),
        Case("rmsnorm_forward, transposed", rms_norm, norm, [drawn(ROWS, COLUMNS, layouts="transposed"), w], **plain,
             fault="the second pass over a row drops its stride (LightLLM issue 1467)", seen=STRIDE_SEEN,
             shows=at((1, 1), norm, rms_norm, TURNED, ONES)),
        Case("silu_and_mul_fwd", glu, gated, [drawn(ROWS, 34, layouts=(*APART, "transposed"))], **plain),
        Case("softmax_topk", best, top, [scores], **plain),
        Case("softmax_topk, renormalised", lambda x: best(x, True), lambda x: top(x, True), [scores], **plain),
        Case("softmax_topk, transposed", best, top, [turned], **plain,
             fault="the stride along a row is ignored", seen=STRIDE_SEEN, shows=at((1, 0), top, best, TURNED)),
        Case("softmax_topk, one finite score", best, top, [drawn(ROWS, 4, values="normal").map(lambda x: one.expand(len(x), -1).clone())],
             **plain, fault="what was taken becomes -inf, which all others are: expert 0 is returned three times",
             seen="output 1: .*not equal", shows=lambda: (top(one)[1][0, 1].item(), best(one)[1][0, 1].item())),
    ]  # fmt: skip


def lmdeploy():
    kernels = "lmdeploy.pytorch.kernels"
    module(f"{kernels}.default.w8a8_kernels")
    norm = module(f"{kernels}.cuda.rms_norm").rms_norm
    silu = module(f"{kernels}.cuda.activation").silu_and_mul
    quant = module(f"{kernels}.cuda.w8a8_triton_kernels")
    sampling = module(f"{kernels}.cuda.multinomial_sampling").multinomial_sampling

    def per_token(x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-7) / 127
        return to_integers(x, scale), scale

    def quantized(x, w):
        y = rms_norm(x, w)
        scale = y.abs().amax(-1, keepdim=True) / 127
        return to_integers(y, scale), scale

    def dynamic(x, w):
        return quant.rms_norm_dynamic_quant(x, w, 1e-5)

    def repeated_row():
        """A row that stands for two: the second is written over the first."""
        x = torch.tensor([1.0, -2.0, 3.0, -4.0]).expand(2, -1)
        with unwritten_memory():
            ours = dynamic(x, torch.ones(4))
        return ours[0][1, 0].item(), quantized(x, torch.ones(4))[0][1, 0].item()

    def only(i, n):
        """Scores of which one is 1, and its index among others."""
        return F.one_hot(i, n).float(), (torch.arange(n) * 7 + 3).expand(len(i), -1).contiguous()

    def sample(i, n=200):
        scores, names = only(i, n)
        seeds = torch.arange(len(i))
        return sampling(scores, seeds, seeds, names)

    def chosen(i, n=200):
        return 7 * i + 3

    w = drawn(COLUMNS, values="normal")
    normal = drawn(ROWS, COLUMNS, values="normal", layouts=APART)
    label = indices((ROWS,), below=size("candidates", 200, 200))
    none = indices((ROWS,), below=size("one", 1, 1))
    return [
        *undefined_lanes(Case("rms_norm", rms_norm, lambda x, w: norm(x, w, 1e-5), [normal, w], gradients=False), M, ONES),
        Case("silu_and_mul", glu, silu, [drawn(ROWS, 34, layouts=APART)], gradients=False),
        Case("per_token_quant_int8", per_token, lambda x: quant.per_token_quant_int8(x, 1e-7), [normal], gradients=False),
        Case("rms_norm_dynamic_quant", quantized, dynamic, [drawn(ROWS, 16, values="normal"), drawn(16, values="normal")], gradients=False),
        Case("rms_norm_dynamic_quant, rows apart", quantized, dynamic,
             [drawn(size("several", 2, 6), 16, values="normal", layouts="rows"), drawn(16, values="normal")], gradients=False,
             fault="the output is addressed with the stride between rows of the input: rows are written beyond its end",
             seen="out-of-bounds store", shows=repeated_row),
        Case("multinomial_sampling", chosen, sample, [label], gradients=False),
        Case("multinomial_sampling, one candidate", lambda i: chosen(i, 1), lambda i: sample(i, 1), [none], gradients=False,
             fault="zeros of shape (batch, 1) are returned, whatever the index of the candidate is", seen=r"output 0 has shape \(\d, 1\)",
             shows=lambda: (sample(torch.zeros(3, dtype=torch.int64), 1)[1].item(), 3)),
    ]  # fmt: skip


def bitsandbytes():
    kernels = module("bitsandbytes.backends.triton.kernels_8bit_quant")
    code = torch.linspace(-1, 1, 256) ** 3
    block = 64

    def quantized(x):
        blocks = F.pad(x, (0, -len(x) % block)).view(-1, block)
        largest = blocks.abs().amax(-1)
        codes = (blocks / largest[:, None]).flatten()[: len(x)]
        return (codes[:, None] - code.to(x.dtype)).abs().argmin(-1).to(torch.uint8), largest

    def dequantized(i, largest):
        return code.to(largest.dtype)[i.long()] * largest.repeat_interleave(block)[: len(i)]

    flat, byte = drawn(size("n", 1, 300), values=("normal", "small")), indices((size("n", 193, 256),), below=size("codes", 256, 256))
    return [
        Case("quantize_blockwise", quantized, lambda x: kernels.quantize_blockwise_triton(x, code, block), [flat], gradients=False),
        Case("dequant_8bit_blockwise", dequantized,
             lambda i, a: kernels.dequant_8bit_blockwise(i.to(torch.uint8), a, code, block, F32), [byte, drawn(4)], gradients=False),
    ]  # fmt: skip


# ---- training --------------------------------------------------------------------------------------------------------------------


def mamba():
    absent("einops")
    triton = "mamba_ssm.ops.triton"
    module("mamba_ssm.utils.determinism")
    module(f"{triton}.softplus")
    swiglu = module(f"{triton}.k_activations").swiglu
    layernorm = module(f"{triton}.layernorm_gated").layernorm_fn
    update = module(f"{triton}.selective_state_update").selective_state_update

    def gated(before):
        def norm(x, w, b, z):
            x = x if before else x * F.silu(z)
            y = F.layer_norm(x, x.shape[-1:], w, b, 1e-6)
            return y * F.silu(z) if before else y

        return norm, lambda x, w, b, z: layernorm(x, w, b, z=z, norm_before_gate=before)

    def step(state, x, dt, a, b, c, d=None, bias=None):
        dt = dt if bias is None else dt + bias
        state = state * (dt[..., None] * a).exp() + (dt * x)[..., None] * b[:, None]
        out = (state * c[:, None]).sum(-1)
        return out if d is None else out + x * d, state

    def stepped(state, x, dt, a, b, c, d=None, bias=None):
        state = state.clone()
        return update(state, x, dt, a, b, c, D=d, dt_bias=bias), state

    batch, dim, depth = size("batch", 1, 3), size("dim", 1, 40), size("depth", 1, 20)
    shapes = (batch, dim, depth), (batch, dim), (batch, dim), (dim, depth), (batch, depth), (batch, depth), (dim,), (dim,)
    args = [drawn(*s, values=("normal", "small")) for s in shapes]
    columns = size("columns", 2, 70)
    wide, gate = (drawn(ROWS, columns, values=v) for v in (("normal", "offset"), "normal"))
    weight = drawn(columns, values="normal")
    return [
        Case("swiglu", glu, swiglu, [drawn(ROWS, 34, layouts=APART)]),
        *undefined_lanes(Case("layernorm_fn", *gated(True), [wide, weight, weight, gate]), M, ONES, ONES, M),
        *undefined_lanes(Case("layernorm_fn, gate first", *gated(False), [gate, weight, weight, gate]), M, ONES, ONES, M),
        Case("selective_state_update", step, stepped, args, gradients=False),
        Case("selective_state_update, without D", step, stepped, args[:6], gradients=False,
             fault="`*(...) if D is not None else 0` unpacks a number: the defaults end in a TypeError (mamba PR 912)",
             seen="NoneType|after \\* must be an iterable"),
    ]  # fmt: skip


def applied_ai():
    softmax = module("kernels.triton.training.fused_softmax.softmax").fused_softmax
    norm = module("kernels.triton.training.rms_norm.fused_rms_norm").fused_rms_norm_fn

    def reference(x):
        return x.softmax(-1)

    def slope():
        x = M.clone().requires_grad_()
        weights = torch.arange(6.0).view(2, 3)
        return tuple(torch.autograd.grad(f(x), x, weights)[0][0, 2].item() for f in (softmax, reference))

    return [
        Case("fused_softmax, forward", reference, softmax, [drawn(ROWS, COLUMNS)], gradients=False),
        Case("fused_softmax", reference, softmax, [drawn(ROWS, size("columns", 2, 70), values="normal")], shows=slope,
             fault="the backward gives its kernel the probabilities as gradients and the gradients as probabilities",
             seen="gradient of argument 0: "),
        Case("fused_softmax, transposed", reference, softmax, [drawn(ROWS, COLUMNS, values="normal", layouts="transposed")],
             gradients=False, fault="view() keeps the stride along a row, and the kernel ignores it", seen=STRIDE_SEEN,
             shows=at((1, 0), softmax, reference, TURNED)),
        Case("fused_rms_norm", rms_norm, lambda x, w: norm(x, w, 1e-5),
             [drawn(ROWS, COLUMNS, layouts=APART), drawn(COLUMNS, values="normal")]),
    ]  # fmt: skip


def xformers():
    module("xformers.triton.importing")
    norm = module("xformers.ops._triton.rmsnorm_kernels")._rms_norm_forward
    forward = module("xformers.ops._triton.k_index_select_cat").index_select_cat_fwd

    def picked(x, i):
        return x[i]

    def pick(x, i):
        return forward(x.new_empty(len(i), x.shape[1]), x, i)

    def apart():
        """Every other column: what is written lies two columns apart, too."""
        x, i, memory = torch.arange(24.0).view(3, 8)[:, ::2], torch.tensor([2, 0]), torch.full((16,), -1.0)
        with interpreted_kernels(sanitize=False, order=None):
            forward(memory[:8].view(2, 4), x, i)
        return memory[8:].max().item(), -1.0

    few = indices((3,), below=size("rows", 4, 9))
    return [
        Case("_rms_norm_forward", rms_norm, lambda x, w: norm(x, w, 1e-5), [drawn(ROWS, COLUMNS), drawn(COLUMNS, values="normal")],
             gradients=False),
        Case("index_select_cat", picked, pick, [drawn(size("rows", 4, 9), COLUMNS), few], gradients=False),
        Case("index_select_cat, rows apart", picked, pick, [drawn(size("rows", 4, 9), COLUMNS, layouts="rows"), few], gradients=False,
             fault="the output, which is contiguous, is written with the strides of the source: beyond its end, too",
             seen=f"{STRIDE_SEEN}|out-of-bounds store|never written", shows=apart),
    ]  # fmt: skip


def flash_attention():
    loss = module("flash_attn.ops.triton.cross_entropy").cross_entropy_loss

    def smoothed(x, t):
        return F.cross_entropy(x, t, label_smoothing=0.1, reduction="none")

    words = size("words", 1, 70)
    logits = drawn(ROWS, words, values=("normal", "small", "offset"), layouts=APART)  # exp(x - lse) has the rounding of a large lse
    return [Case("cross_entropy_loss", smoothed, lambda x, t: loss(x, t, label_smoothing=0.1)[0], [logits, indices((ROWS,), below=words)])]


LIBRARIES = {f.__name__: f for f in (lightllm, lmdeploy, bitsandbytes, mamba, applied_ai, xformers, flash_attention)}
