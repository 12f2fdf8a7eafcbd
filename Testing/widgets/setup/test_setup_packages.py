"""The packages in the set-up section: what is missing is said, and installed when the user asks."""

import subprocess
import sys

import pytest
import qt_labels
from qt_labels import shown

WHEEL = "safetensors-0.4.5-py3-none-any.whl"


@pytest.fixture
def no_pytorch_extension(monkeypatch):
    monkeypatch.delitem(sys.modules, "PyTorchUtils", raising=False)


def test_all_there_the_section_is_closed(open_panel):
    panel = open_panel()
    assert panel.widget.collapsed
    assert panel.widget.text == "Set-up"
    assert shown(panel.ui.torchStatus).startswith("Installed: 2.")
    assert shown(panel.ui.packagesStatus).startswith("Installed: safetensors")
    assert not panel.ui.installButton.enabled


def test_missing_torch_opens_the_section_and_is_reported(open_panel, engine):
    engine.missing = ["torch"]
    panel = open_panel()
    assert not panel.widget.collapsed
    assert "missing" in panel.widget.text
    assert shown(panel.ui.torchStatus) == "Not installed"
    assert shown(panel.ui.messageLabel) == "torch is not installed; press Install."
    assert panel.ui.installButton.enabled


def test_missing_packages_are_named(open_panel, engine):
    engine.missing = ["safetensors"]
    panel = open_panel()
    assert shown(panel.ui.packagesStatus) == "Not installed: safetensors"
    assert shown(panel.ui.torchStatus).startswith("Installed")


def test_states_are_words_in_colours(open_panel, engine):
    engine.missing = ["torch"]
    panel = open_panel()
    assert qt_labels.colour(panel.ui.torchStatus.text) != qt_labels.colour(panel.ui.packagesStatus.text)


def test_an_old_torch_counts_as_missing(open_panel, monkeypatch):
    from AnatomicalEmbeddingLib.shared.panels import PackageSetup, SetupPanel

    for module in (PackageSetup, SetupPanel):
        monkeypatch.setattr(module, "installedVersion", lambda name: {"torch": "1.13.1+cpu"}.get(name, "1.0"))
    panel = open_panel()
    assert shown(panel.ui.torchStatus) == "Too old: 1.13.1+cpu; 2.4 or newer is needed"
    assert panel.ui.installButton.enabled


def test_opening_the_panel_installs_and_asks_nothing(kit, open_panel, engine):
    engine.missing = ["torch", "safetensors"]
    extension = kit.packaging.install_pytorch_extension()
    open_panel().refresh()
    assert extension.requested == []
    assert kit.packaging.installed == []
    assert list(kit.dialogs) == []


def test_torch_is_installed_by_the_pytorch_extension_only(kit, open_panel, engine):
    engine.missing = ["torch"]
    extension = kit.packaging.install_pytorch_extension()
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert extension.requested == [{"askConfirmation": True, "backend": None, "version": ">=2.4"}]
    assert kit.packaging.installed == []


def test_the_section_closes_when_all_is_there(kit, open_panel, engine, monkeypatch):
    engine.missing = ["torch"]
    extension = kit.packaging.install_pytorch_extension()
    install = extension.installTorch

    def and_it_is_there(self, **options):
        engine.missing = []
        return install(self, **options)

    monkeypatch.setattr(extension, "installTorch", and_it_is_there)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert panel.widget.collapsed
    assert shown(panel.ui.messageLabel) == ""


def test_without_the_pytorch_extension_the_remedy_is_reported(kit, open_panel, engine, no_pytorch_extension):
    engine.missing = ["torch"]
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "install it in the Extensions Manager" in shown(panel.ui.messageLabel)
    assert not panel.ui.messageLabel.isHidden()
    assert list(kit.dialogs) == []


def test_a_declined_torch_is_reported(kit, open_panel, engine):
    engine.missing = ["torch", "safetensors"]
    kit.packaging.install_pytorch_extension(agrees=False)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "PyTorch was not installed, as you declined" in shown(panel.ui.messageLabel)
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
    assert "still not there; restart Slicer" in shown(panel.ui.messageLabel)


def test_declined_packages_are_reported(kit, open_panel, engine, monkeypatch):
    from slicer import packaging

    engine.missing = ["safetensors"]
    monkeypatch.setattr(packaging, "pip_check", lambda requirements: False)
    monkeypatch.setattr(packaging, "declined", True)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "safetensors was not installed, as you declined" in shown(panel.ui.messageLabel)


