"""Long work in one background thread, its progress and results handed over when the main thread asks.

MRML, VTK and Qt belong to the main thread: jobs get copies and give results; `poll` delivers them. Slicer's modules
poll by a timer, the browser viewer by its event loop, tests by hand.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError, CancelledError

Progress = Callable[[float, str], None]
Work = Callable[[Progress, Callable[[], bool]], object]
_ending: list[threading.Thread] = []  # asked to end, some perhaps still running


def waitForEnded(seconds: float = 5.0) -> bool:
    """Wait for the threads of all workers that were asked to end; returns whether they have ended within the time.

    They share the time, so that Slicer closes within it, however many they are.
    """
    latest = time.monotonic() + seconds
    for thread in _ending:
        thread.join(max(0.0, latest - time.monotonic()))
    _ending[:] = [thread for thread in _ending if thread.is_alive()]
    return not _ending


@dataclass(frozen=True)
class Event:
    """kind: "progress" (share 0..1, what), "done" (result), "failed" (what: a sentence) or "cancelled"."""

    key: Hashable
    kind: str
    share: float = 0.0
    what: str = ""
    result: object = None


class _Job:
    def __init__(self, key: Hashable, work: Work) -> None:
        self.key, self.work, self.cancelled = key, work, threading.Event()


class Worker:
    """Jobs by key, one after the other. The thread starts with the first job and ends with `end`."""

    def __init__(self) -> None:
        self._jobs: queue.Queue[_Job | None] = queue.Queue()
        self._events: queue.Queue[tuple[_Job, Event]] = queue.Queue()
        self._known: dict[Hashable, _Job] = {}
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Is any job queued or running, or its end not yet reported by `poll`?"""
        return bool(self._known)

    def submit(self, key: Hashable, work: Work) -> None:
        """Queue work(progress, cancelled); a job of the same key is cancelled and replaced, its events dropped."""
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
        """Cancel one job, or all; returns their keys. `poll` reports nothing more of them."""
        keys = [key] if key is not None else list(self._known)
        dropped = [self._known.pop(k) for k in keys if k in self._known]
        for job in dropped:
            job.cancelled.set()
        return [job.key for job in dropped]

    def poll(self) -> list[Event]:
        """The events since the last call; of each job no more than its latest progress."""
        found: dict[tuple[Hashable, bool], Event] = {}
        while True:
            try:
                job, event = self._events.get_nowait()
            except queue.Empty:
                return list(found.values())
            if self._known.get(event.key) is not job:
                continue
            ended = event.kind != "progress"
            if ended:
                del self._known[event.key]
                found.pop((event.key, False), None)
            found[event.key, ended] = event

    def end(self) -> None:
        """Cancel everything and ask the thread to end, which `waitForEnded` waits for."""
        self.cancel()
        thread, self._thread = self._thread, None
        if thread is not None:
            _ending[:] = [*(each for each in _ending if each.is_alive()), thread]
            self._jobs.put(None)
            self._jobs = queue.Queue()

    def _run(self, jobs: queue.Queue[_Job | None]) -> None:
        while (job := jobs.get()) is not None:
            if not job.cancelled.is_set():
                self._events.put((job, self._outcome(job)))
            del job  # it may hold a scan

    def _outcome(self, job: _Job) -> Event:
        def progress(share: float, what: str) -> None:
            self._events.put((job, Event(job.key, "progress", share, what)))

        try:
            return Event(job.key, "done", 1.0, "", job.work(progress, job.cancelled.is_set))
        except CancelledError:
            return Event(job.key, "cancelled")
        except AnatomicalEmbeddingError as error:
            return Event(job.key, "failed", what=str(error))
        except MemoryError:
            return Event(job.key, "failed", what="This computer's memory does not suffice; close other programs.")
        except Exception as error:  # a thread must not die of it, and the user must hear of it
            logging.exception("AnatomicalEmbedding: a background job failed")
            return Event(job.key, "failed", what=f"{type(error).__name__}: {error}; see the log for the details.")
