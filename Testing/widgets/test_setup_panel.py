"""The set-up section of the modules: what is said, installed, remembered and removed."""

import builtins
import subprocess
import sys

import pytest
import qt_labels
from engines import InstantEngine, fresh

WHEEL = "safetensors-0.4.5-py3-none-any.whl"


@pytest.fixture
def settings(kit, tmp_path):
    """Settings whose folder of maps is the test's own."""
    from AnatomicalEmbeddingLib.Panels import ModuleSettings

    ModuleSettings.setCacheFolder(str(tmp_path / "maps"))
    return ModuleSettings


@pytest.fixture
def engine():
    """The user's computer, to be changed before the panel opens."""
    return fresh(InstantEngine)


@pytest.fixture
def session(kit, settings, engine):
    from AnatomicalEmbeddingLib.Panels.Session import Session

    current = Session(kit.scene, engine)
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
    from AnatomicalEmbeddingLib.Panels.SetupPanel import SetupPanel

    panels = []

    def make(opened=False):
        panels.append(SetupPanel(place.layout(), session))
        panels[-1].widget.collapsed = panels[-1].widget.collapsed and not opened
        kit.process_events()
        return panels[-1]

    yield make
    for panel in panels:
        panel.close()


@pytest.fixture
def no_pytorch_extension(monkeypatch):
    monkeypatch.delitem(sys.modules, "PyTorchUtils", raising=False)


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


def text(label) -> str:
    return qt_labels.plain(label.text)


def choose(kit, combo_box, value) -> None:
    """Choose an entry as the user does."""
    index = combo_box.findData(value)
    assert index >= 0, f"{value} is not offered"
    combo_box.setCurrentIndex(index)
    combo_box.activated.emit(index)
    kit.process_events()


# -- packages


def test_all_there_the_section_is_closed(open_panel):
    panel = open_panel()
    assert panel.widget.collapsed
    assert panel.widget.text == "Set-up"
    assert text(panel.ui.torchStatus).startswith("Installed: 2.")
    assert text(panel.ui.packagesStatus).startswith("Installed: safetensors")
    assert not panel.ui.installButton.enabled


def test_missing_torch_opens_the_section_and_is_said(open_panel, engine):
    engine.missing = ["torch"]
    panel = open_panel()
    assert not panel.widget.collapsed
    assert "missing" in panel.widget.text
    assert text(panel.ui.torchStatus) == "Not installed"
    assert text(panel.ui.messageLabel) == "torch is not installed; press Install."
    assert panel.ui.installButton.enabled


def test_missing_packages_are_named(open_panel, engine):
    engine.missing = ["safetensors"]
    panel = open_panel()
    assert text(panel.ui.packagesStatus) == "Not installed: safetensors"
    assert text(panel.ui.torchStatus).startswith("Installed")


def test_states_are_words_in_colours(open_panel, engine):
    engine.missing = ["torch"]
    panel = open_panel()
    assert qt_labels.colour(panel.ui.torchStatus.text) != qt_labels.colour(panel.ui.packagesStatus.text)


def test_an_old_torch_counts_as_missing(open_panel, monkeypatch):
    from AnatomicalEmbeddingLib.Panels import PackageSetup, SetupPanel

    for module in (PackageSetup, SetupPanel):
        monkeypatch.setattr(module, "installedVersion", lambda name: {"torch": "1.13.1+cpu"}.get(name, "1.0"))
    panel = open_panel()
    assert text(panel.ui.torchStatus) == "Too old: 1.13.1+cpu; 2.4 or newer is needed"
    assert panel.ui.installButton.enabled


def test_opening_the_panel_installs_and_asks_nothing(kit, open_panel, engine):
    engine.missing = ["torch", "safetensors"]
    extension = kit.packaging.install_pytorch_extension(torch_installed=False)
    open_panel().refresh()
    assert extension.requested == []
    assert kit.packaging.installed == []
    assert list(kit.dialogs) == []


def test_torch_is_installed_by_the_pytorch_extension_only(kit, open_panel, engine):
    engine.missing = ["torch"]
    extension = kit.packaging.install_pytorch_extension(torch_installed=False)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert extension.requested == [{"askConfirmation": True, "backend": None, "version": ">=2.4"}]
    assert kit.packaging.installed == []


