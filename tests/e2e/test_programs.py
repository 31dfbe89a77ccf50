"""Every program of the corpus, from plain PyTorch to verified Triton.

The plan is made for the bench shapes.  It is then verified at ``check`` shapes: the same kernels, roles, tiles and loops, at lengths
that no tile divides, through the numpy tile interpreter in float64 and through Triton's interpreter in the program's own type.
"""

from __future__ import annotations

import math

import pytest
import torch

import eqfuse
from eqfuse.egraph import audit, saturate
from eqfuse.frontends import trace
from eqfuse.testing.programs import PROGRAMS

NAMES = sorted(PROGRAMS)
TYPED = [(n, d) for n in NAMES for d in PROGRAMS[n].dtypes]
# programs bound by what they read and write: that once is all they may move, but for rows of which no cache holds all those in flight
LONG_ROWS = ["row_softmax", "log_softmax"]
REDUCTIONS = [
    *LONG_ROWS, "logsumexp", "softmax_entropy", "mean_variance", "layernorm", "rmsnorm", "cross_entropy", "attention_decode",
    "linear_cross_entropy", "linear_cross_entropy_few_rows",
]  # fmt: skip


THIRD_LOOP = pytest.mark.xfail(
    strict=True,
    reason="mean, variance and result are a loop each, over rows that caches hold: 35.2 us for 36.1 of rows on chip, by the model",
)


@pytest.mark.parametrize(("name", "dtype"), [pytest.param(*x, marks=THIRD_LOOP) if x == ("layernorm", "float32") else x for x in TYPED])
def test_plan(name, dtype, planned):
    """At most one kernel (two where parts are merged, or statistics come first), the expected passes, nothing stored but parts of outputs."""
    expected = PROGRAMS[name].expected
    compiled = planned(name, dtype)
    plan, priced = compiled.plan, eqfuse.price(compiled)
    assert len(plan.kernels) <= expected["kernels"], str(plan)
    assert [k["dram"].traffic for k in priced.kernels] == [k.cost.dram_bytes for k in plan.kernels]  # as the search counted them
    assert [k["l2"].traffic for k in priced.kernels] == [k.cost.l2_bytes for k in plan.kernels]
    passes = expected["passes"] + expected["kernels"] - len(plan.kernels)  # statistics come first: in a kernel, or in a pass
    assert max((n for k in plan.kernels for n in k.passes.values()), default=0) <= passes, str(plan)
    temporary = sum(b.bytes for b in plan.buffers.values() if b.role == "temporary")
    assert temporary <= 0.02 * plan.compulsory_bytes, "an intermediate larger than a tile is stored"
    assert plan.dram_bytes <= 1.05 * plan.baseline_bytes  # what products bind may be read in another order


SLOW = ("linear_cross_entropy_few_rows", "float32")  # its products, on the general units, take a hundred times what memory takes


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, d in TYPED if n in REDUCTIONS and (n, d) != SLOW])
def test_reductions_move_only_what_they_must(name, dtype, planned):
    plan = planned(name, dtype).plan
    again = 0.5 if name in LONG_ROWS else 0.1  # of what they read a half and of what they write none, at most: two loops would be 0.5
    assert plan.dram_bytes < (1 + again) * plan.compulsory_bytes, str(plan)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("target", ["h200", "a100", "b200", "mi300x"])
