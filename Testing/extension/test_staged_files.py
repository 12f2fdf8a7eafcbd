"""Test that exactly the files of the extension are staged, each with the module that needs the file."""

from stage_install import ROOT, Staged

MODULES = ROOT / "SlicerModules"


def _files(folder: str, below: str = ".") -> set[str]:
    """Files in a folder of the checkout, relative to another of its folders; no byte code, no hidden files."""
    paths = [
        path.relative_to(ROOT / below) for path in (ROOT / folder).rglob("*") if path.is_file()
    ]
    return {
        path.as_posix()
        for path in paths
        if "__pycache__" not in path.parts and not any(part.startswith(".") for part in path.parts)
    }


def test_what_is_staged_is_what_is_there(staged: Staged) -> None:
    shared = [
        "AnatomicalEmbedding",
        *(
            f"Resources/{name}"
            for name in (
                "Atlas",
                "Landmarks",
                "Icons",
                "Models",
                "Orientation",
                "Phantom",
                "Recipes",
                "Structures",
                "Terms",
                "Words",
            )
        ),
    ]
    expected = set().union(*(_files(folder) for folder in [*shared, "Resources/SampleData"]))
    expected |= {path.name for path in MODULES.glob("*.py")}
    for folder in ("AnatomicalEmbeddingLib", "Resources"):
        expected |= _files(f"SlicerModules/{folder}", "SlicerModules")
    assert expected - staged.files == set(), "not staged"
    assert staged.files - expected == set(), "staged without need"
