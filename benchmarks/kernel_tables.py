"""The tables of kernels by what the compiler made of them: beside public kernels, and of attention in all its kinds."""

from table_parts import machine, markdown

BAR = 1.05  # of the best public kernel


def instructions(result, path):
    """A file of instructions.py: for each job and architecture ours, and the best of the public variants by instructions and by time."""
    env = result["environment"]
    libraries = ", ".join(f"{name} {commit[:8]}" for name, commit in result["libraries"].items() if commit)
    when = path.stem.split("-")[3]
    parts = [f"### {env['date'][:10]}: instructions for a unit of work, beside public kernels, {when}"]
    parts.append(f"{libraries}; torch {env['torch']}, triton {env['triton']}; {machine(env)}; commit {env['commit']}.")
    rows, within, told = [], 0, 0
    for r in result["rows"]:
        ours = r["ours"]
        theirs = [t for t in r["theirs"] if "per_unit" in t and not t["spills"]]
        least = min(theirs, key=lambda t: t["per_unit"], default=None)
        fastest = min((t for t in theirs if t.get("us")), key=lambda t: t["us"], default=None)
        mine = ours.get("per_unit")
        ratio = mine / least["per_unit"] if mine and least else None
        told, within = told + (ratio is not None), within + (ratio is not None and ratio <= BAR)
        last = ours["kernels"][-1]
        rows.append([
            r["job"], r["arch"], f"{mine:.4g} / {r['unit']}" if mine else "-",
            f"{least['per_unit']:.4g} ({least['variant']})" if least else "-",
            f"{ratio:.2f}" if ratio else "-", *(resources(t) for t in (last, least)),
            f"{ours['modelled']:.0f}", us(ours), f"{us(fastest)} ({fastest['variant']})" if fastest else "-",
        ])  # fmt: skip
    header = "job|architecture|ours|best public|ratio|registers, shared kB, blocks, warps|of theirs|modelled us|static us|fastest public"
    parts += [markdown(header.split("|"), rows), f"{within} of {told} within {BAR} of the best public kernel by instructions."]
    if failed := sorted({f"{t['variant']} on {r['arch']} ({t['failed']})" for r in result["rows"] for t in r["theirs"] if "failed" in t}):
        parts.append("Not compiled: " + "; ".join(failed))
    return "\n\n".join(parts)


def us(row):
    return f"{row['us']:.0f}" if row.get("us") else "-"


def resources(row):
    spilled = f", {row['spills']} B spilled" if row and row["spills"] else ""
    return f"{row['registers']}, {row['shared'] / 1e3:.0f}, {row['resident']}, {row['warps']}{spilled}" if row else "-"


def attention(result, path):
    """A file of attention: what is planned for every kind."""
    env = result["environment"]
    rows = []
    for r in result["rows"]:
        if "us" not in r:
            rows.append([r["kind"], r["target"], *["-"] * 9, r["failed"]])
            continue
        kernels, check = r["kernels"], r.get("check")
        static = r.get("static_us")
        rows.append([
            r["kind"], r["target"], sizes(r["sizes"]), str(len(kernels)), str(max(k["passes"] for k in kernels)), f"{r['seen']:.2f}",
            f"{min(k['taken'] for k in kernels):.2f}", f"{r['us']:.1f}", f"{r['work'] / r['us'] / 1e6:.0f}",
            f"{r['work'] / static / 1e6:.0f}" if static else "-", f"{check['ours']:.1e}, {check['eager']:.1e}" if check else "-",
            "wrong" if check and not check["ok"] else "",
        ])  # fmt: skip
    parts = [f"### {env['date'][:10]}: attention in all its kinds", f"torch {env['torch']}, triton {env['triton']}; {machine(env)}."]
    header = "kind|target|sizes|kernels|passes|pairs seen|tiles visited|modelled us|TFLOP/s|static TFLOP/s|error, eager's|"
    parts.append(markdown(header.split("|"), rows))
    return "\n\n".join(parts)


def sizes(s):
    heads = f"{s['heads']}" if s["heads"] == s["key_heads"] else f"{s['heads']} over {s['key_heads']}"
    depth = f"{s['depth']} and {s['width']}" if s["width"] else f"{s['depth']}"
    return f"{s['batch']} x {heads} heads, {s['queries']} x {s['keys']}, {depth} deep"
