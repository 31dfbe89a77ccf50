"""What Python does otherwise than Triton's compiler, in the text of a kernel: ``and``, ``or``, ``not`` and chains of comparisons.

The interpreter runs a kernel as Python, where a tile is true, so ``a and b`` is ``b``, and ``not a`` is False.  The compiler takes both
elementwise, after it has left out what it knows; it evaluates every operand that it does not know, a load that the first should
have guarded too.  Chains of comparisons it refuses, in most versions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

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


NAMES = {f.__name__: f for f in (_logical, _negated, _chained)}
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
