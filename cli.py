"""The command line: ``eqfuse optimize | explain | rules | targets | demo``.

Heavy libraries are imported inside the commands, so that ``--help`` and usage errors answer at once.
Exit codes: 0 done, 1 an :class:`~eqfuse.errors.EqFuseError` or a failed check, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import EqFuseError, OptionError, SourceError

if TYPE_CHECKING:
    import torch

    from .compiled import Compiled

DESCRIPTION = """\
EqFuse turns a plain PyTorch function into fused Triton kernels by equality saturation.
Nothing here needs a GPU."""

EXAMPLES = """\
examples:
  eqfuse demo                                        the whole path on naive attention
  eqfuse optimize examples/attention.py:attention    program, saturation, plan
  eqfuse optimize model.py:block --shape x=1,4096,4096:bfloat16 --shape w=4096,4096:bfloat16 --source
  eqfuse optimize model.py:block --args make_inputs --check --save block_kernel.py
  eqfuse explain model.py:block --args make_inputs   which rules made the plan, and why the runner-up lost
  eqfuse explain model.py:block --why scores out     why two values share a kernel, or do not
  eqfuse rules --family repair                       the rules of one family
  eqfuse rules check my_rules.py                     test every rule of a file on random arrays
  eqfuse targets h200                                what the cost model knows of a device

environment:
  EQFUSE_DEBUG=N   1 plan, 2 + timings, 3 + rules fired, 4 + source, 5 + e-graph and kernels (docs/debug.md)

