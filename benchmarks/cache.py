"""Random corruptions of every kind of file in the cache: each process that meets one must live, and compute what is right.

    python benchmarks/cache.py 1000               that many corruptions, and a twentieth as many writers that are killed
    python benchmarks/cache.py 1000 --save        also write benchmarks/results/DATE-cache.json

Three programs fill a cache each: `optimize` for the CPU, a training step through `torch.compile`, `refine=2` for an H200.  A draw copies
one, corrupts one to three of its files, or a folder, and runs the program in a process of its own: either the files are corrupt when it
begins, or they become so between two calls of one process.  The result is compared with float64.  Findings are a process that a signal
ends, an exception, a wrong result, and a corrupt file that is still there afterwards.  Exit 1 if there are findings.

The processes are forked from one that has loaded torch and EqFuse, and neither planned nor run anything.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import torch

import eqfuse
from eqfuse.extract.kept import files

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120  # seconds that a process may take


# ---- what is done to a file --------------------------------------------------------------------------------------------------
def cut(path, rng):
    os.truncate(path, rng.randrange(max(path.stat().st_size, 1)))


def emptied(path, rng):
    os.truncate(path, 0)


def flipped(path, rng):
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 8, 64))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    _in_place(path, 0, bytes(data))


def zeroed(path, rng):
    size = path.stat().st_size
    start = rng.randrange(size)
    _in_place(path, start, bytes(rng.randint(1, size - start)))


def lengthened(path, rng):
    _in_place(path, path.stat().st_size, rng.randbytes(rng.choice((1, 64, 100_000))))


def swapped(path, rng):
    beside = sorted(p for p in path.parent.iterdir() if p.is_file() and p != path)
    other = rng.choice(beside or sorted(p for p in path.parent.rglob("*.plan")))
    aside = path.with_name("aside")
    for a, b in ((path, aside), (other, path), (aside, other)):
        a.rename(b)


def a_folder(path, rng):
    path.unlink()
    path.mkdir()
    if rng.random() < 0.5:
        (path / "file").write_text("a file")


def a_link(path, rng):
    there = path.parent.parent / f"there-{path.name}"
    if rng.random() < 0.5:
        path.rename(there)
    else:
        path.unlink()
    path.symlink_to(there)


def a_pipe(path, rng):
    path.unlink()
    os.mkfifo(path)


def permitted(path, rng):
    path.chmod(rng.choice((0o000, 0o200, 0o622, 0o666, 0o777)))


def removed(path, rng):
    path.unlink()


def _in_place(path, start, data):
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


OF_FILES = (cut, emptied, flipped, zeroed, lengthened, swapped, a_folder, a_link, a_pipe, permitted, removed)
STAYS = (a_folder,)  # nothing of the user's that could be more than a file is removed


# ---- what is done to a folder ------------------------------------------------------------------------------------------------
def open_to_others(path, rng):
    path.chmod(rng.choice((0o777, 0o770)))


def closed(path, rng):
    path.chmod(rng.choice((0o000, 0o500)))


def a_file(path, rng):
    shutil.rmtree(path)
    path.write_text("a file")


def linked(path, rng):
    there = path.with_name("there")
    path.rename(there)
    path.symlink_to(there)


def gone(path, rng):
    shutil.rmtree(path)


OF_FOLDERS = (open_to_others, closed, a_file, linked, gone)


# ---- what runs ---------------------------------------------------------------------------------------------------------------
def rows(x, w):
    return torch.softmax(x * 2, -1) * w


def step(x, w):
    loss = (torch.nn.functional.gelu(x @ w) ** 2).sum()
    return (loss, *torch.autograd.grad(loss, (x, w)))


def compiled_for_the_cpu(again):
    c = eqfuse.optimize(rows, (X, W), target="cpu")
    for _ in again():
        _compare(c(X, W), rows(X.double(), W.double()))


def training_step(again):
    x, w = (t.clone().requires_grad_() for t in (X, X.T[:, :5].contiguous()))
    exact = step(*(t.detach().double().requires_grad_() for t in (x, w)))

    def loss_of(x, w):
        return (torch.nn.functional.gelu(x @ w) ** 2).sum()

    c = torch.compile(loss_of, backend="eqfuse", options={"target": "cpu"})
    for _ in again():
        loss = c(x, w)
        for found, right in zip((loss, *torch.autograd.grad(loss, (x, w))), exact, strict=True):
            _compare(found, right)


def refined(again):
    c = eqfuse.optimize(rows, (X, W), target="h200", refine=2)
    for _ in again():
        _compare(c.interpret(X, W), rows(X.double(), W.double()))


RUNS = {"cpu": compiled_for_the_cpu, "training": training_step, "refined": refined}
X, W = torch.randn(7, 300, generator=torch.Generator().manual_seed(0)), torch.linspace(-1, 1, 300)


def _compare(found, exact):
    """A corrupt number is not within a few roundings of the largest value."""
    exact = exact.detach()
    torch.testing.assert_close(found.detach().double(), exact, rtol=0, atol=4e-6 * exact.abs().max().item())


def process(run, cache, rng=None, corrupt=None, kill_after=None):
    """Run a program in a process of its own: (how it ended, what it said).  ``corrupt`` is called between two calls."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            _child(run, cache, said.fileno(), corrupt)
        begun = time.monotonic()
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() - begun < PATIENCE:
            time.sleep(0.005)
        if ended[0] == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hangs", ""
        code = os.waitstatus_to_exitcode(ended[1])
        said.seek(0)
        return ("fine" if code == 0 else f"signal {-code}" if code < 0 else "exception"), said.read()


