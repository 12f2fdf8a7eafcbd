"""Convert any spelling of a structure to its canonical name, and suggest similar names for an unknown name."""

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from functools import lru_cache

from ..errors import AnatomicalEmbeddingError
from .terms import load_terms

LEFT, RIGHT = "left", "right"
SIDES = (LEFT, RIGHT)
VERTEBRAE = (
    *(f"C{n}" for n in range(1, 8)),
    *(f"T{n}" for n in range(1, 13)),
    *(f"L{n}" for n in range(1, 6)),
    "S1",
)
RIBS = 12  # of each side
_SIDE_WORDS = {"left": LEFT, "l": LEFT, "lt": LEFT, "right": RIGHT, "r": RIGHT, "rt": RIGHT}
_SAME_WORDS = {"vertebra": "vertebrae"}
_WORD = re.compile(r"[^\W_]+")
_SIDE = re.compile(rf"(?<![a-z])({LEFT}|{RIGHT})(?![a-z])")  # as a word of a name
_MOST_NAMES = 4  # largest number of names in an error message
# these texts in a label mean a part or a layer of an organ; `whole_name` removes them
_LAYERS = re.compile(
    r",? (wall|contents|cortical|spongiosa|medullary cavity|adipose tissue|glandular tissue|blood|tissue)\b"
    r"|\((blood|inner part)\)|, (upper|lower) half|(?<=kidney, left), \w+|(?<=kidney, right), \w+"
)
_WHOLE = dict.fromkeys(("annulus_proper", "sinotubular_junction"), "aortic_valve")
_WHOLE |= dict.fromkeys(("transverse_colon_left", "transverse_colon_right"), "transverse_colon")
# in label maps "pelvis" means the bones; in words it means the region of the body
_WHOLE["pelvis"] = "hips"
_NO_PLACE = re.compile(
    r"^(residual|muscle|skin|blood vessels|lymphatic nodes|air inside|cartilage)\b|eye lense"
)


def spelling_key(label: str) -> str:
    """Return a key that is equal for all spellings of a name: lower case, side last (`Rib, left 5` -> `rib_5_left`)."""
    # "05" and "5" are equal
    words = [str(int(word)) if word.isdecimal() else word for word in _WORD.findall(label.lower())]
    sides = [_SIDE_WORDS[word] for word in words if word in _SIDE_WORDS]
    words_without_side = [_SAME_WORDS.get(word, word) for word in words if word not in _SIDE_WORDS]
    return "_".join([*words_without_side, *sides]) if words_without_side else "_".join(words)


@lru_cache(maxsize=4096)
def known_name(label: str) -> str | None:
    """Return the canonical name for a label such as `Kidney, left`, `vertebra_t12`, `rib_5_left`; None if unknown."""
    return _names_by_key().get(spelling_key(label))


def canonical_name(label: str) -> str:
    """Return the canonical name for a label. An unknown label is returned unchanged, without outer spaces."""
    return known_name(label) or label.strip()


def whole_name(label: str) -> str:
    """Return the name of the whole organ for a label, also if the label means a part of the organ (`Stomach wall`).

    Returns "background" for tissue that is spread over the body, such as skin.
    """
    text = label.strip().lower()
    if _NO_PLACE.search(text):
        return "background"
    organ = _LAYERS.sub("", text)
    key = spelling_key(organ)
    return _WHOLE.get(key) or known_name(organ) or key


def other_side(name: str) -> str:
    """Return the name of the same structure on the other side of the body; the same name for an unpaired structure."""
    return _SIDE.sub(lambda side: {LEFT: RIGHT, RIGHT: LEFT}[side[0]], name)


@lru_cache(maxsize=1)
def _names_by_key() -> dict[str, str]:
    terms = load_terms().by_name.values()
    spellings = {spelling_key(label): term.name for term in terms for label in term.labels}
    return spellings | {spelling_key(term.name): term.name for term in terms}


@lru_cache(maxsize=1)
def sums_of_parts() -> dict[str, tuple[str, ...]]:
    """Return a dictionary: structure -> names of its parts, for structures that some data sets label only by parts."""
    return {term.name: term.parts for term in load_terms().by_name.values() if term.parts}


def choose_names(names: Sequence[str], available: Collection[str], holder: str) -> list[str]:
    """Find names, in any spelling, among the available names. Returns them as they are available, each name once.

    Args:
        names: the names to find.
        available: the available names.
        holder: what contains the available names, such as "the structure library"; used in the error message.

    Raises:
        AnatomicalEmbeddingError: a name is not available; the message suggests similar names.
    """
    by_key = {spelling_key(canonical_name(name)): name for name in available}
    chosen = []
    for name in names:
        match = name if name in available else by_key.get(spelling_key(canonical_name(name)))
        if match is None:
            raise AnatomicalEmbeddingError(
                f"{name}: {holder} has no structure of this name; {_hint(name, available)}"
            )
        chosen.append(match)
    return list(dict.fromkeys(chosen))


def _hint(name: str, available: Collection[str]) -> str:
    """Return the end of the error message about an unknown name: similar available names, or another remedy."""
    key = spelling_key(canonical_name(name))
    keys = {spelling_key(candidate): candidate for candidate in sorted(available)}
    longer = [spelling for spelling in keys if set(key.split("_")) <= set(spelling.split("_"))]
    similar = [
        keys[spelling] for spelling in longer or get_close_matches(key, keys, _MOST_NAMES, 0.75)
    ]
    if similar:
        return f"did you mean {_listed(similar)}?"
    if known_name(name) is not None:
        return f'to find its place, use: anatemb find "{load_terms()[known_name(name)].title}".'
    return f"give one of its {len(available)} names."


def _listed(names: Sequence[str]) -> str:
    """Return the first names as a text, and how many more there are."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
