"""Fixtures of the tests of alignment."""

import pytest
from align_bench import AlignBench, add_volume, bent_pair


@pytest.fixture
def bench(scene, map_folder):
    made = AlignBench(scene, map_folder)
    yield made
    made.close()


@pytest.fixture
def pair(bench):
    """Fixed: the bent copy. moving: the patient."""
    patient, bent = bent_pair()
    return add_volume(bent.volume, "Bent"), add_volume(patient.volume, "Patient")
