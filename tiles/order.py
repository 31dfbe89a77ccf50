"""The order of a kernel's tile dims, which decides its layouts: what is permuted, and along which dim memory is read.

An order is judged by the program that it gives.  In loops of a CPU the last dim is the innermost loop, and that it runs along memory
comes first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from .builder import tile_dims
from .kernel import Buffer, Kernel
from .lower import lower
from .program import Access, Dot, Load, Loop, Permute, Reduce, Scan, Statement, Store, TileProgram

LIMIT = 24  # orders that are tried


def order_penalty(program: TileProgram, on_cpu: bool = False) -> tuple[int, ...]:
    """How bad an order of dims is, worst kind first: permutes of computed values, computed values as B operands, reductions over a dim
    that is not last, stores and loads whose last dim is not along memory; what several loops load alike is one load.  ``on_cpu``: the
    last two before the others, together."""
    permutes = computed_b = inner = stores = 0
    buffers = program.kernel.buffers
    across: set[tuple[object, ...]] = set()
    defined: dict[str, Statement] = {}
    for s in program.statements():
        if not isinstance(s, Store | Loop):
            defined[s.dst.name] = s
        if isinstance(s, Permute):
            permutes += not isinstance(defined.get(s.src.name), Load)
        elif isinstance(s, Dot):
            computed_b += not s.loaded[1]
        elif isinstance(s, Reduce | Scan):
            inner += max((v.dims for v in s.parts or (s.src,)), key=len)[-1] != s.dim
        elif isinstance(s, Store):
            stores += not _contiguous(s.access, buffers[s.access.buffer])
        elif isinstance(s, Load) and not _contiguous(s.access, buffers[s.access.buffer]):
            across.add((s.access.buffer, s.access.index, s.access.dims))
    if on_cpu:
        return stores + len(across), permutes, computed_b, inner
    return permutes, computed_b, inner, stores, len(across)


def least_penalty(program: TileProgram, on_cpu: bool = False) -> tuple[int, ...]:
    """A penalty that no order of the dims is below, from the program of one of them.

    A product whose operands are both loaded, ``A[m, k] B[k, n]``, reads ``A`` along ``k`` and ``B`` along ``n``.  With ``n`` before ``m``
    they change places.  Of ``q k^T``, where memory runs along the contracted dim in both, one is read across memory in any order.
    """
    buffers = program.kernel.buffers
    loads = {s.dst.name: s.access for s in program.statements() if isinstance(s, Load)}
    counted: set[tuple[object, ...]] = set()
    across = 0
    for s in program.statements():
        if isinstance(s, Dot) and all(s.loaded) and {s.a.name, s.b.name} <= loads.keys():
            pair = [loads[v.name] for v in (s.a, s.b)]
            keys = {(at.buffer, at.index) for at in pair}
            if len(keys) == 2 and counted.isdisjoint(keys):
                counted |= keys
                as_it_is, turned = (
                    sum(not _contiguous(replace(at, dims=dims), buffers[at.buffer]) for at, dims in zip(pair, order, strict=True))
                    for order in ([at.dims for at in pair], [at.dims[::-1] for at in pair])
                )
                across += min(as_it_is, turned)
    return (across, 0, 0, 0) if on_cpu else (0, 0, 0, 0, across)


def _contiguous(at: Access, buffer: Buffer) -> bool:
    """The last tile dim runs with step 1 along the dimension of the buffer whose neighbours are nearest in memory."""
    if not at.dims or not at.index:
        return True
    last = -1 if buffer.strides is None else next((d for d, _ in buffer.memory), -1)
    return any(coefficient == 1 and atom == at.dims[-1].axes[-1] for atom, coefficient in at.index[last].terms)


def choose_order(kernel: Kernel, *, lowered: Callable[[Kernel], TileProgram] = lower, limit: int = LIMIT, on_cpu: bool = False) -> Kernel:
    """The kernel with the best of at most ``limit`` orders of its tile dims; the earliest of equals.  ``lowered`` gives the tile program
    of a kernel, or one that differs from it in tile sizes only."""
    firsts = tuple(d.axes[0] for d in tile_dims(kernel))
    best: tuple[tuple[int, ...], Kernel] | None = None
    least: tuple[int, ...] = ()
    for order in itertools.islice(itertools.permutations(firsts), limit):
        candidate = replace(kernel, order=order)
        program = lowered(candidate)
        penalty = order_penalty(program, on_cpu)
        if best is None or penalty < best[0]:
            best = (penalty, candidate)
        least = least or least_penalty(program, on_cpu)
        if penalty <= least:
            break
    assert best is not None
    return best[1]
