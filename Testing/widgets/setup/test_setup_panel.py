"""The set-up section of the modules: weights, device and maps, chosen, remembered and removed."""

from qt_labels import shown


def choose(kit, combo_box, value) -> None:
    """Choose an entry as the user does."""
    index = combo_box.findData(value)
    assert index >= 0, f"{value} is not offered"
    combo_box.setCurrentIndex(index)
    combo_box.activated.emit(index)
    kit.process_events()


# -- weights


def test_found_weights_are_reported_with_their_licence(open_panel):
    panel = open_panel()
    assert shown(panel.ui.weightsStatus).startswith("Found: hybrid-ct-v3.safetensors")
    assert "hybrid-ct-v3.md" in panel.ui.weightsStatus.text


def test_choosing_a_file_of_weights(kit, open_panel, settings, tmp_path):
    mine = tmp_path / "mine.safetensors"
    mine.write_bytes(b"0" * 2_000_000)
    kit.dialogs.answer("open_file", str(mine))
    panel = open_panel(True)
    kit.click(panel.ui.chooseWeightsButton)
    assert settings.choice().weights == str(mine)
    assert panel.ui.weightsSelector.currentText == "mine.safetensors"
    assert shown(panel.ui.weightsStatus).startswith("Found: mine.safetensors (2 MB)")


def test_missing_weights_open_the_section_and_are_named(open_panel, settings, tmp_path):
    gone = tmp_path / "gone.safetensors"
    settings.setWeights(str(gone))
    panel = open_panel()
    assert not panel.widget.collapsed
    assert shown(panel.ui.weightsStatus) == f"Missing: {gone}. Choose other weights."
    settings.setWeights("auto")
    assert panel.widget.collapsed


# -- device


# -- maps on disk


def make_maps(folder, *sizes):
    folder.mkdir(parents=True, exist_ok=True)
    for number, size in enumerate(sizes):
        (folder / f"{number}.map.safetensors").write_bytes(b"0" * size)


def test_clear_removes_maps_and_nothing_else(kit, open_panel, tmp_path):
    make_maps(tmp_path / "maps", 3_000_000, 4_000_000)
    (tmp_path / "maps" / "thesis.docx").touch()
    panel = open_panel(True)
    kit.click(panel.ui.clearCacheButton)
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["thesis.docx"]
    assert panel.ui.cacheMessage.text == "Removed 2 maps, freed 7 MB."
    assert panel.ui.cacheStatus.text == "0 maps, 0 MB"
    assert not panel.ui.clearCacheButton.enabled


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


# -- several panels


def test_panels_of_several_modules_follow_each_other(kit, open_panel):
    first, second = open_panel(), open_panel()
    choose(kit, first.ui.weightsSelector, "ape-ct-v3")
    choose(kit, first.ui.deviceSelector, "cpu")
    assert second.ui.weightsSelector.currentText == "ape-ct-v3"
    assert second.ui.deviceSelector.currentText == "Processor (CPU)"
