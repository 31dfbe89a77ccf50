"""The memories of a device as rows of data, outermost first: ``[[levels]]`` of a target file.

The cost model reads three of them, whatever they are called: the first and the last one that a whole device shares (DRAM and the cache
before it), and the first that an SM or a core has to itself, where the tiles of a program lie.  :mod:`..memories` counts for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

SCOPES = ("node", "device", "die", "sm")  # what has one of its own, from the outside to the inside


@dataclass(frozen=True)
class Level:
    """One memory.  ``gb_s``: 1e9 bytes per second that all of its name give the next ones inside, 0 for the innermost."""

    name: str
    scope: str  # "node" | "device" | "die" | "sm"
    bytes: float  # of one; infinite for a host's memory, of which a device knows nothing
    line_bytes: int  # that move at once
    gb_s: float = 0.0
    count: int = 1  # of a die's: how many a device has
    reserved: int = 0  # bytes of which no program's tiles may take any: what the system, or all else, takes
    share: float = 0.8  # of a cache that later loops find (assumption, where no file says otherwise)

    @property
    def held(self) -> int:
        """Bytes that a cache holds between two loops."""
        return int(self.share * self.bytes)

    @property
    def for_tiles(self) -> float:
        """Bytes that the tiles of one program may take."""
        return self.bytes - self.reserved


def levels_of(rows: Any) -> tuple[Level, ...]:
    """The levels of a parsed target file.  Raises ValueError with what is wrong with them."""
    if not isinstance(rows, list) or not all(isinstance(r, Mapping) for r in rows):
        raise ValueError("levels are no list of tables [[levels]]")
    found = tuple(map(_level, rows))
    names, scopes = [x.name for x in found], [x.scope for x in found]
    if len(set(names)) < len(names):
        raise ValueError("two levels of one name")
    if scopes != sorted(scopes, key=SCOPES.index):
        raise ValueError(f"the levels do not go from the outside to the inside: {', '.join(SCOPES)}")
    if "device" not in scopes or scopes.count("sm") < 2:
        raise ValueError('levels without one of scope "device" (its memory) and two of scope "sm" (for tiles, and registers)')
    return found


def _level(row: Mapping[str, Any]) -> Level:
    known = {f.name: f for f in fields(Level)}
    missing = [n for n, f in known.items() if f.default is MISSING and n not in row]
    unknown = sorted(row.keys() - known.keys())
    if missing or unknown:
        said = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise ValueError(f"a level with {' and '.join(said)}")
    for key, value in row.items():
        declared = known[key].type
        number = type(value) in (int, float) and value > 0 and (declared == "float" or type(value) is int)
        if not (isinstance(value, str) if declared == "str" else number):
            raise ValueError(f"{key} = {value!r} of a level is not a valid {declared}")
    if row["scope"] not in SCOPES:
        raise ValueError(f"scope = {row['scope']!r} of a level is none of {', '.join(SCOPES)}")
    return Level(**row)
