"""Test that Slicer opens the markups that `anatemb landmarks run` writes, measures the same, and saves what is read."""

from pathlib import Path

import numpy as np
import pytest

from AnatomicalEmbedding.landmarks.drawing import (
    Drawing,
    drawing_paths,
    read_drawing,
    write_drawing,
)
from AnatomicalEmbedding.landmarks.markups import QUANTITIES, Markup, measure
from AnatomicalEmbedding.scan.points import PointList

COUNTS = {"Line": 2, "Angle": 3, "Curve": 5, "ClosedCurve": 6, "Plane": 3}
EDGES = np.array([[0.0, 40, 0], [0, 0, 60], [20, 0, 0]])


@pytest.fixture
def drawing() -> Drawing:
    """A point and all kinds of markups; the closed curve is flat, where all definitions of its area agree."""
    rng = np.random.default_rng(2)
    points = {"carina": rng.uniform(-100, 100, 3)}
    markups = []
    for kind, count in COUNTS.items():
        places = rng.uniform(-100, 100, (count, 3))
        if kind == "ClosedCurve":
            turns = 2 * np.pi * np.arange(count) / count
            places = np.stack([50 * np.cos(turns), 30 * np.sin(turns), 0.5 * np.cos(turns)], axis=1)
        labels = tuple(f"my {kind}: {n + 1}" for n in range(count))
        points.update(zip(labels, places, strict=True))
        markups.append(Markup(kind, f"my {kind}", labels))
    for kind in ("Plane", "ROI"):
        label = f"framed {kind}: centre"
        points[label] = rng.uniform(-100, 100, 3)
        markups.append(Markup(kind, f"framed {kind}", (label,)))
    places_ras = np.array(list(points.values()))
    edges_ras = {
        "framed Plane: centre": EDGES * [[1], [1], [0]],
        "framed ROI: centre": EDGES,
    }
    return Drawing(PointList(tuple(points), places_ras), tuple(markups), edges_ras)


@pytest.fixture
def nodes(drawing, scene, logics, tmp_path) -> dict:
    path = tmp_path / "scan.mrk.json"
    write_drawing(path, "scan", drawing, [False] * len(drawing.points))
    logics["Markups"].LoadMarkups(str(path))
    loaded = scene.GetNodesByClass("vtkMRMLMarkupsNode")
    loaded.UnRegister(scene)
    return {
        node.GetName(): node
        for node in map(loaded.GetItemAsObject, range(loaded.GetNumberOfItems()))
    }


def test_slicer_opens_all_kinds_and_measures_the_same(drawing, nodes):
    assert set(nodes) == {"scan", *(f"scan.{markup.name}" for markup in drawing.markups)}
    places = dict(zip(drawing.points.labels, drawing.points.points_ras, strict=True))
    for markup in drawing.markups:
        node = nodes[f"scan.{markup.name}"]
        assert node.GetClassName() == f"vtkMRMLMarkups{markup.kind}Node"
        if markup.kind not in QUANTITIES:
            continue
        quantity, _ = QUANTITIES[markup.kind]
        measurement = node.GetMeasurement(quantity)
        assert measurement.GetEnabled()
        measurement.Compute()
        expected = measure(markup, np.array([places[label] for label in markup.labels]))
        assert measurement.GetValue() == pytest.approx(expected, rel=0.01)


def test_planes_and_boxes_keep_their_place_direction_and_size(drawing, nodes):
    plane, box = nodes["scan.framed Plane"], nodes["scan.framed ROI"]
    assert np.abs(plane.GetNormal()) == pytest.approx([1, 0, 0], abs=1e-6)
    assert plane.GetSize() == pytest.approx((40, 60))
    assert box.GetSize() == pytest.approx((40, 60, 20))
    matrix = box.GetObjectToWorldMatrix()
    axes = np.array([[matrix.GetElement(row, column) for column in range(3)] for row in range(3)])
    assert np.abs(axes) == pytest.approx(np.abs(EDGES / [[40], [60], [20]]).T, abs=1e-6)


def test_what_slicer_saves_is_read_again(drawing, nodes, scene, tmp_path):
    """Each node is saved under its own name, which is what Slicer proposes."""
    folder = tmp_path / "saved"
    folder.mkdir()
    for name, node in nodes.items():
        kind = node.GetMarkupType()
        storage = {
            "Plane": "vtkMRMLMarkupsPlaneJsonStorageNode",
            "ROI": "vtkMRMLMarkupsROIJsonStorageNode",
        }.get(kind, "vtkMRMLMarkupsJsonStorageNode")
        writer = scene.AddNewNodeByClass(storage)
        writer.SetFileName(str(folder / f"{name}.mrk.json"))
        assert writer.WriteData(node)
    again = read_drawing(drawing_paths(Path(folder), "scan"), "scan")
    assert {markup.name: markup for markup in again.markups} == {
        markup.name: markup for markup in drawing.markups
    }
    places = dict(zip(again.points.labels, again.points.points_ras, strict=True))
    assert set(places) == set(drawing.points.labels)
    for label, place in zip(drawing.points.labels, drawing.points.points_ras, strict=True):
        np.testing.assert_allclose(places[label], place, atol=1e-4)
    for label, edges in drawing.edges_ras.items():
        np.testing.assert_allclose(again.edges_ras[label], edges, atol=1e-4)
