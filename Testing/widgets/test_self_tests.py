"""The self-tests of the modules: each is run by itself by unittest's loader, as Slicer's tests of an extension are."""

import unittest
from contextlib import suppress

import pytest
import slicer.util

MODULES = ("AnatomicalLandmarks", "AnatomicalROI", "LesionFollowUp", "AnatomicalEmbeddingTraining")


def run(module: str) -> unittest.TestResult:
    """All tests of a module's file, as `slicer.testing.runUnitTest` collects them."""
    result = unittest.TestResult()
    unittest.TestLoader().loadTestsFromName(module).run(result)
    return result


def complaints(result: unittest.TestResult) -> str:
    return "\n".join(text for _test, text in [*result.errors, *result.failures])


@pytest.mark.parametrize("module", MODULES[:3])  # Testing/logic/test_training_real.py does what that of training does
def test_every_self_test_passes(kit, module):
    kit.load_module(module)
    result = run(module)
    assert result.wasSuccessful(), complaints(result)
    assert result.testsRun
    assert not result.skipped


def test_reload_and_test_runs_one_after_the_other(kit):
    kit.load_module("LesionFollowUp").instance.runTest()


@pytest.mark.parametrize("module", MODULES)
def test_on_a_computer_without_the_packages_they_are_skipped(kit, module, monkeypatch):
    from AnatomicalEmbeddingLib.shared.maps.Engine import Engine

    kit.load_module(module)
    monkeypatch.setattr(Engine, "missingPackages", staticmethod(lambda: ["torch"]))
    result = run(module)
    assert result.wasSuccessful(), complaints(result)
    own = [reason for test, reason in result.skipped if type(test).__module__ == module]
    assert len(own) == result.testsRun - 1 > 0, "all but the base class's own are skipped"
    assert all("torch" in reason for reason in own)


@pytest.mark.parametrize("module", MODULES)
def test_reload_and_test_without_the_packages_is_a_sentence(kit, module, monkeypatch):
    from AnatomicalEmbeddingLib.shared.maps.Engine import Engine

    loaded = kit.load_module(module)
    monkeypatch.setattr(Engine, "missingPackages", staticmethod(lambda: ["torch"]))
    with suppress(unittest.SkipTest), slicer.util.tryWithErrorDisplay("Reload and Test failed."):
        loaded.instance.runTest(msec=100)  # for so long messages of tests are shown, as the user has set it
    (told,) = kit.dialogs.of("delay")
    assert told.text.startswith("torch")
    assert not kit.dialogs.of("error")
