"""The wheel: what is in it, and that it works without the tree that it was built from."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IGNORED = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def run(*command: str, cwd: Path, **env: str) -> str:
    done = subprocess.run(command, cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, so that no build product of the tree can get in and none is left in it."""
    base = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, base / "tree", ignore=IGNORED)
    run(*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(base), str(base / "tree"), cwd=base)
    shutil.rmtree(base / "tree")
    (found,) = base.glob("*.whl")
    return found


def test_contains_only_the_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"eqfuse"}
    second = {n.split("/")[1] for n in names if n.startswith("eqfuse/")}
    assert not second & {"tests", "benchmarks", "docs", "examples", "build", ".venv"}
    assert any(n.endswith("dist-info/licenses/LICENSE") for n in names)
    (entries,) = (n for n in names if n.endswith("dist-info/entry_points.txt"))
    assert "[torch_dynamo_backends]\neqfuse = eqfuse.backend:compile_graph" in zipfile.ZipFile(wheel).read(entries).decode()


def test_contains_everything_the_tree_has(wheel):
    inside = {n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("eqfuse/")}
    outside = {"tests", "benchmarks", "docs", "examples", "build", "dist"}
    expected = set()
    for pattern in ("*.py", "*.toml", "py.typed"):
        for p in ROOT.rglob(pattern):
            parts = p.relative_to(ROOT).parts
            if parts[0] in outside or parts[0].startswith(".") or parts == ("pyproject.toml",) or "__pycache__" in parts:
                continue
            expected.add("/".join(("eqfuse", *parts)))
    assert expected - inside == set()
    assert any(n.startswith("eqfuse/extract/targets/") and n.endswith(".toml") for n in inside)


def test_works_from_anywhere(wheel, tmp_path):
    """Installed beside nothing: -S leaves the editable install out; the dependencies come by path."""
    target, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(*PIP, "install", "--quiet", "--no-deps", "--no-index", "--target", str(target), str(wheel), cwd=tmp_path)
    packages = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    code = (
        "import sys, eqfuse, eqfuse.ir.build, eqfuse.cli\n"
        f"assert eqfuse.__file__.startswith({str(target)!r}), eqfuse.__file__\n"
        f"assert not any({str(ROOT)!r} == p for p in sys.path)\n"
        "import eqfuse.extract.targets\n"
        "sys.exit(eqfuse.cli.main(['targets']))"
    )
    out = run(sys.executable, "-S", "-P", "-c", code, cwd=elsewhere, PYTHONPATH=os.pathsep.join([str(target), *packages]))
    assert "h200" in out
