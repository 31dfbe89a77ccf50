"""The pictures in docs/design.md: one small program in every representation, as a real run has it.

    python docs/pictures.py            print them
    python docs/pictures.py --write    put them into design.md

``x - max x`` of a row softmax is the value that is followed.  A line that is not found, or found twice, is an error.
"""

import re
import sys
from functools import cache
from pathlib import Path

PAGE = Path(__file__).with_name("design.md")
ROWS, LONG, SHORT = 4096, 40000, 512  # a row of 40000 floats does not stay on chip, one of 512 does


def softmax(x):
    shifted = x - x.amax(-1, keepdim=True)
    weights = shifted.exp()
    return weights / weights.sum(-1, keepdim=True)


@cache
def compiled(length, *fusion):
    import torch

    import eqfuse

    return eqfuse.optimize(softmax, (torch.empty(ROWS, length, device="meta"),), target="h200", fusion=list(fusion))


def line(text, pattern):
    """The one line of a text in which a pattern occurs.  A loop may be printed twice, with and without masks: equal lines count once."""
    found = list(dict.fromkeys(s.strip() for s in text.splitlines() if re.search(pattern, s)))
    if len(found) != 1:
        raise SystemExit(f"{pattern}: {len(found)} lines")
    return found[0]


def columns(rows):
    """Rows of cells as a block of text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(["```text", *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows), "```"])


def forms(graph, cls):
    """The forms of a class, each with the rule that made it; ``x7`` is class 7, which only rules made."""
    from eqfuse.explain.forms import Forms
    from eqfuse.extract.names import Names

    names, form = Names(graph), Forms(graph).form
    return "  |  ".join(names.text(n, form, 0) + (f"  ({n.rule})" if n.rule else "") for n in graph.classes[cls])


def value():
    """``x - max x`` in the last loop, which knows the maximum, and in the first, where the maximum is a running value."""
    c = compiled(LONG)
    (kernel,) = [k.kernel for k in c.plan.kernels]
    loads = {k for k, n in enumerate(kernel.nodes) if n.op == "load"}
    sums = [k for k, n in enumerate(kernel.nodes) if n.op == "map" and n.attrs == ("add",) and loads & set(n.args)]
    (known,) = [k for k in sums if kernel.nodes[k].rule is None]
    (running,) = [k for k in sums if k != known]
    subtractions = re.findall(r"^ +(\w+): \w+\[(?:rows/\d+, )?cols/\d+\] = sub", str(c.plan.kernels[0].tiles), re.MULTILINE)
    first, last = subtractions  # of whole tiles, one in each loop
    rows = [
        ("PyTorch", line(Path(__file__).read_text(), r"^    shifted = ")),
        ("term", line(str(c.program), r"= x \+ t2$")),
        *(("class", f"{kernel.nodes[k].cls} = {forms(c.graph, kernel.nodes[k].cls)}") for k in (known, running)),
        *(("kernel node", line(str(kernel), rf"^ *%{k}\[")) for k in (known, running)),
        *(("tile statement", line(str(c.plan.kernels[0].tiles), rf"^ +{name}: ")) for name in (last, first)),
        *(("Triton", line(c.source, rf"^ +{name} = ")) for name in (last, first)),
    ]
    return columns([("" if k and rows[k - 1][0] == level else level, text) for k, (level, text) in enumerate(rows)])


def egraph():
    """Every class but constants, with its forms."""
    from eqfuse.extract.names import Names

    graph = compiled(LONG).graph
    shown = [c for c, nodes in enumerate(graph.classes) if nodes[0].op not in ("const", "acc")]
    return columns([(str(c), Names(graph).title(c), f"= {forms(graph, c)}") for c in shown])


def cuts():
    """The plan, and the plan with one more cut: what each kernel loads, keeps on chip and stores."""
    from eqfuse.extract.names import Names

    rows = [("", "kernel", "loads", "on chip", "stores")]
    for title, c in (("the plan", compiled(LONG)), ("out and sum apart", compiled(LONG, ("forbid", "out", "sum")))):
        names = Names(c.graph)
        for kernel in [k.kernel for k in c.plan.kernels]:
            roots = {r.node for r in kernel.roots}
            loads = [names.label(n.cls) for n in kernel.nodes if n.op == "load"]
            made = [n for k, n in enumerate(kernel.nodes) if n.op != "load" and k not in roots]
            inside = [names.label(n.cls) for n in made if n.rule is None and n.op != "acc"]
            inside.append(f"+ {sum(n.rule is not None for n in made)} nodes of rules")
            stores = [names.label(kernel.nodes[k].cls) for k in sorted(roots)]
            rows.append((title, kernel.name, *map(" ".join, (loads, inside, stores))))
            title = ""
    return columns(rows)


def kernel():
    """A tile program, and each of its statements as the kernel has it."""
    c = compiled(SHORT)
    (k,) = c.plan.kernels
    printed = body(c.source, k.kernel.name)
    rows = []
    for statement in str(k.tiles).splitlines():
        name = re.match(r"\s+(\w+): ", statement)
        start = f"{name[1]} = " if name else "tl.store(" if rows else "pid ="
        while printed and not printed[0].startswith(start):
            rows.append(("", printed.pop(0)))
        rows.append((statement, printed.pop(0)))
    digits = re.compile(r"(\d\.\d{4})\d+")  # of long numbers the first
    return columns([tuple(digits.sub(r"\1", cell) for cell in row) for row in rows])


def body(source, name):
    """The statements of a kernel, without its signature and docstring."""
    import ast

    (function,) = [f for f in ast.parse(source).body if isinstance(f, ast.FunctionDef) and f.name == name]
    return [ast.get_source_segment(source, s) for s in function.body[1:]]


PICTURES = {f.__name__: f for f in (value, egraph, cuts, kernel)}


def page(text):
    """The page with its pictures as they are now."""
    return re.sub(r"(<!-- picture: (\w+) .*?-->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{PICTURES[m[2]]()}\n{m[3]}", text, flags=re.DOTALL)


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(PAGE.read_text()))
    else:
        print(*(f() for f in PICTURES.values()), sep="\n")
