"""Test the training panel, as a user sees and uses it; most tests have a made-up process."""

from made_up_training import leave_run

from AnatomicalEmbeddingLib.shared.processes.EngineProcess import FAILED, FINISHED, STOPPED
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings


def test_a_new_panel_fine_tunes_and_says_what_is_missing(panel, tmp_path):
    settings = panel.panel.form.settings()
    assert settings == TrainingSettings(
        runFolder=str(tmp_path / "home" / "AnatomicalEmbedding" / "training-1")
    )
    assert not panel.ui.startButton.enabled
    assert "Add a folder" in panel.status
    assert not panel.ui.stopButton.enabled
    assert not panel.ui.finishButton.enabled
    assert not panel.ui.useButton.enabled
    assert panel.ui.installButton.isHidden()
    assert panel.ui.logGroup.collapsed


def test_stopped_run_can_be_resumed_or_finished(ready, tmp_path):
    settings = ready.panel.form.settings()
    ready.start()
    leave_run(tmp_path / "run", settings, 120)
    ready.process.stop()
    ready.process.end(STOPPED)
    assert ready.ui.startButton.text == "Resume"
    assert "step 120 of 1000" in ready.status
    assert ready.ui.progressBar.value == 120
    ready.start()
    assert ready.process.starts[-1] == (settings, False)
    ready.process.end(STOPPED)
    ready.kit.click(ready.ui.finishButton)
    assert ready.process.starts[-1] == (settings, True)


def test_failure_is_a_sentence_with_the_log_open(ready):
    ready.start()
    ready.process.logged.emit("Traceback")
    ready.process.end(FAILED, "scans: no scan <can> be trained on.")
    assert "scans: no scan &lt;can&gt; be trained on." in ready.status
    assert not ready.ui.logGroup.collapsed
    assert ready.ui.startButton.enabled
    ready.ui.stepsSpin.value = 7
    assert "Ready" in ready.status  # a new try


def test_finished_run_hands_its_weights_to_the_other_modules(ready, tmp_path):
    from AnatomicalEmbeddingLib.shared.panels import ModuleSettings

    settings = ready.panel.form.settings()
    ready.start()
    leave_run(tmp_path / "run", settings, 1000, weights=True)
    weights = tmp_path / "run" / "weights.safetensors"
    ready.process.end(FINISHED)
    assert "Finished after 1000 steps" in ready.status
    assert ready.ui.weightsEdit.text == str(weights)
    assert "synthetic patients 9.5 mm" in ready.ui.validationResultLabel.text
    assert not ready.ui.startButton.enabled
    ready.kit.click(ready.ui.useButton)
    assert ModuleSettings.choice().weights == str(weights)
    assert "weights of this run" in ready.status
    ready.kit.click(ready.ui.openButton)
    assert ready.kit.dialogs.of("url")[0].text == f"file://{tmp_path / 'run'}"


def test_scans_of_any_kind_need_only_a_folder(ready, tmp_path):
    ui = ready.ui
    ui.kindCombo.currentIndex = 1
    assert ui.trainingSection.isHidden()
    ready.start()
    assert ready.process.starts[-1][0].arguments()[-2:] == ["--kind", "any"]
    ready.process.advanced.emit(0.25, "aligning")
    ready.tick()
    assert "25 %: aligning" in ready.status
    ready.process.end(STOPPED)
    assert ui.startButton.text == "Start"  # a cancelled run begins again
    ready.start()
    (tmp_path / "run" / "weights.safetensors").write_text("")
    ready.process.end(FINISHED)
    assert ui.useButton.enabled
