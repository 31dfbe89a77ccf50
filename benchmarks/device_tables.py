"""The tables of a file of `python -m benchmarks.device keep`: ours beside others on a GPU, and what was said before beside the clock."""

import statistics

from device.kept import SDPA, best_other, family, geomean, priced_now, right, tiles, time_of, timed
from ranks import judged
from table_parts import markdown

CORPUS = {
    "rows": ("row_softmax", "log_softmax", "logsumexp", "softmax_entropy", "layernorm", "rmsnorm", "cross_entropy"),
    "products": ("rmsnorm_linear", "linear_gelu", "swiglu", "matmul"),
    "linear + cross-entropy": ("linear_cross_entropy", "linear_cross_entropy_few_rows"),
}
EXTRAS = ("alibi_prefill 4096", "softcap_prefill 4096", "window_prefill 4096")
PLAIN = {
    "full attention": ("corpus attention", "corpus attention_grouped", "corpus attention_normalised_inside", "global_prefill"),
    "causal attention": ("corpus attention_causal", "causal_prefill", "gqa_prefill"),
    "decode": ("corpus attention_decode", "causal_decode", "gqa_decode"),
}
NAMES = {SDPA: "torch's attention, best backend", "flex": "FlexAttention"}
ELSE = "-"


def device(result, path):
    """All sections of a file."""
    rows = priced_now(timed(result), path.parent, result["target"])
    parts = [f"### {result['environment']['date'][:10]}: measured on an {result['environment']['device']}", where(result), checks(result)]
    for said, table in (
        ("How many times faster ours is than others that compute the same, geometric means:", summary(rows)),
        (
            "The corpus at its bench sizes, microseconds. Modelled and static times are those said before the run, both with "
            f"{result['target']['launch_us']} us for each launch. The last column: the fastest of the others over ours.",
            corpus(result, rows),
        ),
        (
            "The ten attention operators of Neptune, microseconds; one request, heads of 128. `fails`: it refuses, or runs out of memory; "
            "a dash: not run.",
            operators(rows),
        ),
        ("Where another is faster:", losses(rows)),
        (
            "Ranks by the clock: the model as it was when they ran / static times / the model now, fitted to these kernels. They are "
            "those of the table of static ranks, kernels of one program that differ in tiles, warps and stages; each was compared with "
            "another that makes the same (the first of a program with itself), not with float64.",
            ranked(rows),
        ),
        ("Different programs beside each other, model / static:", across(rows)),
        ("Kinds of attention, microseconds; the table of attention in all its kinds has their sizes:", kinds(rows)),
        (
            "By hand, the same day, microseconds: the kernel of `row_softmax` with other numbers of programs, warps (w) and tiles (t), and "
            "that of `attention_decode` with other tiles of keys (rows), warps and stages (s).",
            experiments(result),
        ),
    ):
        parts += [said, table] if table else []
    return "\n\n".join(parts)


def where(result):
    """Device, versions, and what was measured of the device by itself."""
    env, measured, written = result["environment"], result["constants"], result["written"]
    driver, limit = env["driver, power limit"].split(", ")
    commits = ", ".join(dict.fromkeys(w["commit"] for w in written))
    said = f"torch {env['torch']}, triton {env['triton']}, python {env['python']}, driver {driver}, {float(limit):.0f} W; kernels of "
    said += f"{commits}, planned for {result['target']['name']}; static times by triton {written[0]['triton']}."
    middle = {key: statistics.median(x) for key, x in measured.items()}
    found = [f"a copy {middle['copy_gb_s']:.0f} GB/s (read and written)"]
    rates = {key.removesuffix(" gb/s"): x for key, x in result["experiments"].items() if key in ("sum gb/s", "fill gb/s")}
    found += [f"a {name} {x:.0f} GB/s" for name, x in rates.items()]
    products = measured["product_tflops"]
    found += [f"torch's products of 8192 {min(products):.0f} to {max(products):.0f} TFLOP/s"]
    found += [f"{middle['clock_ghz']:.2f} GHz while many of them run"] if "clock_ghz" in middle else []
    found += [f"a launch in a graph {middle['launch_us']:.1f} us"]
    return f"{said} Measured beside them: {', '.join(found)}."


