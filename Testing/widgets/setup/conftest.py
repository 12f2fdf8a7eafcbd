"""Fixtures of the tests of the set-up section."""

import pytest
from engines import InstantEngine, fresh


@pytest.fixture
def settings(kit, tmp_path):
    """Settings whose folder of maps is the test's own."""
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    ModuleSettings.setValue("cacheFolder", str(tmp_path / "maps"))
    return ModuleSettings


@pytest.fixture
def engine():
    """The user's computer, to be changed before the panel opens."""
    return fresh(InstantEngine)


@pytest.fixture
def session(kit, settings, engine):
    import qt

    from AnatomicalEmbeddingLib.shared.panels.Session import Session

    current = Session(kit.scene, qt.QTimer(), engine)
    current.attach("panel")
    yield current
    current.detach("panel")


@pytest.fixture
def place(kit):
    """A shown widget to build panels into."""
    import qt

    widget = qt.QWidget()
    qt.QVBoxLayout(widget)
    widget.show()
    yield widget
    widget.hide()


@pytest.fixture
def open_panel(kit, session, place):
    """open_panel(): the set-up section as the user finds it. open_panel(True): opened by the user."""
    from AnatomicalEmbeddingLib.shared.panels.SetupPanel import SetupPanel

    panels = []

    def make(opened=False):
        panels.append(SetupPanel(place.layout(), session))
        panels[-1].widget.collapsed = panels[-1].widget.collapsed and not opened
        kit.process_events()
        return panels[-1]

    yield make
    for panel in panels:
        panel.close()
