"""Programs of which kernels compute a part: cut where they have to be, right in the interpreter, and ready to say why."""

import json

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

import eqfuse
from eqfuse.errors import AccuracyError, OptionError, PlanError, ShapeError, UnsupportedOpError
from eqfuse.runtime.executable import Executable
from eqfuse.runtime.interpreter import interpret
from eqfuse.runtime.modules import load_module
from eqfuse.steps import Stepped

torch.manual_seed(0)
X = torch.randn(5, 7)


class Convolutional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.second, self.third = torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.last = (
            torch.nn.FractionalMaxPool2d(2, output_size=4, _random_samples=torch.full((2, 4, 2), 0.3)),
            torch.nn.Linear(4, 5),
        )

    def forward(self, x):
        y = torch.relu(self.norm(self.first(x)))
        y = torch.relu(self.second(y)) * 2
        y = self.pool(torch.relu(self.third(y)) * 2)
        return torch.softmax(self.last(y.mean((2, 3))), -1)


def routed(x, gate, w):
    chances, at = torch.topk(torch.softmax(x @ gate, -1), 2, -1)
    hidden = torch.relu(torch.einsum("td,edf->tef", x, w))
    taken = torch.gather(hidden, 1, at[..., None].expand(-1, -1, hidden.shape[-1]))
    return (taken * (chances / chances.sum(-1, keepdim=True))[..., None]).sum(1)


def looked_up(ids, table):
    return torch.softmax(F.embedding(ids, table, padding_idx=0) * 2, -1)


def decomposed(x):
    u, s, _ = torch.linalg.svd(x @ x.T + 1.0)
    return (u.abs() * s).relu().sum(0)


def chosen(x):
    y = torch.exp(x)
    return (y[y > 1.0] * 2).sum() + x


def put_together(x):
    """Results of one operator side by side, as a backward pass has the gradients of queries, keys and values."""
    return torch.cat(torch.linalg.qr(x @ x.T), -1) * 2


def in_the_frequency_domain(x):
    return torch.fft.fft(torch.relu(x)).real * 2


def widened(x):
    return x.double().exp().sum(-1).float() * 2


def branched(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, (x,)) + 1


def views_between(x, w):
    """A convolution in channels_last, whose result is viewed, repeated and cut before torch reads it again."""
    y = F.conv2d(F.relu(x), w).relu()
    sorted_ = torch.linalg.svdvals(y.permute(0, 2, 3, 1).flatten(1)[:, 4:].expand(3, 2, -1))
    return sorted_.exp(), torch.linalg.svdvals(torch.arange(6.0).reshape(2, 3)) + y.sum(), y


PROGRAMS = {
    routed: ((torch.randn(6, 8), torch.randn(8, 4), torch.randn(4, 8, 5)), {"aten.topk"}),
    decomposed: ((torch.randn(4, 4),), {"aten._linalg_svd"}),
    chosen: ((X,), {"aten.index.Tensor"}),
    put_together: ((torch.randn(4, 4),), {"aten.linalg_qr"}),
    in_the_frequency_domain: ((X,), {"aten._fft_r2c"}),
    widened: ((X,), {"aten.exp"}),
    branched: ((X,), {"cond"}),
    views_between: ((torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3)), {"aten._linalg_svd"}),
    looked_up: ((torch.tensor([1, 2, 0]), torch.randn(9, 4)), set()),
}


def stepped(f, args, **options):
    return eqfuse.optimize(f, args, **{"target": "h200", **options})


@pytest.mark.parametrize("f", PROGRAMS)
def test_nothing_stops_a_program(f):
    """Kernels for what there are kernels for, torch for the rest, and the strides of torch."""
    args, library = PROGRAMS[f]
    c = stepped(f, args)
    found, wanted = (torch.utils._pytree.tree_leaves(r) for r in (c.interpret(*args), f(*args)))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert a.stride() == b.stride()
    if library:
        assert library <= {s.target for s in c.plan.library}
        assert c.plan.kernels
        assert all(s.reason for s in c.plan.library)


@pytest.fixture(scope="module")
def convolutional():
    model = Convolutional().eval()
    return stepped(model, (torch.randn(2, 3, 8, 8),), name="net", time_budget=0.5), model, torch.randn(2, 3, 8, 8)