def checks(result):
    """What was found right, by kind of case."""
    names = {
        "corpus": "corpus, four sizes", "types": "corpus, other element types, two sizes", "tiles": "other tiles of a program",
        "operators": "attention operators", "kinds": "kinds of attention", "random": "random programs",
    }  # fmt: skip
    found = {}
    for r in result["rows"]:
        kind = r["kind"].split(" ")[0]
        found.setdefault(kind if kind in names else "operators", []).append(r)
    table = [[names[kind], str(len(of)), str(sum(map(right, of)))] for kind, of in found.items()]
    parts = [markdown(("checked on the device", "cases", "right"), table)]
    if wrong := [f"{r['name']} ({why})" for r in result["rows"] for why in faults(r)]:
        parts.append(f"Beyond the bar ([method](#method)), and so not timed: {'; '.join(wrong)}. Errors are over the largest element.")
    return "\n\n".join(parts)


def faults(row):
    """What a check found wrong, one text for each output."""
    for size, outputs in row["check"].items():
        if isinstance(outputs, list):
            off = [o for o in outputs if not o["ok"]]
            yield from (f"{size}: {o['ours']:.1e}, eager's {o['eager']:.1e}" for o in off)
        else:
            yield f"{size}: {outputs}"


def groups(rows):
    """(programs, cases, peer, how many times faster ours is), of rows that were timed."""
    chosen = [(name, [r for r in rows if r["kind"] == "corpus" and r["program"] in of], ("torch.compile",)) for name, of in CORPUS.items()]
    for name, of in PLAIN.items():
        chosen.append((name, [r for r in rows if r["name"] in of or r["kind"] in of], (SDPA, "flex")))
    extras = [r for r in rows if r["name"] in EXTRAS]
    chosen.append(("causal attention, ALiBi, soft cap or window", extras, ("flex", "torch.compile")))
    out = []
    for name, of, peers in chosen:
        for peer in peers:
            ratios = [us / r["us"] for r in of if (us := time_of(r, peer))]
            if ratios:
                out.append((name, len(ratios), NAMES.get(peer, peer), geomean(ratios), min(ratios), max(ratios)))
    return out


def summary(rows):
    """The table of groups."""
    table = [
        [name, str(n), peer, f"{mean:.2f}", f"{low:.2f} to {high:.2f}" if n > 1 else ELSE]
        for name, n, peer, mean, low, high in groups(rows)
    ]
    return markdown(("programs", "cases", "times faster than", "mean", "from, to"), table)


def cell(row, name):
    """The time of a contender as text."""
    us = time_of(row, name)
    failed = name in row["times"] or (name == SDPA and any(peer.startswith(SDPA) for peer in row["times"]))
    return short(us) if us else "fails" if failed else ELSE


def short(us):
    return ELSE if us is None else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def lead(row):
    """The fastest of the others over ours, and which it is."""
    best = best_other(row)
    return f"{best[0] / row['us']:.2f} ({NAMES.get(best[1], best[1])})" if best else ELSE


def corpus(result, rows):
    by = {r["name"]: r for r in rows}
    table = []
    for r in (r for r in result["rows"] if r["kind"] == "corpus"):
        if found := by.get(r["name"]):
            t = found["times"]["ours"]
            others = [cell(found, name) for name in ("eager", "torch.compile", SDPA)]
            said = [short(found["modelled_us"]), short(found["whole_us"])]
            table.append([r["program"], short(found["us"]), f"{short(t['p10'])} to {short(t['p90'])}", *said, *others, lead(found)])
        else:
            table.append([r["program"], *[ELSE] * 8])
    header = ("program", "ours", "10th to 90th percentile", "modelled", "static", "eager", "torch.compile", NAMES[SDPA])
    return markdown((*header, "best other / ours"), table)


