"""Test landmark sets on synthetic patients, whose landmarks are known exactly."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cli_runs import rows_of
from cohort_scans import embed_waiting

from AnatomicalEmbedding import load_model
from AnatomicalEmbedding.cohort.store import Store
from AnatomicalEmbedding.embedding.cache import MapCache
from AnatomicalEmbedding.errors import MapError, PointsError
from AnatomicalEmbedding.landmarks.drawing import (
    Drawing,
    drawing_paths,
    read_drawing,
    write_drawing,
)
from AnatomicalEmbedding.landmarks.landmark_set import (
    LandmarkSet,
    make_landmark_set,
    read_landmark_set,
)
from AnatomicalEmbedding.landmarks.markups import Markup, measure
from AnatomicalEmbedding.matching.match import match_all
from AnatomicalEmbedding.matching.status import ABSENT
from AnatomicalEmbedding.phantom import make_phantom
from AnatomicalEmbedding.scan.points import PointList, read_points, write_points
from AnatomicalEmbedding.scan.volume import Volume

SEEDS = (71, 72, 73, 74, 75)
NAMES = (
    "carina",
    "liver_dome",
    "kidney_left_lower_pole",
    "kidney_right_lower_pole",
    "diaphragm_dome_right",
)


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory):
    """With volumes as a file gives them back: a scan is embedded once, from a file or not."""
    path = tmp_path_factory.mktemp("phantom") / "scan.nii.gz"
    made = []
    for seed in SEEDS:
        phantom = make_phantom(seed, spacing=(4.0, 4.0, 4.0), coverage_mm=(150.0, 480.0))
        phantom.volume.write(path)
        made.append(replace(phantom, volume=Volume.read(path)))
    return made


@pytest.fixture(scope="module")
def maps(phantoms, map_folder):
    model = load_model(cache=MapCache(map_folder))
    return [
        model.embed(replace(phantom.volume, name=f"patient {n}"))
        for n, phantom in enumerate(phantoms)
    ]


def marks(phantom, names=NAMES) -> PointList:
    return PointList(names, np.array([phantom.points_ras[name] for name in names]))


def errors_mm(matches, phantom) -> np.ndarray:
    return np.linalg.norm(matches.points_ras - marks(phantom).points_ras, axis=1)


@pytest.fixture(scope="module")
def landmark_set(phantoms, maps) -> LandmarkSet:
    """Made of four patients; the fifth is new."""
    return make_landmark_set(
        [
            (embedding, marks(phantom))
            for embedding, phantom in zip(maps[:4], phantoms, strict=False)
        ]
    )


def test_four_examples_are_better_than_one_and_say_so(landmark_set, phantoms, maps):
    matches = landmark_set.find(maps[4])
    single = [match_all(maps[n], marks(phantoms[n]).points_ras, [maps[4]])[0] for n in range(4)]
    assert errors_mm(matches, phantoms[4]).mean() < np.mean(
        [errors_mm(one, phantoms[4]) for one in single]
    )
    assert np.median(errors_mm(matches, phantoms[4])) < 8.0  # two voxels of 4 mm
    assert matches.expected_error_mm.mean() < np.mean([one.expected_error_mm for one in single])
    assert (matches.probability <= matches.probability_20).all()
    assert (matches.probability_20 <= matches.present + 1e-9).all()


def test_one_example_gives_the_answer_of_match_without_the_image(landmark_set, phantoms, maps):
    one = make_landmark_set([(maps[0], marks(phantoms[0]))])
    (matches,) = match_all(maps[0], marks(phantoms[0]).points_ras, [maps[4]])
    found = one.find(maps[4])
    # kept descriptors are rounded, and the CT numbers are not compared
    assert np.linalg.norm(found.points_ras - matches.points_ras, axis=1).max() < 4.0
    # a set states somewhat more, because answers of one example were less exact than `match` states
    assert found.expected_error_mm.mean() > matches.expected_error_mm.mean()
    assert found.probability.mean() < matches.probability.mean()


def test_a_set_is_the_same_after_writing_and_reading_and_holds_no_name(
    landmark_set, maps, tmp_path
):
    path = tmp_path / "trunk.landmarks.json"
    landmark_set.write(path)
    assert "patient" not in path.read_text()
    again = read_landmark_set(path)
    assert again == landmark_set
    np.testing.assert_array_equal(
        again.find(maps[4]).points_ras, landmark_set.find(maps[4]).points_ras
    )


def test_an_example_that_was_marked_wrongly_has_no_say(phantoms, maps):
    """In one scan, the lower poles of the kidneys are exchanged."""
    wrong = 2
    exchanged = (NAMES[0], NAMES[1], NAMES[3], NAMES[2], NAMES[4])
    scans = []
    for n in range(4):
        points = marks(phantoms[n])
        scans.append((maps[n], replace(points, labels=exchanged) if n == wrong else points))
    wrong_set = make_landmark_set(scans)
    right = make_landmark_set([scan for n, scan in enumerate(scans) if n != wrong])
    for landmark in wrong_set.landmarks:
        is_exchanged = landmark.name in (NAMES[2], NAMES[3])
        expected = [
            0.0 if is_exchanged and e.scan == maps[wrong].provenance.scan_hash else 1.0
            for e in landmark.examples
        ]
        assert landmark.weights.tolist() == expected, landmark.name
    answers, expected_answers = wrong_set.find(maps[4]), right.find(maps[4])
    for name in (NAMES[2], NAMES[3]):
        n, m = wrong_set.names.index(name), right.names.index(name)
        assert np.linalg.norm(answers.points_ras[n] - expected_answers.points_ras[m]) < 1.0


def test_exchanged_names_of_near_landmarks_are_named(phantoms, maps, anatemb, tmp_path):
    """Two points lie 12 mm apart: no farther than answers may be from the truth. One scan is added later."""
    wrong = 1
    names = ("carina", "left of the carina")
    scans = []
    for n in range(3):
        carina = phantoms[n].points_ras["carina"]
        labels = names[::-1] if n == wrong else names
        points = PointList(labels, np.array([carina, carina + (-12.0, 0.0, 0.0)]))
        scans.append((maps[n], points))
    path = tmp_path / "a.landmarks.json"
    make_landmark_set(scans[2:], make_landmark_set(scans[:2])).write(path)
    wrong_scan = maps[wrong].provenance.scan_hash
    rows = json.loads(anatemb("landmarks", "check", path, "--json").out)["landmarks"]
    assert {row["contradicts"] for row in rows} == {
        f"{wrong_scan[:12]} (exchanged with {name}?)" for name in names
    }
    corrected = make_landmark_set(
        [(maps[wrong], replace(scans[wrong][1], labels=names))], read_landmark_set(path)
    )
    assert [landmark.weights.tolist() for landmark in corrected.landmarks] == [[1.0] * 3] * 2


def test_marks_of_a_scan_are_replaced_when_it_is_added_again(landmark_set, phantoms, maps):
    moved = replace(marks(phantoms[0]), points_ras=marks(phantoms[0]).points_ras + 2.0)
    again = make_landmark_set([(maps[0], moved)], landmark_set)
    for before, after in zip(landmark_set.landmarks, again.landmarks, strict=True):
        assert len(after.examples) == len(before.examples)
        (example,) = (e for e in after.examples if e.scan == maps[0].provenance.scan_hash)
        (old,) = (e for e in before.examples if e.scan == maps[0].provenance.scan_hash)
        np.testing.assert_allclose(np.subtract(example.point_ras, old.point_ras), 2.0)


def test_points_that_a_scan_does_not_show_are_absent(landmark_set, map_folder):
    pelvis = make_phantom(76, spacing=(4.0, 4.0, 4.0), coverage_mm=(0.0, 180.0)).volume
    embedding = load_model(cache=MapCache(map_folder)).embed(pelvis)
    matches = landmark_set.find(embedding)
    assert matches.status[landmark_set.names.index("carina")] == ABSENT


def test_sets_that_cannot_be_used_say_why(landmark_set, phantoms, maps, tmp_path):
    path = tmp_path / "a.landmarks.json"
    landmark_set.write(path)
    document = json.loads(path.read_text())
    for change, sentence in (
        ({"format": "x"}, "is not a landmark"),
        ({"version": 2}, "newer version"),
        ({"landmarks": [{"name": "carina", "examples": []}]}, "has no example"),
        ({"landmarks": [{"name": "carina"}]}, "is damaged"),
    ):
        path.write_text(json.dumps(document | change))
        with pytest.raises(PointsError, match=sentence):
            read_landmark_set(path)
    document["landmarks"][0]["examples"][0]["query"] = "abc:def"
    path.write_text(json.dumps(document))
    with pytest.raises(PointsError, match="damaged; make the set again"):
        read_landmark_set(path).find(maps[4])
    with pytest.raises(MapError, match="made with other weights"):
        replace(landmark_set, weights_hash="0" * 64).find(maps[4])
    twice = PointList(("carina", "carina"), marks(phantoms[0]).points_ras[:2])
    with pytest.raises(PointsError, match="two points are called 'carina'"):
        LandmarkSet().with_examples(maps[0], Drawing(twice))


@pytest.fixture
def folder(phantoms, tmp_path):
    """Three marked scans, one of them with a table; a fourth without points."""
    for n, phantom in enumerate(phantoms[:4]):
        phantom.volume.write(tmp_path / "marked" / f"scan{n}.nii.gz")
        if n < 3:
            write_points(
                tmp_path / "marked" / f"scan{n}{'.csv' if n == 2 else '.mrk.json'}", marks(phantom)
            )
    return tmp_path


def test_the_commands_make_a_set_add_to_it_check_it_and_run_it(folder, phantoms, anatemb):
    path = folder / "trunk.landmarks.json"
    made = anatemb("landmarks", "make", folder / "marked", "-o", path, "--terms", "CC BY 4.0")
    assert made.code == 0, made.err
    assert "scan3.nii.gz: has no points beside it" in made.err
    assert read_landmark_set(path).terms == "CC BY 4.0"
    assert [len(landmark.examples) for landmark in read_landmark_set(path).landmarks] == [3] * len(
        NAMES
    )
    write_points(folder / "marked" / "scan3.mrk.json", marks(phantoms[3]))
    made = read_landmark_set(path)
    assert all(example.left_out_mm for item in made.landmarks for example in item.examples)
    added = anatemb("landmarks", "add", path, folder / "marked" / "scan3.nii.gz")
    assert added.code == 0, added.err
    checked = anatemb("landmarks", "check", path, "--json")
    rows = json.loads(checked.out)["landmarks"]
    assert [(row["label"], row["examples"], row["contradicts"]) for row in rows] == [
        (name, 4, None) for name in NAMES
    ]
    phantoms[4].volume.write(folder / "new.nii.gz")
    scans = (folder / "marked" / "scan3.nii.gz", folder / "new.nii.gz")
    (folder / "out" / "scan3.mrk.json").mkdir(parents=True)
    run = anatemb("landmarks", "run", path, *scans, "-o", folder / "out")
    assert run.code == 2, "the answers in the first scan cannot be written"
    assert "1 of 2 scans were skipped" in run.err
    rows = rows_of(folder / "out" / "landmarks.csv")
    assert [(row["label"], row["examples"]) for row in rows] == [(name, "4") for name in NAMES]
    answers = read_points(folder / "out" / "new.mrk.json")
    places = np.array([[float(row[axis]) for axis in "ras"] for row in rows])
    np.testing.assert_allclose(answers.points_ras, places, atol=0.01)
    assert np.median(np.linalg.norm(places - marks(phantoms[4]).points_ras, axis=1)) < 8.0


def test_answers_never_replace_the_marks_of_a_scan(folder, landmark_set, anatemb):
    landmark_set.write(folder / "trunk.landmarks.json")
    marks_before = (folder / "marked" / "scan0.mrk.json").read_bytes()
    scan = folder / "marked" / "scan0.nii.gz"
    run = anatemb(
        "landmarks", "run", folder / "trunk.landmarks.json", scan, "-o", folder / "marked"
    )
    assert run.code == 2
    assert "would be overwritten" in run.err
    assert (folder / "marked" / "scan0.mrk.json").read_bytes() == marks_before


AXIS = Markup("Line", "axis", ("axis: 1", "axis: 2"))
SPREAD = Markup("Angle", "spread", ("spread: 1", "spread: 2", "spread: 3"))
PLANE = Markup("Plane", "level", ("level: centre",))
MARKUP_POINTS = (
    "kidney_left_lower_pole",
    "diaphragm_dome_right",
    "kidney_left_lower_pole",
    "carina",
    "kidney_right_lower_pole",
    "liver_dome",
)
AXIAL_EDGES = np.diag([80.0, 60.0, 0.0])  # of the canonical body


def true_edges(phantom, template_edges, place) -> np.ndarray:
    """Edges of the canonical body at a place of the patient."""
    step = 5.0
    slope = np.stack(
        [
            (phantom.to_body(place + step * axis) - phantom.to_body(place - step * axis))[0]
            / (2 * step)
            for axis in np.eye(3)[:, None]
        ],
        axis=1,
    )
    return np.linalg.solve(slope, template_edges.T).T


def draw(phantom) -> Drawing:
    """The points of the other tests, a line, an angle, and a plane across the canonical body."""
    markups = (AXIS, SPREAD, PLANE)
    labels = (*NAMES, *(label for markup in markups for label in markup.labels))
    places = np.array([phantom.points_ras[name] for name in (*NAMES, *MARKUP_POINTS)])
    edges = true_edges(phantom, AXIAL_EDGES, places[-1:])
    return Drawing(PointList(labels, places), markups, {PLANE.labels[0]: edges})


def normal(edges) -> np.ndarray:
    across = np.cross(edges[0], edges[1])
    return across / np.linalg.norm(across)


def test_lines_angles_and_planes_are_found_in_every_scan(phantoms, anatemb, tmp_path):
    for n, phantom in enumerate(phantoms):
        folder = tmp_path / ("new" if n == 4 else "marked")
        phantom.volume.write(folder / f"scan{n}.nii.gz")
        if n < 4:
            drawing = draw(phantom)
            shown = [False] * len(drawing.points)
            write_drawing(folder / f"scan{n}.mrk.json", f"scan{n}", drawing, shown)
    path = tmp_path / "a.landmarks.json"
    made = anatemb("landmarks", "make", tmp_path / "marked", "-o", path)
    assert made.code == 0, made.err
    landmark_set = read_landmark_set(path)
    assert landmark_set.markups == (AXIS, SPREAD, PLANE)
    run = anatemb("landmarks", "run", path, tmp_path / "new", "-o", tmp_path / "out")
    assert run.code == 0, run.err
    axis, spread = rows_of(tmp_path / "out" / "measurements.csv")
    answers = read_drawing(drawing_paths(tmp_path / "out", "scan4"), "scan4")
    assert answers.markups == (AXIS, SPREAD, PLANE)
    places = dict(zip(answers.points.labels, answers.points.points_ras, strict=True))
    truth = draw(phantoms[4])
    true_places = dict(zip(truth.points.labels, truth.points.points_ras, strict=True))
    for markup, row, unit in ((AXIS, axis, "mm"), (SPREAD, spread, "deg")):
        assert (row["name"], row["kind"], row["unit"]) == (markup.name, markup.kind, unit)
        stated = measure(markup, np.array([places[label] for label in markup.labels]))
        assert float(row["value"]) == pytest.approx(stated, abs=0.01)
        true_value = measure(markup, np.array([true_places[label] for label in markup.labels]))
        assert abs(true_value - stated) < 2 * float(row["margin"])
    (label,) = PLANE.labels
    first_edges = draw(phantoms[0]).edges_ras[label]
    angles = [
        np.degrees(np.arccos(abs(normal(edges) @ normal(truth.edges_ras[label]))))
        for edges in (answers.edges_ras[label], first_edges)
    ]
    assert angles[0] < max(angles[1], 6.0)  # nearer than a plane that keeps its direction


def test_markups_must_be_drawn_alike_in_all_scans(phantoms, maps):
    with_line = make_landmark_set([(maps[0], draw(phantoms[0]))])
    points = marks(phantoms[1], MARKUP_POINTS[2:5])
    other = Drawing(
        PointList(SPREAD.labels, points.points_ras), (Markup("Angle", "axis", SPREAD.labels),)
    )
    with pytest.raises(PointsError, match="'axis' has the kind Angle and 3 points, in other"):
        with_line.with_examples(maps[1], other)


def test_the_scans_of_a_cohort_are_measured_from_their_maps(phantoms, maps, anatemb, tmp_path):
    """The answers are those of the scans themselves, also after the images were removed."""
    path = tmp_path / "a.landmarks.json"
    make_landmark_set(zip(maps[:3], map(draw, phantoms[:3]), strict=True)).write(path)
    scan = tmp_path / "scans" / "scan4.nii.gz"
    phantoms[4].volume.write(scan)
    store = tmp_path / "store"
    with Store(store, create=True) as cohort:
        cohort.add([tmp_path / "scans"])
        embed_waiting(cohort, "auto")
    run = anatemb("landmarks", "run", path, tmp_path / "scans", "-o", tmp_path / "out")
    assert run.code == 0, run.err
    both = anatemb("landmarks", "run", path, store, tmp_path / "scans", "-o", tmp_path / "both")
    assert both.code == 2
    assert "give one cohort, or scans, but not both" in both.err
    scan.unlink()
    run = anatemb("landmarks", "run", path, store, "-o", tmp_path / "stored")
    assert run.code == 0, run.err
    tables = []
    for folder in ("out", "stored"):
        tables.append(rows_of(tmp_path / folder / "measurements.csv"))
    assert [(row["scan"], row["name"], row["value"]) for row in tables[0]] == [
        (row["scan"], row["name"], row["value"]) for row in tables[1]
    ]
    assert "<img" not in (tmp_path / "stored" / "report.html").read_text()
    Store(tmp_path / "empty", create=True).close()
    empty = anatemb("landmarks", "run", path, tmp_path / "empty", "-o", tmp_path / "both")
    assert empty.code == 2
    assert "has no embedded scan yet" in empty.err
