"""Does the model rank tiles as a clock does?  Plans of a few programs are lowered again with other tiles, and all of them are run.

    python -m benchmarks.cpu.ranking                    every family; some minutes
    python -m benchmarks.cpu.ranking products --save    one; write benchmarks/results/DATE-cpu-ranking.json

For each program: the forms that the search considers for its main kernel, each with tiles that are drawn at random from more sizes than
the search tries, half of them from large ones.  One thread, its processor time, all kernels of a program in turn, the shortest of several
runs.  The model is told of one core, calibrated in the same minutes unless --target names a file.  Reported are Spearman's rank correlation
of the modelled with the measured time, over all kernels and over those that take at most twice the time of the best, the median error of
the model's time, and the regret: the time of the model's choice over that of the best.  How well one half of the runs ranks the other half
says how much of a correlation can be had.
"""

import argparse
import itertools
import os
import random
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from ..ranks import near, regret, spearman

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "EQFUSE_CACHE": "0"}
NO_FAULTS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}  # outputs are in memory that was used before
GRID = (1, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512)
STREAM = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
FORMS = 3
LARGE = 64  # a tile of at least so many elements, or a whole axis
RESULTS = Path(__file__).parents[1] / "results"


def programs():
    """Family -> (name, function, arguments)."""
    import torch

    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v

    def causal(q, k, v):
        n = q.shape[-2]
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        return torch.softmax((q @ k.transpose(-1, -2) * 0.125).masked_fill(~mask, float("-inf")), -1) @ v

    def linear_cross_entropy(x, w, t):
        return torch.nn.functional.cross_entropy(x @ w.t(), t)

    def norm(x, w):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w

    def rand(*shape):
        return torch.randn(*shape)

    def labels(n, k):
        return torch.randint(k, (n,))

    qkv = rand(2, 1024, 64), rand(2, 1024, 64), rand(2, 1024, 64)
    wide = rand(1, 512, 128), rand(1, 2048, 128), rand(1, 2048, 128)
    return {
        "attention": [("2x1024x64", attention, qkv), ("512 of 2048x128", attention, wide)],
        "causal attention": [("2x1024x64", causal, qkv)],
        "products": [
            ("1024x2048x1024", lambda a, b: a @ b, (rand(1024, 1024), rand(1024, 2048))),
            ("384x768x512, transposed", lambda a, b: a @ b.t(), (rand(384, 512), rand(768, 512))),
            ("500x300x1100", lambda a, b: a @ b, (rand(500, 1100), rand(1100, 300))),
            ("1024x256x64, gelu", lambda a, b: torch.nn.functional.gelu(a @ b), (rand(1024, 64), rand(64, 256))),
        ],
        "linear + cross-entropy": [("512x128x4000", linear_cross_entropy, (rand(512, 128), rand(4000, 128), labels(512, 4000)))],
        "rows": [
            ("softmax 1024x1024", lambda x: torch.softmax(x, -1), (rand(1024, 1024),)),
            ("log-softmax 64x32000", lambda x: torch.log_softmax(x, -1), (rand(64, 32000),)),
            ("softmax of columns 1024x1024", lambda x: torch.softmax(x, 0), (rand(1024, 1024),)),
            ("RMS norm 512x4096", norm, (rand(512, 4096), rand(4096))),
            ("cross-entropy 128x32000", torch.nn.functional.cross_entropy, (rand(128, 32000), labels(128, 32000))),
        ],
    }  # fmt: skip


def forms(function, arguments, target):
    """A plan, its main kernel's place in it, and the kernels that the search tried in its place: one of each form, the cheapest first."""
    import eqfuse
    from eqfuse.extract import search

    tried, evaluate = [], search._Form._evaluate

    def recorded(self, roles, model):
        found = evaluate(self, roles, model)
        tried.extend([] if found is None else [found])
        return found

    search._Form._evaluate = recorded
    try:
        compiled = eqfuse.optimize(function, arguments, target=target, strict=True)
    finally:
        search._Form._evaluate = evaluate
    plan = compiled.plan
    at = max(range(len(plan.steps)), key=lambda k: plan.steps[k].cost.us)
    main = plan.steps[at].kernel

    found = {}
    for c in sorted(tried, key=lambda c: c.cost.us):
        if c.kernel.buffers.keys() == main.buffers.keys():
            found.setdefault((c.kernel.nodes, tuple((a, r.kind) for a, r in c.kernel.roles.items())), c.kernel)
    return compiled, at, [main, *(k for k in found.values() if k.nodes != main.nodes or kinds(k) != kinds(main))][:FORMS]


def kinds(kernel):
    return {a: r.kind for a, r in kernel.roles.items()}