def operators(rows):
    peers = ("flex", "sdpa flash", "sdpa cudnn", "sdpa efficient", "torch.compile", "eager")
    table = []
    for r in (r for r in rows if family(r).startswith("operators")):
        name, length = r["name"].split(" ")
        said = [short(r["modelled_us"]), short(r["whole_us"]), f"{r['flops'] / r['us'] / 1e6:.0f}"]
        table.append([name, length, short(r["us"]), *said, *(cell(r, peer) for peer in peers), lead(r)])
    header = ("operator", "length", "ours", "modelled", "static", "TFLOP/s", *(NAMES.get(p, p) for p in peers), "best other / ours")
    return markdown(header, table)


def losses(rows):
    """Where another is faster, the worst first."""
    found = sorted((best[0] / r["us"], r["name"], r["us"], *best) for r in rows if (best := best_other(r)) and best[0] < r["us"])
    table = [[name, short(us), short(theirs), NAMES.get(peer, peer), f"{ratio:.2f}"] for ratio, name, us, theirs, peer in found]
    return markdown(("case", "ours us", "theirs us", "of", "theirs / ours"), table)


def ranked(rows):
    table = []
    for name, programs in tiles(rows).items():
        of = [("all", programs), *((p, {p: some}) for p, some in programs.items())]
        for program, some in of if len(programs) > 1 else of[1:]:
            said = [judged(some, key, "us") for key in ("modelled_us", "whole_us", "now_us")]
            times = [r["us"] for found in some.values() for r in found]
            spread = ELSE if program == "all" else f"{short(min(times))} to {short(max(times))}"
            table.append([name, program, str(said[0][0]), spread, *(" / ".join(f"{x[k]:.2f}" for x in said) for k in range(1, 6))])
    header = ("family", "program", "kernels", "us", "Spearman", "near the best", "pairs in order", "regret", "measured / said")
    return markdown(header, table)


def across(rows):
    rest = [r for r in rows if not r["kind"].startswith("tiles") and r["whole_us"]]
    table = []
    for name in dict.fromkeys(map(family, rest)):
        of = [r for r in rest if family(r) == name]
        found = [judged({name: of}, key, "us") for key in ("modelled_us", "whole_us")]
        off = [[r["us"] / r[key] for r in of] for key in ("modelled_us", "whole_us")]
        ranges = " / ".join(f"{min(x):.2f} to {max(x):.2f}" for x in off)
        table.append([name, str(len(of)), *(" / ".join(f"{f[k]:.2f}" for f in found) for k in (1, 5)), ranges])
    return markdown(("cases", "", "Spearman", "measured / said, median", "from, to"), table)


def kinds(rows):
    table = []
    for r in (r for r in rows if r["kind"] == "kinds"):
        eager = time_of(r, "eager")
        said = [short(r["us"]), short(r["modelled_us"]), short(r["whole_us"]), f"{r['flops'] / r['us'] / 1e6:.0f}"]
        table.append([r["name"].removeprefix("kind "), *said, cell(r, "eager"), f"{eager / r['us']:.1f}" if eager else ELSE])
    return markdown(("kind", "ours", "modelled", "static", "TFLOP/s", "eager", "eager / ours"), table)


def experiments(result):
    """Numbers of a family by hand: a row for each name but its last word, a column for each last word."""
    found = {}
    for name, us in result["experiments"].items():
        if not name.endswith("gb/s"):
            program, *rest = name.split(" ")
            found.setdefault(program, {}).setdefault(" ".join(rest[:-1]), {})[rest[-1]] = us
    tables = []
    for program, table in found.items():
        columns = list(dict.fromkeys(c for row in table.values() for c in row))
        body = [[name, *(short(row[c]) if c in row else ELSE for c in columns)] for name, row in table.items()]
        tables.append(markdown((program, *columns), body))
    return "\n\n".join(tables)
