"""Test the trainer as a child process: its output becomes signals, and it ends completely when stopped."""

import subprocess
import sys
from pathlib import Path

import pytest
from polling import poll_until
from training_runs import Watched, fake_engine, group_is_empty, settings

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbeddingLib.shared.processes.EngineProcess import FINISHED, STOPPED, stopReason
from AnatomicalEmbeddingLib.training.TrainingProcess import TrainingProcess
from AnatomicalEmbeddingLib.training.TrainingRun import inspectRun

looks_at_processes = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks at the processes of a group in /proc"
)
FINISH = """
say("prepared scan one")
for n in (1, 2, 3):
    step(n, 3, 1 / n)
print(json.dumps({"weights": str(folder / "weights.safetensors"), "sha256": "0", "steps": 3, "minutes": 0.1}))
return 0
"""
FOREVER = """
obey_signals()
n = 0
while not asked:
    n += 1
    step(n, 1000)
    time.sleep(0.02)
say("anatemb: run: stopped at step; run the same command to continue.")
return 2
"""
DEAF = """
import multiprocessing
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL)
step(1)
time.sleep(600)
"""


@pytest.fixture
def watch(tmp_path):
    """Start a run of a made-up trainer; what is still running at the end of the test is killed."""
    started = []

    def begin(body: str, finishNow: bool = False, **options) -> Watched:  # noqa: N803 - as the process calls it
        watched = Watched(engineParent=fake_engine(tmp_path / "engine", body), **options)
        watched.process.start(settings(tmp_path, minutes=60), finishNow)
        started.append(watched)
        return watched

    yield begin
    for watched in started:
        if watched.process.running:
            watched.process.kill()
            watched.result()


def test_lines_become_signals_and_the_end_has_weights(watch, tmp_path):
    run = watch(FINISH)
    assert run.result() == (FINISHED, "")
    assert [p.step for p in run.progress] == [1, 2, 3]
    assert [p.loss for p in run.progress] == [1, 0.5, 1 / 3]
    assert run.lines == ["prepared scan one"]
    assert not run.process.running
    assert inspectRun(tmp_path / "run").settings == settings(tmp_path, minutes=60)


def test_stop_lets_the_trainer_save(watch):
    run = watch(FOREVER)
    run.until(lambda: run.progress)
    run.process.stop()
    assert run.process.stopping
    assert run.result() == (STOPPED, "")
    assert run.lines[-1].endswith("run the same command to continue.")


@looks_at_processes
def test_a_deaf_trainer_is_killed_after_the_grace_with_all_it_started(watch):
    run = watch(DEAF, graceSeconds=0.2)
    run.until(lambda: run.progress)
    group = run.group()
    run.process.stop()
    assert run.result() == (STOPPED, "")
    assert group_is_empty(group)


@looks_at_processes
def test_the_trainer_saves_and_ends_when_the_application_dies(tmp_path):
    """Another process starts the run and is killed: nobody is left to ask or to read."""
    body = FOREVER.replace("return 2", '(folder / "saved").write_text(str(n))\nreturn 2')
    engine = fake_engine(tmp_path / "engine", body)
    run = settings(tmp_path)
    code = f"""
import sys, time
sys.path[:0] = {[p for p in sys.path if p]!r}
from AnatomicalEmbeddingLib.training.TrainingProcess import TrainingProcess
from AnatomicalEmbeddingLib.training.TrainingSettings import TrainingSettings
process = TrainingProcess([sys.executable])
process.engineParent = {str(engine)!r}
seen = []
process.progressed.connect(seen.append)
process.start(TrainingSettings.fromDict({run.toDict()!r}))
while len(seen) < 3:
    process.poll()
    time.sleep(0.01)
print(process._child.pid, flush=True)
time.sleep(600)
"""
    application = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    group = int(application.stdout.readline())
    application.kill()
    application.communicate()
    poll_until(lambda: group_is_empty(group))
    assert int((tmp_path / "run" / "saved").read_text()) >= 3


@pytest.mark.parametrize("command", [[], ["/nowhere/PythonSlicer"]])
def test_a_python_that_is_not_there_is_named(tmp_path, command):
    process = TrainingProcess(command)
    with pytest.raises(AnatomicalEmbeddingError, match="PythonSlicer"):
        process.start(settings(tmp_path))
    assert not process.running


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            ["prepared a", "anatemb: scans: no scan can be trained on; see the lines above."],
            "scans: no scan can be",
        ),
        (
            ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'torch'"],
            "PyTorch",
        ),
        (
            ["torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate"],
            "choose the device cpu",
        ),
        (["OSError: [Errno 28] No space left on device"], "make room"),
        (["anatemb: /run/loss.csv: no space left on device; check the path."], "make room"),
        (
            ["Traceback (most recent call last):", "ValueError: odd", "  cleaning up"],
            "(ValueError: odd)",
        ),
        (["something odd"], "(something odd)"),
        (
            ["step 3", "error: [/slicer/bin/python-real] exit abnormally - Report the problem."],
            "memory",
        ),
        (["anatemb: 40 % Liver: outlining", "RuntimeError: CUDA out of memory."], "device cpu"),
        (["anatemb: no scan.", "anatemb: 40 % a: b", "anatemb: skipped: a: c"], "no scan"),
        ([], "exit code 1"),
    ],
)
def test_reasons_of_failures(lines, says):
    assert says in stopReason(1, lines)
