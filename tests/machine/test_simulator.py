"""The simulated multiprocessor obeys the rates and latencies that it is given: counted by hand for small listings."""

from __future__ import annotations

import pytest

from eqfuse.extract.targets import load_target
from eqfuse.machine import Accesses, floors
from eqfuse.machine.pipes import cost, processor, unmodelled
from eqfuse.machine.sass import Instruction, Listing
from eqfuse.machine.simulator import Multiprocessor, commits

H100 = processor(load_target("h100"))
A100 = processor(load_target("a100"))
B200 = processor(load_target("b200"))


def at(opcode, operands="", *, stall=1, sets=(), waits=()):
    return Instruction(opcode, operands, "", None, stall, sets, (), waits)


def cycles(code, *, warps=4, blocks=1, resident=1, missed=0.0, p=H100):
    listing = Listing(tuple(code))
    found = Multiprocessor(listing, range(len(listing)), p, warps, missed).cycles(blocks, resident)
    needed = floors.cycles(listing, range(len(listing)), warps, p)
    assert found >= blocks * max(needed.values()) - max(H100.interval.values())  # the last instruction need not leave its unit
    return found


@pytest.mark.parametrize(
    ("opcode", "p", "each"), [("FFMA", H100, 1), ("FFMA", A100, 2), ("FMNMX.NAN", H100, 2), ("MUFU.EX2", H100, 8), ("IMAD", H100, 2)]
)
def test_a_unit_takes_as_many_as_it_can(opcode, p, each):
    n = 64
    assert cycles([at(opcode)] * n, warps=8, p=p) == pytest.approx(2 * n * each, abs=2 * each)  # two warps to a scheduler


def test_stalls_are_hidden_by_other_warps_and_by_nothing_else():
    code = [at("FADD", stall=4)] * 32
    assert cycles(code, warps=4) == pytest.approx(128, abs=4)
    assert cycles(code, warps=16) == pytest.approx(128, abs=8)  # four warps a scheduler: each issues while the others wait
    assert cycles(code, warps=32) == pytest.approx(256, abs=8)


def test_a_scoreboard_waits_for_memory():
    code = [at("LDG.E.128", sets=(0,)), at("FADD", waits=(0,))]
    near, far = (cycles(code, warps=1, missed=m) for m in (0.0, 1.0))
    assert near == pytest.approx(H100.latency["second_level"], rel=0.3)
    assert far - near == pytest.approx(H100.latency["device"] - H100.latency["second_level"], rel=0.2)


def test_memory_gives_no_more_than_its_rate():
    code = [at("LDG.E.128", sets=(i % 6,)) for i in range(60)] + [at("FADD", waits=(0, 1, 2, 3, 4, 5))]
    moved = 60 * 512 * 8 * 6
    for missed, rate in ((0.0, H100.second_level_bytes), (1.0, H100.device_bytes)):
        assert cycles(code, warps=8, blocks=6, resident=2, missed=missed) == pytest.approx(moved / rate, rel=0.1)


def test_shared_memory_is_one_for_all_schedulers():
    code = [at("LDS.128", sets=(0,))] * 32
    assert cycles(code, warps=8) == pytest.approx(32 * 8 * 512 / 128, rel=0.05)


def test_a_barrier_waits_for_the_last_warp():
    free = cycles([at("MUFU.EX2")] * 16 + [at("FADD")] * 16, warps=8)
    held = cycles([at("MUFU.EX2")] * 16 + [at("BAR.SYNC", "0x0"), *[at("FADD")] * 16], warps=8)
    assert held > free
    halves = cycles([at("BAR.SYNC", "0x1, 0x80"), at("FADD")], warps=8)  # four warps at a time are whole
    assert halves < cycles([at("BAR.SYNC", "0x1"), at("FADD")], warps=8) + H100.latency["barrier"]


def test_products_of_a_warp_group_run_beside_the_schedulers():
    product = at("HGMMA.64x128x16.F32", "R24, gdesc[UR8], R24, gsb0")
    alone = cycles([product] * 8 + [at("WARPGROUP.DEPBAR.LE", "gsb0, 0x0")])
    peak = 8 * 2 * 64 * 128 * 16 / H100.matrix_rate("float16")
    assert alone == pytest.approx(peak, rel=0.35)  # both operands from shared memory are more than it gives: 6144 bytes in 64 cycles fit
    beside = cycles([product] * 8 + [at("FFMA")] * 200 + [at("WARPGROUP.DEPBAR.LE", "gsb0, 0x0")])
    assert beside < alone + 60


