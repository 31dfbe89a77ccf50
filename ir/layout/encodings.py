"""Layouts from the text of Triton's encodings, as its IR prints them: ``#ttg.slice<{dim = 1, parent = #ttg.blocked<{...}>}>``.

An encoding that is not described, or has a field that would change it, is a LayoutError: no map is better than a wrong one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...errors import LayoutError
from . import fragments, shared
from .bases import Bases, layout_of_bases
from .iters import MEMORY, read_shape
from .layout import Layout
from .swizzle import Swizzled

Fields = dict[str, Any]  # an attribute: its name under "", and its fields
Bits = Sequence[Sequence[int]]
_TOKEN = re.compile(r"\s*(#[\w.]+|-?\d+|\w+|[\[\]{}<>=,:+])")


@dataclass(frozen=True)
class TileType:
    """``tensor<64x64xf16, #ttg.blocked<...>>`` or ``!ttg.memdesc<...>``, in shared memory or in that of tensor cores."""

    shape: tuple[int, ...]
    dtype: str
    encoding: str
    buffers: int = 0  # of memory, one after the other; 0 for registers
    whole: tuple[int, ...] = ()  # shape of the buffer that this is a part of

    @staticmethod
    def read(text: str) -> TileType | None:
        """None for a type that is no tile."""
        found = re.fullmatch(r"(?:tensor|!ttg\.memdesc)<((?:\d+x)+)(.*?), (#.*?)(?:, #ttn?g\.(?:shared|tensor)_memory\b(.*))?>", text)
        if not found or text.startswith("tensor") is not (found[4] is None):
            return None
        shape, encoding = _shape(found[1][:-1]), found[3]
        if found[4] is None:
            return TileType(shape, found[2], encoding)
        of, rank = re.search(r"\d+(x\d+)*$", found[4]), min(_rank(encoding), len(shape))
        return TileType(shape[-rank:], found[2], encoding, math.prod(shape[:-rank]), _shape(of[0])[-rank:] if of else shape[-rank:])

    def layout(self) -> Layout | Swizzled:
        """Where elements are; of a part of a buffer, of that at its beginning."""
        if self.whole in ((), self.shape):
            return of_encoding(self.encoding, self.shape)
        return of_encoding(self.encoding, self.whole).slice([(0, n) for n in self.shape], self.whole)


def _rank(encoding: str) -> int:
    """Of one buffer, which is 2 where it is not said."""
    fields = _parsed(encoding)
    return len(fields.get("order") or (fields.get("offset") or [[]])[0]) or int(fields.get("rank", 2))


def of_encoding(text: str, shape: Sequence[int]) -> Layout | Swizzled:
    """The layout that Triton's IR writes so, for a tensor of this shape: ``#ttg.blocked<{...}>`` on the axes reg, lane and warp,
    ``#ttg.swizzled_shared<{...}>`` on m, in elements."""
    dims = read_shape(shape)
    made = _made(_parsed(text), dims)
    return made.layout(dims) if isinstance(made, Bases) else made


def _made(fields: Fields, shape: Sequence[int]) -> Any:
    """Bases of what is in registers, the layout of what is in shared memory."""
    name = fields[""]
    if name not in _DESCRIBED:
        raise LayoutError(
            f"the encoding {name} is not described",
            cure=f"one of {', '.join(_DESCRIBED)}, in full: aliases such as #mma stand at the head of the module",
        )
    wanted, make = _DESCRIBED[name]
    keys = wanted.replace("?", "").split()
    missing = [k for k in wanted.split() if "?" not in k and k not in fields]
    others = [k for k, v in fields.items() if k and k not in keys and not _idle(k, v)]
    if missing or others:
        said = f"without {', '.join(missing)}" if missing else f"with {others[0]} = {fields[others[0]]}"
        raise LayoutError(f"#ttg.{name} {said} is not described", cure="fields as Triton 3.6 and 3.7 print them")
    return make(shape, *(fields.get(k) for k in keys))


def _idle(key: str, value: Any) -> bool:
    """Whether a field changes nothing as it is."""
    none = {"CGALayout": [], "block": [], "CTAsPerCGA": 1, "CTASplitNum": 1, "tilesPerWarp": 1, "fp4Padded": False}
    known = key in none and (value == none[key] or (isinstance(value, list) and all(v == none[key] for v in value)))
    return known or key in ("version", "versionMinor", "CTAOrder", "rank", "alignment", "shape")


