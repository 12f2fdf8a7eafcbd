"""Fixtures of the tests of the section "Align volumes"."""

import pytest
from scans import add_patient


@pytest.fixture
def panel(kit, map_folder):
    """The module on three scans, its maps kept from test to test."""
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheFolder", str(map_folder))
    ModuleSettings.setValue("device", "cpu")
    for number, name in enumerate(("Prior", "Current", "Other")):
        add_patient(number, name)
    return kit.open(kit.load_module("AnatomicalLandmarks"))
