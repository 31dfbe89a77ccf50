"""Ways through listings: loops of the three forms that the compiler makes, guards, and what cannot be followed."""

import pytest

from eqfuse.errors import CompileError
from eqfuse.machine.flow import LoopSpan, innermost, loops, path
from eqfuse.machine.sass import Instruction, Listing


def listing(*lines: str | tuple[str, int]) -> Listing:
    """``"IADD3"``, ``"@P0 EXIT"``, or with a target ``("@P0 BRA", 3)``."""
    out = []
    for line in lines:
        text, target = line if isinstance(line, tuple) else (line, None)
        predicate, _, opcode = text.rpartition(" ")
        out.append(Instruction(opcode, "", predicate.removeprefix("@"), target, 1, (), (), ()))
    return Listing(tuple(out))


def test_a_loop_that_ends_by_its_condition():
    code = listing("MOV", ("@!P0 BRA", 5), "FADD", "FMUL", ("@P1 BRA", 2), "EXIT", ("BRA", 6))
    assert loops(code) == (LoopSpan(2, 4),)  # the last line, where nothing comes, is no loop
    assert path(code, [1]) == [0, 1, 2, 3, 4, 5]
    assert path(code, [3]) == [0, 1, *[2, 3, 4] * 3, 5]


@pytest.mark.parametrize("out", [("@P1 BRA", 4), ("@P1 CALL.REL.NOINC", 4)])
def test_a_loop_that_is_left_in_its_middle(out):
    code = listing("MOV", "FADD", out, ("BRA", 1), "EXIT")
    assert path(code, [3]) == [0, *[1, 2, 3] * 2, 1, 2, 4]


def test_a_loop_over_tasks_that_ends_the_program():
    code = listing("MOV", "FADD", ("@P0 BRA", 4), "MUFU", "FMUL", ("@P2 BRA", 4), "@P1 EXIT", ("BRA", 1))
    outer, inner = loops(code)
    assert (outer, inner) == (LoopSpan(1, 7), LoopSpan(4, 5))
    assert innermost((outer, inner)) == (inner,)
    task = [1, 2, 3, *[4, 5] * 3, 6]
    assert path(code, [2, 3]) == [0, *task, 7, *task]


def test_the_way_into_a_loop_is_taken_where_going_on_would_jump_over_it():
    code = listing("MOV", ("@P0 BRA", 4), "MOV", ("BRA", 6), "FADD", ("@P1 BRA", 4), "EXIT")
    assert path(code, [2]) == [0, 1, 4, 5, 4, 5, 6]


def test_a_wait_is_over_at_once_and_is_no_loop():
    code = listing("FADD", "SYNCS.PHASECHK", ("@!P0 BRA", 1), "EXIT")
    assert not loops(code)
    assert path(code, []) == [0, 1, 2, 3]


def test_what_one_warp_begins_the_others_pass_by():
    code = listing("FADD", ("@P0 BRA", 4), "UTCHMMA", "UTCBAR", "BAR", "EXIT")
    assert path(code, []) == [0, 1, 2, 3, 4, 5]
    assert path(code, [], first=False) == [0, 1, 4, 5]


def test_code_out_of_line_that_comes_back_is_no_loop():
    code = listing("SYNCS", ("@!P0 BRA", 6), "FADD", "FMUL", ("@P1 BRA", 2), "EXIT", "SYNCS", ("@!P0 BRA", 6), ("BRA", 2))
    assert loops(code) == (LoopSpan(2, 4),)
    assert path(code, [2]) == [0, 1, *[2, 3, 4] * 2, 5]


def test_a_loop_that_is_entered_in_its_middle():
    code = listing(("BRA", 3), "FMUL", ("@P0 BRA", 6), ("@P1 BRA", 1), "FADD", ("BRA", 1), "EXIT")
    assert loops(code) == (LoopSpan(1, 5),)
    for trips in (1, 2, 9):
        assert path(code, [trips]) == [0, *[3, 4, 5, 1, 2] * trips, 6]


def test_a_way_without_end_is_refused():
    with pytest.raises(CompileError, match="no way through"):
        path(listing("FADD", ("BRA", 0)), [2])
