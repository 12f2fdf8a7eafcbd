"""Set-up: packages are installed or requested, device and weights are changed, and the cache is emptied."""

from driver.scans import add_patient, keep_no_maps
from driver.waiting import pause

NEEDS_PACKAGES = False


def run(user):
    from AnatomicalEmbedding.resources import list_weights
    from AnatomicalEmbeddingLib.shared.maps.Engine import Engine

    panel = user.open("AnatomicalLandmarks")
    setup = panel.setupPanel
    ui = setup.ui
    missing = Engine.missingPackages()
    assert setup.widget.collapsed == (not missing), (
        "the section is open where something is missing, and only there"
    )
    user.open_section(setup.widget)
    if missing:
        wheels = user.folder / "no-wheels"
        wheels.mkdir()
        ui.wheelFolderEdit.currentPath = str(wheels)
        user.click(ui.installButton)
        user.wait(
            lambda: "holds no wheel files" in ui.messageLabel.text, 10, "an empty folder is named"
        )
        return
    for label in (ui.torchStatus, ui.packagesStatus):
        assert "Installed" in label.text
    assert not ui.installButton.enabled
    user.picture("installed")

    # other weights, and the processor, while scans are being prepared
    keep_no_maps()
    add_patient(0, "Prior")
    add_patient(1, "Current")
    user.click(panel.preparation.button)
    user.wait(lambda: panel.session.store.busy, 10)
    user.choose(ui.deviceSelector, "Processor")
    other = [name for name in list_weights() if name not in ui.weightsSelector.itemText(0)]
    if other:
        user.choose(ui.weightsSelector, other[0])
    _prepare_what_is_left(user, panel)
    user.choose(ui.weightsSelector, "Automatic")
    _prepare_what_is_left(user, panel)

    # maps are kept on disk from now on
    ui.cacheLimitSpinBox.value = 2000
    add_patient(2, "Third")
    pause(0.5)
    _prepare_what_is_left(user, panel)
    user.open("AnatomicalROI")
    user.open("AnatomicalLandmarks")
    assert not ui.cacheStatus.text.startswith("0 maps"), ui.cacheStatus.text
    user.click(ui.clearCacheButton)
    user.wait(lambda: ui.cacheStatus.text.startswith("0 maps"), 10)
    user.picture("cache-cleared")


def _prepare_what_is_left(user, panel):
    """What was under way may have been for former weights."""
    pause(0.5)
    button = panel.preparation.button
    if button.enabled and button.text == "Prepare scans":
        user.click(button)
    user.wait_until_prepared(panel)
