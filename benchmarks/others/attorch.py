"""attorch: layers of torch.nn in Triton."""

import torch
from torch import nn
from torch.nn import functional as F

from eqfuse.testing import indices, size, tensors

from .case import STRIDE_SEEN, Case, undefined_lanes

TAME = ("normal", "small", "offset", "equal")  # activation functions are not differentiable at ties of their kinks
FINITE = ("normal", "small", "tiny", "offset", "zeros", "equal")
CLOSE = ("contiguous",)

ACTIVATIONS = {
    "Sigmoid": nn.Sigmoid(),
    "LogSigmoid": nn.LogSigmoid(),
    "Tanh": nn.Tanh(),
    "ReLU": nn.ReLU(),
    "GELU": nn.GELU(),
    "SiLU": nn.SiLU(),
    "ReLU6": nn.ReLU6(),
    "Hardsigmoid": nn.Hardsigmoid(),
    "Hardtanh": nn.Hardtanh(),
    "Hardswish": nn.Hardswish(),
    "SELU": nn.SELU(),
    "Mish": nn.Mish(),
    "Softplus": nn.Softplus(),
    "Softsign": nn.Softsign(),
    "Tanhshrink": nn.Tanhshrink(),
    "LeakyReLU": nn.LeakyReLU(),
    "ELU": nn.ELU(),
    "CELU": nn.CELU(),
    "Hardshrink": nn.Hardshrink(),
    "Softshrink": nn.Softshrink(),
}


def batch_norm_relu(x, w, b, a):
    return F.relu(F.batch_norm(x, None, None, w, b, training=True) + a)


def linear_gelu(x, w, b):
    return F.gelu(x @ w + b)


def kept(y, x):
    """Dropped elements filled in."""
    return torch.where(y != 0, y, x / 0.7)


