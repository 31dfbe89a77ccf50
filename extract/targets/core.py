"""What one core of a CPU does: the part of a target file that GPUs do not have, the table ``[core]``.

``eqfuse calibrate`` measures it.  Rates are those of one core; times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any


class Stated:
    """A dataclass of which some fields are read-only views of dicts, which ``copy`` and ``pickle`` take as dicts."""

    def __getstate__(self) -> dict[str, Any]:
        found = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]  # of dataclasses alone
        return {name: dict(v) if isinstance(v, MappingProxyType) else v for name, v in found.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: MappingProxyType(v) if isinstance(v, dict) else v for name, v in state.items()})


@dataclass(frozen=True)
class Level:
    """A cache, or memory.  ``bytes``: what one core may hold in it."""

    name: str
    bytes: float
    read_gb_s: float  # what a core reads from it
    copy_gb_s: float  # what it reads and writes, together
    piece_ns: float  # a piece that is far from the one before, beside its bytes


@dataclass(frozen=True)
class Core(Stated):
    """One core, as kernels in C use it."""

    rows: int  # of a result that the micro-kernel of products keeps in registers
    columns: int
    product_gflops: float  # of the micro-kernel, a multiply-add being two
    step_ns: float  # a step of the micro-kernel along the contracted axis takes at least so long, however few its rows
    call_ns: float  # to begin and to end a micro-kernel
    inner_gflops: float  # of inner products of few rows
    inner_ns: float  # to begin and to end an inner product
    pack_gelem_s: float  # elements of a right operand that are packed, its rows in one piece
    turn_gelem_s: float  # and its columns in one piece
    vector_gops: float  # instructions on elements: a vector has many
    loop_ns: float  # to begin and to end a loop over a row that reduces it
    extremum_ns: float  # an element of a row whose largest is found, which waits for the one before
    overlap: float  # share of the shorter of the two that hides behind the other: arithmetic and reading from memory
    special_ns: Mapping[str, float]  # functions, an element
    levels: tuple[Level, ...]  # nearest first; the last is memory

    def level(self, size: float) -> Level:
        """The nearest level that holds so many bytes."""
        return next((v for v in self.levels if size <= v.bytes), self.levels[-1])


def core_of(table: Mapping[str, Any]) -> Core:
    """A parsed table; ValueError says what is wrong with it."""
    numbers = [f.name for f in fields(Core) if f.name not in ("special_ns", "levels")]
    _expect_keys(table, {*numbers, "special_ns", "levels"})
    values = {n: _positive(n, table[n], least=0.0 if n == "overlap" else 1e-9) for n in numbers}
    levels = table["levels"]
    if not isinstance(levels, list) or not levels:
        raise ValueError("levels is an array of tables, memory the last of them")
    found = []
    for row in levels:
        _expect_keys(row, {f.name for f in fields(Level)})
        rates = (_positive(k, row[k], 0.0 if k == "piece_ns" else 1e-9) for k in ("bytes", "read_gb_s", "copy_gb_s", "piece_ns"))
        found.append(Level(str(row["name"]), *rates))
    special = MappingProxyType({k: _positive(k, v) for k, v in table["special_ns"].items()})
    if "exp" not in special:
        raise ValueError("special_ns has no exp")
    rows, columns = (int(values.pop(n)) for n in ("rows", "columns"))
    return Core(rows=rows, columns=columns, **values, special_ns=special, levels=tuple(found))


def _expect_keys(table: Any, wanted: set[str]) -> None:
    if not isinstance(table, Mapping):
        raise ValueError(f"{table!r} is no table")
    missing, unknown = sorted(wanted - table.keys()), sorted(table.keys() - wanted)
    if missing or unknown:
        said = [f"{what} {', '.join(names)}" for what, names in (("missing", missing), ("unknown", unknown)) if names]
        raise ValueError(" and ".join(said))


def _positive(key: str, value: Any, least: float = 1e-9) -> float:
    if type(value) not in (int, float) or not least <= value < 1e18:
        raise ValueError(f"{key} = {value!r} is no number of at least {least:g}")
    return float(value)
