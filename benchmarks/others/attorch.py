"""attorch: layers of torch.nn in Triton."""

import torch
from torch import nn
from torch.nn import functional as F

from eqfuse.testing import indices, size, tensors

from .case import Case

TAME = ("normal", "small", "offset", "equal")  # activation functions are not differentiable at ties of their kinks
FINITE = ("normal", "small", "tiny", "offset", "zeros", "equal")
CLOSE = ("contiguous",)

ACTIVATIONS = {
    "Sigmoid": nn.Sigmoid(), "LogSigmoid": nn.LogSigmoid(), "Tanh": nn.Tanh(), "ReLU": nn.ReLU(), "GELU": nn.GELU(), "SiLU": nn.SiLU(),
    "ReLU6": nn.ReLU6(), "Hardsigmoid": nn.Hardsigmoid(), "Hardtanh": nn.Hardtanh(), "Hardswish": nn.Hardswish(), "SELU": nn.SELU(),
    "Mish": nn.Mish(), "Softplus": nn.Softplus(), "Softsign": nn.Softsign(), "Tanhshrink": nn.Tanhshrink(), "LeakyReLU": nn.LeakyReLU(),
    "ELU": nn.ELU(), "CELU": nn.CELU(), "Hardshrink": nn.Hardshrink(), "Softshrink": nn.Softshrink(),
}  # fmt: skip


def batch_norm_relu(x, w, b, a):
    return F.relu(F.batch_norm(x, None, None, w, b, training=True) + a)


def linear_gelu(x, w, b):
    return F.gelu(x @ w + b)


def conv(x, w, b):
    return F.conv2d(x, w, b, stride=(2, 1), padding=(1, 1), groups=2)


