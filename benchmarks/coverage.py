"""Which programs of public repositories are read, and what is left over in the others; which of them are planned, and are right.

    python benchmarks/coverage.py --kernelbench PATH --attention-gym PATH --liger PATH --helion PATH --mirage PATH --transformers PATH
    python benchmarks/coverage.py --kernelbench PATH --only "level 3"      programs whose names have that
    python benchmarks/coverage.py --kernelbench PATH --check 5             every fifth, at small sizes in the interpreter, against float64;
                                                                           what torch runs in a plan runs in torch
    python benchmarks/coverage.py --kernelbench PATH --plan                also a plan of each program, modelled for an h200

Checkouts are the user's; nothing of theirs is kept here.  A program is traced at its own sizes without data, in a process of its own with a
limit of CPU time.  Of one that is refused all that is refused is listed, not only the first.  --save updates the rows of the day's file.
"""

import argparse
import json
import multiprocessing
import resource
import sys
import time
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from host import commit, host
from public import attention_gym, huggingface, kernelbench, references
from public.case import Refused

RESULTS = Path(__file__).parent / "results"
SETS = {
    "kernelbench": kernelbench.programs,
    "attention-gym": attention_gym.programs,
    **{name: partial(references.programs, source=name) for name in references.SOURCES},
    "transformers": huggingface.programs,
}
SECONDS = {"read": 40, "plan": 60, "check": 60}  # of CPU time for one program
BYTES = 12 * 2**30  # of memory
TARGET = "h200"
NO_DIGITS = 1e-3  # an error of eager by which what is compared is what cancelled, as a norm of one element


def read(case, options):
    """How far a program gets: read, or refused with what is left over."""
    from eqfuse.errors import EqFuseError
    from eqfuse.frontends import trace
    from eqfuse.frontends.capture import capture
    from eqfuse.frontends.readable import readable

    fn, args = case.large()
    try:
        return {"status": "read", "terms": len(list(trace(fn, args).program.terms())), "left": {}}
    except EqFuseError as error:
        row = {"status": "refused", "why": shown(error), "left": {}}
    try:
        unread = readable(capture(fn, tuple(args), {})).unread
        row["left"] = {str(node.target): e.message for node, e in unread.items() if computes(str(node.target))}
    except EqFuseError as error:  # before there is a graph
        row["why"] = shown(error)
    return row


def computes(op):
    """Whether an operator is one of tensors: no assertion, and no arithmetic of sizes."""
    return op.count(".") > 1 and not any(word in op for word in ("._assert", ".sym_"))


def plan(case, options):
    """The plan of a program: kernels, times and bytes, which leave out what torch runs, and that, with how often."""
    import eqfuse
    from eqfuse.extract.plan import Plan
    from eqfuse.steps.pieces import PIECE

    fn, args = case.large()
    found = eqfuse.optimize(fn, args, target=TARGET, time_budget=options.time_budget).plan
    if isinstance(found, Plan):
        kernels, calls, failed = len(found.kernels), [c.call.name for c in found.calls], []
    else:
        kernels, calls = len(found.kernels), [s.target for s in found.library if not s.name.startswith(PIECE)]
        failed = [s.reason for s in found.library if s.name.startswith(PIECE)]
    row = {"kernels": kernels, "library": len(calls), "calls": dict(Counter(calls)), "pieces_in_torch": dict(Counter(failed))}
    row |= {"us": found.estimated_us, "baseline_us": found.baseline_us}
    return row | {"bytes": found.dram_bytes, "baseline_bytes": found.baseline_bytes}


def check(case, options):
    """The largest difference from float64 in the interpreter, of the largest element, and that of eager."""
    import torch

    import eqfuse
    from eqfuse.backend import compile_graph

    fn, args = case.small()
    wide, _ = case.small()  # the same again: a copy may share what its functions close over
    wide = wide.double() if isinstance(wide, torch.nn.Module) else wide

    def flat(found):
        return [x.double() for x in torch.utils._pytree.tree_leaves(found) if isinstance(x, torch.Tensor)]

    with torch.no_grad():
        eager = flat(fn(*args))
        exact = flat(wide(*(a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args)))
        if (theirs := error(eager, exact)) > NO_DIGITS:
            raise Refused("eager has no digits left at these sizes")
        how = {"target": TARGET, "time_budget": options.time_budget}
        try:
            ours, way = eqfuse.optimize(fn, args, **how).interpret(*args), "optimize"
        except eqfuse.errors.TraceError:  # Python looks at data: Dynamo makes graphs of what is between
            eqfuse.report(reset=True)
            ours, way = torch.compile(fn, backend=compile_graph, options={"run": "interpret", **how})(*args), "torch.compile"
            if not any(g.plans for g in eqfuse.report().graphs):
                raise
    return {"error": error(flat(ours), exact), "eager": theirs, "by": way}


