"""Liger-Kernel: losses, norms, activations, positions and attention for training language models."""

import torch
from torch.nn import functional as F

from eqfuse.testing import indices, size, tensors

from .case import STRIDE_SEEN, Case, absent

CLOSE = ("contiguous",)  # parameters, and what a caller makes for the kernel alone
ROWS = ("normal", "small", "offset", "large", "equal")


def rms_norm(x, w, eps=1e-5, offset=0.0):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * (w + offset)


def group_norm(x, w, b):
    return F.group_norm(x, 2, w, b, 1e-5)


def poly_norm(x, w, b, eps=1e-6):
    def norm(u):
        return u * torch.rsqrt((u * u).mean(-1, keepdim=True) + eps)

    return w[0] * norm(x**3) + w[1] * norm(x**2) + w[2] * norm(x) + b


def rotated(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


def rope(q, k, cos, sin):
    c, s = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * c + rotated(q) * s, k * c + rotated(k) * s


def angles(length, dim, batch=1):
    at = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, dim, 2) / dim)
    at = torch.cat([at, at], -1)
    return at.cos().expand(batch, -1, -1).contiguous(), at.sin().expand(batch, -1, -1).contiguous()


def mrope(q, k, angle, section):
    """Positions of three kinds, which take turns along the features."""

    def chosen(x):
        return torch.cat([part[i % 3] for i, part in enumerate(x.split([*section, *section], -1))], -1).unsqueeze(1)

    c, s = chosen(angle.cos()), chosen(angle.sin())
    return q * c + rotated(q) * s, k * c + rotated(k) * s


def llama4_rope(q, k, angle):
    def turned(x):
        a, b = x[..., ::2], x[..., 1::2]
        c, s = angle.cos()[:, None], angle.sin()[:, None]
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)

    return turned(q), turned(k)


def jsd(x, y, beta):
    """Both are logarithms of probabilities; x is the student."""
    p, q = x.exp(), y.exp()
    if beta == 0.0:
        return (q * (y - x)).sum() / x.shape[0]
    if beta == 1.0:
        return (p * (x - y)).sum() / x.shape[0]
    m = (beta * q + (1 - beta) * p).log()
    return (beta * q * (y - m) + (1 - beta) * p * (x - m)).sum() / x.shape[0]


def smoothed_cross_entropy(x, t):
    return F.cross_entropy(x, t, label_smoothing=0.1, reduction="sum")


def capped_cross_entropy(x, t):
    return F.cross_entropy(30 * torch.tanh(x / 30), t)


def cross_entropy_z(x, t):
    return F.cross_entropy(x, t) + 1e-2 * (x.logsumexp(-1) ** 2).mean()


def linear_cross_entropy(x, w, t, b):
    return F.cross_entropy(x @ w.T + b, t)


def linear_jsd(x, w, y, v):
    return jsd((x @ w.T).log_softmax(-1), (y @ v.T).log_softmax(-1), 0.5)


def sparsemax(x):
    z = x.sort(-1, descending=True).values
    sums, k = z.cumsum(-1), torch.arange(1, x.shape[-1] + 1)
    support = 1 + k * z > sums
    count = support.sum(-1, keepdim=True)
    return (x - ((z * support).sum(-1, keepdim=True) - 1) / count).clamp(min=0)


