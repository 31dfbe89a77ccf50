"""Our kernels beside public ones by what the compiler made of both: instructions for a unit of work, registers, and the static rate.

    python benchmarks/instructions.py tritonbench=PATH liger=PATH unsloth=PATH flash-attention=PATH lightllm=PATH
    python benchmarks/instructions.py ... --only attention --arch sm_90      some jobs, some architectures
    python benchmarks/instructions.py ... --save before                      also write benchmarks/results/DATE-WORD-instructions.json

Checkouts are the user's; a folder with a file COMMIT in place of a repository will do.  Nothing of them is copied: kernels are taken out
of their files by name (others/taken.py), in the variants that others/compiled.py lists, and compiled by the Triton that compiles ours,
without a GPU.  What was compiled before is not compiled again (--cache): its key is the source, the arguments, the versions and the code
that counts.

Instructions are those that all warps of a launch issue, by the machine code and the work (:mod:`eqfuse.machine`), masked loops as often as
they run.  For theirs and ours alike shared memory is taken to have no conflicts.
"""

import argparse
import hashlib
import inspect
import json
import subprocess
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from host import commit, host, write
from others import compiled, taken
from others.compiled import BATCH_HEADS, COLUMNS, DECODE, LENGTH, ROWS, TOKENS, VOCABULARY, Const, K, M, N

import eqfuse
from eqfuse.errors import CompileError
from eqfuse.extract.targets import load_target
from eqfuse.ir import dtypes
from eqfuse.machine import Work, disassemble, estimate
from eqfuse.machine.flow import innermost, loops
from eqfuse.runtime.aot import compile_kernel
from eqfuse.runtime.estimates import kernel_estimate
from eqfuse.tiles.program import Param

RESULTS = Path(__file__).parent / "results"
TARGETS = {"sm_80": "a100", "sm_90": "h100", "sm_100": "b200"}
BAR = 1.05


# ---- the jobs ---------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Job:
    """A program, its arguments (shapes; those of labels are integers), and its work: ``units`` of which instructions are told, operations
    of matrix products and bytes between device memory and the kernel that nothing avoids."""

    name: str
    fn: object
    shapes: tuple
    unit: str
    units: float
    flops: float
    device_bytes: float
    dtype: torch.dtype = torch.float16

    def args(self):
        of = {"labels": torch.int64}
        return [torch.empty(s[:-1] if s[-1] in of else s, dtype=of.get(s[-1], self.dtype), device="meta") for s in self.shapes]


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def causal(q, k, v):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return torch.softmax(s.masked_fill(~seen, float("-inf")), -1) @ v


def softmax(x):
    return torch.softmax(x, -1)


def rms_norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def layer_norm(x, w, b):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b)


def cross_entropy(x, labels):
    return torch.nn.functional.cross_entropy(x, labels, reduction="none")


def decode(q, k, v):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def jobs():
    for depth in (64, 128):
        shape, pairs = (1, BATCH_HEADS, LENGTH, depth), BATCH_HEADS * LENGTH * LENGTH
        moved = 8.0 * BATCH_HEADS * LENGTH * depth
        for name, fn, share in (("full", attention, 1.0), ("causal", causal, 0.5)):
            flops = 4.0 * pairs * depth * share
            yield Job(f"{name} attention, {depth} deep", fn, (shape,) * 3, "MFLOP", flops / 1e6, flops, moved, torch.bfloat16)
    flops = 2.0 * M * N * K
    yield Job("product", torch.matmul, ((M, K), (K, N)), "MFLOP", flops / 1e6, flops, 2.0 * (M * K + K * N + M * N))
    elements = float(ROWS * COLUMNS)
    yield Job("softmax", softmax, ((ROWS, COLUMNS),), "element", elements / 32, 0.0, 4 * elements)
    yield Job("rms norm", rms_norm, ((ROWS, COLUMNS), (COLUMNS,)), "element", elements / 32, 0.0, 4 * elements)
    yield Job("layer norm", layer_norm, ((ROWS, COLUMNS), (COLUMNS,), (COLUMNS,)), "element", elements / 32, 0.0, 4 * elements)
    elements = float(TOKENS * VOCABULARY)
    yield Job("cross-entropy", cross_entropy, ((TOKENS, VOCABULARY), (TOKENS, "labels")), "element", elements / 32, 0.0, 2 * elements)
    d = DECODE
    cache = (d["batch"], d["key_heads"], d["keys"], d["depth"])
    elements = 2.0 * d["batch"] * d["key_heads"] * d["keys"] * d["depth"]
    yield Job("grouped decode", decode, ((d["batch"], d["heads"], 1, d["depth"]), cache, cache), "element", elements / 32,
              16 / 4 * d["heads"] * 4.0 * d["batch"] * d["keys"] * d["depth"], 2 * elements)  # fmt: skip


