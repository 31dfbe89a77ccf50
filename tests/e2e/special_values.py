"""Special values of every pointwise operator: the operators, read off the front end's table, and what their results may be.

An operator is called as its schema says: tensors are the special values, or all pairs of them, numbers a few of each kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from eqfuse.frontends import aten, aten_pointwise

INF, NAN = float("inf"), float("nan")
TINY = torch.finfo(torch.float32).tiny
LARGEST = torch.finfo(torch.float32).max
UNIT = 2.0**-23  # in the last place, relative
_SIZES = (
    0.0, 1.0, 0.5, 2.0, 3.0, 1.5, 2.5, 3.5, INF, LARGEST, TINY, TINY / 4, 1e-3, 1e-4, 1e-7, 1e-8, 0.1, 0.3, 7.0, 10.0, 20.0, 30.0, 50.0,
    87.0, 88.0, 88.7, 89.0, 100.3, 103.0, 104.0, 110.0, 1e3, 1e4, 65504.0, 3.14159265, 1.57079633, 2.0**23 + 1, 0.99999994, 1.0000001,
)  # fmt: skip
VALUES = torch.tensor([*_SIZES, *(-v for v in _SIZES), NAN])
PAIRED = VALUES[[k for k, v in enumerate(VALUES.tolist()) if abs(v) not in (88.0, 88.7, 103.0, 110.0, 7.0, 0.1, 1.5, 3.5, 1e4, 20.0)]]
INTEGERS = torch.tensor([0, 1, -1, 2, -2, 3, 7, 31, 32, 63, -63, 64, 100, 2**31 - 1, -(2**31)], dtype=torch.int32)
NUMBERS: dict[str, tuple[Any, ...]] = {  # of an argument without a default, by its type
    "number": (2.5, -2.0, 0.0, 99.0), "int": (2, -1), "Optional[str]": (None, "trunc", "floor"), "Optional[number]": (-1.0,),
    "Optional[int]": (torch.float16, torch.bfloat16, torch.bool),
}  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """A call of an operator of tensors ``a``, ``b`` (or ``a`` alone) with some numbers."""

    name: str
    arity: int  # tensors
    call: Callable[..., torch.Tensor]
    whole: bool  # of integers only

    def tensors(self, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
        """The special values, or all pairs of them."""
        return grid(self.arity, self.whole, dtype)


def grid(arity: int, whole: bool, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """The special values, or all pairs of them, flat."""
    values = INTEGERS if whole else (VALUES if arity == 1 else PAIRED).to(dtype)
    if arity == 1:
        return (values,)
    return tuple(g.flatten().clone() for g in torch.meshgrid(values, values, indexing="ij"))


def operators() -> Iterator[Operator]:
    """Every pointwise operator of the front end's table, by every overload, with every choice of numbers."""
    for name, op in aten.OPS.items():
        if op.align is aten_pointwise._align:
            _, packet, overload = name.split(".")
            yield from _calls(name.removeprefix("aten."), getattr(getattr(torch.ops.aten, packet), overload))


def _calls(name: str, op: Any) -> Iterator[Operator]:
    arguments = [a for a in op._schema.arguments if not a.has_default_value() or a.name in ("dtype", "min", "max", "approximate")]
    tensors = [a for a in arguments if str(a.type) in ("Tensor", "Optional[Tensor]")]
    others = [a for a in arguments if a not in tensors]
    for chosen in itertools.product(*(("none", "tanh") if a.name == "approximate" else NUMBERS[str(a.type)] for a in others)):
        numbers = {a.name: v for a, v in zip(others, chosen, strict=True)}

        def call(*given: torch.Tensor, numbers: dict[str, Any] = numbers) -> torch.Tensor:
            a, b = given[0], given[-1]
            values: dict[str, Any] = {t.name: a > b if t.name == "condition" else (a, b, b)[k] for k, t in enumerate(tensors)}
            values.update(numbers)
            return op(
                *(values[x.name] for x in arguments if not x.kwarg_only), **{x.name: values[x.name] for x in arguments if x.kwarg_only}
            )

        arity, whole = min(len(tensors), 2), False
        try:
            call(*grid(arity, whole))
        except NotImplementedError:  # of floats
            whole = True
            numbers.update({k: int(v) for k, v in numbers.items()})
        shown = ", ".join(f"{k}={v}" for k, v in numbers.items())
        yield Operator(f"{name}({shown})" if shown else name, arity, call, whole)


