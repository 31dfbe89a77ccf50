"""What somebody wants planned: the arguments of :func:`eqfuse.optimize`, checked.  A request does not change."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

from ..codegen.limits import check_computable
from ..errors import OptionError, expect, shown
from ..extract.objective import OBJECTIVES
from ..extract.targets import Target, load_target
from ..ir.program import Program
from ..rewrites import Rule, registry
from ..runtime.loading import for_optimize
from .debug import debug_level

if TYPE_CHECKING:
    from ..frontends import Traced

LICENCES = ("exact", "real", "approx")  # each allows what stands before it, too
MOST_REFINED = 64  # candidates of a kernel


@dataclass(frozen=True, eq=False)
class Request:
    """A program with example arguments, and how to plan it: the arguments of :func:`eqfuse.optimize`, checked."""

    fn: Any
    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    target: Target  # in :func:`checked` its name, too
    licence: str = "real"
    rules: Sequence[Rule] | None = ()  # beside the registered ones
    disable: Sequence[str] = ()  # names of rules and families
    fusion: Sequence[tuple[str, str, str]] = ()
    name: str | None = None
    node_budget: int = 20_000
    time_budget: float = 10.0
    objective: str = "time"
    memory_limit: float | None = None  # bytes
    accuracy_factor: float | None = None
    no_spills: bool = False
    refine: int = 0  # candidates of each kernel that are compiled
    tune: bool = False  # and ordered by the clock
    in_regions: bool = True  # whether a program may be planned in parts,
    in_order: bool = False  # and has to be planned in the order in which it is written
    deadline: float = math.inf  # on the clock of work, of a request that is part of another
    strict: bool = False  # whether what kernels cannot compute is an error
    training: bool = False  # whether the backward pass is planned, too
    out_placements: Sequence[Any] | None = None  # of the results of a program across devices
    traced: Traced | None = None  # what was made of ``fn`` before

    def on(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Request:
        """The same for other example arguments.  What compilers and clocks said of kernels is carried over where these serve."""
        return replace(self, args=tuple(args), kwargs=dict(kwargs), traced=None, refine=0, tune=False)

    def alike(self, other: Request) -> bool:
        """Whether another request plans in the same way what may be another program."""
        own = {"fn", "args", "kwargs", "name", "deadline", "traced"}
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(self) if f.name not in own)

    def without_data(self) -> Request:
        """The same with shapes and types in the places of tensors, which it would keep alive."""
        from ..frontends import without_data

        args, kwargs = without_data(self.args, self.kwargs)
        return replace(self, args=args, kwargs=kwargs, deadline=math.inf, traced=None)

    def trace(self) -> Traced:
        """The program.  Raises :class:`~eqfuse.errors.UnsupportedOpError` for what kernels cannot compute."""
        from ..frontends import trace

        traced = self.traced
        if traced is None or traced.exact != self.exact:
            traced = trace(self.fn, self.args, self.kwargs, name=self.name, exact=self.exact)
        check_computable(traced.program)
        return traced

    @property
    def exact(self) -> bool:
        """Whether kernels compute what is written, to the bit."""
        return self.licence == "exact"


def checked(request: Request) -> Request:
    """A request as a user gave it, fit for :func:`run`.

    Raises :class:`~eqfuse.errors.OptionError` for options that are none, and what is wrong with target, rules and example arguments.
    """
    _check_numbers(request)
    _check_lists(request)
    debug_level()
    for_optimize(traced=not isinstance(request.fn, Program))
    from ..frontends import example_arguments

    request = replace(
        request, args=example_arguments(request.args), rules=tuple(request.rules or ()), disable=tuple(request.disable),
        fusion=tuple(request.fusion),
    )  # fmt: skip
    active_rules(request)
    return replace(request, target=load_target(request.target))


def _check_numbers(asked: Request) -> None:
    """Raises :class:`~eqfuse.errors.OptionError` for what is no number, NaN, or out of range.  Infinite budgets are none at all."""
    factor = asked.accuracy_factor
    for option, value, cure in (
        ("node_budget", asked.node_budget, "a number of e-nodes, 0 or more; the default is 20_000"),
        ("time_budget", asked.time_budget, "seconds, 0 or more; the default is 10.0"),
        ("memory_limit", math.inf if asked.memory_limit is None else asked.memory_limit, "bytes, 0 or more; None is no limit"),
        ("accuracy_factor", 1.0 if factor is None else factor, "a number above 0; 2.0 allows twice the error of eager"),
    ):
        number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        good = number >= 0 and (option, number) != ("accuracy_factor", 0)
        expect(good, option, value, cure)
    expect(asked.objective in OBJECTIVES, "objective", asked.objective, " or ".join(map(repr, OBJECTIVES)))
    whole = isinstance(asked.refine, int) and not isinstance(asked.refine, bool) and 0 <= asked.refine <= MOST_REFINED
    expect(whole, "refine", asked.refine, f"a number of candidates of each kernel to compile, 0 to {MOST_REFINED}; 8 is a good one")
    for switch in ("no_spills", "strict", "tune", "training"):
        expect(isinstance(getattr(asked, switch), bool), switch, getattr(asked, switch), "True or False")


def _check_lists(asked: Request) -> None:
    """Raises :class:`~eqfuse.errors.OptionError` for an option that is no list, mapping or text where it has to be."""
    for option, value, cure in (
        ("rules", () if asked.rules is None else asked.rules, "a list of rules: rules=[my_rule]"),
        ("disable", asked.disable, "a list of names: disable=['repair']"),
        ("fusion", () if asked.fusion is None else asked.fusion, "a list of verdicts: fusion=[('forbid', 'out', 'scores')]"),
    ):
        expect(isinstance(value, list | tuple | set | frozenset), option, value, cure)
    kwargs, name = asked.kwargs, asked.name
    by_name = kwargs is None or (isinstance(kwargs, Mapping) and all(isinstance(k, str) for k in kwargs))
    expect(by_name, "kwargs", kwargs, "example arguments by name: kwargs={'x': x}")
    expect(name is None or isinstance(name, str), "name", name, "a text; without it, the function's own name is taken")


def active_rules(request: Request) -> tuple[Rule, ...]:
    """The rules of a request: registered and extra ones that the licence allows, without the disabled."""
    licence, extra, disable = request.licence, request.rules or (), request.disable
    if not isinstance(licence, str) or licence not in LICENCES:
        close = difflib.get_close_matches(licence, LICENCES, n=1) if isinstance(licence, str) else ()
        hint = f"licence={close[0]!r}; " if close else ""
        raise OptionError(f"no licence is called {shown(licence)}", cure=f"{hint}the licences are {', '.join(LICENCES)}")
    for one in extra:
        expect(isinstance(one, Rule), "one of rules=", one, "rules that eqfuse.rule or eqfuse.fusion made: rules=[my_rule]")
    extra = registry.extras(extra)
    known = {name for r in (*registry.rules(), *extra) for name in (r.name, r.family)}
    for name in disable:
        if not isinstance(name, str) or name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1) if isinstance(name, str) else ()
            hint = f"{close[0]!r}; " if close else ""
            raise OptionError(f"cannot disable {shown(name)}: no rule or family is called that", cure=f"{hint}eqfuse.rules() lists them")
        if any(name in (r.name, r.family) for r in registry.analyses()):
            raise OptionError(f"cannot disable {name!r}: every saturation needs the analyses", cure="disable rules of other families")
    allowed = LICENCES[: LICENCES.index(licence) + 1]
    registered = registry.active(licence)
    more = tuple(r for r in extra if r.licence in allowed and r not in registered)
    return tuple(r for r in (*registered, *more) if r.name not in disable and r.family not in disable)


def is_disabled(rule: Rule, disable: Sequence[str]) -> bool:
    """Whether somebody asked to leave a rule out."""
    return rule.name in disable or rule.family in disable or not (registry.enabled(rule))
