"""Paths of the files that are part of the package (weights, recipes, structures)."""

import csv
from pathlib import Path

from .files import parse_json

# "auto" means the first of these weights that is installed. ct-open has the larger structure library and atlas.
_PREFERRED = ("ct-open", "ct-research")
FILM_WEIGHTS = "film-open"  # "auto" for films
_PACKAGE = Path(__file__).parent
_REPOSITORY = "https://github.com/AnatomicalEmbedding/SlicerAnatomicalEmbedding"


def resource(name: str) -> Path:
    """Return the path of a file or folder in Resources; works in a checkout, a wheel and a Slicer extension."""
    for root in (_PACKAGE / "Resources", _PACKAGE.parent / "Resources"):
        if (root / name).exists():
            return root / name
    return _PACKAGE.parent / "Resources" / name


def read_table(name: str) -> list[dict[str, str]]:
    """Return the rows, column -> text, of a CSV file in Resources. name: path of the file inside Resources."""
    with resource(name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def read_rows(name: str) -> list[list[str]]:
    """Return the rows of a CSV file in Resources as `read_table`, without the names of the columns."""
    return [list(row.values()) for row in read_table(name)]


def weights_file(name: str = "auto") -> Path:
    """Return the path of a weights file, which may not exist. name: "auto", the name of shipped weights, or a path."""
    path = Path(name)
    if path.suffix == ".safetensors":
        return path
    return resource("Models") / f"{default_weights() if name == 'auto' else name}.safetensors"


def default_weights() -> str:
    """Return the name of the weights that "auto" stands for: the first of the preferred weights that is installed."""
    installed = set(list_weights())
    return next((name for name in _PREFERRED if name in installed), _PREFERRED[-1])


def weights_for(name: str, films: bool) -> str:
    """Return the name of the weights for a kind of scan. name: the user's choice; only "auto" depends on the kind."""
    return FILM_WEIGHTS if films and name == "auto" else name


def terms_of(weights: Path) -> str:
    """Return the terms of a weights file in one sentence, from the .json card next to it; "" if no card states them."""
    try:
        return str(
            parse_json(weights.with_suffix(".json").read_text(encoding="utf-8")).get("terms", "")
        )
    except (OSError, ValueError, AttributeError):
        return ""


def list_cards() -> list[str]:
    """List the names of all weights of the repository. A wheel contains the cards of all, but only some weights."""
    return sorted(path.stem for path in resource("Models").glob("*.json"))


def missing_weights(name: str) -> str:
    """Return the error message for weights that are not installed. It states where the user gets them."""
    if name in list_cards():
        return (
            f"{name}: these weights are not part of the pip package; download the files {name}.* of the folders "
            f"Models, Structures and Atlas from {_REPOSITORY}/tree/main/Resources into one folder, and give the path "
            f"of {name}.safetensors."
        )
    return f"{name}: no such weights; give a file or one of: {', '.join(list_weights()) or 'none'}."


def companions(folder: str, suffix: str, weights: Path | None = None) -> list[Path]:
    """List files that may belong to weights: first NAME + suffix next to the weights file, then those in Resources.

    Args:
        folder: folder inside Resources.
        suffix: end of the file names.
        weights: the weights file, or None.
    """
    beside = [] if weights is None else [weights.with_name(weights.stem + suffix)]
    return [*filter(Path.is_file, beside), *sorted(resource(folder).glob("*" + suffix))]


def list_weights() -> list[str]:
    """List the names of the shipped weights for CTs."""
    files = resource("Models").glob("*.safetensors")
    return sorted(
        path.stem
        for path in files
        if not path.stem.endswith(".calibration") and path.stem != FILM_WEIGHTS
    )
