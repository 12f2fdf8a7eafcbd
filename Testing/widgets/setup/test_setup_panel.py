"""Test the set-up section of the modules: weights, device and maps can be chosen, are saved, and can be removed."""

from qt_labels import shown


def choose(kit, combo_box, value) -> None:
    """Choose an entry as the user does."""
    index = combo_box.findText(value)
    assert index >= 0, f"{value} is not offered"
    combo_box.setCurrentIndex(index)
    combo_box.activated.emit(index)
    kit.process_events()


# -- weights


def test_choosing_a_file_of_weights(kit, open_panel, settings, tmp_path):
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(b"0" * 2_000_000)
    kit.dialogs.answer("open_file", str(mine))
    panel = open_panel(True)
    kit.click(panel.ui.chooseWeightsButton)
    assert settings.choice().weights == str(mine)
    assert panel.ui.weightsSelector.currentText == "mine.safetensors"
    assert shown(panel.ui.weightsStatus).startswith("Found: mine.safetensors (2 MB)")


def test_the_terms_of_the_weights_are_shown(kit, open_panel, tmp_path):
    panel = open_panel(True)
    assert "for any purpose" in shown(panel.ui.weightsStatus)
    choose(kit, panel.ui.weightsSelector, "ct-research")
    assert "for research only" in shown(panel.ui.weightsStatus)
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(b"0")
    mine.with_suffix(".json").write_text('{"terms": "Any use is permitted."}')
    kit.dialogs.answer("open_file", str(mine))
    kit.click(panel.ui.chooseWeightsButton)
    assert shown(panel.ui.weightsStatus).endswith("Any use is permitted.")


def test_missing_weights_open_the_section_and_are_named(open_panel, settings, tmp_path):
    gone = tmp_path / "gone.safetensors"
    settings.setValue("weights", str(gone))
    panel = open_panel()
    assert not panel.widget.collapsed
    assert shown(panel.ui.weightsStatus) == f"Missing: {gone}. Choose other weights."
    settings.setValue("weights", "auto")
    assert panel.widget.collapsed


# -- maps on disk


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
