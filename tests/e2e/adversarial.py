"""Arguments that are hard on numbers, for every program of the corpus, and what is asked of a run on them.

Lengths that no tile of the bench plans divides, the kinds of data of ``DATA``, and the errors against the float64 reference of the
unsaturated program.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from eqfuse.compiled import Compiled
from eqfuse.ir import dtypes, reference
from eqfuse.testing.programs import PROGRAMS

_ROW, _LINEAR, _ATTENTION = ("r c",), ("r k", "n k"), ("b h q d", "b h k d", "b h k v")

# the axes of every argument: r rows, c columns or classes, k and n of products; b h q k d v of attention, g heads of keys and values
AXES: dict[str, tuple[str, ...]] = {
    "row_softmax": _ROW,
    "log_softmax": _ROW,
    "logsumexp": _ROW,
    "softmax_entropy": _ROW,
    "mean_variance": _ROW,
    "layernorm": ("r c", "c", "c"),
    "rmsnorm": ("r c", "c"),
    "rmsnorm_linear": ("r k", "k", "n k"),
    "linear_gelu": (*_LINEAR, "n"),
    "swiglu": (*_LINEAR, "n k"),
    "matmul": ("r k", "k n"),
    "cross_entropy": ("r c", "r"),
    "linear_cross_entropy": ("r k", "c k", "r"),
    "linear_cross_entropy_few_rows": ("r k", "c k", "r"),
    "attention": _ATTENTION,
    "attention_causal": _ATTENTION,
    "attention_softcap": _ATTENTION,
    "attention_bias": (*_ATTENTION, "h q k"),
    "attention_grouped": ("b h q d", "b g k d", "b g k v"),
    "attention_normalised_inside": _ATTENTION,
    "attention_lse": _ATTENTION,
    "attention_decode": _ATTENTION,
}  # fmt: skip
# lengths for the kernels of the bench shapes: prime, but for heads; c and k of attention take at least two tiles
LENGTHS = {
    "rows": {"r": 7, "c": 2503},
    "long rows": {"r": 7, "c": 65537},  # for tiles of half a row
    "linear": {"r": 67, "c": 1201, "k": 131, "n": 73},
    "attention": {"b": 1, "h": 4, "g": 2, "q": 131, "k": 197, "d": 113, "v": 101},
    "decode": {"b": 1, "h": 3, "g": 1, "q": 1, "k": 613, "d": 113, "v": 101},
}
# lengths for plans of their own, with one axis of length 1 in turn
SHORT = {"r": 17, "c": 131, "k": 37, "n": 29, "b": 3, "h": 6, "g": 2, "q": 19, "d": 16, "v": 23}
DTYPES = ("float16", "bfloat16", "float32")
NAMES = sorted(PROGRAMS)


def family(name: str) -> str:
    if name == "attention_decode":
        return "decode"
    if name in ("row_softmax", "log_softmax"):
        return "long rows"
    if name.startswith("attention"):
        return "attention"
    return "rows" if AXES[name][0] == "r c" else "linear"


def labels(name: str, shapes: list[tuple[int, ...]]) -> int | None:
    """The number of classes, for programs that have labels."""
    if not any(a.labels for a in PROGRAMS[name].shapes["bench"]):
        return None
    return shapes[0][1] if name == "cross_entropy" else shapes[1][0]


def arguments(name: str, lengths: dict[str, int], dtype: str, seed: int) -> list[Tensor]:
    """Data as the corpus draws them, at other lengths; weights keep products of order one."""
    shapes = [tuple(lengths[a] for a in axes.split()) for axes in AXES[name]]
    random = torch.Generator().manual_seed(seed)
    made = []
    for arg, shape in zip(PROGRAMS[name].shapes["bench"], shapes, strict=True):
        if arg.labels:
            made.append(torch.randint(0, labels(name, shapes), shape, generator=random))
            continue
        scale = shape[-1] ** -0.5 if arg.scale == arg.shape[-1] ** -0.5 else arg.scale
        made.append((torch.randn(shape, generator=random) * scale + arg.offset).to(getattr(torch, dtype)))
    return made


# data ---------------------------------------------------------------------------------------------------------------------------------
# each takes the program's name and its ordinary arguments, and returns others of the same shapes and types, or None


def floats(args: list[Tensor], f: Callable[[Tensor], Tensor]) -> list[Tensor]:
    return [f(t.float()).to(t.dtype) if t.is_floating_point() else t for t in args]


def inputs_of_1e4(name: str, args: list[Tensor]) -> list[Tensor]:
    return floats(args, lambda t: t * (1e4 / t.abs().max()))


def scores(name: str, args: list[Tensor]) -> Tensor:
    """The products that a softmax is taken of."""
    a, b = (t.double() for t in args[:2])
    if name.startswith("linear_cross_entropy"):
        return a @ b.T
    return a @ b.repeat_interleave(a.shape[1] // b.shape[1], 1).transpose(-1, -2) * a.shape[-1] ** -0.5


def scores_of_1e4(name: str, args: list[Tensor]) -> list[Tensor] | None:
    if not name.startswith("linear_cross_entropy") and family(name) not in ("attention", "decode"):
        return None
    factor = (1e4 / scores(name, args).abs().max().item()) ** 0.5
    return [(t.float() * factor).to(t.dtype) if i < 2 else t for i, t in enumerate(args)]


MASKED = {"row_softmax": 0, "log_softmax": 0, "logsumexp": 0, "softmax_entropy": 0, "cross_entropy": 0, "attention_bias": 3}


def masked(name: str, args: list[Tensor]) -> list[Tensor] | None:
    """Rows of -inf, rows whose first or last tiles are, rows with one value left, rows with holes."""
    if name not in MASKED:
        return None
    x = args[MASKED[name]]
    n = x.shape[-1]
    x[..., 0::6, :] = -math.inf
    x[..., 1::6, : n * 3 // 4] = -math.inf
    x[..., 2::6, n // 4 :] = -math.inf
    x[..., 3::6, :-1] = -math.inf
    x[..., 4::6, ::3] = -math.inf
    return args


def equal(name: str, args: list[Tensor]) -> list[Tensor]:
    return floats(args, lambda t: torch.full_like(t, 3.0))


def equal_1e4(name: str, args: list[Tensor]) -> list[Tensor]:
    return floats(args, lambda t: torch.full_like(t, 1e4))


NORMALISED = frozenset(name for name, axes in AXES.items() if axes[0] == "r c" or name.startswith("rmsnorm"))


def equal_rows(name: str, args: list[Tensor]) -> list[Tensor] | None:
    """Rows of equal numbers around 10000.7, whose sums are rounded: nothing varies in them."""
    return floats(args, lambda t: 10000.7 + t[..., :1].expand_as(t)) if name in NORMALISED else None


def tiny(name: str, args: list[Tensor]) -> list[Tensor] | None:
    """Numbers whose squares, and sums of exponentials' arguments, are below the least normal one."""
    return floats(args, lambda t: t * 2.0**-100 if args[0].dtype != torch.float16 else t * 2.0**-12) if name in NORMALISED else None


