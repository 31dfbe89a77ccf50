"""The check of an op's Triton spelling: a small kernel with it is interpreted on float32 numbers and compared with numpy, then compiled.

The interpreter takes some Python that the compiler refuses, so both must accept it.  A spelling may round: what is asked is that its
value lies among those of numpy on arguments within a few roundings of float32, give or take ``rtol`` of the value and ``atol``.  So
``exp(x * c)`` may lose what the rounding of ``x * c`` costs, and ``log(1 + x)`` for a small x may not lose the x.  Numbers below the
smallest normal float32 count as zero.  What a device's own approximation of ``tl.exp`` costs is not seen here: it takes that device.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import torch

from ...errors import CompileError, EqFuseError, OpError, UnsoundOpError, expect
from ...ir.dtypes import DType, float32, int32
from ...ir.ops import ScalarOp
from ...runtime.interpreter import interpret
from ...runtime.modules import load_module
from ...tiles.program import Param
from ..misuse import number, truth
from .check import samples, value

RTOL = 2e-5  # of a spelling, relative to its value
WIGGLE = 4 * float32.epsilon  # of arguments, relative: a few roundings
NORMAL = 1.2e-38  # what is smaller may be flushed to zero
BLOCK = 1024
TRUTHS = {"and": 2, "or": 2, "not": 1, "where": 1}  # how many leading arguments of built-in ops are truth values

_MODULE = """
import torch
import triton
import triton.language as tl


{prelude}

@triton.jit
def kernel({pointers}, y_ptr, n, T: tl.constexpr):
    i = tl.program_id(0) * T + tl.arange(0, T)
    ok = i < n
{loads}
    found = {expression}
    tl.static_assert(found.dtype == tl.{dtype}, "{name} must give tl.{dtype}")
    tl.store(y_ptr + i, found.to(tl.{stored}), mask=ok)


def run({tensors}):
    y = torch.empty_like(x0, dtype=torch.{stored})
    kernel[(triton.cdiv(x0.numel(), {block}),)]({tensors}, y, x0.numel(), T={block})
    return y
