"""The training panel, as a user sees and works it; most tests with a made-up process in place of a run."""

import numpy as np
from made_up_training import leave_run

from AnatomicalEmbeddingLib.shared.processes.EngineProcess import FAILED, FINISHED, STOPPED
from AnatomicalEmbeddingLib.training.TrainingLog import Validations
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings


def test_a_new_panel_fine_tunes_and_says_what_is_missing(panel, tmp_path):
    settings = panel.panel.form.settings()
    assert settings == TrainingSettings(runFolder=str(tmp_path / "home" / "AnatomicalEmbedding" / "training-1"))
    assert not panel.ui.startButton.enabled
    assert "Add a folder" in panel.ui.startButton.toolTip
    assert "Add a folder" in panel.status
    assert not panel.ui.stopButton.enabled
    assert not panel.ui.finishButton.enabled
    assert not panel.ui.useButton.enabled
    assert panel.ui.installButton.isHidden()
    assert panel.ui.logGroup.collapsed


def test_each_recipe_has_a_sentence(panel):
    combo, seen = panel.ui.recipeCombo, set()
    for n in range(combo.count):
        combo.currentIndex = n
        seen.add(panel.ui.recipeLabel.text)
    assert [combo.itemText(n) for n in range(combo.count)] == ["hybrid", "ape"]
    assert len(seen) == 2


def test_folders_are_added_once_and_removed(panel, tmp_path):
    ui = panel.ui
    for name in ("a", "b", "a"):
        (tmp_path / name).mkdir(exist_ok=True)
        panel.kit.dialogs.answer("directory", str(tmp_path / name))
        panel.kit.click(ui.addFolderButton)
    panel.kit.dialogs.answer("directory", "")
    panel.kit.click(ui.addFolderButton)
    assert panel.panel.form.settings().scanFolders == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert ui.startButton.enabled
    assert not ui.removeFolderButton.enabled
    ui.scanFoldersList.item(0).setSelected(True)
    panel.kit.click(ui.removeFolderButton)
    assert panel.panel.form.settings().scanFolders == (str(tmp_path / "b"),)
    assert not ui.removeFolderButton.enabled


def test_what_cannot_be_read_disables_start_with_the_reason(ready):
    ready.ui.optionsEdit.text = "--exclude 'a"
    assert not ready.ui.startButton.enabled
    assert "quotation mark is not closed" in ready.status


def test_start_hands_over_the_settings_and_locks_them(ready):
    ready.ui.minutesSpin.value = 5
    settings = ready.panel.form.settings()
    ready.start()
    assert ready.process.starts == [(settings, False)]
    for name in ("startButton", "addFolderButton", "recipeCombo", "stepsSpin", "runFolderEdit", "optionsEdit"):
        assert not getattr(ready.ui, name).enabled, name
    assert ready.ui.stopButton.enabled
    assert ready.ui.progressBar.maximum == 0  # moves to and fro while scans are prepared


def test_preparation_and_steps_are_reported(ready):
    ready.start()
    ready.process.logged.emit("prepared <chest 4>")
    ready.tick()
    assert "prepared &lt;chest 4&gt;" in ready.status
    assert not ready.ui.finishButton.enabled  # no step yet whose weights could be written
    assert not ready.ui.plotLossButton.enabled
    ready.progress(250, loss=0.123)
    ready.process.logged.emit("a remark")
    ready.tick()
    for words in ("Step 250 of 1000", "0.123", "2.5 s a step", "25 min left"):
        assert words in ready.status
    assert (ready.ui.progressBar.value, ready.ui.progressBar.maximum) == (250, 1000)
    assert ready.ui.logEdit.toPlainText() == "prepared <chest 4>\na remark"
    assert ready.ui.plotLossButton.enabled


def test_validation_can_be_plotted_and_its_best_row_is_in_words(ready):
    ready.start()
    ready.progress(200)
    assert not ready.ui.plotValidationButton.enabled
    errors = {"phantom": np.array([8.0, 9.0]), "centre": np.array([7.0, np.nan])}
    ready.process.validated.emit(Validations(np.array([100, 200]), errors))
    ready.tick()
    assert ready.ui.plotValidationButton.enabled
    assert "best step, 100: synthetic patients 8.0 mm, organ centres 7.0 mm" in ready.ui.validationResultLabel.text


def test_stop_and_end_at_once(ready):
    ready.start()
    ready.progress(3)
    ready.kit.click(ready.ui.stopButton)
    assert ready.process.stopping
    assert "Stopping" in ready.status
    assert ready.ui.stopButton.text == "End at once"
    ready.kit.click(ready.ui.stopButton)
    assert ready.process.killed


