"""The table of recent architectures of HuggingFace."""

from table_parts import machine, markdown

WHAT = ("logits", "loss", "gradients")
WHO = ("eqfuse", "inductor")


def architectures(result, path):
    """Of each architecture how far it is from float64, what torch ran, and what compiling took."""
    env, rows = result["environment"], result["rows"]
    lengths = [str(n) for n in result["lengths"]]
    failed = [f"{r['architecture']} ({who}): {r[who]['why']}" for r in rows for who in WHO if "why" in r.get(who, {})]
    again = sorted({note for r in rows for g in r["eqfuse"].get("graphs", ()) for note in g["notes"] if "torch's partitioner" in note})
    parts = [
        f"### {env['date'][:10]}: recent architectures of HuggingFace, trained on a CPU",
        f"transformers {env['transformers']}, torch {env['torch']}; {machine(env)}; commit {env['commit']}. One tiny layer each, as their "
        f"configurations make them; {result['time_budget']:g} s for each graph and length. The largest error against float64, of the "
        f"largest element, over those of the lengths {', '.join(lengths)} that were reached: "
        f"of the tensor farthest from eager's error, which is in brackets; "
        f"weights after {result['steps']} steps. Kernels, and what torch runs: of all graphs, for the first sizes of each.",
        markdown(["architecture", *WHAT, "weights", "kernels", "in torch"], [_right(r) for r in rows]),
        "CPU seconds of compiling both passes: the first call for a length less the second, with the compilers it starts. A "
        "process each, one thread.",
        markdown(
            ["architecture", *(f"{n}, {who}" for n in lengths for who in WHO), "all, eqfuse / inductor"], [_cost(r, lengths) for r in rows]
        ),
    ]
    parts += [f"Not finished: {'; '.join(failed)}."] if failed else []
    parts += [f"Said of graphs with sizes that are symbols: {'; '.join(again)}."] if again else []
    return "\n\n".join(parts)


def _right(row):
    found, cells = row["eqfuse"], []
    for k in WHAT:
        cells.append(_error([n["checks"][k] for n in found.get("lengths", {}).values()]))
    cells.append(_error([found["weights"]] if "weights" in found else []))
    graphs = found.get("graphs", ())
    torch_ran = {}
    for op, _, n in (x for g in graphs for x in g["in_torch"]):
        torch_ran[op] = torch_ran.get(op, 0) + n
    whole = [f"a {g['kind']} graph: {why}" for g in graphs for why in g["reasons"]]
    kernels = str(sum(g["kernels"][0] for g in graphs if g["kernels"])) if graphs else "-"
    return [row["architecture"], *cells, kernels, "; ".join([*(f"{n} {op}" for op, n in torch_ran.items()), *whole]) or "-"]


def _error(checks):
    if not checks:
        return "-"
    c = max(checks, key=lambda c: (not c["right"], c["error"] / max(c["eager"], 1e-7)))
    return f"{c['error']:.0e} ({c['eager']:.0e})" + ("" if c["right"] else " WRONG")


def _cost(row, lengths):
    spent = {(n, who): row.get(who, {}).get("lengths", {}).get(n, {}).get("cpu_s") for n in lengths for who in WHO}
    all_of = [[spent[n, who] for n in lengths] for who in WHO]
    ratio = f"{sum(all_of[0]) / sum(all_of[1]):.1f}" if None not in (*all_of[0], *all_of[1]) else "-"
    return [row["architecture"], *("-" if s is None else f"{s:.1f}" for s in spent.values()), ratio]
