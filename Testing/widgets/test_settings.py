"""What is remembered from session to session, and the session that all modules share."""

import threading

import pytest
import slicer
from engines import HeldEngine, InstantEngine, add_ct, fresh


@pytest.fixture
def settings(kit):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    return ModuleSettings


@pytest.fixture
def session(kit, settings):
    """session(engine): of the kit's scene, with a panel attached; ended with the test."""
    from AnatomicalEmbeddingLib.shared.panels.Session import Session

    made = []

    def make(engine=InstantEngine):
        made.append(Session(kit.scene, fresh(engine)))
        made[-1].attach("panel")
        return made[-1]

    yield make
    for each in made:
        for panel in ("panel", "other"):
            each.detach(panel)


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "AnatomicalEmbedding"]


# -- settings


def test_without_settings_the_engine_s_defaults_hold(settings):
    from AnatomicalEmbeddingLib.shared.maps.Engine import Choice

    assert settings.choice() == Choice()
    assert settings.wheelFolder() == ""


def test_settings_outlive_the_application(settings, kit):
    import qt

    settings.setWeights("/data/mine.safetensors")
    settings.setDevice("cpu")
    settings.setCacheFolder("/data/maps")
    settings.setCacheLimitMb(500)
    settings.setWheelFolder("/data/wheels")
    qt.QSettings().sync()
    assert "mine.safetensors" in kit.settings_path.read_text()
    choice = settings.choice()
    assert (choice.weights, choice.device) == ("/data/mine.safetensors", "cpu")
    assert (choice.cacheFolder, choice.cacheLimitMb) == ("/data/maps", 500)
    assert settings.wheelFolder() == "/data/wheels"


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


def test_a_limit_of_nothing_means_that_no_maps_are_kept(settings):
    settings.setCacheLimitMb(0)
    assert settings.choice().cacheFolder is None


def test_an_unknown_device_is_refused(settings):
    with pytest.raises(ValueError, match="abacus"):
        settings.setDevice("abacus")
    assert settings.choice().device == "auto"


@pytest.mark.parametrize("value", [True, False, 7, 0.25, "text", ["one"], ["a", "b"], [], ("x", "y")])
def test_panels_keep_settings_of_their_own(settings, value):
    settings.setValue("panel/own", value)
    found = settings.value("panel/own", type(value)())
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("default", "stored"), [(True, "perhaps"), (7, "seven"), (0.5, "half"), ("text", ["a", "b"])])
def test_panels_get_their_default_for_what_cannot_be_used(settings, default, stored):
    import qt

    qt.QSettings().setValue("AnatomicalEmbedding/panel/own", stored)
    assert settings.value("panel/own", default) == default


def test_only_changes_are_reported(settings):
    told = []
    settings.changed.connect(told.append)
    settings.setDevice("cpu")
    settings.setDevice("cpu")
    settings.setCacheLimitMb(300)
    settings.setCacheLimitMb(300)
    assert told == ["device", "cacheLimitMb"]


# -- session


def test_the_scene_has_one_session(kit, settings):
    from AnatomicalEmbeddingLib.shared.panels.Session import sharedSession

    assert sharedSession() is sharedSession(kit.scene)
    assert sharedSession().scene is slicer.mrmlScene


def test_the_timer_takes_over_what_the_thread_did(kit, session):
    from AnatomicalEmbeddingLib.shared.maps.MapStore import READY

    current, ticks, volume = session(), [], add_ct("CT-1")
    current.ticked.connect(lambda: ticks.append(current.store.state(volume).status))
    current.store.request([volume])
    kit.spin(lambda: READY in ticks)
    assert current.store.map(volume) == "CT-1"


def test_the_timer_runs_only_while_a_panel_is_attached(kit, session):
    current, ticks = session(), []
    current.ticked.connect(lambda: ticks.append(1))
    current.attach("other")
    current.detach("panel")
    kit.spin(lambda: len(ticks) > 1)
    assert current.attached
    current.detach("other")
    assert not current.attached
    assert not current._timer.isActive()


