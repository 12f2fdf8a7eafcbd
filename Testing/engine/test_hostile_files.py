"""Test that each reader either reads a damaged file usefully or refuses the file with one sentence of ours.

The test has one case for each entry of READERS. Each reader runs in a child process, so that the test also finds files
that end the process, run without end, or need more than 4 GB. ANATEMB_CASES=5000 tests 5000 files for each reader.
"""

import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from hostile_readers import READERS, Reader
from spoiled_files import cut

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError

MORE_BYTES = 4 << 30  # of memory that a child may take
SECONDS = 60  # until a case counts as hanging
# files that readers may leave: of an open store, and of their own answer
KEPT = {"cohort.sqlite-wal", "cohort.sqlite-shm", "run.lock", "written.mrk.json"}


def _files(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def _problem(reader: Reader, folder: Path, expected: object) -> str:
    """Read a folder; return the reason why the end is not as promised, or "". expected: answer, of a file cut short."""
    try:
        answer = reader.use(folder)
    except AnatomicalEmbeddingError as error:
        return "" if str(error) and "\n" not in str(error) else f"message {str(error)[:200]!r}"
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        return f"{type(error).__name__}: {error} at {[f'{Path(f.filename).name}:{f.lineno}' for f in frames]}"
    is_other = reader.whole and expected is not None and answer not in (expected, None)
    return "a file that was cut short gives another answer" if is_other else ""


def _run_cases(
    reader: Reader, good: dict[str, bytes], cases: range, scratch: Path, sending
) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # messages of C libraries
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, used + MORE_BYTES))
    tempfile.tempdir = str(scratch)
    _write(good, scratch / "good")
    expected = reader.use(scratch / "good")
    shutil.rmtree(scratch / "good")
    for number in cases:
        draw = Random(f"{reader.name} {number}")
        files = dict(good)
        name = draw.choice(sorted(files))
        way = draw.choice(reader.ways)
        files[name] = way(files[name], draw)
        sending.send(f"{number}: {way.__name__} of {name}")
        folder = scratch / "case"
        _write(files, folder)
        signal.alarm(SECONDS)
        problem = _problem(reader, folder, expected if way is cut else None)
        signal.alarm(0)
        left = (
            {p.name for p in scratch.rglob("*") if p.is_file()}
            - {Path(each).name for each in files}
            - KEPT
        )
        sending.send(problem or (f"leaves {left}" if left else ""))
        for each in scratch.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()


def escapes(reader: Reader, cases: range, scratch: Path) -> list[str]:
    """Return a line for each case that ends otherwise than promised."""
    (scratch / "made").mkdir()
    reader.make(scratch / "made")
    good = _files(scratch / "made")
    shutil.rmtree(scratch / "made")
    receiving, sending = get_context("fork").Pipe(duplex=False)
    child = get_context("fork").Process(
        target=_run_cases, args=(reader, good, cases, scratch, sending)
    )
    child.start()
    sending.close()
    found = []
    case = "before the first case"
    try:
        while True:
            case = receiving.recv()
            if problem := receiving.recv():
                found.append(f"{case}: {problem}")
    except EOFError:
        child.join()
    return [*found, f"{case}: ends the program ({child.exitcode})"] if child.exitcode else found


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="children are limited on Linux only"
)
@pytest.mark.parametrize("name", READERS)
def test_no_file_escapes(name, tmp_path):
    reader = READERS[name]
    for module in reader.needs:
        pytest.importorskip(module)
    assert (
        escapes(reader, range(int(os.environ.get("ANATEMB_CASES", reader.cases))), tmp_path) == []
    )
