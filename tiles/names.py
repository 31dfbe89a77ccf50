"""Names in tile programs: readable, unique, and never a name that the printed kernel needs for something else."""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Callable

from ..ir.index import Axis
from .kernel import Kernel
from .program import TileProgram, defines

# what Triton, Python and the host function call something; a printer of a language with other words marks the names of values
RESERVED = frozenset(("tl", "triton", "torch", "math", "pid", "task", "tasks", "run", "float", "int", "min", "max", "sum", "abs", "range"))


def identifier(text: str) -> str:
    """A Python identifier like the text."""
    word = re.sub(r"\W", "_", text) or "v"
    return f"v{word}" if word[0].isdigit() or keyword.iskeyword(word) else word


def pointer_name(buffer: str) -> str:
    """The parameter that points to a buffer."""
    return f"{identifier(buffer)}_ptr"


def descriptor_name(buffer: str) -> str:
    """The parameter that describes blocks of a buffer."""
    return f"{identifier(buffer)}_block"


def extent_name(axis: Axis) -> str:
    """The parameter that holds the length of an axis."""
    return f"N_{identifier(axis.name)}"


def tile_name(axis: Axis) -> str:
    """The parameter that holds the tile size of an axis."""
    return f"T_{identifier(axis.name)}"


_PARAMETER = re.compile(r"[NTS]_.*|.*_(ptr|block(_\d+)?|stride_.*)")  # parameters, which get their names when all values have theirs


class Names:
    """The names of one kernel: bindings keep their axis's name, values take the first free one of ``v``, ``v_2``, ``v_3``, ..."""

    def __init__(self, kernel: Kernel) -> None:
        self._used: dict[str, int] = dict.fromkeys(RESERVED, 1)
        self._loops: dict[Axis, int] = {}
        for axis in kernel.roles:
            self._reserve(identifier(axis.name), axis)
        for buffer in kernel.buffers:
            self._used[pointer_name(buffer)] = self._used["S_" + identifier(buffer)] = 1

    def _reserve(self, name: str, axis: Axis) -> None:
        a = identifier(axis.name)
        words = ("{}_start", "{}_ok", "{}_full", "{}_from", "{}_to", "{}_at")
        for n in (*(w.format(name) for w in words), f"r_{a}", extent_name(axis), tile_name(axis), f"S_N_{a}"):
            self._used[n] = 1

    def fresh(self, hint: str) -> str:
        """A name that nothing else has."""
        hint = identifier(hint)
        hint = f"{hint}_value" if _PARAMETER.fullmatch(hint) else hint
        n = self._used.get(hint, 0) + 1
        self._used[hint] = n
        if n == 1:
            return hint
        name = f"{hint}_{n}"
        return name if self._used.setdefault(name, 0) == 0 and not self._mark(name) else self.fresh(hint)

    def take(self, name: str) -> None:
        """Something has this name."""
        self._used.setdefault(name, 1)

    def _mark(self, name: str) -> bool:
        self._used[name] = 1
        return False

    def binding(self, axis: Axis) -> str:
        """The name of a loop over an axis: the axis's own, then with a letter."""
        n = self._loops.get(axis, 0)
        self._loops[axis] = n + 1
        name = identifier(axis.name) if n == 0 else f"{identifier(axis.name)}_{'abcdefghijklmnopqrstuvwxyz'[n % 26]}{n // 26 or ''}"
        self._reserve(name, axis)
        return name


def unused(program: TileProgram) -> Callable[[str], str]:
    """Names that no value of a tile program has yet, like the one that is asked for."""
    taken = {v.name for s in program.statements() for v in defines(s)}

    def fresh(like: str) -> str:
        name = next(n for k in itertools.count(1) if (n := like if k == 1 else f"{like}_{k}") not in taken)
        taken.add(name)
        return name

    return fresh