@pytest.mark.parametrize("name", LONG_ROWS)
def test_a_second_loop_finds_what_the_plan_says(name, target, dtype, planned):
    """Where the model says that a second loop reads less from memory than it loads, the compiled kernel must leave the rows room: all in the
    L2, or their share in the caches of multiprocessors.  And it says to the L2 what to keep."""
    compiled = planned(name, dtype, target)
    (kernel,), (report,) = compiled.plan.kernels, compiled.compile()
    assert 2 <= kernel.passes["cols"] <= 3
    device = compiled.target
    programs = min(report.occupancy * device.sm_count, kernel.kernel.persistent or kernel.tiles.tasks)
    row = 128256 * compiled.program.inputs[0].dtype.itemsize * kernel.kernel.roles[compiled.program.inputs[0].layout[0]].tile
    if device.vendor == "amd":
        row *= 2  # nothing tells its cache to let go of what is stored
    read = compiled.plan.dram_bytes / (compiled.plan.compulsory_bytes / 2) - 1  # times the input
    found = 1.0 if programs * row <= device.cache.held else device.on_chip.held / (programs / device.sm_count * row)
    copied = kernel.kernel.stages > 1 or device.vendor == "amd"  # past the caches of multiprocessors
    assert read >= 2 - found - 0.01 if found == 1.0 or not copied else read == pytest.approx(2.0, abs=0.01), (read, found, report)
    assert compiled.source.count('eviction_policy="evict_last"') >= 1
    most = kernel.kernel.registers  # for programs that are not launched a compiler need leave none
    assert compiled.source.count(f"maxnreg={most}") == bool(most) == bool(kernel.kernel.persistent and device.vendor == "nvidia")
    if device.vendor == "amd":
        return
    assert not most or most * 32 * kernel.kernel.warps * -(-programs // device.sm_count) <= device.registers_per_sm
    assert report.assembly.count("L2::evict_last") >= (not copied)  # a copy cannot say it
    assert report.assembly.count("L2::evict_first") >= 1 + (not copied)  # the second loop's loads, and the stores


@pytest.mark.parametrize("name", NAMES)
def test_saturated_graph_agrees_with_itself(name):
    case = PROGRAMS[name]
    program = trace(case.fn, case.args("check", case.dtypes[0], device="meta")).program
    graph = saturate(program)
    report = audit(graph)
    assert report.skipped == 0
    assert report.nodes > 0 or all(len(c) == 1 for c in graph.classes)  # a class of one has nothing to agree with


@pytest.mark.parametrize("name", NAMES)
def test_tiles_compute_the_program(name, at_check):
    args = PROGRAMS[name].args("check", "float32", generator=1)
    for row in at_check(name, "float32").accuracy(*args, runner="simulate").outputs:
        assert row.ours < 1e-12, row
        assert row.ours_nonfinite == 0


@pytest.mark.parametrize(("name", "dtype"), TYPED)
def test_triton_is_as_accurate_as_eager(name, dtype, at_check):
    args = PROGRAMS[name].args("check", dtype, generator=2)
    at_check(name, dtype).accuracy(*args).check(factor=2.0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["row_softmax", "log_softmax", "logsumexp", "softmax_entropy", "cross_entropy"])
def test_huge_logits(name, dtype, at_check):
    """Logits of +-1e4 overflow exp unless the maximum is taken out, in every tile."""
    args = PROGRAMS[name].args("check", dtype, generator=3, spread=1e4)
    for row in at_check(name, dtype).accuracy(*args).outputs:
        assert row.ours_nonfinite <= row.eager_nonfinite, row
        assert row.within(2.0), row


def _sensitivity(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> float:
    """Relative error of the exact program when nothing but its scores is off by one unit in the last place of float32, in random
    directions: scores of 1e5 are sums of 128 products, and any order of summing them in float32 rounds at least that much."""
    s = q.double() @ k.double().transpose(-1, -2) * q.shape[-1] ** -0.5
    exact = torch.softmax(s, -1) @ v.double()
    found = 0.0
    for seed in range(8):
        sign = torch.randint(0, 2, s.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
        off = torch.softmax(s * (1 + sign * 2.0**-23), -1) @ v.double()
        found = max(found, ((off - exact).abs().max() / exact.abs().max()).item())
    return found


@pytest.mark.parametrize("seed", [4, 5, 6])
@pytest.mark.parametrize("name", ["attention", "attention_lse", "attention_decode"])
def test_huge_scores(name, seed, planned):
    """Scores of 1e5: every tile's exponentials overflow or vanish unless its reference follows the running maximum."""
    case = PROGRAMS[name]
    args = [a * (100.0 if i < 2 else 1.0) for i, a in enumerate(case.args("check", "float32", generator=seed))]
    unavoidable = _sensitivity(*args)
    for row in planned(name, "float32").at(*args).accuracy(*args).outputs:
        assert row.ours_nonfinite <= row.eager_nonfinite, row
        assert row.ours <= 2 * max(row.eager, unavoidable, 2**-24), (row, unavoidable)


@pytest.mark.parametrize("name", NAMES)
def test_odd_sizes(name):
    """Prime lengths and lengths of 1, planned for themselves."""
    case = PROGRAMS[name]
    dtype = case.dtypes[0]
    args = case.args("odd", dtype, generator=5)
    compiled = eqfuse.optimize(case.fn, args, target="h200")
    compiled.accuracy(*args).check(factor=2.0)


def _masked_bias(heads: int, rows: int, columns: int) -> torch.Tensor:
    """Rows that see nothing, rows whose first tiles are empty, rows that see one column."""
    bias = torch.zeros(heads, rows, columns)
    bias[:, ::5, :] = -math.inf
    bias[:, 1::5, : columns * 3 // 4] = -math.inf
    bias[:, 2::5, :-1] = -math.inf
    return bias


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_fully_masked_rows_and_tiles(dtype, planned):
    """A row that sees nothing is NaN in eager code; every other row must be right, whatever tiles it skips."""
    case = PROGRAMS["attention_bias"]
    q, k, v, bias = case.args("check", dtype, generator=6)
    bias = _masked_bias(*bias.shape).to(bias.dtype)
    compiled = planned("attention_bias", dtype).at(q, k, v, bias)
    (row,) = compiled.accuracy(q, k, v, bias).outputs
    assert row.ours_nonfinite == 0
    assert row.within(2.0), row


@pytest.mark.parametrize("name", ["row_softmax", "logsumexp", "softmax_entropy", "log_softmax"])
def test_minus_infinity_in_rows(name, planned):
    """Masked logits: whole tiles of -inf at the start of a row, and single ones."""
    case = PROGRAMS[name]
    (x,) = case.args("check", "float32", generator=7)
    x[:, : x.shape[1] * 3 // 5] = -math.inf
    x[1::2, ::3] = -math.inf
    compiled = planned(name, "float32").at(x)
    for row in compiled.accuracy(x).outputs:
        assert row.ours_nonfinite <= row.eager_nonfinite, row
        assert row.within(2.0), row


def test_strided_arguments(planned):
    """Arguments need not be contiguous: kernels take strides at run time."""
    case = PROGRAMS["attention"]
    q, k, v = case.args("check", "float16", generator=8)
    compiled = planned("attention", "float16").at(q, k, v)
    expected = compiled.interpret(q, k, v)
    turned = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v)]
    assert not turned[0].is_contiguous()
    assert torch.equal(compiled.interpret(*turned), expected)
