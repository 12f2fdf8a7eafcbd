"""Test the evaluation of points derived from outlines, with the shipped weights on synthetic patients."""

import json
from pathlib import Path

import evaluate
import SimpleITK as sitk
from evaluations.points import PointResult, PointResults


def test_every_row_counts_its_own_results() -> None:
    found = PointResults(
        "m",
        (
            PointResult("match", "a", "b", "carina", 4.0, "matched", 8.0),
            PointResult("match", "b", "a", "carina", 16.0, "uncertain", 12.0),
            PointResult("words", "", "a", "carina", None, "outside", None),
            PointResult("words", "", "b", "carina", 6.0, "inside", 0.7),
        ),
    )
    matching, words = ({row[0]: row[1:] for row in section.rows} for section in found.sections())
    assert matching["carina"] == (
        "2",
        "0",
        "10.0",
        "10.0",
        "14.8",
        "50%",
        "10",
        "50%",
        "4.0",
        "50%",
    )
    assert words["all"] == ("2", "1", "6.0", "6.0", "6.0", "50%", "0.7", "50%", "6.0", "0%")
    assert json.loads(found.to_json())["results"][2]["error_mm"] is None


def test_a_folder_whose_labels_show_no_point_is_refused(capsys, tmp_path: Path) -> None:
    image = sitk.Image(4, 4, 4, sitk.sitkInt16)
    sitk.WriteImage(image, str(tmp_path / "a.nii.gz"))
    sitk.WriteImage(sitk.Cast(image, sitk.sitkUInt8), str(tmp_path / "a.seg.nii.gz"))
    (tmp_path / "a.labels.json").write_text('{"1": "liver"}')
    assert evaluate.main(["points", str(tmp_path)]) == 2
    assert "can be derived from the label maps" in capsys.readouterr().err
