"""The check of an op's spelling in C: a loop with it is compiled, run on float32 numbers and compared with numpy, as that in Triton is."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from ...codegen.c.host import header
from ...errors import CompileError, OpError
from ...ir.ops import ScalarOp
from ...runtime.native import compiler, library
from .check import samples, value
from .spelling import RTOL, TRUTHS, compare, report

_FUNCTION = """
void {called}(int64_t n, {arguments}, {made} *restrict y) {{
  for (int64_t i = 0; i < n; i++) {{ {loads} y[i] = ({text}); }}
}}
"""


def compiled(ops: Sequence[ScalarOp]) -> ctypes.CDLL:
    """A function of float32 arrays for each op, and one of integers where it keeps these."""
    return library("\n".join([header(), *(_function(o, whole) for o in ops for whole in _kinds(o))]))


def check_c(op: ScalarOp, *, rtol: float = RTOL, atol: float = 0.0, made: ctypes.CDLL | None = None) -> None:
    """Compare an op's spelling in C with ``op.numpy``; nothing without a compiler.  ``made``: a library that has its function.

    Raises :class:`~eqfuse.errors.OpError` for a spelling that does not compile, :class:`~eqfuse.errors.UnsoundOpError` for one that says
    something else.
    """
    if made is None and compiler() is None:
        return
    try:
        made = made or compiled((op,))
    except CompileError as error:
        said = f"op {op.name}: its C spelling does not compile: {error.message}"
        raise OpError(said, where=op.where, cure="c= is an expression of floats") from error
    for whole in _kinds(op):
        args = samples(op, infinite=not whole)
        if whole:
            args = [np.round(np.clip(x[np.isfinite(x)], -100, 100)) for x in args]
        elif np.isnan(value(op, *[np.full(1, np.nan)] * op.arity)).all():
            args = [np.concatenate([x, [np.nan]]) for x in args]
        if op.name in TRUTHS:
            args = [(x != 0) * 1.0 if k < TRUTHS[op.name] else x for k, x in enumerate(args)]
        kind = np.int32 if whole else np.float32
        given = [np.ascontiguousarray(x, np.int32 if k < TRUTHS.get(op.name, 0) else kind) for k, x in enumerate(args)]
        found = np.empty(len(given[0]), np.int32 if op.result == "bool" else kind)
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*given, found)]
        made[_called(op, whole)](ctypes.c_int64(len(found)), *pointers)
        if not whole:
            compare(op, args, found.astype(np.float64), rtol, atol, "C")
            continue
        with np.errstate(all="ignore"):
            exact = np.asarray(op.numpy(*(x.astype(np.int64) for x in given))).astype(np.int32)
        report(op, args, found, exact, found == exact, 0.0, 0.0, "C")


def _kinds(op: ScalarOp) -> tuple[bool, ...]:
    """Whether on integers."""
    if op.result == "int":
        return (True,)
    return (False,) if op.result == "float" or op.name in TRUTHS else (False, True)


def _called(op: ScalarOp, whole: bool) -> str:
    return f"op_{op.name}_{'whole' if whole else 'float'}"


def _function(op: ScalarOp, whole: bool) -> str:
    kinds = ["int32_t" if whole or k < TRUTHS.get(op.name, 0) else "float" for k in range(op.arity)]
    names = [f"v_{k}" for k in range(op.arity)]
    return _FUNCTION.format(
        called=_called(op, whole),
        arguments=", ".join(f"const {t} *restrict x{k}" for k, t in enumerate(kinds)),
        made="int32_t" if whole or op.result == "bool" else "float",
        loads=" ".join(f"const {t} {n} = x{k}[i];" for k, (t, n) in enumerate(zip(kinds, names, strict=True))),
        text=op.spellings["c"].text.format(*names),
    )
