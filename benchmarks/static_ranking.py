"""Does the model rank kernels as their machine code does?  Kernels of a few programs are compiled with many tiles, warps and stages.

    python benchmarks/static_ranking.py compile FILE        every program for a100, h100, b200; half an hour of one core, goes on with FILE
    python benchmarks/static_ranking.py compile FILE rows   some families, programs or devices
    python benchmarks/static_ranking.py price FILE          the model as it is now, for the kernels of a file; --before: as one before
    python benchmarks/static_ranking.py show FILE           correlation and regret; each term of the model beside what the code says of it

No GPU is needed: times are static ones (docs/decisions/machine_code.md), not measured.  The kernels of a program are those that its search
priced for the heaviest kernel of the plan, drawn at random, half of them from the cheaper third, and up to two steps away from there: twice
or half the warps, a stage more or less, twice or half a tile.  Those that spill or cannot be launched are noted and left out.

A file has each form of a kernel once, whole (extract/kept/codec.py), and what its kernels differ in, so that they can be priced again
by another model without being compiled.
"""

import argparse
import json
import os
import random
import sys
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from host import commit, host
from ranking_tables import TARGETS, ranked, termwise

KERNELS = 12  # of a program and a device
DRAWN = 3  # times as many are drawn as are wanted: some spill
CHEAPER = 3  # the cheaper part of what the search priced, as a fraction of it
STEPS = 2  # away from what the search priced
PIECE = 6  # compiled by a process before it is replaced: a compiler keeps memory


def programs():
    """Family -> (name, function, arguments)."""
    import torch

    from eqfuse.testing.programs import PROGRAMS

    def half(*shape):
        return torch.empty(shape, dtype=torch.float16, device="meta")

    def labels(n):
        return torch.empty(n, dtype=torch.int64, device="meta")

    def matmul(x, w):
        return x @ w

    def linear_gelu(x, w):
        return torch.nn.functional.gelu(x @ w)

    def swiglu(x, gate, up):
        return torch.nn.functional.silu(x @ gate) * (x @ up)

    def cross_entropy(logits, target):
        return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none")

    def decode(q, k, v):
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v

    attention, causal = PROGRAMS["attention"].fn, PROGRAMS["attention_causal"].fn
    return {
        "attention": [
            ("attention 64 deep", attention, [half(1, 32, 4096, 64)] * 3),
            ("attention 128 deep", attention, [half(1, 32, 4096, 128)] * 3),
        ],
        "causal attention": [
            ("causal 64 deep", causal, [half(1, 32, 4096, 64)] * 3),
            ("causal 128 deep", causal, [half(1, 32, 4096, 128)] * 3),
        ],
        "products": [
            ("matmul 4096", matmul, [half(4096, 4096), half(4096, 4096)]),
            ("linear gelu", linear_gelu, [half(4096, 4096), half(4096, 14336)]),
            ("swiglu", swiglu, [half(4096, 4096), half(4096, 14336), half(4096, 14336)]),
        ],
        "rows": [
            ("rms norm 4096 x 8192", PROGRAMS["rmsnorm"].fn, [half(4096, 8192), half(8192)]),
            ("layer norm 8192 x 1024", torch.nn.functional.layer_norm, [half(8192, 1024), [1024], half(1024), half(1024)]),
            ("softmax 4096 x 4096", PROGRAMS["row_softmax"].fn, [half(4096, 4096)]),
        ],
        "long rows": [
            ("softmax 4096 x 131072", PROGRAMS["row_softmax"].fn, [half(4096, 131072)]),
            ("cross-entropy 4096 x 131072", cross_entropy, [half(4096, 131072), labels(4096)]),
        ],
        "decode": [
            ("decode 8 x 32 heads, 8192 keys", PROGRAMS["attention_decode"].fn, [half(8, 32, 1, 128), *[half(8, 32, 8192, 128)] * 2]),
            ("decode 16 x 32 heads on 8, 8192 keys", decode, [half(16, 32, 1, 128), *[half(16, 8, 8192, 128)] * 2]),
        ],
    }  # fmt: skip


