"""Processes that talk over gloo: DTensors in, DTensors out, against the program on one device."""

import multiprocessing
import traceback

import pytest
import torch
import torch.distributed as dist
from mesh_programs import attention, causal, cross_entropy, mlp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import eqfuse
from eqfuse.errors import PlanError, UnsupportedOpError
from eqfuse.testing.models import MODELS

pytestmark = pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="torch without gloo")

R, S = Replicate(), Shard


def worker(rank, count, store, work, failures):
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
        work(count)
        dist.destroy_process_group()
    except BaseException:
        failures.put(f"process {rank}\n{traceback.format_exc()}")
        raise


def together(count, work, store):
    """Run a function in so many processes, forked from one that has imported what they need and has no threads that could hold a lock."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed.tensor", "eqfuse"])
    failures = context.SimpleQueue()
    processes = [context.Process(target=worker, args=(r, count, store, work, failures), daemon=True) for r in range(count)]
    for p in processes:
        p.start()
    for p in processes:
        p.join(100)
    alive = [p for p in processes if p.is_alive()]
    for p in alive:
        p.kill()
    assert failures.empty() and not alive and not any(p.exitcode for p in processes), "no answer" if failures.empty() else failures.get()


def same(f, mesh, tensors, placements, **options):
    """The result of a call is the program's, and where the plan says."""
    spread = tuple(distribute_tensor(t, mesh, p) for t, p in zip(tensors, placements, strict=True))
    c = eqfuse.optimize(f, spread, **options)
    found = c(*spread)
    assert isinstance(found, DTensor)
    torch.testing.assert_close(found.full_tensor(), f(*tensors), rtol=2e-5, atol=2e-5)
    return c, spread, found


def two(count):
    mesh = init_device_mesh("cpu", (count,))
    torch.manual_seed(0)
    x, w1, b, w2 = torch.randn(8, 4), torch.randn(12, 4), torch.randn(12), torch.randn(8, 12)
    c, spread, found = same(mlp, mesh, (x, w1, b, w2), ([R], [S(0)], [S(0)], [S(1)]))
    assert found.placements == (S(0),) and [s.kind for m in c.plan.moves for _, s in m.steps] == ["reduce-scatter"]

    # other placements are planned for when they come; gradients are PyTorch's
    moved = (spread[0], *(t.redistribute(placements=[R]) for t in spread[1:]))
    torch.testing.assert_close(c(*moved).full_tensor(), mlp(x, w1, b, w2), rtol=2e-5, atol=2e-5)
    learned = spread[1].detach().requires_grad_()
    c(spread[0], learned, *spread[2:]).sum().backward()
    assert learned.grad is not None

    # addends, integers, and a module with its parameters spread
    halves = DTensor.from_local(x / 2, mesh, [Partial()])
    torch.testing.assert_close(eqfuse.optimize(torch.neg, (halves,))(halves).full_tensor(), -x)
    i = torch.randint(-9, 9, (8, 16), dtype=torch.int32)
    same(lambda i: i.sum(-1), mesh, (i,), ([S(1)],))
    _, _, found = same(lambda x: (x * 2).view(2, 4, 4).transpose(1, 2).reshape(2, 16), mesh, (x,), ([S(0)],))
    assert found.placements == (S(0),)  # a last reshape
    with pytest.raises(UnsupportedOpError, match="concatenation"):
        eqfuse.optimize(lambda x: torch.cat((x.exp(), x.sum(0, keepdim=True))), (spread[0],))
    layer = torch.nn.Linear(4, 12)
    want = layer(x).detach()
    for name, p in list(layer.named_parameters()):
        layer.register_parameter(name, torch.nn.Parameter(distribute_tensor(p.detach(), mesh, [S(0)]), requires_grad=False))
    found = eqfuse.optimize(layer, (spread[0],))(spread[0])
    assert found.placements == (S(1),)
    torch.testing.assert_close(found.full_tensor(), want)

    # processes that would wait for each other are told
    if dist.get_rank():
        mlp.__name__ = "other"
    with pytest.raises(PlanError, match="differently"):
        eqfuse.optimize(mlp, spread)


def four(count):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (count,))
    q, k, v = torch.randn(2, 8, 4), torch.randn(2, 16, 4), torch.randn(2, 16, 4)
    same(attention, mesh, (q, k, v), ([R], [S(1)], [S(1)]), out_placements=[[R]])
    same(causal, mesh, (k, k.clone(), v), ([S(1)], [S(1)], [S(1)]))
    x, w, t = torch.randn(8, 4), torch.randn(16, 4), torch.randint(16, (8,))
    same(cross_entropy, mesh, (x, w, t), ([R], [S(0)], [R]))
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    x, w1, b, w2 = torch.randn(8, 4), torch.randn(12, 4), torch.randn(12), torch.randn(8, 12)
    _, _, found = same(mlp, grid, (x, w1, b, w2), ([S(0), R], [R, S(0)], [R, S(0)], [R, S(1)]), out_placements=[[S(0), R]])
    assert found.placements == (S(0), R)


def layer(count):
    """A transformer's layer whose weights are in columns and then rows: two all-reduces, as tensor parallelism has them."""
    mesh, model = init_device_mesh("cpu", (count,)), MODELS["vit"]
    module, (x, *tables) = model.module("tiny", dtype="float32", device="cpu"), model.args("tiny", dtype="float32", device="cpu")
    want = module(x, *tables)
    for name, p in list(module.named_parameters()):
        owner, _, leaf = name.rpartition(".")
        columns = any(w in name for w in ("query", "key", "value", "intermediate"))
        place = S(0) if columns else S(1) if name.endswith(("dense.weight", "output.weight")) else R
        spread = torch.nn.Parameter(distribute_tensor(p.detach(), mesh, [place]), requires_grad=False)
        module.get_submodule(owner).register_parameter(leaf, spread)
    x = distribute_tensor(x, mesh, [R])
    c = eqfuse.optimize(module, (x, *tables), out_placements=[[R]])
    assert [s.kind for m in c.plan.moves for _, s in m.steps] == ["all-reduce"] * 2
    torch.testing.assert_close(c(x, *tables).full_tensor(), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("count", "work"), [(2, two), (2, layer), (4, four)])
def test_processes(count, work, tmp_path):
    together(count, work, tmp_path / "store")
