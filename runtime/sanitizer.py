"""Memory checks for interpreted kernels: out-of-bounds accesses, races, reads of what nothing has written, int32 offsets that wrap.

The interpreter runs the programs of a grid one after another and reads whatever address it is given, so on its own it hides all of
these (or dies with a segmentation fault).  Here every access is checked against the tensors that the launch was given, before it
happens:

* the active lanes of one access must lie within one of these tensors (their extent in memory, views included; with ``gaps`` also
  not between the rows of a view);
* masked lanes of a load without ``other`` are undefined on a device: they receive large values of alternating sign, which no sum,
  maximum or minimum can hide; or, where ``nan`` has the place of the load, NaN, which the interpreter's maximum skips, but no product
  with zero hides.  Such loads are remembered: what hangs on these lanes differs between the two;
* two programs of one launch may not store to the same address, and none may load what another stores (atomics among themselves
  excepted, and what an atomic with acquire or release order on one address put in order).  ``benign`` allows stores that change
  nothing.  Two lanes of one store may not write different values to one address;
* lanes of one program that load, or store otherwise, what other lanes of it stored, with no barrier between, are remembered
  (:mod:`~eqfuse.runtime.exchanges`);
* signed 32-bit arithmetic that wraps is remembered, and named when the program then reaches far outside;
* with ``unwritten``, a load of memory that still holds the bits of :mod:`~eqfuse.runtime.unwritten` is an uninitialised read.  With
  ``suspects`` it is noted there instead, and gets the values of masked lanes (NaN where ``nan`` has :data:`UNINITIALISED`): a kernel may
  load more than it uses.

What happened at an address is recorded in pages made on demand, so a view may span gigabytes of address space.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter as ti

from ..errors import KernelBug
from .exchanges import Exchanges
from .interpreter_float8 import encode
from .interpreter_launch import place
from .interpreter_patches import Patches
from .unwritten import UNINITIALISED, UNWRITTEN

_NOBODY, _SEVERAL = 0, -1  # programs have numbers from 1
_FAR = 1 << 30  # bytes: nearer to a tensor than this, a wrapped offset is not the likeliest reason

_UNWRITTEN = {name.replace("bfloat", "bf").replace("float", "fp"): bits for name, bits in UNWRITTEN.items()}  # by Triton's names


@dataclass(frozen=True)
class _Region:
    """The memory of one tensor of the launch: addresses ``low <= a < high``; ``dims`` are (size, stride in bytes), widest first."""

    name: str
    low: int
    high: int
    itemsize: int
    dims: tuple[tuple[int, int], ...]

    def gaps(self) -> bool:
        """There is memory between the elements, and the dimensions are nested, so that it can be told from them."""
        inner = self.itemsize
        for size, stride in reversed(self.dims):
            if stride < inner:
                return False
            inner = stride * (size - 1) + inner
        elements = int(np.prod([size for size, _ in self.dims], dtype=np.int64))
        return elements * self.itemsize < self.high - self.low

    def misses(self, addresses: np.ndarray) -> np.ndarray:
        """Which addresses are not those of an element of the view."""
        rest = (addresses - np.uint64(self.low)).astype(np.int64)
        outside = np.zeros(rest.shape, bool)
        for size, stride in self.dims:
            outside |= rest // stride >= size
            rest = rest % stride
        return outside | (rest != 0)


_PAGE = 18  # bits of an address within a page of a record

_Lanes = list[tuple[int, np.ndarray | slice, np.ndarray]]


def _lanes(addresses: np.ndarray) -> _Lanes:
    """The addresses of an access by pages: the page's number, which of the lanes fall in it, and where."""
    numbers, places = addresses >> np.uint64(_PAGE), (addresses & np.uint64((1 << _PAGE) - 1)).view(np.int64)
    first = int(numbers[0])
    if (numbers == first).all():
        return [(first, slice(None), places)]
    parts = ((int(n), numbers == n) for n in np.unique(numbers))
    return [(n, chosen, places[chosen]) for n, chosen in parts]


