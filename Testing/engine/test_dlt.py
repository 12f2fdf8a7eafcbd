"""DLT's lesion pairs: three of them, made up, with answers worked by hand; and the command that scores them."""

from __future__ import annotations

import json
from pathlib import Path

import compare
import numpy as np
import pytest
from cli_runs import assert_refused
from comparison.dlt import match_images, read_pairs, score_predictions, stack_to_ras
from small_models import analytic_map

from AnatomicalEmbedding.errors import AnatomicalEmbeddingError
from AnatomicalEmbedding.evaluation.lesions import MEANINGS
from AnatomicalEmbedding.scan.geometry import transform_points
from AnatomicalEmbedding.scan.volume import Volume

DLT_R, DLT_10, UAE_R, UAE_10, TLT_R, TLT_10 = MEANINGS


def _pair(
    source: str, target: str, centre: tuple, box: tuple, spacing: tuple, diameter: list, predicted: tuple
) -> dict:
    return {
        "source": source,
        "target": target,
        "source center": [100.0, 100.0, 5.0],
        "target center": list(centre),
        "target box": list(box),
        "target spacing": list(spacing),
        "target recist diameter": diameter,
        "predict target center": list(predicted),
    }


# 1: 3 pixels of 0.8 mm = 2.4 mm and 1 slice of 5 mm: 5.546 mm. Diameter 20 PIXELS: radius 20 / 2 * 0.8 = 8 mm (taken
#    for mm it would be 10). Box 24 x 20 x 4 voxels from (188, 90, 8): holds (203, 100, 11).
# 2: 12 pixels of 1 mm: 12 mm. Diameter 30: radius 15 mm. Box holds (162, 150, 20)? from 138 to 160: no.
# 3: nothing off. Diameter 4 pixels of 0.5 mm: radius 1 mm.
TRUTH = [
    ((200, 100, 10), (188, 90, 8, 24, 20, 4), (0.8, 0.8, 5.0), [20.0, 15.0], (203, 100, 11)),
    ((150, 150, 20), (138, 140, 15, 22, 20, 10), (1.0, 1.0, 1.0), [28.0, 30.0], (162, 150, 20)),
    ((60, 70, 3), (57, 67, 2, 6, 6, 2), (0.5, 0.5, 5.0), [4.0, 3.0], (60, 70, 3)),
]
PAIRS = [_pair("s.nii.gz", f"t{n}.nii.gz", *row) for n, row in enumerate(TRUTH, start=1)]
EXPECTED = {
    DLT_R: 3 / 3,  # 5.546 < 8, 12 < 15, 0 < 1
    DLT_10: 2 / 3,  # 12 > 10
    UAE_R: 2 / 3,
    UAE_10: 2 / 3,
    TLT_R: 3 / 3,  # 3.16, 12 and 0 voxels; diagonals 31.5, 31.4 and 8.7
    TLT_10: 2 / 3,
}


def _write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def test_json(tmp_path: Path) -> Path:
    return _write(tmp_path / "test.json", {f"{n:04}": pair for n, pair in enumerate(PAIRS, start=1)})


@pytest.mark.parametrize(
    "layout", [lambda p: {"0001": p[0], "0002": p[1], "0003": p[2]}, list, lambda p: {"results": p}]
)
def test_each_layout_gives_the_figures_worked_by_hand(tmp_path: Path, layout) -> None:
    pairs = read_pairs(_write(tmp_path / "pairs.json", layout(PAIRS)))
    points = pairs.centre_points()
    np.testing.assert_allclose(points.errors_mm, [np.hypot(2.4, 5.0), 12.0, 0.0])
    np.testing.assert_allclose(points.radius_mm, [8.0, 15.0, 1.0])
    assert points.rates() == pytest.approx(EXPECTED)


def test_predictions_are_found_whatever_their_order_and_rounding(test_json: Path, tmp_path: Path) -> None:
    predicted = [json.loads(json.dumps(pair)) for pair in reversed(PAIRS)]
    for pair in predicted:
        pair["target center"] = [x + 0.04 for x in pair["target center"]]
        pair["predict target center"] = [x - 0.0 for x in TRUTH[[p["target"] for p in PAIRS].index(pair["target"])][0]]
        pair["processing time"] = 2.5
    predictions = read_pairs(_write(tmp_path / "mix.json", {"results": predicted}))
    result = score_predictions(read_pairs(test_json), {"mix": predictions})
    assert list(result.pairs) == ["affine guess in the file", "mix"]
    np.testing.assert_allclose(result.pairs["mix"].centre_points().errors_mm, 0, atol=1e-9)
    assert result.pairs["mix"].seconds.tolist() == [2.5] * 3
    figures = json.loads(result.to_json())["predictions"]
    assert figures["affine guess in the file"]["rates"] == pytest.approx(EXPECTED)
    assert figures["affine guess in the file"]["mean"] == pytest.approx((np.hypot(2.4, 5) + 12) / 3)
    assert figures["mix"]["seconds"] == 2.5


def test_two_lesions_of_the_same_scans_are_distinguished(tmp_path: Path) -> None:
    pairs = [
        dict(PAIRS[0]),
        dict(PAIRS[0]) | {"target center": [300, 300, 10], "predict target center": [301, 300, 10]},
    ]
    truth = read_pairs(_write(tmp_path / "truth.json", pairs))
    turned = read_pairs(_write(tmp_path / "turned.json", pairs[::-1]))
    found = score_predictions(truth, {"turned": turned}).pairs["turned"]
    np.testing.assert_allclose(found.predicted, truth.predicted)


