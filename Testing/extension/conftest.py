"""Fixtures of the packaging tests."""

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