exit codes:
  0 done    1 an error, or a check that failed    2 wrong usage    130 interrupted"""

PROGRAM_HELP = """\
The file is executed, as `python FILE` would do it, and the function is run once on tensors without data:
name only files that you trust.
The arguments that fix shapes and element types come from --shape, or from a function of the
file named by --args that returns a tuple of tensors; without either, from its function example_args()."""


class UsageError(Exception):
    """Something on the command line does not name what it should; exit code 2.  ``cure`` says what to try."""

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message + (f"\n  try: {cure}" if cure else ""))


# ---- parsing -----------------------------------------------------------------------------------------------------------------
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
        p.add_argument("--target", default="h200", help="device to plan for (default %(default)s; see: eqfuse targets)")
        p.add_argument("--licence", default="real", choices=("exact", "real", "approx"),
                       help="which equalities may be used (default %(default)s: those of real numbers)")  # fmt: skip

    p = command("optimize", "plan and emit the kernels of a program", optimize_command)
    takes_program(p)
    p.add_argument("--source", action="store_true", help="print the Triton module")
    p.add_argument("--check", action="store_true", help="run the emitted Triton in its interpreter, at reduced sizes")
    p.add_argument("--compile", metavar="ARCH", action="append", default=[], help="compile for sm_80, sm_90, sm_100 or gfx942")
    p.add_argument("--no-spills", action="store_true", help="compile the plan for its target, and plan again with smaller tiles for "
                   "kernels that spill registers")  # fmt: skip
    p.add_argument("--save", metavar="OUT.py", type=Path, help="write a standalone module (needs only torch and triton)")
    p.add_argument("--overwrite", action="store_true", help="let --save replace a file that EqFuse did not write")
    p.add_argument("--json", action="store_true", help="print one JSON object instead of text")

    p = command("explain", "say which rules made the plan, what it saves, and why the runner-up lost", explain_command)
    takes_program(p)
    p.add_argument("--why", nargs=2, metavar=("A", "B"), help="only: why two values share a kernel or do not; a value is an input, "
                   "an output, a variable of the source, or a line as in model.py:12")  # fmt: skip
    p.add_argument("--costs", action="store_true", help="also what each step and each rule saves (a search for each step, "
                   "a saturation and a search for each rule)")  # fmt: skip
    p.add_argument("--json", action="store_true", help="as JSON (docs/explain.md has the schema)")

    p = command("rules", "list the rewrite rules, or test them on random arrays", rules_command)
    p.add_argument("action", nargs="?", default="list", choices=("list", "check"))
    p.add_argument("file", nargs="?", type=Path, help="a Python file with rules of your own, which is executed: only these")
    p.add_argument("--family", help="only this family")
    p.add_argument("--name", action="append", default=[], help="only this rule; repeat for more")
    p.add_argument("--examples", type=int, metavar="N", help="examples for each rule (default 200; 400 for the rules of a file)")
    p.add_argument("--json", action="store_true")

    p = command("targets", "list the devices that plans are made for", targets_command)
    p.add_argument("name", nargs="?", help="show one in full")
    p.add_argument("--json", action="store_true")

    p = command("demo", "run the whole path on naive attention at Llama-3-8B prefill shape", demo_command)
    p.add_argument("--target", default="h200")
    p.add_argument("--tokens", type=_positive, default=4096, help="sequence length (default %(default)s)")
    return top


@dataclass(frozen=True)
class Shape:
    """An argument described on the command line."""

    name: str
    dims: tuple[int, ...]
    dtype: str

    def tensor(self) -> torch.Tensor:
        """A tensor without data: planning reads shapes and types only, so any size is free."""
        import torch

        try:
            return torch.empty(self.dims, dtype=getattr(torch, self.dtype), device="meta")
        except (RuntimeError, TypeError, OverflowError):
            raise UsageError(f"--shape {self.name}: no tensor is that large", cure="dimensions whose product is below 2**63") from None


DTYPES = ("float16", "bfloat16", "float32", "int32", "int64", "bool")


def _positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def shape_spec(text: str) -> Shape:
    """``q=1,32,4096,128:float16``."""
    found = re.fullmatch(r"(\w+)=(\d+(?:,\d+)*)?(?::(\w+))?", text.replace(" ", ""))
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DIMS[:DTYPE], such as q=1,32,4096,128:float16")
    name, dims, dtype = found.groups()
    if dtype and dtype not in DTYPES:
        raise argparse.ArgumentTypeError(f"unknown element type {dtype!r}; one of {', '.join(DTYPES)}")
    return Shape(name, tuple(map(int, dims.split(","))) if dims else (), dtype or "float32")


def load_file(path: Path) -> ModuleType:
    """Import a Python file under its own name, with its folder importable, as if it were run."""
    if not path.is_file():
        raise UsageError(f"no such file: {path}")
    if path.suffix != ".py":
        raise UsageError(f"{path} is no Python file", cure="a file whose name ends in .py")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    with executing(path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def executing(path: Path, what: str = "the file is executed first, as python FILE would do it") -> Iterator[None]:
    """Turns what a user's file raises into a :class:`~eqfuse.errors.SourceError` with the line of the file; our own errors have one."""
    try:
        yield
    except EqFuseError:
        raise
    except SystemExit as error:
        raise SourceError(
            f"it ends the process: sys.exit({'' if error.code is None else repr(error.code)})",
            where=_own_line(path, error),
            cure="""put what is for a run as a script under if __name__ == "__main__":""",
        ) from error
    except SyntaxError as error:
        file, text = Path(error.filename or path).name, (error.text or "").strip()
        message = f"{type(error).__name__}: {error.msg}"
        where = f"{file}:{error.lineno}  {text}"
        raise SourceError(message, where=where, cure="correct the syntax of this line, or of one above it") from error
    except Exception as error:
        cure = "install it, or run where it can be imported" if isinstance(error, ImportError) else f"{what}: correct what raises"
        raise SourceError(f"{type(error).__name__}: {error}", where=_own_line(path, error), cure=cure) from error