# ---- kernels ------------------------------------------------------------------------------------------------------------------------
def drawn(name, function, arguments, target):
    """Kernels of a program's heaviest step, as steps of a plan, in random order: the planned one first."""
    import eqfuse
    from eqfuse.extract.covers.shortlist import Shortlists
    from eqfuse.extract.variants import variants

    tensors, fixed = [a for a in arguments if hasattr(a, "shape")], [a for a in arguments if not hasattr(a, "shape")]
    called = (lambda x, *rest: function(x, *fixed, *rest)) if fixed else function
    c = eqfuse.optimize(called, tensors, target=target, strict=True)
    main = max(c.plan.kernels, key=lambda k: k.cost.us)
    every = Shortlists(c.graph, c.target, c.plan, 60.0).of(main, 10_000)
    draw = random.Random(f"{name} {target}")
    found, seen = [main], {what(main.kernel)}
    for _ in range(40 * KERNELS):
        if len(found) == DRAWN * KERNELS:
            break
        k = draw.choice(every[: max(1, len(every) // CHEAPER)] if draw.random() < 0.5 else every)
        for _ in range(draw.randint(0, STEPS)):
            k = draw.choice(variants(k, c.target) or (k,))
        if what(k.kernel) not in seen:
            seen.add(what(k.kernel))
            found.append(k)
    return found


def what(kernel):
    """In what kernels differ."""
    return kernel.nodes, *differing(kernel).items()


def differing(kernel):
    """What kernels of one form differ in, as data."""
    return {
        "tiles": tuple(r.tile for r in kernel.roles.values()), "order": tuple(a.name for a in kernel.order),
        "grid": tuple(a.name for a in kernel.grid), "grouped": kernel.grouped, "warps": kernel.warps, "stages": kernel.stages,
        "persistent": kernel.persistent, "registers": kernel.registers, "descriptors": kernel.descriptors,
    }  # fmt: skip


def form_of(kernel):
    """A kernel without that."""
    from eqfuse.extract.kept.codec import encoded

    roles = {a: replace(r, tile=1) for a, r in kernel.roles.items()}
    bare = replace(
        kernel, roles=roles, order=(), grid=tuple(sorted(kernel.grid)), grouped=0, warps=4, stages=1, persistent=0, registers=0,
        descriptors=False, notes={},
    )  # fmt: skip
    return encoded(bare)


def again(form, row):
    """The kernel of a row."""
    from eqfuse.extract.kept.codec import decoded
    from eqfuse.tiles.kernel import Kernel

    bare = decoded(form, Kernel)
    named = {a.name: a for a in bare.roles}
    roles = {a: replace(r, tile=t) for (a, r), t in zip(bare.roles.items(), row["tiles"], strict=True)}
    axes = {key: tuple(named[n] for n in row[key]) for key in ("order", "grid")}
    same = {key: row[key] for key in ("grouped", "warps", "stages", "persistent", "registers", "descriptors")}
    return replace(bare, roles=roles, **axes, **same)


def modelled(kernel, target):
    """The model's cost of a kernel with its own warps and stages."""
    from eqfuse.extract.cost import fit, launched_with, pipelined, price
    from eqfuse.tiles.lower import lower
    from eqfuse.tiles.walk import walk

    counts = walk(lower(kernel))
    fitted = pipelined(counts, fit(counts, target), target, kernel.persistent)
    return price(kernel, counts, launched_with(counts, fitted, kernel.warps, kernel.stages, target), target)


def compiled(job):
    """What a compiler makes of a kernel: the static time and its floors, or why there is none."""
    form, row, name = job
    from eqfuse.codegen.module import emit_kernels
    from eqfuse.codegen.sizes import ModuleSpec
    from eqfuse.errors import CompileError
    from eqfuse.extract.plan import PlannedKernel
    from eqfuse.extract.targets import load_target
    from eqfuse.runtime.accesses import memory_accesses
    from eqfuse.runtime.aot import compile_kernel
    from eqfuse.runtime.estimates import kernel_estimate
    from eqfuse.runtime.levels import levels
    from eqfuse.runtime.modules import load_module, unload_module
    from eqfuse.tiles.finish import finish
    from eqfuse.tiles.lower import lower

    target, kernel = load_target(name), again(form, row)
    step = PlannedKernel(kernel, finish(lower(kernel)), modelled(kernel, target), (), {})
    source = emit_kernels(ModuleSpec(kernel.name, (), (), (), (step.tiles,)))
    parameters = step.tiles.parameters
    module = load_module(source, "aot")
    try:
        r = compile_kernel(
            module, kernel.name, parameters, target, num_warps=kernel.warps, num_stages=kernel.stages, registers=kernel.registers,
            contract=step.tiles.contracts,
        )  # fmt: skip
    except CompileError as error:
        return {"refused": error.message.splitlines()[0][:120]}
    finally:
        unload_module(module)
    if r.exceeded:
        return {"refused": "; ".join(r.exceeded)[:120]}
    pointers = {p.name: kernel.buffers[p.buffer] for p in parameters if p.kind == "pointer" and p.buffer}
    known = kernel_estimate(r, [step], target, levels(r, target, pointers, memory_accesses((step.tiles,), source, r.assembly, 32)))
    if known.static is None or known.static.us is None:
        return {"refused": f"no static time: {known.reason or known.static.reason}"[:120]}
    static = known.static
    return {
        "registers_used": r.registers, "shared": r.shared_bytes, "resident": r.occupancy, "instructions": static.instructions,
        "static_us": static.us, "floors": {u: round(x, 3) for u, x in static.floors.items()},
    }  # fmt: skip


# ---- runs ---------------------------------------------------------------------------------------------------------------------------
def compile_all(path, only, jobs):
    """Compile what a file does not have yet."""
    os.environ["EQFUSE_CACHE"] = "0"
    result = json.loads(path.read_text()) if path.exists() else {"environment": {}, "forms": [], "rows": []}
    result["environment"] = host("torch", "triton", "numpy") | {"commit": commit()}
    known = {json.dumps(f): n for n, f in enumerate(result["forms"])}
    for family, cases in programs().items():
        for name, function, arguments in cases:
            for target in TARGETS:
                have = any((r["program"], r["target"]) == (name, target) for r in result["rows"])
                if have or (only and not any(o in family or o in name or o == target for o in only)):
                    continue
                start = time.perf_counter()
                rows = []
                for k in drawn(name, function, arguments, target):
                    text = json.dumps(form_of(k.kernel))
                    if text not in known:
                        known[text] = len(result["forms"])
                        result["forms"].append(json.loads(text))
                    rows.append({"family": family, "program": name, "target": target, "form": known[text]} | differing(k.kernel))
                found = enough(rows, result["forms"], target, jobs)
                result["rows"] += found
                keep(path, result)
                us = [r["static_us"] for r in found if "static_us" in r]
                said = f"{len(us)} of {len(found)}" + (f": {min(us):.0f} to {max(us):.0f} us" if us else "")
                print(f"{family:18} {name:38} {target} {said} ({time.perf_counter() - start:.0f} s)", flush=True)


def enough(rows, forms, target, jobs):
    """The first rows with what a compiler makes of them, until so many kernels as are wanted have a static time."""
    found = []
    with get_context("spawn").Pool(jobs, maxtasksperchild=PIECE) as pool:
        while (missing := KERNELS - sum("static_us" in r for r in found)) > 0 and len(found) < len(rows):
            piece = rows[len(found) : len(found) + max(jobs, missing)]
            made = pool.map(compiled, [(forms[r["form"]], r, target) for r in piece], chunksize=1)
            found += [row | m for row, m in zip(piece, made, strict=True)]
    return found


def price_all(path, before):
    """The model's time of every kernel, and its terms."""
    from eqfuse.extract.targets import load_target

    result = json.loads(path.read_text())
    targets = {t: load_target(t) for t in TARGETS}
    for row in result["rows"]:
        if "static_us" in row:
            target = targets[row["target"]]
            cost = modelled(again(result["forms"][row["form"]], row), target)
            row["before_us" if before else "model_us"] = round(cost.us - target.launch_us, 3)
            if not before:
                row |= {"terms": {t: round(v, 3) for t, v in cost.terms.items()}, "bound": cost.bound}
    result["environment"]["priced_before" if before else "priced"] = commit()
    keep(path, result)
    return result


def keep(path, result):
    """The file in one step, a line for each kernel and form."""
    lines = [f'"environment": {json.dumps(result["environment"])}']
    lines += [f'"{key}": [\n' + ",\n".join(json.dumps(r, separators=(",", ":")) for r in result[key]) + "\n]" for key in ("forms", "rows")]
    part = path.with_suffix(".part")
    part.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    part.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("compile", "price", "show"))
    parser.add_argument("file", type=Path)
    parser.add_argument("only", nargs="*", help="families, programs or devices")
    parser.add_argument("--before", action="store_true", help="the model that runs is the one before")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile (default %(default)s)")
    options = parser.parse_args()
    if options.action == "compile":
        compile_all(options.file, options.only, options.jobs)
        return 0
    result = price_all(options.file, options.before) if options.action == "price" else json.loads(options.file.read_text())
    print(ranked(result), termwise(result), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
