"""Every program of the corpus on data and lengths chosen to break it.

A plan is made once for the bench shapes; the same kernels, roles and tiles then run (``Compiled.at``) at lengths that no tile divides
and that still take several tiles, on every kind of data of ``adversarial.DATA`` that makes sense for the program, in float16, bfloat16 and float32.
In float32 a run goes through Triton's interpreter and through the numpy tile interpreter, which round differently; what is slow to
interpret, and 16-bit types, go through one of the two (numpy's in float32).  Axes of length 1 are other programs (they have no axis
there), so those are planned for themselves.

What is asked of a run, against the float64 reference of the unsaturated program: where eager is finite ours is; where the exact value
is NaN or infinite and eager says so, ours says the same; and the error of the rest is at most twice that of eager, or one rounding of the
output type.  That is asked of one draw; ``test_adversarial_draws.py`` asks of many.
"""

from __future__ import annotations

import math

import pytest
import torch
from adversarial import (
    AXES,
    DATA,
    DTYPES,
    LENGTHS,
    NAMES,
    SHORT,
    arguments,
    family,
    faults,
    inputs_of_1e4,
    masked,
    run,
    scores_of_1e4,
)

import eqfuse
from eqfuse.compiled import Compiled
from eqfuse.testing.programs import PROGRAMS

_RESIZED: dict[tuple[str, str], Compiled] = {}


def resized(planned, name: str, dtype: str) -> Compiled:
    """The kernels of the bench shapes at the lengths of the family, made once per worker."""
    if (name, dtype) not in _RESIZED:
        _RESIZED[name, dtype] = planned(name, dtype).at(*arguments(name, LENGTHS[family(name)], dtype, seed=0))
    return _RESIZED[name, dtype]


def cases() -> list[object]:
    """(program, type, data, runner); every program meets every kind of data in Triton's interpreter in one type of the three, and in another
    one as tile programs."""
    found = []
    for p, name in enumerate(NAMES):
        small = arguments(name, SHORT, "float32", seed=0)
        for t, dtype in enumerate(DTYPES):
            for k, (kind, make) in enumerate(DATA.items()):
                if (turn := (p + k + t) % 3) < 2 and make(name, [a.clone() for a in small]) is not None:
                    marks = [] if turn == 0 else [pytest.mark.exhaustive]
                    if (name, kind) == ("mean_variance", "huge"):
                        marks.append(pytest.mark.xfail(reason="inf - inf where squared deviations overflow (docs/limits.md)", strict=True))
                    found.append(pytest.param(name, dtype, kind, ("interpret", "simulate")[turn], marks=marks))
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


@pytest.mark.parametrize(
    ("dtype", "runner"),
    [
        ("bfloat16", "interpret"),
        ("float32", "simulate"),
        pytest.param("bfloat16", "simulate", marks=pytest.mark.exhaustive),
        pytest.param("float32", "interpret", marks=pytest.mark.exhaustive),
    ],
)
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
