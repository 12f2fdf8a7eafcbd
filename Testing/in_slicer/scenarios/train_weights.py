"""Training is started on a folder of scans, stopped and resumed; when Slicer ends, no process is left."""

import os
import subprocess
import sys

from driver.scans import patient
from driver.waiting import pause

ENDS_AT_WORK = True
STEPS = 400


def run(user):
    scans = user.folder / "scans"
    scans.mkdir()
    for number in range(2):
        patient(number).volume.write(scans / f"patient{number}.nii.gz")
    panel = user.open("AnatomicalEmbeddingTraining")
    ui = panel.ui
    with user.answering(scans):
        user.click(ui.addFolderButton)
    user.wait(lambda: ui.scanFoldersList.count == 1, 5)
    ui.runFolderEdit.currentPath = str(user.folder / "run")
    ui.stepsSpin.value = STEPS
    ui.optionsEdit.text = "--phantoms 1 --jobs 1 --workers 0"
    user.choose(ui.deviceCombo, "cpu")
    user.click(ui.startButton)
    user.wait(lambda: panel.logic.process.running, 10)
    user.wait(lambda: ui.statusLabel.text.startswith("Step"), 300, "the first step is done")
    user.picture("running")
    user.click(ui.stopButton)
    user.wait(lambda: not panel.logic.process.running, 120, "Stop ends the run")
    assert ui.startButton.text == "Resume"
    user.click(ui.startButton)
    user.wait(lambda: ui.statusLabel.text.startswith("Step"), 300, "the run goes on")
    user.picture("resumed")
    pause(1.0)  # Slicer ends now, in the middle of the run


def run_after_restart(user):
    pause(5.0)
    assert not _processes_of(user.folder / "run"), "the run goes on without Slicer"
    panel = user.open("AnatomicalEmbeddingTraining")
    panel.ui.runFolderEdit.currentPath = str(user.folder / "run")
    user.wait(
        lambda: panel.ui.startButton.text == "Resume", 10, "the run that was cut off can be resumed"
    )
    user.wait(lambda: panel.ui.finishButton.enabled, 10)
    user.click(panel.ui.finishButton)
    user.wait(lambda: bool(panel.ui.weightsEdit.text), 300, "its weights are written")
    user.picture("finished")
    user.click(panel.ui.useButton)


def _processes_of(folder):
    """Command lines of processes that name a folder, other than this one's."""
    if sys.platform == "win32":
        words = [
            "powershell",
            "-Command",
            "Get-CimInstance Win32_Process | ForEach-Object {'' + $_.ProcessId + ' ' + $_.CommandLine}",
        ]
    else:
        words = ["ps", "-axww", "-o", "pid=,command="]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if str(folder) in line and line.split()[0] != str(os.getpid())]
