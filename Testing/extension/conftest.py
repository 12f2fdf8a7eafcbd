"""Fixtures of the packaging tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from stage_install import ROOT, Staged, find_cmake, stage
from static_checks import Extension


@pytest.fixture(scope="session")
def with_cmake() -> None:
    """Skips where CMake is absent; the package `cmake` of the extra `dev` brings it."""
    if find_cmake() is None:
        pytest.skip("no CMake here: pip install cmake")


@pytest.fixture(scope="session")
def staged(with_cmake: None, tmp_path_factory: pytest.TempPathFactory) -> Staged:
    """The extension as it would be installed."""
    return stage(tmp_path_factory.mktemp("staged") / "build")


@pytest.fixture(scope="session")
def extension() -> Extension:
    return Extension(ROOT / "SlicerModules")


@pytest.fixture
def sample(with_cmake: None, tmp_path: Path) -> Path:
    """A small extension that CMake accepts, to be spoilt: one module, one shared package, one resource."""
    files = {
        "CMakeLists.txt": _TOP,
        "Engine/__init__.py": "",
        "Modules/CMakeLists.txt": _MODULES,
        "Modules/Sample.py": "",
        "Modules/SampleLib/__init__.py": "",
        "Modules/Resources/UI/Sample.ui": "<ui/>",
    }
    for name, text in files.items():
        path = tmp_path / "extension" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "extension"


_TOP = """\
cmake_minimum_required(VERSION 3.16.3...3.28)
project(Sample)
set(EXTENSION_HOMEPAGE "https://example.org")
set(EXTENSION_CONTRIBUTORS "Nobody")
set(EXTENSION_DESCRIPTION "A sample")
set(EXTENSION_ICONURL "https://example.org/icon.png")
set(EXTENSION_SCREENSHOTURLS "https://example.org/1.png https://example.org/2.png")
set(EXTENSION_DEPENDS "NA")
find_package(Slicer REQUIRED)
include(${Slicer_USE_FILE})
ctkMacroCompilePythonScript(
  TARGET_NAME Engine
  SCRIPTS "Engine/__init__.py"
  DESTINATION_DIR ${CMAKE_BINARY_DIR}/${Slicer_QTSCRIPTEDMODULES_LIB_DIR}
  INSTALL_DIR ${Slicer_INSTALL_QTSCRIPTEDMODULES_LIB_DIR}
  NO_INSTALL_SUBDIR
  )
add_subdirectory(Modules)
include(${Slicer_EXTENSION_GENERATE_CONFIG})
include(${Slicer_EXTENSION_CPACK})
"""

_MODULES = """\
slicerMacroBuildScriptedModule(
  NAME Sample
  SCRIPTS Sample.py SampleLib/__init__.py
  RESOURCES Resources/UI/Sample.ui
  WITH_GENERIC_TESTS
  )
if(BUILD_TESTING)
  slicer_add_python_unittest(SCRIPT Sample.py)
endif()
"""
