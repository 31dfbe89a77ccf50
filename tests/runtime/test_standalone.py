"""Saved files stand alone and test themselves: each runs as a script where there is no EqFuse, and one with a fault in it says so."""

import os
import subprocess
import sys

import pytest
import torch

import eqfuse
from eqfuse.errors import OptionError, PlanError

torch.manual_seed(0)

ALONE = """
import os, runpy, sys
os.environ["TRITON_INTERPRET"] = "1"
sys.modules["eqfuse"] = None  # importing it fails from here on
for path in sys.argv[1:]:
    print(path.rpartition("/")[2])
    try:
        runpy.run_path(path, run_name="__main__")
    except AssertionError as error:
        print("AssertionError", error)
"""


def scripts(folder, *paths):
    """What each file says when it is run, by its name: one process for all, which is where the time goes."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TRITON_INTERPRET")}
    (folder / "alone.txt").write_text(ALONE)
    command = [sys.executable, str(folder / "alone.txt"), *map(str, paths)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        if line.endswith(".py"):
            found[line] = []
        else:
            found[next(reversed(found))].append(line)
    return found


class Block(torch.nn.Module):
    """Weights, a lookup, a mask that the module holds, bfloat16, and a number that is no tensor among the results."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 32, dtype=torch.bfloat16)
        self.linear = torch.nn.Linear(32, 48, dtype=torch.bfloat16)
        self.register_buffer("keep", torch.ones(48, dtype=torch.bool))

    def forward(self, ids):
        hidden = torch.nn.functional.gelu(self.linear(self.table(ids)))
        return hidden.masked_fill(~self.keep, 0.0), 3, hidden.float().argmax(-1)


def sorted_between(x):
    return torch.sort(torch.softmax(x, -1) * 2, -1).values.exp() + 1


def layers(x, *weights):
    for w in weights:
        x = torch.relu(x @ w)
    return x


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.statistics, self.last = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)

    def forward(self, x, y):
        return torch.nn.functional.cross_entropy(self.last(torch.relu(self.statistics(self.linear(x)))), y)


def scaled(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What the scripts say, and their texts."""
    folder = tmp_path_factory.mktemp("saved")

    def optimized(f, args, **options):
        return eqfuse.optimize(f, args, target="h200", time_budget=4.0, **options)

    large = [torch.empty(64, 2048, dtype=torch.bfloat16, device="meta")]
    large += [torch.empty(2048, 2048, dtype=torch.bfloat16, device="meta") for _ in range(17)]
    regions = optimized(layers, large)
    assert regions.plan.parts
    paths = [
        optimized(Block(), (torch.zeros(40, 30, dtype=torch.int64),)).save(folder / "one.py"),
        optimized(sorted_between, (torch.randn(5, 7),)).save(folder / "steps.py"),
        regions.save(folder / "regions.py"),
        optimized(Trained(), (torch.randn(8, 6), torch.randint(0, 3, (8,))), training=True).save(folder / "training.py"),
        optimized(scaled, (torch.empty(64, 40000),)).save(folder / "range.py", sizes=[(torch.empty(4096, 96),)]),
    ]
    texts = {p.name: p.read_text() for p in paths}
    wrong = folder / "wrong.py"
    wrong.write_text(texts["steps.py"].replace(" + 1.0", " + 1.001"))
    assert wrong.read_text() != texts["steps.py"]
    return texts, scripts(folder, *paths, wrong)


def results(lines):
    return [line.partition(" (")[0] for line in lines if ": error" in line]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("one.py", ["out0", "out2"]),
        ("steps.py", ["out"]),
        ("regions.py", ["out"]),
        ("training.py", ["out", "new_statistics_running_mean", "new_statistics_running_var", "new_statistics_num_batches_tracked",
                         "grad_linear_weight", "grad_linear_bias", "grad_statistics_weight", "grad_statistics_bias", "grad_last_weight",
                         "grad_last_bias"]),
        ("range.py", ["out", "out"]),
    ],
)  # fmt: skip
def test_a_saved_file_tests_itself_alone(saved, name, wanted):
    texts, found = saved
    assert results(found[name]) == wanted
    assert "AssertionError" not in "".join(found[name])
    assert "checked: its rules are equations" in texts[name]
    assert "import eqfuse" not in texts[name]


def test_a_fault_is_found(saved):
    _, found = saved
    assert found["wrong.py"][-1].startswith("AssertionError not what torch computes: out")


def test_small_sizes_are_tried_where_kernels_take_them(saved):
    """Regions, too: their lengths are read from the arguments, and the test is at smaller ones than were planned for."""
    _, found = saved
    assert "(40, 30, 48)" not in found["one.py"][-1]
    assert "in float32 for bfloat16" in found["one.py"]
    (line,) = [line for line in found["regions.py"] if ": error" in line]
    assert int(line.partition(", ")[2].partition(")")[0]) < 2048
    lengths = [int(line.partition(", ")[2].partition(")")[0]) for line in found["range.py"] if ": error" in line]
    assert max(lengths) < 40000
    assert min(lengths) <= 128


def test_which_plan_is_chosen_by_sizes(saved):
    """The ranges stand in the text; what no plan takes is refused."""
    texts, _ = saved
    run = texts["range.py"].partition("\ndef run(")[2].partition("\n\n\n")[0]
    first, second = (run.partition(f"return _plan_{k}(")[0].rpartition("if ")[2] for k in (1, 2))
    assert "x.shape[1] == 40000" in first
    assert "x.shape[1] == 96" in second
    assert run.index("_plan_2") < run.index("# outside") < run.rindex("raise ValueError")


def test_sizes_that_make_another_program_are_refused(tmp_path):
    c = eqfuse.optimize(lambda x: torch.softmax(x, -1), (torch.empty(8, 16),), target="h200")
    with pytest.raises(PlanError, match="another program at others"):
        c.save(tmp_path / "x.py", sizes=[(torch.empty(1, 16),)])
    with pytest.raises(OptionError, match="sizes"):
        c.save(tmp_path / "x.py", sizes=torch.empty(2, 2))


def test_what_has_no_reference_says_so(tmp_path):
    def random(x):
        return torch.nn.functional.dropout(torch.sort(x.exp(), -1).values, 0.5, True) * 2

    text = eqfuse.optimize(random, (torch.randn(4, 8),), target="h200").save(tmp_path / "random.py").read_text()
    assert "no test of its own: it is random" in text
    assert "def reference" not in text
