"""Test the table of places that `anatemb cohort find` writes, and scans loaded at these places."""

import numpy as np
import pytest
import slicer.util
from polling import poll_until
from scans import patient
from view_nodes import add_view

from AnatomicalEmbedding.errors import PointsError
from AnatomicalEmbeddingLib.cohort.CohortHits import CohortHits
from AnatomicalEmbeddingLib.cohort.CohortPlaces import readPlaces
from AnatomicalEmbeddingLib.shared import Views
from AnatomicalEmbeddingLib.shared.VolumeNodes import ctVolumes, ijkToRas

HEADER = "scan,status,probability,expected_error_mm,r,a,s\n"


@pytest.fixture
def table(tmp_path):
    """places.csv of two patients who have a carina, a head that has none, and a file that is gone."""
    lines = []
    for number in (0, 1):
        path = tmp_path / f"patient {number}.nii"
        patient(number).volume.write(path)
        place = ",".join(f"{x:.2f}" for x in patient(number).points_ras["carina"])
        lines.append(f"{path},matched,0.93,4.1,{place}")
    lines += [
        f"{tmp_path / 'gone.nii'},uncertain,,,1,2,3",
        f"{tmp_path / 'head.nii'},absent,0.01,,,,",
    ]
    written = tmp_path / "places.csv"
    written.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    return written


@pytest.fixture
def hits(scene):
    made = CohortHits(scene)
    yield made
    made.close()


def settle(hits):
    poll_until(lambda: hits.loading is None, hits.poll)


def middle(view) -> np.ndarray:
    return slicer.util.arrayFromVTKMatrix(view.GetSliceToRAS())[:3, 3]


def test_a_scan_is_read_and_shown_at_its_place(scene, hits, table):
    views = [
        add_view(scene, tag, None, orientation)
        for tag, orientation in (("Red", "Axial"), ("Green", "Coronal"))
    ]
    hits.open(table)
    assert len(hits.places) == 3
    assert hits.absent == 1
    hits.show(hits.places[0])
    settle(hits)
    (node,) = ctVolumes(scene)
    assert node.GetName() == "patient 0"
    assert np.array_equal(slicer.util.arrayFromVolume(node), patient(0).volume.voxels)
    assert np.allclose(ijkToRas(node), patient(0).volume.ijk_to_ras)
    assert Views.viewsOf(scene, node) == views
    for view in views:
        assert np.allclose(middle(view), patient(0).points_ras["carina"], atol=0.01)


def test_what_cannot_be_read_is_a_sentence(scene, hits, table):
    said = []
    hits.reported.connect(said.append)
    hits.open(table)
    hits.show(hits.places[2])
    settle(hits)
    assert "gone.nii" in said[0]
    assert "moved" in said[0]
    hits.open(table.parent)
    assert len(said) == 2
    assert len(hits.places) == 3
    assert ctVolumes(scene) == []


def test_a_closed_scene_ends_the_reading_and_keeps_the_list(scene, hits, table):
    hits.open(table)
    hits.show(hits.places[0])
    scene.Clear(False)
    settle(hits)
    assert ctVolumes(scene) == []
    assert len(hits.places) == 3


BAD = {
    "empty": b"",
    "another table": b"scan,r,a,s\nx.nii,1,2,3\n",
    "no text": b"\xff\xfe\x00\x00" * 20,
    "a damaged quote": HEADER.encode() + b'"x.nii,matched,,,1,2,3',
    "too few values": HEADER.encode() + b"x.nii,matched\n",
    "too many values": HEADER.encode() + b"x.nii,matched,,,1,2,3,4\n",
    "no number": HEADER.encode() + b"x.nii,matched,,,1,two,3\n",
    "no finite number": HEADER.encode() + b"x.nii,matched,,,1,nan,3\n",
    "half a place": HEADER.encode() + b"x.nii,matched,,,1,,3\n",
    "a status of none": HEADER.encode() + b"x.nii,perhaps,,,1,2,3\n",
    "no scan": HEADER.encode() + b",matched,,,1,2,3\n",
    "a large field": HEADER.encode() + b"x" * 200_000 + b",matched,,,1,2,3\n",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_bad_tables_are_refused_by_name(tmp_path, content):
    path = tmp_path / "places.csv"
    path.write_bytes(content)
    with pytest.raises(PointsError, match=r"places\.csv"):
        readPlaces(path)


def test_a_table_that_the_command_wrote_is_read(tmp_path):
    from AnatomicalEmbedding.cli.cohort import COLUMNS
    from AnatomicalEmbedding.files import write_table

    rows = [
        ["a, b.nii", "matched", 0.9, 3.2, 1.5, -2.0, 3.0],
        ['"c"#1.2', "uncertain", "", "", 0.0, 0.0, 0.0],
    ]
    write_table(tmp_path / "places.csv", COLUMNS, [*rows, ["d", "absent", 0.01, "", "", "", ""]])
    first, second, third = readPlaces(tmp_path / "places.csv")
    assert first.scan == "a, b.nii"
    assert first.place.tolist() == [1.5, -2.0, 3.0]
    assert (second.scan, second.probability, second.errorMm) == ('"c"#1.2', None, None)
    assert third.place is None


def test_scans_of_one_file_name_are_told_apart_by_their_folders(tmp_path):
    path = tmp_path / "places.csv"
    path.write_text(
        HEADER
        + "".join(f"/scans/{folder}/ct.nii.gz,matched,,,1,2,3\n" for folder in ("one", "two"))
    )
    assert [each.name for each in readPlaces(path)] == ["one_ct", "two_ct"]
