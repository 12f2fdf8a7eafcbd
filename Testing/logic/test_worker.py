"""Test background work: progress, results, cancelling, failures, and the end of the thread."""

import threading
import time

import pytest

from AnatomicalEmbedding.errors import CancelledError, VolumeError
from AnatomicalEmbeddingLib.shared.maps.Worker import Worker, waitForEnded


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.end()
    assert waitForEnded()


def events_of(worker: Worker, seconds: float = 5.0) -> list:
    found = []
    end = time.monotonic() + seconds
    while worker.busy and time.monotonic() < end:
        found += worker.poll()
        time.sleep(0.002)
    return found + worker.poll()


def test_a_cancelled_job_is_reported_and_its_result_never_arrives(worker):
    started = threading.Event()
    told = threading.Event()

    def work(progress, cancelled):
        started.set()
        while not cancelled():
            time.sleep(0.001)
        told.set()
        return "stale"

    worker.submit("a", work)
    assert started.wait(5)
    assert worker.cancel("a") == ["a"]
    assert told.wait(5)
    time.sleep(0.02)
    assert worker.poll() == []
    assert not worker.busy


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (VolumeError("CT-1: is empty; load it again."), "failed", "CT-1: is empty; load it again."),
        (MemoryError(), "failed", "memory"),
        (ZeroDivisionError("by zero"), "failed", "ZeroDivisionError: by zero"),
        (CancelledError("cancelled"), "cancelled", ""),
    ],
)
def test_a_failure_becomes_a_sentence_and_the_next_job_runs(worker, error, kind, said):
    def fail(progress, cancelled):
        raise error

    worker.submit("a", fail)
    worker.submit("b", lambda progress, cancelled: 7)
    first, second = events_of(worker)
    assert first.kind == kind
    assert said in first.message
    assert second.result == 7


def test_several_threads_are_waited_for_together():
    go = threading.Event()
    begun = [threading.Event() for _ in range(3)]
    workers = [Worker() for _ in begun]
    for worker, started in zip(workers, begun, strict=True):
        worker.submit(
            "deaf", lambda progress, cancelled, started=started: (started.set(), go.wait(30))
        )
        assert started.wait(5)
    before = time.monotonic()
    for worker in workers:
        worker.end()
    assert not waitForEnded(0.2)
    assert time.monotonic() - before < 3 * 0.2
    go.set()
    assert waitForEnded(5.0)
