"""Names of structures: told without torch, readable, spelt one way."""

import subprocess
import sys
from pathlib import Path

from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.structures.library import StructureLibrary
from AnatomicalEmbeddingLib.scene.boxes.StructureNames import namesIn, readable, sortKey, spelt, titled


def test_the_librarys_names_are_reported_without_torch(bench):
    names = bench.logic.libraryStructures()
    path = resource("Structures") / "hybrid-ct-v3.structures.safetensors"
    assert sorted(names) == sorted(StructureLibrary.load(path).examples)
    code = (
        "import sys; from pathlib import Path;"
        "from AnatomicalEmbeddingLib.scene.boxes.StructureNames import libraryFile, namesIn;"
        "from AnatomicalEmbedding.resources import weights_file;"
        "print(len(namesIn(libraryFile(weights_file()))), 'torch' in sys.modules)"
    )
    modules = Path(sys.modules["AnatomicalEmbeddingLib"].__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=modules, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(names)), "False"]
    assert namesIn(Path("nowhere.safetensors")) == []


def test_names_are_readable_and_spelt_one_way():
    assert [readable("kidney_left"), titled("vertebra_t12")] == ["kidney left", "Vertebra T12"]
    assert [spelt(" Left kidney "), spelt("vertebra T12"), spelt("Übergang-2")] == [
        "kidney_left", "vertebra_t12", "übergang_2",
    ]  # fmt: skip
    assert sorted(["vertebra_t10", "vertebra_t2", "aorta"], key=sortKey) == ["aorta", "vertebra_t2", "vertebra_t10"]
