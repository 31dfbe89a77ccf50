"""``optimize`` and what it returns: a drop-in callable that can also explain, verify, compile and save itself.

Kernels for a GPU are Triton and run CUDA tensors, those for ``target="cpu"`` are C and run CPU tensors; on the other device the original
program runs in torch, and the plan says so.  ``interpret`` and ``simulate`` run what was generated without a GPU, for verification.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import errors
from .codegen.limits import check_computable
from .egraph.frozen import FrozenGraph
from .explain import Explanation, Why
from .explain.parts import PartsExplanation
from .explain.whole import ProgramExplanation
from .extract.plan import Plan
from .extract.targets import Target, load_target
from .ir.sameness import same_program
from .planning import Planned, Request, checked, rerun, run
from .planning.composite import Composite, kept
from .planning.copied import Copied
from .ranges import Layouts, Range, layouts_of, program_layouts
from .rewrites import Rule
from .runtime.executable import Executable, leaves

if TYPE_CHECKING:
    import torch

    from .frontends import Traced
    from .nested import Nested
    from .runtime.accuracy import AccuracyReport
    from .runtime.aot import StaticReport
    from .runtime.estimates import KernelEstimate
    from .runtime.levels import KernelLayouts


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
    that is around it, and ``plan`` lists what and why.  ``strict``: raise that reason instead.

    With DTensors among the arguments or parameters there are collectives, and a program for each device in between.  ``out_placements``:
    DTensor's placements for each result, or ``None`` for those that cost least (docs/distributed.md).

    ``training``: plan the backward pass, too, and what is saved for it, for the arguments and parameters that require a gradient; results
    have ``.backward()`` (docs/training.md).  ``memory_limit`` then also bounds what is held between the passes.

    Raises the classes of :mod:`eqfuse.errors`.
    """
    request = checked(Request(
        fn, args, kwargs, target,  # type: ignore[arg-type]  # a name becomes a target
        licence, rules, disable, fusion, name, node_budget, time_budget, objective, memory_limit, accuracy_factor, no_spills, refine, tune,
        strict=strict, training=training, out_placements=out_placements,
    ))  # fmt: skip
    return Compiled(form_of(request))


def form_of(request: Request, model: Any = None) -> Whole | Composite | Nested:
    """What is planned for a request that was checked.  ``model``: that of another function, whose plan serves if the program is the
    same."""
    from .frontends import Read, read

    if _across_devices(request):
        from .distributed import Across

        return Across(request)
    if _nested(request):
        from .nested import Nested

        return Nested(request, form_of, model)
    if request.training:
        from .training import Trained

        return Trained(request, model)
    errors.expect(
        request.out_placements is None, "out_placements", request.out_placements, "DTensors as arguments, whose results have placements"
    )
    if isinstance(model, Whole) and request.fn is model.request.fn:
        return Whole(model.planned)
    if request.traced is not None or (request.strict and model is None):
        return Whole(run(request))
    found: Read = read(request.fn, request.args, request.kwargs, request.name, exact=request.exact)
    reason = found.error
    if found.traced is not None:
        try:
            check_computable(found.traced.program)
        except errors.UnsupportedOpError as error:
            reason = error
    if reason is None or found.captured is None:
        known = _served(model.planned, request, found.traced) if isinstance(model, Whole) and found.traced is not None else None
        return Whole(known or run(replace(request, traced=found.traced)))
    if request.strict:
        raise reason
    from .steps import Stepped

    return Stepped(found.captured, request, reason, form_of, model)


def _served(model: Planned, request: Request, traced: Traced) -> Planned | None:
    """The plan of a program, for what is the same program of another module; ``None`` if it is another."""
    program = model.traced.program
    if not same_program(program, traced.program, {}) or program.strides != traced.program.strides:
        return None
    return replace(model, request=request.without_data(), traced=replace(traced, program=program))


def _across_devices(request: Request) -> bool:
    """Whether DTensors are among the arguments or parameters.  Before the modules that have them are loaded there are none."""
    if not {"torch.distributed.tensor", f"{__package__}.distributed"} & sys.modules.keys():
        return False
    from .distributed.arguments import across_devices

    return across_devices(request.fn, request.args, request.kwargs)


