"""A plan that runs: as kernels on a GPU, in Triton's interpreter, in the simulator of tile programs, or as the program was written.

It knows one plan for one set of sizes and nothing of how plans are made; :class:`~eqfuse.Compiled` adds that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .. import errors
from ..codegen.sizes import Guard
from ..extract.plan import Plan
from ..extract.targets import Target
from ..ir.program import Program
from ..ir.reference import evaluate
from ..rewrites import verdicts
from .composed import Composed
from .generated import Generated

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..frontends import Traced
    from .calls import Calls
    from .ops import RegisteredOp


@dataclass(eq=False)
class Executable:
    """A plan with what is needed to call it."""

    traced: Traced
    generated: Generated | Composed
    plan: Plan
    target: Target

    @property
    def program(self) -> Program:
        """The traced program, as terms."""
        return self.traced.program

    @property
    def source(self) -> str:
        """The generated Triton module, as text; it needs only torch and triton.

        Its ``run`` takes tensors of any size that its kernels and the program admit.  To know what the program admits, the function is
        traced once with symbols when this is first asked for, and read at other sizes.  Where a rule depended on the lengths of axes,
        or the program is planned in regions, it takes the planned sizes alone.
        """
        return self.generated.source

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What the kernels need of the lengths that they read from shapes; every other length is the planned one."""
        return self.generated.guards

    def serving(self, traced: Traced) -> Executable | None:
        """The same kernels for the program at other sizes; ``None`` if it is another program there, or they cannot take these sizes."""
        found = self.generated.serving(traced)
        return None if found is None else Executable(traced, found, self.plan, self.target)

    # -- running -------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the device of the arguments."""
        import torch

        if not torch.compiler.is_compiling() and transformed():
            return self.eager(*args, **kwargs)
        signed = None if followed() else self._calls.signature(args, kwargs)
        if signed is not None and (known := self._calls.get(signed[0])) is not None:
            return known(signed[1])
        serving, tensors = self._serves(args, kwargs)
        run = None if tensors is None else serving._way(tensors)
        if tensors is None or run is None:
            return (self.eager if isinstance(serving, Executable) else serving)(*args, **kwargs)
        given = [tensors[i.name] for i in serving.program.inputs]
        found = run(given)
        places = None if signed is None else self._places((args, kwargs), signed[1], serving, tensors)
        if signed is not None and places is not None:
            again = serving._prepared(given) if run == serving._by_kernels else run
            self._calls.keep(signed[0], lambda values: again([values[k] for k in places]))
        return found

    def _serves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, torch.Tensor] | None]:
        """What runs a call, with the tensors of its inputs; these are ``None`` where that is the original program, or one that torch runs
        a part of."""
        return self, self.bind(args, kwargs)

    def _way(self, tensors: Mapping[str, torch.Tensor]) -> Callable[[list[torch.Tensor]], Any] | None:
        """What runs on these inputs, in their order: the kernels, or the operator, which knows its backward pass, and what it makes of
        tensors without data.  ``None``: the original program."""
        import torch

        from .calls import TENSORS

        if not self._runs_on(list(tensors.values())):
            return None
        if torch.is_grad_enabled() and self.learned:
            if not torch.compiler.is_compiling():
                warnings.warn(self._learned_text, stacklevel=4)
            return None
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors.values()):
            return self._by_operator
        return self._by_operator if followed() or not TENSORS.issuperset(map(type, tensors.values())) else self._by_kernels

    def _by_operator(self, given: list[torch.Tensor]) -> Any:
        return self.traced.unflatten(list(self.op(*given)))

    def _by_kernels(self, given: list[torch.Tensor]) -> Any:
        return self.traced.unflatten(self._run(*given))

    # -- calls like an earlier one ---------------------------------------------------------------------------------------------
    @cached_property
    def _calls(self) -> Calls:
        from .calls import Calls

        return Calls(self.traced.held)

    def _places(self, call: tuple[Any, Any], values: Sequence[Any], serving: Executable, tensors: Mapping[str, Any]) -> list[int] | None:
        """Where among the values of its signature the inputs of a call are; ``None`` if one is not there: a default, a copy."""
        from ..frontends.traced import without_data
        from .calls import opened

        args, kwargs = without_data(*call)  # a spec for each tensor, also where one comes twice
        leaves, _ = opened(args, kwargs)
        at = {id(x): k for k, x in enumerate(leaves) if x is not values[k]}
        found = {name: at[id(x)] for name, x in serving.traced.bind(*args, **kwargs).items() if id(x) in at}
        theirs = dict(serving.traced.held)
        for k, (name, _) in enumerate(self.traced.held, len(leaves)):
            same = name in theirs and name in tensors and theirs[name]() is values[k]
            if same and tensors[name].device == values[k].device:
                found[name] = k
        names = [i.name for i in serving.program.inputs]
        return [found[name] for name in names] if found.keys() >= set(names) else None

    def _prepared(self, given: list[torch.Tensor]) -> Callable[[list[torch.Tensor]], Any]:
        """As :meth:`_by_kernels`, for tensors that are like these: what kernels in C need checked is checked here."""
        prepare = getattr(self._run, "prepare", None)
        if prepare is None:
            return self._by_kernels
        launch, unflatten = prepare(*given), self.traced.unflatten
        return lambda tensors: unflatten(launch(*tensors))

    @property
    def learned(self) -> tuple[str, ...]:
        """The inputs that are captured tensors (no arguments, nor a module's own parameters) of which a gradient is wanted now."""
        return tuple(n for n, t in self.traced.captured.items() if t.requires_grad)

    @property
    def _learned_text(self) -> str:
        listed = ", ".join(f"{n} {tuple(self.traced.captured[n].shape)}" for n in self.learned)
        return (
            f"{self.program.name}: the function has captured what requires a gradient ({listed}); unless under torch.no_grad(), calls run "
            "the original program in torch.  For kernels, pass it as an argument or optimize an nn.Module that holds it"
        )

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensor of every input; ShapeError where one has another shape or type than the plan was made for."""
        import torch

        errors.expect(isinstance(args, list | tuple), "args", args, "the arguments of a call, in a tuple", where="bind")
        named = isinstance(kwargs, Mapping) and all(isinstance(k, str) for k in kwargs)
        errors.expect(named, "kwargs", kwargs, "arguments by name, in a dict", where="bind")
        tensors = self.traced.bind(*args, **kwargs)
        for i in self.program.inputs:
            want, dtype = tuple(1 if a is None else a.size for a in i.layout), self.program.kept(i).name
            got = tensors[i.name]
            if not isinstance(got, torch.Tensor) or got.layout != torch.strided:
                raise errors.TraceError(
                    f"{i.name} is no dense torch tensor but a {type(got).__name__}",
                    where=self.program.name,
                    cure="torch.as_tensor() or .to_dense()",
                )
            if tuple(got.shape) != want or str(got.dtype).removeprefix("torch.") != dtype:
                raise errors.ShapeError(
                    f"{i.name} is {tuple(got.shape)} {got.dtype}, compiled for {want} {dtype}",
                    where=self.program.name,
                    cure="call optimize() with arguments of this shape and type",
                )
        return tensors

    def bind_data(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """As :meth:`bind`, for who reads the numbers; DeviceError where a tensor has none."""
        tensors = self.bind(args, kwargs)
        for name, t in tensors.items():
            if t.is_meta:
                raise errors.DeviceError(
                    f"{name} is on the meta device, where tensors hold no data",
                    where=self.program.name,
                    cure="CPU or CUDA tensors; small ones will do for c.at(*small)",
                )
        return tensors

    def _device(self, tensors: Sequence[torch.Tensor]) -> str:
        """The type of the one device that all tensors are on."""
        found = sorted({str(t.device) for t in tensors})
        if len(found) > 1:
            raise errors.DeviceError(
                f"arguments are on {', '.join(found)}", where=self.program.name, cure="move every argument to one device"
            )
        kind = tensors[0].device.type if tensors else "cpu"
        if kind not in ("cuda", "cpu", "meta"):
            raise errors.DeviceError(f"no kernels run on {kind} tensors", where=self.program.name, cure="call it with CUDA or CPU tensors")
        return kind

    def _runs_on(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether kernels run where all tensors are: on the kind of device that was planned for, with what they need there."""
        if self._device(tensors) != self.target.device:
            return False
        if self.target.on_cpu and self.missing:
            warnings.warn(f"{self.program.name}: {self.missing}", stacklevel=5)
            return False
        return True

    @cached_property
    def missing(self) -> str:
        """What kernels for a CPU lack here, so that calls run the original program in torch; empty if nothing."""
        from .native import compiler

        if not self.target.on_cpu:
            return ""
        reason = self.unspelled or ("" if compiler() else "there is no C compiler (install gcc or clang, or set CC)")
        return reason and f"{reason}: torch runs the original program"

    @cached_property
    def unspelled(self) -> str:
        """Why there is no C for the kernels of a CPU; empty if there is."""
        try:
            if self.target.on_cpu:
                self.generated.called_source  # noqa: B018 - printed, or not to be printed
        except errors.PlanError as error:
            return error.message
        return ""

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The original program, run by torch; a program written in terms runs through the float64 reference."""
        if self.traced.eager is not None:
            return self.traced.eager(*args, **kwargs)
        import torch

        if transformed():
            raise errors.TraceError(
                "a program in terms runs in numpy, which torch.func does not transform",
                where=self.program.name,
                cure="optimize a function on torch tensors",
            )

        tensors = self.traced.bind(*args, **kwargs)
        found = evaluate(self.program, {n: array(t) for n, t in tensors.items()})
        return self.traced.unflatten([torch.from_numpy(found[o.name]).to(getattr(torch, o.dtype.name)) for o in self.program.outputs])

    def launch(self, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """The tensors of ``program.outputs`` from those of ``program.inputs``, which are where kernels run."""
        return self._run(*tensors)

    @cached_property
    def _run(self) -> Callable[..., Sequence[torch.Tensor]]:
        """The function of the generated module, loaded when it is first needed."""
        from .modules import load_module
        from .native import load

        source = self.generated.called_source
        found: Callable[..., Sequence[torch.Tensor]] = (load(source) if self.target.on_cpu else load_module(source, "run")).run
        return found

    @cached_property
    def op(self) -> RegisteredOp:
        """The kernels as a torch operator, for ``torch.compile`` and ``torch.export``: takes the tensors of ``program.inputs`` in
        order, returns the tuple of ``program.outputs``.  On the device that was not planned for it runs the original program; so does its
        backward pass, on every device.  Made when it is first asked for, which ``fullgraph=True`` does not allow inside a graph: ask
        before."""
        import torch

        from ..frontends.results import arranged
        from .ops import OutputSpec, register_op

        kept = {o.name: torch.empty(o.shape, dtype=getattr(torch, o.dtype.name), device="meta") for o in self.program.outputs}
        outputs = [OutputSpec(tuple(t.shape), t.dtype) for t in arranged(self.program, list(kept.values()))]
        text = "" if self.missing else self.generated.exact_source
        registered = register_op(
            text, outputs, self._in_torch, name=self.program.name, differentiable=self.traced.eager is not None,
            device=self.target.device, buffers=tuple(k for k, i in enumerate(self.program.inputs) if i.name in self.traced.buffers),
        )  # fmt: skip
        return replace(registered, captured=tuple(k for k, i in enumerate(self.program.inputs) if i.name in self.traced.captured))

    def kernels(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        """The same, in a graph of ``torch.compile``, too, by the operator."""
        import torch

        return tuple(self.op(*tensors)) if torch.compiler.is_compiling() else self.launch(tensors)

    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The generated Triton through Triton's interpreter, on CPU tensors of any size the plan admits; kernels in C just run.

        ``sanitize`` checks bounds, undefined lanes and races.  Slow (about 0.05 ms per tile operation): use reduced sizes.
        """
        errors.expect(isinstance(sanitize, bool), "sanitize", sanitize, "True or False", where="interpret")
        return self.traced.unflatten(list(self.interpreted(*self._given(args, kwargs), sanitize=sanitize)))

    def interpreted(self, *tensors: torch.Tensor, sanitize: bool = True) -> Sequence[torch.Tensor]:
        """As :meth:`launch`, through the interpreter."""
        from .interpreter import interpret
        from .modules import load_module

        if self.target.on_cpu:  # there is nothing between these kernels and the machine
            return self.launch(tensors)
        module = load_module(self.generated.called_source, "interpret")
        with verdicts.running() if self.plan.calls else nullcontext():
            found: Sequence[torch.Tensor] = interpret(module, "run", *[t.cpu() for t in tensors], sanitize=sanitize)
        return found

    def _given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors of ``program.inputs``, with data."""
        tensors = self.bind_data(args, kwargs)
        return [tensors[i.name] for i in self.program.inputs]

    def _in_torch(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """The original program as a function from ``program.inputs`` to ``program.outputs``."""
        if self.traced.replay is not None:
            return results_of(self.traced, self.traced.replay(tensors))
        return results_of(self.traced, self.eager(*tensors))

    def in_order(self, result: Any) -> list[torch.Tensor]:
        """The tensors of a result of this program in the order of ``program.outputs``, one for each."""
        return outputs_of(self.traced, result)

    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The plan through the numpy tile interpreter, in float64 (or ``dtype``); outputs are torch tensors of that type."""
        return self.traced.unflatten(list(self.simulated(*self._given(args, kwargs), dtype=dtype)))

    def simulated(self, *tensors: torch.Tensor, dtype: Any = None) -> Sequence[torch.Tensor]:
        """As :meth:`launch`, through that interpreter, of tensors of any types."""
        import numpy as np
        import torch

        from ..frontends.results import arranged

        arrays = {i.name: array(t) for i, t in zip(self.program.inputs, tensors, strict=True)}
        arrays, planned = self.generated.simulate(arrays, floating(dtype)), self.plan.program  # whose results may be in other parts
        return arranged(planned, [torch.from_numpy(np.array(arrays[o.name], order="C")) for o in planned.outputs])


