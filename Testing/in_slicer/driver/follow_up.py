"""Actions of a person in Lesion Follow-up, and the texts and values that the module then shows."""

import numpy as np


def keys(panel) -> list[str]:
    """Of the patient's studies, in their order."""
    return list(panel.logic.volumes)


def volumes(panel) -> list:
    """The volume of each study."""
    return list(panel.logic.volumes.values())


def state(panel, lesion: str, number: int) -> str:
    """What is said of a lesion in a study: "marked", "proposed", "confirmed" and so on; "" for nothing."""
    found = panel.logic.record.finding(lesion, keys(panel)[number])
    return "" if found is None else found.state


def place(panel, lesion: str, number: int) -> np.ndarray:
    """(3,) world mm of a lesion in a study."""
    return np.array(panel.logic.placeOf(lesion, keys(panel)[number]))


def mark(user, panel, where, number: int = 0) -> str:
    """Press "New lesion" and click in a study; returns the lesion's number."""
    before = {each.id for each in panel.logic.record.lesions}
    user.click(panel.ui.newButton)
    user.views.click(volumes(panel)[number], where)
    user.wait(
        lambda: len(panel.logic.record.lesions) == len(before) + 1, 10, "the click marks a lesion"
    )
    return next(each.id for each in panel.logic.record.lesions if each.id not in before)


def go_to(user, panel, lesion: str, number: int) -> None:
    """Click on a cell of the table of lesions."""
    row = [each.id for each in panel.logic.record.lesions].index(lesion)
    user.click_cell(panel.lesionTable.widget, row, number + 1)
    user.wait(lambda: (panel.choice.lesion, panel.choice.study) == (lesion, keys(panel)[number]), 5)


def measure(user, panel, lesion: str, number: int, long_mm: float, short_mm: float) -> None:
    """Draw both axes of a lesion about its place in a study, with L and S."""
    go_to(user, panel, lesion, number)
    middle = place(panel, lesion, number)
    for key, length, way in (("L", long_mm, (1, 0, 0)), ("S", short_mm, (0, 1, 0))):
        half = np.array(way) * length / 2
        user.press(key)
        user.wait(lambda: panel.logic.placing.active, 5, "the key asks for an axis")
        for end in (middle - half, middle + half):
            user.views.click(volumes(panel)[number], end)
        user.wait(lambda: not panel.logic.placing.active, 5, "two clicks are an axis")


def size(panel, lesion: str, number: int):
    """Axes of a lesion in a study."""
    return panel.logic.record.finding(lesion, keys(panel)[number]).size


def table_text(table) -> list[list[str]]:
    """All cells of a table."""
    items = [
        [table.item(row, column) for column in range(table.columnCount)]
        for row in range(table.rowCount)
    ]
    return [[item.text() if item is not None else "" for item in row] for row in items]


def point_list(panel, volume):
    """The list that shows the lesions of a study."""
    import slicer

    from AnatomicalEmbeddingLib.followup.LesionNodes import LesionPoints

    return LesionPoints.of(slicer.mrmlScene, volume).node