def composed() -> Iterator[Operator]:
    """The other operators that torch calls pointwise, which it decomposes before the front end reads them; of floats, with one choice of
    numbers each."""
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if name.startswith("_") or name.endswith(("_", "backward")) or not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for op in (getattr(packet, overload) for overload in packet.overloads()):
            if torch.Tag.pointwise in op.tags and str(op) not in aten.OPS and not op._schema.is_mutable:
                try:
                    found = next(_calls(str(op).removeprefix("aten."), op))
                    kept = not found.whole and isinstance(value := found.call(*found.tensors()), torch.Tensor) and not value.is_complex()
                except (RuntimeError, TypeError, KeyError):  # of numbers or types that are not drawn here
                    continue
                if kept:
                    yield found


@dataclass(frozen=True)
class Difference:
    """A difference from eager code that docs/numerics.md names: what it ``says`` there, and where it ``holds``.

    ``holds(tensors, found, exact)``: for each element; floats are float64.  Of ``operators`` only, if there are any.
    """

    says: str
    holds: Callable[..., torch.Tensor]
    operators: tuple[str, ...] = ()


def _largest(tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.stack([t.double().abs() for t in tensors]).amax(0)


DIFFERENCES = (
    Difference(
        "A result below 2**-126 may be 0",
        lambda tensors, found, exact: torch.maximum(found.abs(), exact.abs()) <= TINY,
    ),
    Difference(
        "and then so is what it is multiplied with",
        lambda tensors, found, exact: torch.maximum(found.abs(), exact.abs()) <= TINY * _largest(tensors),
        ("mish",),
    ),
    Difference(
        "loses up to |x| units in the last place",
        lambda tensors, found, exact: (found - exact).abs() <= UNIT * exact.abs().log().abs() * exact.abs(),
        ("logaddexp", "logaddexp2"),
    ),
    Difference(
        "has the error of its terms",
        lambda tensors, found, exact: (found - exact).abs() <= 4 * UNIT * _largest(tensors),
        ("logaddexp", "logaddexp2", "addcdiv"),
    ),
    Difference(
        "is not 0 where 1 + tanh is",
        lambda tensors, found, exact: (found - exact).abs() <= 2.0**-52 * _largest(tensors),
        ("gelu",),
    ),
)
DIVIDES = ("div", "true_divide", "floor_divide", "remainder", "fmod", "atan2", "hypot", "reciprocal", "addcdiv", "sinc")
SMALL_DIVISORS = True  # whether quotients by numbers below 2**-126 are looked at, too


def differences(operator: Operator, tensors: tuple[torch.Tensor, ...], found: torch.Tensor) -> torch.Tensor:
    """Where a result is neither eager's nor as close to that of float64 as eager's (2 x its error, or 4 units in the last place), and no
    rule allows it."""
    eager = operator.call(*tensors)
    assert (found.dtype, found.shape) == (eager.dtype, eager.shape), f"{operator.name}: {found.dtype} {found.shape}"
    if not eager.is_floating_point():
        return found != eager
    exact = operator.call(*(t.double() for t in tensors)).double() if eager.dtype == torch.float32 else eager.double()
    near = exact.float().double()  # overflow and underflow are those of the type
    found, eager = found.double(), eager.double()
    allowed = torch.maximum(2 * (eager - exact).abs(), 4 * UNIT * exact.abs())
    good = (found == eager) | (found == near) | (found.isnan() & eager.isnan())
    good |= found.isfinite() & exact.isfinite() & ((found - exact).abs() <= allowed)
    name = operator.name.split(".")[0]
    for difference in DIFFERENCES:
        if not difference.operators or name in difference.operators:
            good |= difference.holds(tensors, found, exact)
    if not SMALL_DIVISORS and name in DIVIDES:
        good |= torch.stack([(t.double().abs() < TINY) & (t != 0) for t in tensors]).any(0)
    return ~good
