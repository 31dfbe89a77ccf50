"""Unsound rules that other optimizers have had, or were about to have, and the sound ones beside them.

The mutants break rules of this library; these rules come from outside: rewrites of XLA, StableHLO, TVM, Halide, LLVM, Grappler, ONNX
Runtime, Inductor, PyTensor, Herbie, Triton and of attention kernels that were found to be wrong, as their issues tell, and mistakes of
the same kinds.  Only the fact is taken over: what was equated with what, and where it fails.  Each attack carries

``source``    the project, with the number of an issue or pull request where one is known (``project: kind of rule`` otherwise; ``kind``
              alone where the mistake is nobody's in particular).  Often the law there was about integers or one type: the rule here is
              what it says in this language.
``why``       why it is false, in a line.
``at``        both sides at a few concrete numbers, in plain numpy: an argument that uses nothing of the package.
``sound``     its neighbours, which differ by the missing condition, and must be accepted.

``python -m attacks`` in ``tests/rewrites`` prints at which stage each falls; arguments select modules or names.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqfuse.errors import EqFuseError, RuleError, UnsoundRuleError
from eqfuse.rewrites.check import EXAMPLES, check_rule
from eqfuse.rewrites.registry import QUICK
from eqfuse.rewrites.rule import Rule, make_rule

MODULES = ("powers", "division", "infinities", "rounding", "casts", "choice", "sums", "functions", "softmax", "places", "facts", "relations", "thin")
KINDS = (
    "sign", "zero", "infinity", "NaN", "rounding", "overflow", "underflow", "signed zero", "cast", "order of a clamp", "comparison",
    "select", "whole numbers", "empty axis", "axis confused", "monoid", "count", "ties", "identity of padding", "position", "extent",
    "approximation", "threshold", "epsilon", "domain", "constants", "fact", "relation", "guard lost", "term lost",
)  # fmt: skip
STAGES = {"registration": QUICK, "check": EXAMPLES, "long check": 5000}  # examples; where a rule is refused


@dataclass
class Attack:
    """An unsound rule; see the module."""

    rule: Rule
    module: str
    kind: str
    source: str
    why: str
    at: Callable[[], tuple[Any, Any]]
    sound: list[Rule] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.rule.name


_attacks: list[Attack] = []


def _rule(function: Callable[..., Any], licence: str) -> Rule:
    return make_rule(function, family="attacks", licence=licence, phase="factor", mirrored=True)


def unsound(kind: str, source: str, why: str, at: Callable[[], tuple[Any, Any]], licence: str = "real") -> Callable[..., Rule]:
    """An attack: ``at`` returns what both sides are where they differ, or what is claimed and what is true."""
    assert kind in KINDS, kind

    def decorate(function: Callable[..., Any]) -> Rule:
        rule = _rule(function, licence)
        _attacks.append(Attack(rule, function.__module__.rpartition(".")[2], kind, source, why, at))
        return rule

    return decorate


def sound(function: Callable[..., Any] | None = None, licence: str | None = None) -> Any:
    """A neighbour of the attack before it, which has the condition that the attack lacks, and its licence unless another is given."""
    if function is None:
        return lambda f: sound(f, licence)
    rule = _rule(function, licence or _attacks[-1].rule.licence)
    _attacks[-1].sound.append(rule)
    return rule


def attacks(module: str | None = None) -> tuple[Attack, ...]:
    """All attacks, module by module, in the order of their files."""
    for name in MODULES:
        importlib.import_module(f".{name}", __package__)
    return tuple(a for a in _attacks if module is None or a.module == module)


def differ(a: Attack) -> bool:
    """Whether the two numbers of an attack differ, as its licence counts differences."""
    with np.errstate(all="ignore"):
        left, right = np.broadcast_arrays(*map(np.asarray, a.at()))
    if a.rule.licence == "exact":
        same = (np.isnan(left) & np.isnan(right)) | ((left == right) & (np.signbit(left) == np.signbit(right)))
        return not bool(same.all())
    left, right = left.astype(float), right.astype(float)
    either = np.isfinite(left) | np.isfinite(right)
    with np.errstate(all="ignore"):
        close = np.isfinite(left - right) & (np.abs(left - right) <= 1e-12 * np.maximum(np.abs(left), np.abs(right)))
    return bool(np.any(either & ~close))


@dataclass(frozen=True)
class Verdict:
    """Where a rule fell: a name of ``STAGES``, or ``accepted``; the error, and the CPU seconds until then."""

    stage: str
    error: EqFuseError | None
    seconds: float

    @property
    def text(self) -> str:
        return str(self.error) if self.error else ""


def judge(rule: Rule, stages: tuple[str, ...] = tuple(STAGES)) -> Verdict:
    """What the checks of growing length say of a rule."""
    start = time.process_time()
    for stage in stages:
        try:
            check_rule(rule, STAGES[stage])
        except RuleError as error:
            return Verdict(stage, error, time.process_time() - start)
    return Verdict("accepted", None, time.process_time() - start)


def refuted(verdict: Verdict) -> bool:
    """Whether a counterexample was found, and not only that nothing could be tested."""
    return isinstance(verdict.error, UnsoundRuleError)
