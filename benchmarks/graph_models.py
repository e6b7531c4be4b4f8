"""Models built from torch alone, of many kinds, for benchmarks of torch.compile.

Each function gives a module and its input, on the CPU; a module's result is one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it

Model = tuple[nn.Module, tuple[Any, ...]]

BF16 = torch.bfloat16


class Attention(nn.Module):
    """Attention over heads beside each other."""

    def __init__(self, width: int, heads: int, *, causal: bool, rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.rotary = heads, causal, rotary
        self.project = nn.Linear(width, 3 * width, bias=not rotary)
        self.out = nn.Linear(width, width, bias=not rotary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        if self.rotary:
            query, key = _rotated(query), _rotated(key)
        made = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        out: torch.Tensor = self.out(made.transpose(1, 2).reshape(batch, length, width))
        return out


def _rotated(x: torch.Tensor) -> torch.Tensor:
    length, width = x.shape[-2:]
    steps = torch.arange(0, width, 2, device=x.device, dtype=torch.float32) / width
    angles = torch.arange(length, device=x.device)[:, None] * 10000.0**-steps
    table = torch.cat((angles, angles), -1)
    first, second = x.chunk(2, -1)
    made = x * table.cos() + torch.cat((-second, first), -1) * table.sin()
    return made.to(x.dtype)


class Block(nn.Module):
    """A transformer's block, normalized first."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        return torch.add(x, self.down(F.gelu(self.up(self.after(x)), approximate="tanh")))


class RmsNorm(nn.Module):
    """Written out, as models do."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        made = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return made.to(x.dtype) * self.weight


class LlamaBlock(nn.Module):
    """RMS norms, rotary positions, a gated MLP."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.after = RmsNorm(width), RmsNorm(width)
        self.attention = Attention(width, heads, causal=True, rotary=True)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        y = self.after(x)
        return torch.add(x, self.down(F.silu(self.gate(y)) * self.up(y)))


class Gpt(nn.Module):
    """Embeddings, blocks, a head."""

    def __init__(self, layers: int, width: int, heads: int, words: int, length: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places)
        found: torch.Tensor = self.head(self.norm(self.blocks(x)))
        return found


def gpt() -> Model:
    """A GPT of 4 layers, bf16."""
    return Gpt(4, 768, 12, 8192, 512).to(BF16), (torch.randint(0, 8192, (8, 512)),)


def llama() -> Model:
    """4 layers with RMS norms, rotary positions and gated MLPs, bf16."""
    blocks = nn.Sequential(*(LlamaBlock(1024, 16) for _ in range(4)))
    return blocks.to(BF16), (torch.randn(4, 512, 1024, dtype=BF16),)


def encoder() -> Model:
    """4 layers of an encoder as BERT has them, bf16."""
    blocks = nn.Sequential(*(Block(768, 12, causal=False) for _ in range(4)))
    return blocks.to(BF16), (torch.randn(16, 256, 768, dtype=BF16),)


class Vision(nn.Module):
    """Patches, blocks, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 384, 16, 16)
        self.places = nn.Parameter(torch.zeros(196, 384))
        self.blocks = nn.Sequential(*(Block(384, 6, causal=False) for _ in range(4)))
        self.head = nn.Linear(384, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2) + self.places
        found: torch.Tensor = self.head(self.blocks(y).mean(1))
        return found


def vision_transformer() -> Model:
    """A ViT of 4 layers, bf16."""
    return Vision().to(BF16), (torch.randn(32, 3, 224, 224, dtype=BF16),)


class Residual(nn.Module):
    """Two convolutions with batch norms, and what went in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.second(torch.relu(self.first(x))))


def resnet() -> Model:
    """Residual blocks at three sizes, batch norms, fp32."""
    stages: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3)]
    for width in (64, 128, 256):
        stages += [Residual(width), Residual(width)]
        stages.append(nn.Conv2d(width, 2 * width, 3, 2, 1))
    stages += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    return nn.Sequential(*stages), (torch.randn(32, 3, 128, 128),)


class ConvNextBlock(nn.Module):
    """A depthwise convolution, a norm over channels, an MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))) * self.scale
        return torch.add(x, y.permute(0, 3, 1, 2))


def convnext() -> Model:
    """4 of ConvNeXt's blocks, bf16."""
    blocks = nn.Sequential(*(ConvNextBlock(192) for _ in range(4)))
    return blocks.to(BF16), (torch.randn(16, 192, 28, 28, dtype=BF16),)


