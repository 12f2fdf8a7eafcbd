"""Actions of a person in the follow-up panel, and functions that read what the panel shows."""

import numpy as np
import vtk
from scans import patient


class Reader:
    """keys: of the patient's studies, in order."""

    def __init__(self, kit, panel) -> None:
        self.kit = kit
        self.panel = panel
        self.ui = panel.ui
        self.logic = panel.logic
        self.choice = panel.choice

    @property
    def keys(self):
        return list(self.logic.volumes)

    @property
    def table(self):
        return self.panel.lesionTable.widget

    def prepare(self):
        self.kit.click(self.panel.preparation.button)
        self.kit.spin(lambda: not self.panel.session.store.busy, 60)
        self.kit.spin(lambda: not self.panel.preparation.button.enabled)

    def mark(self, name, number=0):
        """Press "New lesion" and click on a landmark in a study."""
        self.kit.click(self.ui.newButton)
        self.click_in(number, patient(number).points_ras[name])

    def click_in(self, number, *places):
        """Clicks in a view of a study, as the mouse places points."""
        selection = self.kit.scene.GetNodeByID("vtkMRMLSelectionNodeSingleton")
        node = self.kit.scene.GetNodeByID(selection.GetActivePlaceNodeID())
        for place in places:
            before = node.StartModify()
            index = node.AddControlPointWorld(vtk.vtkVector3d(*place))
            node.SetNthControlPointAssociatedNodeID(
                index, self.logic.volumes[self.keys[number]].GetID()
            )
            node.EndModify(before)
        self.kit.process_events()

    def measure(self, number, long_mm, short_mm=None):
        """Draw the axes of the chosen lesion about its place in a study."""
        middle = self.logic.placeOf(self.choice.lesion, self.keys[number])
        for button, length, way in (
            (self.ui.longAxisButton, long_mm, 0),
            (self.ui.shortAxisButton, short_mm, 1),
        ):
            if length is not None:
                self.kit.click(button)
                half = np.eye(3)[way] * length / 2
                self.click_in(number, middle - half, middle + half)

    def go(self, lesion, number):
        """Click on a cell of the table."""
        row = [each.id for each in self.logic.record.lesions].index(lesion)
        self.table.setCurrentCell(row, number + 1)
        self.kit.process_events()

    def export(self):
        """Press Export."""
        self.kit.click(self.ui.exportButton)

    def press(self, keys):
        """Type while the table has the focus."""
        self.kit.press(self.table, keys)

    def cell(self, row, column):
        return self.table.item(row, column).text().replace("\u2009", "")

    def state(self, lesion, number):
        found = self.logic.record.finding(lesion, self.keys[number])
        return None if found is None else found.state

    def reported(self):
        return self.ui.statusLabel.text


def choose(kit, combo_box, text):
    """Choose an entry as the user does."""
    index = [combo_box.itemText(n) for n in range(combo_box.count)].index(text)
    combo_box.setCurrentIndex(index)
    combo_box.activated.emit(index)
    kit.process_events()


def entries(combo_box):
    return [combo_box.itemText(n) for n in range(combo_box.count)]


def column(table, number):
    return [table.item(row, number).text() for row in range(table.rowCount)]
