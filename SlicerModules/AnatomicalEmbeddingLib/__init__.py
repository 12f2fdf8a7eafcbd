"""What the modules of this extension share: logic on MRML nodes, and the parts of their panels.

Importing it makes the engine importable: installed, `AnatomicalEmbedding` lies next to this package; in a source tree
it lies next to SlicerModules. One folder for each feature, its logic and its panels side by side, and `shared` for the
parts that several need. The logic takes the scene and nodes as arguments and uses no application, so that it runs in
Slicer, in the browser viewer and in tests alike; only files named *Panel.py, *Table.py or *Form.py use Qt.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_spec = find_spec("AnatomicalEmbedding")
if _spec is None or _spec.origin is None:  # not there, or a folder of that name without code
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def moduleResource(name: str) -> Path:
    """Path of a file or folder of the modules' `Resources`; for the engine's see `AnatomicalEmbedding.resources`."""
    return Path(__file__).resolve().parents[1] / "Resources" / name
