"""Read what Anatomical Landmarks shows: answers, their places, and the lists of points."""

import numpy as np


def place_of(points, label: str) -> np.ndarray:
    """(3,) world mm of a point of a list."""
    index = next(
        n
        for n in range(points.GetNumberOfControlPoints())
        if points.GetNthControlPointLabel(n) == label
    )
    return world(points, index)


def world(points, index: int = 0) -> np.ndarray:
    """(3,) world mm of a control point."""
    return np.array(points.GetNthControlPointPositionWorld(index))


def new_list(panel):
    """Choose "Create new" in Points."""
    points = panel.ui.pointsSelector.addNode()
    assert panel.ui.pointsSelector.currentNode() is points
    return points


def answer(panel, volume, row: int = 0):
    """The answer to a point in a scan, or None. No answer that is called matched may expect an error of over 20 mm, and
    an uncertain answer in a CT says why, unless its expected error does.
    """
    from AnatomicalEmbeddingLib.shared.VolumeNodes import isFilm

    rows = panel.logic.rows()
    for each in rows:
        for given in each.answers.values():
            assert given.status != "matched" or (given.errorMm or 0.0) <= 20.0, (
                f"matched, {given.errorMm:.1f} mm"
            )
            exact = given.status == "uncertain" and (given.errorMm or 0.0) <= 10.0
            assert given.doubt or not exact or isFilm(volume), (
                f"uncertain, {given.errorMm:.1f} mm, without a reason"
            )
    return rows[row].answers.get(volume.GetID()) if row < len(rows) else None


def answer_place(panel, volume, row: int = 0) -> np.ndarray:
    """(3,) world mm of the answer to a point in a scan."""
    return np.array(panel.logic.answersIn(volume).worldOf(answer(panel, volume, row)))


def cell(panel, row: int, column: int) -> str:
    """Text of the table of matches."""
    return panel.matchTable.widget.item(row, column).text()


def distance(one, other) -> float:
    """mm."""
    return float(np.linalg.norm(np.subtract(one, other)))


def place_point(user, panel, volume, place, orientation: str = "Axial") -> None:
    """Press the place button and click in a scan; the mouse is for looking again afterwards."""
    before = panel.logic.points.GetNumberOfDefinedControlPoints()
    user.start_placing(panel.ui.placeWidget)
    user.views.click(volume, place, orientation)
    user.wait(
        lambda: panel.logic.points.GetNumberOfDefinedControlPoints() == before + 1,
        10,
        "the click places a point",
    )
    user.stop_placing(panel.ui.placeWidget)
