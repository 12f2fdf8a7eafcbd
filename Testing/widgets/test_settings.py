"""Test the settings that are kept for later sessions, and the session that all modules share."""

import threading

import pytest
from engines import HeldEngine, InstantEngine, add_ct, fresh


@pytest.fixture
def settings(kit):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    return ModuleSettings


@pytest.fixture
def session(kit, settings):
    """session(engine): of the kit's scene, with a panel attached; ended with the test."""
    import qt

    from AnatomicalEmbeddingLib.shared.panels.Session import Session

    made = []

    def make(engine=InstantEngine):
        made.append(Session(kit.scene, qt.QTimer(), fresh(engine)))
        made[-1].attach("panel")
        return made[-1]

    yield make
    for each in made:
        for panel in ("panel", "other"):
            each.detach(panel)


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "AnatomicalEmbedding"]


# -- settings


def test_settings_outlive_the_application(settings, kit):
    import qt

    settings.setValue("weights", "/data/mine.safetensors")
    settings.setValue("device", "cpu")
    settings.setValue("cacheFolder", "/data/maps")
    settings.setValue("cacheLimitMb", 500)
    settings.setValue("wheelFolder", "/data/wheels")
    qt.QSettings().sync()
    assert "mine.safetensors" in kit.settings_path.read_text()
    choice = settings.choice()
    assert (choice.weights, choice.device) == ("/data/mine.safetensors", "cpu")
    assert (choice.cacheFolder, choice.cacheLimitMb) == ("/data/maps", 500)
    assert settings.value("wheelFolder", "") == "/data/wheels"


@pytest.mark.parametrize(
    ("key", "stored"),
    [
        ("device", "abacus"),
        ("device", ["cpu", "cuda"]),
        ("cacheLimitMb", "plenty"),
        ("cacheLimitMb", "-5"),
        ("cacheLimitMb", "99999999999"),
        ("cacheLimitMb", ""),
        ("weights", ""),
        ("weights", ["a", "b"]),
    ],
)
def test_what_cannot_be_used_counts_as_not_stored(settings, key, stored):
    import qt

    from AnatomicalEmbeddingLib.shared.maps.Engine import Choice

    qt.QSettings().setValue(f"AnatomicalEmbedding/{key}", stored)
    assert settings.choice() == Choice()


# -- session


def test_the_last_panel_to_go_ends_the_work_and_frees_memory(kit, session):
    current = session(HeldEngine)
    volumes = [add_ct("CT-1"), add_ct("CT-2")]
    store = current.store
    engine = type(current.store.engine)
    store.request(volumes)
    kit.spin(lambda: store.state(volumes[0]).share > 0)
    assert workers() == ["AnatomicalEmbedding"]
    current.detach("panel")
    assert workers() == []
    assert engine.ended == ["CT-1"], "the second one must not have begun"
    assert engine.released == 1
    assert store.map(volumes[0]) is None
    assert not store.busy


def test_the_real_engine_s_model_is_given_back(kit, settings):
    """With the shipped network: after the last panel nothing holds it."""
    import gc
    import weakref

    import qt

    from AnatomicalEmbeddingLib.shared.panels.Session import Session

    settings.setValue("device", "cpu")
    current = Session(kit.scene, qt.QTimer())
    current.attach("panel")
    network = weakref.ref(current.store.engine.load().network)
    current.detach("panel")
    gc.collect()
    assert network() is None
