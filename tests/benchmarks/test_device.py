"""What benchmarks/run.py does on a machine with a GPU, without one: CPU tensors stand for CUDA tensors, kernels are interpreted."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from eqfuse.compiled import Compiled
from eqfuse.runtime.executable import Executable
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.testing.programs import Arg, Case

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"small": (4, 8), "odd": (3, 7), "check": (5, 33), "bench": (8, 64)}


def softmax(x):
    return torch.softmax(x, -1)


def total(x):
    return x.exp().sum(-1)


def doubled(x):
    return x * 2 + 1


def case(fn):
    return Case(fn.__name__, fn, {size: (Arg(shape),) for size, shape in SIZES.items()}, dtypes=("float32",))


class Device:
    """What would be a GPU: a log of what was done, and the faults that it has."""

    def __init__(self):
        self.log = []
        self.fault = {}  # program -> function that does its kernels' work at bench size instead
        self.lost = False

    def run(self, compiled):
        def launch(tensors):
            name = compiled.program.name
            self.log.append(("run", name))
            if name in self.fault and tuple(tensors[0].shape) == SIZES["bench"]:
                return self.fault[name](*tensors)
            return interpret(load_module(compiled.source, "interpret"), "run", *tensors)

        return launch

    def synchronize(self):
        if self.lost:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def crash(self, *tensors):
        self.lost = True
        self.synchronize()

    def timed(self):
        return [name for what, name in self.log if what == "time"]


@pytest.fixture
def device(monkeypatch):
    found = Device()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", found.synchronize)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(name="Some GPU", L2_cache_size=1 << 10))
    monkeypatch.setattr(Executable, "_device", lambda self, tensors: "cuda")
    monkeypatch.setattr(Executable, "_kernels_on", property(found.run))
    return found


@pytest.fixture
def bench(monkeypatch, device, tmp_path):
    """``bench("--resume")`` runs the script and returns its exit status; ``bench.saved()`` is the file."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("benchmarks_run", ROOT / "benchmarks" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    programs = {f.__name__: case(f) for f in (softmax, total, doubled)}

    def time_us(f, inputs):
        assert len(inputs) > 1
        name = f.program.name if isinstance(f, Compiled) else "a baseline"
        device.log.append(("time", name))
        return {"median_us": 2.0, "p10_us": 1.0, "p90_us": 3.0, "how": "graph"}

    environment = {"date": "2026-01-02T00:00:00+00:00", "device": "Some GPU", **dict.fromkeys(("torch", "triton", "python", "commit", "cpu"), "1")}
    for name, value in {
        "PROGRAMS": programs, "DEVICE": "cpu", "time_us": time_us, "environment": lambda: environment | {"cores": 1, "load": 0.0},
    }.items():  # fmt: skip
        monkeypatch.setattr(module, name, value)

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["run.py", "--target", "h200", "--save", "--results", str(tmp_path), *options])
        return module.main()

    run.path = tmp_path / "2026-01-02-some-gpu.json"
    run.rows = lambda: {r["program"]: r for r in json.loads(run.path.read_text())["rows"]}
    run.module = module
    return run


def test_every_program_is_checked_before_any_is_timed(bench, device):
    assert bench() == 0
    first = device.log.index(("time", "softmax"))
    assert {name for what, name in device.log[:first] if what == "run"} == {"softmax", "total", "doubled"}
    for row in bench.rows().values():
        assert list(row["device_check"]) == ["check", "odd", "bench"], "the timed kernels, on the shapes that they are timed at, too"
        assert all(o["ours"] < 1e-6 for o in row["device_check"]["bench"])
        assert set(row["measured"]) == {"eqfuse", "eager", "torch.compile"}
        assert row["measured_over_modelled"] > 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda x: [x * 2 + 1.001], "the check failed: bench"),
        (lambda x: [torch.empty_like(x)], "the check failed: bench"),
        (lambda x: (_ for _ in ()).throw(ValueError("out of resource: shared memory\nand more")), "ValueError: out of resource: shared memory"),
    ],
    ids=["wrong", "unwritten", "raises"],
)
def test_what_is_wrong_at_bench_size_only_is_not_timed(bench, device, fault, said):
    device.fault["doubled"] = fault
    assert bench() == 0
    rows = bench.rows()
    assert said in rows["doubled"]["measured"]
    assert "doubled" not in device.timed()
    assert isinstance(rows["total"]["measured"], dict)
    assert not torch.are_deterministic_algorithms_enabled()
    assert "Not timed: doubled (" in importlib.import_module("tables").section(bench.path)


def test_a_lost_device_ends_the_run_and_another_one_goes_on(bench, device):
    device.fault["total"] = device.crash
    assert bench() == bench.module.LOST
    rows = bench.rows()
    assert list(rows) == ["softmax", "total"]
    assert "illegal memory access" in rows["total"]["measured"]
    assert "measured" not in rows["softmax"], "it was checked and not timed"
    device.lost, device.log = False, []
    assert bench("--resume") == 0
    rows = bench.rows()
    assert set(rows) == {"softmax", "total", "doubled"}
    assert "illegal memory access" in rows["total"]["measured"]
    assert ("run", "total") not in device.log
    assert device.timed() == ["softmax", "a baseline", "a baseline", "doubled", "a baseline", "a baseline"]


def test_a_run_is_not_continued_in_another_environment(bench, monkeypatch):
    assert bench("softmax") == 0
    before = bench.module.environment()
    monkeypatch.setattr(bench.module, "environment", lambda: before | {"torch": "2"})
    with pytest.raises(SystemExit):
        bench("--resume")
    assert list(bench.rows()) == ["softmax"]
