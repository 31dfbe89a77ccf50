"""Triton's encodings as layouts: against the formulas of the instruction sets, Triton's own maps, and enumerated banks."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from eqfuse.errors import LayoutError
from eqfuse.ir.layout import of_encoding
from eqfuse.ir.layout.banks import passes
from eqfuse.ir.layout.encodings import TileType

MMA = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>"
WGMMA = "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 32, 16]}>"
MFMA = "#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [32, 32, 8], isTransposed = false}>"
FORMULAS = {  # (row, column) of a register: PTX ISA, "Matrix fragments", g = lane / 4 and t = lane % 4; AMD's matrix instruction calculator
    "mma result": (MMA, (16, 8), 4, lambda w, g, t, r: (g + 8 * (r // 2), 2 * t + r % 2)),
    "mma a": (f"#ttg.dot_op<{{opIdx = 0, parent = {MMA}, kWidth = 2}}>", (16, 16), 8,
              lambda w, g, t, r: (g + 8 * (r // 2 % 2), 2 * t + r % 2 + 8 * (r // 4))),
    "mma b": (f"#ttg.dot_op<{{opIdx = 1, parent = {MMA}, kWidth = 2}}>", (16, 8), 4, lambda w, g, t, r: (2 * t + r % 2 + 8 * (r // 2), g)),
    "wgmma result": (WGMMA, (64, 32), 16, lambda w, g, t, r: (16 * w + g + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * t + r % 2)),
    "mfma result": (MFMA, (32, 32), 16, lambda w, g, t, r: (8 * (r // 4) + 4 * (g // 8) + r % 4, 4 * (g % 8) + t)),
    "mfma a": (f"#ttg.dot_op<{{opIdx = 0, parent = {MFMA}, kWidth = 4}}>", (32, 8), 4,
               lambda w, g, t, r: (4 * (g % 8) + t, 4 * (g // 8) + r)),
}  # fmt: skip


@pytest.mark.parametrize("what", FORMULAS)
def test_fragments_are_those_of_the_instruction(what):
    text, shape, registers, at = FORMULAS[what]
    layout = of_encoding(text, shape)
    lanes, warps = 64 if "mfma" in what else 32, 4 if "wgmma" in what else 1
    held = {
        at(w, lane // 4, lane % 4, r): {"warp": w, "lane": lane, "reg": r}
        for w in range(warps)
        for lane in range(lanes)
        for r in range(registers)
    }
    assert len(held) == layout.size and layout.copies == 1
    for index, place in held.items():
        assert layout(index, shape) == ({axis: place[axis] for axis in layout.axes},)


def draw(r):
    """The text of an encoding, and Triton's own object of it, which also prints."""
    lib = pytest.importorskip("triton.experimental.gluon.language._layouts")
    amd = pytest.importorskip("triton.experimental.gluon.language.amd._layouts")

    def spread(bits, rank):
        out = [1] * rank
        for _ in range(bits):
            out[r.randrange(rank)] *= 2
        return out

    rank, power = r.choice([2, 2, 3]), lambda top: 1 << r.randrange(top + 1)
    shape = [power(2 if rank == 3 else 6) for _ in range(rank - 1)] + [2 * power(5)]
    order, warps = r.sample(range(rank), rank), spread(r.randrange(4), rank)
    box = lib.BlockedLayout([power(3) for _ in range(rank)], spread(5, rank), warps, order)
    mma = lib.NVMMADistributedLayout([2, 0], warps, [1] * (rank - 2) + [16, 8])
    mfma = amd.AMDMFMALayout(3, [r.choice([16, 32])] * 2 + [8], r.random() < 0.5, warps)
    operand, width = r.randrange(2), r.choice([1, 2, 4])
    made = [
        box, lib.DotOperandLayout(operand, box, 0), lib.SliceLayout(0, box), lib.SliceLayout(1, mma), mma, mfma,
        lib.DotOperandLayout(operand, mma, width), lib.DotOperandLayout(operand, mfma, 4),
        lib.SwizzledSharedLayout(power(3), power(2), power(4), order),
    ]  # fmt: skip
    if rank == 2:
        wide = lib.NVMMADistributedLayout([3, 0], [4, 1], [16, power(4) * 8, 16])
        row, turned = r.choice([0, 32, 64, 128]), r.random() < 0.5
        made += [wide, lib.DotOperandLayout(0, wide, width)]
        if (shape[0] if turned else shape[1]) * 2 >= row and (shape[1] if turned else shape[0]) >= 8:
            made.append(lib.NVMMASharedLayout(row, 16, rank, turned))
    return r.choice(made), shape