def test_a_network(convolutional):
    c, model, x = convolutional
    wanted = model(x)
    torch.testing.assert_close(c.interpret(x), wanted.detach())
    assert torch.equal(c(x), wanted), "CPU tensors run the program itself"
    report = c.accuracy(x, factor=4.0)
    assert report.runner == "interpret"
    assert 0 < report.outputs[0].ours < 1e-6
    launches = {tuple(s.kernel.name for s in steps) for piece in c.plan.pieces for steps in piece.plan.launched}
    assert len(c.compile()) == len(launches) < len({k.kernel.name for k in c.plan.kernels}), "some are launched together"


def test_what_runs_on_a_gpu_calls_the_kernels_between_the_operators(convolutional, monkeypatch):
    """The same graph, its pieces launched: here in the interpreter."""

    def launch(self, tensors):
        launched.append(self.program.name)
        return interpret(load_module(self.generated.called_source, "interpret"), "run", *tensors)

    c, model, x = convolutional
    launched = []
    monkeypatch.setattr(Executable, "launch", launch)
    with torch.no_grad():
        torch.testing.assert_close(c.steps.run(list(c._calling.bind(x)))[0], model(x))
    assert len(launched) == len(c.plan.pieces)


def test_the_plan_and_the_explanation_say_what_torch_runs_and_why(convolutional):
    c, _, _ = convolutional
    pool = next(s for s in c.plan.library if "fractional" in s.target)
    assert pool.where.startswith("test_steps.py:")
    assert "self.pool" in pool.where
    assert "not supported" in pool.reason
    assert (pool.target, pool.reason, pool.where) in c.explain().reasons
    assert pool.where in str(c.plan)
    assert c.plan.estimated_us < c.plan.baseline_us
    data = json.loads(c.explain().json())
    assert [s["name"] for s in data["steps"]] == [s.name for s in c.plan.parts]
    assert data["pieces"].keys() == {s["first"] for s in data["steps"] if "first" in s}
    assert not c.why(pool.name, c.plan.pieces[-1].makes[0]).shared
    with pytest.raises(OptionError, match="nothing_of_the_sort"):
        c.why("nothing_of_the_sort", pool.name)


def test_equal_pieces_are_planned_once():
    def layers(x):
        for _ in range(3):
            x = torch.sort(torch.softmax(x, -1) * 2, -1).values
        return x

    c = stepped(layers, (X,))
    assert [p.plan for p in c.plan.pieces] == [c.plan.pieces[0].plan] * 3
    assert str(c.plan).count("the kernels of piece_0") == 2
    torch.testing.assert_close(c.interpret(X), layers(X))
    assert c.source.count("@triton.jit\ndef layers_0") == 1


def test_a_saved_program_needs_torch_and_triton_only(convolutional, tmp_path):
    c, model, x = convolutional
    path = c.save(tmp_path / "net.py")
    text = path.read_text()
    assert "eqfuse" not in text
    given = c.bind((x,), {})
    assert {"x", "first_weight", "norm_running_mean"} <= given.keys()
    found = interpret(load_module(text, "interpret"), "run", *given.values())
    torch.testing.assert_close(found[0], model(x).detach())
    with pytest.raises(PlanError, match="graph inside"):
        stepped(branched, (X,)).save(tmp_path / "branched.py")


def test_what_a_program_writes_is_written():
    def counts(x, seen):
        seen.add_(x.exp().sum(0))
        return x * 2

    norm = torch.nn.BatchNorm1d(7)
    same = torch.nn.BatchNorm1d(7)
    c, x = stepped(norm, (X,)), torch.randn(5, 7)
    torch.testing.assert_close(c.interpret(x), same(x).detach(), rtol=1e-5, atol=1e-5)
    for a, b in zip(norm.buffers(), same.buffers(), strict=True):
        torch.testing.assert_close(a, b)
    seen = torch.zeros(7)
    torch.testing.assert_close(stepped(counts, (X, seen)).interpret(X, seen), X * 2)
    torch.testing.assert_close(seen, X.exp().sum(0))


