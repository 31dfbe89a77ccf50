"""Running hand-written Triton kernels on CPU tensors, as their launchers call them.

Inside :func:`interpreted_kernels` a launch ``kernel[grid](...)`` on CPU tensors goes through Triton's interpreter, repaired and
sanitized; ``TRITON_INTERPRET`` need not be set, and nothing is changed between launches.  A launch on CUDA tensors runs on the
device as always.  Beyond what the interpreter does by itself:

* programs of a grid run in a random order (``order``), because a device promises none;
* sums of half precision values round at every step of a tree, as a device's do (numpy sums float16 in float32);
* an autotuned kernel runs with each of its configurations in turn, launch by launch; nothing is timed;
* questions about a device are answered where there is none (:mod:`~eqfuse.testing.device`);
* what ``torch.empty`` and its kin allocate is filled with a bit pattern that stands for "never written" (:func:`unwritten_memory`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..errors import KernelBug, expect
from ..runtime.unwritten import UNWRITTEN
from .device import device, on_device
from .loops import Loops, counting
from .misuse import truth

_rewritten: dict[int, tuple[Any, Callable[..., Any], dict[str, Any]]] = {}  # by identity of the kernel, which the first entry keeps
_hooks = threading.RLock()


class Launches:
    """What happened inside a block of :func:`interpreted_kernels`."""

    def __init__(self) -> None:
        self.count = 0
        """Launches that were interpreted."""
        self.wraps: list[str] = []
        """Places where signed 32-bit arithmetic wrapped."""
        self.undefined: dict[str, KernelBug] = {}
        """Loads with masked lanes and no ``other``, by their place."""
        self.exchanged: dict[str, str] = {}
        """What is to be said of lanes that met what other lanes of their program stored, by the place."""
        self.loops = Loops()
        """How often the loops of kernels ran."""
        self.turns: dict[int, int] = {}
        """Launches of each autotuned kernel, by identity: a run that begins with the same numbers has the same configurations."""

    def turn(self, tuner: Any) -> int:
        """0, 1, 2, ... for successive launches of one autotuned kernel."""
        self.turns[id(tuner)] = self.turns.get(id(tuner), -1) + 1
        return self.turns[id(tuner)]


@contextlib.contextmanager
def interpreted_kernels(
    *,
    sanitize: bool = True,
    poison: bool = True,
    order: int | None = 0,
    launches: Launches | None = None,
    masked: float | None = None,
    suspects: list[KernelBug] | None = None,
    nan: Collection[str] = (),
) -> Iterator[Launches]:
    """Inside the block, Triton kernels that are launched with CPU tensors are interpreted.

    ``sanitize``: raise :class:`~eqfuse.errors.KernelBug` at the first out-of-bounds access, race, uninitialised read or wrapped
    offset.  ``poison``: give masked lanes of loads without ``other`` large values instead of zeros.  ``order``: seed of the order
    in which programs run; None: as they are numbered.  ``launches``: continue these records.  ``masked``: what masked lanes of loads
    of floating-point numbers hold, whatever their ``other`` is.  ``suspects``: uninitialised reads are added to it instead of raised, and
    give what masked lanes give.  ``nan``: the places of loads where that is NaN.
    """
    for name, value in (("sanitize", sanitize), ("poison", poison)):
        truth(name, value)
    expect(order is None or (isinstance(order, int) and order >= 0), "order", order, "a seed, 0 or more; or None")
    expect(launches is None or isinstance(launches, Launches), "launches", launches, "what an earlier block gave")
    launches = launches or Launches()
    try:
        from triton import knobs
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.jit import JITFunction

        from ..runtime.interpreter_patches import Patches
    except ImportError:  # no Triton here: there are no kernels to launch
        yield launches
        return

    def interpret(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if not warmup:
            with _launch(launches, sanitize=sanitize, poison=poison, order=order, masked=masked, suspects=suspects, nan=nan) as executor:
                executor(self)(grid, *args, **kwargs)

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or _on_device(args, kwargs):
            return run_compiled(self, *args, grid=grid, warmup=warmup, **kwargs)
        return interpret(self, *args, grid=grid, warmup=warmup, **kwargs)

    def tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _on_device(args, kwargs):
            return run_tuned(self, *args, **kwargs)
        configs = self.configs
        if self.early_config_prune:
            given = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
            configs = list(self.early_config_prune(configs, given, **kwargs)) or configs
        config = self.best_config = configs[launches.turn(self) % len(configs)]  # launchers look at the latter
        if config.pre_hook is not None:
            config.pre_hook({**dict(zip(self.arg_names, args, strict=False)), **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    patches = Patches()
    with _hooks:
        try:
            run_compiled = patches.set(JITFunction, "run", run)
            run_tuned = patches.set(Autotuner, "run", tuned)
            if knobs.runtime.interpret:  # the kernels are interpreted functions already
                patches.set(InterpretedFunction, "run", interpret)
            with device(patches), launches.loops.recorded():
                yield launches
        finally:
            patches.undo()


def _on_device(args: Any, kwargs: Any) -> bool:
    return any(isinstance(a, torch.Tensor) and on_device(a) for a in (*args, *kwargs.values()))


@contextlib.contextmanager
def _launch(
    launches: Launches,
    *,
    sanitize: bool,
    poison: bool,
    order: int | None,
    masked: float | None,
    suspects: list[KernelBug] | None,
    nan: Collection[str],
) -> Iterator[Callable[[Any], Callable[..., None]]]:
    """One launch: yields what makes of a kernel the function (grid, arguments) that interprets it."""
    import triton.language as tl
    from triton.runtime import interpreter as ti
    from triton.runtime.jit import JITFunction

    from ..runtime.interpreter import interpreter_mode
    from ..runtime.interpreter_patches import Patches
    from ..runtime.sanitizer import sanitizer
    from .kernel_source import Range

    rewritten: dict[int, Callable[..., Any]] = {}

    def rewrite(kernel: Any) -> Callable[..., Any]:
        found = rewritten.get(id(kernel))
        if found is None:
            found = rewritten[id(kernel)] = _rewrite(kernel, language.now)
        return found

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return rewrite(self)(*args, **kwargs)

    def executor(kernel: Any) -> Callable[..., None]:
        def execute(grid: Any, *args: Any, **kwargs: Any) -> None:
            names = list(kernel.arg_names)
            ti.GridExecutor(rewrite(kernel), names, grid, list(kernel.pre_run_hooks))(*args, **kwargs)

        return execute

    def apply(self: Any, given: Any) -> Any:
        value = given if isinstance(given, tl.tensor) else None
        narrow = value is not None and value.dtype in (tl.float16, tl.bfloat16)
        if narrow and isinstance(self, ti.ReduceOps) and self.combine_fn is tl.standard._sum_combine:
            return _tree_sum(self, value)
        return plain_apply(self, given)

    def stay(self: Any, dev: Any, host: Any, kwargs_dev: Any, kwargs_host: Any) -> None:
        """CPU tensors were used as they are: there is nothing to copy back (and a view of gigabytes would be copied on itself)."""
        if _on_device(dev, kwargs_dev):
            restore(self, dev, host, kwargs_dev, kwargs_host)

    patches = Patches()
    with interpreter_mode() as language, contextlib.ExitStack() as stack:
        stack.callback(patches.undo)
        patches.set(JITFunction, "__call__", call)
        patches.set(tl, "range", Range)
        plain_apply = patches.set(ti.ReduceScanOpInterface, "apply", apply)
        restore = patches.set(ti.GridExecutor, "_restore_args_dev", stay)
        for name, member in list(vars(tl.tensor).items()):
            if isinstance(member, JITFunction):  # x.sum(0): a function binds, a kernel object does not
                patches.set(tl.tensor, name, _method(member))
        if order is not None:
            _shuffle(patches, order + launches.count)
        if sanitize:
            checks = stack.enter_context(sanitizer(poison=poison, benign=True, gaps=True, unwritten=True, suspects=suspects, nan=nan))
            stack.callback(lambda: launches.wraps.extend(checks.wraps))
            stack.callback(lambda: launches.undefined.update(checks.undefined))
            stack.callback(lambda: launches.exchanged.update(checks.exchanged))
        if masked is not None:
            last = Patches()
            stack.callback(last.undo)  # before those of the sanitizer, which are under them
            _fill_masked(last, masked)
        launches.count += 1
        yield executor


def _tree_sum(self: Any, value: Any) -> Any:
    """The sum of halves, of halves of these, ...: each step rounds to the type of the values."""
    import triton.language as tl
    from triton.runtime import interpreter as ti

    from ..runtime.interpreter_patches import bfloat16_to_float32, float32_to_bfloat16

    data = value.handle.data
    wide = bfloat16_to_float32(data) if value.dtype == tl.bfloat16 else data.astype(np.float32)
    axis = 0 if self.axis is None else self.axis
    tree = wide.ravel() if self.axis is None else wide
    while tree.shape[axis] > 1:
        low, high = np.split(tree, 2, axis=axis)  # sizes of tiles are powers of two
        total = low + high
        bits = float32_to_bfloat16(total) if value.dtype == tl.bfloat16 else total.astype(np.float16)
        tree = bfloat16_to_float32(bits) if value.dtype == tl.bfloat16 else bits.astype(np.float32)
    tree = np.squeeze(tree, axis)
    if self.keep_dims:
        tree = tree.reshape([1] * data.ndim) if self.axis is None else np.expand_dims(tree, axis)
    shape = list(tree.shape)
    tree = tree.reshape(shape or [1])
    bits = float32_to_bfloat16(tree) if value.dtype == tl.bfloat16 else tree.astype(np.float16)
    return tl.tensor(ti.TensorHandle(bits, value.dtype), tl.block_type(value.dtype, shape) if shape else value.dtype)


def _method(function: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs)


def _shuffle(patches: Any, seed: int) -> None:
    """Visit the programs of a grid in a random order."""
    from triton.runtime import interpreter as ti

    places: dict[int, np.ndarray] = {}

    def set_grid_idx(self: Any, x: int, y: int, z: int) -> None:
        original(self, x, y, z)
        _, ny, nz = self.grid_dim
        total = int(np.prod(self.grid_dim))
        if total not in places:
            places[total] = np.random.default_rng(seed).permutation(total)
        n = int(places[total][(x * ny + y) * nz + z])
        self.grid_idx = (n // (ny * nz), n // nz % ny, n % nz)

    original = patches.set(ti.InterpreterBuilder, "set_grid_idx", set_grid_idx)


def _fill_masked(patches: Any, value: float) -> None:
    """Give masked lanes of floating-point loads this value."""
    from triton.runtime import interpreter as ti

    from ..runtime.interpreter_float8 import encode
    from ..runtime.interpreter_patches import float32_to_bfloat16
    from ..runtime.sanitizer import _flags

    def load(self: Any, ptrs: Any, mask: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, ptrs, mask, other, *args, **kwargs)
        element = ptrs.get_element_ty()
        if not element.is_floating():
            return result
        if element.is_fp8():
            filling = encode(np.array([value]), element)[0]
        else:
            narrow = result.data.dtype.kind != "f"  # bfloat16, as bits
            filling = float32_to_bfloat16(np.array([value], np.float32))[0] if narrow else value
        data = np.where(np.broadcast_to(_flags(mask), result.data.shape), result.data, filling)
        return ti.TensorHandle(data.astype(result.data.dtype), result.dtype)

    original = patches.set(ti.InterpreterBuilder, "create_masked_load", load)


def _rewrite(kernel: Any, now: Callable[[Any], Any]) -> Callable[..., Any]:
    """The kernel's function as the interpreter wants it, in a copy of its globals (the interpreter adds names of its own to them).

    ``now``: what a function of the language is while the language is patched.
    """
    from triton.runtime import interpreter as ti

    from .kernel_source import NAMES, transformer

    class Rewriter(ti.FunctionRewriter):
        ast_transformer = transformer()

        def _compile_and_exec(self, transformed_ast: Any) -> Any:
            counted, names = counting(transformed_ast, self.fn.__name__, self.filename)
            namespace.update(names)
            exec(compile(counted, filename=self.filename, mode="exec"), namespace)
            return namespace[self.fn.__name__]

    function = kernel.fn
    found = _rewritten.get(id(kernel))
    outer = {name: now(value) for name, value in function.__globals__.items()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not bound yet
            outer[name] = now(cell.cell_contents)
    if found is None:
        namespace = {k: v for k, v in vars(ti).items() if not k.startswith("__")} | NAMES | outer
        found = _rewritten[id(kernel)] = (kernel, Rewriter(function).rewrite_ast(), namespace)
    else:
        found[2].update({k: v for k, v in outer.items() if k != function.__name__})
    return found[1]


class _FillAllocations(TorchDispatchMode):
    """Fill what is allocated without values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in _ALLOCATIONS and isinstance(result, torch.Tensor):
            _fill(result)
        return result


