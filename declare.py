"""``eqfuse.op``: an operation of your own from one declaration, checked before it is believed.

From it come the reference (float64 numpy), the Triton text in kernels, range analysis, and a part in every rule that asks for its
traits: what turns sums into products is repaired in a running loop without a new rule.  Nothing is taken on trust but the text of the
Triton spelling, which is executed: numbers decide whether it says what numpy says, and whether range and traits are true.
"""

from __future__ import annotations

import inspect
import keyword
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .codegen.spelling import check_fields, spelling
from .errors import OpError, UnsoundOpError, expect, shown
from .ir.ops import BUILT_IN, OPS, ScalarOp, Spelling, of_integers
from .ir.ranges import INF, Interval

if TYPE_CHECKING:
    from .frontends.custom_op import DeclaredOp

RTOL = 2e-5


def op(
    name: str,
    *,
    numpy: Callable[..., Any],
    triton: Any,
    range: Callable[..., Any] | Sequence[float] | None = None,  # noqa: A002 - the word of the table in ir/ops.py
    result: str = "float",
    domain: str = "real",
    turns: tuple[tuple[str, str], ...] = (),
    increasing: bool = False,
    commutative: bool = False,
    associative: bool = False,
    keeps_zero: bool = False,
    cost: float = 1.0,
    special: float = 0.0,
    torch: Callable[..., Any] | None = None,
    prelude: str = "",
    c: str = "",
    rtol: float = RTOL,
    atol: float = 0.0,
    doc: str = "",
) -> DeclaredOp:
    """Declare a scalar operation of one to three arguments, and get it as a function on tensors and terms.

    ``numpy``: the meaning, on arrays.  ``triton``: the spelling on blocks of float32, a format string (``"tl.exp2({} * 3.32)"``) or a
    ``@triton.jit`` function; ``prelude`` is the text of helpers that a format string calls.  ``c``: the spelling on numbers in C, a format
    string (``"exp2f({} * 3.32f)"``), which kernels for CPUs need; without it torch runs their programs.  ``range``: from intervals to an
    interval (or a pair), or one pair for every argument; without one, an increasing op is asked at both ends.  ``result``: ``"float"``,
    ``"same"`` (the promoted type, integers included), ``"int"`` (the same, of integers only) or ``"bool"``.  ``domain``: ``"real"``,
    ``"nonneg"``, ``"positive"``, ``"nonzero"`` or ``"whole"``, where it is finite and where ``turns`` holds: ``("add", "mul")`` says
    f(x + y) = f(x) f(y).  ``cost`` is float32 instructions per element, ``special`` how many of them are special functions.  ``torch``: the
    same function in torch, for running the program there on a GPU and for derivatives.  ``rtol`` and ``atol``: what the spelling may lose
    in float32, relative to the value and absolutely.

    Raises :class:`~eqfuse.errors.OpError` for a malformed declaration and :class:`~eqfuse.errors.UnsoundOpError`, with a counterexample,
    for a false one; nothing is registered then.
    """
    frame = sys._getframe(1)
    where = f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])}:{frame.f_lineno}"
    try:
        from .frontends.custom_op import declare
        from .testing.ops.check import check_op
        from .testing.ops.native import check_c
        from .testing.ops.spelling import check_spelling
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("triton"):
            raise
        raise OpError(f"op {name}: without triton its spelling cannot be checked", where=where, cure="install triton (Linux)") from None
    _check_name(name, where)
    if not callable(numpy):
        raise OpError(f"op {name}: numpy= is a {type(numpy).__name__}, not a function", where=where)
    flags = {"increasing": increasing, "commutative": commutative, "associative": associative, "keeps_zero": keeps_zero}
    given: object
    for option, given in flags.items():
        expect(isinstance(given, bool), f"op {name}: {option}", given, "True or False", OpError, where)
    for option, given in {"result": result, "domain": domain, "prelude": prelude, "c": c, "doc": doc}.items():
        expect(isinstance(given, str), f"op {name}: {option}", given, "a text; help(eqfuse.op) says which", OpError, where)
    for option, given in {"cost": cost, "special": special, "rtol": rtol, "atol": atol}.items():
        good = isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= sys.float_info.max
        expect(good, f"op {name}: {option}", given, "a number, 0 or more", OpError, where)
    arity = _arity(name, numpy, where)
    if not 1 <= arity <= 3:
        raise OpError(f"op {name}: numpy= takes {arity} arguments", where=where, cure="an op takes one, two or three")
    spellings = {"triton": Spelling(*spelling(name, arity, triton, prelude, where))}
    if c:
        check_fields(name, arity, "c", c, where)
        spellings["c"] = Spelling(c)
    pairs = tuple(tuple(p) if isinstance(p, list) else p for p in turns) if isinstance(turns, list | tuple) else turns
    meaning = of_integers(numpy) if result == "int" else _quiet(numpy)
    spec = ScalarOp(
        name, arity, meaning, spellings, _transfer(name, arity, range, increasing, numpy, where), result, pairs, domain, increasing,
        commutative, associative, keeps_zero, result == "bool", cost, special, None, doc or inspect.getdoc(numpy) or "", where,
    )  # fmt: skip
    check_op(spec)
    check_spelling(spec, rtol=rtol, atol=atol)
    if c:
        check_c(spec, rtol=rtol, atol=atol)
    if torch is not None:
        _check_torch(spec, torch)
    return declare(spec, torch)


