"""The double of Slicer's CMake refuses what would go wrong in a real build, or once installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from stage_install import StagingError, stage

TOP, MODULES = "CMakeLists.txt", "Modules/CMakeLists.txt"


def test_a_sound_extension_is_staged_flat(sample: Path, tmp_path: Path) -> None:
    staged = stage(tmp_path / "build", sample)
    assert staged.files == {"Engine/__init__.py", "Sample.py", "SampleLib/__init__.py", "Resources/UI/Sample.ui"}
    assert staged.files == set(staged.owners)
    assert staged.owners["Engine/__init__.py"] == "Engine"
    assert staged.modules == ["Sample"]
    assert staged.flat == tmp_path / "build/lib/Slicer-5.12/qt-scripted-modules"
    assert staged.metadata["screenshoturls"] == "https://example.org/1.png https://example.org/2.png"


def test_another_slicer_version_has_another_folder(sample: Path, tmp_path: Path) -> None:
    assert (
        stage(tmp_path / "build", sample, "5.13").folder / "lib/Slicer-5.13/qt-scripted-modules/Sample.py"
    ).is_file()


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        pytest.param(MODULES, "RESOURCES", "RESOURCE", "RESOURCE is listed among SCRIPTS", id="typo"),
        pytest.param(MODULES, "NAME Sample", "NAME Sample WITH_SUBDIR", "unknown arguments: WITH_SUBDIR", id="unknown"),
        pytest.param(MODULES, "NAME Sample", "NAME", "no value given for NAME", id="no value"),
        pytest.param(MODULES, "NAME Sample", "", "NAME is mandatory", id="no name"),
        pytest.param(MODULES, "SampleLib/__init__.py", "SampleLib/Gone.py", "there is no such file", id="missing"),
        pytest.param(MODULES, "SampleLib/__init__.py", "SampleLib", "not a .py file", id="folder"),
        pytest.param(MODULES, "SampleLib/__init__.py", "../Engine/__init__.py", "must be a path below", id="outside"),
        pytest.param(MODULES, "SampleLib/__init__.py", "Sample.py", "Sample.py is staged twice", id="twice"),
        pytest.param(
            MODULES, "Resources/UI/Sample.ui", "SampleLib/__init__.py", "but is Python", id="code as resource"
        ),
        pytest.param(MODULES, "  WITH_GENERIC_TESTS\n", "", "WITH_GENERIC_TESTS is missing", id="no generic tests"),
        pytest.param(
            MODULES, "SCRIPTS Sample.py", "SCRIPTS", "Sample.py is not among its SCRIPTS", id="no module file"
        ),
        pytest.param(MODULES, "  slicer_add_python_unittest(SCRIPT Sample.py)\n", "", "is missing", id="untested"),
        pytest.param(MODULES, "(SCRIPT Sample.py)", "(SCRIPT Smaple.py)", "no test script Smaple.py", id="test script"),
        pytest.param(MODULES, "(SCRIPT Sample.py)", "(SCRIPT Sample.py NOW)", "unknown arguments: NOW", id="test word"),
        pytest.param(
            MODULES, "slicerMacroBuildScriptedModule", "slicerMacroBuild", "Unknown CMake command", id="macro"
        ),
        pytest.param(TOP, "  NO_INSTALL_SUBDIR\n", "", "one folder too deep", id="subfolder"),
        pytest.param(TOP, "TARGET_NAME Engine", "TARGET_NAME", "no value given for TARGET_NAME", id="no target"),
        pytest.param(
            TOP, "TARGET_NAME Engine", "TARGET_NAME Sample", "a target of this name already", id="same target"
        ),
        pytest.param(TOP, "SCRIPTS", "SCRPITS", "unknown arguments: SCRPITS", id="unknown of the engine"),
        pytest.param(TOP, 'set(EXTENSION_DEPENDS "NA")\n', "", "EXTENSION_DEPENDS is not set", id="no metadata"),
        pytest.param(TOP, '"A sample"', '""', "EXTENSION_DESCRIPTION is not set", id="empty metadata"),
        pytest.param(TOP, '"A sample"', '"A\nsample"', "holds a line break", id="two lines"),
        pytest.param(TOP, '"A sample"', '"A; sample"', "or a semicolon", id="semicolon"),
        pytest.param(TOP, '"A sample")', '\n  "A sample")', "must be set in one line", id="setting on two lines"),
        pytest.param(TOP, "https://example.org/2.png", "2.png", "not a list of https addresses", id="address"),
        pytest.param(
            TOP, "include(${Slicer_EXTENSION_GENERATE_CONFIG})\n", "", "is missing, or comes too late", id="config"
        ),
    ],
)
def test_it_refuses(sample: Path, tmp_path: Path, file: str, old: str, new: str, complaint: str) -> None:
    _replace(sample / file, old, new)
    with pytest.raises(StagingError) as refused:
        stage(tmp_path / "build", sample)
    assert complaint in " ".join(str(refused.value).split())


def test_it_refuses_names_that_differ_in_case_only(sample: Path, tmp_path: Path) -> None:
    (sample / "Modules/SAMPLElib").mkdir(exist_ok=True)
    (sample / "Modules/SAMPLElib/__init__.py").touch()
    _replace(sample / MODULES, "SampleLib/__init__.py", "SampleLib/__init__.py SAMPLElib/__init__.py")
    with pytest.raises(StagingError, match="staged twice"):
        stage(tmp_path / "build", sample)


def test_it_refuses_helper_code_beside_the_modules(sample: Path, tmp_path: Path) -> None:
    (sample / "Modules/helper.py").touch()
    _replace(sample / MODULES, "SCRIPTS Sample.py", "SCRIPTS Sample.py helper.py")
    with pytest.raises(StagingError, match=r"would take helper\.py for a module"):
        stage(tmp_path / "build", sample)


def test_it_refuses_a_module_named_like_the_engine(sample: Path, tmp_path: Path) -> None:
    (sample / "Modules/Engine.py").touch()
    _replace(sample / MODULES, "NAME Sample", "NAME Engine")
    _replace(sample / MODULES, "SCRIPTS Sample.py", "SCRIPTS Engine.py")
    _replace(sample / MODULES, "SCRIPT Sample.py", "SCRIPT Engine.py")
    with pytest.raises(StagingError, match="hides it once installed"):
        stage(tmp_path / "build", sample)


def test_tests_are_registered_only_where_tests_are_built(sample: Path, tmp_path: Path) -> None:
    stage(tmp_path / "guarded", sample, testing=False)
    text = (sample / MODULES).read_text()
    (sample / MODULES).write_text(text.replace("if(BUILD_TESTING)\n", "").replace("endif()\n", ""))
    with pytest.raises(StagingError, match="although BUILD_TESTING is off"):
        stage(tmp_path / "unguarded", sample, testing=False)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
