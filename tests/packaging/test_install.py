"""What an installation puts on the path, and what `import eqfuse` costs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN_FOLDERS = ("benchmarks", "codegen", "docs", "egraph", "examples", "extract", "frontends", "ir", "rewrites", "runtime", "tiles")
HEAVY = ("egglog", "triton", "hypothesis", "rich", "scipy", "IPython")


def python(code: str, cwd: Path) -> str:
    """Run code in a fresh interpreter in a neutral directory, without the current one on the path."""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", OWN_FOLDERS)
def test_no_other_top_level_name_is_importable(name, tmp_path):
    code = f"import importlib.util as u; s = u.find_spec({name!r}); print(s and (s.origin or list(s.submodule_search_locations)))"
    found = python(code, tmp_path).strip()
    assert str(ROOT) not in found, f"`import {name}` finds {found}"


def test_submodules_are_importable(tmp_path):
    python("import eqfuse.ir.terms, eqfuse.errors; assert eqfuse.ir.terms.__name__ == 'eqfuse.ir.terms'", tmp_path)


def test_import_is_light(tmp_path):
    code = "import sys, torch; before = set(sys.modules); import eqfuse; print(*sorted(set(sys.modules) - before))"
    loaded = {name.split(".")[0] for name in python(code, tmp_path).split()}
    assert "eqfuse" in loaded
    assert not loaded & set(HEAVY)


def test_import_adds_under_half_a_second_to_torch(tmp_path):
    code = "import time, torch; t = time.process_time(); import eqfuse; print(time.process_time() - t)"
    assert min(float(python(code, tmp_path)) for _ in range(2)) < 0.5


def test_the_package_is_typed(tmp_path):
    code = "import eqfuse, pathlib; print((pathlib.Path(eqfuse.__file__).parent / 'py.typed').exists())"
    assert python(code, tmp_path).strip() == "True"