# ---- counting -----------------------------------------------------------------------------------------------------------------------
def counted(job, report, found, blocks):
    """What is known of one launch."""
    row = {
        "registers": report.registers, "spills": report.spill_bytes, "shared": report.shared_bytes, "resident": report.occupancy,
        "warps": report.warps, "blocks": blocks,
    }  # fmt: skip
    if found is None:
        return row
    return row | {"per_unit": found.instructions * blocks / job.units, "us": found.us, "floor": list(found.floor), "reason": found.reason}


def theirs(job, kernel, path, target, folder):
    """One public kernel compiled and counted."""
    module = taken.module(path, kernel.name, folder)
    order = {name: k for k, name in enumerate(getattr(module, kernel.name).arg_names)}
    if missing := set(kernel.args) ^ set(order):
        return {"failed": f"other arguments: {', '.join(sorted(missing))}"}
    params = [param(name, kernel.args[name]) for name in sorted(order, key=order.get)]
    try:
        report = compile_kernel(module, kernel.name, params, target, kernel.warps, kernel.stages)
        if not report.occupancy:
            return {"failed": "; ".join(report.exceeded)}
        moved = max(kernel.moved() if kernel.moved else job.device_bytes, job.device_bytes)
        listing = disassemble(report.machine_code)
        work = Work(kernel.blocks, report.warps, report.occupancy, job.flops, moved, job.device_bytes, trips=trips_of(listing, kernel.edge))
        row = counted(job, report, estimate(listing, work, target), kernel.blocks)
        return row | {"per_unit": by_loop(listing), "us": None} if kernel.by_loop else row
    except CompileError as error:
        return {"failed": error.message.splitlines()[0][:200]}


def trips_of(listing, edge):
    """How often each inner loop runs: the longest is the one that masks, and runs ``edge`` times, the others do what is left."""
    inner = sorted(innermost(loops(listing)), key=lambda s: s.first)
    longest = max(inner, key=lambda s: s.last - s.first, default=None)
    return tuple(max(1, round(edge)) if s == longest else 0 for s in inner) if edge is not None and len(inner) > 1 else ()


def by_loop(listing):
    """Instructions for an element of 16 bits in the loop that has exponentials and loads, where the way through the kernel is not known."""
    found = []
    for span in innermost(loops(listing)):
        inside = [listing[k] for k in range(span.first, span.last + 1)]
        loaded = sum(x.lane_bytes for x in inside if x.name in ("LDG", "LDGSTS"))
        if loaded and any(x.opcode.startswith("MUFU.EX2") for x in inside):
            found.append(len(inside) / (loaded / 2))
    return min(found)


def param(name, value):
    if isinstance(value, Const):
        return Param(name, "constexpr", None, value.value)
    if isinstance(value, str):
        return Param(name, "pointer", {d.short: d for d in dtypes.DTYPES.values()}[value[1:]], None)
    return Param(name, "int", dtypes.float32 if isinstance(value, float) else dtypes.int32, None if isinstance(value, float) else value)


def ours(job, target):
    """The plan of a job, compiled and counted: a row for each kernel, and their sums."""
    c = eqfuse.optimize(job.fn, job.args(), target=target)
    rows = []
    for report, k in zip(c.compile(), c.plan.kernels, strict=True):
        found = kernel_estimate(report, [k], target)
        roles = " ".join(f"{a.name}={r}" for a, r in k.kernel.roles.items())
        blocks = min(k.cost.programs, k.kernel.persistent or k.cost.programs)
        rows.append({"kernel": k.kernel.name, "roles": roles, "stages": k.kernel.stages, **counted(job, report, found.static, blocks)})
    row = {"kernels": rows, "modelled": c.plan.estimated_us}
    if all("per_unit" in r for r in rows):
        row["per_unit"] = sum(r["per_unit"] for r in rows)
        times = [r["us"] for r in rows]
        row["us"] = None if None in times else sum(times)
    return row


