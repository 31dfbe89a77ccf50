"""The tables of models through torch.compile."""

from collections import Counter

from table_parts import machine, markdown

KINDS = ("inference", "forward", "backward")
WHO = ("ours", "eager", "inductor")


def models(result, path):
    """Of each model whether it is right, and what a layer of it takes, ours, eager and Inductor's."""
    env, rows = result["environment"], result["rows"]
    commits = ", ".join(dict.fromkeys(r[k]["commit"] for r in rows for k in ("check", "layer") if k in r))
    checked, counted = (", ".join(f"{n} {k}" for k, n in env[what].items()) for what in ("checked", "counted"))
    parts = [
        f"### {env['date'][:10]}: models of HuggingFace through torch.compile",
        f"transformers {env['transformers']}, torch {env['torch']}; {machine(env)}; commits {commits}. As they are, float32. "
        f"Every kernel in the interpreter ({checked}) against float64: the largest error of the largest element (eager's); of the backward "
        "pass that of the gradient farthest from eager.",
        markdown(["model", *KINDS, "gradients"], [_right(r) for r in rows]),
        f"One layer, {env['target']} ({counted}; what a second layer adds to the plan of a model): kernels + what libraries run; MB that "
        "all of that moves. Eager: operators that torch dispatches and that are no views. "
        "Inductor's: [how it is counted](../backend/inductor.py).",
        markdown(["model", *(f"{kind} {who}" for kind in KINDS for who in WHO)], [_layer(r) for r in rows if "layer" in r]),
    ]
    library = Counter()
    for r in rows:
        for kind in KINDS:
            library.update(r.get("layer", {}).get(kind, {}).get("library", {}))
    if library:
        named = "; ".join(f"{n} {what.partition(':')[0]} ({what.partition(': ')[2]})" for what, n in library.most_common(12))
        parts.append(f"What torch runs in these layers, of all models and passes: {named}.")
    failed = [f"{r['model']}: {r[key]['why']}" for r in rows for key in ("check", "layer") if "why" in r.get(key, {})]
    left = [f"{r['model']}, {kind}: {why}" for r in rows for kind in KINDS for why in r.get("layer", {}).get(kind, {}).get("reasons", [])]
    ran = [f"{r['model']}: {why}" for r in rows for why in r.get("check", {}).get("in_torch", [])]
    parts += [f"Not counted: {'; '.join(failed + left)}."] if failed + left else []
    parts += [f"Graphs that torch ran in the check, as ours failed: {'; '.join(ran)}"] if ran else []
    return "\n\n".join(parts)


def _right(row):
    check = row.get("check", {"why": "not run"})
    if "why" in check:
        return [row["model"], *["-"] * 3, "failed" if "check" in row else "not run"]
    cells = [_error(check[k]) for k in KINDS]
    return [row["model"], *cells, str(check["backward"]["gradients"])]


def _error(c):
    """An error beside eager's; where eager has no digits either, the exact gradient is 0 (of a bias of keys, say)."""
    text = f"{c['error']:.0e} ({c['eager']:.0e})" if c["eager"] < 1 else "0 but for rounding"
    return text if c["right"] else f"{text} WRONG"


def _layer(row):
    cells = []
    for kind in KINDS:
        for who in WHO:
            found = row.get("layer", {}).get(kind, {}).get(who, {})
            outside = found.get("operators", 0)
            count = str(outside) if who == "eager" else f"{found.get('kernels', 0)} + {outside}"
            cells.append(f"{count}; {found['bytes'] / 1e6:.1f}" if found.get("bytes") else "-")
    return [row["model"], *cells]