def _check_name(name: str, where: str) -> None:
    if not (isinstance(name, str) and name.isidentifier() and name.isascii() and name[0].isalpha()) or keyword.iskeyword(name):
        raise OpError(f"{shown(name)} cannot be the name of an op", where=where, cure="a letter, then letters, digits and underscores")
    if name in BUILT_IN:
        raise OpError(f"op {name}: the library has an op of this name", where=where, cure=f"another name, such as my_{name}")
    if name in OPS:
        raise OpError(
            f"op {name}: it is already declared at {OPS[name].where}", where=where, cure="another name, or .unregister() on the first one"
        )


def _arity(name: str, function: Callable[..., Any], where: str) -> int:
    """The number of arguments without a default."""
    if isinstance(function, np.ufunc):
        return function.nin
    target = function.pyfunc if isinstance(function, np.vectorize) else function
    parameters: list[inspect.Parameter] | None = None
    with suppress(TypeError, ValueError):
        parameters = list(inspect.signature(target).parameters.values())
    if parameters is None or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        raise OpError(
            f"op {name}: how many arguments numpy= takes is not to be seen", where=where, cure="write it as a lambda: numpy=lambda x: ..."
        )
    return sum(p.default is p.empty for p in parameters)


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Overflow and NaN are ordinary values."""

    def run(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return run


def _transfer(name: str, arity: int, given: Any, increasing: bool, function: Callable[..., Any], where: str) -> Callable[..., Interval]:
    """The range transfer: the given one, one interval for everything, or the ends of an increasing op."""
    if given is None:
        if not (increasing and arity == 1):
            raise OpError(
                f"op {name}: range= is missing",
                where=where,
                cure="range=(low, high), a function of intervals, or increasing=True; (-inf, inf) claims nothing",
            )

        def ends(a: Interval) -> Interval:
            with np.errstate(all="ignore"):
                low, high = (float(np.asarray(function(np.array([end])))[0]) for end in (a.lo, a.hi))
            if low > high:
                raise UnsoundOpError(
                    f"op {name}: increasing, but {name}({a.lo!r}) = {low!r} and {name}({a.hi!r}) = {high!r}",
                    where=where,
                    cure="leave increasing= out, and give its range=",
                )
            return Interval(-INF if math.isnan(low) else low, INF if math.isnan(high) else high)

        return ends
    if not callable(given):
        try:
            low, high = map(float, given)
            fixed = Interval(low, high)
        except (TypeError, ValueError, AssertionError):
            raise OpError(f"op {name}: range={shown(given)} is no pair (low, high)", where=where) from None
        return lambda *_: fixed

    def transfer(*spans: Interval) -> Interval:
        with np.errstate(all="ignore"):
            found = given(*spans)
        return Interval(*map(float, found)) if isinstance(found, tuple | list) and len(found) == 2 else found

    return transfer


def _check_torch(spec: ScalarOp, function: Callable[..., Any]) -> None:
    """The torch function says what numpy says, in float64."""
    import torch

    from .testing.ops.check import samples, value

    args = samples(spec, infinite=True)
    try:
        found = function(*(torch.from_numpy(x) for x in args))
        got = found.detach().to(torch.float64).numpy()
    except Exception as error:
        raise OpError(f"op {spec.name}: torch= fails on float64 tensors: {type(error).__name__}: {error}", where=spec.where) from None
    exact = value(spec, *args)
    if got.shape != exact.shape:
        raise OpError(f"op {spec.name}: torch= gives shape {got.shape}, numpy= {exact.shape}", where=spec.where)
    with np.errstate(all="ignore"):
        good = (got == exact) | (np.isnan(got) & np.isnan(exact)) | (np.abs(got - exact) <= 1e-6 * np.abs(exact) + 1e-300)
    if not good.all():
        k = int(np.flatnonzero(~good)[0])
        point = ", ".join(repr(float(x[k])) for x in args)
        raise UnsoundOpError(
            f"op {spec.name}: its torch function is its numpy meaning, but {spec.name}({point}) = {float(got[k])!r} in torch and "
            f"{float(exact[k])!r} in numpy",
            where=spec.where,
        )
