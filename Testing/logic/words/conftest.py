"""Fixtures of the tests of words in a scene."""

import pytest
from scans import add_patient, make_store
from word_bench import WordBench


@pytest.fixture
def bench(scene, map_folder, kept_finders):
    made = WordBench(scene, make_store(scene, map_folder))
    yield made
    made.search.close()
    made.store.close()


@pytest.fixture
def pair(bench):
    nodes = [add_patient(0, "Prior"), add_patient(1, "Current")]
    bench.search.volumes = nodes
    return nodes
