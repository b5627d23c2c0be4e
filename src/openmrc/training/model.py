"""A character transformer small enough that four of them train on two cores, and the batches it learns from."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from openmrc.training.size import ModelSize

__all__ = ["CharacterModel", "Characters"]

_TEMPERATURE = 0.7  # below 1: likely characters are written more often than the model thinks


class Characters:
    """A text as numbers.

    Args:
        text: What is to be learnt; its characters are the vocabulary.
    """

    def __init__(self, text: str) -> None:
        self.alphabet = "".join(sorted(set(text)))
        numbers = {character: number for number, character in enumerate(self.alphabet)}
        self._data = torch.tensor([numbers[character] for character in text], dtype=torch.int64)

    def batch(self, size: ModelSize, seed: int, step: int, rank: int) -> tuple[Tensor, Tensor]:
        """(characters, the ones after them), rows drawn by seed, step and rank alone."""
        generator = torch.Generator().manual_seed((seed * 1_000_003 + step) * 1009 + rank)
        starts = torch.randint(len(self._data) - size.context, (size.batch,), generator=generator).tolist()
        rows = torch.stack([self._data[at : at + size.context + 1] for at in starts])
        return rows[:, :-1], rows[:, 1:]

    def text(self, numbers: Tensor) -> str:
        """The characters of these numbers."""
        return "".join(self.alphabet[number] for number in numbers.tolist())


class _Block(nn.Module):  # type: ignore[misc]  # lint runs without torch
    """Attention to what came before, then a small network, each added to the stream."""

    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        self._heads = size.heads
        self.norm_1, self.norm_2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.attend = nn.Linear(size.width, 3 * size.width)
        self.mix = nn.Linear(size.width, size.width)
        self.think = nn.Sequential(
            nn.Linear(size.width, 4 * size.width), nn.GELU(), nn.Linear(4 * size.width, size.width)
        )

    def forward(self, stream: Tensor) -> Tensor:
        """The stream with what this block adds."""
        rows, length, width = stream.shape
        parts = self.attend(self.norm_1(stream)).view(rows, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        stream = stream + self.mix(seen.transpose(1, 2).reshape(rows, length, width))
        added: Tensor = stream + self.think(self.norm_2(stream))
        return added


class CharacterModel(nn.Module):  # type: ignore[misc]  # lint runs without torch
    """Predicts the next character.

    Args:
        size: How large.
        vocabulary: How many different characters there are.
        seed: Of the first weights; the same seed gives the same ones.
    """

    def __init__(self, size: ModelSize, vocabulary: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self._context = size.context
        self.character = nn.Embedding(vocabulary, size.width)
        self.position = nn.Parameter(torch.randn(size.context, size.width) * 0.02)
        self.blocks = nn.Sequential(*(_Block(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.width)
        self.guess = nn.Linear(size.width, vocabulary)

    def forward(self, characters: Tensor) -> Tensor:
        """Scores of all characters at every position."""
        stream = self.character(characters) + self.position[: characters.shape[1]]
        scores: Tensor = self.guess(self.norm(self.blocks(stream)))
        return scores

    def write(self, characters: int, seed: int) -> Tensor:
        """Characters that the model makes up, one after the other."""
        generator = torch.Generator().manual_seed(seed)
        made = torch.zeros((1, 1), dtype=torch.int64)
        with torch.no_grad():
            for _ in range(characters):
                scores = self(made[:, -self._context :])[:, -1]
                chosen = torch.multinomial(functional.softmax(scores / _TEMPERATURE, dim=-1), 1, generator=generator)
                made = torch.cat([made, chosen], dim=1)
        return made[0, 1:]
