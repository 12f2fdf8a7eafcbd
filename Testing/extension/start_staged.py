"""Start the staged extension in a separate process, as 3D Slicer would, from one folder without subfolders. Print the
result as JSON: python start_staged.py FLAT_FOLDER

The test kit is used in place of the application. Of the repository, only the test kit can be imported.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path

TESTING = Path(__file__).resolve().parents[1]


def main(flat: Path) -> dict:
    sys.path.insert(0, str(TESTING))
    from slicer_kit import install

    kit = install()
    sys.path[:] = [entry for entry in sys.path if not _holds_the_extension(Path(entry or "."))]
    sys.path.append(str(flat))
    importlib.invalidate_caches()

    library = sorted(
        path.relative_to(flat) for path in flat.glob("AnatomicalEmbeddingLib/**/[!_]*.py")
    )
    parts = [importlib.import_module(".".join(path.with_suffix("").parts)) for path in library]
    modules = [kit.load_module(path) for path in sorted(flat.glob("*.py"))]
    torch_at_load = "torch" in sys.modules
    for module in modules:
        kit.open(module)
    kit.verify()

    import AnatomicalEmbedding
    from AnatomicalEmbedding.embedding.models.registry import find_weights
    from AnatomicalEmbedding.resources import list_weights, resource
    from AnatomicalEmbedding.structures.library import shipped_library

    weights = find_weights()
    return {
        "files": [
            AnatomicalEmbedding.__file__,
            *(part.__file__ for part in parts),
            *(m.path for m in modules),
        ],
        "modules": [module.name for module in modules],
        "titles": [module.instance.parent.title for module in modules],
        "with icon": [module.name for module in modules if module.instance.parent.icon],
        "torch at load": torch_at_load,
        "weights": list_weights(),
        "structures": len(shipped_library(weights.sha256).examples),
        "recipes": sorted(path.name for path in resource("Recipes").iterdir()),
    }


def _holds_the_extension(folder: Path) -> bool:
    return any(
        (folder / name / "__init__.py").is_file()
        for name in ("AnatomicalEmbedding", "AnatomicalEmbeddingLib")
    )


if __name__ == "__main__":
    try:
        print(json.dumps(main(Path(sys.argv[1]))), flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # panels are still open, and Qt dislikes to lose its widgets to an interpreter that ends
    os._exit(0)
