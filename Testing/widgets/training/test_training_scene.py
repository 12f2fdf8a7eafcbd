"""Test the training module: settings that are kept on this computer, plots, and closing the scene."""

from dataclasses import fields, replace

from made_up_training import choose_all, open_panel

from AnatomicalEmbeddingLib.training.TrainingProcess import STOPPED
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings
from slicer_kit.scene import nodes_of_class


def test_every_control_is_kept_for_the_next_start_of_the_program(ready, module, tmp_path):
    ui = ready.ui
    ui.validationFolderEdit.currentPath = str(tmp_path / "labelled")
    (tmp_path / "labelled").mkdir()
    ui.recipeCombo.currentIndex = 1
    ui.startCombo.currentIndex = 1
    ui.minutesSpin.value = 7
    ui.stepsSpin.value = 8
    ui.validateSpin.value = 9
    ui.threadsSpin.value = 2
    ui.deviceCombo.currentIndex = 1
    ui.optionsEdit.text = "--seed 3"
    chosen = ready.panel.form.settings()
    assert all(
        getattr(chosen, f.name) != f.default for f in fields(TrainingSettings) if f.name != "kind"
    )
    ready.start()
    (tmp_path / "training-1").mkdir()
    ready.process.end(STOPPED)
    ready.kit.close(ready.widget)
    again = open_panel(ready.kit, module)
    assert again.panel.form.settings() == replace(chosen, runFolder=str(tmp_path / "training-2"))


def test_a_run_goes_on_when_the_scene_closes(ready):
    settings = ready.panel.form.settings()
    ready.start()
    ready.progress(5)
    ready.kit.close_scene()
    assert ready.process.running
    assert not ready.process.stopping
    ready.progress(6)
    assert "Step 6" in ready.status
    assert ready.panel.form.settings() == settings


def test_plots_follow_the_run_and_come_back_after_the_scene_was_closed(
    panel, kit, monkeypatch, tmp_path
):
    shown = []
    monkeypatch.setattr("AnatomicalEmbeddingLib.training.TrainingPanel._showInLayout", shown.append)
    choose_all(panel, tmp_path)
    assert not panel.ui.plotLossButton.enabled
    panel.start()
    panel.progress(1)
    assert nodes_of_class(kit.scene, "vtkMRMLPlotChartNode") == []  # nobody has asked for it
    kit.click(panel.ui.plotLossButton)
    (tmp_path / "run" / "validation.csv").write_text("step,phantom\n1,9.00\n")
    panel.progress(2)