class NormedConvolution(nn.Module):
    """Group norm, SiLU, convolution, twice: of a diffusion model's U-Net."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            nn.GroupNorm(32, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(32, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, self.parts(x))


def diffusion_blocks() -> Model:
    """4 blocks of a diffusion model's U-Net, bf16."""
    blocks = nn.Sequential(*(NormedConvolution(256) for _ in range(4)))
    return blocks.to(BF16), (torch.randn(8, 256, 32, 32, dtype=BF16),)


class Mixer(nn.Module):
    """An MLP over places, then one over channels."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.over_places = nn.Sequential(nn.Linear(places, 256), nn.GELU(), nn.Linear(256, places))
        self.over_width = nn.Sequential(nn.Linear(width, 1024), nn.GELU(), nn.Linear(1024, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.over_places(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return torch.add(x, self.over_width(self.norms[1](x)))


def mlp_mixer() -> Model:
    """4 of MLP-Mixer's blocks, bf16."""
    blocks = nn.Sequential(*(Mixer(196, 512) for _ in range(4)))
    return blocks.to(BF16), (torch.randn(32, 196, 512, dtype=BF16),)


class Recurrent(nn.Module):
    """An LSTM written out over its steps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.given, self.state = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = cell = torch.zeros_like(x[0])
        for step in x:
            i, f, g, o = (self.given(step) + self.state(hidden)).chunk(4, -1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        return hidden


def lstm() -> Model:
    """An LSTM of 16 steps, fp32."""
    return Recurrent(512), (torch.randn(16, 64, 512),)


class Experts(nn.Module):
    """Each token goes to two of eight experts, all of which are computed."""

    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / math.sqrt(2 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        chances = self.gate(y).softmax(-1)
        best, which = chances.topk(2, -1)
        shares = torch.zeros_like(chances).scatter(-1, which, best / best.sum(-1, keepdim=True))
        made = torch.bmm(F.silu(torch.einsum("nd,edf->enf", y, self.up)), self.down)
        return x + torch.einsum("end,ne->nd", made, shares)


def experts() -> Model:
    """4 layers of a mixture of experts, bf16."""
    blocks = nn.Sequential(*(Experts(512, 8) for _ in range(4)))
    return blocks.to(BF16), (torch.randn(2048, 512, dtype=BF16),)


class Recommender(nn.Module):
    """Embeddings of many features, their products by pairs, MLPs."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(10_000, 64, mode="sum") for _ in range(16))
        self.dense = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(64 + 17 * 17, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        first = self.dense(dense)
        found = [table(sparse[number]) for number, table in enumerate(self.tables)]
        features = torch.stack([first, *found], 1)
        pairs = torch.bmm(features, features.transpose(1, 2)).flatten(1)
        result: torch.Tensor = self.top(torch.cat([first, pairs], 1))
        return result


def recommender() -> Model:
    """Embedding bags and MLPs as DLRM has them, fp32."""
    return Recommender(), (torch.randn(2048, 32), torch.randint(0, 10_000, (16, 2048, 8)))


class MessagePassing(nn.Module):
    """Messages along edges, summed where they arrive."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(2 * width, width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            sent = F.silu(self.message(torch.cat([x[start], x[end]], -1)))
            arrived = torch.zeros_like(x).index_add(0, end, sent)
            x = x + F.silu(self.update(torch.cat([x, arrived], -1)))
        return x


def graph_network() -> Model:
    """Message passing over 20,000 edges, fp32."""
    edges = [torch.randint(0, 4096, (20_000,)) for _ in range(2)]
    return MessagePassing(128), (torch.randn(4096, 128), *edges)


class Pointwise(nn.Module):
    """A chain of operations on each element."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4096))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.scale
        for number in range(8):
            y = torch.sin(y) ** 2 + torch.cos(y * 0.5) + number * 0.1
        return y.sum(-1)


def pointwise_chain() -> Model:
    """Forty operations on each of 16 million elements, fp32."""
    return Pointwise(), (torch.randn(4096, 4096),)


class Vocabulary(nn.Module):
    """A head over many words, and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(512), nn.Linear(512, 32_000, bias=False)

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        found = self.head(self.norm(x)).float()
        return F.cross_entropy(found, words, label_smoothing=0.1)


def vocabulary_loss() -> Model:
    """The head of a language model over 32,000 words and its loss, bf16."""
    return Vocabulary().to(BF16), (
        torch.randn(2048, 512, dtype=BF16),
        torch.randint(0, 32_000, (2048,)),
    )


MODELS: dict[str, Callable[[], Model]] = {
    made.__name__: made
    for made in (
        pointwise_chain,
        llama,
        gpt,
        encoder,
        diffusion_blocks,
        convnext,
        vocabulary_loss,
        mlp_mixer,
        graph_network,
        recommender,
        experts,
        vision_transformer,
        resnet,
        lstm,
    )
}
