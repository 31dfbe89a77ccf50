"""The tables of layouts: the library, its rules, strides of arguments, placements."""

from table_parts import machine, markdown


def layouts(result, path):
    """The tables of a file of layouts.py."""
    env, found = result["environment"], result["summary"]
    software = ", ".join(f"{k} {env[k]}" for k in ("python", "numpy"))
    caught = f"{found['mutants_caught']} of {found['mutants']} mutants of the library caught; {found['cpu_seconds']} s of CPU time."
    rows = [[r["property"], *(str(r[k]) for k in ("draws", "disagreements", "results", "refused"))] for r in result["properties"]]
    return "\n\n".join([
        f"### {env['date'][:10]}: layouts against enumeration",
        f"{software}; {machine(env)}; commit {env['commit']}. {found['draws']} draws, {found['disagreements']} disagreements. {caught}",
        markdown(["property", "draws", "disagreements", "results", "refused"], rows),
        markdown(["operation", "per second"], [[name, str(rate)] for name, rate in result["per_second"].items()]),
    ])  # fmt: skip


def layout_rules(result, path):
    """The table of a file of layout_rules.py."""
    env = result["environment"]
    software = ", ".join(f"{k} {env[k]}" for k in ("python", "egglog"))
    words = ("draws", "equal", "same map", "less", "neither", "disagreements")
    columns = (*words, "median_nodes", "most_nodes", "places_compared", "cpu_seconds")
    head = ["", *(c.replace("_", " ") for c in columns), "most, of the bound"]
    rows = [[r["property"], *(str(r[c]) for c in columns), str(r["of_the_bound"] or "")] for r in result["properties"]]
    return "\n\n".join([
        f"### {env['date'][:10]}: rules on layouts against the direct algorithms",
        f"{software}; {machine(env)}; commit {env['commit']}. Smallest forms are that of the direct algorithm (equal), or another "
        "of its map. Where the rules know no layout, the library has one (less), or none either (neither).",
        markdown(head, rows),
    ])  # fmt: skip


def placements(result, path):
    """The tables of a file of placements.py: the choice where every device gets the result, and what else there is."""
    env, rows = result["environment"], []
    for r in result["rows"]:
        anywhere, everywhere = r["choices"]
        kinds = ", ".join(f"{n} {kind}" for kind, n in everywhere["collectives"].items())
        others = {a["what"]: f"{a['bytes'] / 1e6:.3g}" for a in r["alternatives"]}
        kept = [others.get(w, "") for w in ("no reduction merged from parts", "no addends", "everything computed by all devices")]
        sent = [f"{c['bytes'] / 1e6:.3g}" for c in (everywhere, anywhere)]
        times = [f"{us:.0f}" for us in (everywhere["moving_us"], everywhere["us"], r["kernels_us"])]
        times.append("yes" if everywhere["optimal"] else "no")
        rows.append([r["case"], str(r["devices"]), kinds, *sent, *kept, *times])
    header = ["case", "devices", "collectives", "MB sent", "result left spread", "nothing merged", "no addends", "all compute all"]
    header += ["moving us", "bound us", "kernels us", "proved"]
    alone = ", ".join(f"{name} {us:.0f}" for name, us in result["one_device_kernels_us"].items())
    return "\n\n".join([
        f"### {env['date'][:10]}: placements",
        f"{result['target']}, modelled; {machine(env)}; commit {env['commit']}. MB that each device sends, of the choice and of the best "
        "choices under one more condition. Bound: collectives, and computing as if everything were fused. Kernels: those planned for the "
        f"local programs where the result is everywhere, without collectives; on one device: {alone}.",
        markdown(header, rows),
    ])  # fmt: skip


def strides(result, path):
    """The table of a file of strides.py."""
    env, rows = result["environment"], []
    for r in result["rows"]:
        plans = [r["without"], r["with"]]
        rows.append([r["case"], f"{r['compulsory'] / 1e6:.1f}"])
        for p in plans:
            rows[-1] += [str(p["kernels"]), f"{p['us']:.1f}", f"{p['bytes'] / 1e6:.1f}", f"{p['sectors'] / 1e6:.2f}"]
        rows[-1].append(f"{r['with']['sectors'] / max(r['with']['in_one_piece'], 1):.2f}")
    faster = [r["without"]["us"] / r["with"]["us"] for r in result["rows"]]
    said = f"{sum(f > 1.01 for f in faster)} of {len(faster)} cases are faster for it, the most {max(faster):.1f} times."
    header = ["case", "compulsory MB"]
    header += [f"{how}: {what}" for how in ("as if without gaps", "with strides") for what in ("kernels", "us", "MB", "million sectors")]
    return "\n\n".join([
        f"### {env['date'][:10]}: strides of arguments",
        f"torch {env['torch']}, python {env['python']}; {machine(env)}; commit {env['commit']}. "
        f"Modelled for {result['target']} in float16: "
        "the plan that was made as if arguments had no gaps, and the one made with their strides, both priced for their strides. Sectors, "
        f"of 32 bytes: what the requests of all warps ask for, reloads included. {said}",
        markdown([*header, "x sectors of its bytes"], rows),
    ])  # fmt: skip
