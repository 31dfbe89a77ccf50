"""How a scalar op is spelled in Triton: a format string over its arguments, or a function, read and refused if malformed.

A generated module carries the text of every helper that its kernels call, so a user's function must stand alone: it may use
``triton.language`` under the name ``tl``, builtins, its own parameters and further functions of the same kind.  Helpers get names
that belong to the op (``_<op>``), so that those of two ops never meet, nor a helper a local name of a kernel: none begins with ``_``.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import re
import string
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ..errors import OpError, expect
from ..ir import ops
from ..ir.monoids import MONOIDS

ARGUMENTS = ("x", "y", "z")
_BUILTINS = frozenset(dir(builtins))


def spelling(name: str, arity: int, triton: Any, prelude: str, where: str) -> tuple[str, str]:
    """The format string of an op and the text of its helpers.

    ``triton`` is a format string, or a Triton function of ``arity`` arguments (with ``@triton.jit`` or without).
    Raises :class:`~eqfuse.errors.OpError` for what is no such thing.
    """
    if not isinstance(triton, str):
        if prelude:
            raise OpError(f"op {name}: a prelude goes with a format string", where=where, cure="call the helpers from the function")
        texts, called = _functions(name, triton, where)
        if called != arity:
            raise OpError(f"op {name}: numpy takes {_count(arity)}, the Triton function {called}", where=where)
        return f"_{name}({', '.join(['{}'] * arity)})", "\n\n\n".join(texts) + "\n"
    expect(isinstance(prelude, str), f"op {name}: prelude", prelude, "the text of helpers", OpError, where)
    text = textwrap.dedent(prelude).strip("\n")
    helpers = _helpers(name, text, where) if text else ()
    _check_format(name, arity, triton, helpers, where)
    return triton, text and text + "\n"


def _count(n: int) -> str:
    return f"{n} argument" if n == 1 else f"{n} arguments"


def check_fields(name: str, arity: int, language: str, text: str, where: str) -> None:
    """A format string with placeholders for just the arguments."""
    cure = _FORMAT if language == "triton" else _FORMAT_C
    try:
        fields = [(field, spec, conversion) for _, field, spec, conversion in string.Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise OpError(f"op {name}: {language}={text!r} is no format string: {error}", where=where, cure=cure) from None
    if any(spec or conversion or not (field == "" or field.isdecimal()) for field, spec, conversion in fields):
        raise OpError(f"op {name}: {language}={text!r} has a placeholder that is neither {{}} nor {{0}}", where=where, cure=cure)
    numbers = [field for field, _, _ in fields]
    used = len(numbers) if all(n == "" for n in numbers) else len(set(numbers))
    expected = {""} if all(n == "" for n in numbers) else {str(k) for k in range(arity)}
    if used != arity or set(numbers) != expected:
        raise OpError(f"op {name}: numpy takes {_count(arity)}, {language}={text!r} names {used}", where=where, cure=cure)


def _check_format(name: str, arity: int, triton: str, helpers: tuple[str, ...], where: str) -> None:
    """Placeholders for just the arguments, in an expression that uses ``tl`` and the op's helpers."""
    check_fields(name, arity, "triton", triton, where)
    text = triton.format(*ARGUMENTS[:arity])
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise OpError(f"op {name}: triton={triton!r} is no expression: {error.msg}", where=where, cure=_FORMAT) from None
    known = {"tl", "triton", *ARGUMENTS[:arity], *helpers}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known and node.id not in _BUILTINS:
            raise OpError(
                f"op {name}: triton={triton!r} uses {node.id!r}, which a generated module does not have",
                where=where,
                cure="use triton.language as tl; give a Triton function, or the text of helpers as prelude=",
            )


_FORMAT_C = 'c="exp2f({} * 3.321928f)", with one {} (or {0}, {1}, ...) for each argument'
_FORMAT = 'triton="tl.exp2({} * 3.321928094887362)", with one {} (or {0}, {1}, ...) for each argument, or a @triton.jit function'


