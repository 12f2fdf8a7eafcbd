"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
from system_packages import missing_libraries

from AnatomicalEmbedding.phantom import Phantom, make_phantom

_REAL_DATA = Path(os.environ.get("ANATEMB_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real CTs (`train/`, `dev/`); the test is skipped where it is absent."""
    if not _REAL_DATA.is_dir():
        pytest.skip("no real CTs here (set ANATEMB_TEST_DATA to a folder with train/ and dev/)")
    return _REAL_DATA


@pytest.fixture(scope="session")
def drawing() -> None:
    """Qt and VTK can draw; the test is skipped where the system has not all of their libraries."""
    missing = missing_libraries()
    if missing:
        pytest.skip(f"{', '.join(missing)} missing: `make test` installs them or says how")


@pytest.fixture(scope="session")
def phantom_pair() -> tuple[Phantom, Phantom]:
    """Two synthetic torsos (4 mm, small and quick) of seeds that no weights were trained on."""
    first, second = (make_phantom(seed, spacing=(4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0)) for seed in (71, 72))
    return first, second


@pytest.fixture(scope="session")
def map_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cache of maps, so that each scan is embedded once for all tests."""
    return tmp_path_factory.mktemp("maps")
