"""Twice eager's error, over many draws.

Where a result hangs on the last bit of something large, the error of one run is luck.  Two scores of 1e4 that are almost tied are known to a
few units in the last place, 1e-3 each; the weights of their values are off by as much, in eager code as in a kernel, and the
largest error of a draw is that of the one row whose tie is closest.  When its sums are merely added up in another order, eager's own error changes by a
factor of ten, and is more than twice what it was in a quarter of all cases.  So a single draw on which eager happens to be exact says
nothing about a kernel, and a single draw on which a kernel happens to be exact says nothing for it.

What is asked here, of ten draws, with eager's sums in nine orders each:

- the error is typically no larger than eager's,
- no draw has an error of more than twice eager's largest,
- an error of more than twice eager's is no more frequent than for eager against itself (by one comparison in twenty).

Ten draws find what is wrong by a lot, and also what is not wrong: of eager's own sums in one order against the others, with scores of 1e4, they
complain in one case of three.  So what ten draws complain about is asked of eighty, and what eighty complain about is wrong.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from adversarial import DATA, NAMES, arguments, error, family, run, scores_of_1e4
from torch import Tensor

from eqfuse.compiled import Compiled
from eqfuse.ir import reference
from eqfuse.runtime.accuracy import reordered

DRAWS, MORE, ORDERS = 10, 80, 8
TYPICAL = 1.15  # of the geometric means: scores of 1e4 have a standard error of 0.3 in ten draws, of 0.1 in eighty
OFTEN = 0.05  # one comparison in twenty
ROUNDING = 2.0**-24
# several tiles of every axis that the bench plans go along in steps, and short elsewhere
LENGTHS = {
    "rows": {"r": 7, "c": 2503},
    "long rows": {"r": 3, "c": 2503},
    "linear": {"r": 37, "c": 401, "k": 131, "n": 73},
    "attention": {"b": 1, "h": 2, "g": 1, "q": 61, "k": 101, "d": 113, "v": 23},
    "decode": {"b": 1, "h": 2, "g": 1, "q": 1, "k": 613, "d": 113, "v": 23},
}


def drawn(compiled: Compiled, name: str, kind: str, runner: str, draws: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    """Errors: ours by draw and output, eager's by draw, order and output.  None is less than one rounding of the output."""
    mine, theirs = [], []
    for seed in range(draws):
        args = DATA[kind](name, arguments(name, LENGTHS[family(name)], "float32", seed))
        tensors = compiled.traced.bind(*args)
        exact = reference.evaluate(
            compiled.program, {n: t.double().numpy() if t.is_floating_point() else t.numpy() for n, t in tensors.items()}
        )

        def off(outputs: list[Tensor], exact=exact) -> list[float]:
            return [
                max(ROUNDING, error(y, exact[o.name], torch.from_numpy(np.asarray(exact[o.name])).isfinite()))
                for o, y in zip(compiled.program.outputs, outputs, strict=True)
            ]

        mine.append(off(run(compiled, args, runner)))
        theirs.append([off(y) for y in (compiled.in_order(compiled.eager(*args)), *reordered(compiled, args, {}, ORDERS))])
    return np.array(mine), np.array(theirs)


def complaints(ours: np.ndarray, eager: np.ndarray) -> list[str]:
    """What is wrong with the errors of one output: ours by draw, eager's by draw and order."""
    found = []
    typical = np.exp(np.log(ours).mean() - np.log(eager).mean())
    if not typical <= TYPICAL:
        found.append(f"typically {typical:.2f} times eager's error")
    worst = (ours / eager.max(1)).max()
    if not worst <= 2:
        found.append(f"up to {worst:.2f} times the largest of eager's errors")
    often = (ours[:, None] > 2 * eager).mean()
    orders = eager.shape[1]
    luck = (eager[:, :, None] > 2 * eager[:, None, :]).sum() / max(len(eager) * orders * (orders - 1), 1)
    if not often <= luck + OFTEN:
        found.append(f"more than twice eager's error in {often:.0%} of comparisons, eager itself in {luck:.0%}")
    return found