def _helpers(name: str, text: str, where: str) -> tuple[str, ...]:
    """The functions that a prelude defines."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise OpError(f"op {name}: the prelude is no Python: line {error.lineno}: {error.msg}", where=where) from None
    names = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or [ast.unparse(d) for d in node.decorator_list] != ["triton.jit"]:
            raise OpError(
                f"op {name}: line {node.lineno} of the prelude is no @triton.jit function",
                where=where,
                cure="the prelude is the text of functions; imports and constants belong inside them or away",
            )
        names.append(node.name)
    taken = taken_helpers()
    for helper in names:
        if not helper.startswith("_"):
            raise OpError(f"op {name}: the helper {helper!r} might meet a name of a kernel", where=where, cure=f"call it _{helper}")
        if helper in taken:
            raise OpError(f"op {name}: the helper {helper!r} is one of op {taken[helper]}", where=where, cure="give it another name")
    return tuple(names)


def taken_helpers() -> dict[str, str]:
    """Every helper of a registered op or of a monoid, and whose it is."""
    preludes = [*((m.name, m.prelude) for m in MONOIDS.values()), *((o.name, o.spellings["triton"].helpers) for o in ops.OPS.values())]
    return {found: name for name, prelude in preludes for found in re.findall(r"^def (\w+)", prelude, re.MULTILINE)}


# functions ------------------------------------------------------------------------------------------------------------------------------
def _functions(name: str, function: Any, where: str) -> tuple[list[str], int]:
    """The text of a function and of the functions that it calls, callees first; and how many arguments it takes."""
    found: dict[Callable[..., Any], str] = {}  # plain function -> its name in generated modules
    texts: list[str] = []
    taken = taken_helpers()

    def visit(f: Callable[..., Any], called: str) -> None:
        if called in taken or called in found.values():
            raise OpError(f"op {name}: two helpers would be called {called!r}", where=where, cure=f"rename {f.__name__!r}")
        found[f] = called
        tree, source = _source(name, f, where)
        renamed = {f.__name__: called}
        scope = _scope(f)
        for used in _globals_of(tree):
            value = scope.get(used, _MISSING)
            if value is _MISSING:
                if used in _BUILTINS:
                    continue
                raise OpError(f"op {name}: {f.__name__} uses {used!r}, which is not defined", where=where)
            plain = _plain(value)
            if isinstance(value, ModuleType) and (used, value.__name__) in (("tl", "triton.language"), ("triton", "triton")):
                continue
            if plain is None:
                raise OpError(
                    f"op {name}: {f.__name__} uses {used!r} from outside, which a generated module does not have",
                    where=where,
                    cure="import triton.language as tl; write numbers out; call other @triton.jit functions",
                )
            if plain not in found:
                visit(plain, f"_{name}_{plain.__name__.strip('_')}")
            renamed[used] = found[plain]
        texts.append("@triton.jit\n" + _rename(source, renamed).rstrip("\n"))

    plain = _plain(function)
    if plain is None:
        raise OpError(f"op {name}: triton= is a {type(function).__name__}", where=where, cure=_FORMAT)
    visit(plain, f"_{name}")
    parameters = inspect.signature(plain).parameters.values()
    if any(p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        raise OpError(f"op {name}: the Triton function takes more than positional arguments", where=where)
    return texts, sum(p.default is p.empty for p in parameters)


_MISSING = object()


def _plain(value: Any) -> Callable[..., Any] | None:
    """The Python function under ``@triton.jit`` (or the function itself); ``None`` for anything else."""
    value = getattr(value, "fn", value)
    return value if inspect.isfunction(value) else None


def _scope(f: Callable[..., Any]) -> Mapping[str, Any]:
    """What global and enclosing names stand for in a function."""
    closed = inspect.getclosurevars(f)
    return {**f.__globals__, **closed.nonlocals}


def _source(name: str, f: Callable[..., Any], where: str) -> tuple[ast.FunctionDef, str]:
    """A function's syntax tree and its text without decorators."""
    try:
        lines, _ = inspect.getsourcelines(f)
        text = textwrap.dedent("".join(lines))
        tree = ast.parse(text).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        tree, text = None, ""
    if not isinstance(tree, ast.FunctionDef):
        raise OpError(f"op {name}: the text of {f.__name__} is not to be had", where=where, cure="define it with def, in a file")
    return tree, "".join(text.splitlines(keepends=True)[tree.lineno - 1 : tree.end_lineno]).rstrip() + "\n"


def _globals_of(tree: ast.FunctionDef) -> list[str]:
    """The names that a function reads and does not bind, in order of appearance.  Annotations are Triton's: ``tl.constexpr``."""
    bound = {a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    bound |= {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    decorators = {id(n) for d in tree.decorator_list for n in ast.walk(d)}
    return list(dict.fromkeys(n.id for n in names if n.id not in bound and id(n) not in decorators))


def _rename(source: str, names: Mapping[str, str]) -> str:
    """The source with some names replaced; attributes (``tl.exp``) and texts are left alone."""
    lines = source.splitlines(keepends=True)
    edits = []
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in names and before != ".":
            edits.append((token.start, token.end, names[token.string]))
        before = token.string
    for (row, start), (_, stop), new in reversed(edits):
        line = lines[row - 1]
        lines[row - 1] = line[:start] + new + line[stop:]
    return "".join(lines)
