"""Fixtures of the tests of boxes."""

import pytest
from box_bench import BoxBench
from scans import add_patient


@pytest.fixture
def bench(scene, map_folder):
    made = BoxBench(scene, map_folder)
    yield made
    made.close()


@pytest.fixture
def volume(bench):
    return add_patient(0)
