"""Code of the Slicer modules of this extension: the logic, which uses MRML nodes, and the parts of the panels.

Importing this package also makes the engine `AnatomicalEmbedding` importable. In an installation the engine lies in the
same folder as this package; in the source tree it lies in the same folder as SlicerModules. Each feature has a folder
with its logic and panels; `shared` contains code that several features use. The logic gets the scene and nodes as
arguments and does not use the application, so it runs in Slicer, in the browser viewer and in tests. Only files named
*Panel.py, *Table.py or *Form.py use Qt.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_spec = find_spec("AnatomicalEmbedding")
# not found, or found as a folder of this name without code
if _spec is None or _spec.origin is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def moduleResource(name: str) -> Path:
    """Path of a file or folder in the modules' `Resources`. For engine files see `AnatomicalEmbedding.resources`."""
    return Path(__file__).resolve().parents[1] / "Resources" / name