def test_what_cannot_be_scored_is_named(test_json: Path, tmp_path: Path) -> None:
    truth = read_pairs(test_json)
    some = read_pairs(_write(tmp_path / "some.json", PAIRS[:2]))
    with pytest.raises(AnatomicalEmbeddingError, match=r"some: has no prediction for pair 3, s\.nii\.gz to t3"):
        score_predictions(truth, {"some": some})
    bare = [{key: value for key, value in pair.items() if not key.startswith("predict")} for pair in PAIRS]
    with pytest.raises(AnatomicalEmbeddingError, match="give --predictions"):
        score_predictions(read_pairs(_write(tmp_path / "bare.json", bare)), {})


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({}, "no lesion pairs"),
        ({"results": []}, "no lesion pairs"),
        ([{"source": "a"}], "pair 1"),
        ([PAIRS[0], PAIRS[1] | {"target box": [1, 2, 3]}], "pair 2"),
        ([PAIRS[0] | {"target spacing": [0, 1, 1]}], "pair 1"),
        ([PAIRS[0] | {"predict target center": None}], "pair 1"),
        ([7], "pair 1"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path: Path, document: object, says: str) -> None:
    with pytest.raises(AnatomicalEmbeddingError, match=rf"x\.json: .*{says}"):
        read_pairs(_write(tmp_path / "x.json", document))


@pytest.mark.parametrize(
    "axes", [np.eye(3), np.diag([-1.0, -1, 1]), np.diag([-1.0, -1, -1]), np.eye(3)[[2, 0, 1]] * [[1], [-1], [1]]]
)
def test_voxels_count_left_back_and_down_however_the_file_is_stored(axes: np.ndarray) -> None:
    """A patient of 30 x 40 x 50 mm, R from 0, A from 0, S from 100: x 0 is at the right, y 0 in front, z 0 on top."""
    extent = np.array([30.0, 40.0, 50.0])
    spacing = np.array([1.0, 2.0, 5.0])
    size = extent / spacing
    along = np.abs(axes).argmax(axis=0)  # the world axis of each voxel axis
    matrix = np.eye(4)
    matrix[:3, :3] = axes * spacing[along]
    first = np.array([0, 0, 100]) + spacing / 2
    for column, world in enumerate(along):
        if axes[world, column] < 0:
            first[world] += extent[world] - spacing[world]
    matrix[:3, 3] = first
    shape = tuple(int(size[world]) for world in along)[::-1]
    volume = Volume(np.zeros(shape, np.int16), matrix)
    np.testing.assert_allclose(volume.bounds_ras, [[0, 0, 100], [30, 40, 150]])
    to_ras = stack_to_ras(volume)
    np.testing.assert_allclose(transform_points(to_ras, np.zeros((1, 3)))[0], [29.5, 39.0, 147.5])
    np.testing.assert_allclose(transform_points(to_ras, np.array([[4.0, 3.0, 2.0]]))[0], [25.5, 33.0, 137.5])


class _Exact:
    """A model that knows the body: its coordinates are the places in the template, 5 mm higher than in the target."""

    def embed(self, volume):
        up = 0.0 if volume.name == "s" else 5.0
        return analytic_map(lambda ras: ras + [0.0, 0.0, up], (25, 20, 20), (4.0, 4.0, 4.0), (-1.0, -1.0, -2.5))


def test_images_are_matched_in_the_voxels_of_the_file(tmp_path: Path) -> None:
    """Answers 5 mm lower in the patient are one slice of 5 mm later in the stack."""
    voxels = np.full((20, 40, 40), -1000, np.int16)
    voxels[:, 10:30, 10:30] = 40
    for name in ("s.nii.gz", "t1.nii.gz"):
        Volume(voxels, np.diag([2.0, 2.0, 5.0, 1.0])).write(tmp_path / name)
    pair = PAIRS[0] | {"source center": [20.0, 15.0, 4.0]}
    truth = read_pairs(_write(tmp_path / "one.json", [pair]))
    found = match_images(truth, tmp_path, _Exact())
    np.testing.assert_allclose(found.predicted, [[20.0, 15.0, 5.0]], atol=0.02)
    assert found.seconds[0] >= 0


class TestCommand:
    def test_prints_every_meaning_under_its_own_name(self, capsys, test_json: Path, tmp_path: Path) -> None:
        mix = _write(tmp_path / "DLTMix.json", {"results": PAIRS})
        assert compare.main(["dlt", *map(str, (test_json, "--predictions", mix, "-o", tmp_path / "r.md"))]) == 0
        printed = capsys.readouterr().out
        for name, share in EXPECTED.items():
            (line,) = (line for line in printed.splitlines() if line.startswith(name))
            assert line.split()[-2:] == [f"{share:.4f}"] * 2
        assert "DLTMix" in printed
        assert "| " + DLT_R in (tmp_path / "r.md").read_text()

    def test_a_missing_file_is_named(self, capsys, tmp_path: Path) -> None:
        assert compare.main(["dlt", str(tmp_path / "no.json")]) == 2
        assert "no.json: no such file" in capsys.readouterr().err

    def test_counts_that_are_too_small_are_refused(self, anatemb) -> None:
        assert_refused(anatemb("evaluate", "lesions", "--phantoms", "0"), "--phantoms")
        assert_refused(anatemb("evaluate", "lesions", "--studies", "1"), "--studies")
