"""Kernels for a CPU against eager, torch's own operations and torch.compile, turn by turn in one run; and what they reach of the machine.

    python -m benchmarks.cpu                      every case with one thread and with two, then the peaks of the machine (ten minutes)
    python -m benchmarks.cpu --quick              seven cases, one thread
    python -m benchmarks.cpu --only attention     cases whose names have one of these words ("structured": the peaks and fractions of them)
    python -m benchmarks.cpu --threads 1          only one thread
    python -m benchmarks.cpu --save               also write benchmarks/results/DATE-cpu.json, after every case

From the root of the repository.  The machine should have nothing else to do; its load average is in the data.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from eqfuse.cli.tables import show_heading, show_table
from eqfuse.errors import EqFuseError
from eqfuse.extract.targets import load_target

from ..host import commit, host, write
from . import structured
from .cases import FAMILIES, QUICK, cases

RESULTS = Path(__file__).parents[1] / "results"
SECONDS = 2.0


def child(names, threads, options, errors, cache, tick):
    """The rows of these cases, from processes with so many threads.  A case that ends its process has no times, and the next a new one."""
    left = list(names)
    # what is planned and compiled is kept between the processes of a run
    places = {"EQFUSE_CACHE": "1", "EQFUSE_CACHE_DIR": f"{cache}/eqfuse", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor-{threads}"}
    limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    environment = {**os.environ, **places, **limits}
    command = [sys.executable, "-W", "ignore", "-m", f"{__package__}.child", "--seconds", str(options.seconds)]
    command += ["--errors"] if errors else []
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    while left:
        current = None
        with subprocess.Popen(command, env=environment, **pipes) as process:
            process.stdin.write(json.dumps(left))
            process.stdin.close()
            for line in process.stdout:
                if not line.startswith("{"):
                    continue  # of a compiler, say
                said = json.loads(line)
                current = said.get("start", current)
                tick(len(names) - len(left) + said.get("part", 0.0), f"{threads} thread{'s' * (threads > 1)}: {current}")
                if "row" in said:
                    left.remove(current)
                    current = None
                    yield said["row"]
        if left:
            ended = current if current in left else left[0]
            left.remove(ended)
            how = f"its process ended with {process.returncode}"
            yield {"case": ended, "family": cases()[ended].family.name, "threads": threads, "ended": how}


def ratio(row, peer):
    """How many times faster than a peer; None where one of the two is not there."""
    times = row.get("times_ms", {})
    return times[peer]["median"] / times["eqfuse"]["median"] if peer in times and "eqfuse" in times else None


def geomeans(rows):
    """Of every family, number of threads and bar: the cases, the geometric mean of the ratios, the bar, and what was predicted."""
    found = []
    for family in FAMILIES:
        for peer, bar in family.bars.items():
            for threads in sorted({r["threads"] for r in rows}):
                ratios = [x for r in rows if (r["family"], r["threads"]) == (family.name, threads) and (x := ratio(r, peer))]
                if ratios:
                    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                    found.append({"family": family.name, "peer": peer, "threads": threads, "cases": len(ratios), "geomean": mean,
                                  "least": min(ratios), "bar": bar, "predicted": family.predicted.get(peer)})  # fmt: skip
    return found


def show(result):
    def times(row, peer):
        t = row.get("times_ms", {}).get(peer)
        return f"{t['median']:.2f}" if t else "-"

    def faster(row, peer):
        x = ratio(row, peer)
        return f"{x:.2f}" if x else "-"

    if result["rows"]:
        show_heading("times faster than each; ms of ours")
        body = [
            (r["case"], str(r["threads"]), times(r, "eqfuse"), *(faster(r, p) for p in ("eager", "torch", "torch.compile")),
             "; ".join(filter(None, (r.get("ended"), *(f"{k}: {v}" for k, v in r.get("absent", {}).items())))))
            for r in result["rows"]
        ]  # fmt: skip
        show_table(("case", "threads", "ms", "eager", "torch", "torch.compile", "not there"), body)
        show_heading("geometric means")
        numbers = ("geomean", "bar", "least")
        body = [(g["family"], g["peer"], str(g["threads"]), *(f"{g[k]:.2f}" for k in numbers)) for g in result["geomeans"]]
        show_table(("family", "times faster than", "threads", *numbers), body)
    if result["structured"]:
        structured.show(result["structured"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names have one of these words")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of timing, for each case (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="seven cases, one thread")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    options = parser.parse_args()
    words = options.only or [""]
    names = [n for n in cases() if any(w in n for w in words) and (n in QUICK or not options.quick)]
    threads = [1] if options.quick else options.threads
    with_peaks = any(w in "structured" for w in words)
    if not names and not with_peaks:
        parser.error(f"no such case; there are {', '.join(cases())} and structured")
    environment = host("torch", "triton", "numpy", "egglog") | {"commit": commit(), "compiler": structured.compiler_name()}
    environment["calibrated"] = getattr(load_target("cpu"), "measured", "")  # when and where, if plans are made for this machine
    result = {"environment": environment, "seconds": options.seconds, "rows": [], "geomeans": [], "structured": None}
    path = options.results / f"{environment['date'][:10]}-cpu.json"

    def keep():
        result["geomeans"] = geomeans(result["rows"])
        result["environment"]["load_at_the_end"] = round(os.getloadavg()[0], 1)
        if options.save:
            write(path, result)

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="eqfuse-") as cache,
        Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress,
    ):
        task = progress.add_task("", total=len(names) * len(threads) + with_peaks)
        for n in threads:
            before = len(result["rows"])

            def tick(done, text, before=before):
                progress.update(task, completed=before + done, description=text)

            for row in child(names, n, options, n == threads[0], cache, tick):
                result["rows"].append(row)
                keep()
        if with_peaks:
            progress.update(task, description="peaks of the machine")
            try:
                result["structured"] = structured.measured(quick=options.quick)
            except EqFuseError as error:  # of the compiler, say: what was timed is shown all the same
                result["structured"] = {"failed": str(error).splitlines()[0]}
            keep()
    show(result)
    if options.save:
        print(path)


if __name__ == "__main__":
    main()
