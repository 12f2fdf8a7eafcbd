"""What the modules of this extension share: logic on MRML nodes, and the parts of their panels.

Importing it makes the engine importable: installed, `AnatomicalEmbedding` lies beside this package; in a source tree
it lies beside SlicerModules. Logic (files that import neither qt nor ctk) takes the scene and nodes as arguments and
uses no application, so that it runs in Slicer, in the browser viewer and in tests alike.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_spec = find_spec("AnatomicalEmbedding")
if _spec is None or _spec.origin is None:  # not there, or a folder of that name without code
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