def test_stopped_run_can_be_resumed_or_finished(ready, tmp_path):
    settings = ready.panel.form.settings()
    ready.start()
    leave_run(tmp_path / "run", settings, 120)
    ready.process.stop()
    ready.process.end(STOPPED, steps=120)
    assert ready.ui.startButton.text == "Resume"
    assert "step 120 of 1000" in ready.status
    assert ready.ui.progressBar.value == 120
    ready.start()
    assert ready.process.starts[-1] == (settings, False)
    ready.process.end(STOPPED, steps=120)
    ready.kit.click(ready.ui.finishButton)
    assert ready.process.starts[-1] == (settings, True)


def test_finish_now_stops_a_run_and_starts_it_for_its_weights(ready, tmp_path):
    settings = ready.panel.form.settings()
    ready.start()
    ready.progress(120)
    ready.kit.click(ready.ui.finishButton)
    assert ready.process.stopping
    leave_run(tmp_path / "run", settings, 120)
    ready.process.end(STOPPED, steps=120)
    assert ready.process.starts == [(settings, False), (settings, True)]
    assert ready.process.running


def test_stop_after_finish_now_only_stops(ready):
    ready.start()
    ready.progress(120)
    ready.kit.click(ready.ui.finishButton)
    ready.kit.click(ready.ui.stopButton)
    ready.process.end(STOPPED, steps=120)
    assert len(ready.process.starts) == 1


def test_failure_is_a_sentence_with_the_log_open(ready):
    ready.start()
    ready.process.logged.emit("Traceback")
    ready.process.end(FAILED, sentence="scans: no scan <can> be trained on.")
    assert "scans: no scan &lt;can&gt; be trained on." in ready.status
    assert not ready.ui.logGroup.collapsed
    assert ready.ui.startButton.enabled
    ready.ui.stepsSpin.value = 7
    assert "Ready" in ready.status  # a new try


def test_a_run_that_cannot_be_started_says_why(ready, monkeypatch):
    from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

    def refuse(*_arguments):
        raise AnatomicalEmbeddingError("PythonSlicer was not found.")

    monkeypatch.setattr(ready.process, "start", refuse)
    ready.start()
    assert "PythonSlicer was not found." in ready.status
    assert ready.ui.startButton.enabled
    assert ready.ui.progressBar.maximum > 0


def test_finished_run_hands_its_weights_to_the_other_modules(ready, tmp_path):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    settings = ready.panel.form.settings()
    ready.start()
    leave_run(tmp_path / "run", settings, 1000, weights=True)
    weights = tmp_path / "run" / "weights.safetensors"
    ready.process.end(FINISHED, weights=weights, steps=1000)
    assert "Finished after 1000 steps" in ready.status
    assert ready.ui.weightsEdit.text == str(weights)
    assert "synthetic patients 9.5 mm" in ready.ui.validationResultLabel.text
    assert not ready.ui.startButton.enabled
    assert "choose another folder" in ready.ui.startButton.toolTip
    ready.kit.click(ready.ui.useButton)
    assert ModuleSettings.choice().weights == str(weights)
    assert "weights of this run" in ready.status
    ready.kit.click(ready.ui.openButton)
    assert ready.kit.dialogs.of("url")[0].text == f"file://{tmp_path / 'run'}"


def test_run_of_an_earlier_session_is_picked_up_by_choosing_its_folder(ready, tmp_path):
    begun = TrainingSettings(
        scanFolders=ready.panel.form.settings().scanFolders, recipe="ape", steps=333, runFolder=str(tmp_path / "old")
    )
    (tmp_path / "old").mkdir()
    leave_run(tmp_path / "old", begun, 42)
    ready.ui.runFolderEdit.currentPath = str(tmp_path / "old")
    assert ready.panel.form.settings() == begun
    assert "step 42 of 333" in ready.status
    assert ready.ui.plotLossButton.enabled
    ready.ui.stepsSpin.value = 334
    assert not ready.ui.startButton.enabled
    assert "another number of steps" in ready.status
    ready.ui.stepsSpin.value = 333
    ready.ui.minutesSpin.value = 90
    assert ready.ui.startButton.enabled


def test_missing_packages_are_named_and_installed(ready, monkeypatch):
    absent = ["torch"]
    monkeypatch.setattr(ready.panel, "missing", lambda: list(absent))
    ready.panel.refresh()
    assert not ready.ui.startButton.enabled
    assert "torch" in ready.status
    monkeypatch.setattr(ready.panel, "install", absent.clear)
    ready.kit.click(ready.ui.installButton)
    assert ready.ui.installButton.isHidden()
    assert ready.ui.startButton.enabled
