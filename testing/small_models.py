"""Ten kinds of models as people write them, so small that every kernel of a training step can be interpreted.

Each is a module from a batch to its loss, and draws batches that it can learn from.  Nothing in them is written with fusion in mind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Generator, Tensor, nn

from .models import Gpt2Layer, LlamaLayer, RMSNorm, Sizes, VitLayer, causal_mask, merge_heads, split_heads

Batch = tuple[Tensor, ...]


class SmallModel(nn.Module):
    """A model whose ``forward`` takes what ``batch`` draws and gives the loss."""

    def batch(self, random: Generator) -> Batch:
        """One of the batches that it learns from."""
        raise NotImplementedError


def _labelled(random: Generator, *shape: int, classes: int) -> Batch:
    """Noise around a point of each class, and the classes."""
    labels = torch.randint(classes, shape[:1], generator=random)
    points = torch.linspace(-2, 2, classes)[labels].reshape(-1, *(1 for _ in shape[1:]))
    return points + torch.randn(shape, generator=random), labels


def _counting(random: Generator, batch: int, length: int, most: int) -> Tensor:
    """Sequences that count upwards from anywhere, by one, modulo ``most``."""
    return (torch.randint(most, (batch, 1), generator=random) + torch.arange(length)) % most


class Perceptron(SmallModel):
    """Three layers, with a norm and a smooth maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 20), nn.SiLU(), nn.Linear(20, 3))

    def batch(self, random: Generator) -> Batch:
        return _labelled(random, 6, 12, classes=3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.layers(x), labels)


class Convolutional(SmallModel):
    """Convolutions with the statistics of the batch between them, whose running ones are written."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.norms, self.last = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(6)]), nn.Linear(6, 3)

    def batch(self, random: Generator) -> Batch:
        return _labelled(random, 4, 2, 6, 6, classes=3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        x = F.max_pool2d(torch.relu(self.norms[0](self.first(x))), 2)
        x = torch.relu(self.norms[1](self.second(x))).mean((2, 3))
        return F.cross_entropy(self.last(x), labels)


class Language(SmallModel):
    """What language models have around their layers."""

    words, hidden, length = 11, 16, 5

    def __init__(self, layers: list[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(self.words, self.hidden), nn.Linear(self.hidden, self.words, bias=False)
        self.layers, self.norm = nn.ModuleList(layers), norm

    def batch(self, random: Generator) -> Batch:
        return (_counting(random, 2, self.length + 1, self.words),)

    def body(self, hidden: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, tokens: Tensor) -> Tensor:
        scores = self.head(self.norm(self.body(self.embed(tokens[:, :-1]))))
        return F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())


class Gpt2(Language):
    """Learned positions, and dropout at three places of each layer."""

    def __init__(self) -> None:
        layers = [Gpt2Layer(Sizes(2, self.length, self.hidden, 2, 32))]
        super().__init__([*layers], nn.LayerNorm(self.hidden))
        self.positions = nn.Embedding(self.length, self.hidden)
        for name, p in self.layers.named_parameters():
            if name.endswith(("attn.weight", "proj.weight", "fc.weight")):
                nn.init.normal_(p, std=0.1)

    def body(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.positions(torch.arange(self.length))
        for layer in self.layers:
            hidden = layer(hidden, causal_mask(hidden))
        return hidden


class Llama(Language):
    """Rotated positions, heads in groups, a gated feed-forward layer."""

    def __init__(self) -> None:
        layers = [LlamaLayer(Sizes(2, self.length, self.hidden, 4, 24, kv=2))]
        super().__init__([*layers], RMSNorm(self.hidden, 1e-5))

    def body(self, hidden: Tensor) -> Tensor:
        angles = torch.arange(self.length)[:, None] * torch.tensor([1.0, 0.1])
        cos, sin = (torch.cat([f(angles)] * 2, -1)[None] for f in (torch.cos, torch.sin))
        for layer in self.layers:
            hidden = layer(hidden, causal_mask(hidden), cos, sin)
        return hidden


class Vision(SmallModel):
    """Patches of images as a sequence, with a token for the class in front."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(2, 16, 3, stride=3), nn.Parameter(torch.zeros(1, 1, 16))
        self.positions, self.layer, self.last = nn.Parameter(torch.zeros(1, 5, 16)), VitLayer(Sizes(3, 5, 16, 2, 24)), nn.Linear(16, 3)

    def batch(self, random: Generator) -> Batch:
        return _labelled(random, 3, 2, 6, 6, classes=3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return F.cross_entropy(self.last(self.layer(x)[:, 0]), labels)


class Recurrent(SmallModel):
    """A gated recurrent cell, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(7, 8), nn.GRUCell(8, 12), nn.Linear(12, 7)

    def batch(self, random: Generator) -> Batch:
        return (_counting(random, 3, 5, 7),)

    def forward(self, tokens: Tensor) -> Tensor:
        state = torch.zeros(tokens.shape[0], 12)
        states = []
        for x in self.embed(tokens[:, :-1]).unbind(1):
            state = self.cell(x, state)
            states.append(state)
        return F.cross_entropy(self.head(torch.stack(states, 1)).flatten(0, 1), tokens[:, 1:].flatten())


class Experts(SmallModel):
    """Each row goes to two of four experts, whose shares of rows are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(12, 4)
        self.into, self.out = nn.Parameter(torch.randn(4, 12, 16) * 0.3), nn.Parameter(torch.randn(4, 16, 3) * 0.3)

    def batch(self, random: Generator) -> Batch:
        return _labelled(random, 6, 12, classes=3)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        chances = torch.softmax(self.route(x), -1)
        best, at = torch.topk(chances, 2, -1)
        weights = torch.zeros_like(chances).scatter(-1, at, best / best.sum(-1, keepdim=True))
        each = torch.einsum("efo,nef->neo", self.out, F.silu(torch.einsum("eif,ni->nef", self.into, x)))
        balance = 4 * (F.one_hot(at[:, 0], 4).float().mean(0) * chances.mean(0)).sum()
        return F.cross_entropy(torch.einsum("ne,neo->no", weights, each), labels) + 0.01 * balance


class Autoencoder(SmallModel):
    """Down by convolutions, a bottleneck drawn from a normal distribution, up by transposed ones."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(1, 6, 4, stride=2, padding=1), nn.ConvTranspose2d(6, 1, 4, stride=2, padding=1)
        self.narrow, self.wide = nn.Linear(6 * 9, 8), nn.Linear(4, 6 * 9)

    def batch(self, random: Generator) -> Batch:
        return (torch.sigmoid(_labelled(random, 3, 1, 6, 6, classes=3)[0]),)

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.narrow(F.leaky_relu(self.down(x)).flatten(1)).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        again = self.up(F.leaky_relu(self.wide(drawn)).unflatten(1, (6, 3, 3)))
        distance = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return F.binary_cross_entropy_with_logits(again, x) + 0.01 * distance


class Recommender(SmallModel):
    """Bags of what a user has seen, products with an item, and a deep part beside."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.items = nn.EmbeddingBag(13, 8, mode="mean"), nn.Embedding(13, 8)
        self.deep = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 1))

    def batch(self, random: Generator) -> Batch:
        seen, item = torch.randint(13, (5, 4), generator=random), torch.randint(13, (5,), generator=random)
        return seen, item, (item % 2).float()

    def forward(self, seen: Tensor, item: Tensor, wanted: Tensor) -> Tensor:
        user, thing = self.seen(seen), self.items(item)
        score = (user * thing).sum(-1) + self.deep(torch.cat([user, thing], -1)).squeeze(-1)
        return F.binary_cross_entropy_with_logits(score, wanted)