def test_other_shapes_are_planned_for(monkeypatch):
    """What a call on a GPU with another shape would run."""
    c = stepped(lambda x: torch.sort(x.exp(), -1).values * 2, (X,))
    other = c._variant((torch.empty(3, 9),), {})
    assert isinstance(other, Stepped)
    assert c._variant((torch.empty(3, 9),), {}) is other
    y = torch.randn(3, 9)
    torch.testing.assert_close(other.interpret(y), torch.sort(y.exp(), -1).values * 2)


def test_the_same_kernels_at_other_sizes():
    """How steps of large tensors are verified on small ones."""

    def f(x):
        return torch.sort(torch.softmax(x, -1) * 2, -1).values.exp()

    def kinds(c):
        return [[r.kind for r in k.kernel.roles.values()] for k in c.plan.kernels]

    large, x = stepped(f, (torch.empty(300, 100_000, device="meta"),)), torch.randn(5, 70)
    small = large.at(x)
    torch.testing.assert_close(small.interpret(x), f(x))
    assert kinds(small) == kinds(large) != kinds(stepped(f, (x,)))


def test_exported_programs_have_their_sizes_or_symbols_for_them():
    class Sorted(torch.nn.Module):
        def forward(self, x):
            return torch.sort(x.exp(), -1).values * 2

    y = torch.randn(9, 7)
    fixed = stepped(torch.export.export(Sorted(), (X,)), None)
    torch.testing.assert_close(fixed.interpret(X), Sorted()(X))
    with pytest.raises(ShapeError, match=r"\(9, 7\)"):
        fixed._variant((y,), {})
    with pytest.raises(ShapeError, match=r"\(9, 7\)"):
        fixed.at(y)
    free = torch.export.export(Sorted(), (X,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.testing.assert_close(stepped(free, (y,)).interpret(y), Sorted()(y))


def test_strict_raises():
    def f(x):
        return x.median(-1).values * 2

    with pytest.raises(UnsupportedOpError, match=r"aten\.median"):
        stepped(f, (X,), strict=True)
    with pytest.raises(OptionError, match="strict"):
        stepped(f, (X,), strict="yes")


def between(x):
    """Two pieces, each with two values of names, and torch's sort between."""
    first = torch.softmax(x, -1)
    order = torch.sort(first * 2, -1).values
    second = order.exp()
    third = second / second.sum(-1, keepdim=True)
    return third + 1


def beside(x):
    """Torch's sort between two values, the last of which needs both."""
    first = torch.softmax(x, -1)
    order = torch.sort(first * 2, -1).values
    last = order.exp() + first
    return last


def test_verdicts_are_about_the_values_of_a_piece():
    apart = stepped(between, (X,), fusion=[("forbid", "third", "second"), ("forbid", "third", "first")])
    assert len(apart.plan.kernels) == len(stepped(between, (X,)).plan.kernels) + 1
    torch.testing.assert_close(apart.interpret(X), between(X))
    held, content = str(apart.plan).split("verdict: ")[1:]
    assert "held" in held
    assert "different steps" in content
    with pytest.raises(OptionError, match="different steps"):
        stepped(between, (X,), fusion=[("require", "third", "first")])
    (said,) = stepped(beside, (X,), fusion=[("forbid", "last", "first")]).plan.decisions
    assert "different steps" in said.outcome, "a piece that reads a value does not make it"
    with pytest.raises(OptionError, match="'nobody'"):
        stepped(between, (X,), fusion=[("forbid", "third", "nobody")])


def test_a_limit_of_memory_is_about_what_is_held_between_steps_too():
    plan = stepped(between, (X,)).plan
    assert plan.temporary_bytes == X.numel() * (4 + 4 + 8), "what is sorted, and both results of sorting"
    assert stepped(between, (X,), memory_limit=plan.temporary_bytes).plan.steps == plan.steps
    with pytest.raises(PlanError, match="held between steps at sort"):
        stepped(between, (X,), memory_limit=plan.temporary_bytes - 1)


def test_every_piece_is_tried_where_accuracy_is_asked_for():
    found = stepped(between, (X,), accuracy_factor=2.0)
    assert str(found.plan).count("within 2 times eager") == 2
    with pytest.raises(AccuracyError, match="no plan is within"):
        stepped(between, (X,), accuracy_factor=1e-9)