def _child(run, cache, said, corrupt):
    code = 1
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.environ["EQFUSE_CACHE_DIR"] = str(cache)

        def again():
            yield
            if corrupt:
                corrupt()
                yield

        with warnings.catch_warnings():
            warnings.simplefilter("default")
            RUNS[run](again)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# ---- draws -------------------------------------------------------------------------------------------------------------------
def kind_of(path):
    """What a file of the cache holds."""
    if path.suffix != ".plan":
        return {".so": "library", ".py": "module"}[path.suffix]
    data = json.loads(files.read_sealed(path, 1 << 30))
    kinds = {"plan": "plan", "best": "order", "judged": "judgement", "refined": "refinement", "saved": "saved values"}
    return next((kind for key, kind in kinds.items() if key in data), "graph")


def filled(folder):
    """A cache for each program, with the kinds of its files."""
    found = {}
    for run in RUNS:
        cache = folder / run
        ended, said = process(run, cache)
        if ended != "fine":
            raise SystemExit(f"{run}: {ended}\n{said}")
        found[run] = {p.relative_to(cache): kind_of(p) for p in sorted(cache.rglob("*")) if p.is_file()}
    return found


def draw(folder, kinds, seed, n):
    """One corruption: (run, when, [(kind, corruption)], how it ended, what it said)."""
    rng = random.Random(f"{seed} {n}")
    run = rng.choices(("cpu", "refined", "training"), (14, 4, 2))[0]
    when = rng.choice(("before", "before", "between"))
    cache = folder / f"copy-{n}" / "cache"
    shutil.copytree(folder / run, cache)
    by_kind = {}
    for path, kind in kinds[run].items():
        by_kind.setdefault(kind, []).append(path)
    todo = []
    if rng.random() < 0.1:
        place, what = rng.choice(("modules", "plans")), rng.choice(OF_FOLDERS)
        todo.append((f"folder of {place}", what, cache if place == "modules" else cache / "plans"))
    else:
        for _ in range(rng.choice((1, 1, 1, 3))):
            kind = rng.choice(sorted(by_kind))
            path = cache / rng.choice(by_kind[kind])
            if path not in [t[2] for t in todo]:
                todo.append((kind, rng.choice(OF_FILES), path))
        if any(what is swapped for _, what, _ in todo):
            todo = [t for t in todo if t[1] is swapped][:1]

    def corrupt():
        for _, what, path in todo:
            what(path, rng)

    if when == "before":
        corrupt()
    ended, said = process(run, cache, corrupt=corrupt if when == "between" else None)
    if ended == "fine" and when == "before" and run != "training" and not todo[0][0].startswith("folder"):  # of a graph not all is read
        for kind, what, path in todo:
            if what not in STAYS and not sound(path, folder / run / path.relative_to(cache)):
                ended = f"still corrupt: {kind}"
    cache.parent.chmod(0o700)
    shutil.rmtree(cache.parent)
    return run, when, [(kind, what.__name__) for kind, what, _ in todo], ended, said