class _Record:
    """A program's number for each address, ``_NOBODY`` where there is none yet."""

    def __init__(self) -> None:
        self._pages: dict[int, np.ndarray] = {}

    def at(self, lanes: _Lanes, count: int) -> np.ndarray | None:
        """Who was here before, for each of ``count`` lanes; None: nobody was."""
        if not any(n in self._pages for n, _, _ in lanes):
            return None
        found = np.full(count, _NOBODY)
        for n, chosen, places in lanes:
            if n in self._pages:
                found[chosen] = self._pages[n][places]
        return found

    def add(self, lanes: _Lanes, me: int) -> None:
        """Note ``me`` beside whoever was here."""
        for n, _, places in lanes:
            page = self._pages.get(n)
            if page is None:
                page = self._pages[n] = np.zeros(1 << _PAGE, np.int64)  # _NOBODY; the system makes memory of what is touched
            seen = page[places]
            page[places] = np.where((seen == _NOBODY) | (seen == me), me, _SEVERAL)


class _Launch:
    """One launch under observation: its tensors, who did what where, and who is ordered after whom."""

    def __init__(self, kernel: str, regions: list[_Region]) -> None:
        self.kernel, self.regions = kernel, regions
        self.writer, self.reader, self.atomic = _Record(), _Record(), _Record()
        self.begun: set[int] = set()
        self.after: dict[int, set[int]] = {}  # program -> programs whose earlier accesses it is ordered after
        self.released: dict[int, set[int]] = {}  # address of a lock or counter -> programs that it orders
        self.wraps: dict[int, str] = {}  # program -> its first signed 32-bit operation that wrapped
        self.exchanges = Exchanges()


