"""Matrix products, copies, transposes and sums as fractions of what this machine reaches in loops written by hand, one thread.

After Vasilache et al., Composable and Modular Code Generation in MLIR (arXiv 2202.03293): the same operations, data that fit each level of
the memory, kernels called over and over from C, the median of many.  A copy there is a negation here, since a plain copy is torch's.  Their
convolutions have no counterpart: the front end reads none.
"""

import ctypes
import math
from functools import partial
from pathlib import Path

import torch

from eqfuse.cli.tables import show_heading, show_table
from eqfuse.codegen.c.host import header, translation_unit
from eqfuse.codegen.c.printer import arguments, function_name
from eqfuse.errors import EqFuseError
from eqfuse.runtime.measuring import interleaved, sampler
from eqfuse.runtime.native import compiler, library

from ..host import shell

# Single-core figures of the paper, on a Xeon Gold 6154 (AVX-512): text of 4.5 and 4.6, table 2.  Parts of 192 GFLOP/s and of its copies.
THEIRS = {
    "copy": {"L1": "289 GB/s", "L2": "84 GB/s", "L3": "26 GB/s", "DRAM": "12 GB/s"},
    "transpose": {"L1": "30-60 % (to 109 GB/s)", "L2": "nearer than in L1", "L3": "below"},
    "sum over rows": {"L1": "73 % (to 212 GB/s)", "L2": "to 149 % (125 GB/s)", "L3": "100 % (26 GB/s)"},
    "sum over columns": {"L1": "34 % (to 99 GB/s)", "L2": "to 149 % (125 GB/s)", "L3": "100 % (26 GB/s)"},
    "matmul": {"AB": "92 %"},
}
FRACTIONS = {"L1": (1, 0.8), "L2": (2, 0.4), "L3": (3, 0.4)}  # of the capacity of a level, both matrices together: table 2
FALLBACK = {1: 32 << 10, 2: 1 << 20, 3: 32 << 20}  # where the system does not say
MOVES = {
    "copy": (lambda x: -x, 2),
    "transpose": (lambda x: x.t().contiguous(), 2),
    "sum over rows": (lambda x: x.sum(0), 1),  # ColRed: what is left is a row
    "sum over columns": (lambda x: x.sum(1), 1),
}  # with how often a kernel moves the matrix
PRODUCTS = {"AB": lambda a, b: a @ b, "AB^T": lambda a, b: a @ b.t(), "A^TB": lambda a, b: a.t() @ b}
SIZES = (192, 384, 768, 1536)
CALLS = 5e-4  # seconds of calls from C for each sample


def compiler_name():
    """What the compiler says of itself."""
    found = compiler()
    return (shell(found, "--version") or found).splitlines()[0] if found else None


