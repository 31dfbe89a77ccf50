"""The architecture, read off the sources: imports run one way, nothing recognises a program by name, paths stay out."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each may import itself and what stands before it.  `frontends` stands beside the layers above `ir`, and below `runtime`.
LAYERS = (
    "errors",
    "work",
    "extraction",
    "ir",
    "rewrites",
    "egraph",
    "tiles",
    "extract",
    "explain",
    "codegen",
    "machine",
    "runtime",
    "calibration",
    "testing",
)
FACE = (
    "declare", "library", "planning", "ranges", "distributed", "pages", "steps", "training", "nested", "compiled", "prices", "laws", "backend", "__init__", "cli",
    "__main__",
)  # fmt: skip
PACKAGES = (*LAYERS[2:], "frontends", "planning", "distributed", "pages", "steps", "backend", "cli")
ORDER = (*LAYERS, *FACE)
ALLOWED = {name: {*ORDER[: i + 1], *({"frontends"} if i >= ORDER.index("runtime") else ())} for i, name in enumerate(ORDER)}
ALLOWED["frontends"] = {"errors", "ir", "frontends"}
TIMELESS = ("extract", "planning", "steps", "ranges", "frontends")  # where nothing may hang on a clock but that of work


@cache
def modules() -> dict[str, Path]:
    """Every module of the installed package by its name below `eqfuse`, a package by its own; the root's is `__init__`."""
    paths = sorted(ROOT.glob("*.py")) + sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
    return {dotted(path): path for path in paths}


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def owner(module: str) -> str:
    """The layer that a module belongs to.  Laws of planning, which testing has for its users, ask for whole plans."""
    return "laws" if f"{module}.".startswith("testing.laws.") else module.partition(".")[0]


