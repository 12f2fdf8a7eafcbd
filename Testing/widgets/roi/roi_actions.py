"""Actions of a user in the ROI panel, and functions that read what the panel shows."""

import slicer
import slicer.util


def node(name):
    return slicer.util.getNode(name)


def item_of(panel, title):
    """The entry of the library's list with this text."""
    items = [panel.ui.structureList.item(n) for n in range(panel.ui.structureList.count)]
    return next(item for item in items if item.text() == title)


def tick(panel, *titles):
    from PySide6.QtCore import Qt  # loads libraries that the system may lack

    for title in titles:
        item_of(panel, title).setCheckState(Qt.CheckState.Checked)


def find(kit, panel, *titles):
    """Tick structures and press Find boxes."""
    tick(panel, *titles)
    kit.click(panel.ui.findButton)
    kit.spin(lambda: not panel.boxes.busy, 60)


def cells(table):
    """Texts of a table, row by row."""
    rows = range(table.rowCount)
    columns = range(table.columnCount)
    return [
        [table.item(row, column).text() if table.item(row, column) else "" for column in columns]
        for row in rows
    ]


def boxes(kit):
    return [
        each.GetName() for each in slicer.util.getNodesByClass("vtkMRMLMarkupsROINode", kit.scene)
    ]
