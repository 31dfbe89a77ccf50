"""The tables of a file of benchmarks/cpu: times on a processor, and what kernels reach of it."""

from table_parts import machine, markdown

PEERS = ("eager", "torch", "torch.compile")


def cpu(result, path):
    env, rows = result["environment"], result["rows"]
    software = ", ".join(f"{k} {env[k]}" for k in ("torch", "triton", "python", "compiler") if env.get(k))
    loads = f"{env['load']} before and {env['load_at_the_end']} at the end"
    parts = [f"### {env['date'][:10]}: kernels for a CPU, measured"]
    plans = f"; planned for {env['calibrated']}" if env.get("calibrated") else ""
    parts.append(f"{software}; {machine({**env, 'load': loads})}; commit {env['commit']}{plans}.")
    if rows:
        parts += [
            "float32, all in turns in one run. One thread: its processor time; more: time on the wall. The columns of peers say how many "
            "times faster ours is. `torch`: the operation that torch has for it, where it has one. Errors are against float64, of the "
            "largest element.",
            times(rows),
        ]
        if away := [f"{r['case']}, {threads_of(r['threads'])}: {why}" for r in rows for why in absences(r)]:
            parts.append("Not there: " + "; ".join(away) + ".")
        parts += ["Geometric means of a family beside the bar that was set and what was predicted before the first run."]
        parts += [bars(result["geomeans"])]
        if memory := [r for r in rows if r.get("added_bytes")]:
            parts += [
                "MB that a call of a new thread adds to the memory of the process at its highest, its result included.",
                added(memory),
            ]
    return "\n\n".join([*parts, *structured(result["structured"])])


def threads_of(n):
    return f"{n} thread{'s' * (n > 1)}"


def absences(row):
    return ([row["ended"]] if "ended" in row else []) + [f"{peer} ({why})" for peer, why in row.get("absent", {}).items()]


def times(rows):
    threads = sorted({r["threads"] for r in rows})
    header = ["case", "plan"]
    for n in threads:
        header += [f"ms, {threads_of(n)}", *PEERS]
    body = []
    for name in dict.fromkeys(r["case"] for r in rows):
        of = {r["threads"]: r for r in rows if r["case"] == name}
        first = next(iter(of.values()))
        line = [name, planned(first.get("plan"))]
        for n in threads:
            found = of.get(n, {}).get("times_ms", {})
            ours = found.get("eqfuse")
            line.append(f"{ours['median']:.2f} ({ours['low']:.2f}..{ours['high']:.2f})" if ours else "-")
            line += [f"{found[p]['median'] / ours['median']:.2f}" if ours and p in found else "-" for p in PEERS]
        errors = first.get("errors", {})
        more = [f"{p}: {t['median'] / first['times_ms']['eqfuse']['median']:.2f}" for p, t in first.get("times_ms", {}).items()
                if p not in (*PEERS, "eqfuse") and "eqfuse" in first["times_ms"]]  # fmt: skip
        line += ["; ".join(more) or "-", *(f"{errors[p]:.0e}" if p in errors else "-" for p in ("eqfuse", "eager"))]
        body.append(line)
    return markdown([*header, f"others, {threads_of(threads[0])}", "error", "eager's error"], body)


def planned(plan):
    if not plan:
        return "-"
    kernels = f"{plan['kernels']} kernel{'s' * (plan['kernels'] != 1)}"
    return kernels if not plan["calls"] else f"{kernels}, {plan['calls']} of the library"


def bars(means):
    header = ("family", "times faster than", "threads", "cases", "geometric mean", "bar", "reached", "predicted", "least")
    body = []
    for g in means:
        predicted = f"{g['predicted']:.2f}" if g["predicted"] and g["threads"] == 1 else "-"
        reached = "yes" if g["geomean"] >= g["bar"] else "no"
        of = (g["family"], g["peer"], str(g["threads"]), str(g["cases"]))
        body.append([*of, f"{g['geomean']:.2f}", f"{g['bar']:.2f}", reached, predicted, f"{g['least']:.2f}"])
    return markdown(header, body)


def added(rows):
    names = list(dict.fromkeys(p for r in rows for p in r["added_bytes"]))

    def megabytes(n):
        return "-" if n is None else f"{n / 1e6:.1f}" if n > 5e5 else "below 0.5"  # the system counts in steps of some 256 KB

    body = [[r["case"], str(r["threads"]), *(megabytes(r["added_bytes"].get(p)) for p in names)] for r in rows]
    return markdown(["case", "threads", *names], body)


# ---- fractions of the peaks --------------------------------------------------------------------------------------------------------
def structured(found):
    if not found:
        return []
    if "failed" in found:
        return [f"Peaks of the machine were not measured: {found['failed']}."]
    sizes = ", ".join(f"L{level} {size >> 10} KB" for level, size in sorted(found["caches"].items()))
    parts = [
        f"What kernels reach of the machine with one thread ({sizes}), after the experiments of *Composable and Modular Code Generation in "
        "MLIR* (arXiv 2202.03293): GB/s, and the part of a copy written by hand at the same size in the same run; theirs, on one core of a "
        "Xeon Gold 6154, behind it. A copy is a negation here.",
        moves(found),
        "GFLOP/s of square products, and the part of the multiply-adds in registers that a loop written by hand reaches in the same run "
        f"(theirs: {found['theirs']['matmul']['AB']} of 192 at best; torch.mm is the library's).",
        products(found),
    ]
    away = [(name, p.get("level", p.get("size")), why) for p in (*found["moves"], *found["products"]) for name, why in p["absent"].items()]
    if away:
        parts.append("Not measured: " + "; ".join(f"{name} at {at} ({why})" for name, at, why in away) + ".")
    return parts


def moves(found):
    theirs = {k: v for k, v in found["theirs"].items() if k != "matmul"}
    body = [
        [m["level"], f"{m['rows']}x{m['columns']}", f"{m['gb_s']['by hand']['median']:.0f}",
         *(f"{fraction(m['gb_s'], name)}; {theirs[name].get(m['level'], '-')}" for name in theirs)]
        for m in found["moves"]
    ]  # fmt: skip
    return markdown(["level", "matrix", "copy by hand", *(f"{name}; theirs" for name in theirs)], body)


def products(found):
    names = list(dict.fromkeys(n for p in found["products"] for n in p["gflop_s"] if n != "by hand"))
    rates = [(str(p["size"]), p["gflop_s"]) for p in found["products"]]
    body = [[size, f"{of['by hand']['median']:.0f}", *(fraction(of, n) for n in names)] for size, of in rates]
    return markdown(["size", "multiply-adds by hand", *names], body)


def fraction(rates, name):
    if name not in rates:
        return "-"
    return f"{rates[name]['median']:.3g} ({100 * rates[name]['median'] / rates['by hand']['median']:.0f} %)"
