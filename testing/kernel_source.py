"""What Python does otherwise than Triton's compiler, in the text of a kernel: ``and``, ``or``, ``not``, chains of comparisons, loops.

The interpreter runs a kernel as Python, where a tile is true, so ``a and b`` is ``b``, and ``not a`` is False.  The compiler takes both
elementwise, after it has left out what it knows; it evaluates every operand that it does not know, a load that the first should
have guarded too.  Chains of comparisons it refuses, in most versions.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from triton import language as tl
from triton.runtime import interpreter as ti

from ..errors import KernelError


def _logical(conjunction: bool, *operands: Callable[[], Any]) -> Any:
    """``and`` or ``or`` of operands; numbers known to the compiler decide at once, or are left out."""
    value: Any = None
    unknown: list[Any] = []
    for operand in operands:
        value = operand()
        if isinstance(value, tl.tensor):
            unknown.append(value)
        elif bool(value) is not conjunction:
            return value
    if not unknown:
        return value
    result = unknown[0]
    for other in unknown[1:]:
        result = result.logical_and(other) if conjunction else result.logical_or(other)
    return result


def _negated(value: Any) -> Any:
    return value.__not__() if isinstance(value, tl.tensor) else not value


def _chained(*_: Any) -> Any:
    raise KernelError("a chain of comparisons, which the compiler does not accept", cure="write (a <= b) & (b < c)")


class Range:
    """``range`` and ``tl.range``."""

    def __init__(self, *bounds: Any, **options: Any) -> None:
        if options.get("arg2") is not None or "step" in options:
            bounds = (*bounds, *(options[name] for name in ("arg2", "step") if name in options))
        given = [b.value if isinstance(b, tl.constexpr) else b for b in bounds]
        self._numbers = range(*(operator.index(b) for b in given))
        self.step = self._numbers.step
        wide = any(b.dtype in (tl.int64, tl.uint64) if isinstance(b, tl.tensor) else not -(2**31) <= b < 2**31 for b in given)
        self._type, self._kind = (tl.int64, np.int64) if wide else (tl.int32, np.int32)

    def __iter__(self) -> Iterator[Any]:
        for number in self._numbers:
            yield tl.tensor(ti.TensorHandle(np.array([number], self._kind), self._type), self._type)


NAMES: dict[str, Any] = {f.__name__: f for f in (_logical, _negated, _chained)} | {"range": Range}
"""What the transformed text calls."""


def transformer() -> ast.NodeTransformer:
    """The interpreter's own, and the above."""
    understands_chains = hasattr(ti.ASTTransformer, "visit_Compare")

    class Transformer(ti.ASTTransformer):  # type: ignore[misc,unused-ignore]
        def visit_Assign(self, node: ast.Assign) -> Any:
            node.value = self.visit(node.value)
            return super().visit_Assign(node)

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
            self.generic_visit(node)
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            operands = [ast.Lambda(args=nothing, body=value) for value in node.values]
            return _call(node, "_logical", [ast.Constant(value=isinstance(node.op, ast.And)), *operands])

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
            self.generic_visit(node)
            return _call(node, "_negated", [node.operand]) if isinstance(node.op, ast.Not) else node

        if not understands_chains:

            def visit_Compare(self, node: ast.Compare) -> ast.AST:
                self.generic_visit(node)
                return _call(node, "_chained", []) if len(node.ops) > 1 else node

    return Transformer()


def _call(node: ast.AST, name: str, args: list[ast.expr]) -> ast.AST:
    return ast.copy_location(ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=args, keywords=[]), node)
