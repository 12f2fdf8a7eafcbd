"""Fixtures of the tests of the training panel: the module with a made-up training process."""

import pytest
from made_up_training import choose_all, load_training, open_panel


@pytest.fixture
def module(kit, monkeypatch, tmp_path):
    return load_training(kit, monkeypatch, tmp_path)


@pytest.fixture
def panel(kit, module):
    """The opened panel of a new scene."""
    return open_panel(kit, module)


@pytest.fixture
def ready(panel, tmp_path):
    """A panel in which all that a run needs is chosen."""
    choose_all(panel, tmp_path)
    return panel