def builder():
    found = pytest.importorskip("triton._C.libtriton")
    if not hasattr(found, "gluon_ir") or not hasattr(found.gluon_ir.GluonOpBuilder, "to_linear_layout"):
        pytest.skip("this Triton does not tell its maps")
    context = found.ir.context()
    found.ir.load_dialects(context)
    return found.gluon_ir.GluonOpBuilder(context), context  # which has to live as long


def test_the_map_is_tritons():
    b, _alive = builder()
    r = random.Random(0)
    seen = Counter()
    for _ in range(120):
        theirs, shape = draw(r)
        if type(theirs).__name__ == "SliceLayout":
            del shape[theirs.dim]
        handle = theirs._to_ir(b)
        linear = b.to_linear_layout(handle, shape)
        bits = {"m": linear.offset_bases} if hasattr(linear, "offset_bases") else {
            "reg": linear.reg_bases, "lane": linear.lane_bases, "warp": linear.warp_bases}  # fmt: skip
        number, index = np.arange(1 << sum(map(len, bits.values()))), 0  # of places, all bits in a row
        theirs_at, shift = [], 0
        for bases in bits.values():
            theirs_at.append(number >> shift & (1 << len(bases)) - 1)
            for k, basis in enumerate(bases):
                index ^= np.where(theirs_at[-1] >> k & 1, np.array(basis)[:, None], 0)
            shift += len(bases)
        wanted = np.stack([np.ravel_multi_index(tuple(index), shape), *theirs_at])
        half = b.get_half_ty()
        text = str(b.get_shared_mem_desc_ty(half, shape, handle, shape) if "m" in bits else b.get_distributed_ty(half, shape, handle))
        layout = TileType.read(text).layout()
        places = layout.over()
        found = np.broadcast_arrays(np.arange(layout.size)[:, None], *(places.get(axis, np.zeros((layout.size, 1), int)) for axis in bits))
        assert np.array_equal(np.unique(wanted, axis=1), np.unique(np.stack([f.ravel() for f in found]), axis=1)), text
        seen[type(theirs).__name__] += 1
    assert len(seen) >= 7


