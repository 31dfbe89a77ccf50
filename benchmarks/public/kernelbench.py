"""KernelBench (github.com/ScalingIntelligence/KernelBench), levels 1 to 3: a module and its inputs a file."""

import ast
from pathlib import Path

import torch

from .case import Case, Refused, unwritten

LEVELS = (1, 2, 3)
SMALL = (  # sizes in the place of those of a file: those that eager takes come first
    lambda n: n if n <= 4 else 5 + n % 7,
    lambda n: n if n <= 8 else 8 << (n.bit_length() % 2),
    lambda n: n if n <= 16 else 16,
)


def programs(root):
    for level in LEVELS:
        files = Path(root, "KernelBench", f"level{level}").glob("*.py")
        for path in sorted(files, key=lambda p: int(p.stem.partition("_")[0])):
            yield f"level {level}", path.stem, Case(lambda path=path: made(path), lambda path=path: small(path))


def executed(path, size=None):
    """The names of a file; ``size``: what takes the places of whole numbers that are given names at its top level."""
    tree = ast.parse(path.read_text())
    for statement in tree.body if size else ():
        if isinstance(statement, ast.Assign):
            for n in ast.walk(statement.value):
                if isinstance(n, ast.Constant) and type(n.value) is int:
                    n.value = size(n.value)
    names = {"__name__": path.stem}
    exec(compile(tree, str(path), "exec"), names)
    return names


def made(path):
    """The module and its inputs, without data."""
    names = executed(path)
    with unwritten():
        model = names["Model"](*names["get_init_inputs"]()).eval()
    with torch.device("meta"):
        return model, tuple(names["get_inputs"]())


def small(path):
    """The same at small sizes, with data."""
    for size in SMALL:
        torch.manual_seed(0)
        try:
            names = executed(path, size)
            model, args = names["Model"](*names["get_init_inputs"]()).eval(), tuple(names["get_inputs"]())
            found = model(*args)
        except Exception:  # sizes that do not go together
            continue
        if found.numel() and sum(a.numel() for a in args if isinstance(a, torch.Tensor)) < 100_000:
            return model, args
    raise Refused("no small sizes go together")
