"""Malformed calls of everything that is public, drawn by Hypothesis: each must return, or say what is wrong and what to do.

    python benchmarks/malformed_calls.py 10000            that many calls; findings are printed, one line for each kind
    python benchmarks/malformed_calls.py 10000 --save     also write benchmarks/results/DATE-malformed-calls.json
    python benchmarks/malformed_calls.py 300 --only why   calls of one entry

A call takes a correct one and replaces some of its arguments by values of wrong kinds: numbers, texts, containers, functions and tensors of
every sort, objects that raise when they are printed, compared, iterated or asked for a truth value.  Command lines are drawn from words.
A call is fine if it returns, or raises an EqFuseError with a message and a cure, or the TypeError by which Python refuses a call that
does not fit the signature; what a compiled function raises on the CPU is what the function itself raises.  Any other exception, an error
without a cure, a call that takes longer than LIMIT seconds and a process that dies are findings.  Calls run in a process of their own,
SHARD at a time.  Exit 1 if there are findings.
"""

import argparse
import contextlib
import datetime
import faulthandler
import functools
import importlib.metadata
import inspect
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from host import commit
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 20  # seconds that a call may take
SHARD = 2500
TOGETHER = 25  # calls that are drawn at a time
FINE = ("returned", "refused", "signature", "own")  # "own": what the user's own function raises


class Hang(BaseException):
    """A call took too long."""


# ---- values of wrong kinds ---------------------------------------------------------------------------------------------------
def hostile(**methods):
    """An object of which some methods raise."""

    def raising(name):
        def method(*_, **__):
            raise ValueError(f"hostile {name}")

        return method

    return type("Hostile", (), {f"__{m}__": raising(m) for m in methods or ("repr", "eq", "bool", "len", "iter", "hash", "str")})()


