"""Test SceneJob: generators on the main thread that wait for background work, and how they end."""

import threading

import numpy as np
import pytest
import slicer.util
from polling import poll_until

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbeddingLib.shared.SceneJob import SceneJob


class Bench:
    """A job without maps, and the order of events."""

    def __init__(self, scene) -> None:
        self.job = SceneJob(scene, remedy="try it again")
        self.said = []
        self.job.reported.connect(self.said.append)
        self.go = threading.Event()

    def wait(self, *_) -> str:
        assert self.go.wait(20)
        return threading.current_thread().name

    def finish(self) -> None:
        poll_until(lambda: not self.job.busy, self.job.poll)

    def steps(self, name: str, *volumes):
        try:
            self.said.append(f"{name} begins")
            yield from self.job.inBackground(self.wait, volumes, title="waiting")
            self.said.append(f"{name} continues on {threading.current_thread().name}")
        finally:
            self.said.append(f"{name} ends")


@pytest.fixture
def bench(scene):
    made = Bench(scene)
    yield made
    made.go.set()
    made.job.close()


def test_steps_run_on_the_main_thread_and_work_in_another(bench):
    threads = []

    def steps():
        threads.append((yield from bench.job.inBackground(bench.wait)))
        threads.append(threading.current_thread().name)

    bench.go.set()
    bench.job.start(steps())
    bench.finish()
    assert threads[0] != threads[1] == threading.main_thread().name


def test_cancelling_and_closing_the_scene_run_what_must_be_put_in_order(bench, scene):
    for end in (bench.job.cancel, lambda: scene.Clear(0)):
        bench.said.clear()
        bench.job.start(bench.steps("A"))
        assert bench.job.progress[1] == "waiting"
        end()
        assert not bench.job.busy
        assert bench.said == ["A begins", "A ends"]


def test_steps_of_one_name_replace_each_other_and_those_of_another_go_on(bench):
    for name in ("A", "B"):
        bench.job.start(bench.steps(name), name)
    bench.job.start(bench.steps("A2"), "A")
    bench.go.set()
    bench.finish()
    assert bench.said[:4] == ["A begins", "B begins", "A ends", "A2 begins"]
    assert {"B continues on MainThread", "A2 continues on MainThread"} <= set(bench.said)


def test_a_failure_in_the_background_reaches_the_steps_and_one_they_do_not_catch_is_reported(bench):
    def fail(*_):
        raise AnatomicalEmbeddingError("scan.nii: is damaged; get it again.")

    def steps():
        with pytest.raises(AnatomicalEmbeddingError, match="is damaged"):
            yield from bench.job.inBackground(fail)
        bench.said.append("goes on")
        yield from bench.job.inBackground(fail)
        bench.said.append("is not reached")

    bench.job.start(steps())
    bench.finish()
    assert bench.said == ["goes on", "scan.nii: is damaged; get it again."]


def test_a_volume_that_leaves_the_scene_ends_the_work_on_it(bench, scene):
    volume = slicer.util.addVolumeFromArray(np.zeros((3, 3, 3)), name="CT")
    bench.job.start(bench.steps("A", volume))
    scene.RemoveNode(volume)
    bench.finish()
    assert bench.said == ["A begins", "A ends", "CT: was removed from the scene; try it again."]


def test_a_step_that_processes_events_is_not_entered_again(bench):
    """Showing a scan lets Qt deliver events, among them those of the timer that polls."""

    def steps():
        bench.job.poll()
        bench.said.append("goes on")
        yield

    bench.job.start(steps())
    bench.finish()
    assert bench.said == ["goes on"]
