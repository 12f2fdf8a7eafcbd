"""Test packages in the set-up section: missing packages are named, and installed if the user agrees."""

import sys

import pytest
from qt_labels import shown

WHEEL = "safetensors-0.4.5-py3-none-any.whl"


@pytest.fixture
def no_pytorch_extension(monkeypatch):
    monkeypatch.delitem(sys.modules, "PyTorchUtils", raising=False)


def test_torch_is_installed_by_the_pytorch_extension_only(kit, open_panel, engine):
    engine.missing = ["torch"]
    extension = kit.packaging.install_pytorch_extension()
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert extension.requested == [{"askConfirmation": True, "backend": None, "version": ">=2.2"}]
    assert kit.packaging.installed == []


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
    assert "still missing; restart Slicer" in shown(panel.ui.messageLabel)


def test_with_a_folder_of_wheels_nothing_else_is_used(
    kit, open_panel, engine, tmp_path, no_pytorch_extension
):
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
    assert shown(panel.ui.messageLabel).startswith(f"{tmp_path / 'empty'}: holds no wheel files")
    assert kit.packaging.installed == []


def test_an_older_slicer_is_answered_with_the_one_needed(kit, open_panel, engine, monkeypatch):
    engine.missing = ["safetensors"]
    monkeypatch.setitem(sys.modules, "slicer.packaging", None)  # as before Slicer 5.12
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert "Slicer 5.12 or newer" in shown(panel.ui.messageLabel)


@pytest.fixture
def intel_mac(monkeypatch, engine):
    """Versions as on a Mac with an Intel processor: the last PyTorch there needs numpy 1, and Slicer brings numpy 2."""
    from AnatomicalEmbedding.installation import packages

    releases = {"torch": (2, 2, 2), "numpy": (2, 0, 1)}
    monkeypatch.setattr(packages, "release_of", releases.get)
    engine.missing = ["torch"]
    return releases


def test_numpy_1_follows_a_pytorch_that_needs_it(kit, open_panel, intel_mac, engine):
    kit.packaging.install_pytorch_extension()
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert kit.packaging.installed == [(["numpy<2"], {"requester": "AnatomicalEmbedding"})]
    assert "Restart Slicer" in shown(panel.ui.messageLabel)


def test_numpy_2_stays_where_pytorch_can_use_it(kit, open_panel, intel_mac, engine):
    intel_mac["torch"] = (2, 3, 0)
    kit.packaging.install_pytorch_extension()
    panel = open_panel()
    kit.click(panel.ui.installButton)
    assert kit.packaging.installed == []
