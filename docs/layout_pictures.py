"""The pictures in docs/layouts.md, from real layouts: text in the page, SVG in docs/layouts/.

python docs/layout_pictures.py            print the texts
python docs/layout_pictures.py --write    write the page and the files
python docs/layout_pictures.py --check    exit 1 if either is not what the layouts say
"""

import re
import sys
from pathlib import Path

import torch

import eqfuse
from eqfuse import Layout
from eqfuse.ir.layout import Replicate, Shard, Sharding, Swizzle, Swizzled, of_encoding, pictures
from eqfuse.ir.layout.banks import passes

PAGE = Path(__file__).with_name("layouts.md")
FOLDER = Path(__file__).with_name("layouts")
FRAGMENT = Layout.parse("(2,8,4,2):(2@reg,4@lane,1@lane,1@reg)")
ROWS = Swizzled(Layout.from_strides((8, 64)), Swizzle(3, 3, 3))
MESH = Sharding((8, 8), {"dp": 2, "tp": 2}, (Shard(0), Shard(1)))
COPIED = Sharding((8, 8), {"dp": 2, "tp": 2}, (Shard(0), Replicate()))

MFMA = "#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [16, 16, 16], isTransposed = false}>"
OPERAND = """#ttg.dot_op<{opIdx = 0, kWidth = 2, parent =
    #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>}>"""
BLOCKED = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
STORED = {
    "row-major": "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>",
    "padded by 8": "#ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 64]}>",
    "swizzled": "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>",
}


def fragment():
    return pictures.grid(FRAGMENT, (16, 8), ("lane", "reg"))


def lane():
    held = pictures.holders(FRAGMENT, (16, 8), "lane")
    return "\n".join(f"lane {k}: {' '.join(map(str, held[k]))}" for k in (0, 1, 31))


def groups():
    """In which of 8 groups of 4 banks each 16 bytes of a tile of 8 rows of 128 bytes are."""
    places = ROWS.over((8, 64))["m"][:, ::8, 0] * 2 % 128 // 16
    return "\n".join(" ".join(map(str, row)) for row in places)


def sharded():
    return pictures.grid(MESH.layout, (8, 8), ("dp", "tp", "m"))


def levels():
    x, w = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((512, 256), (256, 128)))
    return "\n".join(map(str, eqfuse.optimize(lambda x, w: torch.softmax(x @ w, -1), (x, w), target="a100").layouts()))


def conflicts():
    """Of a warp, for a tile of 64 x 64 elements of 16 bits."""
    lines = []
    for name, text in STORED.items():
        shared = of_encoding(text, (64, 64))
        write, read = (passes(of_encoding(of, (64, 64)), shared, 2, matrix=True) for of in (BLOCKED, OPERAND))
        lines += [f"{name:<12}write: {write}", f"{'':<12}read:  {read}"]
    return "\n".join(lines)


TEXTS = {f.__name__: f for f in (fragment, lane, groups, sharded, levels, conflicts)}
FILES = {
    "fragment.svg": lambda: pictures.svg(FRAGMENT, (16, 8), ("lane", "reg"), "accumulator of mma.m16n8: lane.register of each element"),
    "mfma.svg": lambda: pictures.svg(
        of_encoding(MFMA, (16, 16)), (16, 16), ("lane", "reg"), "accumulator of MFMA 16x16 on CDNA: lane.register of each element"
    ),
    "swizzle.svg": lambda: pictures.svg(
        Swizzled(Layout.from_strides((8, 8)), Swizzle(3, 0, 3)), (8, 8), ("m",), "8 x 8 vectors of 16 bytes, colour: bank group",
        lambda p: p[0]["m"] % 8,
    ),
    "sharded.svg": lambda: pictures.svg(
        MESH.layout, (8, 8), ("dp", "tp", "m"), "8 x 8 on a 2 x 2 mesh: Shard(0), Shard(1)", lambda p: 2 * p[0]["dp"] + p[0]["tp"]
    ),
    "copied.svg": lambda: pictures.svg(COPIED.layout, (8, 8), ("dp", "tp", "m"), "8 x 8 on a 2 x 2 mesh: Shard(0), Replicate()"),
}  # fmt: skip


def page(text):
    return re.sub(
        r"(<!-- picture: (\w+) .*?-->\n).*?(<!-- end -->)",
        lambda m: f"{m[1]}```text\n{TEXTS[m[2]]()}\n```\n{m[3]}",
        text,
        flags=re.DOTALL,
    )


def wanted():
    return {PAGE: page(PAGE.read_text())} | {FOLDER / name: draw() for name, draw in FILES.items()}


if __name__ == "__main__":
    if "--write" in sys.argv:
        for path, text in wanted().items():
            path.write_text(text)
    elif "--check" in sys.argv:
        sys.exit(", ".join(p.name for p, text in wanted().items() if not p.exists() or p.read_text() != text) or 0)
    else:
        print(*(f() for f in TEXTS.values()), sep="\n\n")
