"""Where the files that ship with the engine are (weights, recipes, structures)."""

from pathlib import Path

DEFAULT_MODEL = "hybrid-ct-v3"
_PACKAGE = Path(__file__).parent


def resource(name: str) -> Path:
    """Path of a folder or file of `Resources`, in a checkout, an installed wheel or a Slicer extension."""
    for root in (_PACKAGE / "Resources", _PACKAGE.parent / "Resources"):
        if (root / name).exists():
            return root / name
    return _PACKAGE.parent / "Resources" / name


def weights_file(name: str = "auto") -> Path:
    """Path of weights, whether they are there or not: "auto" (the best shipped ones), a shipped name, or a file."""
    path = Path(name)
    if path.suffix == ".safetensors":
        return path
    return resource("Models") / f"{DEFAULT_MODEL if name == 'auto' else name}.safetensors"


def list_weights() -> list[str]:
    """Names of the weights that ship with the engine."""
    files = resource("Models").glob("*.safetensors")
    return sorted(path.stem for path in files if not path.stem.endswith(".calibration"))
