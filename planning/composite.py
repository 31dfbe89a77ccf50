"""A program that is planned as several: pieces between what torch runs, the passes of a training step, the programs of devices.

:class:`Composite` has what these have in common; :class:`eqfuse.Compiled` asks it what it asks of a program that is planned as one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ..errors import PlanError
from ..explain.parts import PartsExplanation
from ..extract.plan import Block, plan_text
from ..extract.targets import Target
from .planned import Planned
from .request import Request

if TYPE_CHECKING:
    import torch

    from ..runtime.accuracy import AccuracyReport

T = TypeVar("T")
MOST_VARIANTS = 64  # plans for other arguments that one program keeps


def kept(variants: dict[Any, T], key: Hashable, make: Callable[[], T]) -> T:
    """The plan for a kind of arguments: a known one, or a new one, for which the oldest may go."""
    found = variants.get(key)
    if found is None:
        found = make()
        for oldest in list(variants)[: 1 - MOST_VARIANTS]:  # without a lock: tracing has one, and may call this
            variants.pop(oldest, None)
        variants[key] = found
    return found


class Composite(ABC):
    """``request``: what was asked for, without data.  ``name``: what the program is called; ``inputs`` and ``names``: what the tensors are
    that it takes and returns.  ``kind``: what messages call such a program."""

    request: Request
    kind: str
    name: str
    inputs: tuple[str, ...]
    names: tuple[str, ...]

    @property
    @abstractmethod
    def plan(self) -> Any:
        """What runs, in order."""

    @property
    def block(self) -> Block:
        """The same as a block of parts."""
        found: Block = self.plan
        return found

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, Planned]:
        """The different plans that it consists of, by name, in order."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is said below the plan: what kernels lack on this machine."""
        found = (p.executable.missing for p in self.parts.values())
        return tuple(dict.fromkeys(filter(None, found)))

    # running --------------------------------------------------------------------------------------------------------------------
    @abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call."""

    @abstractmethod
    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call of the original program."""

    @abstractmethod
    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The result by Triton's interpreter."""

    @abstractmethod
    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The result by the numpy tile interpreter."""

    @abstractmethod
    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensor of every input."""

    @abstractmethod
    def errors(self, args: Sequence[Any], kwargs: Mapping[str, Any], runner: str) -> AccuracyReport:
        """Errors against float64, as :func:`~eqfuse.runtime.accuracy.measure` reports them."""

    @cached_property
    def _variants(self) -> dict[Any, Any]:
        """This program for other arguments."""
        return {}

    # planning again ---------------------------------------------------------------------------------------------------------------
    def at(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Self:
        """The same kernels for arguments of other sizes."""
        raise self._lacks("the same kernels at other sizes", "optimize() again with small arguments")

    def on(self, target: Target) -> Self:
        """The same program planned for another target."""
        return self._again(replace(self.request, target=target))

    def _again(self, request: Request) -> Self:
        return type(self)(request)  # type: ignore[call-arg]  # which those have that do not say otherwise

    # saying -----------------------------------------------------------------------------------------------------------------------
    def explain(self, *, costs: bool = False) -> PartsExplanation:
        """Why the plan is what it is."""
        return PartsExplanation(self.block, {name: p.explain(costs=costs) for name, p in self.parts.items()}, self._said)

    @property
    def _said(self) -> str:
        """The plan, in words."""
        return str(self.plan)

    @property
    def source(self) -> str:
        """One module, which needs only torch and triton."""
        return self._module(plan_text(self.block, module=True), tested=False)

    def standalone(self, sizes: Sequence[Sequence[Any]]) -> str:
        """The module with a test that runs when the file does."""
        if sizes:
            raise PlanError(f"a module of {self.kind} takes the planned sizes alone", where=self.name, cure="leave sizes= out")
        return self._module(plan_text(self.block, module=True), tested=True)

    def _module(self, header: str, *, tested: bool) -> str:
        raise self._lacks("a module", "save the programs of devices one by one: optimize(part.request.fn) for each of c.parts")

    def _lacks(self, what: str, cure: str) -> PlanError:
        return PlanError(f"{self.kind} has no such thing as {what}", where=self.name, cure=cure)
