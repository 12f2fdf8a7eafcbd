"""Read the structures and places of the body from `Resources/Terms/*.csv`; each row is one structure or place."""

from dataclasses import dataclass, field
from functools import lru_cache

from ..errors import AnatomicalEmbeddingError, did_you_mean
from ..resources import read_table, resource

_TISSUES = "tissues"  # group of the rows in tissues.csv


@dataclass(frozen=True)
class Term:
    """One structure or place.

    words: names in English; the first name is displayed. adjectives: forms before a noun ("renal"). side: "left",
    "right" or "". code: "SCT:...", "UBERON:..." or "". parent: the structure that contains this structure, or "".
    recipe: rule to compute the place (see `words/derived_places.py`), or "" for a place of the atlas. tissue: kind of
    tissue. labels: spellings in label maps and libraries. parts: names of the structure's parts, if data sets label the
    parts. group: name of the CSV file that contains the row, without suffix.
    """

    name: str
    words: tuple[str, ...]
    adjectives: tuple[str, ...]
    side: str
    code: str
    parent: str
    recipe: str
    tissue: str
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    group: str

    @property
    def title(self) -> str:
        """The name to display, such as "left adrenal gland"."""
        if self.name.startswith("vertebrae_"):
            return f"{self.name[10:]} vertebra"
        if self.name.startswith("disc_"):
            return f"{self.name[5:].replace('_', '/')} disc"
        plain = [word for word in self.name.split("_") if word != self.side]
        return " ".join([self.side, *plain]).strip().replace("clavicula", "clavicle")


@dataclass(frozen=True, eq=False)
class Terms:
    """All structures and places, by name."""

    by_name: dict[str, Term]
    # of the names for which `ancestors` was called
    _ancestors: dict[str, set[str]] = field(default_factory=dict, init=False, repr=False)

    def __getitem__(self, name: str) -> Term:
        """Return the term with this name. Raises AnatomicalEmbeddingError for an unknown name."""
        if name not in self.by_name:
            hint = did_you_mean(name, self.by_name)
            raise AnatomicalEmbeddingError(
                f"{name}: no place has this name{hint}; see Resources/Terms."
            )
        return self.by_name[name]

    def ancestors(self, name: str) -> set[str]:
        """Return the names of all structures that contain this place. The parent `lung` stands for both lungs."""
        if name not in self._ancestors:
            parent = self.by_name[name].parent
            parents = {parent, f"{parent}_left", f"{parent}_right"} & self.by_name.keys()
            self._ancestors[name] = parents.union(*map(self.ancestors, parents))
        return self._ancestors[name]


@lru_cache(maxsize=1)
def load_terms() -> Terms:
    """Return the shipped structures and places. Raises AnatomicalEmbeddingError when the files are missing."""
    return Terms({term.name: term for term in _rows() if term.group != _TISSUES})


@lru_cache(maxsize=1)
def load_tissues() -> tuple[Term, ...]:
    """Return the kinds of tissue ("bone", "lymph node"), which have a code but no place. Raises: see `load_terms`."""
    return tuple(term for term in _rows() if term.group == _TISSUES)


def _rows() -> list[Term]:
    """Read all rows of all tables, in the order of the files' names."""
    terms = []
    for path in sorted(resource("Terms").glob("*.csv")):
        for row in read_table(f"Terms/{path.name}"):
            terms.append(
                Term(
                    name=row["name"],
                    words=_several(row["words"]),
                    adjectives=_several(row["adjective"]),
                    side=row["side"],
                    code=row["code"],
                    parent=row["parent"],
                    recipe=row["place"],
                    tissue=row["tissue"],
                    labels=_several(row["labels"]),
                    parts=_several(row.get("parts", "")),
                    group=path.stem,
                )
            )
    if not terms:
        raise AnatomicalEmbeddingError(
            "the lists of places (Resources/Terms) are missing; install the package again."
        )
    return terms


def _several(cell: str) -> tuple[str, ...]:
    """Return the texts of a cell, which | separates; () for an empty cell."""
    return tuple(part.strip() for part in cell.split("|") if part.strip())


@lru_cache(maxsize=1)
def plain_words() -> frozenset[str]:
    """Return common words of reports that look like misspelled words of anatomy. Their spelling is not corrected."""
    return frozenset((resource("Terms") / "plain_words.txt").read_text(encoding="utf-8").split())
