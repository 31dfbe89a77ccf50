"""Times by the device's clock, with the spread; and the few numbers of the device that a model needs."""

import statistics
import subprocess
import time

import torch

WARM_S, MOST_S = 0.05, 0.2
REPEATS = (5, 40)


def rotations(given, l2_bytes, free_bytes):
    """Copies of the arguments that together are three times the cache, so that no call finds its inputs there."""
    size = sum(a.numel() * a.element_size() for a in given) or 1
    copies = max(1, min(64, -(-3 * l2_bytes // size), int(0.3 * free_bytes // size)))
    return [given, *([a.clone() for a in given] for _ in range(copies - 1))]


def time_us(f, inputs):
    """Microseconds of a call: median, 10th and 90th percentile; each repeat calls once with every copy of the inputs.  In a CUDA graph
    where that can be, so that what Python needs for a launch is not measured."""

    def once():
        for given in inputs:
            f(*given)

    once()
    torch.cuda.synchronize()
    run, how = once, "events"
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            once()
        run, how = graph.replay, "graph"
    except RuntimeError:
        torch.cuda.synchronize()
    end = time.monotonic() + WARM_S
    while time.monotonic() < end:
        run()
        torch.cuda.synchronize()
    times, end = [], time.monotonic() + MOST_S
    while len(times) < REPEATS[0] or (len(times) < REPEATS[1] and time.monotonic() < end):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        times.append(1e3 * start.elapsed_time(stop) / len(inputs))
    deciles = statistics.quantiles(times, n=10)
    return {"us": statistics.median(times), "p10": deciles[0], "p90": deciles[-1], "n": len(times), "how": how}


def interpreted_us(f, inputs):
    """The same where an interpreter stands for the device: one call."""
    start = time.perf_counter()
    f(*inputs[0])
    return {"us": 1e6 * (time.perf_counter() - start), "n": 1, "how": "interpreted"}


def _smi(what):
    try:
        command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() or None


def environment(device):
    """What a reader needs to compare two results."""
    import datetime
    import platform

    import triton

    found = {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "python": platform.python_version()}
    found |= {"torch": torch.__version__, "triton": triton.__version__, "device": "the CPU, interpreted"}
    if device == "cuda":
        p = torch.cuda.get_device_properties(0)
        found |= {"device": p.name, "cuda": torch.version.cuda, "multiprocessors": p.multi_processor_count, "memory": p.total_memory}
        found |= {"l2_bytes": p.L2_cache_size, "driver, power limit": _smi("driver_version,power.limit")}
    return found


def constants():
    """Reachable bandwidth (a copy, bytes read and written), products of 8192 (random numbers), the clock under that load, and a launch."""
    found = {}
    pair = [torch.randn(1 << 28, device="cuda"), torch.empty(1 << 28, device="cuda")]
    found["copy_gb_s"] = 2e-3 * (1 << 28) * 4 / time_us(lambda x, y: y.copy_(x), [pair])["us"]
    del pair
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    found["product_tflops"] = 2e-6 * 8192**3 / time_us(torch.matmul, [[a, b]])["us"]
    for _ in range(1000):  # so many that the device works while it is asked
        a @ b
    clock = _smi("clocks.sm")
    found["clock_ghz"] = 1e-3 * float(clock.splitlines()[0]) if clock else None
    torch.cuda.synchronize()
    small = torch.zeros(32, device="cuda")
    found["launch_us"] = time_us(lambda t: t.add_(1.0), [[small]] * 64)["us"]
    return found
