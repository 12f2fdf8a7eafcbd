"""Mutated files through a reader, in forked children: what ends a child, hangs or takes memory is found too.

Every case must end as an answer that serves or as an error of ours in one sentence, within SECONDS of processor time
and MEMORY_BYTES beyond what the program took before, and leave no file behind.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from fuzzing.reader import Reader

SECONDS = 10.0
MEMORY_BYTES = 512 << 20
_ADDRESS_BYTES = 4 << 30  # beyond the program's own: what claims more is refused by the system, not by this machine
_WALL_SECONDS = 60.0  # on a busy machine, before a child counts as hanging
_LONGEST_MESSAGE = 3100
ANSWER, REFUSED, RAISED = "answer", "refused", "raised"


@dataclass(frozen=True)
class Escape:
    """A case that did not end as it must. number: of the case. done: to the file. problem: in words."""

    reader: str
    number: int
    done: str
    problem: str


@dataclass
class Outcome:
    """Of one reader: cases, how they ended, the most a case took, and those that escaped."""

    reader: str
    cases: int = 0
    ends: dict[str, int] = field(default_factory=lambda: dict.fromkeys((ANSWER, REFUSED, RAISED), 0))
    seconds: float = 0.0
    memory_bytes: int = 0
    escapes: list[Escape] = field(default_factory=list)


@dataclass(frozen=True)
class _Cases:
    """The cases of one reader up to the one numbered `last`. good: its files. expected: what these give."""

    reader: Reader
    good: dict[str, bytes]
    expected: object
    seed: int
    last: int
    scratch: Path


def fuzz(reader: Reader, cases: int, seed: int, first: int = 0) -> Outcome:
    """Run `cases` cases from the one numbered `first` on; the same seed and number make the same case."""
    outcome = Outcome(reader.name)
    good = reader.good_files()
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        every = _Cases(reader, good, _used(reader, good, scratch), seed, first + cases, scratch)
        number = first
        while number < every.last:
            number = _run_child(every, number, outcome)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return outcome


def _used(reader: Reader, good: dict[str, bytes], scratch: Path) -> object:
    """What the good files give; an error here is one of this program."""
    case = scratch / "good"
    _write(good, case)
    try:
        return reader.use(case)
    finally:
        shutil.rmtree(case, ignore_errors=True)


def _run_child(cases: _Cases, first: int, outcome: Outcome) -> int:
    """Cases from `first` on, to the last or to the one that ends the child; returns the number of the next."""
    context = get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(cases, first, sending))
    child.start()
    sending.close()
    number, done = first, "?"
    try:
        while number < cases.last:
            if not receiving.poll(_WALL_SECONDS):
                child.kill()
                outcome.cases += 1
                outcome.escapes.append(Escape(cases.reader.name, number, done, f"hangs for {_WALL_SECONDS:.0f} s"))
                return number + 1
            kind, *values = receiving.recv()
            if kind == "begun":
                (done,) = values
                continue
            end, problem, seconds, memory = values
            outcome.cases += 1
            outcome.ends[end] += 1
            outcome.seconds, outcome.memory_bytes = max(outcome.seconds, seconds), max(outcome.memory_bytes, memory)
            if problem:
                outcome.escapes.append(Escape(cases.reader.name, number, done, problem))
            number += 1
    except EOFError:
        child.join()
        outcome.cases += 1
        outcome.escapes.append(Escape(cases.reader.name, number, done, f"ends the program ({child.exitcode})"))
        return number + 1
    finally:
        receiving.close()
        child.join()
    return number


def _child(cases: _Cases, first: int, sending: Connection) -> None:
    reader, scratch = cases.reader, cases.scratch
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - what C libraries print
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + _ADDRESS_BYTES, in_use + _ADDRESS_BYTES))
    for number in range(first, cases.last):
        files, draw = dict(cases.good), Random(f"{cases.seed} {reader.name} {number}")
        done = reader.spoil(files, draw)
        sending.send(("begun", done))
        sending.send(("ended", *_case(reader, files, cases.expected if "truncated to" in done else None, scratch)))


def _case(reader: Reader, files: dict[str, bytes], expected: object, scratch: Path) -> tuple[str, str, float, int]:
    """How it ended, what is wrong with that or "", seconds of processor time, and bytes at the peak."""
    case, temporary = scratch / "case", scratch / "temporary"
    for folder in (case, temporary):
        shutil.rmtree(folder, ignore_errors=True)  # of a case that ended its child
        folder.mkdir()
    try:
        _write(files, case)
        before = set(_listed(case))
        tempfile.tempdir = str(temporary)
        with _measured() as took:
            end, problem = _ended(reader, case, expected)
        left = [path for path in {*_listed(case), *_listed(temporary)} - before if path.name not in _OWN]
    finally:
        tempfile.tempdir = None
        shutil.rmtree(case, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)
    seconds, memory = took
    if seconds > SECONDS:
        problem = problem or f"takes {seconds:.1f} s"
    if memory > MEMORY_BYTES:
        problem = problem or f"takes {memory >> 20} MB"
    if left:
        problem = problem or f"leaves {left[0].name}"
    return end, problem, seconds, memory


# what a store keeps next to itself while it is open, and what the readers here write themselves
_OWN = {"points.mrk.json", "cohort.sqlite-wal", "cohort.sqlite-shm", "run.lock", "part_0.safetensors"}


def _ended(reader: Reader, case: Path, expected: object) -> tuple[str, str]:
    try:
        answer = reader.use(case)
    except AnatomicalEmbeddingError as error:
        message = str(error)
        if not message or "\n" in message or len(message) > _LONGEST_MESSAGE:
            return REFUSED, f"its message is no sentence: {message[:200]!r}"
        return REFUSED, ""
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames][-4:]
        return RAISED, f"{type(error).__name__}: {str(error)[:160]} at {' < '.join(reversed(at))}"
    if reader.whole and expected is not None and answer not in (expected, None):
        return ANSWER, "a file that was cut short gives another answer"
    return ANSWER, ""


@contextlib.contextmanager
def _measured() -> Iterator[list]:
    """[seconds of processor time, bytes of memory at the peak beyond those before]."""
    took: list = []
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, began = _memory("VmRSS"), time.process_time()
    yield took
    took += [time.process_time() - began, max(_memory("VmHWM") - before, 0)]


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    return 0


def _write(files: dict[str, bytes], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _listed(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]
