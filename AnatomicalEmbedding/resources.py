"""Paths of the files that are part of the package (weights, recipes, structures)."""

from pathlib import Path

DEFAULT_MODEL = "hybrid-ct-v3"
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
    return resource("Models") / f"{DEFAULT_MODEL if name == 'auto' else name}.safetensors"


def list_weights() -> list[str]:
    files = resource("Models").glob("*.safetensors")
    return sorted(path.stem for path in files if not path.stem.endswith(".calibration"))
