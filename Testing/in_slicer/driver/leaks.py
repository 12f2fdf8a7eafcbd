"""Count objects that must not become more with use: nodes, observers, timers, threads, open files."""

import gc
import re
import sys
import threading
from collections import Counter
from pathlib import Path

import slicer

from .log import OURS

# the application keeps views, and what belongs to them, when the scene closes; a module keeps its parameters
_KEPT = (
    "View",
    "Slice",
    "Layout",
    "Camera",
    "ScriptedModule",
    "ColorTable",
    "ProceduralColor",
    "Clip",
)
_OF_A_VIEW = ("Volume Slice", "Transform")  # nodes by which 3-D views show a slice view
_OBSERVER = "vtkObserver ("
_SCAN_FILE = re.compile(r"\.(nii|nii\.gz|nrrd|dcm|npz|safetensors|mrb)$")


def measure() -> Counter:
    """How many there are now, by name."""
    gc.collect()
    scene = slicer.mrmlScene
    found = Counter()
    views = slicer.util.getNodesByClass("vtkMRMLSliceNode")
    of_views = tuple(f"{view.GetLayoutName()} {part}" for view in views for part in _OF_A_VIEW)
    for n in range(scene.GetNumberOfNodes()):
        node = scene.GetNthNode(n)
        name = node.GetClassName()
        if not any(kept in name for kept in _KEPT) and not (node.GetName() or "").startswith(
            of_views
        ):
            found[f"nodes {name}"] += 1
    found["slice views"] = scene.GetNumberOfNodesByClass("vtkMRMLSliceNode")
    found["observers of the scene"] = str(scene).count(_OBSERVER)
    for name in ("vtkMRMLCrosshairNode", "vtkMRMLInteractionNode", "vtkMRMLSelectionNode"):
        node = scene.GetFirstNodeByClass(name)
        found[f"observers of {name}"] = str(node).count(_OBSERVER) if node is not None else 0
    found["running timers"] = _timers()
    found["threads"] = threading.active_count()
    found["open files of scans"] = _open_scan_files()
    return found


def growth(before: Counter, after: Counter, reloaded: bool = False) -> list[str]:
    """What there is more of than before. Three threads, of maps, of correspondences and of words, wait for more work
    while a panel is open. New slice views observe the scene themselves, and so do the selectors of a panel that was
    reloaded, which Slicer keeps (12 observers each, of any module): observers are compared only where there are none.
    """
    allowed = Counter({"threads": 3, "slice views": after["slice views"]})
    if reloaded or after["slice views"] > before["slice views"]:
        allowed |= Counter({name: after[name] for name in after if name.startswith("observers")})
    return [
        f"{name}: {before[name]} before, {count} after"
        for name, count in sorted(after.items())
        if count > before[name] + allowed[name]
    ]


def _timers() -> int:
    """Timers that run and that an object of this extension keeps."""
    running = 0
    for each in gc.get_objects():
        if str(type(each).__module__).startswith(OURS):  # a few types of C have no text there
            kept = getattr(each, "__dict__", {})
            running += sum(
                hasattr(value, "setInterval") and bool(value.isActive()) for value in kept.values()
            )
    return running


def _open_scan_files() -> int:
    folder = Path("/proc/self/fd")
    if sys.platform != "linux":
        return 0
    names = []
    for each in folder.iterdir():
        try:
            names.append(str(each.readlink()))
        except OSError:  # closed meanwhile
            continue
    return sum(bool(_SCAN_FILE.search(name)) for name in names)