# ---- a cache by what decides --------------------------------------------------------------------------------------------------------
class Cache:
    """Results in files, by the text of what they depend on."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        machine = sorted(Path(eqfuse.machine.__file__).parent.rglob("*.*"))
        text = b"".join(p.read_bytes() for p in machine if p.suffix in (".py", ".toml"))
        self.code = hashlib.sha256(text + "".join(map(inspect.getsource, (theirs, counted, by_loop))).encode()).hexdigest()
        self.versions = str(host("torch", "triton") | dict.fromkeys(("date", "load"), None))

    def get(self, key, make):
        path = self.folder / f"{hashlib.sha256(repr((self.code, self.versions, key)).encode()).hexdigest()[:32]}.json"
        if not path.exists():
            write(path, make())
        return json.loads(path.read_text())


def library_commit(root):
    """The commit of a checkout."""
    if (root / "COMMIT").exists():
        return (root / "COMMIT").read_text().strip()
    asked = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", help="name=checkout, for the names in others/compiled.py")
    parser.add_argument("--only", default="", metavar="WORDS", help="jobs whose names have this")
    parser.add_argument("--arch", nargs="*", default=["sm_80", "sm_90"], choices=list(TARGETS))
    parser.add_argument("--save", metavar="WORD", help="write benchmarks/results/DATE-WORD-instructions.json")
    parser.add_argument("--cache", default=Path(tempfile.gettempdir()) / "eqfuse-instructions", help="a folder for what was counted")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    roots = {name: Path(path).resolve() for name, _, path in (text.partition("=") for text in options.libraries)}
    cache, rows = Cache(options.cache), []
    environment = {**host("torch", "triton"), "commit": commit()}
    with tempfile.TemporaryDirectory() as folder:
        for job in jobs():
            if options.only not in job.name:
                continue
            for arch in options.arch:
                target = load_target(TARGETS[arch])
                mine = ours(job, target)
                public = []
                for kernel in compiled.kernels():
                    if kernel.job != job.name or arch not in kernel.archs or kernel.library not in roots:
                        continue
                    path = roots[kernel.library] / kernel.file
                    if not path.exists():
                        continue
                    key = (arch, asdict(job) | {"fn": None}, taken.source(path, kernel.name), str(kernel.args), kernel.warps, kernel.stages)
                    row = cache.get(key, lambda k=kernel, p=path: theirs(job, k, p, target, folder))  # noqa: B023
                    public.append({"library": kernel.library, "variant": kernel.variant, **row})
                rows.append({"job": job.name, "arch": arch, "unit": job.unit, "flops": job.flops, "bytes": job.device_bytes,
                             "ours": mine, "theirs": public})  # fmt: skip
                show(rows[-1])
                if options.save:
                    result = {"environment": environment, "libraries": {n: library_commit(r) for n, r in roots.items()}, "rows": rows}
                    write(RESULTS / f"{environment['date'][:10]}-{options.save}-instructions.json", result)


def show(row):
    """A job on one architecture, on the terminal."""
    best = min((r["per_unit"] for r in row["theirs"] if "per_unit" in r), default=None)
    mine = row["ours"].get("per_unit")
    ratio = f"{mine / best:.2f}" if mine and best else "-"
    print(f"{row['job']} {row['arch']}: {ratio} of the best", flush=True)
    for r in ({"variant": "ours", **row["ours"]}, *row["ours"]["kernels"], *row["theirs"]):
        what = r.get("variant") or f"  {r['kernel']} {r['roles']}"
        known = [k for k in ("per_unit", "us", "registers", "spills", "shared", "resident", "warps") if r.get(k) is not None]
        said = ", ".join(f"{k} {r[k]:.4g}" for k in known)
        print(f"   {what}: {said} {r.get('failed', '')} {r.get('reason', '')}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
