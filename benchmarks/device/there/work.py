"""One process of a run: cases by name from standard input, a line of JSON for each start and each result.  A kernel that breaks the device
ends this process and not the run."""

import contextlib
import json
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
INTERPRETED = "--interpret" in sys.argv
if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported

import torch  # noqa: E402

from . import checks, clock, peers  # noqa: E402

NOT_REPAIRED = "by Triton alone, which is wrong for some programs (products of bfloat16): install EqFuse, which repairs it"
DEVICE = "cpu" if INTERPRETED else "cuda"
TIMED = "small" if INTERPRETED else "bench"


def repairs():
    """What repairs Triton's interpreter, where EqFuse is installed: as it is, it multiplies the bits of bfloat16, among other things."""
    if INTERPRETED:
        with contextlib.suppress(ImportError):
            from eqfuse.runtime.interpreter_patches import patched_interpreter

            return patched_interpreter
    return None


def environment():
    """What a reader needs to compare two results."""
    found = clock.environment(DEVICE)
    return found if repairs() or not INTERPRETED else found | {"device": f"{found['device']} {NOT_REPAIRED}"}


def said(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]


def lost():
    """Whether the device answers no more, as after an illegal access: all that this process does with it then fails.  Else frees memory."""
    if DEVICE == "cuda":
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except RuntimeError:
            return True
    return False


def checked(case):
    """The kernels of a case at each of its sizes."""
    found = {}
    for size in [TIMED] if INTERPRETED else sorted(case["files"], reverse=True):
        try:
            found[size] = checks.check(case, size, FOLDER, DEVICE)
        except torch.OutOfMemoryError:
            found[size] = "again: out of memory"
        except Exception as error:  # a kernel that does not compile, or cannot be launched, is a result of its case
            found[size] = said(error)
        if lost():
            break
    return found


def timed(case, contenders):
    """Microseconds of each contender on the same tensors."""
    given = checks.drawn(case, TIMED, DEVICE)
    inputs = [given]
    if DEVICE == "cuda":
        inputs = clock.rotations(given, torch.cuda.get_device_properties(0).L2_cache_size, torch.cuda.mem_get_info()[0])
    found = {}
    for name, f in contenders.items():
        try:
            found[name] = clock.time_us(f, inputs) if DEVICE == "cuda" else clock.interpreted_us(f, inputs)
        except Exception as error:  # that a contender cannot run is a result
            found[name] = {"failed": said(error)}
        if lost():
            break
    return found


def ours(case):
    return {"ours": checks.module(FOLDER, case["files"][TIMED]["file"]).run}


def warmed(case):
    """Compile what compiles, so that it is on disk when it is timed."""
    given = checks.drawn(case, TIMED, DEVICE)
    for f in peers.heavy(case).values():
        try:
            f(*given)
        except Exception:  # said when it is timed
            continue
    return True


STAGES = {
    "constants": lambda case: clock.constants() if DEVICE == "cuda" else {},
    "environment": lambda case: environment(),
    "check": checked,
    "time": lambda case: timed(case, ours(case) | peers.light(case, DEVICE)) if not case["alone"] else timed(case, ours(case)),
    "warm": warmed,
    "peers": lambda case: timed(case, peers.heavy(case)),
}


def main():
    stage = sys.argv[1]
    cases = {c["name"]: c for c in json.loads((FOLDER / "manifest.json").read_text())["cases"]}
    with (repairs() or contextlib.nullcontext)():
        for name in json.load(sys.stdin):
            print(json.dumps({"start": name}), flush=True)
            print(json.dumps({"case": name, "result": STAGES[stage](cases.get(name))}), flush=True)
            if lost():
                sys.exit("the device is lost")  # another process goes on


if __name__ == "__main__":
    main()