def values():
    """Every kind of value by name, as functions that make a new one."""
    import numpy as np
    import torch

    import eqfuse

    x = torch.randn(5, 7)

    class Unit(torch.Tensor):
        @classmethod
        def __torch_function__(cls, f, kinds, args=(), kwargs=None):
            return super().__torch_function__(f, kinds, args, kwargs or {})

    def fake():
        with torch._subclasses.FakeTensorMode():
            return torch.empty(5, 7)

    def deep():
        found = [x]
        for _ in range(600):
            found = [found]
        return found

    def itself():
        found = []
        found.append(found)
        return found

    plain = {
        "None": None, "True": True, "0": 0, "1": 1, "-1": -1, "7": 7, "10**30": 10**30, "10**5000": 10**5000, "0.5": 0.5, "-0.0": -0.0,
        "nan": float("nan"), "inf": float("inf"), "1e400j": 1j, "''": "", "'x'": "x", "'real'": "real", "'h200'": "h200",
        "'../../x'": "../../etc/passwd", "text with NUL": "a\0b", "long text": "ab" * 50_000, "lone surrogate": "\ud800", "lines": "a\nb",
        "braces": "{}{0.__class__}%s", "bytes": b"ab", "path": Path("absent/x.py"), "()": (), "object()": object(), "...": ...,
        "NotImplemented": NotImplemented, "len": len, "int": int, "Tensor type": torch.Tensor, "module": os, "exception": ValueError("v"),
        "lambda 0": lambda: 1, "lambda 1": lambda a: a, "lambda 2": lambda a, b: (a, b), "lambda *": lambda *a: a,
        "raises": lambda *a: 1 / 0,
        "exits": lambda *a: sys.exit(7), "partial": functools.partial(max, 1), "numpy number": np.float64(0.5), "numpy int": np.int32(3),
        "float32": torch.float32, "float64": torch.float64, "complex64": torch.complex64, "device": torch.device("cpu"), "size": x.shape,
        "target": eqfuse.targets()[0], "rule": eqfuse.rules()[0],
    }  # fmt: skip
    made = {
        "[]": list, "{}": dict, "set": lambda: {1, "x"}, "[None]": lambda: [None], "{x: 1}": lambda: {"x": 1}, "{1: x}": lambda: {1: x},
        "nested lists": deep, "a list of itself": itself, "generator": lambda: (t for t in (x,)), "range": lambda: range(3),
        "hostile": hostile, "hostile repr": lambda: hostile(repr=1, str=1), "hostile eq": lambda: hostile(eq=1, hash=1),
        "hostile bool": lambda: hostile(bool=1), "hostile iter": lambda: hostile(iter=1, len=1),
        "hostile getattr": lambda: hostile(getattr=1),
        "hostile call": lambda: hostile(call=1), "tensor": lambda: torch.randn(5, 7), "other shape": lambda: torch.randn(3),
        "scalar tensor": lambda: torch.tensor(1.0), "empty tensor": lambda: torch.empty(0, 7), "float16": lambda: x.half(),
        "float64 tensor": lambda: x.double(), "uint8 tensor": lambda: x.to(torch.uint8), "bool tensor": lambda: x > 0,
        "int tensor": lambda: x.long(), "complex tensor": lambda: x + 1j, "float8 tensor": lambda: x.to(torch.float8_e5m2),
        "meta tensor": lambda: x.to("meta"), "fake tensor": fake, "sparse tensor": x.to_sparse, "csr tensor": x.to_sparse_csr,
        "quantized tensor": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "parameter": lambda: torch.nn.Parameter(x),
        "nested tensor": lambda: torch.nested.nested_tensor([x, x[:2]]), "mkldnn tensor": x.to_mkldnn,
        "jagged tensor": lambda: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged),
        "subclass tensor": lambda: x.as_subclass(Unit), "expanded tensor": lambda: torch.ones(1, 7).expand(5, 7),
        "huge meta tensor": lambda: torch.empty(2**40, 2**20, device="meta"),
        "requires grad": lambda: torch.randn(5, 7, requires_grad=True),
        "numpy array": lambda: np.ones((5, 7), np.float32), "object array": lambda: np.array([None, x], dtype=object),
        "linear": lambda: torch.nn.Linear(7, 7), "program": lambda: bases()["compiled"].program,
    }  # fmt: skip
    return {k: (lambda v=v: v) for k, v in plain.items()} | made


WORDS = (
    "optimize", "explain", "rules", "targets", "check", "list", "good.py:rows", "good.py:", ":rows", "good.py:absent", "good.py:three",
    "broken.py:f", "exits.py:f", "binary.py:f", "empty.py:f", "rules.py", "good.txt:rows", "absent.py:f", ".", "/etc/passwd:f",
    "/etc/passwd",
    "h200", "b200", "nothing", "", "-", "--", "--shape", "x=3,5", "x=3,5:float16", "x=-1", "x=99999999999999999999", "x=3,5:float99", "x",
    "y=3", "--args", "make", "--target", "--licence", "exact", "--source", "--check", "--save", "out.py", "absent/out.py",
    "good.py", "link.py",
    "--compile", "sm_90", "sm_1", "--json", "--why", "x", "out", "--costs", "--family", "layout", "--name", "--examples", "0", "1", "-5",
    "--version", "--help", "--tokens", "demo", "\0", "\ud800", "--overwrite",
)  # fmt: skip
FILES = {
    "good.py": "import torch\nthree = 3\n\ndef rows(x):\n    return torch.softmax(x, -1)\n\ndef make():\n    return 1 / 0\n",
    "good.txt": "def rows(x):\n    return x * 2\n",
    "broken.py": "def f(x:\n",
    "exits.py": "import sys\nsys.exit(7)\n",
    "empty.py": "",
    "rules.py": "import eqfuse\n\n@eqfuse.rule\ndef nothing(x):\n    return 3\n",
}


# ---- what is called ----------------------------------------------------------------------------------------------------------
def tanh(x):
    """The function that is optimised."""
    import torch

    return torch.tanh(x) + 1


