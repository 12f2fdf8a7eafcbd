"""The set-up section of the modules: weights, device and maps, chosen, remembered and removed."""

import builtins
import subprocess
import sys

import pytest
from qt_labels import shown


@pytest.fixture
def refuse_torch(monkeypatch):
    """From now on nothing may import torch."""
    real = builtins.__import__

    def guarded(name, *arguments, **options):
        assert name.split(".")[0] != "torch", "torch was imported"
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", guarded)
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)


def choose(kit, combo_box, value) -> None:
    """Choose an entry as the user does."""
    index = combo_box.findData(value)
    assert index >= 0, f"{value} is not offered"
    combo_box.setCurrentIndex(index)
    combo_box.activated.emit(index)
    kit.process_events()


# -- weights


def test_shipped_weights_are_offered_without_their_calibrations(open_panel):
    selector = open_panel().ui.weightsSelector
    offered = [selector.itemData(index) for index in range(selector.count)]
    assert offered == ["auto", "hybrid-ct-v3"]
    assert selector.itemText(0) == "Automatic (hybrid-ct-v3)"


def test_found_weights_are_reported_with_their_licence(open_panel):
    panel = open_panel()
    assert shown(panel.ui.weightsStatus).startswith("Found: hybrid-ct-v3.safetensors")
    assert "hybrid-ct-v3.md" in panel.ui.weightsStatus.text


def test_choosing_shipped_weights_is_remembered(kit, open_panel, settings, session):
    panel = open_panel()
    choose(kit, panel.ui.weightsSelector, "hybrid-ct-v3")
    assert settings.choice().weights == "hybrid-ct-v3"
    assert session.store.engine.choice.weights == "hybrid-ct-v3"
    assert shown(panel.ui.weightsStatus).startswith("Found: hybrid-ct-v3.safetensors")


def test_choosing_a_file_of_weights(kit, open_panel, settings, tmp_path):
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(b"0" * 2_000_000)
    kit.dialogs.answer("open_file", str(mine))
    panel = open_panel(True)
    kit.click(panel.ui.chooseWeightsButton)
    assert settings.choice().weights == str(mine)
    assert panel.ui.weightsSelector.currentText == "mine.safetensors"
    assert shown(panel.ui.weightsStatus).startswith("Found: mine.safetensors (2 MB)")


def test_a_cancelled_choice_changes_nothing(kit, open_panel, settings):
    panel = open_panel(True)
    kit.click(panel.ui.chooseWeightsButton)
    assert settings.choice().weights == "auto"


def test_missing_weights_open_the_section_and_are_named(open_panel, settings, tmp_path):
    gone = tmp_path / "gone.safetensors"
    settings.setWeights(str(gone))
    panel = open_panel()
    assert not panel.widget.collapsed
    assert shown(panel.ui.weightsStatus) == f"Missing: {gone}. Choose other weights."
    settings.setWeights("auto")
    assert panel.widget.collapsed


# -- device


def test_the_device_is_remembered(kit, open_panel, settings, session):
    choose(kit, open_panel().ui.deviceSelector, "cpu")
    assert settings.choice().device == "cpu"
    assert session.store.engine.choice.device == "cpu"


