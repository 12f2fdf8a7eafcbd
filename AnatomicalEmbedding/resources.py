"""Where the files that ship with the engine are (weights, recipes, structures)."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def resource(name: str) -> Path:
    """Path of a folder or file of `Resources`, in a checkout, an installed wheel or a Slicer extension."""
    for root in (_PACKAGE / "Resources", _PACKAGE.parent / "Resources"):
        if (root / name).exists():
            return root / name
    return _PACKAGE.parent / "Resources" / name
