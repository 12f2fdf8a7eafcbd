"""Test the names of structures: they are read without torch, and shown in readable form."""

import subprocess
import sys
from pathlib import Path

from AnatomicalEmbedding.resources import resource
from AnatomicalEmbedding.structures.library import StructureLibrary
from AnatomicalEmbeddingLib.boxes.StructureFinder import namesIn
from AnatomicalEmbeddingLib.boxes.StructureNames import readable, sortKey, titled


def test_the_librarys_names_are_read_without_torch(bench):
    names = bench.logic.libraryStructures()
    path = resource("Structures") / "ct-open.structures.safetensors"
    assert sorted(names) == sorted(StructureLibrary.load(path).examples)
    code = (
        "import sys; from pathlib import Path;"
        "from AnatomicalEmbeddingLib.boxes.StructureFinder import libraryFile, namesIn;"
        "from AnatomicalEmbedding.resources import weights_file;"
        "print(len(namesIn(libraryFile(weights_file()))), 'torch' in sys.modules)"
    )
    modules = Path(sys.modules["AnatomicalEmbeddingLib"].__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=modules, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(names)), "False"]
    assert namesIn(Path("nowhere.safetensors")) == []


def test_names_are_readable_and_those_of_the_user_stay_as_they_are():
    assert [readable("kidney_left"), titled("vertebrae_T12")] == ["kidney left", "Vertebrae T12"]
    assert [readable("my_LeftParotid"), titled("gtv_1")] == ["my_LeftParotid", "gtv_1"]
    names = ["vertebrae_T10", "vertebrae_T2", "aorta"]
    assert sorted(names, key=sortKey) == ["aorta", "vertebrae_T2", "vertebrae_T10"]