def test_what_else_keeps_packages_from_being_installed_is_no_refusal(kit, open_panel, engine, monkeypatch):
    from slicer import packaging

    def fail(requirements, requester):
        raise RuntimeError("PythonSlicer could not be started")

    engine.missing = ["safetensors"]
    monkeypatch.setattr(packaging, "pip_ensure", fail)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "PythonSlicer could not be started" in shown(panel.ui.messageLabel)
    assert "declined" not in shown(panel.ui.messageLabel)


def test_a_failing_installation_is_reported(kit, open_panel, engine, monkeypatch):
    engine.missing = ["torch"]
    extension = kit.packaging.install_pytorch_extension()

    def fail(self, **options):
        raise subprocess.CalledProcessError(1, "pip install torch")

    monkeypatch.setattr(extension, "installTorch", fail)
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "PyTorch could not be installed" in shown(panel.ui.messageLabel)
    assert list(kit.dialogs) == []


@pytest.mark.parametrize("name", ["numpy", "SimpleITK"])
def test_slicer_s_own_packages_are_never_installed(kit, open_panel, engine, settings, tmp_path, name):
    engine.missing = [name, "safetensors"]
    (tmp_path / WHEEL).touch()
    panel = open_panel()
    for folder in ("", str(tmp_path)):
        settings.setWheelFolder(folder)
        kit.click(panel.ui.installButton)
        assert f"{name}: comes with Slicer but is not there" in shown(panel.ui.messageLabel)
    assert kit.packaging.installed == []


def test_requirements_name_nothing_that_every_slicer_brings(kit):
    from packaging.requirements import Requirement

    from AnatomicalEmbeddingLib.shared.panels.PackageSetup import REQUIREMENTS_FILE

    lines = [line for line in REQUIREMENTS_FILE.read_text().splitlines() if line and not line.startswith("#")]
    names = {Requirement(line).name for line in lines}
    assert "safetensors" in names
    assert names.isdisjoint({"numpy", "scipy", "pydicom", "requests", "SimpleITK", "vtk", "torch"})


def test_with_a_folder_of_wheels_nothing_else_is_used(kit, open_panel, engine, tmp_path, no_pytorch_extension):
    engine.missing = ["torch", "safetensors"]
    (tmp_path / WHEEL).touch()
    panel = open_panel()
    panel.ui.wheelFolderEdit.currentPath = str(tmp_path)
    kit.click(panel.ui.installButton)
    ((arguments, _options),) = kit.packaging.installed
    assert arguments[:3] == ["--no-index", "--find-links", str(tmp_path)]
    assert [argument.split(">")[0] for argument in arguments[3:]] == ["torch", "safetensors"]


def test_a_folder_of_wheels_is_forgotten_when_its_field_is_emptied(open_panel, tmp_path):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    edit = open_panel().ui.wheelFolderEdit
    edit.currentPath = str(tmp_path)
    assert ModuleSettings.wheelFolder() == str(tmp_path)
    edit.currentPath = ""
    assert ModuleSettings.wheelFolder() == ""


def test_a_folder_without_wheels_is_named(kit, open_panel, engine, tmp_path):
    engine.missing = ["safetensors"]
    panel = open_panel()
    panel.ui.wheelFolderEdit.currentPath = str(tmp_path / "empty")
    kit.click(panel.ui.installButton)
    assert shown(panel.ui.messageLabel).startswith(f"{tmp_path / 'empty'}: holds no wheel files")
    assert kit.packaging.installed == []


def test_an_older_slicer_is_answered_with_the_one_needed(kit, open_panel, engine, monkeypatch):
    engine.missing = ["safetensors"]
    monkeypatch.setitem(sys.modules, "slicer.packaging", None)  # as before Slicer 5.12
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "Slicer 5.12 or newer" in shown(panel.ui.messageLabel)


def test_so_is_one_who_installs_what_training_needs(kit, monkeypatch):
    from AnatomicalEmbeddingLib.shared.panels.PackageSetup import InstallError, installRequirements

    monkeypatch.setitem(sys.modules, "slicer.packaging", None)
    with pytest.raises(InstallError, match=r"Slicer 5\.12 or newer"):
        installRequirements(["safetensors>=0.4"])
