"""The kernels that people have: how many of public libraries run under eqfuse.testing as they are, and what is found.

    python benchmarks/kernels_of_others.py liger=/path/to/Liger-Kernel attorch=/path/to/attorch
    python benchmarks/kernels_of_others.py attorch=/path/to/attorch --only Softmax GLU
    python benchmarks/kernels_of_others.py lightllm=... lmdeploy=... mamba=... applied_ai=... xformers=... flash_attention=...
    python benchmarks/kernels_of_others.py ... --save       also write benchmarks/results/DATE-kernels-of-others.json, in which
                                                            functions that were not run this time stay as they are

Libraries are checkouts; nothing of them is changed or copied.  Each function is compared with a reference in torch (others/*.py), outputs
and gradients.  A failure is either a fault of theirs, which is described beside the case and shown once more by a plain check, or a false
alarm.  Exit 1 if a function does not start, is blamed without a known fault, or a known fault is not found.  Times are CPU time.
"""

import argparse
import importlib
import json
import re
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

import torch
from host import host
from others.few import LIBRARIES
from rich.console import Console
from tables import others_rows

from eqfuse.errors import AccuracyError, KernelBug, KernelError
from eqfuse.testing import assert_equivalent, interpreted_kernels
from eqfuse.testing.strategies import arguments

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ON_PATH = {"liger": "src", "flaggems": "src"}  # where the package is inside the checkout


def commit(checkout):
    asked = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def launches(case):
    """Launches of kernels in one call, so that what is compared is no fallback."""
    args = arguments(*case.args).example()
    with interpreted_kernels(sanitize=False) as seen:
        case.theirs(*args)
    return seen.count


def run(library, case):
    """One row of the result."""
    start = time.process_time()
    row = {"library": library, "function": case.name, "gradients": case.gradients, "started": True}
    try:
        agreement = assert_equivalent(
            case.reference,
            case.theirs,
            case.args,
            gradients=case.gradients,
            examples=case.examples,
            shrink_seconds=2.0,
            **case.options,
        )
        row["outcome"] = "not found" if case.fault else "passed" if launches(case) else "no kernel"
        row["notes"] = list(agreement.notes)
    except (AccuracyError, KernelBug) as error:
        known = case.fault and re.search(case.seen, str(error))
        row["outcome"], row["message"] = "fault" if known else "false alarm", str(error)
    except Exception as error:
        known = case.fault and re.search(case.seen, str(error))  # of the launcher
        row["started"], row["outcome"] = bool(known), "fault" if known else "not started"
        row["message"] = str(error) if known or isinstance(error, KernelError) else "".join(traceback.format_exception(error))[-3000:]
    if case.fault:
        row["fault"] = case.fault
        if case.shows is not None:
            with interpreted_kernels(sanitize=False, order=None), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if seen := case.shows():
                    row["theirs"], row["right"] = seen
                    if abs(seen[0] - seen[1]) <= 1e-6 * abs(seen[1]):
                        row["outcome"] = "not shown"
    row["cpu_s"] = round(time.process_time() - start, 2)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+", help="name=checkout, for the names in benchmarks/others")
    parser.add_argument("--only", nargs="*", help="functions whose names contain one of these")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--messages", action="store_true", help="print what was said about every failure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    console, rows, commits = Console(soft_wrap=True), [], {}
    for name, _, checkout in (text.partition("=") for text in options.libraries):
        root = Path(checkout).resolve()
        commits[name] = commit(root)
        sys.path.insert(0, str(root / ON_PATH.get(name, "")))
        with interpreted_kernels():  # some ask for a device when they are imported
            found = list(LIBRARIES[name]() if name in LIBRARIES else importlib.import_module(f"others.{name}").cases())
        for case in found:
            if options.only and not any(part in case.name for part in options.only):
                continue
            row = run(name, case)
            rows.append(row)
            colour = {"passed": "green", "fault": "yellow"}.get(row["outcome"], "red")
            console.print(f"[{colour}]{row['outcome']:12}[/] {name} {case.name} ({row['cpu_s']} s)", highlight=False)
            if options.messages or row["outcome"] in ("false alarm", "not started"):
                console.print(row.get("message", ""), markup=False, highlight=False)
    result = {"others": commits, "environment": host("numpy", "torch", "triton", "hypothesis"), "rows": rows}
    for line in others_rows(result):
        console.print(" | ".join(line), highlight=False)
    if options.save:
        path = RESULTS / f"{time.strftime('%Y-%m-%d')}-kernels-of-others.json"
        if path.exists():  # what was not run this time stays
            earlier = json.loads(path.read_text())
            new = {(r["library"], r["function"]): r for r in rows}
            result["others"] = earlier["others"] | commits
            result["rows"] = [new.pop((r["library"], r["function"]), r) for r in earlier["rows"]] + list(new.values())
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return int(any(r["outcome"] not in ("passed", "fault") for r in rows))


if __name__ == "__main__":
    sys.exit(main())