"""


def check_spelling(op: ScalarOp, *, rtol: float = RTOL, atol: float = 0.0, inside: bool = True, compiled: bool = True) -> None:
    """Compare an op's Triton spelling with ``op.numpy``, on float32 numbers and, if the op keeps integers, on those.

    ``inside`` keeps to the op's domain, with its infinities, and NaN where numpy answers it with NaN.  ``compiled``: also compile it.
    Raises :class:`~eqfuse.errors.OpError` for a spelling that does not run, :class:`~eqfuse.errors.UnsoundOpError` for one that says
    something else.
    """
    expect(isinstance(op, ScalarOp), "what check_spelling is given", op, "an op, as eqfuse.op(...) makes it")
    rtol, atol = number("rtol", rtol), number("atol", atol)
    inside, compiled = truth("inside", inside), truth("compiled", compiled)
    if op.result == "int":
        _check_integers(op, samples(op, infinite=False), compiled)
        return
    args = samples(op, infinite=True, inside=inside)
    nan = [np.full(1, np.nan)] * op.arity
    if np.isnan(value(op, *nan)).all():
        args = [np.concatenate([x, n]) for x, n in zip(args, nan, strict=True)]
    kind = "bool" if op.result == "bool" else "float32"
    source = _module(op, "float32", [f"x{k}" for k in range(op.arity)], kind)
    compare(op, args, _run(op, source, [x.astype(np.float32) for x in args]), rtol, atol)
    if op.arity > 1 and op.name not in TRUTHS:  # numbers of the program are printed into the text
        for position in range(op.arity):
            words = ["2.5" if k == position else f"x{k}" for k in range(op.arity)]
            fixed = [np.full_like(x, 2.5) if k == position else x for k, x in enumerate(args)]
            found = _run(op, _module(op, "float32", words, kind), [x.astype(np.float32) for x in fixed])
            compare(op, fixed, found, rtol, atol)
    if op.result != "float" and op.name not in TRUTHS:
        whole = [np.round(np.clip(x[np.isfinite(x)], -100, 100)) for x in samples(op, infinite=False)]
        kind = "bool" if op.result == "bool" else "int32"
        found = _run(op, _module(op, "int32", [f"x{k}" for k in range(op.arity)], kind), [x.astype(np.int32) for x in whole])
        with np.errstate(all="ignore"):
            exact = np.asarray(op.numpy(*(x.astype(np.int64) for x in whole))).astype(np.float64)
        report(op, whole, found, exact, found == exact, 0.0, 0.0)
    if compiled:
        _compile(op, source, float32)


def _check_integers(op: ScalarOp, args: list[np.ndarray], compiled: bool) -> None:
    """The same for an op of integers alone, which in int32 wraps as its meaning does modulo 2**32."""
    names = [f"x{k}" for k in range(op.arity)]
    whole = [x.astype(np.int32) for x in args]
    for fixed in (None, *range(op.arity)):
        for literal in (0, 3, 40) if fixed is not None else (0,):
            words = [str(literal) if k == fixed else n for k, n in enumerate(names)]
            given = [np.full_like(x, literal) if k == fixed else x for k, x in enumerate(whole)]
            found = _run(op, _module(op, "int32", words, "int32"), given)
            exact = np.asarray(op.numpy(*(x.astype(np.int64) for x in given))).astype(np.int32).astype(np.float64)
            report(op, given, found, exact, found == exact, 0.0, 0.0)
    if compiled:
        _compile(op, _module(op, "int32", names, "int32"), int32)


def _module(op: ScalarOp, dtype: str, words: list[str], result: str) -> str:
    names, spelled = [f"x{k}" for k in range(op.arity)], op.spellings["triton"]
    truth = [f"    {n} = {n} != 0\n" for n in names[: TRUTHS.get(op.name, 0)]]
    return _MODULE.format(
        prelude=spelled.helpers.strip("\n") + "\n" if spelled.helpers else "",
        pointers=", ".join(f"{n}_ptr" for n in names),
        loads="".join(f"    {n} = tl.load({n}_ptr + i, mask=ok, other=0)\n" for n in names) + "".join(truth),
        expression=spelled.text.format(*words),
        dtype="int1" if result == "bool" else result,
        stored="int32" if result == "bool" else result,
        name=op.name,
        tensors=", ".join(names),
        block=BLOCK,
    )


def _run(op: ScalarOp, source: str, args: list[np.ndarray]) -> np.ndarray:
    try:
        module = load_module(source, "interpret")
        found: torch.Tensor = interpret(module, "run", *[torch.from_numpy(np.ascontiguousarray(x)) for x in args])
    except Exception as error:
        cause: BaseException = error
        while not isinstance(cause, EqFuseError) and cause.__cause__ is not None:
            cause = cause.__cause__
        text = cause.message if isinstance(cause, EqFuseError) else str(cause)
        said = text.strip().split("\n")[-1] or type(cause).__name__
        raise OpError(
            f"op {op.name}: its Triton spelling does not run: {type(cause).__name__}: {said}", where=op.where, cure=_cure(op)
        ) from error
    return found.numpy().astype(np.float64)


def _cure(op: ScalarOp) -> str:
    return f"write {op.spellings['triton'].text!r} with functions of triton.language on blocks of float32"


def compare(op: ScalarOp, args: list[np.ndarray], found: np.ndarray, rtol: float, atol: float, language: str = "Triton") -> None:
    """UnsoundOpError where what a spelling has made is not what numpy makes of arguments within a few roundings."""
    with np.errstate(all="ignore"):
        exact = value(op, *args).astype(np.float32).astype(np.float64)
        low, high = exact.copy(), exact.copy()
        if op.result != "bool" and rtol:
            for signs in product((-1.0, 0.0, 1.0), repeat=op.arity):
                near = value(op, *[x * (1 + s * WIGGLE) for x, s in zip(args, signs, strict=True)]).astype(np.float32).astype(np.float64)
                low, high = np.fmin(low, near), np.fmax(high, near)
        slack = rtol * np.maximum(np.abs(low), np.abs(high)) + max(atol, NORMAL)
        slack = np.where(np.isfinite(slack), slack, 0.0)
        good = (np.isnan(exact) & np.isnan(found)) | ((found >= low - slack) & (found <= high + slack)) | (found == exact)
    report(op, args, found, exact, good, rtol, atol, language)


def report(
    op: ScalarOp,
    args: list[np.ndarray],
    found: np.ndarray,
    exact: np.ndarray,
    good: np.ndarray,
    rtol: float,
    atol: float,
    language: str = "Triton",
) -> None:
    """Raise UnsoundOpError for the plainest argument where a spelling is not good."""
    if good.all():
        return
    bad = np.flatnonzero(~good)
    k = bad[int(np.argmin(sum(np.where(np.isfinite(x[bad]), np.abs(np.log2(np.abs(x[bad]) + 1e-300)), 1e6) for x in args)))]
    point = ", ".join(repr(float(x[k])) for x in args)
    raise UnsoundOpError(
        f"op {op.name}: its {language} spelling is its numpy meaning, but {op.name}({point}) = {float(found[k])!r} in {language} "
        f"and {float(exact[k])!r} in numpy",
        where=op.where,
        cure=f"correct one of them, or say what the spelling may lose: it has rtol={rtol:g}, atol={atol:g}",
    )


def _compile(op: ScalarOp, source: str, of: DType) -> None:
    from ...runtime.aot import compile_kernel

    stored = int32 if op.result == "bool" else of
    pointers = [Param(f"{name}_ptr", "pointer", t, None) for name, t in (*((f"x{k}", of) for k in range(op.arity)), ("y", stored))]
    params = [*pointers, Param("n", "int", int32, 4096), Param("T", "constexpr", None, BLOCK)]
    try:
        compile_kernel(load_module(source, "aot"), "kernel", params, "h200")
    except CompileError as error:
        raise OpError(f"op {op.name}: its Triton spelling does not compile: {error.message}", where=op.where, cure=_cure(op)) from error