@dataclass(frozen=True)
class _Slot:
    """The place of an output in the structure of a result."""

    position: int


def outputs_of(traced: Traced, result: Any) -> list[torch.Tensor]:
    """The tensors of a result of a program in the order of its outputs, one for each."""
    from ..frontends.results import taken_apart

    return taken_apart(traced.program, results_of(traced, result))


def results_of(traced: Traced, result: Any) -> list[torch.Tensor]:
    """What kernels return of it."""
    slots = [_Slot(k) for k in range(len(traced.program.results or traced.program.outputs))]
    found = dict(zip(leaves(traced.unflatten(slots)), leaves(result), strict=True))
    return [found[s] for s in slots]


def transformed() -> bool:
    """Whether a call is inside of a transform of ``torch.func`` or of forward-mode differentiation: what it is given may then be a batch or
    a dual number, of which a kernel would read the wrong part."""
    import torch

    return torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0


def floating(dtype: Any) -> Any:
    """The floating type of numpy that somebody names, float64 by default."""
    import numpy as np

    try:
        kind = np.dtype(np.float64 if dtype is None else dtype).type
    except (TypeError, ValueError):
        kind = np.void
    errors.expect(issubclass(kind, np.floating), "dtype", dtype, "a floating type of numpy, as np.float32", where="simulate")
    return kind


def followed() -> bool:
    """Whether somebody follows the operators that are called: Dynamo, or a mode such as that of fake tensors."""
    import torch

    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def leaves(value: Any) -> list[Any]:
    """The tensors and numbers in a nested structure."""
    import torch

    found: list[Any] = torch.utils._pytree.tree_leaves(value)
    return found


def array(t: torch.Tensor) -> np.ndarray:
    """A tensor for numpy, which lacks small floating types."""
    import torch

    t = t.detach().cpu()
    return (t.float() if t.dtype == torch.bfloat16 or (t.is_floating_point() and t.itemsize == 1) else t).numpy()
