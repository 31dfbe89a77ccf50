"""unsloth/kernels: what its fine-tuning puts in the place of layers of transformers."""

import os
import sys
from pathlib import Path

import torch
from torch.nn import functional as F

from eqfuse.testing import indices, size, tensors

from .case import STRIDE_SEEN, Case, absent, package
from .liger import angles, rms_norm, rope

CLOSE = ("contiguous",)


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w.detach(), b.detach(), 1e-5)


def cross_entropy(x, t):
    return F.cross_entropy(x.flatten(0, 1), t.flatten())


def capped(x, t):
    return F.cross_entropy(20 * torch.tanh(x.flatten(0, 1) / 20), t.flatten())


def cases():
    os.environ["UNSLOTH_ALLOW_CPU"] = "1"
    root = next(Path(p) for p in sys.path if (Path(p) / "unsloth" / "kernels").is_dir()) / "unsloth"
    absent(
        "unsloth_zoo.utils",
        "unsloth_zoo.log",
        "unsloth_zoo.temporary_patches.common",
        "unsloth_zoo.loss_utils",
        "unsloth_zoo.patching_utils",
        "unsloth_zoo.device_type",
        "transformers.models.llama.modeling_llama",
        "bitsandbytes",
    )
    from packaging.version import Version

    sys.modules["unsloth_zoo.utils"].Version = Version
    package("unsloth", root)
    package("unsloth.kernels", root / "kernels")
    from unsloth.kernels import geglu, swiglu
    from unsloth.kernels.cross_entropy_loss import fast_cross_entropy_loss
    from unsloth.kernels.fp8 import act_quant, weight_dequant_block
    from unsloth.kernels.layernorm import Fast_Layernorm
    from unsloth.kernels.rms_layernorm import Fast_RMS_Layernorm
    from unsloth.kernels.rope_embedding import fast_rope_embedding

    f32 = torch.float32
    rows, columns = size("rows", 1, 9), size("columns", 1, 70)
    x = tensors(
        f32,
        (rows, columns),
        values=("normal", "small", "offset", "large", "equal"),
        layouts=("contiguous", "offset", "rows", "expanded"),
    )
    w = tensors(f32, (columns,), values="normal", layouts=CLOSE)
    for gemma in (False, True):

        def reference(x, w, gemma=gemma):
            return rms_norm(x, w.detach(), 1e-6, 1.0 * gemma)

        def theirs(x, w, gemma=gemma):
            return Fast_RMS_Layernorm.apply(x, w.detach(), 1e-6, gemma)

        def one(f=theirs, g=reference):
            m, ones = torch.arange(6.0).view(3, 2).T, torch.ones(3)
            return f(m, ones)[1, 0].item(), g(m, ones)[1, 0].item()

        name = "rms_layernorm" + ", gemma" * gemma
        yield Case(name, reference, theirs, [x, w])
        yield Case(
            f"{name}, transposed",
            reference,
            theirs,
            [tensors(f32, (rows, columns), values="normal", layouts="transposed"), w],
            fault="a matrix that is transposed is not copied by reshape(), and its stride along the row is ignored",
            seen=STRIDE_SEEN,
            shows=one,
        )
    wide = tensors(f32, (rows, size("columns", 2, 70)), values=("normal", "small", "offset"), layouts=CLOSE)
    both = tensors(f32, (size("columns", 2, 70),), values="normal", layouts=CLOSE)
    yield Case("layernorm", layer_norm, lambda x, w, b: Fast_Layernorm.apply(x, w.detach(), b.detach(), 1e-5), [wide, both, both])
    batch, length, v = size("batch", 1, 3), size("length", 1, 5), size("vocab", 2, 40)
    logits, labels = (
        tensors(f32, (batch, length, v), values=("normal", "offset", "large"), layouts=CLOSE),
        indices((batch, length), below=v),
    )
    yield Case("cross_entropy_loss", cross_entropy, lambda x, t: fast_cross_entropy_loss(x.clone(), t), [logits, labels])
    yield Case("cross_entropy_loss, softcap", capped, lambda x, t: fast_cross_entropy_loss(x.clone(), t, 20), [logits, labels])
    big = size("vocab", 65537, 65560)
    yield Case(
        "cross_entropy_loss, in chunks",
        cross_entropy,
        lambda x, t: fast_cross_entropy_loss(x.clone(), t),
        [tensors(f32, (1, 2, big), values="normal", layouts=CLOSE), indices((1, 2), below=big)],
        examples=2,
    )
    q, k = (tensors(f32, (2, heads, size("length", 2, 6), 8), values="normal", layouts=CLOSE) for heads in (4, 2))
    yield Case(
        "rope_embedding",
        lambda q, k: rope(q, k, *angles(q.shape[2], 8)),
        lambda q, k: fast_rope_embedding(q.clone(), k.clone(), *angles(q.shape[2], 8)),
        [q, k],
    )
    at = indices((2, size("length", 2, 6)), below=6)

    def indexed(q, k, i):
        cos, sin = (a[0][i] for a in angles(6, 8))
        return rope(q, k, cos, sin)

    yield Case(
        "rope_embedding, positions",
        indexed,
        lambda q, k, i: fast_rope_embedding(q.clone(), k.clone(), *angles(6, 8), i),
        [q, k, at],
    )
    cube = tensors(f32, (batch, length, columns), values=("normal", "small", "large"), layouts=CLOSE)
    for name, module, act in (
        ("swiglu_fg", swiglu.swiglu_fg_kernel, F.silu),
        ("geglu_exact", geglu.geglu_exact_forward_kernel, F.gelu),
        ("geglu_approx", geglu.geglu_approx_forward_kernel, lambda e: F.gelu(e, approximate="tanh")),
    ):
        yield Case(name, lambda e, g, act=act: act(e) * g, module, [cube, cube], gradients=False)
    backwards = {
        "swiglu_DWf_DW_dfg": (swiglu.swiglu_DWf_DW_dfg_kernel, F.silu),
        "geglu_exact_backward": (geglu.geglu_exact_backward_kernel, F.gelu),
        "geglu_approx_backward": (geglu.geglu_approx_backward_kernel, lambda e: F.gelu(e, approximate="tanh")),
    }
    for name, (kernel, act) in backwards.items():

        def derivatives(d, e, g, act=act):
            """h, df = d · f, and the gradient of e, in the order in which the kernel leaves them in its arguments."""
            e = e.detach().requires_grad_()
            with torch.enable_grad():
                f = act(e)
                (slope,) = torch.autograd.grad(f, e, d * g)
            return f.detach() * g, d * f.detach(), slope

        yield Case(
            name,
            derivatives,
            lambda d, e, g, k=kernel: k(d.clone(), e.clone(), g.clone()),
            [x2(rows, columns)] * 3,
            gradients=False,
        )
    blocks = tensors(f32, (size("m", 1, 3), size("n", 1, 2)), values="normal", layouts=CLOSE)
    yield Case(
        "weight_dequant_block",
        lambda s: s.repeat_interleave(16, 0).repeat_interleave(16, 1) * 3,
        lambda s: weight_dequant_block(torch.full((16 * s.shape[0], 16 * s.shape[1]), 3.0), s.contiguous(), 16, f32),
        [blocks],
        gradients=False,
    )
    del act_quant


def x2(rows, columns):
    return tensors(torch.float32, (rows, columns), values=("normal", "small"), layouts=CLOSE)
