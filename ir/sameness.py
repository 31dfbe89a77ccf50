"""Whether two programs are one, but for the lengths of axes."""

from __future__ import annotations

from collections.abc import Mapping

from .index import Axis, FloorDiv, IndexExpr, Mod
from .program import Program
from .terms import Term, postorder


def same_program(a: Program, b: Program, sizes: Mapping[str, int]) -> bool:
    """Whether ``b`` is ``a`` where the axes named in ``sizes`` have those sizes: the same terms, constants, index expressions, names.

    Names of axes follow from the structure of what is traced, so equal programs have equal names.
    """
    same = _Same(sizes)
    return (
        len(a.inputs) == len(b.inputs)
        and len(a.outputs) == len(b.outputs)
        and a.results == b.results
        and all(same.leaf(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))
        and all(
            (x.name, x.dtype) == (y.name, y.dtype) and same.key(x.layout, y.layout) and same.terms(x.term, y.term)
            for x, y in zip(a.outputs, b.outputs, strict=True)
        )
    )


class _Same:
    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.equal: dict[int, Term] = {}  # of terms of one program, the terms of the other

    def terms(self, a: Term, b: Term) -> bool:
        """One walk over both, arguments first."""
        ours, theirs = postorder(a), postorder(b)
        return len(ours) == len(theirs) and all(self.leaf(x, y) for x, y in zip(ours, theirs, strict=True))

    def leaf(self, a: Term, b: Term) -> bool:
        """Terms whose arguments were compared before."""
        known = self.equal.get(id(a))
        if known is not None:
            return known is b
        if type(a) is not type(b) or len(a.args) != len(b.args):
            return False
        if any(self.equal.get(id(x)) is not y for x, y in zip(a.args, b.args, strict=True)):
            return False
        if not self.key(a.key, b.key):
            return False
        self.equal[id(a)] = b
        return True

    def key(self, a: object, b: object) -> bool:
        """What a term is made of, but for its arguments."""
        if isinstance(a, Term) and isinstance(b, Term):
            return True
        if isinstance(a, Axis) and isinstance(b, Axis):
            return a.name == b.name and b.size == self.sizes.get(a.name, a.size)
        if isinstance(a, tuple) and isinstance(b, tuple):
            return len(a) == len(b) and all(map(self.key, a, b))
        if isinstance(a, IndexExpr) and isinstance(b, IndexExpr):
            return a.const == b.const and self.key(a.terms, b.terms)
        if type(a) is not type(b):
            return False
        if isinstance(a, float) and isinstance(b, float):
            return a.hex() == b.hex()
        if isinstance(a, FloorDiv | Mod) and isinstance(b, FloorDiv | Mod):
            return a.divisor == b.divisor and self.key(a.numerator, b.numerator)
        return a == b
