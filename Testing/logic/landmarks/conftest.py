"""Fixtures of the tests of landmarks."""

import pytest
from landmark_bench import LandmarkBench
from scans import add_patient


@pytest.fixture
def bench(scene, map_folder):
    made = LandmarkBench(scene, map_folder)
    yield made
    made.logic.close()
    made.relations.close()
    made.store.close()


@pytest.fixture
def pair(bench):
    template, target = add_patient(0, "Prior"), add_patient(1, "Current")
    bench.ready(template, target)
    return template, target
