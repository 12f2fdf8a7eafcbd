"""Shared by the tests of the training panel: a made-up process, the opened panel, and the files of a run."""

from pathlib import Path

from AnatomicalEmbeddingLib.shared.Signal import Signal
from AnatomicalEmbeddingLib.training.TrainingProcess import TrainingProgress
from AnatomicalEmbeddingLib.training.TrainingRun import rememberRun
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings

MODULE = "AnatomicalEmbeddingTraining"


class MadeUpProcess:
    """Does what a test says, with the signals and properties of TrainingProcess."""

    def __init__(self, *_arguments):
        self.logged = Signal()
        self.progressed = Signal()
        self.advanced = Signal()
        self.finished = Signal()
        self.running = self.stopping = self.closed = self.killed = False
        self.starts = []

    def start(self, settings, finishNow=False):  # noqa: N803 - as the original
        rememberRun(settings)
        self.starts.append((settings, finishNow))
        self.running = True
        self.stopping = False

    def stop(self):
        self.stopping = True

    def kill(self):
        self.killed = True

    def poll(self):
        pass

    def close(self):
        self.closed = True

    def end(self, outcome, sentence=""):
        self.running = self.stopping = False
        self.finished.emit(outcome, sentence)


class Panel:
    """The opened module, its parts by short names, and what a run would leave on disk."""

    def __init__(self, kit, module, widget):
        self.kit = kit
        self.module = module
        self.widget = widget
        self.ui = widget.ui
        self.process = widget.logic.process
        self.panel = widget.panel

    @property
    def status(self):
        return self.ui.statusLabel.text

    def tick(self):
        self.panel.poll()
        self.panel.update()

    def progress(self, step, steps=1000, loss=0.5):
        self.process.progressed.emit(
            TrainingProgress(step, steps, loss, 2.5, 60 * 25.0, step / steps)
        )
        self.tick()

    def start(self):
        self.kit.click(self.ui.startButton)


def load_training(kit, monkeypatch, tmp_path):
    """The module with a made-up process, all packages there, and a home folder of its own."""
    monkeypatch.setattr(Path, "home", classmethod(lambda _cls: tmp_path / "home"))
    module = kit.load_module(MODULE)
    monkeypatch.setattr(module.python, "TrainingProcess", MadeUpProcess)
    monkeypatch.setattr("AnatomicalEmbeddingLib.shared.maps.Engine.Engine.missingPackages", list)
    return module


def open_panel(kit, module) -> Panel:
    """The panel of a new scene."""
    return Panel(kit, module, kit.open(module))


def choose_all(panel, tmp_path) -> None:
    """Choose all that a run needs."""
    (tmp_path / "scans").mkdir()
    panel.panel.form.show(
        TrainingSettings(scanFolders=(str(tmp_path / "scans"),), runFolder=str(tmp_path / "run"))
    )


def leave_run(folder, settings, step, minutes=1.0, weights=False):
    """Files of a run that has come to a step."""
    rememberRun(settings)
    rows = "".join(f"{n},{1 / n:.5f},1e-3,{minutes:.2f}\n" for n in range(1, step + 1))
    (folder / "loss.csv").write_text("step,loss,learning_rate,minutes\n" + rows)
    (folder / "validation.csv").write_text(f"step,phantom,centre\n{step},9.50,7.25\n")
    (folder / "checkpoint.pt").write_text("")
    if weights:
        (folder / "weights.safetensors").write_text("")
