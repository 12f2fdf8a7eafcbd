"""Test boxes and their files: the files are in LPS, the program uses RAS."""

import json

import numpy as np
import pytest

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbedding.scan.boxes import read_rois, write_rois

BOX = np.array([[-10.0, 20.0, 300.0], [30.0, 50.0, 380.0]])


def test_boxes_are_read_back_as_written(tmp_path):
    path = tmp_path / "scan.roi.mrk.json"
    write_rois(path, {"liver": BOX, "spleen": BOX + 40}, {"liver": "whole"})
    back = read_rois(path)
    assert list(back) == ["liver", "spleen"]
    np.testing.assert_allclose(back["liver"], BOX, atol=1e-9)
    np.testing.assert_allclose(back["spleen"], BOX + 40, atol=1e-9)


def test_the_file_is_in_lps(tmp_path):
    write_rois(tmp_path / "a.mrk.json", {"liver": BOX})
    roi = json.loads((tmp_path / "a.mrk.json").read_text())["markups"][0]
    assert (roi["type"], roi["roiType"], roi["coordinateSystem"]) == ("ROI", "Box", "LPS")
    assert roi["center"] == [-10.0, -35.0, 340.0]  # RAS 10, 35, 340
    assert roi["size"] == [40.0, 30.0, 80.0]
    assert roi["controlPoints"][0]["position"] == roi["center"]


def test_a_turned_box_is_enclosed(tmp_path):
    """A box of 40 x 20 x 10 mm turned by 90 degrees about S, as Slicer saves it, in LPS."""
    turned = {
        "type": "ROI", "name": "R", "coordinateSystem": "LPS",
        "center": [-10.0, -35.0, 340.0], "size": [40.0, 20.0, 10.0],
        "orientation": [0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    }  # fmt: skip
    (tmp_path / "t.mrk.json").write_text(json.dumps({"markups": [turned]}))
    np.testing.assert_allclose(
        read_rois(tmp_path / "t.mrk.json")["R"], [[0, 15, 335], [20, 55, 345]], atol=1e-9
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such file"),
        ("{", "line 1 is not JSON"),
        ('{"markups": [{"type": "ROI", "center": [1, 2]}]}', "without centre or size"),
        (
            '{"markups": [{"type": "ROI", "coordinateSystem": "IJK", "center": [1, 2, 3], "size": [1, 1, 1]}]}',
            "'IJK'",
        ),
        (
            '{"markups": [{"type": "ROI", "center": [1, 2, 3], "size": [1, 1, 1]},'
            ' {"type": "ROI", "center": [1, 2, 3], "size": [1, 1, 1]}]}',
            "two boxes named box",
        ),
    ],
)
def test_files_without_a_box_are_refused(tmp_path, text, says):
    path = tmp_path / "bad.mrk.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PointsError, match=says):
        read_rois(path)
