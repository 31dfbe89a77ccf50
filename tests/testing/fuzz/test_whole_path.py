"""The fuzzer of the whole path: a bounded number of programs, what they cover, and proof that it can fail in every stage."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from eqfuse import optimize
from eqfuse.egraph import saturate
from eqfuse.errors import UnsoundGraphError
from eqfuse.extract import extract
from eqfuse.extract.covers import Cover, Extractor
from eqfuse.extract.targets import load_target
from eqfuse.ir import dtypes
from eqfuse.ir.build import (
    axes,
    cast,
    const,
    exp,
    extent,
    index,
    maximum_over,
    mean_over,
    program,
    recip,
    sum_over,
    tanh,
    tensor,
)
from eqfuse.ir.index import Axis as NamedAxis
from eqfuse.ir.index import FloorDiv
from eqfuse.ir.monoids import MONOIDS
from eqfuse.ir.ops import OPS, triton
from eqfuse.ir.program import Output, Program
from eqfuse.ir.reference import evaluate
from eqfuse.ir.shrink import alike, shrink, window
from eqfuse.ir.source import program_source
from eqfuse.ir.terms import Index, Input, Map, Reduce, View
from eqfuse.rewrites import registry
from eqfuse.rewrites.patterns import Sum
from eqfuse.rewrites.rule import Axis, make_rule
from eqfuse.testing.fuzz import whole_path
from eqfuse.testing.fuzz.command import main
from eqfuse.testing.fuzz.conditioning import COPIES, recomputed, spread
from eqfuse.testing.fuzz.grammar import draw_program
from eqfuse.testing.fuzz.whole_path import STAGES, Tally, check, filtered, fuzz, one
from eqfuse.tiles import analysis, lower
from eqfuse.tiles.simulate import simulate

i, j = axes(i=5, j=7)


# a bounded number -------------------------------------------------------------------------------------------------------------------


def test_random_programs_through_the_whole_path():
    tally = fuzz(range(10_000, 10_060), interpret_every=15)
    assert not tally.findings, str(tally.findings[0])
    assert tally.programs == 60
    assert tally.filtered.total() <= 5, tally.filtered
    assert set(tally.filtered) <= {"reference not finite", "ill-conditioned"}
    for stage in ("saturate", "audit", "plan", "simulate", "hazards"):
        assert tally.stages[stage] == 60 - tally.filtered.total()
    assert tally.stages["tiles"] >= 50
    assert tally.stages["interpret"] >= 3
    assert min(tally.covered[k] for k in ("loops", "matrix products", "rolling reductions", "several kernels", "split axis")) >= 5
    assert tally.audit["rolls"] > 30


def test_the_grammar_draws_everything():
    """Every op, every monoid, every kind of view, casts, types, several outputs; enumerated from the tables."""
    drawn: Counter[str] = Counter()
    sizes: set[int] = set()
    for seed in range(600):
        d = draw_program(seed)
        drawn.update(d.used.keys())
        sizes |= {a.size for a in d.program.axes}
        assert {i.name for i in d.program.inputs} == set(d.inputs)
    assert [o for o in OPS if not drawn[f"op {o}"] and not hasattr(OPS[o], "user")] == []
    assert [m for m in MONOIDS if not drawn[f"monoid {m}"]] == []
    views = ("flip", "shift", "stride", "split", "merge", "diagonal", "groups", "one", "cycle", "band")
    assert [v for v in views if not drawn[f"view {v}"]] == []
    assert {f"cast {t}" for t in ("float16", "bfloat16", "float32", "int32")} <= set(drawn)
    assert {f"input {t}" for t in ("float16", "bfloat16", "float32", "int32", "bool")} <= set(drawn)
    assert {"outputs 1", "outputs 2", "outputs 3", "term index", "term extent"} <= set(drawn)
    assert {0, 1, 2, 3, 5, 7, 11, 13, 17} <= sizes
    assert drawn["axis of length 0"] >= 15
    assert drawn["ragged rows"] >= 60


def test_a_seed_is_one_program():
    code = "from eqfuse.testing.fuzz.grammar import draw_program as d; print([str(d(s).program) for s in range(20)])"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": h}, capture_output=True, text=True, check=True
        ).stdout
        for h in ("1", "2")
    }
    assert len(runs) == 1


def test_rows_of_length_zero_and_whole_rows_are_drawn():
    """A length per row as data: none, some and all of the row's elements."""
    lengths: set[float] = set()
    shares: set[str] = set()
    for seed in range(300):
        d = draw_program(seed)
        for t in d.program.terms():
            if isinstance(t, Map) and t.op == "lt" and isinstance(t.args[0], Index) and isinstance(t.args[1], Input):
                k, n = t.args[0].axis, d.inputs[t.args[1].name]
                if t.args[1].name.startswith("n") and k.size > 1 and n.ndim and n.min(initial=0) >= 0 and n.max(initial=0) <= k.size:
                    lengths |= set(n.reshape(-1).tolist())
                    shares |= {"none" if x == 0 else "all" if x == k.size else "some" for x in n.reshape(-1)}
    assert shares == {"none", "some", "all"}
    assert len(lengths) > 5


