"""The tables of programs of public repositories."""

from collections import Counter
from statistics import geometric_mean

from table_parts import machine, markdown


def coverage(result, path):
    """The tables of a file of coverage.py: how many programs are read, what is left over, what is planned, what is right."""
    env, rows = result["environment"], result["rows"]
    groups = {}
    for r in rows:
        groups.setdefault((r["set"], r["group"]), []).append(r)
    commits = ", ".join(dict.fromkeys(r["commit"] for r in rows))
    parts = [
        f"### {env['date'][:10]}: programs of public repositories",
        f"torch {env['torch']}, python {env['python']}; {machine(env)}; commits {commits}. At their own sizes, without data. "
        "Refused: the front end has no meaning for something in it. Failed: ended by an error or a limit of CPU time before.",
        markdown(["set", "programs", "read", "refused", "failed", "seconds of CPU, median"], [_group(*g) for g in groups.items()]),
    ]
    if left := blockers(rows):
        parts += ["What is left over, in how many programs, and in how many of them it is all that is.", left]
    if why := Counter(_reason(r) for r in rows if r["status"] != "read" and not r["left"]):
        parts.append("Without an operator to blame: " + "; ".join(f"{n} {reason}" for reason, n in why.most_common()) + ".")
    parts += list(filter(None, (planned(groups, result["target"]), checked(rows))))
    return "\n\n".join(parts)


def _group(key, rows):
    name = " ".join(dict.fromkeys(key))
    count = Counter(r["status"] for r in rows)
    seconds = sorted(r["cpu_s"] for r in rows if "cpu_s" in r)
    middle = f"{seconds[len(seconds) // 2]:.1f}" if seconds else "-"
    return [name, *(str(n) for n in (len(rows), count["read"], count["refused"], len(rows) - count["read"] - count["refused"])), middle]


def _reason(row):
    return row.get("why", "").partition(": ")[2].split(";")[0][:90] or row.get("why", "")


def blockers(rows):
    """Each operator with its programs; of those where nothing else is left over some are named."""
    everywhere = Counter(op for r in rows for op in r["left"])
    body = []
    for op, n in everywhere.most_common():
        alone = [f"{r['group']} {r['program']}" for r in rows if list(r["left"]) == [op]]
        sets = Counter(r["set"] for r in rows if op in r["left"])
        body.append([f"`{op}`", str(n), str(len(alone)), ", ".join(f"{k} {m}" for k, m in sets.items())])
    return markdown(["left over", "programs", "alone", "where"], body) if body else ""


def planned(groups, target):
    """Plans, where they were asked for."""
    body = []
    for key, rows in groups.items():
        found = [r["plan"] for r in rows if "us" in r.get("plan", {})]
        if found:
            faster = geometric_mean(max(p["baseline_us"], 1e-3) / max(p["us"], 1e-3) for p in found)
            tried = sum("plan" in r for r in rows)
            numbers = [len(found), sum(p["library"] == 0 for p in found), *(sum(p[k] for p in found) for k in ("kernels", "library"))]
            fewer = geometric_mean(max(p["baseline_bytes"], 1) / max(p["bytes"], 1) for p in found)
            body.append([" ".join(dict.fromkeys(key)), str(tried), *map(str, numbers), f"{faster:.2f}", f"{fewer:.2f}"])
    header = "set|tried|planned|on generated kernels alone|kernels|operators in torch|op by op, x us|op by op, x bytes"
    text = f"Plans, modelled for {target}; the last two columns are geometric means, without what torch runs."
    return f"{text}\n\n{markdown(header.split('|'), body)}" if body else ""


def checked(rows):
    """Results in the interpreter beside float64."""
    tried = [r for r in rows if "check" in r]
    found = [r for r in tried if "error" in r["check"]]
    if not found:
        return ""
    worst = max(found, key=lambda r: r["check"]["error"] / max(r["check"]["eager"], 1e-7))
    others = Counter(r["check"].get("why", "") for r in tried if "error" not in r["check"])
    text = (
        f"At small sizes, in the interpreter, against float64: {len(found)} programs of {len(tried)} tried. The largest error, "
        f"of the largest element, is {max(r['check']['error'] for r in found):.1e} "
        f"(eager: {max(r['check']['eager'] for r in found):.1e}); "
        f"farthest from eager is {worst['group']} {worst['program']} with {worst['check']['error']:.1e} "
        f"(eager: {worst['check']['eager']:.1e})."
    )
    broken = [f"{r['group']} {r['program'].split()[0]}" for r in found if r["check"].get("by") == "torch.compile"]
    if broken:
        text += f" Through torch.compile, as Python looks at data in them: {', '.join(broken)}."
    return text + (f" Not compared: {'; '.join(f'{n} {why}' for why, n in others.most_common())}." if others else "")
