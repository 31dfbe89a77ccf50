"""What Inductor would make of the graphs of ``torch.compile(backend="eqfuse")``: counted without a GPU, and beside ours in the report."""

import json

import pytest
import torch
from torch._dynamo import device_interface

import eqfuse
from eqfuse.backend import compile_graph
from eqfuse.backend.inductor import Written
from eqfuse.extract.targets import load_target

H200 = load_target("h200")


pytestmark = pytest.mark.usefixtures("nothing_compiled")


def written(f, *args):
    found = []

    def keep(module, inputs):
        found.append(Written(module, inputs, torch.is_grad_enabled()))
        return module.forward

    torch.compile(f, backend=keep)(*args)
    return found


def test_each_kernel_and_call_reads_and_writes_each_buffer_once():
    m, k, n = 512, 1024, 256
    x, w, scale = torch.randn(m, k), torch.randn(k, n), torch.arange(n) / n
    before = device_interface.get_interface_for_device("cuda")
    with torch.no_grad():
        (graph,) = written(lambda x, w: torch.softmax(x @ w, -1) * scale + torch.tensor([1.0, 2.0] * (n // 2)), x, w)
        found = graph.by_inductor["inference"]
    product, fused = found.calls
    assert (found.kernels, dict(found.library)) == (1, {"aten.mm.out": 1})
    assert product.bytes == 4 * (m * k + k * n + m * n)
    assert fused.bytes == 4 * (2 * m * n + 2 * n), "scores, results, and two vectors"
    assert product.us(H200) == pytest.approx(2 * m * k * n / (H200.tensor_rate("float32") * 1e6) + H200.launch_us)
    assert fused.us(H200) == pytest.approx(fused.bytes / (H200.dram_gb_s * 1e3) + H200.launch_us)
    assert device_interface.get_interface_for_device("cuda") is before
    assert not torch.cuda.is_initialized()


def test_the_report_has_it_for_both_passes_where_it_is_asked_for():
    model = torch.nn.Sequential(torch.nn.Embedding(11, 8), torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    f = torch.compile(model, backend=compile_graph, options={"target": "h200", "time_budget": 0.3})
    f(torch.tensor([[1, 2, 3]])).sum().backward()
    assert not any("inductor" in g for g in json.loads(eqfuse.report().json())["graphs"])
    report = eqfuse.report(inductor=True)
    forward, backward = json.loads(report.json())["graphs"]
    assert (forward["kind"], backward["kind"]) == ("forward", "backward")
    for g in (forward, backward):
        assert g["inductor"]["kernels"] > 0 and g["inductor"]["bytes"] > 0 and g["inductor"]["us"] > 0
    assert sum(forward["inductor"]["library"].values()) == 1 and sum(backward["inductor"]["library"].values()) == 2
    assert str(report).count("Inductor's own fusion is") == 2
    with pytest.raises(eqfuse.errors.OptionError, match="inductor"):
        eqfuse.report(inductor="yes")


def test_where_inductor_fails_the_report_says_so(monkeypatch):
    with torch.no_grad():
        torch.compile(torch.relu, backend=compile_graph, dynamic=True)(torch.randn(3, 4))
        torch.compile(torch.tanh, backend=compile_graph)(torch.randn(3, 4))

    def fails(*_, **__):
        raise AssertionError("no such thing\nand more")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", fails)
    symbols, failed = json.loads(eqfuse.report(inductor=True).json())["graphs"]
    assert symbols["inductor"] == {"reason": "sizes are symbols"}
    assert failed["inductor"] == {"reason": "AssertionError: no such thing"}