_ALLOCATIONS = {
    getattr(torch.ops.aten, name) for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
}
_NO_BITS_TO_SPARE = {torch.bool: True, torch.uint8: 0xA5, torch.int8: -91, torch.int16: -23131}
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def _fill(tensor: torch.Tensor) -> None:
    pattern = UNWRITTEN.get(str(tensor.dtype).removeprefix("torch."))
    if pattern is not None and tensor.numel():
        tensor.view(_BITS[tensor.element_size()]).fill_(pattern)
    elif tensor.dtype in _NO_BITS_TO_SPARE:  # nobody knows these again, but they are no zeros, which a function may happen to find
        tensor.fill_(_NO_BITS_TO_SPARE[tensor.dtype])


def unwritten_memory() -> contextlib.AbstractContextManager[Any]:
    """Inside the block, allocations without values hold a pattern that :func:`never_written` knows."""
    return _FillAllocations()


def never_written(tensor: torch.Tensor) -> torch.Tensor:
    """Which elements hold the pattern: nothing was written there, or a number was made of what was not."""
    pattern = UNWRITTEN.get(str(tensor.dtype).removeprefix("torch."))
    if pattern is None:
        return torch.zeros(tensor.shape, dtype=torch.bool)
    return tensor.detach().cpu().contiguous().view(_BITS[tensor.element_size()]) == pattern