def test_the_timer_is_slow_while_no_panel_is_open_and_nothing_is_done(kit, session):
    current, entered = session(HeldEngine), []
    current.detach("panel")
    current.attach("panel", lambda: bool(entered))
    current.tick()
    assert current._timer.interval >= 1000
    current.store.request([add_ct("CT-1")])
    current.tick()
    assert current._timer.interval < 50
    current.store.cancel()
    current.tick()
    entered.append("now")
    current.wake()
    assert current._timer.interval == 50
    current.tick()
    assert current._timer.interval == 50


@pytest.mark.parametrize("name", ["AnatomicalLandmarks", "AnatomicalROI", "LesionFollowUp"])
def test_a_module_that_is_left_costs_next_to_nothing(kit, name):
    kit.load_module(name)
    timer = kit.open(name).session._timer
    kit.leave(name)
    kit.spin(lambda: timer.interval >= 1000)
    kit.open(name)
    assert timer.interval == 50


def test_the_last_panel_to_go_ends_the_work_and_frees_memory(kit, session):
    current, volumes = session(HeldEngine), [add_ct("CT-1"), add_ct("CT-2")]
    store, engine = current.store, type(current.store.engine)
    store.request(volumes)
    kit.spin(lambda: store.state(volumes[0]).share > 0)
    assert workers() == ["AnatomicalEmbedding"]
    current.detach("panel")
    assert workers() == []
    assert engine.ended == ["CT-1"], "the second one must not have begun"
    assert engine.released == 1
    assert store.map(volumes[0]) is None
    assert not store.busy


def test_a_later_panel_starts_anew(kit, session):
    current, volume = session(), add_ct("CT-1")
    current.store.request([volume])
    kit.spin(lambda: current.store.map(volume) is not None)
    before = current.store
    current.detach("panel")
    current.attach("panel")
    assert current.store is not before
    assert current.store.map(volume) is None
    current.store.request([volume])
    kit.spin(lambda: current.store.map(volume) is not None)


def test_the_real_engine_s_model_is_given_back(kit, settings):
    """With the shipped network: after the last panel nothing holds it."""
    import gc
    import weakref

    from AnatomicalEmbeddingLib.shared.panels.Session import Session

    settings.setDevice("cpu")
    current = Session(kit.scene)
    current.attach("panel")
    network = weakref.ref(current.store.engine.load().network)
    current.detach("panel")
    gc.collect()
    assert network() is None


def test_closing_the_scene_while_working_cancels_and_leaves_nothing(kit, session):
    current, volume = session(HeldEngine), add_ct("CT-1")
    engine = type(current.store.engine)
    current.store.request([volume])
    kit.spin(lambda: current.store.state(volume).share > 0)
    kit.close_scene()
    kit.spin(lambda: engine.ended == ["CT-1"])
    assert not current.store.busy
    assert engine.released == 1
    ticks = []
    current.ticked.connect(lambda: ticks.append(1))
    kit.spin(lambda: len(ticks) > 2)  # nothing of the old scene comes in afterwards
    again = add_ct("CT-2")
    engine.go.set()
    current.store.request([again])
    kit.spin(lambda: current.store.map(again) == "CT-2")


def test_other_weights_drop_maps_and_another_device_keeps_them(kit, session, settings):
    current, volume = session(), add_ct("CT-1")
    current.store.request([volume])
    kit.spin(lambda: current.store.map(volume) is not None)
    settings.setDevice("cpu")
    assert current.store.engine.choice.device == "cpu"
    assert current.store.map(volume) is not None
    settings.setWeights("hybrid-ct-v3")
    assert current.store.engine.choice.weights == "hybrid-ct-v3"
    assert current.store.map(volume) is None


def test_settings_changed_while_no_panel_was_there_hold_for_the_next(kit, session, settings):
    current = session()
    current.detach("panel")
    settings.setDevice("cpu")
    current.attach("panel")
    assert current.store.engine.choice.device == "cpu"
