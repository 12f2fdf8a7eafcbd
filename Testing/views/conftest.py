"""Fixtures of the view tests: real slice views, drawn without a screen, in a separate environment (`make test`)."""

from pathlib import Path

import pytest

_ENVIRONMENT = (
    "these tests run in an environment with trame-slicer[standalone]; `make test` makes it"
)


@pytest.fixture(scope="session")
def application(drawing):
    """Scene, logics and views of trame-slicer: Slicer's own views without Slicer's windows."""
    pytest.importorskip("trame_slicer", reason=_ENVIRONMENT)
    from mouse_views import make_application

    return make_application()


@pytest.fixture
def scene(application):
    """The application's scene, empty."""
    application.scene.Clear(0)
    yield application.scene
    application.scene.Clear(0)


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where the tests leave what the views showed."""
    folder = Path(__file__).resolve().parents[2] / "build" / "views"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