def test_two_runs_are_one(tmp_path):
    """Everything but times and memory; hash randomisation and what ran before do not matter."""
    logs = []
    for h in ("1", "2"):
        file = tmp_path / f"{h}.jsonl"
        code = "from eqfuse.testing.fuzz.command import main; main()"
        command = [sys.executable, "-c", code, *("70", "90", "--interpret", "5", "--json", str(file))]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": h}, capture_output=True, check=True)
        logs.append([json.loads(line) for line in file.read_text().splitlines()])
    for run, *programs in logs:
        del run["run"]["date"]
        for line in programs:
            assert line.pop("seconds") and line.pop("peak_memory_mb")
    assert [line["seed"] for line in logs[0][1:]] == list(range(70, 90))
    assert logs[0] == logs[1]


GROWTH = """
import gc
from eqfuse.testing.fuzz.whole_path import Tally, one

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6, len(gc.get_objects())

tally = Tally()
for seed in range(30_000, 30_110):
    if seed == 30_030:
        before = resident()
    one(seed, tally, interpret=seed % 4 == 0)
after = resident()
assert not tally.findings, tally.findings[0]
print(before[0], after[0], before[1], after[1])
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the resident memory from /proc")
def test_memory_is_bounded():
    """80 programs after 30: engines, modules and what Triton keeps of kernels do not pile up."""
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, after, objects_before, objects_after = map(float, done.stdout.split())
    assert after - before < 60, f"{before:.0f} MB, then {after:.0f} MB"
    assert objects_after - objects_before < 5000, "38 interpreted modules were 12,000 objects"
    assert after < 800


def test_kernels_that_take_too_long_to_simulate_are_left_out_and_counted(monkeypatch):
    """Random roles once made 785664 steps of four nested loops; here no kernel may take one."""
    drawn, tally = draw_program(0), Tally()
    check(drawn.program, drawn.inputs, 0, tally=tally, only="tiles")
    assert not tally.skipped
    monkeypatch.setattr(whole_path, "MOST_STEPS", 0)
    left_out = Tally()
    check(drawn.program, drawn.inputs, 0, tally=left_out, only="tiles")
    assert sum(n for why, n in left_out.skipped.items() if "more steps" in why) > 0


def test_programs_print_as_code_that_rebuilds_them():
    for seed in range(150):
        p = draw_program(seed).program
        space: dict = {}
        exec(program_source(p), space)
        assert space["p"] == p


# it can fail ------------------------------------------------------------------------------------------------------------------------


def found(seeds: range, interpret: bool = False) -> list[whole_path.Finding]:
    """The first finding of some seeds."""
    tally = Tally()
    for seed in seeds:
        one(seed, tally, interpret=interpret, shrink_seconds=60.0)
        if tally.findings:
            break
    return tally.findings


def operations(finding: whole_path.Finding) -> int:
    space: dict = {}
    exec(finding.minimal, space)
    return sum(len(t.args) > 0 for t in space["p"].terms())


def mean_is_sum(x, n: Axis):
    """sum_n x*x = sum_n x, wrongly."""
    return Sum(n, x * x), Sum(n, x)


@pytest.mark.unaudited
def test_an_unsound_rule_is_found_and_shown_small(monkeypatch):
    registry.rules()
    monkeypatch.setitem(registry.RULES, "mean_is_sum", make_rule(mean_is_sum, "user", "approx", "factor", True))
    (finding,) = found(range(60))
    assert finding.stage == "audit"
    assert "mean_is_sum" in finding.message
    assert operations(finding) <= 3


def zero_everywhere(self, node, axis):
    return True


def unmasked(self, block, v, bindings, fill):
    return v


@pytest.mark.parametrize(
    ("owner", "name", "broken"), [(analysis.Facts, "zero_padded", zero_everywhere), (lower.Lowering, "masked", unmasked)]
)
def test_a_broken_lowering_is_found(monkeypatch, owner, name, broken):
    monkeypatch.setattr(owner, name, broken)
    (finding,) = found(range(60))
    assert finding.stage in ("simulate", "tiles")
    assert operations(finding) <= 4


def test_a_broken_printer_is_found(monkeypatch):
    monkeypatch.setitem(OPS, "maximum", dataclasses.replace(OPS["maximum"], spellings=triton("tl.minimum({}, {})")))
    (finding,) = found(range(120), interpret=True)
    assert finding.stage == "interpret"
    assert operations(finding) <= 3


def test_lost_digits_are_found(monkeypatch):
    """A plan that computes E[x^2] - mean^2 for a variance, which agrees in float64."""
    x = tensor("x", i, j)
    u = x - mean_over(j, x)
    p = program("variance", v=(mean_over(j, u * u), (i,)))
    bad = program("variance", v=(mean_over(j, x * x) - mean_over(j, x) * mean_over(j, x), (i,)))
    plan = dataclasses.replace(extract(saturate(bad), load_target("h200")), program=p)
    path = whole_path._Path(p, {"x": np.random.default_rng(0).normal(size=(5, 7))}, 0, Tally())
    path.plans = [plan]
    path.simulate()
    with pytest.raises(whole_path.Disagreement, match=r"cancellation 2\.2.*confirmed"):
        path.hazards()


def test_filters_are_for_programs_without_a_stable_result():
    x = tensor("x", j)
    data = {"x": np.array([1.0, 2.0, 3.0, 1.5, 2.5, 0.5, 0.25])}
    edge = program("edge", y=(Map("floor", (x * recip(x),)), (j,)))
    assert filtered(edge, data) == "ill-conditioned"
    equal = program("equal", y=(Map("ne", (x * 3.0 * recip(const(3.0)), x)), (j,)))
    assert filtered(equal, data) == "ill-conditioned"
    assert filtered(program("ties", y=(Map("ne", (x, maximum_over(j, x))), (j,))), data) is None
    alike = sum_over(i, tensor("w", i, j) * recip(sum_over(i, tensor("w", i, j))))  # 1 for all j, up to rounding
    every = program("every", y=(Reduce("min", j, Map("eq", (alike, maximum_over(j, alike)))), ()))
    assert filtered(every, {"w": np.random.default_rng(0).random((i.size, j.size))}) == "ill-conditioned"
    rest = sum_over(j, x + -mean_over(j, x))
    assert filtered(program("rest", y=(Map("fmod", (x, rest)), (j,))), data) in ("ill-conditioned", "reference not finite")
    assert filtered(program("none", y=(recip(x - x), (j,))), data) == "reference not finite"
    assert filtered(program("fine", y=(exp(x - maximum_over(j, x)), (j,))), data) is None
    assert spread(program("sum", y=(sum_over(j, x), ())), data, 1e-12)["y"] < 1e-11


def test_a_value_that_is_computed_more_than_once_has_several_errors():
    """In s - s, as it is written, the error of s drops out; a plan may compute the second s in another loop, in another form."""
    x = tensor("x", j)
    data = {"x": np.linspace(-1.0, 1.0, j.size)}
    s = sum_over(j, exp(x)) * 100.0
    size = 100 * np.exp(data["x"]).sum()
    once = {"difference": s - s, "stored": x - x, "decided": Map("lt", (s, s))}
    p = program("p", **{name: (t, (j,) if name == "stored" else ()) for name, t in once.items()})
    written, again = (spread(p, data, 1e-12, again=a) for a in (False, True))
    assert set(written.values()) == {0.0}
    assert again["stored"] == again["decided"] == 0  # inputs are what they are, and a comparison has one value
    assert 0.1 * size < again["difference"] * 1e-3 / 1e-12 < 6 * size  # relative_move adds 1e-3 to the scale; three operations, twice


def test_what_is_computed_once_has_the_spread_of_the_program():
    x = tensor("x", i, j)
    data = {"x": np.random.default_rng(0).normal(size=(i.size, j.size))}
    p = program("p", y=(tanh(mean_over(j, exp(x))), (i,)))
    written, again = (spread(p, data, 1e-12, samples=40, again=a)["y"] for a in (False, True))
    assert written <= again <= 1.5 * written
    copy, names = recomputed(p, np.random.default_rng(0))
    assert len(copy.terms()) == len(p.terms()) and set(names.values()) == {"x"}


def test_copies_are_bounded():
    """Ten times exp t * tanh t: 1024 ways from x to the result."""
    x = tensor("x", j)
    t = x
    for _ in range(10):
        t = exp(t) * tanh(t)
    p = program("p", y=(t, (j,)))
    assert len(recomputed(p, np.random.default_rng(0))[0].terms()) <= COPIES * len(p.terms())


def test_a_weight_of_one_may_be_off_by_what_its_score_is_when_that_is_computed_again():
    """Scores of several hundred, their maximum in one loop and they in another, each by a form of its own: what the largest loses, its
    weight does not keep, and float64 gives 1 + 1.2e-11 where the written program gives 1 (in extended precision the same kernel is
    right to 2.5e-15)."""
    tally = Tally()
    one(70_283, tally)
    assert not tally.findings, str(tally.findings[0])
    assert tally.stages["tiles"] == 1


# shrinking ----------------------------------------------------------------------------------------------------------------------------


def test_shrinking_keeps_what_fails_and_drops_the_rest():
    p = next(p for p in (draw_program(s).program for s in range(20)) if len(p.outputs) > 1 and len(p.terms()) > 15)
    monoid = next(t.monoid for t in p.terms() if isinstance(t, Reduce))
    small = shrink(p, lambda q: any(isinstance(t, Reduce) and t.monoid == monoid for t in q.terms()), seconds=60)
    assert sum(len(t.args) > 0 for t in small.terms()) == 1
    assert len(small.outputs) == 1
    assert all(a.size <= 2 for a in small.axes)


def test_shrinking_ends_with_its_time():
    p = draw_program(12).program
    assert shrink(p, lambda q: True, seconds=0.0) == p


def test_a_window_is_a_few_operations_and_inputs_for_what_is_cut_off():
    x = tensor("x", i, j)
    total = sum_over(j, exp(tanh(x)))
    p = program("p", y=(tanh(total) + maximum_over(j, x), (i,)))
    y = p.outputs[0].term
    assert window(p, y, 1) == program("p", o0=(tensor("a0", i) + tensor("a1", i), (i,)))
    assert window(p, y, 2) == program("p", o0=(tanh(tensor("a0", i)) + maximum_over(j, x), (i,)))
    assert window(p, total, 2) == program("p", o0=(sum_over(j, exp(tensor("a0", i, j))), (i,)))
    assert window(p, total, 9) == program("p", o0=(total, (i,)))
    read = View(sum_over(j, x), j, index(i))  # a view of what does not depend on its axis is an operation as others
    assert window(program("q", z=(exp(read), (i,))), read, 9) == program("q", o0=(read, (i,)))


def test_programs_that_differ_in_names_alone_are_alike():
    a, b, c = axes(a=5, b=7, c=5)
    one, two, other = (program("p", y=(sum_over(b, exp(tensor(n, k, b))), (k,))) for n, k in (("x", a), ("z", c), ("x", b)))
    assert alike(one) == alike(two) == alike(alike(one))
    assert alike(one) != alike(other)
    assert alike(one) != alike(program("p", y=(sum_over(a, exp(tensor("x", a, b))), (b,))))


# the command line ---------------------------------------------------------------------------------------------------------------------


def test_help_says_what_it_does(capsys):
    with pytest.raises(SystemExit) as done:
        main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    assert "python -m eqfuse.testing.fuzz 0 2000 --interpret 10 --json log.jsonl" in " ".join(text.split())
    for wrong in (["5", "5"], ["7", "3"], ["-1", "3"]):
        with pytest.raises(SystemExit) as refused:
            main(wrong)
        assert refused.value.code == 2


def test_command_line(tmp_path, capsys):
    file, lines = tmp_path / "summary.json", tmp_path / "log.jsonl"
    assert main(["3", "9", "--interpret", "6", "--json", str(lines), "--summary", str(file)]) == 0
    said = capsys.readouterr().out
    assert "6 programs, 0 findings" in said
    log = json.loads(file.read_text())
    assert log["seeds"] == [3, 9]
    assert log["programs"] == 6
    assert log["findings"] == []
    assert set(log["passed"]) == set(STAGES)
    assert {"python", "egglog", "numpy", "torch", "triton", "eqfuse"} <= set(log["versions"])
    assert main(["--read", str(lines), "--summary", str(tmp_path / "again.json")]) == 0
    assert (capsys.readouterr().out, json.loads((tmp_path / "again.json").read_text())) == (said, log)


def test_a_run_that_is_stopped_leaves_what_it_found(tmp_path, capsys, monkeypatch):
    """The process dies in the middle of a program, and of a line; another run goes on in the same file."""
    lines = tmp_path / "log.jsonl"
    check = whole_path.check

    def dies(program, inputs, seed, **options):
        if seed == 4:
            raise whole_path.Disagreement("audit", "planted")
        if seed == 6:
            raise KeyboardInterrupt
        check(program, inputs, seed, **options)

    monkeypatch.setattr(whole_path, "check", dies)
    with pytest.raises(KeyboardInterrupt):
        main(["3", "9", "--shrink", "0", "--json", str(lines)])
    with lines.open("a") as file:
        file.write('{"seed": 6, "programs"')
    monkeypatch.setattr(whole_path, "check", check)
    capsys.readouterr()
    assert main(["--read", str(lines)]) == 1
    assert "3 programs, 1 findings" in capsys.readouterr().out
    assert main(["5", "7", "--json", str(lines)]) == 0
    capsys.readouterr()
    assert main(["--read", str(lines), "--summary", str(tmp_path / "summary.json")]) == 1
    assert "4 programs, 1 findings" in capsys.readouterr().out  # seed 5 counts once
    log = json.loads((tmp_path / "summary.json").read_text())
    assert log["seeds"] == [3, 7]
    assert [(f["seed"], f["stage"], f["message"]) for f in log["findings"]] == [(4, "audit", "planted")]
    with pytest.raises(SystemExit) as refused:
        main(["--read", str(tmp_path / "summary.json")])
    assert refused.value.code == 2


# found by fuzzing -------------------------------------------------------------------------------------------------------------------


def planned(p: Program):
    return extract(saturate(p), load_target("h200"))


def run(p: Program, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays = dict(data)
    for k in planned(p).kernels:
        arrays.update(simulate(k.tiles, arrays))
    return arrays


def test_padded_lanes_know_nothing_of_a_maximum():
    """exp(1/x - max 1/x) is infinite where a padded lane loads 0; times a padded 0 it would be NaN in the sum."""
    (n,) = axes(n=3)
    x, y = tensor("x", n), tensor("y", n)
    p = program("padded", o=(sum_over(n, exp(recip(x) - maximum_over(n, recip(x))) * y), ()))
    data = {"x": np.array([-1.0, 2.0, 3.0]), "y": np.array([1.0, 2.0, 3.0])}
    np.testing.assert_allclose(run(p, data)["o"], evaluate(p, data)["o"], rtol=1e-12)


def test_a_whole_number_plus_a_fraction_is_a_float():
    n = tensor("n", j, dtype=dtypes.int32)
    assert (n + 0.1).dtype is dtypes.float32
    assert (n + 2.0).dtype is dtypes.int32
    assert Map("where", (n, n, const(float("-inf")))).dtype is dtypes.float32


def test_an_output_in_a_narrower_type_is_not_read_back():
    x = tensor("x", j)
    y = x * sum_over(j, x)
    p = Program("narrow", (Output("o0", y, (j,), dtypes.float32), Output("o1", tanh(x), (j,), dtypes.bfloat16)), (x,))
    target = dataclasses.replace(load_target("h200"), launch_us=0.0)
    for k in extract(saturate(p), target).kernels:
        assert "o1" not in {n.attrs[0] for n in k.kernel.nodes if n.op == "load"}


def test_a_remainder_of_a_remainder_is_one_remainder():
    n = axes(n=60)[0]
    inner = (index(n) + 8) % 17
    assert (inner + 9) % 17 == index(n) % 17 == ((index(n) + 8) % 34 + 9) % 17
    for e, want in (((inner * 3 + 1) % 17, lambda k: ((k + 8) % 17 * 3 + 1) % 17), ((inner + 1) % 5, lambda k: ((k + 8) % 17 + 1) % 5)):
        assert [e.evaluate({n: k}) for k in range(60)] == [want(k) for k in range(60)]


def test_the_whole_of_a_split_sum_is_not_its_part():
    """A kernel that computes both sums of x * sum_j exp(tanh x) was refused: their parts must be stored."""
    x = tensor("x", j)
    p = program("both", o=(sum_over(j, x * sum_over(j, exp(tanh(x)))), ()))
    graph = saturate(p, splits={j: 2})
    assert graph.facts["fuse"]
    assert len(extract(graph, load_target("h200")).kernels) in (1, 2)


def test_a_condition_on_a_scalar_is_a_condition_on_a_tile():
    """Triton's interpreter makes floats of it, which cannot be joined with another condition."""
    x, y = tensor("x", i), tensor("y", i)
    c = Map("or", (Map("ne", (mean_over(i, y), const(0.5))), Map("lt", (x, const(0.0)))))
    p = program("condition", o=(Map("where", (c, x, y)), (i,)))
    numbers = np.random.default_rng(1)
    check(p, {"x": numbers.normal(size=5), "y": np.full(5, 0.5)}, 0, interpret=True)


