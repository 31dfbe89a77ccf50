"""The whole command line as data."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from .. import __version__
from ..extraction.methods import METHODS
from .cache import cache_command
from .calibrate import calibrate_command
from .commands import demo_command, explain_command, optimize_command, price_command, targets_command
from .extraction import extract_command
from .programs import shape_spec
from .rules import rules_command

DESCRIPTION = """\
EqFuse turns a plain PyTorch function into fused Triton kernels by equality saturation.
Nothing here needs a GPU."""

EXAMPLES = """\
examples:
  eqfuse demo                                        the whole path on naive attention, and times
  eqfuse optimize examples/attention.py:attention    program, saturation, plan
  eqfuse optimize model.py:block --shape x=1,4096,4096:bfloat16 --shape w=4096,4096:bfloat16 --source
  eqfuse optimize model.py:block --args make_inputs --check --save block_kernel.py
  eqfuse explain model.py:block --args make_inputs   which rules made the plan, and why the runner-up lost
  eqfuse explain model.py:block --why scores out     why two values share a kernel, or do not
  eqfuse price model.py:block --tile rows=16         bytes that every memory holds and moves
  eqfuse rules --family repair                       the rules of one family
  eqfuse rules check my_rules.py                     test every rule of a file on random arrays
  eqfuse extract graph.json --out chosen.json        the cheapest program of any e-graph (egraph-serialize)
  eqfuse targets h200                                what the cost model knows of a device
  eqfuse calibrate                                   measure this machine, for target="cpu"
  eqfuse cache                                       the plans that are kept on disk (clear: remove them)

environment:
  EQFUSE_DEBUG=N   1 plan, 2 + timings, 3 + rules fired, 4 + source, 5 + e-graph and kernels (docs/debug.md)
  EQFUSE_TARGET=X  the device that plans are for by default, such as h200 or the path of a .toml file
  EQFUSE_CACHE=0   keep nothing on disk, and read nothing: plan and compile anew

