"""Static and modelled times of our kernels beside numbers that others have published for the same jobs.

    python -m benchmarks.published                  compile, estimate, print; some minutes, no GPU
    python -m benchmarks.published --only matmul    jobs whose program or device has one of these words
    python -m benchmarks.published --write          put the table into docs/decisions/machine_code.md

Published kernels have tiles of their own, and where they say no version of Triton it is not known: a ratio says as much of the kernels as
of the model.  Nothing is fitted to these numbers; some were compared with while the static model was made ("seen"), others are held out.
"""

import argparse
import math
import statistics
import tomllib
from pathlib import Path

import torch

import eqfuse
from eqfuse.extract.targets import load_target

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "decisions" / "machine_code.md"
BEGIN = "<!-- published numbers: begin (python -m benchmarks.published --write) -->"
END = "<!-- published numbers: end -->"


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def causal_attention(q, k, v):
    n = q.shape[-2]
    hidden = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax((q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(hidden, -math.inf), -1) @ v


PROGRAMS = {
    "attention": attention,
    "causal_attention": causal_attention,
    "matmul": lambda a, b: a @ b,
    "rms_norm": lambda x, w: (x.float() * torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w,
    "layer_norm": lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, 1e-6),
    "softmax": lambda x: torch.softmax(x, -1),
    "relu_squared": lambda x: torch.relu(x) ** 2,
    "group_norm": lambda x: torch.nn.functional.group_norm(x, x.shape[1] // 4, eps=1e-6),
}


def operations(job):
    """Of the products of a job."""
    shapes = job["shapes"]
    if job["program"] == "matmul":
        (m, k), (_, n) = shapes
        return 2 * m * k * n
    b, h, n, d = shapes[0]
    return 4 * b * h * n * n * d / (2 if job["program"] == "causal_attention" else 1)


def jobs(only=()):
    """The jobs, and the sources by name."""
    data = tomllib.loads((HERE / "numbers.toml").read_text())
    chosen = [j for j in data["job"] if not only or any(word in f"{j['program']} {j['device']}" for word in only)]
    return chosen, data["source"]


def estimated(job):
    """Microseconds by the model and by machine code (None: not known), with a launch each; and what binds."""
    given = tuple(torch.empty(s, dtype=getattr(torch, job["dtype"]), device="meta") for s in job["shapes"])
    target = load_target(job["device"])
    c = eqfuse.optimize(PROGRAMS[job["program"]], given, target=target)
    found = [e.static for e in c.estimates()]
    if any(s is None or s.us is None for s in found):
        return c.plan.estimated_us, None, "-"
    longest = max(found, key=lambda s: s.us)
    return c.plan.estimated_us, sum(s.us for s in found) + target.launch_us * len(found), longest.floor[0]


def rows(chosen, sources, estimate=estimated):
    """One for each number: times as ratios of speed to what was published."""
    out = []
    for job in chosen:
        model, static, bound = estimate(job)
        for n in job["numbers"]:
            us = n["value"] if n["unit"] == "us" else 1e-6 * operations(job) / n["value"]
            shape = "x".join(map(str, job["shapes"][0]))
            row = {"job": f"{job['program']} {shape} {job['dtype']}", "device": job["device"], "bound": bound}
            row |= {"model": us / model, "static": us / static if static else None, "seen": n.get("seen", False)}
            values = [us, model, *([static] if static else [])]
            shown = values if n["unit"] == "us" else [1e-6 * operations(job) / v for v in values]
            out.append(row | {"shown": shown, "unit": n["unit"], "source": n["source"], "who": sources[n["source"]]["who"]})
            print(line(out[-1]), flush=True)
    return out


def line(r):
    """A row of the table."""
    published, model, *static = (f"{v:.0f}" if v >= 100 else f"{v:.1f}" for v in r["shown"])
    said = f"{static[0]} ({r['static']:.2f})" if static else "-"
    seen = "seen" if r["seen"] else "held out"
    whose = f"[{r['who']}][{r['source']}]"
    cells = (r["job"], r["device"], f"{published} {r['unit']}", f"{model} ({r['model']:.2f})", said, r["bound"], whose, seen)
    return f"| {' | '.join(cells)} |"


def summary(found):
    """The error of either, as a factor, over the numbers that were seen and over those that were not."""
    lines = []
    for seen, name in ((True, "seen"), (False, "held out")):
        of = [r for r in found if r["seen"] == seen and r["static"]]
        if of:
            said = ", ".join(f"{key} {math.exp(statistics.median(abs(math.log(r[key])) for r in of)):.2f}" for key in ("model", "static"))
            lines.append(f"{len(of)} numbers {name}: median factor of error {said}.")
    return " ".join(lines)


def table(found, sources):
    """In Markdown."""
    head = ["| job | device | published | model | static | bound by | whose | |", "| --- | --- | ---: | ---: | ---: | --- | --- | --- |"]
    used = {r["source"] for r in found}
    links = [f"[{name}]: {s['url']}" for name, s in sources.items() if name in used]
    conditions = [f"- [{s['who']}][{name}]: {s['conditions']}." for name, s in sources.items() if name in used]
    said = "In brackets: how many times as fast as what was published."
    return "\n".join([*head, *map(line, found), "", f"{said} {summary(found)}", "", *conditions, "", *links])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    chosen, sources = jobs(options.only)
    found = rows(chosen, sources)
    print(summary(found))
    if options.write:
        text = DOCUMENT.read_text()
        first, last = text.index(BEGIN) + len(BEGIN), text.index(END)
        DOCUMENT.write_text(f"{text[:first]}\n{table(found, sources)}\n{text[last:]}")


if __name__ == "__main__":
    main()
