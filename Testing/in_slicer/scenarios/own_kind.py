"""Training on small specimens begins and is cancelled. With weights of this kind, clicks in one specimen are answered
in another, in 0.01 mm, and a scan of another kind is refused.
"""

import numpy as np
import slicer
from driver.landmarks import answer, answer_place, cell, distance, new_list, place_point
from driver.scans import add_specimen, specimen, write_weights

COUNT = 8
MOST_MM = 0.3  # error of an answer; a voxel is 0.2 mm
LOBES = (0, 1, 4)


def run(user):
    scans = user.folder / "scans"
    scans.mkdir()
    for seed in range(COUNT):
        specimen(seed).volume.write(scans / f"specimen{seed}.nii.gz")
    panel = user.open("AnatomicalEmbeddingTraining")
    ui = panel.ui
    user.choose(ui.kindCombo, "Anything else")
    assert not ui.trainingSection.visible, "settings of CTs are not offered"
    with user.answering(scans):
        user.click(ui.addFolderButton)
    ui.runFolderEdit.currentPath = str(user.folder / "run")
    user.picture("chosen")
    user.click(ui.startButton)
    user.wait(lambda: "%" in ui.statusLabel.text, 120, "the run tells its progress")
    user.picture("running")
    user.click(ui.stopButton)
    user.wait(lambda: not panel.logic.process.running, 60, "Cancel ends the run")
    assert not ui.weightsEdit.text, "a cancelled run has no weights"
    write_weights(user.folder / "run" / "weights.safetensors")  # a whole run takes minutes
    ui.runFolderEdit.currentPath = str(user.folder)
    ui.runFolderEdit.currentPath = str(user.folder / "run")
    user.wait(lambda: bool(ui.weightsEdit.text), 10, "the weights are there")
    user.click(ui.useButton)

    template, target = add_specimen(100, "Specimen A"), add_specimen(101, "Specimen B")
    truth = [specimen(seed).landmarks for seed in (100, 101)]
    panel = user.open("AnatomicalLandmarks")
    user.prepare(panel)
    user.click(panel.ui.gridButton)
    for node in (template, target):
        display = node.GetDisplayNode()
        low, high = node.GetImageData().GetScalarRange()
        assert 0.3 * (high - low) < display.GetWindow() < high - low, "the window suits the values"
        views = user.views.nodes(node)
        user.wait(
            lambda views=views: not any(view.GetOrientationMarkerType() for view in views),
            5,
            "no human is drawn beside a specimen",
        )
    assert not panel.viewButtons.widget.enabled, "no windows in HU are offered"
    new_list(panel)
    for row, lobe in enumerate(LOBES):
        place_point(user, panel, template, truth[0][lobe])
        user.wait(lambda row=row: answer(panel, target, row) is not None, 20, "an answer")
    errors = [
        distance(answer_place(panel, target, row), truth[1][lobe]) for row, lobe in enumerate(LOBES)
    ]
    user.figures["error in the other specimen, mm"] = f"{np.mean(errors):.2f}"
    assert max(errors) < MOST_MM, errors
    for row in range(len(LOBES)):
        text = cell(panel, row, 1).split()
        assert text[2].startswith("mm"), text
        assert len(text[1].partition(".")[2]) == 2, text
        assert "10 mm" not in answer(panel, target, row).text, answer(panel, target, row).text
    user.picture("answers")
    user.click(panel.ui.exportButton)
    tables = slicer.util.getNodesByClass("vtkMRMLTableNode")
    table = next(node for node in tables if node.GetName().endswith("matches"))
    assert table.GetNumberOfRows() == len(LOBES), "one row for each answer"

    width = user.views.nodes(target)[0].GetFieldOfView()[0]
    assert width < 60, f"the view shows {width:.0f} mm of an object of 6 mm"

    rng = np.random.default_rng(0)
    voxels = rng.normal(size=(40, 40, 40)).astype(np.float32)
    noise = slicer.util.addVolumeFromArray(voxels, np.diag([0.3, 0.3, 0.3, 1.0]), name="Noise")
    noise.CreateDefaultDisplayNodes()
    user.wait(lambda: panel.preparation.button.enabled, 10, "the new scan can be prepared")
    user.click(panel.preparation.button)
    store = panel.session.store
    user.wait(lambda: store.state(noise).status == "failed", 120, "another kind is refused")
    assert "of these weights" in store.state(noise).sentence, store.state(noise).sentence
    user.picture("refused")
