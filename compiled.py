"""``optimize`` and what it returns: a drop-in callable that can also explain, verify, compile and save itself.

Kernels for a GPU are Triton and run CUDA tensors, those for ``target="cpu"`` are C and run CPU tensors; on the other device the original
program runs in torch, and the plan says so.  ``interpret`` and ``simulate`` run what was generated without a GPU, for verification.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import errors
from .codegen.limits import check_computable
from .egraph.frozen import FrozenGraph
from .explain import Explanation, Why
from .explain.whole import ProgramExplanation
from .extract.targets import Target, load_target
from .ir.sameness import same_program
from .planning import Planned, Request, checked, rerun, run
from .planning.copied import Copied
from .ranges import Layouts, Range, layouts_of, program_layouts
from .rewrites import Rule
from .runtime.executable import Executable, leaves

if TYPE_CHECKING:
    from .distributed import Across
    from .frontends import Traced
    from .runtime.accuracy import AccuracyReport
    from .runtime.aot import StaticReport
    from .runtime.estimates import KernelEstimate
    from .runtime.levels import KernelLayouts
    from .steps import Stepped


MOST_VARIANTS = 64  # plans for other shapes that one Compiled keeps


def optimize(
    fn: Any,
    args: Sequence[Any] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Target = "auto",
    licence: str = "real",
    rules: Sequence[Rule] | None = None,
    disable: Sequence[str] = (),
    fusion: Sequence[tuple[str, str, str]] = (),
    name: str | None = None,
    node_budget: int = 20_000,
    time_budget: float = 10.0,
    objective: str = "time",
    memory_limit: float | None = None,
    accuracy_factor: float | None = None,
    no_spills: bool = False,
    refine: int = 0,
    tune: bool = False,
    out_placements: Sequence[Any] | None = None,
    strict: bool = False,
    training: bool = False,
) -> Compiled:
    """Compile a tensor program into fused kernels: Triton for a GPU, C for a CPU.

    ``fn``: a function on torch tensors, an ``nn.Module``, an ``ExportedProgram``, an ``fx.GraphModule``, or an
    :class:`eqfuse.Program`.  ``args``: example arguments (on any one device; only shapes, dtypes and strides are used: kernels are
    chosen for these strides and take any at run time).  An ``ExportedProgram`` or a ``Program`` has its shapes: arguments may be left
    out, and those given must fit it.  Numbers and tensors that a function closes over are those that it has now: a tensor may change in
    place, a name that is bound anew is not seen.
    ``target``: a name (``eqfuse.targets()``), an architecture, the path of a file like those, or ``"auto"``: what ``EQFUSE_TARGET``
    names in the environment, else the GPU at hand, else the CPU.
    ``licence``: the equality that rewrites may claim: ``exact`` (bitwise), ``real`` (over the reals: reassociation, laws of exp),
    ``approx``.  ``rules``: extra rules beside the registered ones; ``disable``: names of rules or families to leave out.
    ``fusion``: verdicts about values of this program by name, ``("forbid", "out", "scores")``, ``("require", ...)``, ``("allow", ...)``.
    ``node_budget`` bounds the e-graph, ``time_budget`` all that follows tracing: seconds of a machine of 2026, counted in work, so that a
    plan is the same on every machine.  A plan is returned in any case, never dearer than the plan op by op (5 to 10 ms for each kernel of
    it, which a large program may take beyond a short budget), and says if it stopped early.  Tracing and torch's import are not counted
    (docs/decisions/budgets.md).  ``objective``: "time", the
    fastest plan, and of those within 5 % of it the one that holds least memory between its kernels; or "memory", the one that holds least.
    ``memory_limit``: bytes that it may hold at most; PlanError if every plan found holds more.  The plan prints time against memory where
    there is a choice.
    ``accuracy_factor``: try the plan at small sizes in Triton's interpreter, and refuse it if its error against float64 is more than so
    many times that of the eager program; then a plan by exact rules is tried, and one by no rules, and what was refused stands in the
    plan.  AccuracyError if none is left.
    ``no_spills``: compile the plan ahead of time, which takes seconds and no GPU, and plan again with smaller tiles for every kernel of
    which the compiler spills registers to memory; the plan says what was tried, and what spills still if nothing helped.  Without it
    registers are counted by a model, which is right for most kernels and not for all (docs/decisions/registers.md has the numbers).
    ``refine``: compile so many candidates of each kernel (8 is a good number; one to three seconds of CPU for each, in parallel, and
    remembered on disk), refuse those that spill or cannot be launched, and take the best by machine code; the plan prints what the
    model, the machine code and a clock say.  No GPU is needed.  ``tune``: order them by the clock of the GPU at hand, if it is that of the
    target.  For a CPU ``refine`` is by its clock (docs/decisions/machine_code.md).

    What kernels cannot compute (an operator, a type, a shape that data decides, a write to an argument) torch runs, between kernels for all
    that is around it: then the result is an :class:`eqfuse.steps.Stepped`, which is called, asked and saved like a ``Compiled``, and whose
    ``plan`` lists what torch runs and why.  ``strict``: raise that reason instead.

    With DTensors among the arguments or parameters the result is an :class:`eqfuse.distributed.Across`: collectives and a program for each
    device in between.  ``out_placements``: DTensor's placements for each result, or ``None`` for those that cost least
    (docs/distributed.md).

    ``training``: plan the backward pass, too, and what is saved for it, for the arguments and parameters that require a gradient; the
    result is an :class:`eqfuse.training.Trained`, whose results have ``.backward()`` (docs/training.md).  ``memory_limit`` then also
    bounds what is held between the passes.

    Raises the classes of :mod:`eqfuse.errors`.
    """
    asked = Request(
        fn, args, kwargs, target,  # type: ignore[arg-type]  # a name becomes a target below
        licence, rules, disable, fusion, name, node_budget, time_budget, objective, memory_limit,
        accuracy_factor, no_spills, refine, tune, strict=strict,
    )  # fmt: skip
    if _across_devices(fn, args, kwargs):
        return _across(asked, out_placements)  # type: ignore[return-value]
    errors.expect(isinstance(training, bool), "training", training, "True or False")
    if training:
        from .training import Trained

        return Trained(checked(asked))  # type: ignore[return-value]
    errors.expect(out_placements is None, "out_placements", out_placements, "DTensors as arguments, whose results have placements")
    return planned(checked(asked))  # type: ignore[return-value]


def planned(request: Request, model: Any = None) -> Compiled | Stepped:
    """What ``optimize`` returns for a request that was checked.  ``model``: what that was for another function, whose plan serves if the
    program is the same."""
    from .frontends import Read, read

    if isinstance(model, Compiled) and request.fn is model.request.fn:
        return Compiled(model.planned)
    if request.traced is not None or (request.strict and model is None):
        return Compiled(run(request))
    found: Read = read(request.fn, request.args, request.kwargs, request.name, exact=request.exact)
    reason = found.error
    if found.traced is not None:
        try:
            check_computable(found.traced.program)
        except errors.UnsupportedOpError as error:
            reason = error
    if reason is None or found.captured is None:
        known = _served(model.planned, request, found.traced) if isinstance(model, Compiled) and found.traced is not None else None
        return Compiled(known or run(replace(request, traced=found.traced)))
    if request.strict:
        raise reason
    from .steps import Stepped

    return Stepped(found.captured, request, reason, planned, model)


def _served(model: Planned, request: Request, traced: Traced) -> Planned | None:
    """The plan of a program, for what is the same program of another module; ``None`` if it is another."""
    program = model.traced.program
    if not same_program(program, traced.program, {}) or program.strides != traced.program.strides:
        return None
    return replace(model, request=request.without_data(), traced=replace(traced, program=program))


def _across_devices(fn: Any, args: Any, kwargs: Any) -> bool:
    """Whether DTensors are among the arguments or parameters.  Before the modules that have them are loaded there are none."""
    if not {"torch.distributed.tensor", f"{__package__}.distributed"} & sys.modules.keys():
        return False
    from .distributed.arguments import across_devices

    return across_devices(fn, args, kwargs)


def _across(asked: Request, out_placements: Sequence[Any] | None) -> Across:
    """The same across devices.  OptionError for options that are about the kernels of one program."""
    from .distributed import Across

    for option in ("fusion", "accuracy_factor", "memory_limit", "no_spills", "refine", "tune"):
        value = getattr(asked, option)
        errors.expect(not value, option, value, "leave it out: with DTensors there is a plan for each of several programs")
    return Across(checked(asked), out_placements)


class Compiled(Copied, Executable):
    """A compiled program.  Call it like the function it came from: CUDA tensors run the kernels, CPU tensors the original program in torch;
    planned for ``target="cpu"``, it is the other way round.

    Tensors of another shape run the same kernels where these can take them and the model finds none that are better by more
    than a tenth (:mod:`eqfuse.ranges`); other shapes and types are planned for, once each; so it is with tensors that lie in memory in
    another way (which dimension has neighbours, which repeats its elements, what is aligned).  Where a gradient is wanted,
    the backward pass differentiates the original program in torch.  Where it is wanted of a tensor that the function has captured,
    the original program runs in either direction: kernels would know that tensor's value, and not that it is a variable.
    Inside of ``torch.func.vmap``, ``grad``, ``jvp`` and the like the original program runs in torch, which knows how to transform it.
    A call is checked once for all that are like it (:mod:`eqfuse.runtime.calls`).
    """

    _again = staticmethod(planned)

    def __init__(self, planned: Planned) -> None:
        super().__init__(planned.traced, planned.generated, planned.plan, planned.request.target)
        self.planned = planned  # the request, and what each stage made of it
        self._range = Range(planned)
        self._variants: dict[object, Executable] = {}  # this program for arguments of other shapes and layouts
        self._layouts = program_layouts(self.program)

    @property
    def request(self) -> Request:  # type: ignore[override]  # the others have it themselves
        """What was asked for."""
        return self.planned.request

    @property
    def graph(self) -> FrozenGraph:
        """The saturated e-graph; PlanError if the program is planned in regions, which have one each (``planned.graphs``)."""
        return self.planned.graph

    def _serves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Executable, dict[str, Any] | None]:
        import torch

        try:
            tensors = self.bind(args, kwargs)
        except (errors.ShapeError, errors.StaticArgumentError):  # another shape, type or baked number than was planned for
            if not self._runs_on([v for v in leaves((args, kwargs)) if isinstance(v, torch.Tensor)]):
                return self, None
            if self.planned.fixed:
                raise
            return self._variant(args, kwargs)._serves(args, kwargs)
        layouts = self._layouts if torch.compiler.is_compiling() else layouts_of(tensors)
        if layouts == self._layouts:
            return self, tensors
        return (self._laid_out(layouts, tensors, args, kwargs), tensors) if self._runs_on(list(tensors.values())) else (self, None)

    def _laid_out(self, layouts: Layouts, tensors: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Executable:
        """This program for tensors of its shapes that lie in memory in another way; found once for each kind of that."""
        found = self._variants.get(layouts)
        if found is None:
            request = self.planned.request.on(args, kwargs)
            tried = request.accuracy_factor is not None  # a plan is tried before it is taken
            found = Compiled(run(request)) if tried else self._range.serving(request, self.traced.laid_out(tensors))
            self._keep(layouts, found)
        return found

    def _keep(self, key: object, found: Executable) -> None:
        for oldest in list(self._variants)[: 1 - MOST_VARIANTS]:  # without a lock: tracing has one, and may call this
            self._variants.pop(oldest, None)
        self._variants[key] = found

    def _variant(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Executable:
        """This program for arguments of another shape or type; found once for each."""
        key = self.traced.key(args, kwargs)
        found = self._variants.get(key)
        if found is None:
            found = self._serving(args, kwargs)
            self._keep(key, found)
        return found

    def _serving(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Executable:
        request = self.planned.request.on(args, kwargs)
        traced = None if request.accuracy_factor is not None else self.traced.at(args, kwargs)
        if traced is not None:
            found = self._range.serving(request, traced)
            with suppress(errors.ShapeError):  # a parameter of another shape has been put in since
                found.bind(args, kwargs)
                return found
        return Compiled(run(request))  # another program, or one that has to be tried first

    def at(self, *args: Any, **kwargs: Any) -> Compiled:
        """The same kernels, roles and tiles for arguments of other sizes: how a plan for large tensors is verified on small ones.

        Raises :class:`~eqfuse.errors.PlanError` when the program has another structure there (an axis of length 1 vanishes), or has its
        sizes itself (an ``ExportedProgram``, a ``Program``).
        """
        return Compiled(rerun(self.planned, args=args, kwargs=kwargs))

    def replan(self, target: str | Target) -> Compiled:
        """The same program planned for another target; what was traced serves again, and the e-graph, if the same axes are split."""
        return Compiled(rerun(self.planned, target=load_target(target)))

    # -- knowing -------------------------------------------------------------------------------------------------------------
    def explain(self, *, costs: bool = False) -> Explanation | ProgramExplanation:
        """Why the plan is what it is: the rewrites from the program to every kernel, each replayed on random numbers, what is saved,
        what came second and why it lost.  ``str`` for people, ``.json()`` for programs, ``.why(a, b)`` for two values.

        ``costs=True`` also asks what each step saves (a search for each) and each rule (a saturation and a search for each).
        """
        errors.expect(isinstance(costs, bool), "costs", costs, "True or False", where="explain")
        return self.planned.explain(costs=costs)

    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why: no equation, forbidden, does not fit on chip, or costs more.

        A value is named by an input or output, a variable of the traced source, a node of the traced graph, or ``file.py:LINE``.
        Raises :class:`~eqfuse.errors.OptionError`, with the names that there are, for any other.
        """
        return self._explanation.why(a, b)

    @cached_property
    def _explanation(self) -> Explanation | ProgramExplanation:
        return self.explain()

    def html(self) -> str:
        """The plan as one page of HTML without references to others: the program as written beside its kernels, bytes as widths, and for
        each kernel its equations, rules, source and place under the roofline.  Made to be read without the code."""
        from .pages import page, page_data

        return page(page_data([(self.plan, self.target)]), self.program.name)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, sizes: Sequence[Sequence[Any]] = ()) -> Path:
        """Write the generated module to a file that a team can keep: it needs only torch and triton, and the modules of outside
        implementations.  It says what it computes, and run as a script it tests itself (docs/torch_compile.md).

        ``sizes``: example arguments of other sizes, a tuple for each.  Where the model finds kernels for them that are better by more than
        a tenth, the file has these, too, and its ``run`` chooses by the sizes that it is called with; so it does with all sizes that this
        object was called with on a GPU.

        Raises as :meth:`.Executable.save` does, and :class:`~eqfuse.errors.PlanError` where other sizes make another program.
        """
        from .runtime.standalone import Served, standalone_range
        from .runtime.writing import check_place, write_module

        good = isinstance(sizes, list | tuple) and all(isinstance(args, list | tuple) for args in sizes)
        errors.expect(good, "sizes", sizes, "a list with a tuple of arguments for each set of sizes", where="save")
        for args in sizes:
            if self.planned.fixed or self.traced.at(args, {}) is None:
                said = "it has its sizes, or is another program at others"
                raise errors.PlanError(said, where=self.program.name, cure="leave sizes= out, and save one file for each")
            self._variant(args, {})
        served = [Served(e.traced, e.generated, least, most) for e, least, most in self._range.kernels(self)]
        if len(served) == 1:
            return super().save(path, overwrite=overwrite)
        check_place(path, self.program.name, overwrite=overwrite)
        header = [f"plan for {self.program.name} on {self.plan.target}: {len(served)} plans, by sizes"]
        header += [f"  {k}. {str(e.plan).splitlines()[0]}" for k, (e, _, _) in enumerate(self._range.kernels(self), 1)]
        return write_module(path, standalone_range(served, "\n".join(header)), self.program.name, overwrite=overwrite)

    def accuracy(self, *args: Any, runner: str = "auto", factor: float | None = None, orders: int = 0, **kwargs: Any) -> AccuracyReport:
        """Errors against float64 of the generated kernels and of the eager program in its own type.

        ``factor``: raise :class:`~eqfuse.errors.AccuracyError` if an output's error is more than so many times eager's.
        ``orders``: run eager so many times more with the axes that it sums over in other orders, and take the largest of its errors:
        on data where one element decides (scores of 1e4), the error of one run is luck.
        """
        from .runtime.accuracy import measure

        good = factor is None or (isinstance(factor, Real) and not isinstance(factor, bool) and factor > 0)
        errors.expect(good, "factor", factor, "a number above 0, such as 2.0", where="accuracy")
        report = measure(self, args, runner, kwargs, orders)
        if factor is not None:
            report.check(factor)
        return report

    def compile(self, arch: str | None = None) -> list[StaticReport]:
        """Compile every kernel ahead of time; no GPU needed.  A plan belongs to a target: for another architecture than the
        target's, the program is planned again for that architecture's representative device."""
        other = self._for(arch, "compile")
        return super().compile() if other is self else other.compile()

    def estimates(self, arch: str | None = None) -> list[KernelEstimate]:
        """How long every launch takes by its machine code: compiled ahead of time, disassembled, and its instructions issued on a simulated
        multiprocessor (:mod:`eqfuse.machine`); a second or two for each, no GPU needed.  Beside it are what the plan's model says, and
        the floors: what each unit must do.

        ``arch`` as in :meth:`compile`.  Raises :class:`~eqfuse.errors.CompileError` without Triton, and where no file describes the
        architecture's units."""
        other = self._for(arch, "estimates")
        return super().estimates() if other is self else other.estimates()

    def layouts(self, arch: str | None = None) -> list[KernelLayouts]:
        """For every kernel, where the elements of its tensors are: strides in device memory, and as the compiler decided, in shared
        memory and in registers, with the passes that shared memory takes.  The kernels are compiled ahead of time; no GPU needed.

        ``str`` of each for people, ``held`` and ``moves`` for programs.  ``arch`` as in :meth:`compile`.
        Raises :class:`~eqfuse.errors.CompileError` without Triton, and where it rejects a kernel."""
        other = self._for(arch, "layouts")
        return super().layouts() if other is self else other.layouts()

    def _for(self, arch: str | None, where: str) -> Compiled:
        """This program planned for an architecture."""
        errors.expect(arch is None or isinstance(arch, str), "arch", arch, "an architecture, as 'sm_90'", where=where)
        other = self.target if arch is None or arch == self.target.arch else load_target(arch)
        return self if other.arch == self.target.arch else self.replan(other)

    def __repr__(self) -> str:
        kernels = len(self.plan.steps)
        return f"<Compiled {self.program.name}: {kernels} kernel{'s' * (kernels != 1)} for {self.plan.target}>"

    def __str__(self) -> str:
        notes = [self._learned_text] * bool(self.learned) + [self.missing] * bool(self.missing)
        return "\n  ".join([str(self.plan), *notes])