def caches():
    """Bytes of the caches of the first core by level, of data."""
    found = dict(FALLBACK)
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            kind, level, size = ((index / f).read_text().strip() for f in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            found[int(level)] = 1024 * int(size[:-1])
    return found


def matrices():
    """Rows and columns of the matrix that is moved at each level: with its result it takes the fraction of the capacity."""
    sizes = caches()
    elements = {name: fraction * sizes[level] / 8 for name, (level, fraction) in FRACTIONS.items()}
    elements["DRAM"] = 2 * sizes[3] / 4  # the matrix alone is twice the last cache
    found = {}
    for name, n in elements.items():
        columns = max(32, int(math.sqrt(n)) // 32 * 32)
        found[name] = (max(8, int(n / columns) // 8 * 8), columns)
    return found


def repeated(function, args):
    """A call of the planned kernels so many times over, from C; the result's difference from torch is checked first."""
    import eqfuse

    c = eqfuse.optimize(function, args, target="cpu", strict=True)
    if getattr(c.plan, "calls", ()):
        return None, "the plan is the library's"
    programs = [k.tiles for k in c.plan.kernels]
    tensors = {i.name: x for i, x in zip(c.plan.program.inputs, args, strict=True)}
    for p in programs:
        for b in p.stores():
            tensors.setdefault(b, torch.empty(p.kernel.buffers[b].shape))
    lines, values = [], []
    for p in programs:
        given = []
        for a in arguments(p):
            pointer = a.buffer is not None and a.kind != "int"
            given.append(f"{'(void *)' if pointer else ''}a[{len(values)}]")
            values.append(tensors[a.buffer].data_ptr() if pointer else a.value)
        lines.append(f"{function_name(p)}({', '.join([str(p.tasks), *given])});")
    driver = f"void repeat(int64_t times, const int64_t *a) {{ for (int64_t t = 0; t < times; t++) {{ {' '.join(lines)} }} }}"
    run = library(translation_unit(programs) + driver).repeat
    run.argtypes, run.restype = [ctypes.c_int64, ctypes.c_void_p], None
    memory = (ctypes.c_int64 * len(values))(*values)

    def call(times, keep=tensors):  # what its pointers are to
        run(times, memory)

    call(1)
    exact = function(*(x.double() for x in args))
    (out,) = c.plan.program.outputs
    error = ((tensors[out.name].view(exact.shape) - exact).abs().max() / exact.abs().max()).item()
    if not error < 1e-5:
        raise ArithmeticError(f"error {error:.1e}")
    return call, None


def measured(quick=False):
    """Everything, as data.  Sums and products of one size take turns with the loop by hand at that size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if compiler() is None:
            return {"failed": "there is no C compiler"}
        seconds = 0.2 if quick else 1.0  # for each size
        products = list(_products(seconds, SIZES[:2] if quick else SIZES))
        return {"theirs": THEIRS, "caches": caches(), "moves": list(_moves(seconds)), "products": products}
    finally:
        torch.set_num_threads(before)


def _moves(seconds):
    peaks = _peaks()
    for level, (rows, columns) in matrices().items():
        x = torch.randn(rows, columns)
        calls, absent = _ours({name: function for name, (function, _) in MOVES.items()}, (x,))
        work = {name: 4 * x.numel() * moved for name, (_, moved) in MOVES.items()}
        y, n = torch.empty_like(x), x.numel() // 256 * 256
        calls["by hand"], work["by hand"] = partial(peaks.peak_copy, x.data_ptr(), y.data_ptr(), n), 8 * n
        yield {"level": level, "rows": rows, "columns": columns, "gb_s": _rates(calls, work, seconds), "absent": absent}


def _products(seconds, sizes):
    peaks = _peaks()
    for size in sizes:
        a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
        calls, absent = _ours(PRODUCTS, (a, b))
        calls["torch.mm"] = partial(_repeat, partial(torch.mm, a, b, out=out))
        work = dict.fromkeys(calls, 2 * size**3)
        calls["by hand"], work["by hand"] = peaks.peak_fma, peaks.peak_operations()
        yield {"size": size, "gflop_s": _rates(calls, work, seconds), "absent": absent}


def _ours(functions, args):
    """Calls of planned kernels, so many times over, by name; and why there are none of the others."""
    calls, absent = {}, {}
    for name, function in functions.items():
        try:
            calls[name], why = repeated(function, args)
        except (EqFuseError, ArithmeticError) as error:
            calls[name], why = None, f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if calls[name] is None:
            del calls[name]
            absent[name] = why
    return calls, absent


def _repeat(call, times):
    for _ in range(times):
        call()


def _peaks():
    found = library("\n".join([header(), header("products.h"), (Path(__file__).parent / "peaks.c").read_text(encoding="utf-8")]))
    found.peak_fma.argtypes, found.peak_fma.restype = [ctypes.c_int64], ctypes.c_float
    found.peak_copy.argtypes, found.peak_copy.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64], None
    found.peak_operations.argtypes, found.peak_operations.restype = [], ctypes.c_int64
    return found


def _rates(calls, work, seconds):
    """1e9 a second of each: the median and the quartiles."""
    ready = {name: _often(call) for name, call in calls.items()}
    times = interleaved({name: call for name, (call, _) in ready.items()}, sample=sampler("cpu", 1), seconds=seconds, rounds=(7, 200))
    found = {}
    for name, t in times.items():
        scale = 1e-9 * work[name] * ready[name][1]
        found[name] = {"median": scale / t.median, "low": scale / t.quartiles[1], "high": scale / t.quartiles[0]}
    return found


def _often(call):
    """The call repeated so many times in C that Python's part does not count, and how many."""
    sample, times = sampler("cpu", 1), 1
    while (took := sample(partial(call, times), 1)) < CALLS:
        times = max(2 * times, min(round(1.2 * CALLS / max(took, 1e-9) * times), 100 * times))
    return partial(call, times), times


def show(result):
    if "failed" in result:
        print(f"peaks not measured: {result['failed']}")
        return
    show_heading("GB/s with one thread; fraction of the copy by hand")
    names = [*MOVES, "by hand"]
    body = [(m["level"], f"{m['rows']}x{m['columns']}", *(cell(m["gb_s"], n) for n in names)) for m in result["moves"]]
    show_table(("level", "matrix", *names), body)
    show_heading("GFLOP/s with one thread; fraction of the multiply-adds by hand")
    names = [*PRODUCTS, "torch.mm", "by hand"]
    show_table(("size", *names), [(str(p["size"]), *(cell(p["gflop_s"], n) for n in names)) for p in result["products"]])
    for part in (*result["moves"], *result["products"]):
        for name, why in part["absent"].items():
            print(f"not measured: {name} at {part.get('level', part.get('size'))}: {why}")


def cell(rates, name):
    """A rate, and what part it is of the rate by hand."""
    if name not in rates:
        return "-"
    rate, peak = rates[name]["median"], rates["by hand"]["median"]
    return f"{rate:.0f}" if name == "by hand" else f"{rate:.0f} ({100 * rate / peak:.0f} %)"