class Sanitizer:
    """Checks the accesses of every launch while it is installed; see :func:`sanitizer`."""

    def __init__(
        self,
        *,
        races: bool = True,
        poison: bool = True,
        benign: bool = False,
        gaps: bool = False,
        unwritten: bool = False,
        suspects: list[KernelBug] | None = None,
        nan: Collection[str] = (),
    ) -> None:
        self.races, self.poison, self.benign, self.gaps, self.unwritten = races, poison, benign, gaps, unwritten
        self.suspects, self.nan = suspects, nan
        self.launch: _Launch | None = None
        self.wraps: list[str] = []
        """Every place where signed 32-bit arithmetic wrapped, over all launches."""
        self.undefined: dict[str, KernelBug] = {}
        """Loads with masked lanes and no ``other``, by their place, over all launches."""
        self.exchanged: dict[str, str] = {}
        """Stores that other lanes of their program met, by their place, and what is to be said of them, over all launches."""
        self._met: set[str] = set()  # places where they did

    def begin(self, kernel: str, arguments: dict[str, Any]) -> None:
        """Start to watch a launch with these (host) arguments."""
        regions: list[_Region] = []
        for name, tensor in arguments.items():
            tensor = getattr(tensor, "base", tensor) if not isinstance(tensor, torch.Tensor) else tensor
            if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0:
                continue
            size = tensor.element_size()
            dims = [(n, stride * size) for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if n > 1 and stride > 0]
            low, last = tensor.data_ptr(), sum((n - 1) * stride for n, stride in dims)
            regions.append(_Region(name, low, low + last + size, size, tuple(sorted(dims, key=lambda d: -d[1]))))
        self.launch = _Launch(kernel, regions)

    def load(self, program: tuple[int, ...], addresses: np.ndarray, itemsize: int, flags: np.ndarray) -> None:
        """Check the active lanes of a load; ``flags``: which these are of the tile."""
        found = self._locate(program, addresses, itemsize, "load")
        if found is None or not self.races:
            return
        launch, region, me = found
        earlier, lanes = ((launch.writer, "stored"), (launch.atomic, "updated atomically")), _lanes(addresses)
        writers = self._collide(region, addresses, lanes, me, program, "loads", None, *earlier)
        launch.reader.add(lanes, me)
        self._exchange(launch, region, me, addresses, writers, flags, "loads")

    def store(
        self,
        program: tuple[int, ...],
        addresses: np.ndarray,
        itemsize: int,
        flags: np.ndarray,
        values: np.ndarray,
        changed: Callable[[], np.ndarray],
    ) -> None:
        """Check the active lanes of a store of ``values``; ``changed()`` says which lanes do not store what is there already."""
        found = self._locate(program, addresses, itemsize, "store")
        if found is None or not self.races:
            return
        launch, region, me = found
        self._overlap(region, addresses, values, program)
        earlier = (launch.writer, "stored"), (launch.atomic, "updated atomically"), (launch.reader, "loaded")
        lanes = _lanes(addresses)
        writers = self._collide(region, addresses, lanes, me, program, "stores", changed if self.benign else None, *earlier)
        self._exchange(launch, region, me, addresses, writers, flags, "stores to", changed)
        launch.writer.add(lanes, me)
        launch.exchanges.stored(me, addresses, flags, place())

    def barrier(self) -> None:
        """The lanes of the program at hand wait for one another."""
        if self.launch is not None:
            self.launch.exchanges.barrier()

    def atomic(self, program: tuple[int, ...], addresses: np.ndarray, itemsize: int, *, orders: bool = False) -> None:
        """Check the active lanes of an atomic update; ``orders``: it has acquire or release order."""
        found = self._locate(program, addresses, itemsize, "atomic update")
        if found is None or not self.races:
            return
        launch, region, me = found
        if orders and addresses.size == 1:
            passed = launch.released.setdefault(int(addresses.ravel()[0]), set())
            after = launch.after.setdefault(me, set())
            after |= passed
            passed |= after | {me}
            launch.exchanges.barrier()  # its result goes from one lane to all
        earlier, lanes = ((launch.writer, "stored"), (launch.reader, "loaded")), _lanes(addresses)
        self._collide(region, addresses, lanes, me, program, "updates atomically", None, *earlier)
        launch.atomic.add(lanes, me)

    def loaded(self, program: tuple[int, ...], addresses: np.ndarray, values: np.ndarray, element: str) -> np.ndarray | None:
        """Check what the active lanes of a load got.  Returns those that nothing has written, if that is no error yet."""
        bits = _UNWRITTEN.get(element)
        if not self.unwritten or bits is None or values.size == 0:
            return None
        same = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}") == bits
        if same.any():
            assert self.launch is not None
            first = int(addresses[same].ravel()[0])
            region = next(r for r in self.launch.regions if r.low <= first < r.high)
            bug = KernelBug(
                f"uninitialised read: loads {int(same.sum())} elements of {region.name} that nothing has written, "
                f"the first at element {(first - region.low) // region.itemsize}",
                where=self._where(program),
            )
            if self.suspects is None:
                raise bug
            self.suspects.append(bug)
            return same
        return None

    def masked(self, program: tuple[int, ...]) -> bool:
        """Note a load with masked lanes and no ``other``; whether these are NaN."""
        at = place()
        if at not in self.undefined:
            message = f"undefined lanes: the result hangs on what the load at {at} gives where its mask is false; it has no `other`"
            self.undefined[at] = KernelBug(message, where=self._where(program), cure="other=, or tl.where(mask, ...) before it is used")
        return at in self.nan

    def wrapped(self, program: tuple[int, ...], exact: int, symbol: str) -> None:
        """Note that ``symbol`` in 32 bits should have given ``exact``."""
        said = f"{symbol} at {place()} is {exact}, more than 32 bits hold"
        if said not in self.wraps and len(self.wraps) < 100:
            self.wraps.append(said)
        if self.launch is not None:
            self.launch.wraps.setdefault(_number(program), said)

    def _locate(self, program: tuple[int, ...], addresses: np.ndarray, itemsize: int, what: str) -> tuple[_Launch, _Region, int] | None:
        """The tensor that the active lanes fall in, and the number of the program."""
        if self.launch is None or addresses.size == 0:
            return None
        me = _number(program)
        self.launch.begun.add(me)
        lowest, highest = int(addresses.min()), int(addresses.max()) + itemsize
        between: tuple[_Region, np.ndarray] | None = None
        for region in self.launch.regions:
            if region.low <= lowest and highest <= region.high:
                if not self.gaps or not region.gaps():
                    return self.launch, region, me
                missed = region.misses(addresses)
                if not missed.any():
                    return self.launch, region, me
                between = between or (region, missed)
        if between is not None:
            region, missed = between
            at = (int(addresses[missed].ravel()[0]) - region.low) // region.itemsize
            message = (
                f"out-of-bounds {what}: {int(missed.sum())} of {addresses.size} lanes between the elements of {region.name}, "
                f"which is a view with gaps, the first {at} elements from its start"
            )
            raise KernelBug(message, where=self._where(program))
        raise KernelBug(self._outside(addresses, itemsize, what, me), where=self._where(program))

    def _outside(self, addresses: np.ndarray, itemsize: int, what: str, me: int) -> str:
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
        said = f"out-of-bounds {what}: {count} of {lanes.size} lanes outside {region.name}, the first at element {position} of {size}"
        distance = min(abs(first - r.low) for r in self.launch.regions)
        if me in self.launch.wraps and distance > _FAR:
            return f"int32 offset overflow: {self.launch.wraps[me]}; {said}"
        return said

    def _overlap(self, region: _Region, addresses: np.ndarray, values: np.ndarray, program: tuple[int, ...]) -> None:
        """Lanes of one store that share an address must agree about the value."""
        if addresses.size < 2:
            return
        order = np.argsort(addresses, kind="stable")
        sorted_addresses = addresses[order]
        same = sorted_addresses[1:] == sorted_addresses[:-1]
        if same.any():
            bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")[order]
            clash = same & (bits[1:] != bits[:-1])
            if clash.any():
                at = (int(sorted_addresses[1:][clash][0]) - region.low) // region.itemsize
                raise KernelBug(
                    f"race: lanes of one store write different values to {int(clash.sum())} elements of {region.name}, "
                    f"the first at element {at}",
                    where=self._where(program),
                )

    def _collide(
        self,
        region: _Region,
        addresses: np.ndarray,
        lanes: _Lanes,
        me: int,
        program: tuple[int, ...],
        does: str,
        changed: Callable[[], np.ndarray] | None,
        *earlier: tuple[_Record, str],
    ) -> np.ndarray | None:
        """Raise where another program was there ``earlier``.  Returns who is in the first of these records, lane by lane."""
        assert self.launch is not None
        first: np.ndarray | None = None
        after = self.launch.after.get(me, set())
        for record, done in earlier:
            others = record.at(lanes, addresses.size)
            if others is None:
                continue
            first = others if record is earlier[0][0] else first
            clash = (others != _NOBODY) & (others != me)
            if clash.any() and after:
                known = np.isin(others, list(after)) | ((others == _SEVERAL) & (self.launch.begun <= after | {me}))
                clash &= ~known
            if clash.any() and changed is not None:
                clash &= changed()
            if clash.any():
                at = (int(addresses[clash][0]) - region.low) // region.itemsize
                other = int(others[clash][0])
                whom = "several programs" if other == _SEVERAL else f"program {_triple(other)}"
                raise KernelBug(
                    f"race: {does} {int(clash.sum())} elements of {region.name} that {whom} {done} in the same launch, "
                    f"the first at element {at}",
                    where=self._where(program),
                )
        return first

    def _exchange(
        self,
        launch: _Launch,
        region: _Region,
        me: int,
        addresses: np.ndarray,
        writers: np.ndarray | None,
        flags: np.ndarray,
        does: str,
        changed: Callable[[], np.ndarray] | None = None,
    ) -> None:
        """Note lanes that meet what other lanes of the program stored; ``writers``: who has stored there."""
        if writers is None or not (writers == me).any() or (at := place()) in self._met:
            return
        if where := launch.exchanges.met(me, addresses, flags, changed):
            self._met.add(at)
            self.exchanged.setdefault(
                where,
                f"at {at} {launch.kernel} {does} elements of {region.name} that other lanes of the program store at {where}: with more "
                "than one warp nothing says which comes first; it needs tl.debug_barrier() between",
            )

    def _where(self, program: tuple[int, ...]) -> str:
        assert self.launch is not None
        return f"{place()}, {self.launch.kernel}, program {program}"