def _own_line(path: Path, error: BaseException) -> str:
    """The line of a file in which an error came up, or was passed on last."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    return f"{path.name}:{own[-1].lineno}  {(own[-1].line or '').strip()}" if own else path.name


def load_program(args: argparse.Namespace) -> tuple[Any, tuple[Any, ...]]:
    """The function that was named and its example arguments."""
    file, _, name = args.program.rpartition(":")
    if not file or not name.isidentifier():
        raise UsageError(f"{args.program!r} is not FILE:FUNCTION, such as model.py:attention")
    module = load_file(Path(file))

    def member(wanted: str) -> Any:
        if not hasattr(module, wanted):
            own = sorted(n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__)
            close = difflib.get_close_matches(wanted, own, n=1)
            cure = f"{file}:{close[0]}" if close and wanted == name else ""
            raise UsageError(f"{file} has no {wanted!r}; it defines: {', '.join(own) or 'nothing callable'}", cure=cure)
        return getattr(module, wanted)

    function = member(name)
    if isinstance(function, type):
        raise UsageError(f"{name} is a class", cure=f"an object of it in the file, such as model = {name}(), and {file}:model")
    if args.shape:
        return function, tuple(s.tensor() for s in in_order(function, args.shape, name))
    if not args.args and not hasattr(module, "example_args"):
        parameters = _parameters(function, name)
        shapes = " ".join(f"--shape {p.name}=DIMS" for p in parameters if p.default is p.empty) or "--shape NAME=DIMS"
        raise UsageError(
            f"{file} has no example_args(); describe the arguments of {_called(function, name)} with --shape or --args", cure=shapes
        )
    make = member(args.args or "example_args")
    if not callable(make):
        raise UsageError(f"{args.args or 'example_args'} is no function but a {type(make).__name__}", cure="--args with a function")
    with executing(Path(file), "it is called for the example arguments"):
        made = make()
    return function, tuple(made) if isinstance(made, tuple | list) else (made,)


def _parameters(function: Any, name: str) -> list[inspect.Parameter]:
    """What a function, or the forward of a module, takes."""
    called = function.forward if hasattr(function, "forward") else function
    if not callable(called):
        raise UsageError(f"{name} is no function or nn.Module but a {type(function).__name__}")
    try:
        return list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):  # a function in C, of which Python knows no names
        raise UsageError(f"the parameters of {name} have no names", cure="--args, or a function of your own that calls it") from None


def _called(function: Any, name: str) -> str:
    """A function with its arguments and its place, for messages."""
    code = getattr(function.forward if hasattr(function, "forward") else function, "__code__", None)
    place = f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
    return f"{name}({', '.join(p.name for p in _parameters(function, name))}){place}"


def in_order(function: Any, shapes: Sequence[Shape], name: str = "the function") -> list[Shape]:
    """The shapes in the order of the function's parameters; each must name one, and each parameter without a default needs one."""
    parameters = _parameters(function, name)
    names = [p.name for p in parameters]
    given = [s.name for s in shapes]
    if len(set(given)) != len(given):
        raise UsageError(f"an argument is given twice: {', '.join(given)}", cure="one --shape for each argument")
    unknown = [n for n in given if n not in names]
    if unknown:
        close = difflib.get_close_matches(unknown[0], names, n=1)
        cure = f"did you mean {close[0]}?" if close else ""
        raise UsageError(f"no parameter {', '.join(map(repr, unknown))}; the function takes {', '.join(names)}", cure=cure)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if missing := [n for n in needed if n not in given]:
        raise UsageError(
            f"no --shape for {', '.join(map(repr, missing))} of {_called(function, name)}",
            cure=" ".join(f"--shape {n}=DIMS" for n in missing) + ", with DIMS such as 4096,128 or 4096,128:float16",
        )
    return sorted(shapes, key=lambda s: names.index(s.name))


