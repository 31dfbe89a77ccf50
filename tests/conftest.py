"""Every e-graph that a test saturates is audited: each class must agree with itself in numbers.  And whatever one stage hands to the
next, of every level, is checked against the table of that level.  Graphs and plans that several tests ask for are made once (``sharing``).

Left out are tests that make unsound graphs on purpose (marked ``unaudited``; rules that are not registered say the same), and graphs whose
long split or reshaped axes would make the audit too large (the same programs are audited at small sizes).
"""

import math
import os
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # for what follows

from concerned import ROOT, asked, concerned
from known import KNOWN
from quick import cpu_seconds, marks, place, record
from sharing import Sharing

os.environ["EQFUSE_AUDIT"] = "1"  # for the processes that tests start
os.environ["EQFUSE_SPEC"] = "1"
os.environ["EQFUSE_TARGET"] = "h200"  # what is planned without saying for what is the same on every machine
os.environ["EQFUSE_CACHE"] = "modules"  # what is tested is planned; what was compiled is not compiled again
os.environ["EQFUSE_TARGETS"] = os.devnull  # for no machine in particular
settings.register_profile("eqfuse", suppress_health_check=[HealthCheck.too_slow])  # which a clock decides
settings.load_profile("eqfuse")
wanted = True
sharing = Sharing()


@pytest.fixture(autouse=True, scope="session")
def every_graph_is_audited():
    from eqfuse.egraph import run as module
    from eqfuse.egraph.audit import audit
    from eqfuse.planning import debug
    from eqfuse.planning.debug import auditable
    from eqfuse.rewrites import registry

    saturated, twice, auditing = module._saturate, debug.audit_now, False

    def audited(engine, program, rules, splits, run):
        nonlocal auditing
        graph = saturated(engine, program, rules, splits, run)
        known = {id(r) for r in registry.rules()}
        if wanted and not auditing and auditable(graph) and all(id(r) in known for r in rules):
            auditing = True  # an audit that finds something saturates smaller programs
            try:
                audit(graph, rules=rules, shrink_seconds=0)
            finally:
                auditing = False
        return graph

    module._saturate = audited
    debug.audit_now = lambda graph, rules: None  # what it would do has been done
    stop = sharing.start()
    yield
    stop()
    module._saturate, debug.audit_now = saturated, twice


PATIENCE = {"diagnosis": ("_PATIENCE",), "equivalence": ("_PATIENCE", "_LOOK"), "larger": ("_PATIENCE",)}


@pytest.fixture(autouse=True, scope="session")
def no_test_waits_for_a_clock():
    """What a test does not limit itself has all the time: how far a saturation, a search for a fault or an experiment gets is not the
    machine's affair."""
    audit, saturate = (import_module(f"eqfuse.egraph.{name}") for name in ("audit", "saturate"))
    limits = {"time_budget", "shrink_seconds", "blame_seconds"}
    limited = [f.__kwdefaults__ for f in (saturate.saturate, audit.audit, audit.explained)]
    kept = [(defaults, name, defaults[name]) for defaults in limited for name in limits & defaults.keys()]
    for module, names in PATIENCE.items():
        values = vars(import_module(f"eqfuse.testing.{module}"))
        kept += [(values, name, values[name]) for name in names]
    for where, name, _ in kept:
        where[name] = math.inf
    yield
    for where, name, was in kept:
        where[name] = was


@pytest.fixture
def nothing_compiled():
    """``torch.compile`` and the backend's report remember nothing of other tests."""
    import torch

    import eqfuse

    torch._dynamo.reset()
    eqfuse.report(reset=True)
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def mark_unaudited(request):
    global wanted
    wanted = request.node.get_closest_marker("unaudited") is None
    yield
    wanted = True


class RootIsNoTestPackage:
    """The root of the checkout is the package under test.  Without this, pytest imports it a second time, under the checkout's name, which
    fails where that name is no identifier (``eqfuse-1``)."""

    @staticmethod
    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(path, parent):
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None


def pytest_configure(config):
    config.pluginmanager.register(RootIsNoTestPackage())  # a conftest.py has no say in the directories above it
    asked()  # before any process collects: a file that is not there ends the run


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Before ``-m`` is looked at: what ``make test`` leaves out has the mark.  ``FOR=`` leaves what concerns its files."""
    for item, names in marks(items).items():
        for name in names:
            item.add_marker(getattr(pytest.mark, name)(by="costs"))
    for item in items:
        if cause := KNOWN.get("::".join(place(item))):
            item.add_marker(pytest.mark.xfail(reason=cause, strict=True))
    if files := asked():
        kept = concerned(items, files)
        known = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in known])
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Who shares (fixtures of modules, too, which the first test makes), and what each test takes, for ``make costs``."""
    own = any(item.get_closest_marker(mark) for mark in ("unaudited", "unshared"))
    sharing.on = not own and "monkeypatch" not in item.fixturenames
    begun = cpu_seconds()
    result = yield
    sharing.on = False
    if file := os.environ.get("EQFUSE_TEST_COSTS"):
        with Path(file).open("a") as out:
            out.write(record(item, cpu_seconds() - begun) + "\n")
    return result
