"""The kernels of the corpus as files: every program at its bench shapes, in its first type, planned for three targets.

    python tests/codegen/golden.py                     write tests/golden/<target>/<program>.py
    python tests/codegen/golden.py matmul attention    of these programs

A file is what runs: the plan, the helpers and kernels, and the launcher for the planned sizes.  Left out are the checks of arguments that
stand in every module.  Nothing in it comes from a clock, a path, a device or a hash, so what changes in it was changed in the sources.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import eqfuse
from eqfuse.codegen.host import host
from eqfuse.codegen.module import emit_kernels
from eqfuse.codegen.sizes import lengths
from eqfuse.runtime.generated import module_spec
from eqfuse.testing.programs import PROGRAMS

FOLDER = Path(__file__).resolve().parents[1] / "golden"
TARGETS = ("h200", "a100", "mi300x")  # the newest and the oldest of one maker's, and the other maker's


def text(plan) -> str:
    """A plan as it runs."""
    spec = module_spec(plan)
    shapes = {b.name: b.shape for b in spec.inputs}
    spec = replace(spec, fixed={x: shapes[x[0]][x[1]] for one in lengths(spec) for x in one.dimensions})
    return f"{emit_kernels(spec)}\n\n{host(spec)}\n"


def golden(name: str) -> Iterator[tuple[Path, str]]:
    """The files of a program and what they should hold: one saturation, as many plans as there are targets."""
    case = PROGRAMS[name]
    first = eqfuse.optimize(case.fn, case.args("bench", device="meta"), **case.options, target=TARGETS[0])
    for target in TARGETS:
        compiled = first if target == TARGETS[0] else first.replan(target)
        yield FOLDER / target / f"{name}.py", text(compiled.plan)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="program", help="all of them, if none is named")
    chosen = parser.parse_args().programs or list(PROGRAMS)
    if unknown := [name for name in chosen if name not in PROGRAMS]:
        parser.error(f"no program is called {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    written = 0
    for name in chosen:
        for path, wanted in golden(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text() != wanted:
                path.write_text(wanted)
                written += 1
                print(path.relative_to(FOLDER.parents[1]))
    for path in FOLDER.rglob("*.py"):
        if path.stem not in PROGRAMS or path.parent.name not in TARGETS:
            path.unlink()
            print(f"{path.relative_to(FOLDER.parents[1])} removed")
    print(f"{written} files changed; review them: git diff --stat tests/golden")


if __name__ == "__main__":
    main()
