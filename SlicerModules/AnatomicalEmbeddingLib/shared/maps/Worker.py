"""Runs long jobs in one background thread. The main thread calls `poll` to get their progress and results.

Only the main thread may use MRML, VTK and Qt. Therefore a job gets copies of the data and returns a result. `poll` is
called by a timer in Slicer's modules, by the event loop in the browser viewer, and directly in tests.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, CancelledError

Progress = Callable[[float, str], None]
Work = Callable[[Progress, Callable[[], bool]], object]
_ending: list[threading.Thread] = []  # threads that were asked to end; some may still run


def waitForEnded(seconds: float = 10.0) -> bool:
    """Wait for all threads that were asked to end. Returns True if all of them have ended.

    seconds: the longest wait for all threads together. Slicer cannot close before this function returns.
    """
    latest = time.monotonic() + seconds
    for thread in _ending:
        thread.join(max(0.0, latest - time.monotonic()))
    _ending[:] = [thread for thread in _ending if thread.is_alive()]
    return not _ending


@dataclass(frozen=True)
class Event:
    """The progress or the end of a job. kind: "progress", "done" (with a result), "failed" or "cancelled". share:
    finished fraction, 0 to 1. message: name of the current step; if the job failed, a sentence with the reason.
    """

    key: Hashable
    kind: str
    share: float = 0.0
    message: str = ""
    result: object = None


@dataclass(eq=False)
class _Job:
    key: Hashable
    work: Work
    cancelled: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Runs jobs one after the other; each job has a key. The thread starts at the first job; `end` ends the thread."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._events: queue.Queue[tuple[_Job, Event]] = queue.Queue()
        self._known: dict[Hashable, _Job] = {}
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """True while a job waits or runs, and until `poll` has returned the last event of each finished job."""
        return bool(self._known)

    def submit(self, key: Hashable, work: Work) -> None:
        """Queue a job: the thread calls work(progress, cancelled). Cancels an earlier job with the same key."""
        self.cancel(key)
        job = _Job(key, work)
        self._known[key] = job
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(self._jobs,), name="AnatomicalEmbedding", daemon=True
            )
            self._thread.start()

    def cancel(self, key: Hashable | None = None) -> list[Hashable]:
        """Cancel one job, or all jobs if `key` is None. Returns the jobs' keys, which `poll` then does not report."""
        keys = [key] if key is not None else list(self._known)
        dropped = [self._known.pop(k) for k in keys if k in self._known]
        for job in dropped:
            job.cancelled.set()
        return [job.key for job in dropped]

    def poll(self) -> list[Event]:
        """Return the events since the last call. For each job, only the latest progress event is returned."""
        # (key of a job, whether it has ended) -> its latest event of this kind, in the order of the events
        events: dict[tuple[Hashable, bool], Event] = {}
        while True:
            try:
                job, event = self._events.get_nowait()
            except queue.Empty:
                return list(events.values())
            if self._known.get(event.key) is not job:  # it was cancelled
                continue
            ended = event.kind != "progress"
            if ended:
                del self._known[event.key]
                events.pop((event.key, False), None)
            events[event.key, ended] = event

    def end(self) -> None:
        """Cancel all jobs and ask the thread to end. `waitForEnded` waits for the end of the thread."""
        self.cancel()
        thread = self._thread
        self._thread = None
        if thread is not None:
            _ending[:] = [*(worker for worker in _ending if worker.is_alive()), thread]
            self._jobs.put(None)
            self._jobs = queue.Queue()

    def _run(self, jobs: queue.Queue[_Job | None]) -> None:
        for job in iter(jobs.get, None):
            if not job.cancelled.is_set():
                self._events.put((job, self._outcome(job)))
            del job  # the job may hold the voxels of a scan

    def _outcome(self, job: _Job) -> Event:
        """Do the work of a job, and return its last event."""

        def progress(share: float, step: str) -> None:
            self._events.put((job, Event(job.key, "progress", share, step)))

        try:
            return Event(job.key, "done", 1.0, "", job.work(progress, job.cancelled.is_set))
        except CancelledError:
            return Event(job.key, "cancelled")
        except AnatomicalEmbeddingError as error:
            message = str(error)
        except MemoryError:
            message = (
                "This computer has too little free memory; close other programs and try again."
            )
        except Exception as error:  # the thread must continue, and the user must get a message
            logging.exception("AnatomicalEmbedding: a background job failed")
            message = f"An unexpected error occurred ({type(error).__name__}: {error}); see the log, then try again."
        return Event(job.key, "failed", message=message)