def test_a_device_that_is_not_there_gives_a_sentence(kit, open_panel, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    panel = open_panel(True)
    choose(kit, panel.ui.deviceSelector, "cuda")
    assert shown(panel.ui.deviceStatus) == "device 'cuda' is not available here; choose auto or cpu."
    assert not panel.ui.deviceStatus.isHidden()
    choose(kit, panel.ui.deviceSelector, "cpu")
    assert panel.ui.deviceStatus.isHidden()
    assert list(kit.dialogs) == []


def test_little_gpu_memory_is_reported(open_panel, engine):
    import torch  # noqa: F401 - asked only once torch is loaded

    engine.warning = "The GPU has 1.0 of 2.0 GB free."
    assert shown(open_panel(True).ui.deviceStatus) == "The GPU has 1.0 of 2.0 GB free."


def test_the_section_loads_no_torch(open_panel, engine, settings, refuse_torch):
    engine.warning = "The GPU has 1.0 of 2.0 GB free."
    settings.setDevice("cuda")
    panel = open_panel(True)
    assert panel.ui.deviceSelector.currentText == "NVIDIA GPU (CUDA)"
    assert panel.ui.deviceStatus.isHidden()


def test_the_warning_comes_once_torch_is_loaded(kit, open_panel, engine, monkeypatch):
    from AnatomicalEmbeddingLib.shared.panels import SetupPanel

    engine.warning = "The GPU has 1.0 of 2.0 GB free."
    loaded = []
    monkeypatch.setattr(SetupPanel, "isImported", lambda name: bool(loaded))
    panel = open_panel(True)
    assert panel.ui.deviceStatus.isHidden()
    loaded.append(True)
    kit.spin(lambda: not panel.ui.deviceStatus.isHidden())


# -- maps on disk


def make_maps(folder, *sizes):
    folder.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(sizes):
        (folder / f"{number}.map.safetensors").write_bytes(b"0" * size)


def test_maps_on_disk_are_counted(open_panel, tmp_path):
    make_maps(tmp_path / "maps", 3_000_000, 4_000_000)
    panel = open_panel()
    assert panel.ui.cacheStatus.text == "2 maps, 7 MB"
    assert panel.ui.cacheStatus.toolTip == str(tmp_path / "maps")


def test_clear_removes_maps_and_nothing_else(kit, open_panel, tmp_path):
    make_maps(tmp_path / "maps", 3_000_000, 4_000_000)
    (tmp_path / "maps" / "thesis.docx").touch()
    panel = open_panel(True)
    kit.click(panel.ui.clearCacheButton)
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["thesis.docx"]
    assert panel.ui.cacheMessage.text == "Removed 2 maps, freed 7 MB."
    assert panel.ui.cacheStatus.text == "0 maps, 0 MB"
    assert not panel.ui.clearCacheButton.enabled


def test_maps_that_are_in_use_stay_and_are_reported(kit, open_panel, tmp_path, monkeypatch):
    from pathlib import Path

    make_maps(tmp_path / "maps", 3_000_000, 4_000_000)
    unlink = Path.unlink

    def in_use(path, **options):
        if path.name.startswith("1."):
            raise PermissionError(13, "in use")
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", in_use)
    panel = open_panel(True)
    kit.click(panel.ui.clearCacheButton)
    assert panel.ui.cacheMessage.text == "Removed 1 maps, freed 3 MB. 1 are in use and stay; try again later."


def test_open_shows_the_folder(kit, open_panel, tmp_path):
    kit.click(open_panel(True).ui.openCacheButton)
    assert (tmp_path / "maps").is_dir()
    assert kit.dialogs.of("url")[0].text == f"file://{tmp_path / 'maps'}"


def test_another_folder_and_limit_are_remembered(kit, open_panel, settings, session, tmp_path):
    kit.dialogs.answer("directory", str(tmp_path / "elsewhere"))
    panel = open_panel(True)
    kit.click(panel.ui.chooseCacheButton)
    panel.ui.cacheLimitSpinBox.value = 300
    choice = settings.choice()
    assert (choice.cacheFolder, choice.cacheLimitMb) == (str(tmp_path / "elsewhere"), 300)
    assert session.store.engine.choice == choice
    panel.ui.cacheLimitSpinBox.value = 0
    assert settings.choice().cacheFolder is None


def test_the_engine_s_folder_is_shown_without_torch(kit, open_panel, settings, monkeypatch, tmp_path):
    monkeypatch.setenv("ANATEMB_CACHE", str(tmp_path / "own"))
    settings.setCacheFolder("")
    make_maps(tmp_path / "own", 10, 20)
    panel = open_panel()
    assert panel.ui.cacheStatus.text.startswith("2 maps")
    assert panel.ui.cacheStatus.toolTip == str(tmp_path / "own")
    code = "import sys, AnatomicalEmbedding.embedding.cache; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# -- several panels


def test_panels_of_several_modules_follow_each_other(kit, open_panel):
    first, second = open_panel(), open_panel()
    choose(kit, first.ui.weightsSelector, "hybrid-ct-v3")
    choose(kit, first.ui.deviceSelector, "cpu")
    assert second.ui.weightsSelector.currentText == "hybrid-ct-v3"
    assert second.ui.deviceSelector.currentText == "Processor (CPU)"


def test_a_user_s_opening_is_left_alone(kit, open_panel, settings):
    panel = open_panel()
    panel.widget.collapsed = False
    settings.setDevice("cpu")
    assert not panel.widget.collapsed


def test_a_closed_panel_hears_nothing(kit, open_panel, settings):
    panel = open_panel()
    panel.close()
    settings.setDevice("cpu")
    assert panel.ui.deviceSelector.currentText == "Automatic"


def test_the_panel_asks_nothing_of_torch_while_a_worker_imports_it(session, open_panel, monkeypatch):
    """Whoever asks then waits for the worker, and Slicer with it."""
    import torch

    from AnatomicalEmbeddingLib.shared.panels import SetupPanel

    asked = []
    monkeypatch.setattr(SetupPanel, "deviceProblem", lambda device: asked.append(device) or "")
    monkeypatch.setattr(torch.__spec__, "_initializing", True, raising=False)
    panel = open_panel(True)
    session.tick()
    panel.refresh()
    assert asked == []
    monkeypatch.setattr(torch.__spec__, "_initializing", False)
    session.tick()
    assert asked == ["auto"]