def _operand(shape: Sequence[int], operand: int, parent: Fields, width: int | None) -> Bases:
    _made(parent, shape)  # refuses what is not described
    match parent:
        case {"": "blocked"}:
            return fragments.blocked_operand(shape, operand, *(parent[k] for k in _DESCRIBED["blocked"][0].split()))
        case {"": "nvidia_mma", "versionMajor": version, "warpsPerCTA": warps} if width:
            return fragments.mma_operand(shape, operand, version, warps, width)
        case {"": "amd_mfma", "instrShape": instruction, "warpsPerCTA": warps} if width:
            return fragments.mfma_operand(shape, operand, instruction, warps, width)
    raise LayoutError(f"an operand of #ttg.{parent['']} is not described", cure="of blocked, or with kWidth of nvidia_mma or amd_mfma")


def _slice(shape: Sequence[int], dim: int, parent: Fields) -> Bases:
    made = _made(parent, [*shape[:dim], 1, *shape[dim:]])
    return cast(Bases, made).without(dim, fragments.REG)


def _linear(shape: Sequence[int], register: Bits, lane: Bits, warp: Bits) -> Bases:
    held = {fragments.REG: register, fragments.LANE: lane, fragments.WARP: warp}
    bases = Bases(len(shape), {axis: [tuple(b) for b in bits] for axis, bits in held.items()})
    if any(bases.reached(d) < n for d, n in enumerate(shape)):
        raise LayoutError(f"the bits of #ttg.linear do not reach all of {tuple(shape)}", cure="the shape that the layout is for")
    return bases.fit(shape, fragments.REG, range(len(shape)))


def _padded(shape: Sequence[int], pads: list[tuple[int, int]], order: list[int] | None, offset: Bits | None) -> Layout:
    bits = Bases(len(shape)).walks(MEMORY, shape, order or []).bits.get(MEMORY, []) if offset is None else offset
    return shared.padded(layout_of_bases({MEMORY: bits}, shape), pads)


def _shared_linear(shape: Sequence[int], offset: Bits) -> Layout | Swizzled:
    return layout_of_bases({MEMORY: offset}, shape)


_DESCRIBED: dict[str, tuple[str, Callable[..., Bases | Layout | Swizzled]]] = {  # fields in the order of the parameters
    "blocked": ("sizePerThread threadsPerWarp warpsPerCTA order", fragments.blocked),
    "nvidia_mma": ("versionMajor instrShape warpsPerCTA", fragments.mma),
    "amd_mfma": ("instrShape warpsPerCTA isTransposed", fragments.mfma),
    "dot_op": ("opIdx parent kWidth?", _operand),
    "slice": ("dim parent", _slice),
    "linear": ("register lane warp", _linear),
    "swizzled_shared": ("vec perPhase maxPhase order", shared.swizzled),
    "nvmma_shared": ("swizzlingByteWidth elementBitWidth transposed", shared.tensor_core),
    "padded_shared": ("pads order? offset?", _padded),
    "shared_linear": ("offset", _shared_linear),
}


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def _parsed(text: str) -> Fields:
    """The fields of an attribute; LayoutError if the text is none."""
    words = _TOKEN.findall(text)
    if "".join(words) != re.sub(r"\s", "", text):
        raise LayoutError(f"no encoding is written {text!r}", cure="#ttg.name<{field = value, ...}>")
    words.append("")
    at = 0

    def take(wanted: str = "") -> str:
        nonlocal at
        word = words[at]
        if not word or (wanted and word != wanted):
            raise LayoutError(f"{wanted or 'more'} expected at word {at} of {text!r}", cure="#ttg.name<{field = value, ...}>")
        at += 1
        return str(word)

    def several(open_: str, close: str, read: Callable[[], Any]) -> list[Any]:
        take(open_)
        found = []
        while words[at] != close:
            found.append(read())
            if words[at] != close:
                take(",")
        take(close)
        return found

    def field() -> tuple[str, Any]:
        key = take()
        take("=")
        return key, value()

    def fields() -> Iterator[tuple[str, Any]]:
        while words[at] not in (">", ""):
            yield field()
            if words[at] == ",":
                take()

    def pad() -> tuple[int, int]:
        interval = take()
        take(":")
        take("+")
        return int(interval), int(take())

    def value() -> Any:
        if words[at] == "[":
            return several("[", "]", value)
        word = take()
        if not word.startswith("#"):
            return int(word) if re.fullmatch(r"-?\d+", word) else {"true": True, "false": False}.get(word, word)
        found: Fields = {"": word.removeprefix("#ttg.").removeprefix("#")}
        if words[at] == "<":
            take("<")
            if words[at] == "[":
                found["pads"] = several("[", "]", pad)
            found |= dict(several("{", "}", field) if words[at] == "{" else fields())
            take(">")
        return found

    found = value()
    if not isinstance(found, dict) or words[at]:
        raise LayoutError(f"no encoding is written {text!r}", cure="#ttg.name<{field = value, ...}>")
    return found
