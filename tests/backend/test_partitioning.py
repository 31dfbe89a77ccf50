"""What is saved between the graphs of AOTAutograd: gradients are those of eager, whatever is made again."""

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from eqfuse.backend.partitioning import WRITTEN_OUT, partition
from eqfuse.extract.targets import load_target
from eqfuse.frontends.weighted_derivative import differentiable_attention, differentiable_values

H200 = load_target("h200")


@pytest.fixture(autouse=True)
def from_the_beginning():
    torch._dynamo.reset()
    torch.manual_seed(0)


def parted(f, held=None, **options):
    """A function whose two graphs torch runs as they are parted here; what is held goes to a list."""

    def ours(module, inputs, *, num_fwd_outputs, **_):
        *made, n = partition(module, num_fwd_outputs, H200)
        if held is not None:
            held.append(n)
        return made

    backend = aot_autograd(fw_compiler=lambda m, _: make_boxed_func(m), partition_fn=ours, decompositions=WRITTEN_OUT)
    return torch.compile(f, backend=backend, **options)


def agree(f, g, *args, rtol=1e-4, atol=1e-5):
    """Results and gradients of two functions, with the same random numbers."""
    found = []
    for function in (f, g):
        given = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in args]
        torch.manual_seed(1)
        y = function(*given)
        y.square().sum().backward()
        found.append([y.detach(), *(a.grad for a in given if a.grad is not None)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


def test_of_attention_two_numbers_of_each_row_are_saved():
    q, k, v = (torch.empty(1, 8, 2048, 64, dtype=torch.float16, device="meta", requires_grad=True) for _ in range(3))
    held: list[int] = []
    parted(lambda *t: differentiable_attention(*t, is_causal=True), held)(q, k, v)
    assert held == [2 * 8 * 2048 * 4]


def test_masks_groups_and_rows_without_scores_have_the_gradients_of_the_library():
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    mask = torch.rand(6, 6) > 0.4
    mask[2] = False
    library = F.scaled_dot_product_attention
    agree(lambda *t: library(*t, enable_gqa=True), parted(lambda *t: differentiable_attention(*t, enable_gqa=True)), q, k, v, mask)
    agree(
        lambda *t: library(*t, enable_gqa=True),
        parted(lambda *t: differentiable_attention(*t, enable_gqa=True)),
        q,
        k,
        v,
        torch.randn(4, 6, 6),
    )
    s, w = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True), torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(differentiable_values, (s, w))  # w for both, its gradient summed


class Layer(torch.nn.Module):
    """RMSNorm, rotary embedding, groups of heads, SwiGLU."""

    def __init__(self, d, heads, groups):
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, d // heads
        self.q, self.o, self.up, self.gate, self.down = (torch.nn.Linear(d, d, bias=False) for _ in range(5))
        self.k, self.v = (torch.nn.Linear(d, groups * self.width, bias=False) for _ in range(2))
        self.scale = torch.nn.Parameter(torch.rand(d) + 0.5)

    def normed(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale

    def turned(self, x):
        angles = torch.arange(x.size(-2))[:, None] * torch.tensor([1.0, 0.1])
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)

    def forward(self, x, attention):
        y = self.normed(x)
        q, k, v = (
            f(y).unflatten(-1, (n, -1)).transpose(1, 2) for f, n in ((self.q, self.heads), (self.k, self.groups), (self.v, self.groups))
        )
        x = x + self.o(attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2))
        y = self.normed(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def test_a_layer_saves_its_products_and_no_scores():
    """Also where prices are small beside the largest, and sums of them are rounded."""
    layer, x = Layer(16, 4, 2), torch.randn(2, 6, 16)
    same = copy.deepcopy(layer)
    held: list[int] = []
    parted(lambda x: layer(x, differentiable_attention), held)(x).square().sum().backward()
    same(x, F.scaled_dot_product_attention).square().sum().backward()
    for (name, a), b in zip(layer.named_parameters(), same.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name, rtol=1e-4, atol=1e-5)
    assert held[0] >= 4 * 2 * 6 * (16 + 8 + 8 + 16 + 16 + 16)  # q, k, v, the first sum, up and gate


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedded, self.first, self.norm = torch.nn.Embedding(9, 6), torch.nn.Conv1d(6, 4, 3, padding=1), torch.nn.BatchNorm1d(4)
        self.second, self.last = torch.nn.Conv1d(4, 4, 3), torch.nn.Linear(4, 9)

    def forward(self, x):
        y = torch.relu(self.norm(self.first(self.embedded(x).transpose(1, 2))))
        y = F.dropout(torch.exp(torch.tanh(self.second(F.dropout(y, 0.3)))), 0.3)
        return F.cross_entropy(self.last(y.mean(-1)), x[:, 0])


def test_what_torch_runs_is_an_input_and_is_never_run_again():
    """Convolutions, and numbers drawn once: made again they would be others."""
    model, x = Net(), torch.randint(9, (3, 8))
    same = copy.deepcopy(model)
    held: list[int] = []
    f = parted(model, held)
    for m in (f, same):
        torch.manual_seed(1)
        m(x).backward()
    for (name, a), b in zip(model.named_parameters(), same.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, msg=name, rtol=1e-4, atol=1e-6)
    for (name, a), b in zip(model.named_buffers(), same.buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)
    assert len(held) == 1


def test_an_argument_that_is_written_is_saved_as_it_was():
    def f(x, counter):
        y = torch.exp(x) * counter.sin() * (counter * 2)
        counter.add_(1)
        return y

    grads = []
    for g in (f, parted(f)):
        x, counter = torch.ones(3, requires_grad=True), torch.ones(3)
        g(x, counter).sum().backward()
        grads.append(x.grad)
        assert counter.tolist() == [2.0] * 3
    torch.testing.assert_close(*grads)


def test_what_is_not_parted_says_why():
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(3, 4, requires_grad=True)
    for f, dynamic, why in (
        (lambda x: torch.softmax(x, -1), True, "sizes are symbols"),
        (lambda x: checkpoint(lambda y: torch.exp(y).sin(), x, use_reentrant=False), False, "made again"),
    ):
        torch._dynamo.reset()
        with pytest.raises(Exception, match=why):
            parted(f, dynamic=dynamic)(x)
