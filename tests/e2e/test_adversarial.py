"""Every program of the corpus on data and lengths chosen to break it.

A plan is made once for the bench shapes; the same kernels, roles and tiles then run (``Compiled.at``) at lengths that no tile divides
and that still take several tiles, on every kind of data of ``DATA`` that makes sense for the program, in float16, bfloat16 and float32.
In float32 a run goes through Triton's interpreter and through the numpy tile interpreter, which round differently; what is slow to
interpret, and 16-bit types, go through one of the two (numpy's in float32).  Axes of length 1 are other programs (they have no axis
there), so those are planned for themselves.

What is asked of a run, against the float64 reference of the unsaturated program: where eager is finite ours is; where the exact value
is NaN or infinite and eager says so, ours says the same; and the error of the rest is at most twice that of eager, or one rounding of the
output type.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import eqfuse
from eqfuse.ir import dtypes, reference
from eqfuse.runtime.compiled import Compiled
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
    "attention": {"b": 1, "h": 2, "g": 1, "q": 131, "k": 197, "d": 113, "v": 101},
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


DATA = {f.__name__: f for f in (usual, inputs_of_1e4, scores_of_1e4, masked, equal, equal_1e4, zeros, contaminated)}


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


# tests --------------------------------------------------------------------------------------------------------------------------------

_RESIZED: dict[tuple[str, str], Compiled] = {}


def resized(planned, name: str, dtype: str) -> Compiled:
    """The kernels of the bench shapes at the lengths of the family, made once per worker."""
    if (name, dtype) not in _RESIZED:
        _RESIZED[name, dtype] = planned(name, dtype).at(*arguments(name, LENGTHS[family(name)], dtype, seed=0))
    return _RESIZED[name, dtype]


def run(compiled: Compiled, args: list[Tensor], runner: str) -> list[Tensor]:
    return compiled.in_order(compiled.interpret(*args) if runner == "interpret" else compiled.simulate(*args, dtype=np.float32))


def cases() -> list[object]:
    """(program, type, data, runner); every program meets every kind of data in Triton's interpreter in one type of the three at least."""
    found = []
    for p, name in enumerate(NAMES):
        small = arguments(name, SHORT, "float32", seed=0)
        for t, dtype in enumerate(DTYPES):
            for k, (kind, make) in enumerate(DATA.items()):
                if make(name, [a.clone() for a in small]) is not None:
                    both = dtype == "float32" and family(name) in ("attention", "decode", "rows")
                    first = "interpret" if (p + k + t) % 3 == 0 else "simulate"
                    found += [(name, dtype, kind, r) for r in (("interpret", "simulate") if both else (first,))]
    return found


@pytest.mark.parametrize(("name", "dtype", "kind", "runner"), cases())
def test_data(name, dtype, kind, runner, planned):
    compiled = resized(planned, name, dtype)
    args = DATA[kind](name, arguments(name, LENGTHS[family(name)], dtype, seed=11))
    assert not faults(compiled, args, run(compiled, args, runner))


def lonely() -> list[tuple[str, str, str]]:
    """(program, axis, type): half of the axes of each program, so that each axis of a family is met in several programs."""
    found = []
    for p, name in enumerate(NAMES):
        axes = sorted({a for axes in AXES[name] for a in axes.split()})
        found += [(name, a, DTYPES[(p + i) % 3]) for i, a in enumerate(axes) if (p + i) % 2 == 0 or "rows" in family(name)]
    return found


@pytest.mark.parametrize(("name", "axis", "dtype"), lonely())
def test_axes_of_length_1(name, axis, dtype):
    """Planned for itself, at odd and prime lengths and one axis of length 1, on ordinary data and on scores or inputs of 1e4."""
    lengths = SHORT | {axis: 1} | ({"g": 1} if axis == "h" else {}) | ({"q": 1} if name == "attention_decode" else {})
    args = arguments(name, lengths, dtype, seed=5)
    compiled = eqfuse.optimize(PROGRAMS[name].fn, args, target="h200", name=name)
    assert not faults(compiled, args, run(compiled, args, "interpret"))
    args = scores_of_1e4(name, args) or inputs_of_1e4(name, args)
    assert not faults(compiled, args, run(compiled, args, "interpret"))


@pytest.mark.parametrize("name", NAMES)
def test_everything_of_length_1(name):
    """One number in every argument."""
    lengths = dict.fromkeys(SHORT, 1)
    args = arguments(name, lengths, "float32", seed=6)
    compiled = eqfuse.optimize(PROGRAMS[name].fn, args, target="h200", name=name)
    assert not faults(compiled, args, run(compiled, args, "interpret"))


@pytest.mark.parametrize("runner", ["interpret", "simulate"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", [n for n in NAMES if family(n) in ("attention", "decode")])
def test_scores_of_1e11(name, dtype, runner, planned):
    """Far beyond what the program is for, but eager is finite there: the rounding of a reference must not reach the exponential."""
    compiled = resized(planned, name, dtype)
    args = [t * 0 + 1e5 if i < 2 else t for i, t in enumerate(arguments(name, LENGTHS[family(name)], dtype, seed=7))]
    assert not faults(compiled, args, run(compiled, args, runner))


@pytest.mark.parametrize("name", [n for n in NAMES if "rows" in family(n)])
def test_long_rows(name):
    """The error of a sum does not grow with the number of steps that it is made in: rows too long to be held."""
    long, few = {"r": 4096, "c": 1 << 20}, {"r": 3, "c": 300_007}
    args = arguments(name, few, "float32", seed=8)
    planned = [torch.empty([long[a] for a in axes.split()], dtype=t.dtype, device="meta") for axes, t in zip(AXES[name], args, strict=True)]
    compiled = eqfuse.optimize(PROGRAMS[name].fn, planned, target="h200", name=name).at(*args)
    assert [r for k in compiled.plan.kernels for r in k.kernel.roles.values() if r.kind == "stream"]
    assert not faults(compiled, args, run(compiled, args, "simulate"))


# these tests can fail -----------------------------------------------------------------------------------------------------------------


def test_the_table_of_axes_is_that_of_the_corpus():
    assert set(AXES) == set(PROGRAMS)
    for name, case in PROGRAMS.items():
        shapes = [a.shape for a in case.shapes["bench"]]
        assert [len(axes.split()) for axes in AXES[name]] == [len(s) for s in shapes], name
        named = [(a, n) for axes, s in zip(AXES[name], shapes, strict=True) for a, n in zip(axes.split(), s, strict=True)]
        assert len(set(named)) == len(dict(named)), name  # one length for one name


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda y: y * (1 + 1e-5), "error"),
        (lambda y: y.index_fill(0, torch.tensor([1]), math.nan), "elements"),  # NaN where eager is finite
        (lambda y: torch.where(y.isinf(), math.nan, y), "elements"),  # a row that is masked as a whole: -inf in eager
        (lambda y: torch.where(y.isinf(), 0.0, y), "elements"),
    ],
)
def test_a_fault_is_seen(spoil, message, planned):
    compiled = resized(planned, "logsumexp", "float32")
    args = masked("logsumexp", arguments("logsumexp", LENGTHS["rows"], "float32", seed=11))
    (ours,) = run(compiled, args, "simulate")
    assert not faults(compiled, args, [ours])
    (found,) = faults(compiled, args, [spoil(ours)])
    assert message in found
