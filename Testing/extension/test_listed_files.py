"""Every file below SlicerModules is listed for staging, and every listed one exists."""

from __future__ import annotations

from pathlib import Path

import pytest
from list_files import files_to_stage, listed, owner_of
from staging import ROOT, Staged

MODULES = ROOT / "SlicerModules"


def test_the_lists_are_up_to_date() -> None:
    current = (MODULES / "CMakeLists.txt").read_text()
    assert listed(MODULES) == current, "run: python Testing/extension/list_files.py"


def test_what_is_staged_is_what_is_there(staged: Staged) -> None:
    folders = ["AnatomicalEmbedding", *(f"Resources/{name}" for name in ("Icons", "Models", "Recipes", "Structures"))]
    shared = {
        path.relative_to(ROOT).as_posix()
        for folder in [*folders, "Resources/SampleData"]
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected = shared | set(files_to_stage(MODULES))
    assert expected - staged.files == set(), "not staged"
    assert staged.files - expected == set(), "staged without need"
    assert not any(file.startswith("AnatomicalEmbeddingViewer/") for file in staged.files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = [
        *("One.py", "OneMore.py", "AnatomicalEmbeddingLib/__init__.py", "AnatomicalEmbeddingLib/A.py"),
        *("Resources/UI/OneMore.ui", "Resources/UI/OneBox.ui", "Resources/Icons/One.png", "Resources/shared.txt"),
        *("AnatomicalEmbeddingViewer/page.py", "__pycache__/One.cpython-312.pyc", ".hidden"),
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "CMakeLists.txt").write_text("before\n# <lists>\nset(OLD)\n# </lists>\nafter\n")
    return tmp_path


def test_lists_hold_each_file_once_with_its_owner(folder: Path) -> None:
    assert listed(folder) == (
        "before\n# <lists>\n"
        "set(MODULES\n  One\n  OneMore\n  )\n"
        "set(AnatomicalEmbeddingLib_RESOURCES\n  Resources/shared.txt\n  )\n"
        "set(AnatomicalEmbeddingLib_SCRIPTS\n  AnatomicalEmbeddingLib/A.py\n  AnatomicalEmbeddingLib/__init__.py\n  )\n"
        "set(OneMore_RESOURCES\n  Resources/UI/OneMore.ui\n  )\n"
        "set(One_RESOURCES\n  Resources/Icons/One.png\n  Resources/UI/OneBox.ui\n  )\n"
        "# </lists>\nafter\n"
    )


def test_a_new_or_a_lost_file_makes_the_lists_old(folder: Path) -> None:
    (folder / "CMakeLists.txt").write_text(listed(folder))
    assert listed(folder) == (folder / "CMakeLists.txt").read_text()
    (folder / "Resources/Icons/New.png").touch()
    assert listed(folder) != (folder / "CMakeLists.txt").read_text()
    (folder / "Resources/Icons/New.png").unlink()
    (folder / "AnatomicalEmbeddingLib/A.py").unlink()
    assert listed(folder) != (folder / "CMakeLists.txt").read_text()


@pytest.mark.parametrize("name", ["Elsewhere/part.py", "notes.txt", "Resources/tool.py"])
def test_files_without_a_place_are_named(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).touch()
    with pytest.raises(ValueError, match=name):
        listed(folder)


def test_lost_marks_are_told(folder: Path) -> None:
    (folder / "CMakeLists.txt").write_text("set(MODULES)\n")
    with pytest.raises(ValueError, match="lost its marks"):
        listed(folder)


def test_resources_go_with_the_longest_name() -> None:
    assert owner_of("Resources/Icons/OneMore.svg", ["One", "OneMore"]) == "OneMore"
    assert owner_of("Resources/Icons/Other.svg", ["One", "OneMore"]) == "AnatomicalEmbeddingLib"