def _nested(request: Request) -> bool:
    """Whether nested tensors are among the arguments."""
    from .frontends.convention import flattened
    from .frontends.spec import is_nested

    return any(map(is_nested, flattened(request.args or (), request.kwargs or {})[0]))


class Whole(Executable):
    """A program that is planned as one, in regions or not.  CUDA tensors run the kernels, CPU tensors the original program in torch;
    planned for ``target="cpu"``, it is the other way round.

    Tensors of another shape run the same kernels where these can take them and the model finds none that are better by more
    than a tenth (:mod:`eqfuse.ranges`); other shapes and types are planned for, once each; so it is with tensors that lie in memory in
    another way (which dimension has neighbours, which repeats its elements, what is aligned).  Where a gradient is wanted,
    the backward pass differentiates the original program in torch.  Where it is wanted of a tensor that the function has captured,
    the original program runs in either direction: kernels would know that tensor's value, and not that it is a variable.
    Inside of ``torch.func.vmap``, ``grad``, ``jvp`` and the like the original program runs in torch, which knows how to transform it.
    A call is checked once for all that are like it (:mod:`eqfuse.runtime.calls`).
    """

    def __init__(self, planned: Planned) -> None:
        super().__init__(planned.traced, planned.generated, planned.plan, planned.request.target)
        self.planned = planned  # the request, and what each stage made of it
        self._range = Range(planned)
        self._variants: dict[Any, Any] = {}  # this program for arguments of other shapes and layouts
        self._layouts = program_layouts(self.program)
        self.name, self.inputs, self.names = self.program.name, self.program.input_names, self.program.result_names

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.planned.request

    @property
    def graph(self) -> FrozenGraph:
        """The saturated e-graph; PlanError if the program is planned in regions, which have one each (``planned.graphs``)."""
        return self.planned.graph

    def _serves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any] | None]:
        import torch

        try:
            tensors = self.bind(args, kwargs)
        except (errors.ShapeError, errors.StaticArgumentError):  # another shape, type or baked number than was planned for
            if not self._runs_on([v for v in leaves((args, kwargs)) if isinstance(v, torch.Tensor)]):
                return self, None
            if self.planned.fixed:
                raise
            variant = self._variant(args, kwargs)
            return variant._serves(args, kwargs) if isinstance(variant, Executable) else (variant, None)
        layouts = self._layouts if torch.compiler.is_compiling() else layouts_of(tensors)
        if layouts == self._layouts:
            return self, tensors
        return (self._laid_out(layouts, tensors, args, kwargs), tensors) if self._runs_on(list(tensors.values())) else (self, None)

    def _laid_out(self, layouts: Layouts, tensors: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Executable:
        """This program for tensors of its shapes that lie in memory in another way; found once for each kind of that."""

        def made() -> Executable:
            request = self.request.on(args, kwargs)
            tried = request.accuracy_factor is not None  # a plan is tried before it is taken
            return Whole(run(request)) if tried else self._range.serving(request, self.traced.laid_out(tensors))

        return kept(self._variants, layouts, made)

    def _variant(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Executable | Composite | Nested:
        """This program for arguments of another shape or type; found once for each."""
        return kept(self._variants, self.traced.key(args, kwargs), lambda: self._serving(args, kwargs))

    def _serving(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Executable | Composite | Nested:
        request = self.planned.request.on(args, kwargs)
        traced = None if request.accuracy_factor is not None else self.traced.at(args, kwargs)
        if traced is not None:
            found = self._range.serving(request, traced)
            with suppress(errors.ShapeError, errors.StaticArgumentError):  # another parameter, or none, has been put in since
                found.bind(args, kwargs)
                return found
        return form_of(request)  # another program, or one that has to be tried first

    # what a Compiled asks ---------------------------------------------------------------------------------------------------------
    @property
    def block(self) -> Plan:
        """The plan."""
        return self.plan

    @property
    def parts(self) -> Mapping[str, Planned]:
        """The one plan."""
        return {self.name: self.planned}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is said below the plan: why calls run the original program."""
        return (*[self._learned_text] * bool(self.learned), *[self.missing] * bool(self.missing))

    def at(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Whole:
        """The same kernels, roles and tiles for arguments of other sizes."""
        return Whole(rerun(self.planned, args=args, kwargs=kwargs))

    def on(self, target: Target) -> Whole:
        """The same program planned for another target; what was traced serves again, and the e-graph, if the same axes are split."""
        return Whole(rerun(self.planned, target=target))

    def explain(self, *, costs: bool = False) -> Explanation | ProgramExplanation:
        """Why the plan is what it is."""
        return self.planned.explain(costs=costs)

    def errors(self, args: Sequence[Any], kwargs: Mapping[str, Any], runner: str, orders: int = 0) -> AccuracyReport:
        """Errors against float64."""
        from .runtime.accuracy import measure

        return measure(self, args, runner, kwargs, orders)

    def standalone(self, sizes: Sequence[Sequence[Any]]) -> str:
        """The module with a test that runs when the file does, and with the kernels for other sizes that a GPU was given."""
        from .runtime.standalone import Served, standalone, standalone_range

        for step in self.plan.calls:
            if step.call.entry[0] == "__main__":
                raise errors.PlanError(
                    f"no other program can import {step.call.entry[1]}(), which {step.rule} offers",
                    where=step.where,
                    cure="move it from the script into a module of its own, or leave the rule out with disable=",
                )
        for args in sizes:
            if self.planned.fixed or self.traced.at(args, {}) is None:
                said = "it has its sizes, or is another program at others"
                raise errors.PlanError(said, where=self.name, cure="leave sizes= out, and save one file for each")
            self._variant(args, {})
        served = [Served(e.traced, e.generated, least, most) for e, least, most in self._range.kernels(self)]
        if len(served) == 1:
            return standalone(self.traced, self.generated)
        header = [f"plan for {self.name} on {self.plan.target}: {len(served)} plans, by sizes"]
        header += [f"  {k}. {str(e.plan).splitlines()[0]}" for k, (e, _, _) in enumerate(self._range.kernels(self), 1)]
        return standalone_range(served, "\n".join(header))


class Compiled(Copied):
    """A compiled program.  Call it like the function it came from.

    ``form`` says how it is planned: as one (:class:`Whole`), in pieces around what torch runs (:class:`eqfuse.steps.Stepped`), both passes
    of a training step (:class:`eqfuse.training.Trained`), across devices (:class:`eqfuse.distributed.Across`), or any of these of the dense
    parts of nested tensors (:class:`eqfuse.nested.Nested`).  What a form has beside,
    as the values that a training step saves, is an attribute here, too.
    """

    def __init__(self, form: Whole | Composite | Nested) -> None:
        self.__dict__["form"] = form

    @cached_property
    def form(self) -> Whole | Composite | Nested:
        """How it is planned; of a copy, when this is first asked for."""
        return form_of(*self._waiting)

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.form.request

    @property
    def target(self) -> Target:
        """The device that it is planned for."""
        return self.form.request.target

    @property
    def name(self) -> str:
        """What the program is called."""
        return self.form.name

    @property
    def plan(self) -> Any:
        """What runs, in order, and what each step costs."""
        return self.form.plan

    @property
    def parts(self) -> Mapping[str, Planned]:
        """The different programs of which it consists, by name, each with its plan and its e-graphs: one, or pieces between what torch
        runs, the passes of a training step, the programs of devices."""
        return self.form.parts

    @property
    def graphs(self) -> tuple[FrozenGraph, ...]:
        """The saturated e-graphs, of every part and of every region."""
        return tuple(graph for p in self.parts.values() for graph in p.graphs)

    # -- running -------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of a call on the device of the arguments."""
        return self.form(*args, **kwargs)

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The original program, run by torch; a program written in terms runs through the float64 reference."""
        return self.form.eager(*args, **kwargs)

    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The generated Triton through Triton's interpreter, on CPU tensors of any size the plan admits; kernels in C just run, and so does
        what torch runs between kernels.

        ``sanitize`` checks bounds, undefined lanes and races.  Slow (about 0.05 ms per tile operation): use reduced sizes.
        """
        errors.expect(isinstance(sanitize, bool), "sanitize", sanitize, "True or False", where="interpret")
        return self.form.interpret(*args, sanitize=sanitize, **kwargs)

    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The plan through the numpy tile interpreter, in float64 (or ``dtype``); outputs are torch tensors of that type."""
        return self.form.simulate(*args, dtype=dtype, **kwargs)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensor of every input of a call, by name, in the order in which ``run`` of the source takes them."""
        return self.form.bind(args, kwargs)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the tensors that ``run`` of the source takes: tensor arguments, parameters, buffers and constants."""
        return self.form.inputs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tensors that it returns."""
        return self.form.names

    @property
    def missing(self) -> str:
        """What kernels for a CPU lack here, so that calls run the original program in torch; empty if nothing."""
        return next((p.executable.missing for p in self.parts.values() if p.executable.missing), "")

    # -- planning again ------------------------------------------------------------------------------------------------------
    def at(self, *args: Any, **kwargs: Any) -> Compiled:
        """The same kernels, roles and tiles for arguments of other sizes: how a plan for large tensors is verified on small ones.

        Raises :class:`~eqfuse.errors.PlanError` when the program has another structure there (an axis of length 1 vanishes), or has its
        sizes itself (an ``ExportedProgram``, a ``Program``), and for a program that is not planned as one.
        """
        return Compiled(self.form.at(args, kwargs))

    def replan(self, target: str | Target) -> Compiled:
        """The same program planned for another target."""
        return Compiled(self.form.on(load_target(target)))

    # -- knowing -------------------------------------------------------------------------------------------------------------
    def explain(self, *, costs: bool = False) -> Explanation | ProgramExplanation | PartsExplanation:
        """Why the plan is what it is: the rewrites from the program to every kernel, each replayed on random numbers, what is saved,
        what came second and why it lost; what torch runs, and why.  ``str`` for people, ``.json()`` for programs, ``.why(a, b)`` for two
        values.

        ``costs=True`` also asks what each step saves (a search for each) and each rule (a saturation and a search for each).
        """
        errors.expect(isinstance(costs, bool), "costs", costs, "True or False", where="explain")
        return self.form.explain(costs=costs)

    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why: no equation, forbidden, does not fit on chip, or costs more.

        A value is named by an input or output, a variable of the traced source, a node of the traced graph, or ``file.py:LINE``.
        Raises :class:`~eqfuse.errors.OptionError`, with the names that there are, for any other.
        """
        return self._explanation.why(a, b)

    @cached_property
    def _explanation(self) -> Explanation | ProgramExplanation | PartsExplanation:
        return self.explain()

    def html(self) -> str:
        """The plan as one page of HTML without references to others: the program as written beside its kernels, bytes as widths, and for
        each kernel its equations, rules, source and place under the roofline; what torch runs stands where it runs, with the reason.
        Made to be read without the code."""
        from .pages import page, page_data

        return page(page_data([(self.form.block, self.target)]), self.name)

    @property
    def source(self) -> str:
        """The generated module, as text; it needs only torch and triton, and ``run`` in it takes the tensors of :attr:`inputs`.

        Of a program that is planned as one they may have any size that its kernels and the program admit.  To know what the program
        admits, the function is traced once with symbols when this is first asked for, and read at other sizes.  Where a rule depended on
        the lengths of axes, and for all other programs, it takes the planned sizes alone.
        """
        return self.form.source

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, sizes: Sequence[Sequence[Any]] = ()) -> Path:
        """Write the generated module to a file that a team can keep: it needs only torch and triton (kernels in C: torch and a C
        compiler, which is called when they first run), and the modules of outside implementations.  It says what it computes, and run
        as a script it tests itself: ``run`` against ``reference``, the program as torch traced it, gradients included, at small sizes if
        it takes such, on a GPU or in Triton's interpreter, or kernels in C on the CPU (docs/saved_files.md).

        The file is written in one step.  An earlier module of EqFuse is replaced, another file only with ``overwrite``, a link never.

        ``sizes``: example arguments of other sizes, a tuple for each.  Where the model finds kernels for them that are better by more than
        a tenth, the file has these, too, and its ``run`` chooses by the sizes that it is called with; so it does with all sizes that this
        object was called with on a GPU.

        Raises :class:`~eqfuse.errors.OptionError` if there can be no such file, and :class:`~eqfuse.errors.PlanError` where other sizes
        make another program, if an outside implementation is defined in the script that is running, and across devices.
        """
        from .runtime.writing import check_place, write_module

        good = isinstance(sizes, list | tuple) and all(isinstance(args, list | tuple) for args in sizes)
        errors.expect(good, "sizes", sizes, "a list with a tuple of arguments for each set of sizes", where="save")
        check_place(path, self.name, overwrite=overwrite)  # the text may take a while
        return write_module(path, self.form.standalone(sizes), self.name, overwrite=overwrite)

    def accuracy(self, *args: Any, runner: str = "auto", factor: float | None = None, orders: int = 0, **kwargs: Any) -> AccuracyReport:
        """Errors against float64 of the generated kernels and of the eager program in its own type; of gradients, too.

        ``runner``: "interpret", "cuda" or "simulate"; by default what runs on the device of the tensors.
        ``factor``: raise :class:`~eqfuse.errors.AccuracyError` if an output's error is more than so many times eager's.
        ``orders``: run eager so many times more with the axes that it sums over in other orders, and take the largest of its errors:
        on data where one element decides (scores of 1e4), the error of one run is luck.  For what is planned as one.
        """
        from .runtime.accuracy import check_asked

        check_asked(runner, factor, orders)
        if runner == "auto":
            runner = "cuda" if any(t.is_cuda for t in self.bind(args, kwargs).values()) else "interpret"
        if isinstance(self.form, Whole):
            report = self.form.errors(args, kwargs, runner, orders)
        else:
            errors.expect(not orders, "orders", orders, f"0: {self.name} is not planned as one", where="accuracy")
            report = self.form.errors(args, kwargs, runner)
        if factor is not None:
            report.check(factor)
        return report

    def compile(self, arch: str | None = None) -> list[StaticReport]:
        """Compile every different kernel ahead of time; no GPU needed.  A plan belongs to a target: for another architecture than the
        target's, the program is planned again for that architecture's representative device."""
        return [report for p in self._for(arch, "compile") for report in p.generated.compile()]

    def estimates(self, arch: str | None = None) -> list[KernelEstimate]:
        """How long every different launch takes by its machine code: compiled ahead of time, disassembled, and its instructions issued on a
        simulated multiprocessor (:mod:`eqfuse.machine`); a second or two for each, no GPU needed.  Beside it are what the plan's model
        says, and the floors: what each unit must do.

        ``arch`` as in :meth:`compile`.  Raises :class:`~eqfuse.errors.CompileError` without Triton, and where no file describes the
        architecture's units."""
        return [found for p in self._for(arch, "estimates") for found in p.generated.estimates()]

    def layouts(self, arch: str | None = None) -> list[KernelLayouts]:
        """For every different kernel, where the elements of its tensors are: strides in device memory, and as the compiler decided, in
        shared memory and in registers, with the passes that shared memory takes.  The kernels are compiled ahead of time; no GPU needed.

        ``str`` of each for people, ``held`` and ``moves`` for programs.  ``arch`` as in :meth:`compile`.
        Raises :class:`~eqfuse.errors.CompileError` without Triton, and where it rejects a kernel."""
        return [found for p in self._for(arch, "layouts") for found in p.generated.layouts()]

    def _for(self, arch: str | None, where: str) -> Iterable[Planned]:
        """The different programs, planned for an architecture."""
        errors.expect(arch is None or isinstance(arch, str), "arch", arch, "an architecture, as 'sm_90'", where=where)
        other = self.target if arch is None or arch == self.target.arch else load_target(arch)
        return (self if other.arch == self.target.arch else self.replan(other)).parts.values()

    def __repr__(self) -> str:
        return f"<Compiled {str(self.plan).splitlines()[0]}>"

    def __str__(self) -> str:
        return "\n  ".join([str(self.plan), *self.form.remarks])
