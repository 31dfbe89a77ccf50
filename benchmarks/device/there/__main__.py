"""Run what is in this folder: correctness, then constants, then times; most important first, in bounded time.

    python -m there                   25 minutes; go on where a run was cut short (results.json)
    python -m there --minutes 10      less
    python -m there --interpret       small sizes in Triton's interpreter, without a GPU: whether everything works; where EqFuse is
                                      installed its repairs are used, without which some kernels of bfloat16 come out wrong
    python -m there --only WORD       cases whose names have it

results.json is written after every case.  Exit 1 where a kernel was wrong.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
RESULTS = FOLDER / "results.json"
LIMIT_S = {"environment": 120, "constants": 120, "check": 90, "time": 60, "warm": 180, "peers": 60}
UNTIL = {"check": 0.4, "time": 0.75, "warm": 0.9, "peers": 1.0}  # of the time that there is
INTERPRETED = 10  # times as long where an interpreter stands for the device
CORES = max(1, len(os.sched_getaffinity(0)) - 2)
PARALLEL = {"check": min(12, CORES), "warm": CORES}  # processes of stages in which nothing is timed


class Run:
    def __init__(self, options, manifest):
        self.options = options
        self.limits = {stage: s * (INTERPRETED if options.interpret else 1) for stage, s in LIMIT_S.items()}
        self.begun = time.monotonic()
        self.results = {"manifest": manifest["written"], "rows": {}}
        if RESULTS.exists():
            before = json.loads(RESULTS.read_text())
            if before["manifest"] != manifest["written"]:
                raise SystemExit(f"{RESULTS} is of other kernels; move it away")
            self.results = before

    def left(self, stage):
        """Seconds until a stage should end."""
        return 60 * self.options.minutes * UNTIL.get(stage, 1.0) - (time.monotonic() - self.begun)

    def save(self):
        part = RESULTS.with_suffix(".part")
        part.write_text(json.dumps(self.results, indent=1) + "\n")
        part.replace(RESULTS)

    def stage(self, stage, names, parallel=1):
        """Run a stage for these cases, in so many processes; each case is given up after its time."""
        names = [n for n in names if stage not in self.results["rows"].get(n, {})]
        parts = [names[k::parallel] for k in range(parallel)]
        lock = threading.Lock()
        threads = [threading.Thread(target=self._process, args=(stage, part, lock)) for part in parts if part]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def _process(self, stage, names, lock):
        left = list(names)
        while left and self.left(stage) > 0:
            command = [sys.executable, "-W", "ignore", "-m", f"{__package__}.work", stage, *["--interpret"] * self.options.interpret]
            with (FOLDER / "errors.log").open("a") as errors:
                process = subprocess.Popen(command, cwd=FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
            process.stdin.write(json.dumps(left))
            process.stdin.close()
            lines = queue.Queue()
            threading.Thread(target=_lines, args=(process.stdout, lines), daemon=True).start()
            current, ended = left[0], "its process ended"
            deadline = time.monotonic() + self.limits[stage] + 60  # imports
            while True:
                try:
                    line = lines.get(timeout=max(0.1, min(deadline, time.monotonic() + self.left(stage)) - time.monotonic()))
                except queue.Empty:
                    ended = None if self.left(stage) <= 0 else f"it took longer than {self.limits[stage]} s"
                    process.kill()
                    break
                if line is None:
                    break
                told = json.loads(line)
                deadline = time.monotonic() + self.limits[stage]
                current = told.get("start", current)
                if "result" in told:
                    left.remove(told["case"])
                    with lock:
                        self._keep(stage, told["case"], told["result"])
            process.wait()
            if left and ended and current in left:
                left.remove(current)
                with lock:
                    self._keep(stage, current, {"failed": f"{ended} ({process.returncode})"})
            elif not ended:
                return

    def _keep(self, stage, name, result):
        self.results["rows"].setdefault(name, {})[stage] = result
        print(f"{time.monotonic() - self.begun:6.0f} s  {stage:6s} {name}: {short(stage, result)}", flush=True)
        self.save()


def _lines(stream, lines):
    for line in stream:
        if line.startswith("{"):
            lines.put(line)
    lines.put(None)


def right(row):
    """Whether kernels were found right at some size, and wrong at none: float64 may not fit the memory at the largest."""
    found = {size: r for size, r in row.get("check", {}).items() if not (isinstance(r, str) and r.startswith("again"))}
    return bool(found) and "failed" not in found and all(isinstance(r, list) and all(o["ok"] for o in r) for r in found.values())


def short(stage, result):
    """A result on one line."""
    if stage == "check" and "failed" not in result:
        told = {size: r if isinstance(r, str) else "ok" if all(o["ok"] for o in r) else f"WRONG {r}" for size, r in result.items()}
        return ", ".join(f"{size} {r}" for size, r in told.items())
    if stage in ("time", "peers") and "failed" not in result:
        return ", ".join(f"{n} {t['us']:.1f}" if "us" in t else f"{n} -" for n, t in result.items())
    return str(result)[:200]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--interpret", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ.setdefault("TRITON_CACHE_DIR", str(FOLDER / "cache" / "triton"))  # what is compiled is found again by the next stage
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(FOLDER / "cache" / "inductor"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    timed = "small" if options.interpret else "bench"
    cases = [c for c in manifest["cases"] if options.only in c["name"] and (timed in c["files"] or not options.interpret)]
    run = Run(options, manifest)
    rows = run.results["rows"]
    names = [c["name"] for c in cases]
    run.stage("environment", ["device"])
    run.stage("check", names, 1 if options.interpret else PARALLEL["check"])
    again = [n for n in names if any(isinstance(r, str) and r.startswith("again") for r in rows.get(n, {}).get("check", {}).values())]
    for n in again:  # there was not memory enough for several at a time
        del rows[n]["check"]
    run.stage("check", again)
    if not options.interpret:
        run.stage("constants", ["device"])
    good = [n for n in names if right(rows.get(n, {}))]
    run.stage("time", [c["name"] for c in cases if c["name"] in good and timed in c["files"] and c["source"] != "data"])
    compared = [c["name"] for c in cases if c["name"] in good and not c["alone"]]
    if not options.interpret:
        run.stage("warm", compared, PARALLEL["warm"])
        run.stage("peers", [n for n in compared if "warm" in rows[n]])
    wrong = [n for n in names if "check" in rows.get(n, {}) and not right(rows[n])]
    print(f"{len(good)} of {len(names)} right, {sum('time' in rows.get(n, {}) for n in names)} timed; {RESULTS}")
    if options.interpret and wrong:
        print(f"on {rows['device']['environment']['device']}:")
    for n in wrong:
        print(f"not right: {n}: {short('check', rows[n]['check'])}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
