"""Fixtures of the tests of the ROI panel."""

import pytest


@pytest.fixture
def panel(open_module):
    """The module on two scans."""
    return open_module("AnatomicalROI", "Prior", "Current")
