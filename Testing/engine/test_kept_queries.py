"""Test that a record keeps the query of each lesion, so that the lesion is found when its scan is not at hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.followup.lesions import Study
from AnatomicalEmbedding.followup.proposing import find_places, keep_queries
from AnatomicalEmbedding.followup.record import FollowUp
from AnatomicalEmbedding.followup.record_file import from_json, to_json
from AnatomicalEmbedding.matching.match import match_query
from AnatomicalEmbedding.matching.query import query_from_text, query_to_text, read_query

NAMES = ("heart_apex", "liver_dome", "kidney_left_lower_pole")


@pytest.fixture(scope="module")
def maps(phantom_pair, map_folder):
    model = load_model(cache=MapCache(map_folder))
    return {
        key: model.embed(phantom.volume) for key, phantom in zip("ab", phantom_pair, strict=True)
    }


@pytest.fixture(scope="module")
def points(phantom_pair) -> np.ndarray:
    return np.array([phantom_pair[0].points_ras[name] for name in NAMES])


@pytest.fixture(scope="module")
def marked(points) -> FollowUp:
    record = FollowUp().with_studies([Study("a", "first"), Study("b", "second")])
    for point in points:
        record = record.mark("a", point)
    return record


def test_a_text_restores_the_query(maps, points):
    query = read_query(maps["a"], points)
    text = query_to_text(query)
    back = query_from_text(text)
    assert back.weights_hash == query.weights_hash
    assert torch.equal(back.coordinates, query.coordinates)
    assert torch.equal(back.blocks.in_body, query.blocks.in_body)
    np.testing.assert_array_equal(back.levels.above_ends_mm, query.levels.above_ends_mm)
    np.testing.assert_array_equal(back.levels.chance, query.levels.chance)
    likeness = (back.blocks.descriptors * query.blocks.descriptors).sum(2)[query.blocks.in_body]
    assert likeness.min() > 0.99
    (found,), (expected,) = match_query(back, [maps["b"]]), match_query(query, [maps["b"]])
    assert np.linalg.norm(found.points_ras - expected.points_ras, axis=1).max() < 0.5
    assert len(text) < 10_000 * len(points)


def test_lesions_are_proposed_from_the_record_alone(maps, marked, phantom_pair):
    kept = from_json(json.loads(json.dumps(to_json(keep_queries(marked, maps)))))
    alone, reasons = find_places(kept, ["b"], {"b": maps["b"]})
    assert reasons == {"b": {}}
    for number, name in enumerate(NAMES, start=1):
        found = alone.finding(f"L{number}", "b")
        assert found.guess.source == "a"
        assert np.linalg.norm(found.point_ras - phantom_pair[1].points_ras[name]) < 10.0
    # a record of before
    assert find_places(marked, ["b"], {"b": maps["b"]})[1]["b"].keys() == {"L1", "L2", "L3"}


def test_a_moved_lesion_gets_a_new_query(maps, points, marked):
    kept = keep_queries(marked, maps)
    first = kept.finding("L2", "a").query
    assert keep_queries(kept, maps).finding("L2", "a").query is first
    moved = kept.move("L2", "a", tuple(points[1] - [0.0, 0.0, 10.0]))
    assert moved.finding("L2", "a").query == ""
    assert keep_queries(moved, maps).finding("L2", "a").query not in ("", first)
    other = replace(maps["a"], provenance=replace(maps["a"].provenance, weights_hash="cd" * 32))
    assert keep_queries(kept, {"a": other}).finding("L2", "a").query.startswith("cd" * 32)


@pytest.mark.parametrize(
    "spoil",
    [lambda text: text[:-40], lambda text: text[:65] + "!" + text[66:], lambda text: text[:65]],
)
def test_a_damaged_query_is_reported_and_the_other_lesions_are_proposed(maps, marked, spoil):
    kept = keep_queries(marked, maps)
    kept = kept.keep_query("L2", "a", spoil(kept.finding("L2", "a").query))
    found, reasons = find_places(kept, ["b"], {"b": maps["b"]})
    assert reasons["b"] == {"L2": "L2: its kept query is damaged; load the scan of first."}
    assert [lesion.id for lesion in found.lesions if "b" in lesion.findings] == ["L1", "L3"]


def test_a_query_of_other_weights_is_not_used(maps, marked):
    other = replace(maps["b"], provenance=replace(maps["b"].provenance, weights_hash="cd" * 32))
    _, reasons = find_places(keep_queries(marked, maps), ["b"], {"b": other})
    assert reasons["b"]["L1"] == "L1: is marked in no other loaded study; mark it in a study."