def reduced(args: Sequence[Any], limit: int = 200, to: int = 197) -> tuple[Any, ...]:
    """The arguments with every dimension above ``limit`` cut to ``to``: equal sizes stay equal.

    Tensors without data get random values, normal ones for floats and zeros and ones for the rest.
    """
    import torch

    def cut(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        shape = [to if n > limit else n for n in x.shape]
        if not x.is_meta:
            return x[tuple(slice(0, n) for n in shape)].contiguous()
        return (torch.randn(shape) if x.is_floating_point() else torch.randint(0, 2, shape)).to(x.dtype)

    return tuple(map(cut, args))


# ---- commands ----------------------------------------------------------------------------------------------------------------
def _compiled(args: argparse.Namespace) -> tuple[Compiled, Any, tuple[Any, ...]]:
    function, example = load_program(args)
    import eqfuse

    no_spills = getattr(args, "no_spills", False)
    return eqfuse.optimize(function, example, target=args.target, licence=args.licence, no_spills=no_spills), function, example


def optimize_command(args: argparse.Namespace) -> int:
    """``eqfuse optimize``."""
    from . import summary

    if args.save:
        _check_place(args.save, args.overwrite)
    c, function, example = _compiled(args)
    reports = [r for arch in args.compile for r in c.compile(arch)]
    check, passed = _check(c, function, example, args) if args.check else (None, True)
    if args.save:
        c.save(args.save, overwrite=args.overwrite)
    if args.json:
        out = summary.of_compiled(c)
        if args.compile:
            out["static"] = [summary.plain(r) for r in reports]
        if args.check:
            out["check"] = {"ok": passed, "report": str(check)}
        if args.source:
            out["source"] = c.source
        print(json.dumps(out, indent=2))
        return 0 if passed else 1
    show_heading("program")
    print(c.program)
    show_heading("saturation")
    print(c.graph.report)
    show_heading("plan")
    print(c.plan)
    if args.source:
        show_heading("triton")
        show_python(c.source)
    if reports:
        show_heading("static report")
        print(*reports, sep="\n")
    if args.check:
        show_heading("check against float64")
        print(check)
    if args.save:
        print(f"\nwrote {args.save}")
    return 0 if passed else 1


def _check_place(path: Path, overwrite: bool) -> None:
    """A file can be written here: known before a long planning, not after it."""
    from .runtime.writing import check_place

    try:
        check_place(path, overwrite=overwrite)
    except OptionError as error:
        cure = (error.cure or "").replace("overwrite=True", "--overwrite")
        raise UsageError(f"--save {error.message}", cure=f"mkdir -p {path.parent}" if not path.parent.is_dir() else cure) from error


def _check(c: Compiled, function: Any, example: tuple[Any, ...], args: argparse.Namespace) -> tuple[Any, bool]:
    """Accuracy through the interpreter; at the sizes given if they are small, else of the same function at reduced sizes."""
    import eqfuse

    small = reduced(example)
    if [getattr(a, "shape", None) for a in small] != [getattr(a, "shape", None) for a in example]:
        try:
            c = c.at(*small)  # the kernels that were planned, at sizes an interpreter can run
        except eqfuse.errors.PlanError as why:
            print(f"planned again for the check: {why.message}", file=sys.stderr)
            c = eqfuse.optimize(function, small, target=args.target, licence=args.licence)
    report = c.accuracy(*small)
    return report, all(o.within() for o in report.outputs)


def explain_command(args: argparse.Namespace) -> int:
    """``eqfuse explain``."""
    c, _, _ = _compiled(args)
    if args.why:
        answer = c.why(*args.why)
        print(json.dumps(answer.data(), indent=2) if args.json else answer)
        return 0
    explanation = c.explain(costs=args.costs)
    if args.json or not sys.stdout.isatty():
        print(explanation.json() if args.json else explanation)
        return 0
    from rich.console import Console

    Console(soft_wrap=True).print(str(explanation), markup=False)  # numbers and names in colour
    return 0


def rules_command(args: argparse.Namespace) -> int:
    """``eqfuse rules``."""
    from . import summary
    from .rewrites import registry

    if args.examples is not None and args.examples < 1:
        raise UsageError("--examples needs a positive number")
    before = {r.name for r in registry.rules()}
    try:
        chosen = _rules_of(args.file) if args.file else list(registry.rules())
        if not chosen:
            raise UsageError(f"no rule in {args.file}")
        names, families = {r.name for r in chosen}, sorted({r.family for r in chosen})
        if args.family is not None and args.family not in families:
            close = difflib.get_close_matches(args.family, families, n=1)
            cure = f"--family {close[0]}" if close else ""
            raise UsageError(f"no rule of family {args.family!r}; families: {', '.join(families)}", cure=cure)
        if unknown := [n for n in args.name if n not in names]:
            close = difflib.get_close_matches(unknown[0], sorted(names), n=1)
            cure = f"--name {close[0]}" if close else ""
            raise UsageError(f"no rule {', '.join(map(repr, unknown))}; see: eqfuse rules", cure=cure)
        chosen = [r for r in chosen if args.family in (None, r.family) and (not args.name or r.name in args.name)]
        if not chosen:
            raise UsageError(f"no rule of family {args.family!r} is called that")
        if args.action == "check":
            return _check_rules(chosen, args)
    finally:
        for r in registry.rules():
            if r.name not in before:
                registry.unregister(r.name)
    if args.json:
        keys = ("name", "family", "licence", "doc", "file", "line", "enabled")
        print(json.dumps([{k: summary.plain(getattr(r, k)) for k in keys} for r in chosen], indent=2))
        return 0
    rows = [
        (r.name + ("" if r.enabled else " (disabled)"), r.family, r.licence, first_line(r.doc), f"{Path(str(r.file)).name}:{r.line}")
        for r in chosen
    ]
    show_table(("rule", "family", "licence", "equation", "where"), rows)
    return 0


def _rules_of(path: Path) -> list[Any]:
    """The rules of a user's file, registered or not; the file is executed, and its rules are not tested before they are asked for."""
    from .rewrites import registry
    from .rewrites.rule import Rule

    before = set(registry.rules())
    with registry.deferred():
        module = load_file(path)
        found = [r for r in registry.rules() if r not in before]
        found += [r for r in vars(module).values() if isinstance(r, Rule) and r not in before]
    return list(dict.fromkeys(found))


def _check_rules(chosen: Sequence[Any], args: argparse.Namespace) -> int:
    """Every rule by every oracle; all are tried before the exit code is decided."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from .rewrites.check import CI_EXAMPLES, EXAMPLES, check_all

    examples = args.examples or (EXAMPLES if args.file else CI_EXAMPLES)
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("rules", total=len(chosen))

        def tick(rule: Any, report: Any) -> None:
            progress.update(task, description=rule.name, advance=0 if report is None else 1)

        done = check_all(chosen, examples=examples, progress=tick)
    failed = {r.rule.name for r in done.failures}
    if args.json:
        found = [
            {
                "rule": r.rule.name, "family": r.rule.family, "licence": r.rule.licence, "where": r.rule.where, "holds": r.error is None,
                "oracles": list(r.oracles), "checks": r.checks, "examples": r.examples, "numbers": r.numbers, "notes": list(r.notes),
                "seconds": round(r.seconds, 4), "error": str(r.error) if r.error else None,
            }
            for r in done.reports
        ]  # fmt: skip
        print(json.dumps({"rules": found, "summary": str(done), "examples_per_second": round(done.examples_per_second)}, indent=2))
        return 1 if failed else 0
    for r in done.failures:
        print(f"FAILED {r.rule.name}\n{indent(str(r.error))}\n")
    if args.file or args.name:
        rows = [
            (r.rule.name, r.rule.licence, "FAILED" if r.error else "holds", str(r.checks), str(r.examples), ", ".join(r.oracles or r.notes))
            for r in done.reports
        ]
        show_table(("rule", "licence", "", "checks", "examples", "tested by"), rows)
    else:
        table = []
        for family in dict.fromkeys(r.rule.family for r in done.reports):
            of = [r for r in done.reports if r.rule.family == family]
            bad = sum(1 for r in of if r.error)
            sums = (sum(r.checks for r in of), sum(r.examples for r in of))
            table.append((family, str(len(of)), f"{bad} FAILED" if bad else "hold", *map(str, sums), f"{sum(r.seconds for r in of):.1f} s"))
        show_table(("family", "rules", "", "checks", "examples", "time"), table)
    for note, count in done.notes().items():
        print(f"{count} {'rule' if count == 1 else 'rules'}: {note}")
    print(done)
    return 1 if failed else 0


def targets_command(args: argparse.Namespace) -> int:
    """``eqfuse targets``."""
    from . import summary
    from .extract.targets import load_target, targets

    facts = {n: summary.plain(load_target(n)) for n in ([args.name] if args.name else targets())}
    if args.json:
        print(json.dumps(facts, indent=2))
    elif args.name:
        show_table(("fact", "value"), [(k, str(v)) for k, v in facts[args.name].items()])
    else:
        keys = [k for k in next(iter(facts.values())) if k not in ("name", "device_names")][:6]
        show_table(("target", *keys), [(n, *(str(f[k]) for k in keys)) for n, f in facts.items()])
    return 0


def demo_command(args: argparse.Namespace) -> int:
    """``eqfuse demo``."""
    from . import demo

    return demo.run(target=args.target, tokens=args.tokens)


# ---- output ------------------------------------------------------------------------------------------------------------------
def first_line(doc: str | None) -> str:
    """The first line of a docstring."""
    return (doc or "").strip().partition("\n")[0]


def indent(text: str) -> str:
    """Four spaces before every line."""
    return "\n".join("    " + line for line in text.splitlines())


def show_heading(title: str) -> None:
    """A rule with a title."""
    print(f"\n── {title} " + "─" * max(0, 96 - len(title)))


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; on a terminal with rich, else aligned plain text without wrapping (it may be piped)."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(*header, box=None, header_style="bold")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(len(r[i]) for r in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def show_python(source: str) -> None:
    """Python text, coloured on a terminal."""
    if not sys.stdout.isatty():
        print(source)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(source, "python", background_color="default", word_wrap=False))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except UsageError as e:
        print(f"eqfuse: {e}", file=sys.stderr)
        return 2
    except EqFuseError as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("eqfuse: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `eqfuse rules | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
