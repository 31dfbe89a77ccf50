"""The tables of static_ranking.py: how the model ranks kernels beside their machine code, before and now, and its terms beside it."""

import math
import statistics

from ranks import judged
from table_parts import machine, markdown

TARGETS = ("a100", "h100", "b200")


def ranking(result, path):
    """A file of static_ranking.py."""
    env = result["environment"]
    times = [r for r in result["rows"] if "static_us" in r]
    parts = [f"### {env['date'][:10]}: ranks of kernels by the model and by machine code, before -> now"]
    said = f"{len(result['rows'])} kernels of 14 programs compiled, {len(times)} with a static time (others spill or cannot be launched)"
    parts.append(f"{said}; triton {env['triton']}; {machine(env)}; models of {env.get('priced_before')} and {env['priced']}.")
    parts += [ranked(result), "Terms of the model now, over what the code has (medians; the spread is a median factor):", termwise(result)]
    return "\n\n".join(parts)


def groups(rows):
    """(family, target) -> the rows of each of its programs."""
    out = {}
    for r in rows:
        if "static_us" in r:
            out.setdefault((r["family"], r["target"]), {}).setdefault(r["program"], []).append(r)
    return out


TERMS = {"issue": "issue", "tensor": "matrix", "special": "special", "shared": "shared", "l2": "second level", "dram": "device memory"}


def ranked(result):
    """The table of correlation and regret by family and device, of the model before, if there is one, and of that now."""
    found = groups(result["rows"])
    keys = [k for k in ("before_us", "model_us") if any(k in r for r in result["rows"])]
    rows = []
    for family in dict.fromkeys(f for f, _ in found):
        for target in ("all", *TARGETS):
            mine = {(t, p): r for (f, t), programs in found.items() for p, r in programs.items() if f == family and target in ("all", t)}
            if mine:
                cells = [judged(mine, k, "static_us") for k in keys]
                rows.append((family, target, str(cells[0][0]), *(" -> ".join(f"{c[i]:.2f}" for c in cells) for i in range(1, 6))))
    return markdown(("family", "device", "kernels", "Spearman", "near the best", "pairs in order", "regret", "static / model"), rows)


def termwise(result):
    """The table of the model's terms beside the floors of the code."""
    table = []
    for family in dict.fromkeys(r["family"] for r in result["rows"]):
        for term, unit in TERMS.items():
            logs = [
                math.log(r["terms"][term] / r["floors"][unit])
                for r in result["rows"]
                if r["family"] == family and "terms" in r and r["terms"].get(term) and r["floors"].get(unit, 0) > 0.05 * r["static_us"]
            ]
            if logs:
                middle = statistics.median(logs)
                spread = statistics.median(abs(x - middle) for x in logs)
                table.append((family, term, str(len(logs)), f"{math.exp(middle):.2f}", f"{math.exp(spread):.2f}"))
    return markdown(("family", "term", "kernels", "model / code", "spread"), table)