def test_the_section_closes_when_all_is_there(kit, open_panel, engine, monkeypatch):
    engine.missing = ["torch"]
    extension = kit.packaging.install_pytorch_extension(torch_installed=False)
    install = extension.installTorch

    def and_it_is_there(self, **options):
        engine.missing = []
        return install(self, **options)

    monkeypatch.setattr(extension, "installTorch", and_it_is_there)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert panel.widget.collapsed
    assert text(panel.ui.messageLabel) == ""


def test_without_the_pytorch_extension_the_remedy_is_said(kit, open_panel, engine, no_pytorch_extension):
    engine.missing = ["torch"]
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "install it in the Extensions Manager" in text(panel.ui.messageLabel)
    assert not panel.ui.messageLabel.isHidden()
    assert list(kit.dialogs) == []


def test_a_declined_torch_is_said(kit, open_panel, engine):
    engine.missing = ["torch", "safetensors"]
    kit.packaging.install_pytorch_extension(torch_installed=False, agrees=False)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "PyTorch was not installed, as you declined" in text(panel.ui.messageLabel)
    assert kit.packaging.installed == [], "after a no nothing else is asked"


def test_other_packages_come_by_slicer_s_packaging(kit, open_panel, engine, monkeypatch):
    from slicer import packaging

    engine.missing = ["safetensors"]
    monkeypatch.setattr(packaging, "pip_check", lambda requirements: False)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    ((requirements, options),) = kit.packaging.installed
    assert [requirement.split(">")[0] for requirement in requirements] == ["safetensors"]
    assert options["requester"] == "AnatomicalEmbedding"
    assert "still not there; restart Slicer" in text(panel.ui.messageLabel)


def test_declined_packages_are_said(kit, open_panel, engine, monkeypatch):
    from slicer import packaging

    engine.missing = ["safetensors"]
    monkeypatch.setattr(packaging, "pip_check", lambda requirements: False)
    monkeypatch.setattr(packaging, "declined", True)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "safetensors was not installed, as you declined" in text(panel.ui.messageLabel)


def test_a_failing_installation_is_said(kit, open_panel, engine, monkeypatch):
    engine.missing = ["torch"]
    extension = kit.packaging.install_pytorch_extension(torch_installed=False)

    def fail(self, **options):
        raise subprocess.CalledProcessError(1, "pip install torch")

    monkeypatch.setattr(extension, "installTorch", fail)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "PyTorch could not be installed" in text(panel.ui.messageLabel)
    assert list(kit.dialogs) == []


@pytest.mark.parametrize("name", ["numpy", "SimpleITK"])
def test_slicer_s_own_packages_are_never_installed(kit, open_panel, engine, settings, tmp_path, name):
    engine.missing = [name, "safetensors"]
    (tmp_path / WHEEL).touch()
    panel = open_panel()
    for folder in ("", str(tmp_path)):
        settings.setWheelFolder(folder)
        kit.click(panel.ui.installButton)
        assert f"{name}: comes with Slicer but is not there" in text(panel.ui.messageLabel)
    assert kit.packaging.installed == []


def test_requirements_name_nothing_that_slicer_brings():
    from packaging.requirements import Requirement

    from AnatomicalEmbeddingLib.Panels.PackageSetup import REQUIREMENTS_FILE

    lines = [line for line in REQUIREMENTS_FILE.read_text().splitlines() if line and not line.startswith("#")]
    assert {Requirement(line).name for line in lines} == {"safetensors"}


def test_with_a_folder_of_wheels_nothing_else_is_used(kit, open_panel, engine, tmp_path, no_pytorch_extension):
    engine.missing = ["torch", "safetensors"]
    (tmp_path / WHEEL).touch()
    panel = open_panel()
    panel.ui.wheelFolderEdit.currentPath = str(tmp_path)
    kit.click(panel.ui.installButton)
    ((arguments, _options),) = kit.packaging.installed
    assert arguments[:3] == ["--no-index", "--find-links", str(tmp_path)]
    assert [argument.split(">")[0] for argument in arguments[3:]] == ["torch", "safetensors"]