def test_a_product_of_a_warp_takes_its_share_of_the_peak():
    flops = 2 * 16 * 8 * 16
    assert A100.matrix_rate("float16") == pytest.approx(2048, rel=0.01)
    assert cost(at("HMMA.16816.F32"), A100).busy == pytest.approx(flops / 512, rel=0.01)
    assert cycles([at("HMMA.16816.F32")] * 32, warps=8, p=A100) == pytest.approx(2 * 32 * 8, rel=0.1)


M128N128 = "gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[0x8200010], UPT"  # 128 rows, 128 columns, float16


def test_products_of_a_block_run_in_order_beside_its_warps():
    products = [at("UTCHMMA", M128N128)] * 16
    each = 2 * 128 * 128 * 16 / B200.matrix_rate("float16")
    waited = [*products, at("UTCBAR", "[UR4], URZ"), at("SYNCS.PHASECHK.TRANS64.TRYWAIT", "P0, [UR4], R2")]
    code = Listing((*waited, at("FADD")))
    first, others = list(range(len(code))), list(range(16, len(code)))
    others.remove(16)
    found = Multiprocessor(code, first, B200, 4, 0.0, 1.0, others).cycles(1, 1)
    assert found == pytest.approx(16 * each + B200.latency["matrix"], rel=0.05)  # all four warps wait for what one began
    assert floors.cycles(code, first, 1, B200)["matrix"] == pytest.approx(16 * each, rel=0.01)
    beside = Listing((*products[:4], *[at("FFMA")] * 400))
    assert Multiprocessor(beside, range(len(beside)), B200, 1, 0.0).cycles(1, 1) == pytest.approx(4 + 400, abs=8)


def test_a_wait_is_for_the_commit_to_its_barrier():
    wait, commit = "SYNCS.PHASECHK.TRANS64.TRYWAIT", "UTCBAR"
    code = Listing(
        tuple(
            at(op, where)
            for op, where in [(commit, "[UR4]"), (commit, "[UR5]"), (wait, "P0, [UR5]"), (wait, "P0, [UR9]"), (wait, "P0, [UR4]")]
        )
    )
    assert commits(code, range(5)) == {(2, 0): 1, (3, 0): 0}  # by register; else the earliest; and none is left for the last


def test_a_wait_is_for_bulk_copies_in_the_order_in_which_they_begin():
    wait, expect = "SYNCS.PHASECHK.TRANS64.TRYWAIT", "SYNCS.ARRIVE.TRANS64"
    code = Listing((at(expect, "RZ, [UR4], 0xc000"), at(expect, "RZ, [UR5], 0x4000"), at(wait, "P0, [UR9], R5"), at(wait, "P0, [UR8], R5")))
    assert [x.arriving for x in code.instructions] == [0xC000, 0x4000, 0, 0]
    assert cost(code[0], H100).memory == cost(code[0], H100).shared == 0xC000
    assert commits(code, range(4)) == {(2, 0): 0, (3, 0): 1}


def test_tensor_memory_gives_a_word_a_lane_and_clock():
    assert cost(at("LDTM.x64"), B200).busy == 64
    assert cost(at("STTM.16dp32bit_t0_t15.x16"), B200).busy == 8


def test_conflicts_take_passes_and_what_never_runs_takes_none():
    code = Listing((at("LDS.128"), at("STS"), Instruction("LDS", "RZ, [RZ]", "!PT", None, 1, (), (), ())))
    known = Accesses({("read", 16): 2.0}).of(code)
    assert [cost(x, H100).shared for x in known.instructions] == [1024, 128, 0]


def test_what_is_not_modelled_is_known():
    assert unmodelled(at("UTMASTG.2D")) and unmodelled(at("UTCHMMA", "idesc[UR4]")) and not unmodelled(at("UTCHMMA", M128N128))
    assert unmodelled(at("UTCQMMA", M128N128))
    assert unmodelled(at("IMMA.16832.S8.S8"))
    assert not any(unmodelled(at(x)) for x in ("HGMMA.64x64x16.F32", "LDGSTS.E.BYPASS.128", "STS.128", "FFMA"))
