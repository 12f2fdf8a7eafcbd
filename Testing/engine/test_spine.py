"""Test the order of the spine: levels of analytic spines and synthetic patients, and the correction of coordinates."""

from dataclasses import replace

import numpy as np
import pytest
from exact_patients import USUAL_MM, exact_map, patient
from small_models import analytic_map

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.anatomy.names import VERTEBRAE
from AnatomicalEmbedding.embedding.map import EmbeddingMap
from AnatomicalEmbedding.embedding.spine_reading import read_spine
from AnatomicalEmbedding.errors import MapError
from AnatomicalEmbedding.scan.volume import Volume
from AnatomicalEmbedding.spine.average import SIZE_MM
from AnatomicalEmbedding.spine.course import Course
from AnatomicalEmbedding.spine.fitting import fit_levels
from AnatomicalEmbedding.spine.signs import Signs

BORDERS = 100.0 + np.append(0, np.cumsum(SIZE_MM[::-1]))[::-1]  # of a regular spine, head first
HEIGHT_MM = (BORDERS[1:] + BORDERS[:-1]) / 2  # middles of its vertebrae
EDGES = BORDERS[1:-1]
REGULAR = np.stack([0 * HEIGHT_MM, HEIGHT_MM], axis=1)
NO_RIBS = Signs(np.zeros(1), np.zeros(1))
SHOWN = ("T8", "T9", "T10", "T11", "T12", "L1", "L2", "L3")


def analytic_spine(low: float, high: float, error: float = 0.0, edges: np.ndarray = EDGES):
    """A straight spine in the scan from S = low to high mm, a disc at each edge, coordinates `error` off."""
    heights = np.arange(low, high, 4.0)
    at = np.arange(low - 2, high + 2, 1.5)
    disc = 2.0 * np.exp(-np.square(np.abs(at[:, None] - edges[None]).min(axis=1) / 3.0)) - 0.5
    return Course(heights, np.zeros((len(heights), 2)), heights + error), Signs(at, disc)


def fit(spine, ends=None, ribs=NO_RIBS):
    return fit_levels(*spine, ends or {}, ribs, REGULAR)


def has_ribs(low: float, high: float, last: str):
    """What `rib_signs` returns if `last` is the lowest vertebra with ribs."""
    at = np.arange(low, high, 3.0)
    return Signs(at, np.where(at > EDGES[VERTEBRAE.index(last)], 2.0, -2.0))


@pytest.mark.parametrize("error", [-14.0, 0.0, 14.0])
def test_levels_are_right_where_coordinates_are_half_a_vertebra_off(error):
    spine = fit(analytic_spine(110.0, 420.0, error))
    for name, centre in zip(spine.names, spine.centres_ras, strict=True):
        if spine.whole[spine.names.index(name)]:
            assert abs(centre[2] - HEIGHT_MM[VERTEBRAE.index(name)]) < 6.0
    assert np.allclose(spine.shift_mm, -error, atol=6.0)


@pytest.mark.parametrize("error", [-22.0, 22.0])
@pytest.mark.parametrize("anchor", ["sacrum", "ribs"])
def test_where_coordinates_are_nearest_to_the_next_vertebra_the_level_is_counted_from_an_anchor(
    error, anchor
):
    shown = analytic_spine(110.0, 330.0, error)
    ends = {"sacrum": EDGES[VERTEBRAE.index("L5")] + 14} if anchor == "sacrum" else {}
    ribs = has_ribs(110.0, 330.0, "T12") if anchor == "ribs" else NO_RIBS
    counted = fit(shown, ends, ribs)
    free = fit(shown)
    assert counted.shift_mm[counted.whole] == pytest.approx(-error, abs=7.0)
    assert free.chance.max() < 0.6 < counted.chance.max()
    assert counted.anchors == (anchor,)


def test_a_patient_with_six_lumbar_vertebrae_is_counted_from_the_sacrum():
    """The ribs end one vertebra higher; counted from the sacrum, the levels near the sacrum are still right."""
    usual, spine = (
        fit(analytic_spine(110.0, 400.0), {"sacrum": EDGES[-1] + 14}, has_ribs(110.0, 400.0, last))
        for last in ("T12", "T11")
    )
    for name in ("L3", "L4", "L5"):
        at = spine.bounds_s[spine.names.index(name)].mean()
        assert abs(at - HEIGHT_MM[VERTEBRAE.index(name)]) < 6.0
    assert spine.chance[spine.names.index("T11")] < usual.chance[usual.names.index("T11")]