def imports(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of each import from the package, wherever it stands: at the top, in a function, for types only, or by name, which
    is every text that names a module where ``import_module`` is called.  That Python loads a package before its modules is no import."""
    name, known = dotted(path), modules()
    inside = [] if name == "__init__" else name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    tree = ast.parse(source)
    by_name = any(
        isinstance(n, ast.Attribute | ast.Name) and "import_module" in (getattr(n, "attr", ""), getattr(n, "id", ""))
        for n in ast.walk(tree)
    )

    def absolute(text: str) -> str | None:
        """`.a.b` here, or `eqfuse.a.b`, below the package."""
        dots = len(text) - len(text.lstrip("."))
        if dots:
            return ".".join([*inside[: len(inside) - dots + 1], *filter(None, text[dots:].split("."))]) or "__init__"
        return text.removeprefix("eqfuse.") if text.startswith("eqfuse.") else "__init__" if text == "eqfuse" else None

    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = absolute("." * node.level + (node.module or ""))
            for alias in node.names if base is not None else ():
                deeper = alias.name if base == "__init__" else f"{base}.{alias.name}"
                yield node.lineno, deeper if deeper in known else base
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, found) for a in node.names if (found := absolute(a.name)) is not None)
        elif by_name and isinstance(node, ast.Constant) and re.match(r"(\.+|eqfuse\.)[a-z_]", str(node.value)):
            found = absolute(node.value)
            if found in known:
                yield node.lineno, found


@cache
def edges() -> dict[str, set[str]]:
    """Module -> the modules that it imports in any way."""
    return {name: {found for _, found in imports(path.read_text(), path)} - {name} for name, path in modules().items()}


@pytest.mark.parametrize("name", modules())
def test_imports_run_one_way(name):
    path = modules()[name]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {found}"
        for line, found in imports(path.read_text(), path)
        if found not in modules() or owner(found) not in ALLOWED[owner(name)]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", [n for n in modules() if owner(n) in TIMELESS and not n.startswith(("extract.kept.", "planning.clock"))])
def test_no_plan_hangs_on_a_clock(name):
    tree = ast.parse(modules()[name].read_text())
    assert not any(a.name == "time" for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names)


SOURCE = """
import importlib
from ..codegen import triton
from .. import planning
import eqfuse.tiles
from .index import Axis
from . import build
from eqfuse import optimize
if TYPE_CHECKING:
    from ..extract.plan import Plan
def late():
    from ..runtime import aot
    return importlib.import_module(".printing", __package__), importlib.import_module(TABLE["x"])
TABLE = {"x": "eqfuse.egraph.audit", "y": ".not_a_module"}
"""


def test_every_sort_of_import_is_read():
    found = [m for _, m in imports(SOURCE, ROOT / "ir" / "terms.py")]
    assert sorted(found) == [
        "__init__", "codegen.triton", "egraph.audit", "extract.plan", "ir.build", "ir.index", "ir.printing", "planning", "runtime.aot", "tiles",
    ]  # fmt: skip
    assert [m for m in found if owner(m) in ALLOWED["ir"]] == ["ir.index", "ir.build", "ir.printing"]
    assert "compiled" in edges()["__init__"], "the table of public names is read"


def test_what_users_test_with_needs_neither_the_fuzzers_nor_the_checks_of_ops():
    """Only the table of public names says where the checks of declared ops are."""
    public = [m for m in modules() if m.startswith("testing.") and not m.startswith(("testing.fuzz", "testing.ops"))]
    assert len(public) > 10
    assert not [(m, n) for m in public for n in edges()[m] if n.startswith(("testing.fuzz", "testing.ops"))]


def test_every_module_belongs_to_a_layer():
    assert {owner(m) for m in modules()} <= set(ALLOWED)


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for m in edges:
        stack, seen = [m], set[str]()
        while stack:
            new = edges.get(stack.pop(), set()) - seen
            seen |= new
            stack += new
        reached[m] = seen
    return [set(c) for c in {frozenset(n for n in reached[m] if m in reached.get(n, ())) for m in edges} if c]


def test_no_module_needs_itself():
    assert not circles(edges()), "\n".join(" <-> ".join(sorted(c)) for c in circles(edges()))


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [{"a", "b", "c"}]
    assert len(edges()) > 100
    assert sum(map(len, edges().values())) > 500


# Fused kernels are derived.  Where they are derived, nothing may know what they are called.
NAMES = re.compile(r"soft_?max|attention|flash|\bnorm\b|(layer|rms|batch|group)_?norm|gelu|swiglu", re.IGNORECASE)


@pytest.mark.parametrize("package", ["rewrites", "egraph", "tiles", "extract", "explain", "codegen"])
def test_nothing_is_recognised_by_name(package):
    found = [
        f"{p.relative_to(ROOT)}:{n}: {line.strip()}"
        for p in sorted((ROOT / package).rglob("*"))
        if p.suffix in (".py", ".toml")
        for n, line in enumerate(p.read_text().splitlines(), 1)
        if NAMES.search(line)
    ]
    assert not found, "\n".join(found)


def tracked_files() -> list[Path]:
    """What git tracks or would track; without git, every file outside hidden and generated folders."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        files = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        skip = {"build", "dist", "__pycache__", "eqfuse.egg-info"}
        files = [p for p in ROOT.rglob("*") if not any(x.startswith(".venv") or x in skip for x in p.relative_to(ROOT).parts)]
    return [p for p in files if p.is_file() and p.suffix in (".py", ".md", ".toml", ".txt", ".json", "") and ".git/" not in str(p)]


# A path below a home or a scratch directory works on one machine only.  (Split, so that this file does not match itself.)
MACHINE_PATHS = re.compile("(?<![\\w.])/" + "(?:home|root|Users|work|tmp|mnt|workspace)" + "/[\\w.]")


def test_no_file_mentions_a_machine_path():
    found = []
    for p in tracked_files():
        try:
            lines = p.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{p.relative_to(ROOT)}:{n}: {line[:120]}" for n, line in enumerate(lines, 1) if MACHINE_PATHS.search(line)]
    assert not found, "\n".join(found)


def test_the_machine_path_check_can_fail():
    assert MACHINE_PATHS.search("see " + "/" + "home/someone/x.py")
    assert not MACHINE_PATHS.search("a path/home/x or docs/" + "tmp/x in words")