def huge(name: str, args: list[Tensor]) -> list[Tensor] | None:
    """Numbers whose sums, less any of them, are within the range of their type, and whose squares are not (docs/numerics.md has the sums)."""
    if name not in NORMALISED:
        return None
    x = args[0].float()
    return [(x * (0.4 * torch.finfo(args[0].dtype).max / (x.shape[-1] * x.abs().max()))).to(args[0].dtype), *args[1:]]


def zeros(name: str, args: list[Tensor]) -> list[Tensor]:
    return floats(args, torch.zeros_like)


def contaminated(name: str, args: list[Tensor]) -> list[Tensor]:
    """One NaN, one infinity of each sign, in rows of their own."""
    x = args[0]
    x[..., :1, 5] = math.nan
    if x.shape[-2] > 1:
        x[..., 1, 7] = math.inf
        x[..., 2, 11] = -math.inf
    return args


def usual(name: str, args: list[Tensor]) -> list[Tensor]:
    return args


DATA = {f.__name__: f for f in (usual, inputs_of_1e4, scores_of_1e4, masked, equal, equal_1e4, zeros, contaminated, equal_rows, tiny, huge)}


def run(compiled: Compiled, args: list[Tensor], runner: str) -> list[Tensor]:
    """Our outputs, in order: through Triton's interpreter, or numpy's in float32."""
    return compiled.in_order(compiled.interpret(*args) if runner == "interpret" else compiled.simulate(*args, dtype=np.float32))


# what is asked ------------------------------------------------------------------------------------------------------------------------


def error(got: Tensor, exact: np.ndarray, where: Tensor) -> float:
    """The largest absolute error over the largest absolute exact value, over the elements of ``where``."""
    if not where.any():
        return 0.0
    e = torch.from_numpy(exact)[where]
    return float((got.double()[where] - e).abs().max() / (e.abs().max() or 1.0))


def kinds(t: Tensor) -> Tensor:
    """0 finite, 1 and -1 the infinities, 2 NaN."""
    return torch.where(t.isnan(), 2.0, torch.where(t.isinf(), t.sign(), 0.0))


def faults(compiled: Compiled, args: list[Tensor], ours: list[Tensor]) -> list[str]:
    """What is wrong with a result, in words; an empty list is a pass."""
    program = compiled.program
    tensors = compiled.traced.bind(*args)
    exact = reference.evaluate(program, {n: t.double().numpy() if t.is_floating_point() else t.numpy() for n, t in tensors.items()})
    eager = compiled.in_order(compiled.eager(*args))
    found = []
    for o, mine, theirs in zip(program.outputs, ours, eager, strict=True):
        mine = mine.to(theirs.dtype)
        e = exact[o.name]
        want, had, got = kinds(torch.from_numpy(e).to(theirs.dtype)), kinds(theirs), kinds(mine)
        if lost := int(((had == want) & (got != want)).sum()):
            found.append(f"{o.name}: {lost} of {mine.numel()} elements are NaN, infinite or finite although eager and float64 are not")
        both = (want == 0) & (had == 0) & (got == 0)
        a, b = error(mine, e, both), error(theirs, e, both)
        floor = dtypes.dtype(o.dtype.name).epsilon / 2
        if a > 2 * max(b, floor):
            found.append(f"{o.name}: error {a:.2e}, eager {b:.2e}")
    return found