def cases():
    import attorch
    from attorch.batch_norm_layer import BatchNormAutoGrad
    from attorch.conv_layer import Conv2dAutoGrad
    from attorch.cross_entropy_loss_layer import CrossEntropyLossAutoGrad
    from attorch.layer_norm_layer import LayerNormAutoGrad
    from attorch.linear_layer import LinearAutoGrad
    from attorch.multi_head_attention_kernels import _attention
    from attorch.nll_loss_layer import NLLLossAutoGrad
    from attorch.rms_norm_layer import RMSNormAutoGrad

    rows, columns, c = size("rows", 1, 9), size("columns", 1, 70), size("c", 1, 6)
    x = tensors(torch.float32, (rows, columns), values=TAME, layouts=CLOSE)
    matrix = tensors(torch.float32, (rows, columns), values=FINITE)
    label = indices((rows,), below=columns)

    for name, reference in ACTIVATIONS.items():
        yield Case(name, reference, getattr(attorch, name)(), [x], examples=6)
    for act in ("sigmoid", "silu", "gelu"):
        apply = {"sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu}[act]
        yield Case(
            f"GLU {act}", lambda x, apply=apply: x.chunk(2, -1)[0] * apply(x.chunk(2, -1)[1]), attorch.GLU(act_func=act),
            [tensors(torch.float32, (rows, 34), values=TAME)],
        )  # fmt: skip
    yield Case("Softmax", nn.Softmax(-1), attorch.Softmax(-1), [matrix])
    yield Case("LogSoftmax", nn.LogSoftmax(-1), attorch.LogSoftmax(-1), [matrix])
    yield Case("Softmin", nn.Softmin(-1), attorch.Softmin(-1), [matrix])
    yield Case("Dropout p=0", lambda x: x * 1, attorch.Dropout(0.0), [matrix])
    yield Case("Dropout in evaluation", lambda x: x * 1, attorch.Dropout(0.3).eval(), [matrix])

    normal = tensors(torch.float32, (rows, size("columns", 2, 70)), values=("normal", "offset", "small"))
    wide = tensors(torch.float32, (size("columns", 2, 70),), values="normal")
    yield Case("LayerNorm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), LayerNormAutoGrad.apply, [normal, wide, wide])
    yield Case("RMSNorm", lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), lambda x, w: RMSNormAutoGrad.apply(x, w, 1e-6), [normal, wide])
    bx = tensors(torch.float32, (size("batch", 2, 5), c, size("length", 1, 9)), values="normal")
    bw = tensors(torch.float32, (c,), values="normal")
    yield Case(
        "BatchNorm training", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: BatchNormAutoGrad.apply(x, True, w, b, None, None, 0.1, 1e-5, False, None, None), [bx, bw, bw],
    )  # fmt: skip
    yield Case(
        "BatchNorm training, added and ReLU", batch_norm_relu,
        lambda x, w, b, a: BatchNormAutoGrad.apply(x, True, w, b, None, None, 0.1, 1e-5, False, a, "relu"), [bx, bw, bw, bx],
    )  # fmt: skip
    square = tensors(torch.float32, (size("k", 1, 40), size("n", 1, 40)), values="normal")
    left, bias = tensors(torch.float32, (rows, size("k", 1, 40)), values="normal"), tensors(torch.float32, (size("n", 1, 40),), values="normal")
    yield Case("Linear", lambda x, w, b: x @ w + b, LinearAutoGrad.apply, [left, square, bias], examples=5)
    yield Case("Linear GELU", linear_gelu, lambda x, w, b: LinearAutoGrad.apply(x, w, b, "gelu"), [left, square, bias], examples=5)
    image = tensors(torch.float32, (size("batch", 1, 2), 4, size("height", 3, 7), size("width", 3, 7)), values="normal", layouts=CLOSE)
    kernel, shift = tensors(torch.float32, (6, 2, 3, 3), values="normal", layouts=CLOSE), tensors(torch.float32, (6,), values="normal")
    yield Case("Conv2d", conv, lambda x, w, b: Conv2dAutoGrad.apply(x, w, b, 2, 1, 1, 1, 2), [image, kernel, shift], examples=5)

    yield Case("CrossEntropyLoss", F.cross_entropy, CrossEntropyLossAutoGrad.apply, [matrix, label])
    positive = tensors(torch.float32, (columns,), values="normal").map(lambda w: w.abs() + 0.1)
    yield Case(
        "CrossEntropyLoss weighted", lambda x, t, w: F.cross_entropy(x, t, w.detach()),
        lambda x, t, w: CrossEntropyLossAutoGrad.apply(x, t, w.detach()), [matrix, label, positive],
    )  # fmt: skip
    for reduction in ("none", "mean", "sum"):
        yield Case(
            f"NLLLoss {reduction}", lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r),
            lambda x, t, r=reduction: NLLLossAutoGrad.apply(x, t, r), [matrix, label],
        )  # fmt: skip
    other = tensors(torch.float32, (rows, columns), values="normal")
    losses = {
        "L1Loss": (F.l1_loss, attorch.L1Loss), "MSELoss": (F.mse_loss, attorch.MSELoss),
        "SmoothL1Loss": (F.smooth_l1_loss, attorch.SmoothL1Loss), "HuberLoss": (F.huber_loss, attorch.HuberLoss),
    }  # fmt: skip
    for name, (reference, layer) in losses.items():
        for reduction in ("none", "mean", "sum"):
            yield Case(
                f"{name} {reduction}", lambda x, y, f=reference, r=reduction: f(x, y, reduction=r), layer(reduction=reduction),
                [other, tensors(torch.float32, (rows, columns), values=("normal", "large"))], examples=6,
            )  # fmt: skip
    head = tensors(torch.float32, (1, 2, 128, 16), values="normal", layouts=CLOSE)
    for causal in (False, True):
        yield Case(
            f"attention{' causal' * causal}", lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c, scale=0.5),
            lambda q, k, v, c=causal: _attention.apply(q, k, v, c, 0.5, False), [head, head, head], examples=2,
        )  # fmt: skip
