"""Test the sample data: all sources are registered, and the synthetic pair loads without network or torch."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import numpy as np
import pytest
import slicer
import slicer.util
from PIL import Image
from sample_pair import POINT_NAMES, make_pair

from AnatomicalEmbeddingLib.shared.SampleScans import CATEGORY, sampleSources

WITHOUT_TORCH_AND_NETWORK = """
import socket, sys
def refuse(*_, **__):
    raise OSError("the test has no network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
sys.modules["torch"] = None  # importing it raises ModuleNotFoundError
from urllib.request import urlretrieve
from AnatomicalEmbeddingLib.shared.SampleScans import sampleSources
pair = sampleSources()[0]
for uri, name in zip(pair["uris"], pair["fileNames"]):
    urlretrieve(uri, sys.argv[1] + "/" + name)
"""


@pytest.fixture(scope="module")
def patients():
    return make_pair()


@pytest.fixture(scope="module")
def pair_files(tmp_path_factory) -> dict[str, Path]:
    """Files of the pair by node name, fetched as the Sample Data module does, in a process without torch or network."""
    folder = tmp_path_factory.mktemp("cache")
    library = str(Path(sys.modules["AnatomicalEmbeddingLib"].__file__).parents[1])
    code = f"import sys\nsys.path.insert(0, {library!r})\n{WITHOUT_TORCH_AND_NETWORK}"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    pair = sampleSources()[0]
    return {
        node: folder / name for node, name in zip(pair["nodeNames"], pair["fileNames"], strict=True)
    }


def test_the_pair_is_complete_and_as_its_checksums_say(pair_files):
    pair = sampleSources()[0]
    assert list(pair_files) == ["PhantomA", "PhantomB", "Phantom A landmarks", "Phantom B truth"]
    for path, checksum in zip(pair_files.values(), pair["checksums"], strict=True):
        algorithm, digest = slicer.util.extractAlgoAndDigest(checksum)
        assert algorithm == "SHA256"
        assert slicer.util.computeChecksum(algorithm, str(path)) == digest


@pytest.mark.parametrize(("name", "which"), [("Phantom A landmarks", 0), ("Phantom B truth", 1)])
def test_landmarks_of_the_pair_are_true(scene, logics, pair_files, patients, name, which):
    node = scene.GetNodeByID(logics["Markups"].LoadMarkups(str(pair_files[name]), name))
    truth = {
        label: place for label, place in patients[which].points_ras.items() if label in POINT_NAMES
    }
    found = {
        node.GetNthControlPointLabel(n): node.GetNthControlPointPositionWorld(n)
        for n in range(node.GetNumberOfControlPoints())
    }
    assert found.keys() == truth.keys()
    for label, place in truth.items():
        assert np.allclose(found[label], place, atol=1e-3), label


def test_every_source_is_whole():
    for source in sampleSources():
        fields = ("uris", "fileNames", "nodeNames", "loadFileTypes", "checksums")
        assert len({len(source[field]) for field in fields}) == 1
        assert all(
            re.fullmatch(r"SHA256:[0-9a-f]{64}", checksum) for checksum in source["checksums"]
        )
        assert source["category"] == CATEGORY
        with Image.open(source["thumbnailFileName"]) as picture:
            assert picture.size == (260, 280)
        for uri in source["uris"]:
            parts = urlparse(uri)
            assert parts.scheme == "https" or Path(url2pathname(parts.path)).is_file()
