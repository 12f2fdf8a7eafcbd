"""Fixtures of the tests of the section "Align volumes"."""

import pytest


@pytest.fixture
def panel(open_module):
    """The module on three scans."""
    return open_module("AnatomicalLandmarks", "Prior", "Current", "Other")
