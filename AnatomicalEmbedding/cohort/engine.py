"""Run a cohort: Dask workers on this machine embed the scans.

Only the parent process writes the manifest, which lists the scans and their states. The workers write maps. If a
worker or the parent process ends too early, the same command continues the run.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import AnatomicalEmbeddingError, no_body_frame, require
from .manifest import FAILED, Row
from .store import Store
from .work import Plan, embed_scan

_WORKER_BYTES = 4 * 2**30  # a worker's default memory on this machine
_LEAST_WORKER_BYTES = 2 * 2**30  # even if the machine has less memory free; by hand
_FREE_SHARE = 0.9  # share of the free memory that all workers may use together
_TASKS_AHEAD = 4  # tasks sent to the scheduler for each worker
_RETRIES = 4  # a scan fails after it has crashed more workers than this
_PATIENCE_S = 120.0  # how long a run waits if there is no worker; by hand


def run(store: Store, plan: Plan, progress: Callable[[Counter[str], int], None]) -> dict[str, int]:
    """Embed all waiting and failed scans of a store. Finished scans are kept.

    Args:
        store: the store.
        plan: weights and computing resources.
        progress: called at least every second with the number of scans that ended in each state, and the number of
            scans to embed.

    Returns:
        How many scans ended in each state.

    Raises:
        AnatomicalEmbeddingError: Dask is missing, another run uses the store, the store was embedded with other
            weights, or no worker is left.
    """
    require("distributed", "Dask distributed", "cohorts are embedded with", "cohort")
    with store.locked():
        store.clean()
        due = store.manifest.due()
        if not due:
            return {}
        plan = choose_weights(store, plan)
        with local_client(plan, len(due)) as client:
            return _Run(store, plan, client, due, progress).embed_all()


def choose_weights(store: Store, plan: Plan) -> Plan:
    """Return the plan with the weights of a run, and with or without descriptors. The first run of a store chooses for
    all later runs, and the manifest keeps the choice.

    Raises:
        AnatomicalEmbeddingError: the store was embedded with other weights, or the coordinates of the weights are not
            in mm of the common body frame.
    """
    from ..embedding.models.registry import find_weights

    settings = store.manifest.about
    name = settings.get("model", "auto") if plan.model == "auto" else plan.model
    weights = find_weights(name)
    if settings.get("weights_hash", weights.sha256) != weights.sha256:
        raise AnatomicalEmbeddingError(
            f"{store.folder}: this cohort was embedded with the weights {settings['model']}, not with "
            f"{weights.name}; leave --model out, or make a new cohort."
        )
    if not weights.network.metric:
        raise AnatomicalEmbeddingError(no_body_frame(weights.name))
    name = str(Path(name).absolute()) if Path(name).is_file() else weights.name
    descriptors = settings.get("descriptors", "yes" if plan.descriptors else "no")
    store.manifest.set_about(
        {"model": name, "weights_hash": weights.sha256, "descriptors": descriptors}
    )
    return replace(plan, model=name, descriptors=descriptors == "yes")


@dataclass(eq=False)
class _Run:
    """Sends the scans of a run to Dask. due: ids of the rows to embed. Other fields: as arguments of `run`."""

    store: Store
    plan: Plan
    client: Any
    due: list[int]
    progress: Callable[[Counter[str], int], None]

    def __post_init__(self) -> None:
        self.due.reverse()  # pop() removes the end
        self.total = len(self.due)
        self.weights_hash = self.store.manifest.weights_hash
        self.counts = Counter[str]()
        self.rows: dict[Any, Row] = {}  # rows by the future of their task
        self.last_worker = time.monotonic()  # when a worker was seen

    def embed_all(self) -> dict[str, int]:
        """Send all tasks and record each result. Returns how many scans ended in each state."""
        from distributed import CancelledError, wait

        while self.due or self.rows:
            workers = self._workers()
            if not workers:
                time.sleep(1)
                continue
            while self.due and len(self.rows) < _TASKS_AHEAD * len(workers):
                self._submit(self.store.manifest.row(self.due.pop()), workers)
            try:
                ended = wait(list(self.rows), timeout=1, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                ended = set()
            except CancelledError:
                ended = {future for future in self.rows if future.status in ("cancelled", "lost")}
            for future in ended:
                self._record(future)
            self.progress(self.counts, self.total)
        return dict(self.counts)

    def _workers(self) -> dict[str, Any]:
        """Return Dask's workers by address. Raises AnatomicalEmbeddingError after 2 minutes without a worker."""
        info = self.client.scheduler_info(n_workers=-1) if self.client.status == "running" else {}
        workers = info.get("workers", {})
        now = time.monotonic()
        if workers:
            self.last_worker = now
        is_late = now - self.last_worker > _PATIENCE_S
        if not workers and (self.client.status in ("closed", "closing") or is_late):
            raise AnatomicalEmbeddingError(
                f"no worker starts; give --workers and --memory-mb, then repeat the command. {self.counts.total()} "
                "finished scans of this run are kept."
            )
        return workers

    def _submit(self, row: Row, workers: dict[str, Any]) -> None:
        """Give a scan to Dask. workers: what Dask tells about each worker, such as its memory limit in bytes.

        If the plan sets no memory, the smallest limit of a worker holds; 0 is no limit.
        """
        limits = [worker.get("memory_limit") or 0 for worker in workers.values()]
        plan = replace(self.plan, memory_bytes=self.plan.memory_bytes or min(limits, default=0))
        # without priorities, Dask may run later tasks first
        future = self.client.submit(
            embed_scan,
            str(self.store.folder),
            row,
            plan,
            self.weights_hash,
            pure=False,
            retries=0,
            priority=-row.id,
        )
        self.rows[future] = row

    def _record(self, future: Any) -> None:
        """Write the result of a task to the manifest. If the result was lost, the task is sent again."""
        from distributed import CancelledError
        from distributed.scheduler import KilledWorker

        row = self.rows[future]
        try:
            result = dict(future.result(timeout=10.0))
        except TimeoutError:
            return  # the worker ended before it sent the result; Dask runs the task again
        except (KilledWorker, MemoryError):
            reason = f"{row.path}: {_RETRIES} workers crashed, perhaps from lack of memory; raise --memory-mb."
            result = {"state": FAILED, "reason": reason}
        except (CancelledError, OSError):
            self.due.append(self.rows.pop(future).id)
            return
        except Exception as error:  # the task could not be sent or started
            result = {"state": FAILED, "reason": f"{row.path}: {type(error).__name__}: {error}"}
        del self.rows[future]
        state = result.pop("state")
        reason = result.pop("reason", "")
        self.store.manifest.finish(row.id, state, reason, **result)
        self.counts[state] += 1