def test_ends_of_the_spine_that_contradict_each_other_are_no_anchors():
    """The lung apices fit, but the sacrum lies one vertebra too low, as in a patient with six lumbar vertebrae."""
    apices = EDGES[VERTEBRAE.index("C7")] - 6.0
    agreed, contradicted = (
        fit(
            analytic_spine(110.0, 600.0),
            {"lung apices": apices, "sacrum": EDGES[VERTEBRAE.index("L5")] + 14 - low},
        )
        for low in (0.0, 34.0)
    )
    assert agreed.anchors == ("lung apices", "sacrum")
    assert contradicted.anchors == ()


def test_a_scan_without_a_spine_has_none():
    aside = analytic_map(lambda p: p + (300, 0, 100))  # all coordinates lie 30 cm beside the spine
    voxels = np.zeros(aside.scan_shape, dtype=np.int16)
    assert read_spine(aside, Volume(voxels, aside.scan_to_ras)) is None


@pytest.fixture(scope="module")
def shown():
    return patient(404)


def wrong_at_spine(body: np.ndarray) -> np.ndarray:
    """Move coordinates within 6 cm of the spine up by 10 mm, nearly half a vertebra."""
    ahead = body[:, 1] - np.interp(body[:, 2], USUAL_MM[::-1, 1], USUAL_MM[::-1, 0])
    near = np.exp(-np.square(np.maximum(np.hypot(body[:, 0], ahead) - 40, 0) / 12) / 2)
    return body + near[:, None] * (0, 0, 10)


def error_at(embedding: EmbeddingMap, shown, names) -> np.ndarray:
    """Error of body heights, mm, at middles of vertebrae."""
    points = np.array([shown.points_ras[f"vertebrae_{name}"] for name in names])
    return embedding.sample(points)[:, 2] - shown.to_body(points)[:, 2]


def test_the_correction_gives_each_vertebra_its_usual_coordinate_and_leaves_the_organs(shown):
    embedding = exact_map(shown, wrong_at_spine)
    raw = embedding.with_spine(None)
    before, after = (np.abs(error_at(each, shown, SHOWN)) for each in (raw, embedding))
    assert before.mean() > 8
    assert after.mean() < before.mean() / 2
    names = [embedding.spine.names[n] for n in embedding.spine.nearest(np.array(
        [shown.points_ras[f"vertebrae_{name}"][2] for name in SHOWN]))]  # fmt: skip
    assert sum(a == b for a, b in zip(names, SHOWN, strict=True)) >= len(SHOWN) - 1
    organs = np.array(
        [shown.points_ras[name] for name in ("liver_dome", "spleen_centre", "kidney_left_centre")]
    )
    assert np.abs(embedding.sample(organs) - raw.sample(organs)).max() < 1.0


def test_a_bright_aorta_does_not_draw_the_course_out_of_the_bone(shown):
    numbers = {name: number for number, name in shown.label_names.items()}
    voxels = np.where(shown.labels == numbers["aorta"], 400, shown.volume.voxels)
    bright = replace(shown.volume, voxels=voxels.astype(np.int16))
    plain, filled = (
        exact_map(replace(shown, volume=volume)).spine for volume in (shown.volume, bright)
    )
    offset = np.interp(plain.course[:, 2], filled.course[:, 2], filled.course[:, 1])
    assert np.abs(offset - plain.course[:, 1]).max() < 5


def test_both_phases_of_a_patient_have_one_course(real_data):
    model = load_model("ct-open", "cpu")
    scans = [real_data / "dev" / f"waw0697_{phase}.nii.gz" for phase in ("ap", "eqp")]
    arterial, later = (model.embed(scan).spine.course for scan in scans)
    shared = np.arange(max(arterial[0, 2], later[0, 2]), min(arterial[-1, 2], later[-1, 2]), 5)
    ahead = [np.interp(shared, course[:, 2], course[:, 1]) for course in (arterial, later)]
    assert np.abs(np.subtract(*ahead)).max() < 6


def test_a_map_file_keeps_the_spine(shown, tmp_path):
    embedding = exact_map(shown)
    embedding.save(tmp_path / "a.map.safetensors")
    read = EmbeddingMap.load(tmp_path / "a.map.safetensors").spine
    assert (read.names, read.anchors) == (embedding.spine.names, embedding.spine.anchors)
    for name in ("centres_ras", "bounds_s", "chances", "shift_mm", "course", "course_shift_mm"):
        assert np.allclose(getattr(read, name), getattr(embedding.spine, name), atol=1e-3)
    assert (read.whole == embedding.spine.whole).all()
    damaged = replace(
        embedding, spine=replace(embedding.spine, shift_mm=embedding.spine.shift_mm * np.nan)
    )
    damaged.save(tmp_path / "b.map.safetensors")
    with pytest.raises(MapError, match="damaged"):
        EmbeddingMap.load(tmp_path / "b.map.safetensors")