def test_a_folder_without_wheels_is_named(kit, open_panel, engine, tmp_path):
    engine.missing = ["safetensors"]
    panel = open_panel()
    panel.ui.wheelFolderEdit.currentPath = str(tmp_path / "empty")
    kit.click(panel.ui.installButton)
    assert text(panel.ui.messageLabel).startswith(f"{tmp_path / 'empty'}: holds no wheel files")
    assert kit.packaging.installed == []


# -- weights


def test_shipped_weights_are_offered_without_their_calibrations(open_panel):
    selector = open_panel().ui.weightsSelector
    offered = [selector.itemData(index) for index in range(selector.count)]
    assert offered == ["auto", "ape-ct-v3", "hybrid-ct-v2"]
    assert selector.itemText(0) == "Automatic (hybrid-ct-v2)"


def test_found_weights_are_said_with_their_licence(open_panel):
    panel = open_panel()
    assert text(panel.ui.weightsStatus).startswith("Found: hybrid-ct-v2.safetensors")
    assert "hybrid-ct-v2.md" in panel.ui.weightsStatus.text


def test_choosing_shipped_weights_is_remembered(kit, open_panel, settings, session):
    panel = open_panel()
    choose(kit, panel.ui.weightsSelector, "ape-ct-v3")
    assert settings.choice().weights == "ape-ct-v3"
    assert session.store.engine.choice.weights == "ape-ct-v3"
    assert text(panel.ui.weightsStatus).startswith("Found: ape-ct-v3.safetensors")


def test_choosing_a_file_of_weights(kit, open_panel, settings, tmp_path):
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(b"0" * 2_000_000)
    kit.dialogs.answer("open_file", str(mine))
    panel = open_panel(True)
    kit.click(panel.ui.chooseWeightsButton)
    assert settings.choice().weights == str(mine)
    assert panel.ui.weightsSelector.currentText == "mine.safetensors"
    assert text(panel.ui.weightsStatus).startswith("Found: mine.safetensors (2 MB)")


def test_a_cancelled_choice_changes_nothing(kit, open_panel, settings):
    panel = open_panel(True)
    kit.click(panel.ui.chooseWeightsButton)
    assert settings.choice().weights == "auto"


def test_missing_weights_open_the_section_and_are_named(open_panel, settings, tmp_path):
    gone = tmp_path / "gone.safetensors"
    settings.setWeights(str(gone))
    panel = open_panel()
    assert not panel.widget.collapsed
    assert text(panel.ui.weightsStatus) == f"Missing: {gone}. Choose other weights."
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
    assert text(panel.ui.deviceStatus) == "device 'cuda' is not available here; choose auto or cpu."
    assert not panel.ui.deviceStatus.isHidden()
    choose(kit, panel.ui.deviceSelector, "cpu")
    assert panel.ui.deviceStatus.isHidden()
    assert list(kit.dialogs) == []


def test_little_gpu_memory_is_said(open_panel, engine):
    import torch  # noqa: F401 - asked only once torch is loaded

    engine.warning = "The GPU has 1.0 of 2.0 GB free."
    assert text(open_panel(True).ui.deviceStatus) == "The GPU has 1.0 of 2.0 GB free."


def test_the_section_loads_no_torch(open_panel, engine, settings, refuse_torch):
    engine.warning = "The GPU has 1.0 of 2.0 GB free."
    settings.setDevice("cuda")
    panel = open_panel(True)
    assert panel.ui.deviceSelector.currentText == "NVIDIA GPU (CUDA)"
    assert panel.ui.deviceStatus.isHidden()


def test_the_warning_comes_once_torch_is_loaded(kit, open_panel, engine, monkeypatch):
    from AnatomicalEmbeddingLib.Panels import SetupPanel

    engine.warning = "The GPU has 1.0 of 2.0 GB free."
    loaded = []
    monkeypatch.setattr(SetupPanel, "_torchIsLoaded", lambda: bool(loaded))
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


def test_maps_that_are_in_use_stay_and_are_said(kit, open_panel, tmp_path, monkeypatch):
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
    code = "import sys, AnatomicalEmbedding.cache; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# -- several panels


def test_panels_of_several_modules_follow_each_other(kit, open_panel):
    first, second = open_panel(), open_panel()
    choose(kit, first.ui.weightsSelector, "ape-ct-v3")
    choose(kit, first.ui.deviceSelector, "cpu")
    assert second.ui.weightsSelector.currentText == "ape-ct-v3"
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
