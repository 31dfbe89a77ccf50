"""What an installation puts on the path, and what `import eqfuse` costs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OWN_FOLDERS = (
    "benchmarks",
    "codegen",
    "docs",
    "egraph",
    "examples",
    "extract",
    "extraction",
    "frontends",
    "ir",
    "rewrites",
    "runtime",
    "tiles",
)
HEAVY = ("egglog", "highspy", "triton", "hypothesis", "rich", "scipy", "IPython")


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


SUM = "import sys, gc, torch, eqfuse; eqfuse.optimize(lambda x: x.sum(-1), torch.empty(8, 64, device='meta'), target='h200'); "


def test_the_engine_comes_without_the_language_around_it_and_is_its_engine_later(tmp_path):
    code = SUM + (
        "assert not {'egglog', 'black', 'hypothesis'} & set(sys.modules); assert gc.isenabled() and gc.get_freeze_count() == 0; "
        "from eqfuse.egraph.engine import loaded; bindings = loaded(); import egglog; import egglog.bindings as b; "
        "assert bindings is egglog.bindings is b, b; print(egglog.EGraph().extract(egglog.i64(1)))"
    )
    assert python(code, tmp_path).strip() == "i64(1)"


def test_egglog_imported_before_has_the_same_engine(tmp_path):
    python("import egglog; " + SUM + "from eqfuse.egraph.engine import loaded; assert loaded() is egglog.bindings", tmp_path)


def test_the_garbage_collector_is_as_it_was(tmp_path):
    """Off, or holding what it held; that it is on again where it was on is asked of the engine above."""
    python("import gc; gc.disable(); " + SUM + "assert not gc.isenabled()", tmp_path)
    python(
        "import gc; gc.freeze(); n = gc.get_freeze_count(); " + SUM + "assert gc.isenabled() and gc.get_freeze_count() > n / 2", tmp_path
    )


def test_the_garbage_collector_works_again_after_an_import_that_fails(tmp_path):
    code = """if True:
        import gc, sys, eqfuse
        sys.modules["eqfuse.planning"] = None
        try:
            eqfuse.optimize
        except ImportError:
            assert gc.isenabled()
        else:
            raise AssertionError("imported")
    """
    python(code, tmp_path)


def test_the_first_call_imports_neither_dynamo_nor_export(tmp_path):
    """They take more than a second; and what torch hides from dynamo, it hides when dynamo is imported later."""
    code = """if True:
        import sys, torch, eqfuse
        x = torch.ones(4, 16)
        layer = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.Softmax(-1)).eval()
        eqfuse.optimize(lambda x: layer(x * 2) ** 2 + x.exp().rsqrt().tanh(), (x,), target="h200")
        assert not {"torch._dynamo", "torch.export._trace"} & sys.modules.keys()
        from eqfuse.frontends import surroundings
        hidden = surroundings._hidden_from_dynamo()
        assert len(hidden) > 50 and not any(hasattr(f, surroundings._HIDDEN) for f in hidden)
        torch._refs.exp(x)
        assert "torch._dynamo" in sys.modules and any(hasattr(f, surroundings._HIDDEN) for f in hidden)
    """
    python(code, tmp_path)


def test_the_package_is_typed(tmp_path):
    code = "import eqfuse, pathlib; print((pathlib.Path(eqfuse.__file__).parent / 'py.typed').exists())"
    assert python(code, tmp_path).strip() == "True"