def sound(path, before):
    """Whether a file is again as EqFuse writes it."""
    if path.is_symlink() or not path.is_file() or path.stat().st_mode & 0o022:
        return False
    return path.read_bytes() == before.read_bytes() if path.suffix == ".py" else files.read_sealed(path, 1 << 30) is not None


def killed(folder, seed, n):
    """A process that is killed while it fills a cache, and one that then uses it: (run, how the second ended, what it said)."""
    rng = random.Random(f"{seed} killed {n}")
    run = rng.choice(("cpu", "cpu", "cpu", "training"))
    cache = folder / f"killed-{n}"
    process(run, cache, kill_after=rng.uniform(0.05, 1.5))
    ended, said = process(run, cache)
    shutil.rmtree(cache, ignore_errors=True)
    return run, ended, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("draws", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    os.environ |= {"EQFUSE_CACHE": "1", "EQFUSE_TARGETS": os.devnull}
    torch.set_num_threads(1)
    for name in (
        "torch._dynamo", "torch._functorch.aot_autograd", "torch.export._trace", "eqfuse.backend", "eqfuse.planning",
        "eqfuse.runtime.executable",
    ):  # fmt: skip
        import_module(name)
    counts, ends, kills, findings = Counter(), Counter(), Counter(), []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eqfuse-cache-") as name, ProcessPoolExecutor(args.jobs, get_context("fork")) as pool:
        folder = Path(name)
        kinds = filled(folder)
        drawn = pool.map(partial(draw, folder, kinds, args.seed), range(args.draws))
        for n, (run, when, todo, ended, said) in enumerate(drawn):
            counts.update(f"{kind}: {what}" for kind, what in todo)
            ends[f"{run}, {when}: {ended}"] += 1
            if ended != "fine" or "Traceback" in said:
                findings.append({"draw": n, "run": run, "when": when, "corrupted": todo, "ended": ended, "said": said[-400:]})
                print(json.dumps(findings[-1])[:1500], flush=True)
        for n, (run, ended, said) in enumerate(pool.map(partial(killed, folder, args.seed), range(args.draws // 20))):
            kills[f"{run}: {ended}"] += 1
            if ended != "fine" or "Traceback" in said:
                findings.append({"killed": n, "run": run, "ended": ended, "said": said[-400:]})
                print(json.dumps(findings[-1])[:1500], flush=True)
    print(f"{args.draws} corruptions in {time.monotonic() - begun:.0f} s: {dict(ends)}; after a killed writer: {dict(kills)}")
    if args.save:
        path = ROOT / "benchmarks" / "results" / f"{datetime.date.today().isoformat()}-cache.json"
        data = {
            "draws": args.draws, "seed": args.seed, "torch": torch.__version__, "user": "root" if os.getuid() == 0 else "a user",
            "corruptions": dict(sorted(counts.items())), "ended": dict(sorted(ends.items())), "after_a_killed_writer": dict(kills),
            "findings": findings,
        }  # fmt: skip
        path.write_text(json.dumps(data, indent=1) + "\n")
        print(f"wrote {path.relative_to(ROOT)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