def absolute(x, y):
    return F.l1_loss(x, y, reduction="none")


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

    flat = "flatten() of a column is a view, whose stride the kernel does not know: it reads what lies between"
    near = "exp(x) - 1, or 2 sigmoid(2x) - 1, near 0: the error is that of 1, not of the result"

    def column(layer, reference):
        """A column of a matrix, and the wrong element."""
        m = torch.arange(8.0).view(4, 2)[:, :1]
        return layer(m)[1].item(), reference(m)[1].item()

    def small(layer, reference):
        m = torch.tensor([-1.23e-4])
        return layer(m).item(), reference(m.double()).item()

    def large(layer, reference):
        """The value at 200, or, if that is right, the slope."""

        def both(function):
            m = torch.tensor([200.0], requires_grad=True)
            y = function(m)
            return y.item(), torch.autograd.grad(y, m)[0].item()

        (y, slope), (right, right_slope) = both(layer), both(reference)
        return (slope, right_slope) if y == right else (y, right)

    columns_of = tensors(torch.float32, (size("rows", 2, 9), 1), values="normal", layouts=("rows",))
    for name, reference in ACTIVATIONS.items():
        layer = getattr(attorch, name)()
        loses = name in ("Tanh", "Tanhshrink", "ELU", "CELU", "SELU")
        overflows = name in ("Softplus", "Mish")
        yield Case(
            name,
            reference,
            layer,
            [tensors(torch.float32, (rows, size("columns", 9, 70)), values="normal", layouts=CLOSE) if loses or overflows else x],
            examples=6,
        )
        if overflows:
            yield Case(
                f"{name}, large numbers",
                reference,
                layer,
                [tensors(torch.float32, (rows, columns), values="offset", layouts=CLOSE)],
                fault="exp(x) overflows: torch takes x itself above 20",
                seen="is not finite where it should be|are not finite where they should be",
                shows=lambda a=layer, b=reference: large(a, b),
            )
        if loses:
            yield Case(
                f"{name}, small numbers",
                reference,
                layer,
                [tensors(torch.float32, (rows, columns), values="small", layouts=CLOSE)],
                fault=near,
                seen=r"output 0: error \S+ exceeds",
                shows=lambda a=layer, b=reference: small(a, b),
            )
    for name in ("Sigmoid", "GELU"):
        layer, reference = getattr(attorch, name)(), ACTIVATIONS[name]
        yield Case(
            f"{name}, a column",
            reference,
            layer,
            [columns_of],
            fault=flat,
            seen=STRIDE_SEEN,
            shows=lambda a=layer, b=reference: column(a, b),
        )
    for act in ("sigmoid", "silu", "gelu"):
        apply = {"sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu}[act]
        yield Case(
            f"GLU {act}",
            lambda x, apply=apply: x.chunk(2, -1)[0] * apply(x.chunk(2, -1)[1]),
            attorch.GLU(act_func=act),
            [tensors(torch.float32, (rows, 34), values=TAME)],
        )
    for name, layer in (("Softmax", nn.Softmax), ("LogSoftmax", nn.LogSoftmax), ("Softmin", nn.Softmin)):
        yield from undefined_lanes(Case(name, layer(-1), getattr(attorch, name)(-1), [matrix]), torch.arange(6.0).view(2, 3) / 4)
    yield Case(
        "Dropout, what is kept",
        lambda x: (x + 10) / 0.7,
        lambda x: kept(attorch.Dropout(0.3)(x + 10), x + 10),
        [tensors(torch.float32, (rows, columns), values="normal", layouts=CLOSE)],
    )

    normal = tensors(torch.float32, (rows, size("columns", 2, 70)), values=("normal", "offset", "small"))
    wide = tensors(torch.float32, (size("columns", 2, 70),), values="normal", layouts=CLOSE)  # a parameter
    m, ones = torch.arange(6.0).view(2, 3), torch.ones(3)
    yield from undefined_lanes(
        Case("LayerNorm", lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), LayerNormAutoGrad.apply, [normal, wide, wide]),
        m,
        ones,
        ones,
    )
    yield from undefined_lanes(
        Case(
            "RMSNorm",
            lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6),
            lambda x, w: RMSNormAutoGrad.apply(x, w, 1e-6),
            [normal, wide],
        ),
        m,
        ones,
    )
    bx = tensors(torch.float32, (size("batch", 2, 5), c, size("length", 1, 9)), values="normal")
    bw = tensors(torch.float32, (c,), values="normal", layouts=CLOSE)
    three = torch.arange(12.0).view(2, 2, 3).sin()
    yield from undefined_lanes(
        Case(
            "BatchNorm training",
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
            lambda x, w, b: BatchNormAutoGrad.apply(x, True, w, b, None, None, 0.1, 1e-5, False, None, None),
            [bx, bw, bw],
        ),
        three,
        torch.ones(2),
        torch.zeros(2),
    )

    def norm_relu(x, w, b, a):
        return BatchNormAutoGrad.apply(x, True, w, b, None, None, 0.1, 1e-5, False, a, "relu")

    def gradient_of_transposed():
        def of(function):
            m = three.transpose(0, 2).contiguous().transpose(0, 2).requires_grad_()
            y = function(m, torch.ones(2), torch.zeros(2), three)
            return torch.autograd.grad(y, m, torch.arange(12.0).view(2, 2, 3))[0][0, 0, 1].item()

        return of(norm_relu), of(batch_norm_relu)

    close, turned = (
        tensors(torch.float32, (size("batch", 2, 5), c, size("length", 1, 9)), values="normal", layouts=k)
        for k in ("contiguous", "transposed")
    )
    yield from undefined_lanes(
        Case("BatchNorm training, added and ReLU", batch_norm_relu, norm_relu, [close, bw, bw, close]),
        three,
        torch.ones(2),
        torch.zeros(2),
        three,
    )
    yield Case(
        "BatchNorm training, added and ReLU, transposed",
        batch_norm_relu,
        norm_relu,
        [turned, bw, bw, close],
        options={"sanitize": False},
        fault="what the activation's gradient reads in order has the strides of the input",
        seen=rf"gradient of argument \d: error.*\n.*{STRIDE_SEEN}",
        shows=gradient_of_transposed,
    )
    square = tensors(torch.float32, (size("k", 1, 40), size("n", 1, 40)), values="normal")
    left = tensors(torch.float32, (rows, size("k", 1, 40)), values="normal")
    bias = tensors(torch.float32, (size("n", 1, 40),), values="normal", layouts=CLOSE)
    ones = torch.ones(3, 5), torch.ones(5, 2), torch.zeros(2)
    yield from undefined_lanes(Case("Linear", lambda x, w, b: x @ w + b, LinearAutoGrad.apply, [left, square, bias], examples=5), *ones)
    yield from undefined_lanes(
        Case("Linear GELU", linear_gelu, lambda x, w, b: LinearAutoGrad.apply(x, w, b, "gelu"), [left, square, bias], examples=5),
        *ones,
    )
    image = tensors(torch.float32, (size("batch", 1, 2), 4, size("height", 3, 7), size("width", 3, 7)), values="normal", layouts=CLOSE)
    kernel, shift = (
        tensors(torch.float32, (6, 2, 3, 3), values="normal", layouts=CLOSE),
        tensors(torch.float32, (6,), values="normal", layouts=CLOSE),
    )
    yield from undefined_lanes(
        Case("Conv2d", conv, lambda x, w, b: Conv2dAutoGrad.apply(x, w, b, 2, 1, 1, 1, 2), [image, kernel, shift], examples=5),
        torch.ones(1, 4, 5, 5),
        torch.ones(6, 2, 3, 3),
        torch.zeros(6),
    )

    yield Case("CrossEntropyLoss", F.cross_entropy, CrossEntropyLossAutoGrad.apply, [matrix, label])
    positive = tensors(torch.float32, (columns,), values="normal").map(lambda w: w.abs() + 0.1)
    yield Case(
        "CrossEntropyLoss weighted",
        lambda x, t, w: F.cross_entropy(x, t, w.detach()),
        lambda x, t, w: CrossEntropyLossAutoGrad.apply(x, t, w.detach()),
        [matrix, label, positive],
    )
    for reduction in ("none", "mean", "sum"):
        yield Case(
            f"NLLLoss {reduction}",
            lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r),
            lambda x, t, r=reduction: NLLLossAutoGrad.apply(x, t, r),
            [matrix, label],
        )
    one, two = (tensors(torch.float32, (rows, columns), values=v, layouts=CLOSE) for v in ("normal", ("normal", "large")))
    losses = {
        "L1Loss": (F.l1_loss, attorch.L1Loss),
        "MSELoss": (F.mse_loss, attorch.MSELoss),
        "SmoothL1Loss": (F.smooth_l1_loss, attorch.SmoothL1Loss),
        "HuberLoss": (F.huber_loss, attorch.HuberLoss),
    }
    for name, (reference, layer) in losses.items():
        for reduction in ("none", "mean", "sum"):
            case = Case(
                f"{name} {reduction}",
                lambda x, y, f=reference, r=reduction: f(x, y, reduction=r),
                layer(reduction=reduction),
                [one, two],
                examples=6,
            )
            yield from [case] if reduction == "none" else undefined_lanes(case, torch.arange(6.0).view(2, 3), torch.ones(2, 3))
    yield Case(
        "L1Loss none, columns",
        absolute,
        attorch.L1Loss(reduction="none"),
        [columns_of, columns_of],
        fault=flat,
        seen=STRIDE_SEEN,
        shows=lambda: column(lambda m: attorch.L1Loss(reduction="none")(m, 0 * m), torch.abs),
    )
    head = tensors(torch.float32, (1, 2, 128, 16), values="normal", layouts=CLOSE)
    for causal in (False, True):
        yield Case(
            f"attention{' causal' * causal}",
            lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c, scale=0.5),
            lambda q, k, v, c=causal: _attention.apply(q, k, v, c, 0.5, False),
            [head, head, head],
            examples=2,
        )
