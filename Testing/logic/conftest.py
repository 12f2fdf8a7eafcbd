"""Fixtures of the logic tests: a real MRML scene, no Qt."""

import pytest


@pytest.fixture(scope="session")
def _core():
    from slicer_kit.scene import shared_core

    return shared_core()


@pytest.fixture
def vtk_errors(_core) -> list:
    """VTK errors of this test so far; a test that provokes one clears the list."""
    from slicer_kit.errors import vtk_errors

    errors = vtk_errors()
    errors.clear()
    return errors


@pytest.fixture
def scene(_core, vtk_errors):
    """The MRML scene, empty; the test fails if VTK reported an error or an observer raised."""
    from slicer_kit.errors import SlotErrors

    _core.clear()
    vtk_errors.clear()
    raised = SlotErrors()
    raised.start()
    yield _core.scene
    raised.stop()
    reported = list(vtk_errors)
    vtk_errors.clear()
    assert not raised, "exceptions in observers:\n" + raised.text()
    assert not reported, "VTK errors: " + "; ".join(reported)


@pytest.fixture
def logics(_core) -> dict:
    """Logics of the core modules by module name, e.g. logics["Markups"]."""
    return _core.logics
