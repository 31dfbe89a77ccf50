"""What the first `optimize` of a process costs, in CPU seconds, and what torch's own export of the same program costs without EqFuse.

    python benchmarks/first.py              medians of three fresh processes each

Attention at the shape of the table, on tensors without data.  `import torch` is not part of any time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

REPEATS = 3


def attention(q, k, v):
    return (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v


def arguments():
    import torch

    return tuple(torch.empty(1, 32, 4096, 128, device="meta", dtype=torch.float16) for _ in range(3))


def ours(target):
    """The first call, which imports of torch what `import torch` leaves out (sympy); a later call."""
    os.environ["EQFUSE_CACHE"] = "0"  # what planning costs
    args = arguments()
    start = time.process_time()
    import eqfuse

    eqfuse.optimize(attention, args, target=target)
    first = time.process_time() - start
    start = time.process_time()
    eqfuse.optimize(attention, args, target=target)
    return {"first_call_cpu_s": first, "later_call_cpu_s": time.process_time() - start}


def bare(_):
    """`torch.export` and its core ATen decompositions, where EqFuse is not imported."""
    import torch

    args = arguments()
    start = time.process_time()
    module = torch.nn.Module()
    module.forward = attention
    torch.export.export(module, args, strict=False).run_decompositions()
    return {"bare_export_cpu_s": time.process_time() - start}


def medians(target, repeats=REPEATS):
    """All figures, each from processes that do nothing else; `target` as for `optimize`."""
    found = {}
    for what in ("ours", "bare"):
        command = [sys.executable, "-W", "ignore", __file__, what, "--target", target]
        runs = [json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout) for _ in range(repeats)]
        found |= {k: round(statistics.median(r[k] for r in runs), 2) for k in runs[0]}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("ours", "bare"), help="one run in this process, as JSON")
    parser.add_argument("--target", default="h200")
    options = parser.parse_args()
    measured = {"ours": ours, "bare": bare}[options.what](options.target) if options.what else medians(options.target)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
