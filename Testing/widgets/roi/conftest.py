"""Fixtures of the tests of the ROI panel."""

import pytest
from scans import add_patient


@pytest.fixture
def panel(kit, map_folder):
    """The module on two scans, its maps kept from test to test."""
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheFolder", str(map_folder))
    ModuleSettings.setValue("device", "cpu")
    for number, name in enumerate(("Prior", "Current")):
        add_patient(number, name)
    return kit.open(kit.load_module("AnatomicalROI"))
