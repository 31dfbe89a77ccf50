"""The table of a file of digits.py: errors of reductions, scans, norms and powers on each target, beside eager's."""

from table_parts import machine, markdown


def digits(result, path):
    """A row for each program and length, a column for each target: ours / eager's; in bold what is over the promise."""
    env, found = result["environment"], {}
    for r in result["rows"]:
        text = f"{r['ours']:.1e} / {r['eager']:.1e}"
        found.setdefault((r["program"], r["n"]), {})[r["target"]] = f"**{text}**" if r["over"] else text
    targets = list(dict.fromkeys(r["target"] for r in result["rows"]))
    programs = list(dict.fromkeys(r["program"] for r in result["rows"]))
    order = sorted(found, key=lambda k: (programs.index(k[0]), k[1]))
    rows = [[name, str(n), *(found[name, n].get(t, "-") for t in targets)] for name, n in order]
    over = [f"`{r['program']}` of {r['n']} on {r['target']} ({r['over']})" for r in result["rows"] if r["over"]]
    said = (
        "The largest error against float64, relative to the largest result, ours / eager's (torch on the CPU, float32): data uniform, "
        f"normal, and normal around 10, 100 and 1e4, {result['seeds']} seeds each; GPUs in Triton's interpreter.  The promise is twice "
        "eager's error or four units in the last place (4.8e-7), draw by draw."
    )
    parts = [f"### {env['date'][:10]}: digits of reductions, scans, norms and powers", f"{machine(env)}; commit {env['commit']}.", said]
    parts.append(markdown(["program", "n", *targets], rows))
    parts.append(f"Over the promise (bold): {'; '.join(over)}." if over else "None is over the promise.")
    return "\n\n".join(parts)