def neighborhood(q, k, v, kernel, dilation):
    at = torch.arange(q.shape[-2])
    apart = at[:, None] - at
    near = (apart.abs() <= kernel // 2 * dilation) & (apart % dilation == 0)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=near)


def multi_token(scores, w, b):
    n = scores.shape[-1]
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    p = scores.masked_fill(~seen, -1e9).softmax(-1)
    return F.conv2d(p, w, b, padding=w.shape[-1] // 2).masked_fill(~seen, 0.0)


def residuals(v, query, norm):
    """Attention over the blocks of a network: v is (blocks, batch, time, features)."""
    keys = v * torch.rsqrt((v * v).mean(-1, keepdim=True) + 1e-6) * norm
    return ((keys @ query).softmax(0).unsqueeze(-1) * v).sum(0)


def experts(x, up, down, index, weight):
    one = F.one_hot(index.long(), up.shape[0]).to(x.dtype) * weight[..., None]
    gate, value = torch.einsum("th,eih->tei", x, up).chunk(2, -1)
    return torch.einsum("tei,ehi,te->th", F.silu(gate) * value, down, one.sum(1))


def sinkhorn(logits, rounds, eps):
    m = logits.softmax(-1) + eps
    m = m / (m.sum(-2, keepdim=True) + eps)
    for _ in range(rounds - 1):
        m = m / (m.sum(-1, keepdim=True) + eps)
        m = m / (m.sum(-2, keepdim=True) + eps)
    return m


def coefficients(x, phi, b, pre, post, res):
    n, lanes, c = x.shape
    flat = x.reshape(n, lanes * c)
    mix = flat @ phi * torch.rsqrt((flat * flat).mean(-1, keepdim=True) + 1e-6)
    first, second, third = mix.split([lanes, lanes, lanes * lanes], -1)
    rest = (third * res + b[2 * lanes :]).view(n, lanes, lanes)
    return (
        torch.sigmoid(first * pre + b[:lanes]),
        2 * torch.sigmoid(second * post + b[lanes : 2 * lanes]),
        sinkhorn(rest, 3, 1e-6),
    )


def grpo(logits, old, ref, ids, gain, low=0.2, high=0.2, beta=0.04, temperature=0.9):
    logp = (logits[:, :-1] / temperature).log_softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    ratio = (logp - old.detach()).exp()
    loss = -torch.min(ratio * gain.detach()[:, None], ratio.clamp(1 - low, 1 + high) * gain.detach()[:, None])
    drift = (ref.detach() - logp).exp() - (ref.detach() - logp) - 1
    return loss + beta * drift


def cases():
    absent("transformers")
    from liger_kernel import ops
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction
    from liger_kernel.ops.grpo_loss import GrpoLossFunction
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    f32, half = torch.float32, (torch.float16, torch.bfloat16, torch.float32)
    rows, columns = size("rows", 1, 9), size("columns", 1, 70)
    x, y = (tensors(half, (rows, columns), values=ROWS) for _ in range(2))
    single = tensors(f32, (rows, columns), values=ROWS)
    w = tensors(f32, (columns,), values="normal", layouts=CLOSE)
    of_half = tensors(half, (columns,), values="normal", layouts=CLOSE)

    def clone(f):
        """Kernels that work in place on what autograd saves, by design."""
        return lambda *args: f(*(a.clone() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args))

    yield Case("swiglu", lambda a, b: F.silu(a) * b, clone(ops.LigerSiLUMulFunction.apply), [x, y])
    yield Case("geglu", lambda a, b: F.gelu(a, approximate="tanh") * b, clone(ops.LigerGELUMulFunction.apply), [x, y])
    yield Case("relu_squared", lambda a: F.relu(a) ** 2, ops.LigerReLUSquaredFunction.apply, [x])
    yield Case(
        "dyt",
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        ops.LigerDyTFunction.apply,
        [single, tensors(f32, (1,), values="normal"), w, w],
    )
    yield Case("softmax", lambda a: a.softmax(-1), LigerSoftmaxFunction.apply, [single])
    yield Case(
        "sparsemax",
        sparsemax,
        lambda a: ops.LigerSparsemaxFunction.apply(a, -1),
        [tensors(f32, (rows, columns), values="normal")],
    )
    yield Case("rms_norm", rms_norm, lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-5, 0.0, "llama", False), [single, w])
    yield Case(
        "rms_norm, gemma, half precision",
        lambda x, w: rms_norm(x.float(), w.float(), offset=1.0).to(x.dtype),
        lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-5, 1.0, "gemma", False),
        [x, of_half],
    )
    yield Case(
        "rms_norm, blocks of rows",
        rms_norm,
        lambda x, w: ops.LigerRMSNormFunction.apply(x, w, 1e-5, 0.0, "none", False, False),
        [single, w],
        gradients=False,
    )
    yield Case(
        "fused_add_rms_norm",
        lambda x, r, w: (rms_norm(x + r, w), x + r),
        clone(lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-5, 0.0, "llama", False)),
        [single, single, w],
    )
    yield Case(
        "modulated_rms_norm",
        lambda x, w, s, b: rms_norm(x, w) * (1 + s) + b,
        lambda x, w, s, b: ops.LigerModulatedRMSNormFunction.apply(x, w, s, b, 1e-5, 0.0, "llama", False),
        [single, w, w, w],
        options={"repeats": 1},
    )
    yield Case(
        "layer_norm",
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda *a: ops.LigerLayerNormFunction.apply(*a, 1e-5),
        [
            tensors(f32, (rows, size("columns", 2, 70)), values=ROWS),
            *[tensors(f32, (size("columns", 2, 70),), values="normal", layouts=CLOSE)] * 2,
        ],
    )
    image = tensors(f32, (size("batch", 1, 3), 4, size("hidden", 2, 40)), values="normal")
    four = tensors(f32, (4,), values="normal", layouts=CLOSE)
    yield Case("group_norm", group_norm, lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 4, 2, 1e-5), [image, four, four])
    far = tensors(f32, (size("batch", 1, 3), 4, size("hidden", 2, 40)), values="offset", layouts=CLOSE)

    def offset():
        m = torch.linspace(1000, 1001, 16).view(1, 4, 4)
        function, ones, zeros = ops.LigerGroupNormFunction.apply, torch.ones(4), torch.zeros(4)
        return function(m, ones, zeros, 4, 2, 1e-5)[0, 0, 0].item(), group_norm(m.double(), ones.double(), zeros.double())[0, 0, 0].item()

    yield Case(
        "group_norm, mean of 1000",
        group_norm,
        lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 4, 2, 1e-5),
        [far, four, four],
        fault="the variance is the mean of squares less the square of the mean, which cancel",
        seen=r"output 0: error \S+ exceeds",
        shows=offset,
    )
    three, one = tensors(f32, (3,), values="normal", layouts=CLOSE), tensors(f32, (), values="normal")
    yield Case(
        "poly_norm",
        poly_norm,
        lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, 1e-6, False),
        [tensors(f32, (rows, columns), values="normal"), three, one],
    )

    # losses
    label = indices((rows,), below=columns)
    logits = tensors(f32, (rows, columns), values=ROWS, layouts=CLOSE)

    def cross_entropy(*options):
        return clone(lambda x, t: ops.LigerCrossEntropyFunction.apply(x, t, None, *options)[0])

    yield Case("cross_entropy", F.cross_entropy, cross_entropy(), [logits, label])

    def gradient_of_transposed():
        def of(function):
            m = torch.arange(6.0).view(3, 2).T.requires_grad_()
            return torch.autograd.grad(function(m.clone(), torch.tensor([0, 1])), m)[0][1, 2].item()

        return of(cross_entropy()), of(F.cross_entropy)

    yield Case(
        "cross_entropy, transposed",
        F.cross_entropy,
        cross_entropy(),
        [
            tensors(f32, (rows, size("columns", 2, 70)), values="normal", layouts="transposed"),
            indices((rows,), below=size("columns", 2, 70)),
        ],
        fault="contiguous() inside forward() loses requires_grad: no gradient is computed, and the logits are returned as one",
        seen=f"gradient of argument 0: error.*\n.*{STRIDE_SEEN}",
        shows=gradient_of_transposed,
    )
    yield Case("cross_entropy, smoothing, sum", smoothed_cross_entropy, cross_entropy(-100, 0.0, 0.1, "sum"), [logits, label])
    yield Case("cross_entropy, softcap", capped_cross_entropy, cross_entropy(-100, 0.0, 0.0, "mean", 30.0), [logits, label])
    yield Case("cross_entropy, z loss", cross_entropy_z, cross_entropy(-100, 1e-2, 0.0, "mean"), [logits, label])
    logp = tensors(f32, (rows, columns), values="normal", layouts=CLOSE).map(lambda a: a.log_softmax(-1))
    prob = tensors(f32, (rows, columns), values="normal", layouts=CLOSE).map(lambda a: a.softmax(-1))
    yield Case(
        "kl_div",
        lambda x, y: F.kl_div(x, y.detach(), reduction="batchmean"),
        lambda x, y: ops.LigerKLDivLossFunction.apply(x, y.detach(), "batchmean", False),
        [logp, prob],
    )
    yield Case(
        "kl_div, logarithms",
        lambda x, y: F.kl_div(x, y.detach(), reduction="none", log_target=True),
        lambda x, y: ops.LigerKLDivLossFunction.apply(x, y.detach(), "none", True),
        [logp, logp],
    )
    for beta in (0.0, 0.5, 0.1, 1.0):
        yield Case(
            f"jsd, beta {beta}",
            lambda x, y, b=beta: jsd(x, y.detach(), b),
            lambda x, y, b=beta: ops.LigerJSDFunction.apply(x, y.detach(), None, b),
            [logp, logp],
        )
    yield Case(
        "tvd",
        lambda p, q: (p - q.detach()).abs().sum() / 2 / p.shape[0],
        lambda p, q: ops.LigerTVDLossFunction.apply(p, q.detach(), None, "batchmean"),
        [prob, prob],
    )
    hidden, vocab = size("hidden", 1, 40), size("vocab", 16, 40)  # of two, one may be so sure that the loss cancels
    states, weight = (
        tensors(f32, (rows, hidden), values="normal", layouts=CLOSE),
        tensors(f32, (vocab, hidden), values="normal", layouts=CLOSE),
    )
    bias = tensors(f32, (vocab,), values="normal", layouts=CLOSE)
    yield Case(
        "fused_linear_cross_entropy",
        linear_cross_entropy,
        lambda x, w, t, b: ops.LigerFusedLinearCrossEntropyFunction.apply(x, w, t, b)[0],
        [states, weight, indices((rows,), below=vocab), bias],
    )
    yield Case(
        "fused_linear_jsd",
        lambda x, w, y, v: linear_jsd(x, w, y.detach(), v.detach()),
        lambda x, w, y, v: ops.LigerFusedLinearJSDFunction.apply(x, w, y.detach(), v.detach()),
        [states, weight, states, weight],
    )
    b, t, v = size("batch", 1, 3), 5, size("vocab", 2, 40)
    long = tensors(f32, (b, t + 1, v), values="normal", layouts=CLOSE)
    step = tensors(f32, (b, t), values="normal", layouts=CLOSE).map(lambda a: a - 3)
    yield Case(
        "grpo_loss",
        grpo,
        lambda x, o, r, i, a: GrpoLossFunction.apply(
            x.clone(), o.detach(), r.detach(), i, a.detach(), None, 0.9, 0.04, 0.2, 0.2, False, "grpo", None, False
        )[0],
        [long, step, step, indices((b, t), below=v), tensors(f32, (b,), values="normal", layouts=CLOSE)],
    )

    # positions
    length = size("length", 2, 6)
    q, k = (tensors(f32, (2, heads, length, 8), values="normal", layouts=CLOSE) for heads in (4, 2))
    yield Case(
        "rope",
        lambda q, k: rope(q, k, *angles(q.shape[2], 8)),
        clone(lambda q, k: ops.LigerRopeFunction.apply(q, k, *angles(q.shape[2], 8))),
        [q, k],
    )

    def decoding():
        def of(function):
            g = torch.Generator().manual_seed(0)
            a, b = (torch.randn(2, heads, 1, 8, generator=g) for heads in (4, 2))
            return function(a, b, *(part[:, 2:3] for part in angles(3, 8)))[0]  # the third position: the first is not turned

        ours, right = of(ops.LigerRopeFunction.apply), of(rope)
        at = (ours - right).abs().argmax()
        return ours.flatten()[at].item(), right.flatten()[at].item()

    q1, k1 = (tensors(f32, (2, heads, 1, 8), values="normal", layouts=CLOSE) for heads in (4, 2))
    yield Case(
        "rope, sequences of length 1",
        lambda q, k: rope(q, k, *angles(1, 8)),
        clone(lambda q, k: ops.LigerRopeFunction.apply(q, k, *angles(1, 8))),
        [q1, k1],
        fault="the stride of an axis of length 1 is taken for that of a row: programs overlap",
        seen="_triton_rope.*race: ",
        shows=decoding,
    )
    triple = tensors(f32, (3, 2, length, 8), values="normal", layouts=CLOSE).map(lambda a: torch.cat([a[..., :4]] * 2, -1))
    yield Case(
        "qwen2vl_mrope",
        lambda q, k, a: mrope(q, k, a.detach(), [1, 1, 2]),
        clone(lambda q, k, a: ops.LigerQwen2VLMRopeFunction.apply(q, k, a.detach().cos(), a.detach().sin(), [1, 1, 2])),
        [q, k, triple],
    )
    at = tensors(f32, (length, 4), values="normal", layouts=CLOSE)
    ql, kl = (tensors(f32, (2, length, heads, 8), values="normal", layouts=CLOSE) for heads in (4, 2))
    yield Case(
        "llama4_rope",
        lambda q, k, a: llama4_rope(q, k, a.detach()),
        clone(lambda q, k, a: ops.LigerLlama4RopeFunction.apply(q, k, torch.polar(torch.ones_like(a), a.detach()))),
        [ql, kl, at],
    )

    # attention, mixtures of experts, connections
    head = tensors(f32, (2, 2, size("length", 1, 20), 16), values="normal", layouts=CLOSE)
    yield Case(
        "fused_neighborhood_attention",
        lambda q, k, v: neighborhood(q, k, v, 5, 2),
        lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 5, 2),
        [head] * 3,
        examples=4,
    )
    square = size("square", 1, 12)
    yield Case(
        "multi_token_attention",
        multi_token,
        lambda s, w, b: ops.LigerMultiTokenAttentionFunction.apply(s, w, b, 1, 1),
        [
            tensors(f32, (2, 2, square, square), values="normal", layouts=CLOSE),
            tensors(f32, (3, 2, 3, 3), values="normal", layouts=CLOSE),
            tensors(f32, (3,), values="normal", layouts=CLOSE),
        ],
    )
    yield Case(
        "attn_res",
        residuals,
        lambda v, q, n: ops.LigerAttnResFunction.apply(v, q, n, 1e-6),
        [tensors(f32, (size("blocks", 1, 5), 2, 3, columns), values="normal", layouts=CLOSE), w, w],
        options={"repeats": 1},
    )
    e, inner, h = 4, size("inner", 1, 20), size("hidden", 1, 40)
    chosen = tensors(f32, (size("tokens", 1, 9), e), values="normal", layouts=CLOSE).map(lambda a: a.topk(2, -1).indices.int())
    yield Case(
        "fused_moe",
        lambda x, u, d, i, w: experts(x, torch.cat([u, u.flip(1)], 1), d, i, w),
        lambda x, u, d, i, w: ops.LigerFusedMoEFunction.apply(x, torch.cat([u, u.flip(1)], 1), d, i, w),
        [
            tensors(f32, (size("tokens", 1, 9), h), values="normal", layouts=CLOSE),
            tensors(f32, (e, inner, h), values="normal", layouts=CLOSE),
            tensors(f32, (e, h, inner), values="normal", layouts=CLOSE),
            chosen,
            tensors(f32, (size("tokens", 1, 9), 2), values="normal", layouts=CLOSE),
        ],
        examples=4,
    )
    n, c = size("tokens", 1, 7), size("c", 1, 40)
    lanes = tensors(f32, (n, 4, c), values="normal", layouts=CLOSE)
    yield Case(
        "mhc_pre",
        lambda x, h: (x * h[..., None]).sum(1),
        ops.LigerMHCPreFunction.apply,
        [lanes, tensors(f32, (n, 4), values="normal", layouts=CLOSE)],
    )
    yield Case(
        "mhc_post_res",
        lambda x, f, p, r: r @ x + p[..., None] * f[:, None],
        ops.LigerMHCPostResFunction.apply,
        [
            lanes,
            tensors(f32, (n, c), values="normal", layouts=CLOSE),
            tensors(f32, (n, 4), values="normal", layouts=CLOSE),
            tensors(f32, (n, 4, 4), values="normal", layouts=CLOSE),
        ],
    )
    number = tensors(f32, (), values="normal", layouts=CLOSE)
    yield Case(
        "mhc_coeffs",
        coefficients,
        lambda *a: ops.LigerMHCCoeffsFunction.apply(*a, True, 3, 1e-6, 0.0, 1e-6, 2.0),
        [
            tensors(f32, (n, 4, 6), values="normal", layouts=CLOSE),
            tensors(f32, (24, 24), values="normal", layouts=CLOSE).map(lambda a: a / 5),
            tensors(f32, (24,), values="normal", layouts=CLOSE),
            number,
            number,
            number,
        ],
        examples=4,
    )
    yield Case(
        "embedding",
        lambda w, i: F.embedding(i, w),
        LigerEmbeddingFunction.apply,
        [
            tensors(f32, (size("count", 1, 20), columns), values="normal", layouts=CLOSE),
            indices((rows, 3), below=size("count", 1, 20)),
        ],
        options={"repeats": 1},
    )
