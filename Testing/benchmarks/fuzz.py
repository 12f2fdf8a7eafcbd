"""Hostile input: mutated files through every reader of the engine.

    python Testing/benchmarks/fuzz.py [--cases 5000] [--seed 0] [READER...]

Prints a table and every case that did not end as an answer that serves or as one sentence of ours; `--case N` repeats
one. "upload" needs the environment of the viewer's tests. Linux only (it forks, limits and measures its children).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in ("engine", "followup", "../SlicerModules")]

import torch  # noqa: E402
from fuzzing import model_readers, record_readers, scan_readers  # noqa: E402
from fuzzing.running import MEMORY_BYTES, SECONDS, fuzz  # noqa: E402

READERS = {reader.name: reader for part in (scan_readers, record_readers, model_readers) for reader in part.READERS}


def main() -> int:
    """Exit status 1 where a case escaped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"of: {', '.join(READERS)}; all but upload")
    parser.add_argument("--cases", type=int, default=5000, help="of each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="number of a single case to run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the outcomes to a file")
    options = parser.parse_args()
    unknown = [name for name in options.readers if name not in READERS]
    if unknown:
        parser.error(f"{unknown[0]}: no such reader; choose of {', '.join(READERS)}")
    torch.set_num_threads(1)  # children are forked
    names = options.readers or [name for name in READERS if name != "upload"]
    print(f"at most {SECONDS:.0f} s and {MEMORY_BYTES >> 20} MB a case; seed {options.seed}")
    print("| reader | cases | answered | refused | slowest | most memory | escapes | took |")
    print("|---" * 8 + "|")
    outcomes = []
    for name in names:
        began = time.monotonic()
        cases, first = (options.cases, 0) if options.case is None else (1, options.case)
        found = fuzz(READERS[name], cases, options.seed, first)
        outcomes.append(found)
        ends = f"{found.ends['answer']} | {found.ends['refused']}"
        most = f"{found.seconds:.2f} s | {found.memory_bytes >> 20} MB"
        took = time.monotonic() - began
        print(f"| {name} | {found.cases} | {ends} | {most} | {len(found.escapes)} | {took:.0f} s |", flush=True)
    for escape in (escape for found in outcomes for escape in found.escapes):
        print(f"{escape.reader} --case {escape.number}: {escape.done[:160]}\n    {escape.problem}")
    if options.json:
        options.json.write_text(json.dumps([asdict(found) for found in outcomes]))
    return int(any(found.escapes for found in outcomes))


if __name__ == "__main__":
    sys.exit(main())