exit codes:
  0 done    1 an error, or a check that failed    2 wrong usage    130 interrupted"""

PROGRAM_HELP = """\
The file is executed, as `python FILE` would do it, and the function is run once on tensors without data:
name only files that you trust.
The arguments that fix shapes and element types come from --shape, or from a function of the
file named by --args that returns a tuple of tensors; without either, from its function example_args()."""


def parser() -> argparse.ArgumentParser:
    """The whole command line as data."""
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(prog="eqfuse", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=raw)
    top.add_argument("--version", action="version", version=f"eqfuse {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        p = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", formatter_class=raw)
        p.set_defaults(run=run)
        return p

    def takes_program(p: argparse.ArgumentParser) -> None:
        p.epilog = PROGRAM_HELP
        p.add_argument("program", metavar="FILE:FUNCTION", help="a Python file, which is executed, and a function (or nn.Module) in it")
        source = p.add_mutually_exclusive_group()
        source.add_argument("--shape", action="append", default=[], metavar="NAME=DIMS[:DTYPE]", type=shape_spec,
                            help="an argument, such as q=1,32,4096,128:float16 (default float32); repeat per argument")  # fmt: skip
        source.add_argument("--args", metavar="NAME", help="a function of the file that returns the example arguments")
        p.add_argument("--target", default="auto", help="device to plan for (default: the GPU at hand, else cpu; see: eqfuse targets)")
        p.add_argument("--licence", default="real", choices=("exact", "real", "approx"),
                       help="which equalities may be used (default %(default)s: those of real numbers)")  # fmt: skip

    p = command("optimize", "plan and emit the kernels of a program", optimize_command)
    takes_program(p)
    p.add_argument("--source", action="store_true", help="print the Triton module")
    p.add_argument("--check", action="store_true", help="run the emitted Triton in its interpreter, at reduced sizes")
    p.add_argument("--compile", metavar="ARCH", action="append", default=[], help="compile for sm_80, sm_90, sm_100 or gfx942")
    p.add_argument("--no-spills", action="store_true", help="compile the plan for its target, and plan again with smaller tiles for "
                   "kernels that spill registers")  # fmt: skip
    p.add_argument("--refine", metavar="K", type=int, default=0, help="compile so many candidates of each kernel, and take the best by "
                   "machine code (seconds for each; for a CPU by its clock)")  # fmt: skip
    p.add_argument("--tune", action="store_true", help="order candidates by the clock of the GPU at hand")
    p.add_argument("--save", metavar="OUT.py", type=Path, help="write a standalone module (needs only torch and triton)")
    p.add_argument("--overwrite", action="store_true", help="let --save and --graph replace a file that EqFuse did not write")
    p.add_argument("--graph", metavar="OUT.json", type=Path, help="write the e-graph, for `eqfuse extract` and other tools "
                   "(docs/extraction.md); OUT.dot: a picture of it")  # fmt: skip
    p.add_argument("--json", action="store_true", help="print one JSON object instead of text")

    p = command("explain", "say which rules made the plan, what it saves, and why the runner-up lost", explain_command)
    takes_program(p)
    p.add_argument("--why", nargs=2, metavar=("A", "B"), help="only: why two values share a kernel or do not; a value is an input, "
                   "an output, a variable of the source, or a line as in model.py:12")  # fmt: skip
    p.add_argument("--layouts", action="store_true", help="only: who holds the tensors of each kernel in device memory, shared memory and "
                   "registers; compiles the kernels")  # fmt: skip
    p.add_argument("--costs", action="store_true", help="also what each step and each rule saves (a search for each step, "
                   "a saturation and a search for each rule)")  # fmt: skip
    p.add_argument("--json", action="store_true", help="as JSON (docs/explain.md has the schema)")
    p.add_argument("--html", metavar="OUT.html", type=Path, help="write a page to be read without the code: the program before and after, "
                   "each kernel with its equations, rules, source and roofline")  # fmt: skip
    p.add_argument("--overwrite", action="store_true", help="let --html replace a file that is there")

    p = command("price", "count what every memory of a device holds and moves", price_command)
    takes_program(p)
    p.add_argument("--tile", action="append", default=[], metavar="[LEVEL.]AXIS=N", type=_tile, help="another tile than was planned: of "
                   "the memory where the tiles of programs lie, or of any (docs/price.md); repeat per axis")  # fmt: skip
    p.add_argument("--json", action="store_true")

    p = command("rules", "list the rewrite rules, or test them on random arrays", rules_command)
    p.add_argument("action", nargs="?", default="list", choices=("list", "check"))
    p.add_argument("file", nargs="?", type=Path, help="a Python file with rules of your own, which is executed: only these")
    p.add_argument("--family", help="only this family")
    p.add_argument("--name", action="append", default=[], help="only this rule; repeat for more")
    p.add_argument("--examples", type=int, metavar="N", help="examples for each rule (default 200; 400 for the rules of a file)")
    p.add_argument("--json", action="store_true")

    p = command("extract", "choose the cheapest program of an e-graph in a file, whatever its language", extract_command)
    p.add_argument("file", type=Path, metavar="FILE.json", help="an e-graph in the format of egraph-serialize (docs/extraction.md)")
    p.add_argument("--method", default="exact", choices=tuple(METHODS), help="; ".join(f"{n}: {m.says}" for n, m in METHODS.items()))
    p.add_argument("--time-limit", type=float, default=10.0, metavar="S", help="seconds that exact may take (default %(default)g)")
    p.add_argument("--root", action="append", default=[], metavar="CLASS",
                   help="a class that is wanted, instead of the file's; repeat for more")  # fmt: skip
    p.add_argument("--out", type=Path, metavar="OUT.json", help="write the selection: costs, proof, gap, and the node of each class")
    p.add_argument("--dot", type=Path, metavar="OUT.dot", help="write a picture for graphviz, what is chosen in bold")
    p.add_argument("--overwrite", action="store_true", help="let --out and --dot replace a file that is there")
    p.add_argument("--show", action="store_true", help="print what is chosen, a line for each class")
    p.add_argument("--json", action="store_true", help="print the selection as JSON")

    p = command("targets", "list the devices that plans are made for", targets_command)
    p.add_argument("name", nargs="?", help="show one in full")
    p.add_argument("--json", action="store_true")

    p = command("calibrate", 'measure this machine\'s caches, products and functions, for plans with target="cpu"', calibrate_command)
    p.add_argument("--output", type=Path, metavar="OUT.toml", help='write this file, in place of the one that target="cpu" reads')
    p.add_argument("--json", action="store_true", help="print the target as one JSON object")

    p = command("cache", "show or clear the plans that are kept on disk", cache_command)
    p.add_argument("action", nargs="?", default="show", choices=("show", "clear"))
    p.add_argument("--json", action="store_true")

    said = "run the whole path on naive attention at Llama-3-8B prefill shape, and time a few programs on this machine"
    p = command("demo", said, demo_command)
    p.add_argument("--target", default="h200")
    p.add_argument("--tokens", type=_positive, default=4096, help="sequence length (default %(default)s)")
    p.add_argument("--no-measure", dest="measure", action="store_false", help="without the times at the end, a minute of them")
    return top


def _tile(text: str) -> tuple[str, str, int]:
    """``l2.rows=64`` -> ("l2", "rows", 64); no level is ``""``."""
    name, _, size = text.partition("=")
    level, _, axis = name.rpartition(".")
    if not axis:
        raise argparse.ArgumentTypeError(f"{text!r} names no axis")
    return level, axis, _positive(size)


def _positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)
