"""Codes of structures and tissues (SNOMED CT, UBERON, FMA), from the column `code` of `Resources/Terms/*.csv`."""

from functools import lru_cache

from .names import LEFT, RIGHT, SIDES, spelling_key
from .terms import load_terms, load_tissues

Code = tuple[str, str, str]  # value, scheme, meaning: the order of DICOM

STRUCTURE: Code = ("123037004", "SCT", "Anatomical Structure")
SIDE_CODES: dict[str, Code] = {
    LEFT: ("7771000", "SCT", "Left"),
    RIGHT: ("24028007", "SCT", "Right"),
}
_NODE = "lymph node"  # in Resources/Terms the word is "node"


def code_of(name: str) -> Code | None:
    """Return the code of a structure or a kind of tissue: ("64033007", "SCT", "Kidney") for `kidney_left`.

    The code does not include the side, because DICOM has separate codes for sides. Returns None if the name is unknown
    or the structure has no code. name: a canonical name, another spelling, or words ("left kidney", "lymph node").
    """
    return _codes_by_key().get(_key(name))


def name_of_code(code: Code) -> str | None:
    """Return words for a code, with no side ("kidney"). None for an unknown code. The code's text is ignored."""
    return _names_by_code().get(code[:2])


def site_codes(site: str) -> tuple[Code, Code | None] | None:
    """Return the code of the organ and the code of the side of a site such as "left kidney" or "kidney_left".

    The code of the side is None if the site names no side. Returns None if the organ is unknown.
    """
    organ = code_of(site)
    side = next((word for word in spelling_key(site).split("_") if word in SIDES), "")
    return None if organ is None else (organ, SIDE_CODES.get(side))


def site_words(organ: Code, side: Code | None) -> str:
    """Return a site in words, such as "left kidney". For an unknown organ, the words in its code are used."""
    words = name_of_code(organ) or organ[2]
    for side_word, code in SIDE_CODES.items():
        if side is not None and side[:2] == code[:2]:
            return f"{side_word} {words}"
    return words


def _key(name: str) -> str:
    """Return a key that is equal for all spellings of a name, and for both sides."""
    key = spelling_key(name.lower().replace("lymph nodes", "node").replace("lymph node", "node"))
    return "_".join(word for word in key.split("_") if word not in SIDES)


@lru_cache(maxsize=1)
def _codes_by_key() -> dict[str, Code]:
    """Return the code of each name and spelling, by `_key`."""
    codes: dict[str, Code] = {}
    terms = [term for term in (*load_tissues(), *load_terms().by_name.values()) if term.code]
    # names first: the words of a structure may be the name of another one
    for label in "name", "words", "labels":
        for term in terms:
            scheme, value = term.code.split(":")
            words = term.words[0].replace("node", _NODE)
            code = value, scheme, words[0].upper() + words[1:]
            spellings = (term.name,) if label == "name" else getattr(term, label)
            for spelling in spellings:
                codes.setdefault(_key(spelling), code)
    return codes


@lru_cache(maxsize=1)
def _names_by_code() -> dict[tuple[str, str], str]:
    """Return the words of each code, by value and scheme. Of several words of one code, the first are used."""
    return {code[:2]: code[2].lower() for code in reversed(_codes_by_key().values())}
