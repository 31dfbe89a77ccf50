"""Every error a user can meet, in one place.

Each error names *where* (the user's line, the rule's file:line, the axis or the op), *what* went wrong in the user's words,
and *what to do*.  Internal invariants use plain ``AssertionError``; everything below is part of the public contract and each
class has a tiny program in ``tests/errors/`` that raises it.
"""

from __future__ import annotations

import pickle
from typing import ClassVar


def shown(value: object, longest: int = 60) -> str:
    """A value in a message: an array by its shape, anything else itself if that is short, or what it is.  It may be an object that
    cannot be printed, and has neither a shape nor attributes."""
    kind = type(value).__name__
    kind = f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
    try:
        shape = None if isinstance(value, type) else getattr(value, "shape", None)
        text = f"{kind} of shape {tuple(shape)}" if shape else repr(value)
    except Exception:
        text = ""
    return text if 0 < len(text) <= longest and "\n" not in text else kind


class EqFuseError(Exception):
    """Base class.  ``message`` says what happened, ``where`` the place, ``cure`` what to try."""

    usual: ClassVar[str | None] = None  # the cure where an error has none of its own

    def __init__(self, message: str, *, where: str | None = None, cure: str | None = None) -> None:
        cure = cure or self.usual
        self.message, self.where, self.cure = message, where, cure
        parts = [f"{where.removesuffix(':')}: {message}" if where else message]  # a place may end with the text of an "if ...:"
        if cure:
            parts.append(f"  try: {cure}")
        super().__init__("\n".join(parts))


class OptionError(EqFuseError, ValueError):
    """An option of ``optimize``, or an argument of a question about its result, has a value that it cannot have: a licence, rule or family
    that does not exist, a budget that is no number, a file that cannot be written.  Likewise an argument of a function of
    ``eqfuse.testing``."""


def expect(good: bool, what: str, value: object, cure: str, kind: type[EqFuseError] = OptionError, where: str | None = None) -> None:
    """Refuse an argument that is not what it has to be."""
    if not good:
        raise kind(f"{what} is {shown(value)}", where=where, cure=cure)


class SourceError(EqFuseError):
    """A Python file that the command line was given cannot be executed: a syntax error, a failing import, an exception at its top level
    or in the function that makes the example arguments."""


class UnsupportedOpError(EqFuseError):
    """The program uses an operator that EqFuse has no meaning for, a type in which kernels do not compute, or a number it cannot hold."""


class ShapeError(EqFuseError):
    """Shapes or axes that do not fit: a broadcast, an index map, an axis with two sizes, an argument of another shape or type than was
    compiled."""


class LayoutError(EqFuseError):
    """A layout that is none, or an operation on layouts whose result is none: the message names the iter."""


class TraceError(EqFuseError):
    """The function could not be traced: a data-dependent branch, a side effect, an argument that is no tensor."""


class StaticArgumentError(TraceError):
    """An argument that is part of the traced program, as numbers and defaults are, is another one now."""


class DeviceError(EqFuseError):
    """Arguments on mixed or unsuitable devices, or no driver for what was asked."""


class EmptyProgramError(EqFuseError):
    """The program computes nothing: no outputs, or outputs that are inputs; or a comparison has nothing to compare."""


class UnknownTargetError(EqFuseError):
    """The target is not one of the data files in ``extract/targets``."""


class RuleError(EqFuseError):
    """A rule that is malformed: an unbound name, a missing check, a duplicate name, an unknown licence."""


class UnsoundRuleError(RuleError):
    """A rule whose check found a counterexample."""


class OpError(EqFuseError):
    """A declaration of an op that is malformed: a name that is taken, a meaning that is not vectorised, Triton text that does not run."""

    usual = "docs/ops.md says what eqfuse.op takes, and help(eqfuse.op)"


class UnsoundOpError(OpError):
    """A declaration of an op that a counterexample contradicts: its Triton spelling, its range or one of its traits."""


class UnsoundGraphError(EqFuseError):
    """The audit found two members of one e-class that disagree, or a fact that is false.  ``rules``: those that made it so, as far as
    that could be found out.  ``minimal``: code of a small program that shows it, if there is one."""

    minimal: str = ""
    rules: tuple[str, ...] = ()


class SpecError(EqFuseError):
    """Something that one stage handed to the next is not valid at its ``level``: ``node`` breaks ``rule``, a row of the level's table.
    Raised where ``EQFUSE_SPEC=1`` asks for the checks; a fault of EqFuse, or of a rule, an op or a monoid that was added to it."""

    def __init__(
        self, message: str, *, where: str | None = None, cure: str | None = None, level: str = "", node: str = "", rule: str = ""
    ) -> None:
        super().__init__(message, where=where, cure=cure)
        self.level, self.node, self.rule = level, node, rule


class EngineError(EqFuseError):
    """The engine of the e-graph cannot run in this process, a fork of one that had used it, which cannot load its own; or it has lost an
    operation of the program."""


class GraphError(EqFuseError):
    """An e-graph given to :mod:`eqfuse.extraction` is not one (a missing field, a child that does not exist, a cost that is negative or no
    number), or nothing can be chosen from it: every way to a root leads back to itself."""


class PlanError(EqFuseError):
    """No legal kernel exists for the roles or limits that were asked for."""


class CompileError(EqFuseError):
    """Triton rejected a kernel ahead of time, or the static gate did."""


class CacheError(EqFuseError):
    """A directory that was named for generated modules is not private to this user, or the system cannot load a library of kernels."""


class PickleError(EqFuseError, pickle.PicklingError):
    """What was optimized cannot be pickled: its function stands under no name that another process finds, as no lambda does."""


class KernelBug(EqFuseError):
    """The interpreter's sanitizer caught an out-of-bounds access, a race or a read of undefined lanes."""


class KernelError(EqFuseError):
    """A Triton kernel cannot be run in the interpreter: one of its lines raises an exception, uses what is not modelled, or the launch does
    not fit its parameters."""


class AccuracyError(EqFuseError):
    """Two programs that should be equal are not, or a plan is less accurate than it may be."""


class CoverageWarning(UserWarning):
    """A comparison passed, but something in it was not tested: a loop of a kernel that no example made run twice."""