def test_a_number_is_rounded_to_bfloat16_and_stays_a_number():
    x = tensor("x", dtype=dtypes.float32)
    p = program("rounded", o=(cast(dtypes.bfloat16, x) * 1.0, ()))
    assert evaluate(p, {"x": np.array(1.0 + 2.0**-9)}, casts=True)["o"] == 1.0


def test_a_choice_leaves_out_what_is_no_number():
    """0 * -inf in a sum that a choice does not take: the program is 0, and of the repaired loop nothing is asked there."""
    x, y, n = tensor("x", i), tensor("y", j), tensor("n", j, dtype=dtypes.int32)
    total = sum_over(i, exp(tanh(sum_over(j, x * y))))
    p = program("left_out", o=(sum_over(i, Map("where", (n, total, const(0.0)))), (j,)))
    for seed in range(6):
        whole_path.audit(saturate(p), seed, masked=True)


def test_positions_are_divided_alike_where_division_rounds_to_zero():
    """(7 - i) // 3 was 2 + (1 - i) // 3, whose numerator is negative: a GPU rounds that to zero, numpy down."""
    group, n = NamedAxis("group", 3), NamedAxis("n", 8)
    v = tensor("v", group)
    p = program("turned", o=(View(View(v, group, index(n) // 3), n, index(n) * -1 + 7), (n,)))
    check(p, {"v": np.array([1.0, 2.0, 3.0])}, 0, interpret=True)

    def quotient(x, d):
        return np.trunc(x / d)

    def rounded_to_zero(e, values):
        total = e.const
        for atom, c in e.terms:
            if isinstance(atom, NamedAxis):
                total = total + values[atom] * c
            else:
                inner = rounded_to_zero(atom.numerator, values)
                whole = quotient(inner, atom.divisor)
                total = total + (whole if isinstance(atom, FloorDiv) else inner - whole * atom.divisor) * c
        return total

    rng = random.Random(0)
    a = {name: NamedAxis(name, rng.choice((2, 3, 5, 8, 13))) for name in "abc"}
    values = dict(zip(a.values(), np.ogrid[tuple(slice(x.size) for x in a.values())], strict=True))
    met = 0
    for _ in range(500):
        e = index(rng.randint(-9, 9))
        by_hand = np.asarray(e.const)
        for _ in range(rng.randint(1, 5)):
            x, c, d = rng.choice(list(a.values())), rng.randint(-7, 7), rng.randint(1, 7)
            e, by_hand = e + index(x) * c, by_hand + values[x] * c
            kind = rng.randrange(3)
            e, by_hand = (e // d, by_hand // d) if kind == 1 else (e % d, by_hand % d) if kind == 2 else (e, by_hand)
        assert np.array_equal(np.broadcast_to(e.evaluate(values), by_hand.shape), by_hand), e
        assert np.array_equal(np.broadcast_to(rounded_to_zero(e, values), by_hand.shape), by_hand), e
        met += any(not isinstance(atom, NamedAxis) for atom, _ in e.terms)
    assert met > 200


def test_groups_turned_around_in_torch():
    x = torch.arange(5.0)
    for f in (lambda x: x.repeat_interleave(3).flip(0) * 2, lambda x: x.repeat(3).flip(0)[1:] * 2):
        assert torch.equal(optimize(f, (x,)).interpret(x), f(x))


FACTORS = {
    "a number": lambda x, y, f: (x * 3.0) * y,
    "the length of an axis": lambda x, y, f: (x * extent(j)) * x,
    "data": lambda x, y, f: (x * (f * f + 0.5)) * x,
    "data and a number": lambda x, y, f: ((x * exp(f)) * 3.0) * y,
}


@pytest.mark.parametrize("make", FACTORS.values(), ids=FACTORS)
@pytest.mark.parametrize("weighted", [False, True])
def test_products_below_exponentials_are_rounded_as_those_that_their_maximum_was_chosen_from(make, weighted):
    """exp((x*c)*y - c*max(x*y)): at the largest product it must be 1, whatever the rounding of a score of some millions."""
    x, y, f = tensor("x", i, j), tensor("y", i, j), tensor("f", i)
    t = make(x, y, f)
    weight = exp(t - maximum_over(j, t))
    p = program("scores", o=(sum_over(j, weight * y) / sum_over(j, weight) if weighted else weight, (i,) if weighted else (i, j)))
    rng = np.random.default_rng(1)
    data = {k.name: rng.normal(size=[a.size for a in k.layout]) * 2 for k in p.inputs}
    path = whole_path._Path(p, data, 0, Tally())
    extractor = Extractor(saturate(p, splits={j: 2}), load_target("h200"))
    parts = extractor.maker.split(extractor.maker.partials.rows[0], tuple(extractor.outputs))
    path.plans = [extractor.run(), *([extractor.plan_of(parts, "split")] if isinstance(parts, Cover) else [])]
    assert len(path.plans[0].kernels) == 1
    path.simulate()
    path.hazards()
    path.interpret()


@pytest.mark.unaudited
def test_the_audit_of_a_wrong_graph_names_the_rule():
    bad = make_rule(mean_is_sum, "user", "real", "factor", True)
    rules = (*registry.active(), bad)
    graph = saturate(program("p", y=(sum_over(j, tensor("x", j) * tensor("x", j)), ())), rules=rules)
    with pytest.raises(UnsoundGraphError, match="mean_is_sum"):
        whole_path.audit(graph, rules=rules)
