"""Test the bar that shows the progress of preparing scans, and starts and stops it."""

import pytest
from engines import HeldEngine, InstantEngine, add_ct, fresh
from qt_labels import plain


@pytest.fixture
def engine():
    """The user's computer, to be changed before the bar is used."""
    return fresh(InstantEngine)


@pytest.fixture
def session(kit, engine):
    import qt

    from AnatomicalEmbeddingLib.shared.panels.Session import Session

    current = Session(kit.scene, qt.QTimer(), engine)
    current.attach("panel")
    yield current
    current.detach("panel")


@pytest.fixture
def bar(kit, session):
    import qt

    from AnatomicalEmbeddingLib.shared.panels.PreparationPanel import PreparationPanel

    place = qt.QWidget()
    made = PreparationPanel(qt.QVBoxLayout(place), session)
    place.show()
    yield made
    made.close()
    place.hide()


def test_scans_are_prepared_on_request(kit, bar, session):
    volumes = [add_ct("CT-1"), add_ct("CT-2")]
    bar.setVolumes([*volumes, None, volumes[0]])
    assert plain(bar.label.text) == "0 of 2 scans ready"
    assert bar.button.text == "Prepare scans"
    kit.click(bar.button)
    kit.spin(lambda: plain(bar.label.text) == "All 2 scans are ready.")
    assert not bar.button.enabled
    assert bar.button.isHidden(), "what is done needs no room"
    assert bar.progressBar.isHidden()
    assert session.store.map(volumes[1]) == "CT-2"


class TestWhileWorking:
    @pytest.fixture
    def engine(self):
        return fresh(HeldEngine)

    def test_progress_is_shown_and_can_be_cancelled(self, kit, bar, engine, session):
        volumes = [add_ct("CT <1>"), add_ct("CT-2")]
        bar.setVolumes(volumes)
        kit.click(bar.button)
        kit.spin(lambda: "CT <1>: embedding 40 %" in plain(bar.label.text))
        assert "0 of 2 scans ready" in plain(bar.label.text)
        assert bar.progressBar.value == 20
        assert bar.button.text == "Cancel"
        kit.click(bar.button)
        assert plain(bar.label.text) == "0 of 2 scans ready"
        assert bar.button.text == "Prepare scans"
        kit.spin(lambda: engine.ended == ["CT <1>"])
        assert not session.store.busy