def error(found, exact):
    """Largest difference, of the largest element that is finite; infinite where exact ones that are not finite are others."""
    worst = 0.0
    for x, y in zip(found, exact, strict=True):
        finite = y.isfinite()
        if x.shape != y.shape or not same(x[~finite], y[~finite]):
            return float("inf")
        if finite.any():
            worst = max(worst, float(((x - y)[finite].abs().max() / y[finite].abs().max().clamp_min(1e-30)).item()))
    return worst


def same(x, y):
    return bool(((x == y) | (x.isnan() & y.isnan())).all())


def shown(error):
    return f"{type(error).__name__}: {getattr(error, 'message', error)}"[:300]


def measured(what, case, options):
    """What one of the three finds, and how long it takes."""
    start = time.process_time()
    try:
        found = {"read": read, "plan": plan, "check": check}[what](case, options)
    except Refused as why:
        found = {"status": "none", "why": str(why)}
    except Exception as error:
        found = {"status": "error", "why": shown(error)}
    return {**found, "cpu_s": round(time.process_time() - start, 2)}


def child(what, case, options, pipe):
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS[what], SECONDS[what] + 5))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    pipe.send(measured(what, case, options))


def apart(what, case, options):
    """A measurement in a process of its own, forked from this one, which has torch and runs nothing."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(what, case, options, theirs))
    process.start()
    theirs.close()
    try:
        found = ours.recv()
    except EOFError:
        found = {"status": "limit", "why": f"ended by a limit of {SECONDS[what]} s of CPU time and {BYTES >> 30} GB"}
    process.join()
    return found


def blockers(rows):
    """Op -> programs in which it is left over, those in which nothing else is, and by set."""
    everywhere, alone, sets = Counter(), Counter(), {}
    for r in rows:
        for op in r["left"]:
            everywhere[op] += 1
            alone[op] += len(r["left"]) == 1
            sets.setdefault(op, Counter())[r["set"]] += 1
    return [{"op": op, "programs": n, "alone": alone[op], "sets": dict(sets[op])} for op, n in everywhere.most_common()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SETS:
        what = "a checkout" if name != "transformers" else "where it is installed"
        parser.add_argument(f"--{name}", type=Path, metavar="PATH", help=what)
    parser.add_argument("--only", default="", metavar="WORDS", help="programs whose set, group or name has this")
    parser.add_argument("--plan", action="store_true", help="plan them")
    parser.add_argument("--check", type=int, default=0, metavar="N", help="compare every N-th with float64, and nothing else")
    parser.add_argument("--time-budget", type=float, default=3.0, metavar="S", help="as optimize takes it")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/DATE-coverage.json")
    options = parser.parse_args()
    import torch  # before processes are forked

    import eqfuse.frontends  # noqa: F401

    torch.set_num_threads(1)
    environment = {**host("torch"), "commit": commit()}
    path = RESULTS / f"{environment['date'][:10]}-coverage.json"
    known = json.loads(path.read_text())["rows"] if options.save and path.exists() else []
    rows = {(r["set"], r["group"], r["program"]): r for r in known}
    for name, programs in SETS.items():
        root = getattr(options, name.replace("-", "_"))
        for k, (group, program, case) in enumerate(programs(root) if root else ()):
            if options.only not in f"{name} {group} {program}":
                continue
            key, here = (name, group, program), {"commit": environment["commit"]}
            if options.check:  # of these alone, and what else is known of them stays
                if k % options.check or not case.small:
                    continue
                row = {**rows.get(key, {"left": {}, "status": "none"}), "check": {**here, **apart("check", case, options)}}
            else:
                row = {**here, "left": {}, **apart("read", case, options)}
                if options.plan:
                    row["plan"] = apart("plan", case, options)
            rows[key] = {"set": name, "group": group, "program": program, **here, **row}
            more = (f"{n}: {row[n]}" for n in ("why", "plan", "check") if n in row)
            print(group, program, row["status"], *row["left"], *more, flush=True)
            if options.save:
                result = {"environment": environment, "target": TARGET, "rows": list(rows.values())}
                path.write_text(json.dumps(result, indent=1) + "\n")
    for b in blockers(rows.values()):
        print(*b.values())


if __name__ == "__main__":
    main()