def _number(program: tuple[int, ...]) -> int:
    x, y, z = program
    return ((x << 32) | (y << 16) | z) + 1


def _triple(number: int) -> tuple[int, int, int]:
    number -= 1
    return number >> 32, (number >> 16) & 0xFFFF, number & 0xFFFF


def _flags(mask: Any) -> np.ndarray:
    """The mask as an array.  Descriptors of some versions pass it as one."""
    return np.asarray(mask.data if isinstance(mask, ti.TensorHandle) else mask, dtype=bool)


def _active(pointers: Any, mask: Any) -> np.ndarray:
    """The addresses of the active lanes."""
    addresses, flags = np.broadcast_arrays(pointers.data, _flags(mask))
    return addresses[flags]


def _itemsize(pointers: Any) -> int:
    return max(1, pointers.get_element_ty().primitive_bitwidth // 8)


def _poisoned(result: Any, pointers: Any, mask: Any, nan: bool = False) -> Any:
    """``result`` with large values of alternating sign in its masked lanes; or with NaN, and integers of the other sign."""
    flags = np.broadcast_to(_flags(mask), result.data.shape)
    masked = int(np.sum(~flags))
    if not masked:
        return result
    signs = (1 - 2 * (np.arange(masked) % 2)) * (-1 if nan else 1)
    element, data = pointers.get_element_ty(), result.data.copy()
    if element == tl.bfloat16:
        data[~flags] = 0x7FC0 if nan else np.where(signs > 0, 0x7149, 0xF149)  # NaN, or +-1e30
    elif element.is_fp8():
        data[~flags] = encode(np.full(masked, np.nan) if nan else signs * np.inf, element)  # the largest number
    elif element.is_floating():
        data[~flags] = np.nan if nan else signs * {2: 6e4, 4: 1e30, 8: 1e300}[data.dtype.itemsize]
    elif data.dtype.kind == "i" and data.dtype.itemsize >= 4:
        data[~flags] = signs * 0x3FFFFFF1
    else:
        return result
    return ti.TensorHandle(data, result.dtype)


@contextlib.contextmanager
def sanitizer(**options: Any) -> Iterator[Sanitizer]:
    """Check every launch inside the block; raises :class:`~eqfuse.errors.KernelBug` at the first fault.

    ``options``: those of :class:`Sanitizer`.
    To be used inside :func:`~eqfuse.runtime.interpreter.interpreter_mode`, which :func:`~eqfuse.runtime.interpreter.interpret` does.
    """
    checks, patches = Sanitizer(**options), Patches()
    try:
        _install(checks, patches)
        yield checks
    finally:
        patches.undo()


class _Given(tl.tensor):
    """A number that is given, be it zero: for a scalar, Triton asks ``if other``, which is its value while it is interpreted."""

    def __bool__(self) -> bool:
        return True


def _install(checks: Sanitizer, patches: Patches) -> None:
    builder = ti.InterpreterBuilder

    def scalar_load(self: Any, ptr: Any, mask: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(other, tl.tensor) and not ptr.type.is_block():
            kind = ptr.type.scalar.element_ty
            other = self.cast(other, tl.int8 if kind == tl.int1 else kind)
            other = _Given(other.handle, other.type)
        return legacy(self, ptr, mask, other, *args, **kwargs)

    def masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        flags = np.broadcast_to(_flags(mask), ptrs.data.shape)
        active = ptrs.data[flags]
        checks.load(self.grid_idx, active, _itemsize(ptrs), flags)
        result = load(self, ptrs, mask, other, *args, **kwargs)
        if checks.unwritten:
            suspect = checks.loaded(self.grid_idx, active, result.data[flags], str(ptrs.get_element_ty()))
            if suspect is not None:
                written = np.ones(result.data.shape, bool)
                written[flags] = ~suspect
                result = _poisoned(result, ptrs, written, UNINITIALISED in checks.nan)
        if other is None and checks.poison and not np.all(_flags(mask)):
            result = _poisoned(result, ptrs, mask, checks.masked(self.grid_idx))
        return result

    def masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        flags = np.broadcast_to(_flags(mask), ptrs.data.shape)
        values = np.broadcast_to(value.data, ptrs.data.shape)[flags]

        def changed() -> np.ndarray:
            kind = ti._get_np_dtype(ptrs.get_element_ty())
            there = ti._interpreter.load(ptrs.data, np.ascontiguousarray(flags), np.zeros(ptrs.data.shape, kind), kind)[flags]
            width = f"u{there.dtype.itemsize}"
            return np.ascontiguousarray(there).view(width) != np.ascontiguousarray(values.astype(there.dtype)).view(width)

        checks.store(self.grid_idx, ptrs.data[flags], _itemsize(ptrs), flags, values, changed)
        return store(self, ptrs, value, mask, *args, **kwargs)

    def atomic_rmw(self: Any, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, *args: Any, **kwargs: Any) -> Any:
        checks.atomic(self.grid_idx, _active(ptr, mask), _itemsize(ptr), orders=_orders(sem))
        return rmw(self, op, ptr, val, mask, sem, *args, **kwargs)

    def atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, sem: Any, *args: Any, **kwargs: Any) -> Any:
        checks.atomic(self.grid_idx, np.asarray(ptr.data).ravel(), _itemsize(ptr), orders=_orders(sem))
        return cas(self, ptr, cmp, val, sem, *args, **kwargs)

    def barrier(self: Any) -> Any:
        checks.barrier()
        return wait(self)

    def init_args(self: Any, args: Any, kwargs: Any) -> Any:
        host_args, host_kwargs = init(self, args, kwargs)
        checks.begin(self.fn.__name__, dict(zip(self.arg_names, host_args, strict=False)) | dict(host_kwargs))
        return host_args, host_kwargs

    def watched(name: str, symbol: str, exactly: Callable[[Any, Any], Any]) -> None:
        def operation(self: Any, lhs: Any, rhs: Any) -> Any:
            result = original(self, lhs, rhs)
            if result.data.dtype == np.int32:
                exact = exactly(lhs.data.astype(np.int64), rhs.data.astype(np.int64))
                wrong = exact != result.data
                if wrong.any():
                    checks.wrapped(self.grid_idx, int(exact[wrong].ravel()[0]), symbol)
            return result

        original = patches.set(builder, name, operation)

    legacy = patches.set(TritonSemantic, "_load_legacy", scalar_load)
    load = patches.set(builder, "create_masked_load", masked_load)
    store = patches.set(builder, "create_masked_store", masked_store)
    rmw = patches.set(builder, "create_atomic_rmw", atomic_rmw)
    cas = patches.set(builder, "create_atomic_cas", atomic_cas)
    wait = patches.set(builder, "create_barrier", barrier)
    init = patches.set(ti.GridExecutor, "_init_args_hst", init_args)
    for name, symbol, exactly in (
        ("create_add", "a sum", np.add),
        ("create_sub", "a difference", np.subtract),
        ("create_mul", "a product", np.multiply),
        ("create_shl", "a shift", np.left_shift),
    ):
        watched(name, symbol, exactly)


def _orders(semantic: Any) -> bool:
    """The atomic has acquire or release order."""
    return "relaxed" not in str(semantic).lower()
