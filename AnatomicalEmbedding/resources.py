"""Paths of the files that are part of the package (weights, recipes, structures)."""

from pathlib import Path

from .files import parse_json

# "auto" means the first of these weights that is installed. Of the three, hybrid-ct-v3 errs least in the chest.
_PREFERRED = ("hybrid-ct-v3", "ct-open", "ct-research")
_PACKAGE = Path(__file__).parent


def resource(name: str) -> Path:
    """Return the path of a file or folder in Resources; works in a checkout, a wheel and a Slicer extension."""
    for root in (_PACKAGE / "Resources", _PACKAGE.parent / "Resources"):
        if (root / name).exists():
            return root / name
    return _PACKAGE.parent / "Resources" / name


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


def terms_of(weights: Path) -> str:
    """Return the terms of a weights file in one sentence, from the .json card next to it; "" if no card states them."""
    try:
        return str(parse_json(weights.with_suffix(".json").read_text(encoding="utf-8")).get("terms", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def companions(folder: str, suffix: str, weights: Path | None = None) -> list[Path]:
    """List files that may belong to weights: first NAME + suffix next to the weights file, then Resources/`folder`."""
    beside = [] if weights is None else [weights.with_name(weights.stem + suffix)]
    return [*filter(Path.is_file, beside), *sorted(resource(folder).glob("*" + suffix))]


def list_weights() -> list[str]:
    files = resource("Models").glob("*.safetensors")
    return sorted(path.stem for path in files if not path.stem.endswith(".calibration"))