@functools.cache
def bases():
    """What several entries share."""
    import torch

    import eqfuse

    x = torch.randn(5, 7)
    compiled = eqfuse.optimize(tanh, (x,), target="h200")
    return {"x": x, "compiled": compiled, "explanation": compiled.explain()}


@functools.cache
def entries():
    """Every public callable: (function, arguments of a correct call by name, weight)."""
    import torch

    import eqfuse
    from eqfuse import testing
    from eqfuse.ir import layout as layouts
    from eqfuse.ir.build import axes, tensor
    from eqfuse.ir.build import program as build
    from eqfuse.ir.layout import Layout, cute
    from eqfuse.ir.ops import OPS

    base = bases()
    rows = Layout.from_strides((8, 4))
    swizzled = layouts.Swizzled(rows, layouts.Swizzle(1, 0, 2))
    x, c = base["x"], base["compiled"]
    (i,) = axes(i=4)
    written = build("written", y=(tensor("a", i) + 1.0, (i,)))
    draw = testing.tensors(torch.float32, ("n",))

    def rule(a, b):
        """a + b = b + a."""
        return a + b, b + a

    def from_program(name, outputs, inputs, sources, names):
        return eqfuse.optimize(eqfuse.Program(name, outputs, inputs, sources, names), target="h200")

    def drawn(strategy):
        """A strategy, drawn from: what is wrong with it may show only then."""
        if hasattr(strategy, "example"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")

                @settings(max_examples=1, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
                @given(strategy)
                def run(_):
                    pass

                run()

    def later(make):
        @functools.wraps(make)
        def made(*args, **kwargs):
            drawn(make(*args, **kwargs))

        return made

    def launched(**options):
        with testing.interpreted_kernels(**options):
            pass

    launched.__signature__ = inspect.signature(testing.interpreted_kernels)
    sound = eqfuse.rules()[0]
    return {
        "optimize": (eqfuse.optimize, {"fn": tanh, "args": (x,), "target": "h200", "licence": "exact"}, 8),
        "compiled": (c.__call__, {"args": x}, 3),
        "eager": (c.eager, {"args": x}, 1),
        "simulate": (c.simulate, {"args": x}, 3),
        "interpret": (c.interpret, {"args": x}, 3),
        "accuracy": (c.accuracy, {"args": x}, 3),
        "at": (c.at, {"args": x}, 2),
        "bind": (c.bind, {"args": (x,), "kwargs": {}}, 1),
        "explain": (c.explain, {}, 1),
        "why": (c.why, {"a": "x", "b": "out"}, 4),
        "explanation.why": (base["explanation"].why, {"a": "x", "b": "out"}, 2),
        "compile": (c.compile, {"arch": "sm_90"}, 2),
        "save": (c.save, {"path": "saved.py"}, 4),
        "rules": (eqfuse.rules, {"family": "layout"}, 2),
        "enable": (eqfuse.enable, {"name": "layout"}, 2),
        "disable": (eqfuse.disable, {"name": "absent"}, 2),
        "rule": (eqfuse.rule, {"function": rule, "register": False}, 4),
        "fusion": (eqfuse.fusion, {"function": rule, "register": False}, 3),
        "op": (eqfuse.op, {"name": "doubled", "numpy": lambda a: 2 * a, "triton": "2 * {}", "range": (0, 1)}, 4),
        "targets": (eqfuse.targets, {}, 1),
        "Program": (from_program, {k: getattr(written, k) for k in ("name", "outputs", "inputs", "sources", "names")}, 2),
        "Target": (eqfuse.Target, {f: getattr(c.target, f) for f in inspect.signature(eqfuse.Target).parameters}, 1),
        "assert_equivalent": (testing.assert_equivalent, {"f": tanh, "g": tanh, "args": [x], "examples": 2}, 4),
        "tensors": (later(testing.tensors), {"dtype": torch.float32, "shape": ("n", 3)}, 2),
        "sample": (testing.sample, {"dtype": torch.float32, "shape": (3, 4)}, 2),
        "size": (testing.size, {"name": "n", "low": 1, "high": 3}, 1),
        "indices": (later(testing.indices), {"shape": (3,), "below": 4}, 1),
        "masks": (later(testing.masks), {"shape": (3, 4)}, 1),
        "lengths": (later(testing.lengths), {"count": 3, "longest": 4}, 1),
        "offsets": (later(testing.offsets), {"count": 3, "total": 4}, 1),
        "arguments": (later(testing.arguments), {"args": draw}, 1),
        "lay_out": (testing.lay_out, {"x": x, "layout": "strided"}, 1),
        "recipe_of": (testing.recipe_of, {"tensor": x}, 1),
        "check_rule": (testing.check_rule, {"rule": sound, "examples": 2}, 1),
        "check_op": (testing.check_op, {"op": OPS["exp"]}, 1),
        "check_spelling": (testing.check_spelling, {"op": OPS["exp"]}, 1),
        "interpreted_kernels": (launched, {"sanitize": True}, 1),
        "Layout": (Layout, {"iters": [(2, 4), (4, 1)], "replicas": [(2, 8)], "offset": {"m": 1}}, 1),
        "Layout.tile": (rows.tile, {"inner": rows, "shape": (8, 4), "inner_shape": (8, 4)}, 1),
        "Layout.slice": (rows.slice, {"region": [(0, 4), 2], "shape": (8, 4)}, 1),
        "Layout.permute": (rows.permute, {"order": (1, 0), "shape": (8, 4)}, 1),
        "Layout.compose": (rows.compose, {"inner": layouts.Layout([(4, 8)])}, 1),
        "Layout.complement": (rows.complement, {"size": 64}, 1),
        "Layout.equivalent": (rows.equivalent, {"other": rows}, 1),
        "Layout.parse": (Layout.parse, {"text": "(8):(4)"}, 1),
        "Layout.from_strides": (Layout.from_strides, {"shape": (8, 4), "steps": (4, 1)}, 1),
        "Layout.call": (rows, {"index": (1, 2), "shape": (8, 4)}, 1),
        "Swizzled.tile": (swizzled.tile, {"inner": rows}, 1),
        "Swizzled.equivalent": (swizzled.equivalent, {"other": rows}, 1),
        "inverse": (layouts.inverse, {"layout": rows, "axes": ("m",)}, 1),
        "left_inverse": (layouts.left_inverse, {"layout": rows}, 1),
        "right_inverse": (layouts.right_inverse, {"layout": rows}, 1),
        "from_cute": (cute.from_cute, {"shape": (4, (2, 3)), "stride": (1, (4, 8))}, 1),
        "logical_divide": (cute.logical_divide, {"layout": rows, "tiler": layouts.Layout([(4, 1)])}, 1),
        "Sharding": (layouts.Sharding, {"shape": (8, 4), "mesh": {"tp": 2}, "placements": (layouts.Shard(0),)}, 1),
        "cli": (None, {}, 8),
    }


CHANGED = {  # which parameters of an entry are replaced, where not all
    "save": ("path", "overwrite"),
}


def parameters(name):
    """The parameters of an entry that may be replaced; ``*`` and ``**`` ones stand for one argument."""
    function, _, _ = entries()[name]
    if name in CHANGED:
        return list(CHANGED[name])
    return [p for p in inspect.signature(function).parameters if p not in ("kwargs", "self") or name in ("optimize", "bind")]


def calls(only=None):
    """Strategy: an entry, and what is put in place of some of its arguments; or words of a command line."""
    kinds = st.sampled_from(list(values()))
    pairs = st.tuples(st.sampled_from(("list", "tuple", "dict")), kinds, kinds).map(list)
    wrong = st.one_of(kinds, kinds, kinds, pairs)
    found = []
    for name, (_, _, weight) in entries().items():
        if only not in (None, name):
            continue
        if name == "cli":
            words = st.lists(st.sampled_from(WORDS), max_size=7)
            first = st.sampled_from(("optimize", "explain", "rules", "targets"))
            one = st.tuples(first, words).map(lambda drawn: {"entry": "cli", "words": [drawn[0], *drawn[1]]})
        else:
            chosen = parameters(name)
            some = st.dictionaries(st.sampled_from(chosen), wrong, min_size=1, max_size=3) if chosen else st.just({})
            one = some.map(lambda wrong, name=name: {"entry": name, "wrong": wrong})
        found += [one] * weight
    return st.one_of(found)


def drawn(count, start, only=None):
    """That many calls."""
    found = []

    @seed(start)
    @settings(
        max_examples=-(-count // TOGETHER), database=None, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(calls(only), min_size=TOGETHER, max_size=TOGETHER))
    def collect(some):
        found.extend(some)

    collect()
    return found[:count]


# ---- running -----------------------------------------------------------------------------------------------------------------
def made(kind, table):
    """The value that a description stands for."""
    if isinstance(kind, str):
        return table[kind]()
    form, first, second = kind
    a, b = table[first](), table[second]()
    return [a, b] if form == "list" else (a, b) if form == "tuple" else {"x": a, "y": b}


def run_call(call, table):
    """(verdict, detail) of one call."""
    if call["entry"] == "cli":
        return run_words(call["words"])
    function, base, _ = entries()[call["entry"]]
    wrong = {p: made(k, table) for p, k in call["wrong"].items()}
    given_ = {**base, **wrong}
    args = []
    for p, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY) and p in given_:
            args.append(given_.pop(p))
    return judged(lambda: function(*args, **given_), args if call["entry"] in ("compiled", "eager") else None)


def judged(call, args=None):
    """(verdict, detail) of what a call does."""
    from eqfuse.errors import EqFuseError

    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            call()
        return "returned", ""
    except EqFuseError as error:
        return ("refused", type(error).__name__) if error.message and error.cure else ("no cure", f"{type(error).__name__}: {error}"[:200])
    except Hang:
        return "hang", place(sys.exc_info()[1])
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        if isinstance(error, TypeError) and all(f.filename == __file__ for f in frames):
            return "signature", str(error)[:100]
        if getattr(error, "eqfuse_blamed", ""):  # by one of the functions that were to be compared
            return "own", type(error).__name__
        if args is not None:
            try:
                tanh(*args)
            except BaseException as expected:
                if type(expected) is type(error):
                    return "own", type(error).__name__
        return "raised", f"{type(error).__name__} at {place(error)}: {text_of(error)}"


def text_of(error):
    """The first line of an error, which may be one that cannot be printed."""
    try:
        return str(error).split("\n")[0][:120]
    except Exception:
        return "?"


def place(error):
    """The last line of the package that an error went through, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if str(ROOT) in os.path.realpath(f.filename) and not f.filename.endswith(Path(__file__).name)]
    return " > ".join(dict.fromkeys(f"{Path(f.filename).name}:{f.lineno}" for f in (*ours[-1:], *frames[-1:])))


def run_words(words):
    """(verdict, detail) of a command line."""
    from eqfuse import cli

    out = io.StringIO()

    def call():
        code = cli.main(words)
        if code not in (0, 1, 2):
            raise AssertionError(f"exit code {code}")

    try:
        with contextlib.redirect_stderr(out):
            verdict, detail = judged(lambda: None) if "check" in words and "rules.py" not in words else judged(call)
    finally:
        out.close()
    return ("returned", "exit") if detail.startswith("SystemExit") and verdict == "raised" else (verdict, detail)


def work(file):
    """Run the calls of a file; one line of JSON before each and one after it."""
    shard = [json.loads(line) for line in Path(file).read_text().splitlines()]
    say = os.fdopen(os.dup(1), "w")
    folder = Path(tempfile.mkdtemp(prefix="malformed-"))
    os.chdir(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "binary.py").write_bytes(bytes(range(256)))
    (folder / "link.py").symlink_to(folder / "good.txt")
    table = values()
    entries()

    def late(*_):
        raise Hang

    signal.signal(signal.SIGALRM, late)
    for number, call in shard:
        print(json.dumps({"begin": number}), file=say, flush=True)
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        faulthandler.dump_traceback_later(2 * LIMIT, exit=True)  # where no signal is answered: in a call of C that does not return
        try:
            verdict, detail = run_call(call, table)
        except Hang:
            verdict, detail = "hang", ""
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps({"end": number, "verdict": verdict, "detail": detail}), file=say, flush=True)


def run_all(todo, end=math.inf, progress=None):
    """The verdicts of the calls that were run before a time.  Where a process dies, the next one takes the rest."""
    numbered = list(enumerate(todo))
    found = {}
    while numbered:
        shard, begun = numbered[:SHARD], None
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as file:
            file.write("\n".join(json.dumps(c) for c in shard))
        worker = subprocess.Popen(
            [sys.executable, __file__, "--work", file.name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            for line in worker.stdout:
                said = json.loads(line)
                if "begin" in said:
                    begun = said["begin"]
                else:
                    found[said["end"]], begun = (said["verdict"], said["detail"]), None
                if time.time() > end:
                    worker.kill()
                    return [found[k] for k in range(len(found))]
        finally:
            worker.wait()
        Path(file.name).unlink()
        if begun is not None:
            found[begun] = ("died", f"exit status {worker.returncode}")
        elif len(found) < shard[-1][0] + 1 and shard[0][0] not in found:
            raise RuntimeError(f"the worker did not start: exit status {worker.returncode}")
        numbered = [c for c in numbered if c[0] not in found]
        if progress:
            progress(len(found))
    return [found[k] for k in range(len(todo))]


def main():
    """Draw, run, report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="calls of this entry")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many, and report what was run")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work)
        return 0
    todo = drawn(args.count, args.seed, args.only)
    end = time.time() + 60 * args.minutes
    verdicts = run_all(todo, end, lambda done: print(f"{done} of {len(todo)}", file=sys.stderr, flush=True))
    todo = todo[: len(verdicts)]
    counts = Counter(v for v, _ in verdicts)
    bad = [(c, v, d) for c, (v, d) in zip(todo, verdicts, strict=True) if v not in FINE]
    kinds = {}
    for call, verdict, detail in bad:
        kinds.setdefault(f"{call['entry']}: {verdict}: {detail}", []).append(call)
    print(f"{len(todo)} calls: " + ", ".join(f"{n} {v}" for v, n in counts.most_common()))
    for what, of in sorted(kinds.items(), key=lambda kv: -len(kv[1])):
        what = what.encode("ascii", "backslashreplace").decode()
        print(f"{len(of):5d}  {what}\n       as in {json.dumps(of[0])[:200]}")
    by_entry = {}
    for call, (verdict, _) in zip(todo, verdicts, strict=True):
        by_entry.setdefault(call["entry"], Counter())[verdict] += 1
    if args.save:
        date = datetime.date.today().isoformat()
        packages = {p: importlib.metadata.version(p) for p in ("hypothesis", "torch", "numpy", "triton", "egglog")}
        data = {
            "calls": len(todo), "seed": args.seed, "limit_s": LIMIT, "packages": packages, "verdicts": dict(counts),
            "entries": {e: dict(c) for e, c in sorted(by_entry.items())},
            "findings": [{"what": w, "calls": len(of), "example": of[0]} for w, of in sorted(kinds.items())],
        }  # fmt: skip
        path = ROOT / "benchmarks" / "results" / f"{date}-malformed-calls.json"
        runs = json.loads(path.read_text()) if path.exists() else {}  # one for each commit
        path.write_text(json.dumps(runs | {commit(): data}, indent=2) + "\n")
        print(f"wrote {path.relative_to(ROOT)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
