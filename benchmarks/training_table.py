"""The table of training."""

from table_parts import machine, markdown


def training(result, path):
    """Both passes of a program, and what is saved between them."""
    env, rows = result["environment"], []
    for r in result["rows"]:
        cells = []
        for p in (r["forward"], r["backward"]):
            cells += [str(p["kernels"]), f"{p['us']:.0f}", f"{p['unfused_us']:.0f}", f"{p['bytes'] / p['compulsory_bytes']:.2f}"]
        saved = ("-" if n is None else f"{n / 1e6:.2f}" for n in (r["saved_bytes"], r["torch_saved"]))
        rows.append([r["program"].replace("_", " "), *cells, *saved])
    columns = ("kernels", "us", "unfused us", "of the least bytes")
    return "\n\n".join([
        f"### {env['date'][:10]}: training",
        f"{result['target']}, modelled; torch {env['torch']}; {machine(env)}; commit {env['commit']}. The bytes that a pass moves are "
        "given by the least possible. Saved: MB beside arguments and results; and what torch's min-cut partitioner saves of it.",
        markdown(["program", *(f"{p} {c}" for p in ("forward", "backward") for c in columns), "saved MB", "torch saves MB"], rows),
    ])  # fmt: skip
