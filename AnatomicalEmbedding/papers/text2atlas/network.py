"""A small transformer over the words of a text; a word is the mean of its letter sequences, misspelt or not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from ...words.atlas import LOW_MM, SHAPE, STEP_MM

MASK = "[mask]"
_WORD = re.compile(r"\[mask\]|[^\W_]+")
_GRAMS = (3, 4)  # letters
_LONGEST = 40  # words; what follows is not read
_LONGEST_WORD = 40
_PIECE_STD = 0.02


@dataclass(frozen=True)
class TextSpec:
    """classes: organs that it tells apart, or 0 for a network that gives a point."""

    classes: int = 0
    width: int = 96
    layers: int = 1
    heads: int = 4
    pieces: int = 8192


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return [match.group()[:_LONGEST_WORD] for match in _WORD.finditer(text.lower())]


@lru_cache(maxsize=100_000)
def pieces_of(word: str, buckets: int) -> tuple[int, ...]:
    """Numbers of a word's pieces: itself with its borders, and its sequences of 3 and 4 letters (Bojanowski 2017).

    Each piece is hashed to one of so many buckets, the same in every process.
    """
    bordered = f"<{word}>"
    sizes = () if word == MASK else _GRAMS
    grams = (bordered[n : n + size] for size in sizes for n in range(len(bordered) - size + 1))
    return tuple(zlib.crc32(piece.encode()) % buckets for piece in dict.fromkeys((bordered, *grams)))


class TextNetwork(nn.Module):
    """Texts to points (b, 3) in the body frame, mm, or to organs (b, classes), logits.

    As in Grujicic 2020, section 4.2: a token in front stands for the text, a linear layer and tanh put it into the
    atlas (equation 1). In place of BERT's word pieces, which need its pretrained weights: hashed pieces.
    """

    def __init__(self, spec: TextSpec) -> None:
        super().__init__()
        self.spec = spec
        self.pieces = nn.EmbeddingBag(spec.pieces, spec.width, mode="mean")
        nn.init.normal_(self.pieces.weight, std=_PIECE_STD)  # pieces never seen in training say little
        self.front = nn.Parameter(torch.zeros(spec.width))
        self.position = nn.Parameter(0.1 * torch.randn(_LONGEST + 1, spec.width))
        layer = nn.TransformerEncoderLayer(
            spec.width, spec.heads, 2 * spec.width, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, spec.layers, nn.LayerNorm(spec.width), enable_nested_tensor=False)
        # a last layer for the token in front alone, which is all that is read
        self.attention = nn.MultiheadAttention(spec.width, spec.heads, batch_first=True)
        self.mixing = nn.Sequential(
            nn.LayerNorm(spec.width), nn.Linear(spec.width, 2 * spec.width), nn.GELU(),
            nn.Linear(2 * spec.width, spec.width),
        )  # fmt: skip
        self.head = nn.Linear(spec.width, spec.classes or 3)
        half = STEP_MM / 2 * np.array(SHAPE[::-1])
        for name, mm in (("half_mm", half), ("middle_mm", LOW_MM - STEP_MM / 2 + half)):
            self.register_buffer(name, torch.tensor(mm, dtype=torch.float32), persistent=False)

    def forward(self, texts: Sequence[str]) -> torch.Tensor:
        words = [words_of(text)[:_LONGEST] for text in texts]
        pieces = [pieces_of(word, self.spec.pieces) for of in words for word in of]
        flat = torch.tensor([piece for of in pieces for piece in of], dtype=torch.long)
        starts = torch.tensor([0, *map(len, pieces)]).cumsum(0)[:-1]
        vectors = self.pieces(flat, starts).split(list(map(len, words)))
        x = pad_sequence([torch.cat([self.front[None], v]) for v in vectors], batch_first=True)
        lengths = torch.tensor([len(of) + 1 for of in words])
        beyond = torch.arange(x.shape[1]) >= lengths[:, None]
        x = self.layers(x + self.position[: x.shape[1]], src_key_padding_mask=beyond)
        front = x[:, 0] + self.attention(x[:, :1], x, x, key_padding_mask=beyond, need_weights=False)[0][:, 0]
        found = self.head(front + self.mixing(front))
        return found if self.spec.classes else self.middle_mm + self.half_mm * torch.tanh(found)
