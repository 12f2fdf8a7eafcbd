"""Test which relation two scans get: by registration or by their maps; and what the cache keeps."""

from dataclasses import replace

import numpy as np
import pytest

from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.errors import CancelledError
from AnatomicalEmbedding.matching.match import match
from AnatomicalEmbedding.matching.status import MATCHED, UNCERTAIN
from AnatomicalEmbedding.registration import BY_MATCH, BY_REGISTRATION
from AnatomicalEmbedding.registration.correspondence import Correspondence
from AnatomicalEmbedding.relations.one_patient import MappedScan, correspondence_of
from AnatomicalEmbedding.relations.relate import relate
from AnatomicalEmbedding.relations.relation import MapRelation, matches_in_all
from AnatomicalEmbedding.scan.volume import Volume

NAME = "Miller"  # of all scans


@pytest.fixture(scope="session")
def pair_cache(tmp_path_factory) -> MapCache:
    """One cache for the module, so that each two scans are registered once."""
    return MapCache(tmp_path_factory.mktemp("pairs"))


def mapped(volume: Volume, embedding: EmbeddingMap) -> MappedScan:
    provenance = replace(embedding.provenance, scan=NAME)
    return MappedScan(
        replace(volume, name=NAME, patient_id="4711"), replace(embedding, provenance=provenance)
    )


@pytest.fixture(scope="session")
def scans(bent_pair) -> tuple[MappedScan, MappedScan]:
    """The bent copy, and the patient: one Patient ID in both."""
    one, other = map(mapped, bent_pair.volumes, bent_pair.maps)
    return one, other


@pytest.fixture(scope="session")
def strangers(scans, phantom_pair, map_folder) -> tuple[MappedScan, MappedScan]:
    from AnatomicalEmbedding import load_model

    volume = phantom_pair[1].volume
    return scans[1], mapped(volume, load_model(cache=MapCache(map_folder)).embed(volume))


def stopped() -> bool:
    return True


@pytest.fixture(scope="session")
def field(scans, pair_cache) -> Correspondence:
    return correspondence_of(*scans, pair_cache)


def named(scan: MappedScan, patient_id: str) -> MappedScan:
    return scan._replace(volume=replace(scan.volume, patient_id=patient_id))


def test_a_target_without_a_correspondence_is_matched_as_ever(scans, field, bent_pair):
    points = bent_pair.points_ras[:5]
    by_maps = [MapRelation(scans[0].map, target.map) for target in scans]
    answers = matches_in_all([by_maps[1], field, by_maps[0]], points)
    for answer, target in ((answers[0], scans[1]), (answers[2], scans[0])):
        expected = match(scans[0].map, points, target.map)
        np.testing.assert_allclose(answer.points_ras, expected.points_ras, atol=1e-3)
    np.testing.assert_array_equal(answers[1].points_ras, field.points(points).points_ras)


@pytest.mark.parametrize(
    ("ids", "same_patient", "is_paired"),
    [
        (("4711", "4711"), None, True),
        (("4711", "4712"), None, False),
        (("", ""), None, False),  # two scans without Patient ID
        (("4711", "4711"), False, False),
        (("4711", "4712"), True, True),
    ],
)
def test_the_patient_id_decides_unless_the_user_does(
    scans, field, pair_cache, ids, same_patient, is_paired
):
    one, other = map(named, scans, ids)
    relation = relate(one, other, same_patient=same_patient, cache=pair_cache)
    assert relation.found_by == (BY_REGISTRATION if is_paired else BY_MATCH)
    assert relation.refusal == ""


def test_a_user_who_calls_two_people_one_patient_gets_uncertain_matches(strangers, pair_cache):
    one, other = strangers
    relation = relate(one, other, same_patient=True, cache=pair_cache)
    assert "one patient" in relation.refusal
    points = (
        one.map.body_index.numpy()[::17] @ one.map.cell_to_ras[:3, :3].T
        + one.map.cell_to_ras[:3, 3]
    )
    doubted = relation.points(points)
    plain = MapRelation(one.map, other.map).points(points)
    np.testing.assert_allclose(doubted.points_ras, plain.points_ras, atol=1e-3)
    was_matched = plain.status == MATCHED
    assert was_matched.any()
    assert (doubted.status[was_matched] == UNCERTAIN).all()
    assert (doubted.status[~was_matched] == plain.status[~was_matched]).all()


def test_pairs_and_refusals_are_kept_without_the_names_of_scans(
    scans, field, strangers, pair_cache
):
    """Without the user's word, strangers are matched, and not called uncertain."""
    one, other = strangers
    assert relate(one, other, cache=pair_cache) == MapRelation(one.map, other.map)
    pair_cache.put(one.map)
    kept = list(pair_cache.folder.iterdir())
    assert len(kept) == 3
    assert not any(NAME.encode() in path.read_bytes() for path in kept)
    (refusal,) = (path for path in kept if path.read_bytes().startswith(b"the"))
    refusal.write_text("Different bones; kept for the test.")  # the answer comes from this file
    again = relate(other, one, same_patient=True, cache=pair_cache)
    assert again.refusal == "Different bones; kept for the test."


def test_a_stopped_pair_leaves_nothing_and_a_damaged_file_is_replaced(scans, tmp_path, field):
    cache = MapCache(tmp_path)
    with pytest.raises(CancelledError):
        correspondence_of(*scans, cache, cancelled=stopped)
    assert list(tmp_path.iterdir()) == []
    path = cache.pair_path(
        *sorted((scan.map.provenance for scan in scans), key=lambda made: made.scan_hash)
    )
    path.write_bytes(b"damaged")
    with pytest.raises(CancelledError):
        correspondence_of(*scans, cache, cancelled=stopped)
    field_or_inverse = (
        field
        if scans[0].map.provenance.scan_hash < scans[1].map.provenance.scan_hash
        else field.inverse()
    )
    field_or_inverse.save(path)
    points = (
        scans[0].map.body_index.numpy()[:3] @ scans[0].map.cell_to_ras[:3, :3].T
        + scans[0].map.cell_to_ras[:3, 3]
    )
    kept = correspondence_of(*scans, cache, cancelled=stopped)
    np.testing.assert_array_equal(kept.points(points).points_ras, field.points(points).points_ras)
