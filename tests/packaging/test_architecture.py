"""The architecture, read off the sources: imports run one way, nothing recognises a program by name, paths stay out."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each package may import itself and what stands before it.  `errors` is below everything.
LAYERS = ("errors", "ir", "rewrites", "egraph", "tiles", "extract", "explain", "codegen", "runtime")
FACE = ("__init__", "__main__", "cli", "declare", "demo", "loading", "pipeline", "summary")
BESIDE = {"frontends": ("errors", "ir"), "testing": (*LAYERS, "frontends", *FACE)}
PACKAGES = (*LAYERS[1:], *BESIDE)
ALLOWED = {layer: set(LAYERS[: i + 1]) for i, layer in enumerate(LAYERS)}
ALLOWED |= {name: {name, *below} for name, below in BESIDE.items()}
ALLOWED |= {name: {*LAYERS, *BESIDE, *FACE} for name in FACE}


def modules() -> list[Path]:
    """Every module of the installed package."""
    return sorted(ROOT.glob("*.py")) + sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


def owner(path: Path) -> str:
    """The layer that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(source: str, path: Path, *, typing_only: bool) -> list[tuple[int, str]]:
    """(line, layer) of each import from the package.  Imports under TYPE_CHECKING do not run."""
    depth = len(path.relative_to(ROOT).parts)  # 1 for a module of the root
    tree = ast.parse(source)
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if not typing_only and id(node) in hidden:
            continue
        if isinstance(node, ast.ImportFrom) and node.level == depth:
            names = [node.module.split(".")[0]] if node.module else [a.name for a in node.names]
            found += [(node.lineno, n if (ROOT / n).is_dir() or (ROOT / f"{n}.py").exists() else "__init__") for n in names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "eqfuse":
            found.append((node.lineno, ((node.module or "") + ".__init__").split(".")[1]))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, (a.name + ".__init__").split(".")[1]) for a in node.names if a.name.split(".")[0] == "eqfuse"]
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_one_way(path):
    layer = owner(path)
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for line, target in imports(path.read_text(), path, typing_only=False)
        if target not in ALLOWED[layer]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_layering_check_can_fail():
    path = ROOT / "ir" / "terms.py"
    source = "from ..codegen import triton\nfrom .. import pipeline\nimport eqfuse.tiles\nfrom .index import Axis\n"
    assert [t for _, t in imports(source, path, typing_only=False)] == ["codegen", "pipeline", "tiles"]
    assert not {"codegen", "pipeline", "tiles"} & ALLOWED["ir"]


def test_what_users_test_with_needs_neither_the_fuzzers_nor_the_checks_of_ops():
    """Only the table of public names says where the checks of declared ops are."""
    public = [p for p in (ROOT / "testing").glob("*.py") if p.name != "__init__.py"]
    assert len(public) > 10
    assert not [p.name for p in public if re.search(r"^\s*(from|import) \S*\b(fuzz|ops\.(check|spelling))\b", p.read_text(), re.MULTILINE)]


def test_every_module_belongs_to_a_layer():
    assert {owner(p) for p in modules()} <= set(ALLOWED)


def module_cycles(edges: dict[str, set[str]]) -> list[str]:
    """Modules on an import cycle (imports that run at load time only)."""
    state: dict[str, int] = {}
    bad = []

    def visit(m: str) -> None:
        state[m] = 1
        for n in sorted(edges.get(m, ())):
            if state.get(n) == 1:
                bad.append(f"{m} -> {n}")
            elif n not in state:
                visit(n)
        state[m] = 2

    for m in sorted(edges):
        if m not in state:
            visit(m)
    return bad


def load_time_edges() -> dict[str, set[str]]:
    """Module -> modules that it imports when it is loaded (functions' own imports do not count)."""
    names = {p: ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in modules()}
    known = set(names.values())
    edges: dict[str, set[str]] = {}
    for path, name in names.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        package = [] if name == "__init__" else package
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                deeper = ".".join([*base, alias.name])
                target = deeper if deeper in known else ".".join(base)
                if target in known and target != name:
                    edges.setdefault(name, set()).add(target)
    return edges


def test_no_cycles_between_modules():
    assert not module_cycles(load_time_edges())


def test_the_cycle_check_can_fail():
    assert module_cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["c -> a"]
    assert len(load_time_edges()) > 10


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