@contextmanager
def local_client(plan: Plan, total: int) -> Iterator[Any]:
    """Yield a Dask client of workers on this machine, which stop at the end. total: number of scans to embed."""
    import dask
    from distributed import Client, LocalCluster

    settings = {
        "distributed.scheduler.allowed-failures": _RETRIES,
        "distributed.scheduler.worker-saturation": 1.0,  # so a killed worker loses only one scan
        "distributed.worker.memory.target": False,  # torch's memory cannot be moved to the disk
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": 0.95,
        "distributed.admin.tick.limit": "60s",
    }
    # hides Dask's own errors when a worker is killed
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    with dask.config.set(settings):
        workers, memory = _plan_workers(plan, total)
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        )
        with cluster, Client(cluster) as client:
            yield client


def _plan_workers(plan: Plan, total: int) -> tuple[int, int]:
    """Return the number of workers and the memory of each worker in bytes. With a GPU, one worker uses it."""
    import psutil
    import torch

    free = int(psutil.virtual_memory().available * _FREE_SHARE)
    if torch.cuda.is_available() and plan.device.startswith(("auto", "cuda")):
        usual = 1
    else:
        cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
            cores = len(os.sched_getaffinity(0))
        usual = min(cores, free // (plan.memory_bytes or _WORKER_BYTES))
    workers = max(1, min(plan.workers or usual, total))
    memory = plan.memory_bytes or max(free // workers, _LEAST_WORKER_BYTES)
    return workers, memory
