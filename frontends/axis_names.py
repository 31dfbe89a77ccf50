"""What axes are called: the names that the user's source has for the sizes of arguments, and readable ones where it has none.

``b, h, n, d = q.shape``, ``n = x.size(0)`` and ``d = x.shape[-1]``, of a parameter that nothing has been assigned to before, name
dimensions.  An axis without a name is called by its place in the first tensor that has it: ``cols``, ``rows`` and ``batch`` from the
right, the ``elements`` of a vector.  Where several arguments have columns of their own, they are ``q_cols`` and ``v_cols``; what an
operation adds is called after that.  A reshape takes ``cols`` apart into ``cols_outer`` and ``cols_inner``.

Nothing here bears on plans: axes are ordered by their ranks (:class:`~eqfuse.ir.index.Axis`).
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile

from .alignment import Alignment, Dims, Item

Sizes = Mapping[tuple[str, int], str]  # parameter and dimension, from the left or (negative) from the right -> what its size is called
_TAKEN = ("_o", "_i", "_ptr")  # so parts of axes and pointers are called
_READS = re.compile(r"(\w+)\.(?:shape|size\(\))(?:\[(-?\d+)\])?|(\w+)\.size\((-?\d+)\)")


def size_names(f: object) -> Sizes:
    """What the source of a function, or of a module's ``forward``, calls the sizes of its parameters; empty where there is no source."""
    code = getattr(inspect.unwrap(getattr(f, "forward", f)), "__code__", None)  # type: ignore[arg-type]
    if code is None or code.co_filename.startswith("<eval_with_key>"):  # torch.fx writes it, long and without sizes
        return {}
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[tuple[str, int], str] = {}
    for d in ast.walk(tree):
        if isinstance(d, ast.FunctionDef) and min([d.lineno, *(x.lineno for x in d.decorator_list)]) == code.co_firstlineno:
            for dimension, name in _bindings(d, {a.arg for a in (*d.args.posonlyargs, *d.args.args, *d.args.kwonlyargs)}):
                if name not in found.values() and name.strip("_") and not name.endswith(_TAKEN):
                    found.setdefault(dimension, name)
    return found


def _bindings(f: ast.FunctionDef, parameters: set[str]) -> Iterator[tuple[tuple[str, int], str]]:
    """Dimensions of parameters, and the names that assignments give their sizes, in order."""
    for s in sorted((n for n in ast.walk(f) if isinstance(n, ast.Assign | ast.AugAssign | ast.AnnAssign)), key=lambda n: n.lineno):
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        read = _READS.fullmatch(ast.unparse(s.value)) if isinstance(s, ast.Assign) and len(targets) == 1 else None
        of, at = (read[1] or read[3], read[2] or read[4]) if read else ("", None)
        names = targets[0].elts if at is None and isinstance(targets[0], ast.Tuple | ast.List) else targets if at is not None else []
        for k, name in enumerate(names if of in parameters else ()):
            if isinstance(name, ast.Starred):  # what stands right of it is counted from there
                break
            if isinstance(name, ast.Name):
                yield (of, k if at is None else int(at)), name.id
        parameters -= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}


@dataclass
class AxisNames:
    """Names of dimensions.  ``values``: name, whether it is an argument, and dimensions of every tensor in order."""

    alignment: Alignment
    values: Sequence[tuple[str, bool, Dims]]
    sizes: Sizes
    taken: Counter[str] = field(default_factory=Counter)
    of: dict[Item, str] = field(default_factory=dict)  # by representative

    def __post_init__(self) -> None:
        for owner, argument, dims in self.values:
            for k, d in enumerate(dims if argument else ()):
                name = self.sizes.get((owner, k), self.sizes.get((owner, k - len(dims))))
                if d is not None and name and name not in self.of.values():
                    self.of.setdefault(self.alignment.find(d), name)
        self.taken.update(self.of.values())
        first: dict[Item, tuple[str, bool, str]] = {}  # where a dimension appears: owner, whether that is an argument, word
        for owner, argument, dims in self.values:
            inner = list(dropwhile(lambda d: d is None, dims))
            for item, word in zip(inner, _words(len(inner)), strict=True):
                if item is not None:
                    first.setdefault(self.alignment.find(item), (owner, argument, word))
        own = Counter(word for item, (_, argument, word) in first.items() if argument and item not in self.of)
        for item, (owner, argument, word) in first.items():
            if item not in self.of:
                self.of[item] = self.fresh(word if argument and own[word] == 1 else f"{owner}_{word}")
            parts = [self.alignment.find(p) for p in self.alignment.parts(item)]
            for k, p in enumerate(parts):
                if p not in self.of:
                    self.of[p] = self.fresh(f"{self.of[item]}_{('outer', 'inner')[k] if len(parts) == 2 else f'part{k}'}")
        for item in first:  # what was put beside a dimension is one of its own, and may be none of any tensor
            for k, (part, _) in enumerate(self.alignment.joined(item)):
                if part is not None and (p := self.alignment.find(part)) not in self.of:
                    self.of[p] = self.fresh(f"{self.of[item]}_range{k}")

    def fresh(self, name: str) -> str:
        """The name, or the first free one with a number."""
        self.taken[name] += 1
        return name if self.taken[name] == 1 else self.fresh(f"{name}_{self.taken[name]}")


def _words(rank: int) -> list[str]:
    """What the dimensions of a tensor are called."""
    leading = ["batch"] if rank == 3 else [f"batch{k}" for k in range(rank - 2)]
    return ["elements"] if rank == 1 else [*leading, "rows", "cols"][:rank]
