"""Words that are spelt wrongly, as the one word of a vocabulary that they nearly are."""

from __future__ import annotations

from collections.abc import Iterable

_SHORTEST, _LONG, _LONGEST = 5, 9, 24
_MOST_LOOKUPS = 600  # of unknown words in one text: hostile text is not corrected for ever


class Spelling:
    """Corrects one slip (a letter wrong, missing, added, or two swapped) in words of 5 letters, two in words of 9.

    vocabulary: words that may be meant. known: other words, which are never corrected.
    """

    def __init__(self, vocabulary: Iterable[str], known: Iterable[str]) -> None:
        self._words = {word for word in vocabulary if word.isalpha()}
        self._known = self._words | set(known)
        self._near: dict[str, set[str]] = {}
        for word in self._words:
            if len(word) >= _SHORTEST - 1:
                for shorter in _shortened(word, 2 if len(word) >= _LONG else 1):
                    self._near.setdefault(shorter, set()).add(word)
        self._found: dict[str, str | None] = {}
        self._left = _MOST_LOOKUPS

    def start(self) -> None:
        """Before each text."""
        self._left = _MOST_LOOKUPS
        if len(self._found) > 20_000:
            self._found.clear()

    def corrected(self, word: str) -> str:
        """The word meant, or the word itself."""
        if not _SHORTEST <= len(word) <= _LONGEST or word in self._known or not word.isalpha():
            return word
        if word not in self._found:
            if self._left <= 0:
                return word
            self._left -= 1
            self._found[word] = self._search(word)
        return self._found[word] or word

    def _search(self, word: str) -> str | None:
        most = 2 if len(word) >= _LONG else 1
        candidates: set[str] = set()
        for shorter in _shortened(word, most):
            candidates |= self._near.get(shorter, set())
        scored = sorted((distance(word, other), other) for other in candidates if other[0] == word[0])
        scored = [(d, other) for d, other in scored if d <= (2 if min(len(word), len(other)) >= _LONG else 1)]
        if not scored or (len(scored) > 1 and scored[1][0] == scored[0][0]):
            return None
        return scored[0][1]


def _shortened(word: str, most: int) -> set[str]:
    """The word, and it with up to `most` letters left out."""
    found = layer = {word}
    for _ in range(most):
        layer = {w[:n] + w[n + 1 :] for w in layer for n in range(len(w))}
        found = found | layer
    return found


def distance(one: str, other: str) -> int:
    """Letters wrong, missing, added or two swapped between two words (Damerau and Levenshtein, restricted)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if last and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
