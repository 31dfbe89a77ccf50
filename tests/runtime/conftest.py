import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory):
    """Every test of this directory loads its modules through a directory of its own."""
    directory = tmp_path_factory.mktemp("modules")
    directory.chmod(0o700)
    with pytest.MonkeyPatch.context() as patched:  # of the environment alone: the tests share e-graphs all the same
        patched.setenv("EQFUSE_CACHE_DIR", str(directory))
        yield


@pytest.fixture(scope="session")
def kernels():
    """The hand-written Triton modules of ``kernels.py``, as texts."""
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("kernels.py"))))
