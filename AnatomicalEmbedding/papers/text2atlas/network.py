"""A small transformer for the words of a text. A word's vector is the mean of the vectors of its letter sequences."""

import re
import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from ...words.atlas import LOW_MM, SHAPE, STEP_MM

MASK = "[mask]"
_WORD = re.compile(r"\[mask\]|[^\W_]+")
_GRAMS = (3, 4)  # lengths of letter sequences
_LONGEST = 40  # largest number of words read from a text; later words are ignored
_LONGEST_WORD = 40
_PIECE_STD = 0.02
_PIECES, _WIDTH, _HEADS = 8192, 96, 4


def words_of(text: str) -> list[str]:
    """Split a text into words in lower case, without punctuation."""
    return [match.group()[:_LONGEST_WORD] for match in _WORD.finditer(text.lower())]


@lru_cache(maxsize=100_000)
def pieces_of(word: str) -> tuple[int, ...]:
    """Return numbers for the pieces of a word: the word, and its sequences of 3 and 4 letters (Bojanowski 2017)."""
    bordered = f"<{word}>"
    sizes = () if word == MASK else _GRAMS
    grams = (bordered[n : n + size] for size in sizes for n in range(len(bordered) - size + 1))
    return tuple(
        zlib.crc32(piece.encode()) % _PIECES for piece in dict.fromkeys((bordered, *grams))
    )


class TextNetwork(nn.Module):
    """Maps b texts to points (b, 3) in the body frame, mm.

    A token is added before the words. A linear layer and tanh map its output vector to a point (Grujicic 2020, section
    4.2, equation 1). BERT's word pieces are useful only with BERT's weights, so this network uses hashed pieces.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pieces = nn.EmbeddingBag(_PIECES, _WIDTH, mode="mean")
        # small, as some pieces are never trained
        nn.init.normal_(self.pieces.weight, std=_PIECE_STD)
        self.front = nn.Parameter(torch.zeros(_WIDTH))
        self.position = nn.Parameter(0.1 * torch.randn(_LONGEST + 1, _WIDTH))
        layer = nn.TransformerEncoderLayer(
            _WIDTH, _HEADS, 2 * _WIDTH, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(
            layer, 1, nn.LayerNorm(_WIDTH), enable_nested_tensor=False
        )
        # the last layer computes the first token alone, because no other output is used
        self.attention = nn.MultiheadAttention(_WIDTH, _HEADS, batch_first=True)
        self.mixing = nn.Sequential(
            nn.LayerNorm(_WIDTH),
            nn.Linear(_WIDTH, 2 * _WIDTH),
            nn.GELU(),
            nn.Linear(2 * _WIDTH, _WIDTH),
        )
        self.head = nn.Linear(_WIDTH, 3)
        half = STEP_MM / 2 * np.array(SHAPE[::-1])
        for name, mm in (("half_mm", half), ("middle_mm", LOW_MM - STEP_MM / 2 + half)):
            self.register_buffer(name, torch.tensor(mm, dtype=torch.float32), persistent=False)

    @torch.no_grad()
    def place(self, texts: Sequence[str]) -> np.ndarray:
        """Return (n, 3) mm in the body frame. Each text gets a point, even if it names no place."""
        points = torch.cat([self(texts[n : n + 256]) for n in range(0, len(texts), 256)])
        return points.double().numpy()

    def forward(self, texts: Sequence[str]) -> torch.Tensor:
        words = [words_of(text)[:_LONGEST] for text in texts]
        pieces = [pieces_of(word) for text_words in words for word in text_words]
        flat = torch.tensor(
            [piece for word_pieces in pieces for piece in word_pieces], dtype=torch.long
        )
        starts = torch.tensor([0, *map(len, pieces)]).cumsum(0)[:-1]
        vectors = self.pieces(flat, starts).split(list(map(len, words)))
        x = pad_sequence([torch.cat([self.front[None], v]) for v in vectors], batch_first=True)
        lengths = torch.tensor([len(text_words) + 1 for text_words in words])
        beyond = torch.arange(x.shape[1]) >= lengths[:, None]
        x = self.layers(x + self.position[: x.shape[1]], src_key_padding_mask=beyond)
        front = (
            x[:, 0]
            + self.attention(x[:, :1], x, x, key_padding_mask=beyond, need_weights=False)[0][:, 0]
        )
        return self.middle_mm + self.half_mm * torch.tanh(self.head(front + self.mixing(front)))