def tilings(kernel, draw, count):
    """The kernel, and so many others with other tiles."""
    from eqfuse.errors import PlanError
    from eqfuse.extract.search import power
    from eqfuse.tiles.order import choose_order
    from eqfuse.tiles.program import Dot
    from eqfuse.tiles.tilings import Tilings

    known = Tilings()
    products = any(isinstance(s, Dot) for s in known.program(kernel).statements())
    choices = []
    for a, r in kernel.roles.items():
        sizes = {"grid": GRID, "stream": STREAM}.get(r.kind, ())
        fixed = r.kind == "resident" or (products and r.tile == 1)
        choices.append((r.tile,) if fixed else sorted({t for t in sizes if t <= power(a.size)} | {r.tile}))
    every = list(itertools.product(*choices))
    draw.shuffle(every)
    first = tuple(r.tile for r in kernel.roles.values())
    large = [t for t in every if all(n >= LARGE or n == max(c) for n, c in zip(t, choices, strict=True))][: count // 2]
    made = []
    for tiles in dict.fromkeys([first, *large, *every]):
        roles = {a: replace(r, tile=t) for (a, r), t in zip(kernel.roles.items(), tiles, strict=True)}
        dims = tuple(a for a in kernel.order if roles[a].tile > 1) + tuple(a for a in roles if roles[a].tile > 1 and a not in kernel.order)
        try:
            other = choose_order(replace(kernel, roles=roles, order=dims, persistent=0), lowered=known.program, on_cpu=True)
            made.append((other, known.counts(other)))
        except PlanError:
            continue
        if len(made) == count:
            break
    return made


def modelled(kernel, counts, target):
    """The model's cost of a kernel."""
    from eqfuse.extract.cost import fit, price

    return price(kernel, counts, fit(counts, target), target)


def runnable(compiled, at, kernel, cost, target):
    """The plan with another kernel in the place of its main one, as a module; None if there is no C for it."""
    from eqfuse.errors import PlanError
    from eqfuse.extract.plan import PlannedKernel
    from eqfuse.runtime.generated import Generated
    from eqfuse.runtime.native import load
    from eqfuse.tiles.finish import finish
    from eqfuse.tiles.lower import lower

    plan = compiled.plan
    try:
        step = PlannedKernel(kernel, finish(lower(kernel)), cost, (), {})
        steps = (*plan.steps[:at], step, *plan.steps[at + 1 :])
        return load(Generated(compiled.planned.traced, True, replace(plan, steps=steps, launches=()), target).exact_source)
    except PlanError:
        return None


def run(name, function, arguments, target, options):
    """The kernels of one program, modelled and run."""
    draw = random.Random(options.seed)
    compiled, at, kernels = forms(function, arguments, target)
    count = max(2, -(-options.count // len(kernels)))
    cases = []
    for n, kernel in enumerate(kernels):
        for other, counts in tilings(kernel, draw, count):
            cost = modelled(other, counts, target)
            us = cost.us + sum(s.cost.us for k, s in enumerate(compiled.plan.steps) if k != at)
            module = runnable(compiled, at, other, cost, target)
            if module is not None:
                cases.append({"form": n, "kernel": other, "counts": counts, "cost": cost, "model": us, "module": module, "runs": []})
    given = ordered(compiled, function, arguments)
    want = function(*arguments)
    for c in cases:
        out = c["module"].run(*given)
        out = out[0] if isinstance(out, tuple) else out
        error = float((out - want).abs().max() / want.abs().max().clamp(min=1e-6))
        if not error < 1e-3:
            raise SystemExit(f"{name}: wrong by {error} with {c['kernel'].roles}")
    first = time.perf_counter()
    for k in range(options.rounds):
        for c in cases[k % len(cases) :] + cases[: k % len(cases)]:
            start = time.thread_time()
            c["module"].run(*given)
            c["runs"].append(1e6 * (time.thread_time() - start))
        if time.perf_counter() - first > options.seconds and k >= 4:
            break
    return cases


def rows_of(cases):
    """What is saved of kernels that were run."""
    rows = []
    for c in cases:
        tiles = {a.name: str(r) for a, r in c["kernel"].roles.items()}
        rows.append({
            "form": c["form"], "roles": tiles, "us": round(min(c["runs"]), 1), "median_us": round(statistics.median(c["runs"]), 1),
            "halves_us": [round(min(c["runs"][h::2]), 1) for h in (0, 1)],
            "model_us": round(c["model"], 1), "terms": {t: round(v, 1) for t, v in c["cost"].terms.items()},
        })  # fmt: skip
    return rows


def ordered(compiled, function, arguments):
    """The arguments as the module takes them."""
    import inspect

    names = [i.name for i in compiled.program.inputs]
    by_name = dict(zip(inspect.signature(function).parameters, arguments, strict=False))
    return [by_name[n] for n in names]


def summary(rows):
    """What the model is worth on some rows."""
    us, model = [r["us"] for r in rows], [r["model_us"] for r in rows]
    close = near(us, model)
    return {
        "kernels": len(rows),
        "spearman": round(spearman(model, us), 3),
        "near": len(close[0]),
        "spearman_near": round(spearman(*close), 3),
        "repeats": round(spearman(*([r["halves_us"][h] for r in rows] for h in (0, 1))), 3),
        "regret": round(regret(us, model), 3),
        "ratio": round(statistics.median(u / m for u, m in zip(us, model, strict=True)), 3),
        "error": round(statistics.median(abs(m / u - 1) for u, m in zip(us, model, strict=True)), 3),
        "best_us": min(us), "worst_us": max(us),
        "spread": round(statistics.median(r["median_us"] / r["us"] for r in rows) - 1, 3),
    }  # fmt: skip


def report(results):
    print("| family | program | kernels | Spearman | near the best | repeats | measured / modelled | error | regret | best, worst ms |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in results:
        print(f"| {r['family']} | {r['program']} | {r['kernels']} | {r['spearman']:.2f} | {r['spearman_near']:.2f} of {r['near']} "
              f"| {r['repeats']:.2f} | {r['ratio']:.2f} | {100 * r['error']:.0f} % | {r['regret']:.2f} "
              f"| {r['best_us'] / 1e3:.2f}, {r['worst_us'] / 1e3:.2f} |")  # fmt: skip


def by_family(results):
    """Family -> mean correlation, weighted by kernels, and the geometric mean of regrets."""
    out = {}
    for family in dict.fromkeys(r["family"] for r in results):
        mine = [r for r in results if r["family"] == family]
        total = sum(r["kernels"] for r in mine)
        out[family] = {
            "kernels": total,
            "spearman": round(sum(r["spearman"] * r["kernels"] for r in mine) / total, 3),
            "spearman_near": round(sum(r["spearman_near"] * r["near"] for r in mine) / sum(r["near"] for r in mine), 3),
            "regret": round(statistics.geometric_mean(r["regret"] for r in mine), 3),
        }
    return out


def one_core(target):
    """A target of one of its cores."""
    core, n = target.core, target.sm_count
    own = [replace(v, gb_s=v.gb_s / n) for v in target.levels[1:]]
    return replace(
        target, sm_count=1, levels=(replace(target.levels[0], gb_s=core.levels[-1].copy_gb_s), *own), simt_gops=target.simt_gops / n,
        special_gops=target.special_gops / n, tensor_tflops={k: v / n for k, v in target.tensor_tflops.items()}, library_tflops={},
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="only families, or programs, whose name contains one of these")
    parser.add_argument("--target", help="a calibrated file (default: calibrate now)")
    parser.add_argument("--count", type=int, default=18, help="kernels of a program (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=20.0, help="of rounds, for a program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", nargs="?", const="", metavar="FILE")
    options = parser.parse_args()
    if any(os.environ.get(k) != v for k, v in (ONE_THREAD | NO_FAULTS).items()):
        again = [sys.executable, "-m", "benchmarks.cpu.ranking", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **ONE_THREAD, **NO_FAULTS})

    import torch

    from eqfuse.calibration.measure import calibrate
    from eqfuse.extract.targets import load_target

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from host import commit, host
    from run import write

    torch.manual_seed(options.seed)
    target = one_core(load_target(options.target) if options.target else calibrate().target)
    environment = {**host("torch", "numpy"), "commit": commit(), "target": target.measured, "seed": options.seed}
    path = Path(options.save) if options.save else RESULTS / f"{environment['date'][:10]}-cpu-ranking.json"
    results = []
    for family, cases in programs().items():
        for name, function, arguments in cases:
            if options.families and not any(f in family or f in name for f in options.families):
                continue
            rows = rows_of(run(name, function, arguments, target, options))
            r = {"family": family, "program": name, **summary(rows), "rows": rows}
            results.append(r)
            said = f"{family:24} {name:30} {r['kernels']:3} kernels  {r['spearman']:.2f}  regret {r['regret']:.2f}"
            print(said, file=sys.stderr, flush=True)
            if options.save is not None:
                write(path, {"environment": environment, "families": by_family(results), "results": results})
    report(results)
    for family, r in by_family(results).items():
        near = f"near the best {r['spearman_near']:.2f}"
        print(f"{family}: {r['kernels']} kernels, Spearman {r['spearman']:.2f}, {near}, regret {r['regret']:.2f}")


if __name__ == "__main__":
    main()