class Running(SmallModel):
    """Attention without a softmax, as running sums over positions; sequences have lengths of their own, and what is beyond is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.head = nn.Linear(6, 24), nn.Linear(8, 3)

    def batch(self, random: Generator) -> Batch:
        x, labels = _labelled(random, 3, 7, 6, classes=3)
        return x, torch.randint(1, 8, (3,), generator=random), labels

    def forward(self, x: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        there = torch.arange(x.shape[1])[None] < lengths[:, None]
        q, k, v = (split_heads(y, 2) for y in self.project(x).chunk(3, -1))
        q, k = F.elu(q) + 1, (F.elu(k) + 1).masked_fill(~there[:, None, :, None], 0.0)
        sums, norms = torch.cumsum(k[..., None] * v[..., None, :], 2), torch.cumsum(k, 2)
        found = merge_heads((q[..., None, :] @ sums).squeeze(-2) / ((q * norms).sum(-1, keepdim=True) + 1e-6))
        pooled = (found * there[..., None]).sum(1) / lengths[:, None]
        return F.cross_entropy(self.head(pooled), labels)


SMALL: Mapping[str, Callable[[], SmallModel]] = MappingProxyType(
    {
        "perceptron": Perceptron, "convolutional": Convolutional, "gpt2": Gpt2, "llama": Llama, "vision": Vision,
        "recurrent": Recurrent, "experts": Experts, "autoencoder": Autoencoder, "recommender": Recommender, "running": Running,
    }
)  # fmt: skip


def trained(model: SmallModel, forward: Callable[..., Tensor], steps: int, seed: int = 0, rate: float = 3e-3) -> list[float]:
    """The losses of so many steps of AdamW, by a function that computes what the model does; it draws random numbers from the same seed."""
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    random = Generator().manual_seed(seed)
    torch.manual_seed(seed)
    losses = []
    for _ in range(steps):
        loss = forward(*model.batch(random))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