def cases() -> list[tuple[str, str, str]]:
    """(program, data, runner): ordinary data for all, large scores where there are scores; some also as Triton runs them."""
    small = {n: arguments(n, LENGTHS[family(n)], "float32", 0) for n in NAMES}
    found = [(n, "usual", "simulate") for n in NAMES]
    found += [(n, "scores_of_1e4", "simulate") for n in NAMES if scores_of_1e4(n, small[n]) is not None]
    found += [(n, "inputs_of_1e4", "simulate") for n in ("mean_variance", "layernorm", "softmax_entropy", "attention_softcap")]
    found += [("mean_variance", "usual", "interpret"), ("attention_bias", "scores_of_1e4", "interpret")]
    return [pytest.param(*case, marks=[pytest.mark.xfail(reason=SMALL, strict=True)] if case == ENTROPY else []) for case in found]


ENTROPY = ("softmax_entropy", "inputs_of_1e4", "simulate")
SMALL = "entropies next to 0 show the error of exp2(x * log2 e), |x| units: a second term where a result is relative to them"


@pytest.mark.parametrize(("name", "kind", "runner"), cases())
def test_errors_over_draws(name, kind, runner, planned):
    compiled = planned(name, "float32").at(*arguments(name, LENGTHS[family(name)], "float32", 0))

    def found(draws: int) -> dict[str, list[str]]:
        ours, eager = drawn(compiled, name, kind, runner, draws)
        every = {o.name: complaints(ours[:, k], eager[:, :, k]) for k, o in enumerate(compiled.program.outputs)}
        return {output: wrong for output, wrong in every.items() if wrong}

    assert not (found(DRAWS) and found(MORE))


def test_a_mean_and_a_variance_keep_the_promise_on_each_of_50_draws(planned):
    """Sums that carry what they lose leave little to luck: half of the four units in the last place, where eager is exact."""
    compiled = planned("mean_variance", "float32").at(*arguments("mean_variance", LENGTHS["rows"], "float32", 0))
    for seed in range(50):
        args = arguments("mean_variance", LENGTHS["rows"], "float32", seed)
        exact = reference.evaluate(compiled.program, {n: t.double().numpy() for n, t in compiled.traced.bind(*args).items()})
        eager = compiled.in_order(compiled.eager(*args))
        for o, mine, theirs in zip(compiled.program.outputs, run(compiled, args, "simulate"), eager, strict=True):
            e = exact[o.name]
            everywhere = torch.ones(e.shape, dtype=torch.bool)
            assert error(mine, e, everywhere) <= max(4 * ROUNDING, 2 * error(theirs, e, everywhere)), (seed, o.name)


# these tests can fail -----------------------------------------------------------------------------------------------------------------


def test_operands_of_20_bits_are_seen(planned, monkeypatch):
    """Four bits of a dot's operands: nothing that a single draw of scores of 1e4 shows for certain."""
    compiled = planned("attention_bias", "float32").at(*arguments("attention_bias", LENGTHS["attention"], "float32", 0))

    def coarse(compiled: Compiled, args: list[Tensor], runner: str) -> list[Tensor]:
        q, *rest = args
        return compiled.in_order(compiled.eager((q.view(torch.int32) & -16).view(torch.float32), *rest))

    monkeypatch.setitem(globals(), "run", coarse)
    ours, eager = drawn(compiled, "attention_bias", "scores_of_1e4", "")
    assert len(complaints(ours[:, 0], eager[:, :, 0])) == 3


EAGER = np.exp(np.random.default_rng(0).normal(size=(10, 9)))  # errors that vary as those of large scores do


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (EAGER[:, 0], []),
        (EAGER.min(1), []),
        (EAGER.max(1) * np.where(np.arange(10) == 4, 2.1, 0.1), ["largest"]),
        (np.exp(np.log(EAGER).mean(1)) * 1.3, ["typically"]),
        (np.where(np.arange(10) < 6, EAGER.max(1) * 1.9, EAGER.min(1) * 0.01), ["comparisons"]),
        (EAGER.max(1) * 3, ["typically", "largest", "comparisons"]),
        (np.full(10, np.nan), ["typically", "largest"]),
    ],
)
def test_complaints(ours, expected):
    found = complaints(ours, EAGER)
    assert len(found) == len(expected)
    assert all(word in text for word, text in zip(expected, found, strict=True))
