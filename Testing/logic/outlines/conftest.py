"""Fixtures of the outline tests: three synthetic patients; in two of them, organs are outlined."""

import sys

import pytest
from box_bench import add_segmentation
from scans import add_patient

from AnatomicalEmbeddingLib.outlines.OutlineLogic import OutlineLogic

_BRIEFLY = ("--steps", "20")
SEGMENTS = {"liver": "Liver", "kidney_left": "Left kidney"}


@pytest.fixture
def patients(scene):
    return [add_patient(number, name) for number, name in enumerate(("First", "Second", "Third"))]


@pytest.fixture
def examples(scene, patients):
    """Segmentations of the first two patients."""
    found = []
    for number in (0, 1):
        node = add_segmentation(scene, number, patients[number], SEGMENTS)
        node.SetReferenceImageGeometryParameterFromVolumeNode(patients[number])
        found.append(node)
    return found


@pytest.fixture
def logic(scene, map_folder, monkeypatch):
    monkeypatch.setenv("ANATEMB_CACHE", str(map_folder))
    made = OutlineLogic(scene, [sys.executable])
    start = made.process.start
    made.process.start = lambda words, *rest: start(
        [*words, *(_BRIEFLY if words[0] == "train" else ())], *rest
    )
    made.said = []
    made.reported.connect(made.said.append)
    yield made
    made.close()
