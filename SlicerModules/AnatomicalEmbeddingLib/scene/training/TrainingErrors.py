"""Why a run ended, in one sentence with its remedy, from what the trainer printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

_REMEDIES = (
    (r"lightning[-_]fabric", "Training needs the package lightning-fabric; press Install packages."),
    (r"No module named '?torch\b", "Training needs PyTorch; press Install packages."),
    (
        r"No module named '?AnatomicalEmbedding\b",
        "The engine was not found beside this module; install the extension AnatomicalEmbedding again.",
    ),
    (
        r"OutOfMemoryError|CUDA out of memory|MPS backend out of memory",
        "The GPU's memory does not suffice; choose the device cpu, or close other programs that use the GPU.",
    ),
    (
        r"^MemoryError|Cannot allocate memory|DefaultCPUAllocator",
        "This computer's memory does not suffice; close other programs, or train on fewer scans.",
    ),
    (r"No space left on device", "The disk of the run's folder is full; make room, then resume."),
)
_SAID = "anatemb: "  # what the trainer says to its user
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Pool)\b(?:: .*)?$")
_KILLED = (-9, 137)
_KILLED_BELOW_LAUNCHER = "exit abnormally"  # what Slicer's launcher says, which ends with code 1


def stopReason(code: int, lines: Sequence[str]) -> str:
    """The reason of a failure. code: the process's. lines: what it printed on stderr, the latest last."""
    said = next((line for line in reversed(lines) if line.startswith(_SAID)), "")
    raised = next((line for line in reversed(lines) if _RAISED.match(line)), "")
    reason = said or raised
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, reason, re.IGNORECASE):
            return remedy
    if said:
        return said.removeprefix(_SAID)
    if code in _KILLED or (lines and _KILLED_BELOW_LAUNCHER in lines[-1]):
        return "The system ended the run, most often for want of memory; close other programs, then resume."
    last = raised or next((line for line in reversed(lines) if line.strip()), f"no message, exit code {code}")
    return f"The trainer ended unexpectedly ({last}); see the log."
