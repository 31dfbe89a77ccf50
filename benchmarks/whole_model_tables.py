"""The tables of whole models: planning them, starting again, training by their kernels."""

from table_parts import machine, markdown


def scaling(result, path):
    """CPU time and memory by the number of layers."""
    env, rows = result["environment"], []
    for r in result["rows"]:
        graphs = r.get("graphs", [])
        kernels = " + ".join(str(g["kernels"]) for g in graphs)
        regions = " + ".join(f"{g['regions']} ({g['distinct_regions']})" for g in graphs)
        by_time = "yes" if any("time" in g["stopped"] for g in graphs) else "no"
        figures = f"{r['cpu_s']:.1f}", f"{r['ours_cpu_s']:.1f}", f"{r['peak_bytes'] / 1e6:.0f}"
        rows.append([r["way"], str(r["layers"]), *figures, kernels, regions, by_time])
    ways = dict.fromkeys(r["way"] for r in result["rows"])
    most = {way: [r for r in result["rows"] if r["way"] == way] for way in ways}
    grown = "; ".join(
        f"{rs[-1]['layers']} layers take {rs[-1]['cpu_s'] / rs[0]['cpu_s']:.1f} times the CPU time of {rs[0]['layers']} ({way})"
        for way, rs in most.items()
        if len(rs) > 1
    )
    return "\n\n".join([
        f"### {env['date'][:10]}: a model of Llama-3-8B's shape, by its layers",
        f"{result['target']}, {result['time_budget_s']:g} s for the plan of each graph; torch {env['torch']}; {machine(env)}; "
        f"commit {env['commit']}. CPU seconds: all, and those in EqFuse; in brackets the different regions, which are planned "
        f"once. {grown}.",
        markdown(["way", "layers", "all s", "EqFuse s", "peak MB", "kernels", "regions (different)", "ended by time"], rows),
    ])  # fmt: skip


def trained(result, path):
    """Loss curves beside eager's."""
    env, rows = result["environment"], []
    for r in result["rows"]:
        kernels = " + ".join(str(sum(g["kernels"])) for g in r["graphs"])
        in_torch = sorted({name.removeprefix("aten.") for g in r["graphs"] for name in g["in_torch"]})
        whole = [why for g in r["graphs"] for why in g["reasons"]]
        torch_ran = sum(g["calls"] - g["by_kernels"] for g in r["graphs"])
        differ = sum(a != b for a, b in zip(r["eager"], r["losses"], strict=True))
        rows.append([
            r["model"], str(r["steps"]), f"{r['losses'][0]:.4f}", f"{r['losses'][-1]:.4f}", f"{r['worst']:.1e}", str(differ),
            f"{r['weights']:.1e}", kernels, ", ".join(in_torch) or "-", "; ".join(whole) or f"{torch_ran} calls", f"{r['cpu_s']:.1f}",
        ])  # fmt: skip
    return "\n\n".join([
        f"### {env['date'][:10]}: trained by kernels",
        f"torch {env['torch']}; {machine(env)}; commit {env['commit']}. Kernels for {result['target']}, of both passes. Worst: the largest "
        "relative difference of a loss to eager's; differ: losses that are not eager's to the last bit (a float32 has few of those); "
        "weights: how far those of the middle parameter are from eager's in the end, by the largest; CPU s: planning and all steps, "
        "without the C compiler.",
        markdown(
            ["model", "steps", "first loss", "last", "worst", "differ", "weights", "kernels", "in torch", "run by torch", "CPU s"], rows
        ),
    ])  # fmt: skip


def warm(result, path):
    """The first compilation of a process."""
    env, middle = result["environment"], result["medians"]
    columns = ("import_cpu_s", "first_cpu_s", "cpu_s", "modules_cpu_s")
    rows = [[n, str(len(result["runs"][n])), *(f"{m[k]:.2f}" if k in m else "" for k in columns)] for n, m in middle.items()]
    adds = 1e3 * (middle["eqfuse"]["cpu_s"] - middle["aot_eager"]["cpu_s"])
    what = "a training step" if result.get("training") else "inference"
    return "\n\n".join([
        f"### {env['date'][:10]}: a warm start, {what}",
        f"A layer of Llama through torch.compile, {result['target']}; torch {env['torch']}; {machine(env)}; commit {env['commit']}. "
        f"CPU seconds, medians. With its kernels on disk EqFuse adds {adds:.0f} ms to torch's own. Apart are its import, the first small "
        "graph, and executing the modules of the kernels, which their first call does.",
        markdown(["backend", "processes", "import s", "first small graph s", "the layer s", "modules s"], rows),
    ])  # fmt: skip