def test_bank_conflicts_are_tritons():
    """Where a lane accesses a word or more and there are no copies; Triton counts the passes of a phase less one."""
    b, _alive = builder()
    lib = pytest.importorskip("triton.experimental.gluon.language._layouts")
    r, seen = random.Random(2), Counter()
    for _ in range(100):
        shape, bits, swizzle = [32, r.choice([32, 64])], r.choice([8, 16, 32]), [r.choice([1, 4, 8]), r.choice([1, 2]), r.choice([1, 8, 8])]
        box = [r.choice([1, 2, 4]), r.choice([1, 4, 8])], r.choice([[4, 8], [8, 4], [1, 32]])
        held = r.choice([lib.BlockedLayout(*box, [1, 1], [1, 0]), lib.NVMMADistributedLayout([2, 0], [1, 1], [16, 8])])._to_ir(b)
        stored = lib.SwizzledSharedLayout(*swizzle, r.choice([[1, 0], [1, 0], [0, 1]]))._to_ir(b)
        half = b.get_half_ty()
        registers = TileType.read(str(b.get_distributed_ty(half, shape, held))).layout()
        shared = TileType.read(str(b.get_shared_mem_desc_ty(half, shape, stored, shape))).layout()
        found = passes(registers, shared, bits // 8)
        if registers.copies == 1 and found.bytes >= 4:
            assert b.get_shared_bank_conflicts(held, stored, shape, bits) == found.passes // found.phases - 1, (registers, shared, bits)
            seen[found.conflicts > 0] += 1
    assert min(seen[True], seen[False]) >= 5, seen


def enumerated(registers, shared, element_bytes, found):
    """Passes of all instructions of each warp, from the places of all elements alone."""
    of, memory = registers.over(), shared.over()["m"][:, 0]
    held = defaultdict(dict)  # warp -> (lane, register) -> element in memory
    for x in range(registers.size):
        for copy in range(registers.copies):
            warp, lane, reg = (int(of[a][x, copy]) if a in of else 0 for a in ("warp", "lane", "reg"))
            held[warp][lane, reg] = int(memory[x])
    each = (4 if found.matrix else found.bytes) // element_bytes
    phase = 32 if found.matrix else min(32, 128 // max(found.bytes, 4))
    totals = set()
    for places in held.values():
        instructions = defaultdict(list)
        for (lane, reg), x in places.items():
            if not lane:
                instructions[reg // each if found.matrix else x // each].append(reg)
        total = 0
        for regs in instructions.values():
            for first in range(0, 32, phase):
                mine = [[places[k, reg] for reg in regs] for k in range(first, first + phase) if (k, regs[0]) in places]
                assert found.matrix or all(sorted(v) == list(range(min(v), min(v) + each)) and min(v) % each == 0 for v in mine)
                words = {byte // 4 for v in mine for x in v for byte in range(x * element_bytes, (x + 1) * element_bytes)}
                total += max(Counter(w % 32 for w in words).values(), default=0)
        totals.add((len(instructions), total))
    return totals


def test_bank_conflicts_are_those_of_enumeration():
    r = random.Random(1)
    seen = Counter()
    for _ in range(100):
        shape, warps = (r.choice([16, 32]), r.choice([16, 64])), r.choice([[1, 1], [2, 1], [1, 2]])
        mma = MMA.replace("[1, 1]", str(warps))
        box = [r.choice([1, 2]), r.choice([1, 4, 8])], r.choice([[4, 8], [8, 4], [1, 32]])
        held = r.choice([
            f"#ttg.blocked<{{sizePerThread = {box[0]}, threadsPerWarp = {box[1]}, warpsPerCTA = {warps}, order = [1, 0]}}>", mma,
            *(f"#ttg.dot_op<{{opIdx = {k}, parent = {mma}, kWidth = 2}}>" for k in (0, 1)),
            f"#ttg.dot_op<{{opIdx = 1, parent = #ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = {warps}, order = [1, 0]}}>}}>",
        ])  # fmt: skip
        order = r.choice([[1, 0], [0, 1]])
        stored = r.choice([
            f"#ttg.swizzled_shared<{{vec = {r.choice([1, 2, 4, 8])}, perPhase = {r.choice([1, 2])}, maxPhase = {r.choice([1, 4, 8])}, order = {order}}}>",
            f"#ttg.padded_shared<[{r.choice([16, 64])}:+{r.choice([4, 8])}] {{order = {order}, shape = {list(shape)}}}>",
        ])  # fmt: skip
        registers, shared, size = of_encoding(held, shape), of_encoding(stored, shape), r.choice([1, 2, 2, 2, 4, 8])
        found = passes(registers, shared, size, matrix=r.random() < 0.7)
        assert enumerated(registers, shared, size, found) == {(found.instructions, found.instructions * found.passes)}
        seen["matrix" if found.matrix else "vector", found.conflicts > 0] += 1
    assert min(seen[k, c] for k in ("matrix", "vector") for c in (True, False)) >= 3, seen


def test_padding_leaves_elements_out():
    layout = of_encoding("#ttg.padded_shared<[32:+4, 128:+8] {order = [1, 0], shape = [16, 32]}>", (16, 32))
    assert [layout(x)[0]["m"] for x in range(512)] == [x + 4 * (x // 32) + 8 * (x // 128) for x in range(512)]
    with pytest.raises(LayoutError, match="depend on more than the lanes"):  # rows begin in the middle of words
        passes(of_encoding(MMA, (16, 8)), of_encoding("#ttg.padded_shared<[8:+1] {order = [1, 0], shape = [16, 8]}>", (16, 8)), 2)


def test_types_and_what_is_refused():
    swizzled = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
    buffers = TileType.read(f"!ttg.memdesc<3x64x64xf16, {swizzled}, #ttg.shared_memory, mutable>")
    assert (buffers.shape, buffers.buffers) == ((64, 64), 3)
    part = TileType.read(f"!ttg.memdesc<64x16xf16, {swizzled}, #ttg.shared_memory, mutable, 64x64>").layout()
    assert all(part((i, j), (64, 16)) == buffers.layout()((i, j), (64, 64)) for i in range(64) for j in range(16))
    assert TileType.read("tensor<64x!tt.ptr<f16>, " + MMA + ">").dtype == "!tt.ptr<f16>" and TileType.read("i32") is None
    for text, said in {
        "#mma": "not described", "#ttg.blocked<{order = [1, 0]}>": "without sizePerThread", "#ttg.blocked<{": "expected", "mma": "no encoding",
        MMA.replace("[16, 8]", "[8, 8]"): "not described", swizzled.replace("}", ", CGALayout = [[1, 0]]}"): "CGALayout",
        f"#ttg.dot_op<{{opIdx = 1, parent = {WGMMA}, kWidth = 2}}>": "shared memory", "#ttg.amd_wmma<{version = 1}>": "not described",
    }.items():  # fmt: skip
        with pytest.raises(LayoutError, match=said) as refused:
            of_encoding(text, (64, 64))
        assert refused.value.cure
