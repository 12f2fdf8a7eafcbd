"""Fixtures of the logic tests: a real MRML scene, no Qt."""

import threading

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
    """The MRML scene, empty. The test fails if VTK reported an error, an observer raised, or a thread was left."""
    from slicer_kit.errors import SlotErrors

    _core.clear()
    vtk_errors.clear()
    raised = SlotErrors()
    raised.start()
    yield _core.scene
    raised.stop()
    reported = list(vtk_errors)
    vtk_errors.clear()
    from AnatomicalEmbeddingLib.shared.maps.Worker import waitForEnded

    assert waitForEnded(60.0)
    assert "AnatomicalEmbedding" not in [thread.name for thread in threading.enumerate()]
    assert not raised, "exceptions in observers:\n" + raised.text()
    assert not reported, "VTK errors: " + "; ".join(reported)


@pytest.fixture
def logics(_core) -> dict:
    """Logics of the core modules by module name, e.g. logics["Markups"]."""
    return _core.logics
