"""Memory checks for interpreted kernels: out-of-bounds accesses, races between programs, reads of undefined lanes.

The interpreter runs the programs of a grid one after another and reads whatever address it is given, so on its own it hides all
three (or dies with a segmentation fault).  Here every access is checked against the tensors that the launch was given, before it
happens:

* the active lanes of one access must lie within one of these tensors (their extent in memory, views included);
* masked lanes of a load without ``other`` are undefined on a device: they receive large values of alternating sign, which no sum,
  product, maximum or minimum can hide (a NaN could: the interpreter's maximum skips it);
* two programs of one launch may not store to the same address, and none may load what another stores (atomics among themselves
  excepted).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as ti
from triton.runtime.errors import InterpreterError

from ..errors import KernelBug
from .interpreter_patches import Patches

_NOBODY, _SEVERAL = -1, -2


@dataclass
class _Region:
    """The memory of one tensor of the launch: addresses ``low <= a < high``.

    ``writer``, ``reader`` and ``atomic`` hold, for each byte, the program that accessed an element starting there.
    """

    name: str
    low: int
    high: int
    itemsize: int
    writer: np.ndarray = field(init=False)
    reader: np.ndarray = field(init=False)
    atomic: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.writer, self.reader, self.atomic = (np.full(self.high - self.low, _NOBODY, np.int64) for _ in range(3))


@dataclass
class _Launch:
    """One launch under observation."""

    kernel: str
    regions: list[_Region]


class Sanitizer:
    """Checks the accesses of every launch while it is installed; see :func:`sanitizer`."""

    def __init__(self, *, races: bool = True, poison: bool = True) -> None:
        self.races, self.poison = races, poison
        self.launch: _Launch | None = None

    def begin(self, kernel: str, arguments: dict[str, Any]) -> None:
        """Start to watch a launch with these (host) arguments."""
        regions: list[_Region] = []
        for name, tensor in arguments.items():
            tensor = getattr(tensor, "base", tensor) if not isinstance(tensor, torch.Tensor) else tensor
            if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
                continue
            last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
            low = tensor.data_ptr()
            regions.append(_Region(name, low, low + (last + 1) * tensor.element_size(), tensor.element_size()))
        for region in regions:  # views of one memory share the record of who did what; the widest owns it
            owner = next((o for o in regions if o.low <= region.low and region.high <= o.high), region)
            if owner is not region:
                part = slice(region.low - owner.low, region.high - owner.low)
                region.writer, region.reader, region.atomic = owner.writer[part], owner.reader[part], owner.atomic[part]
        self.launch = _Launch(kernel, regions)

    def load(self, program: tuple[int, ...], addresses: np.ndarray, itemsize: int) -> None:
        """Check the active lanes of a load."""
        found = self._locate(program, addresses, itemsize, "load")
        if found is None or not self.races:
            return
        region, offsets, me = found
        self._collide(region, offsets, me, program, "loads", (region.writer, "stored"), (region.atomic, "updated atomically"))
        seen = region.reader[offsets]
        region.reader[offsets] = np.where((seen == _NOBODY) | (seen == me), me, _SEVERAL)

    def store(self, program: tuple[int, ...], addresses: np.ndarray, itemsize: int) -> None:
        """Check the active lanes of a store."""
        found = self._locate(program, addresses, itemsize, "store")
        if found is None or not self.races:
            return
        region, offsets, me = found
        conflicts = (region.writer, "stored"), (region.atomic, "updated atomically"), (region.reader, "loaded")
        self._collide(region, offsets, me, program, "stores", *conflicts)
        region.writer[offsets] = me

    def atomic(self, program: tuple[int, ...], addresses: np.ndarray, itemsize: int) -> None:
        """Check the active lanes of an atomic update."""
        found = self._locate(program, addresses, itemsize, "atomic update")
        if found is None or not self.races:
            return
        region, offsets, me = found
        self._collide(region, offsets, me, program, "updates atomically", (region.writer, "stored"), (region.reader, "loaded"))
        seen = region.atomic[offsets]
        region.atomic[offsets] = np.where((seen == _NOBODY) | (seen == me), me, _SEVERAL)

    def _locate(
        self, program: tuple[int, ...], addresses: np.ndarray, itemsize: int, what: str
    ) -> tuple[_Region, np.ndarray, int] | None:
        """The tensor that the active lanes fall in, their byte offsets in it, and the number of the program."""
        if self.launch is None or addresses.size == 0:
            return None
        lowest, highest = int(addresses.min()), int(addresses.max()) + itemsize
        for region in self.launch.regions:
            if region.low <= lowest and highest <= region.high:
                offsets = (addresses - np.uint64(region.low)).astype(np.int64)
                return region, offsets, _number(program)
        raise KernelBug(self._outside(addresses, itemsize, what), where=self._where(program))

    def _outside(self, addresses: np.ndarray, itemsize: int, what: str) -> str:
        """Name the tensor that most lanes are in, or nearest to, and the lanes that are not."""
        assert self.launch is not None
        if not self.launch.regions:
            return f"out-of-bounds {what}: the launch has no tensor"
        lanes = addresses.astype(object)  # Python integers: differences of addresses have a sign

        def missed(region: _Region) -> tuple[int, int]:
            outside = int(np.sum((addresses < region.low) | (addresses + np.uint64(itemsize) > region.high)))
            return outside, min(abs(int(a) - region.low) for a in (lanes.min(), lanes.max()))

        region = min(self.launch.regions, key=missed)
        count = missed(region)[0]
        first = next(int(a) for a in lanes if int(a) < region.low or int(a) + itemsize > region.high)
        size, position = (region.high - region.low) // region.itemsize, (first - region.low) // region.itemsize
        return f"out-of-bounds {what}: {count} of {lanes.size} lanes outside {region.name}, the first at element {position} of {size}"

    def _collide(
        self,
        region: _Region,
        offsets: np.ndarray,
        me: int,
        program: tuple[int, ...],
        does: str,
        *earlier: tuple[np.ndarray, str],
    ) -> None:
        for record, done in earlier:
            others = record[offsets]
            clash = (others != _NOBODY) & (others != me)
            if clash.any():
                at = int(offsets[clash][0]) // region.itemsize
                other = int(others[clash][0])
                whom = "several programs" if other == _SEVERAL else f"program {_triple(other)}"
                raise KernelBug(
                    f"race: {does} {int(clash.sum())} elements of {region.name} that {whom} {done} in the same launch, "
                    f"the first at element {at}",
                    where=self._where(program),
                )

    def _where(self, program: tuple[int, ...]) -> str:
        assert self.launch is not None
        return f"{self.launch.kernel}, program {program}"


def _number(program: tuple[int, ...]) -> int:
    x, y, z = program
    return (x << 32) | (y << 16) | z


def _triple(number: int) -> tuple[int, int, int]:
    return number >> 32, (number >> 16) & 0xFFFF, number & 0xFFFF


def _active(pointers: Any, mask: Any) -> np.ndarray:
    """The addresses of the active lanes.  Descriptors of some versions pass the mask as a plain array."""
    flags = np.asarray(getattr(mask, "data", mask) if isinstance(mask, ti.TensorHandle) else mask, dtype=bool)
    addresses, flags = np.broadcast_arrays(pointers.data, flags)
    return addresses[flags]


def _itemsize(pointers: Any) -> int:
    return max(1, pointers.get_element_ty().primitive_bitwidth // 8)


def _poisoned(result: Any, pointers: Any, mask: Any) -> Any:
    """``result`` with large values of alternating sign in its masked lanes."""
    flags = np.asarray(mask.data if isinstance(mask, ti.TensorHandle) else mask, dtype=bool)
    flags = np.broadcast_to(flags, result.data.shape)
    masked = int(np.sum(~flags))
    if not masked:
        return result
    signs = 1 - 2 * (np.arange(masked) % 2)
    element, data = pointers.get_element_ty(), result.data.copy()
    if element == tl.bfloat16:
        data[~flags] = np.where(signs > 0, 0x7149, 0xF149)  # +-1e30
    elif element.is_floating() and data.dtype.kind == "f":
        data[~flags] = signs * {2: 6e4, 4: 1e30, 8: 1e300}[data.dtype.itemsize]
    elif data.dtype.kind == "i" and data.dtype.itemsize >= 4:
        data[~flags] = signs * 0x3FFFFFF1
    else:
        return result
    return ti.TensorHandle(data, result.dtype)


@contextlib.contextmanager
def sanitizer(*, races: bool = True, poison: bool = True) -> Iterator[Sanitizer]:
    """Check every launch inside the block; raises :class:`~eqfuse.errors.KernelBug` at the first fault.

    To be used inside :func:`~eqfuse.runtime.interpreter.interpreter_mode`, which :func:`~eqfuse.runtime.interpreter.interpret` does.
    """
    checks, patches = Sanitizer(races=races, poison=poison), Patches()
    try:
        _install(checks, patches)
        yield checks
    except InterpreterError as error:
        bug = _cause(error)
        if bug is not None:
            raise bug from None
        raise
    finally:
        patches.undo()


def _cause(error: BaseException | None) -> KernelBug | None:
    """The fault under the wrappers that the interpreter put around it."""
    while error is not None and not isinstance(error, KernelBug):
        error = error.__cause__
    return error


def _install(checks: Sanitizer, patches: Patches) -> None:
    builder = ti.InterpreterBuilder

    def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        checks.load(self.grid_idx, _active(ptrs, mask), _itemsize(ptrs))
        result = load(self, ptrs, mask, other, *args, **kwargs)
        return _poisoned(result, ptrs, mask) if other is None and checks.poison else result

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        checks.store(self.grid_idx, _active(ptrs, mask), _itemsize(ptrs))
        return store(self, ptrs, value, mask, *args, **kwargs)

    def atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        checks.atomic(self.grid_idx, _active(ptr, mask), _itemsize(ptr))
        return rmw(self, op, ptr, val, mask, *args, **kwargs)

    def atomic_cas(self: Any, ptr: Any, *args: Any, **kwargs: Any) -> Any:
        checks.atomic(self.grid_idx, np.asarray(ptr.data).ravel(), _itemsize(ptr))
        return cas(self, ptr, *args, **kwargs)

    def init_args(self: Any, args: Any, kwargs: Any) -> Any:
        host_args, host_kwargs = init(self, args, kwargs)
        checks.begin(self.fn.__name__, dict(zip(self.arg_names, host_args, strict=False)) | dict(host_kwargs))
        return host_args, host_kwargs

    load = patches.set(builder, "create_masked_load", masked_load)
    store = patches.set(builder, "create_masked_store", masked_store)
    rmw = patches.set(builder, "create_atomic_rmw", atomic_rmw)
    cas = patches.set(builder, "create_atomic_cas", atomic_cas)
    init = patches.set(ti.GridExecutor, "_init_args_hst", init_args)
