# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Double of qSlicerSimpleMarkupsWidget: select a list of points, place them, see them in a table."""

from typing import ClassVar

from PySide6 import QtCore, QtGui, QtWidgets

from slicer_kit.node_selectors import qMRMLNodeComboBox
from slicer_kit.place_widget import POINT_EVENTS, qSlicerMarkupsPlaceWidget
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.scene_observation import SceneObservation


@wrapped
class qSlicerSimpleMarkupsWidget(QtWidgets.QWidget):
    """A node selector, a place widget and a table of the points of the selected node."""

    SIGNALS: ClassVar = {"mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged"}
    mrmlSceneChanged = QtCore.Signal(object)
    markupsNodeChanged = QtCore.Signal()
    markupsFiducialNodeChanged = QtCore.Signal()
    currentMarkupsControlPointSelectionChanged = QtCore.Signal(int)
    updateFinished = QtCore.Signal()
    enterPlaceModeOnNodeChange, setEnterPlaceModeOnNodeChange = stored("enterPlaceModeOnNodeChange", bool, True)
    jumpToSliceEnabled, setJumpToSliceEnabled = stored("jumpToSliceEnabled", bool, False)
    viewGroup, setViewGroup = stored("viewGroup", int, -1)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._observers = SceneObservation(self)
        self._selector = qMRMLNodeComboBox()
        self._selector.nodeTypes = ["vtkMRMLMarkupsFiducialNode"]
        self._selector.noneEnabled = False
        self._place = qSlicerMarkupsPlaceWidget()
        self._table = QtWidgets.QTableWidget(0, 4)
        self._table.setHorizontalHeaderLabels(["Label", "R", "A", "S"])
        top = QtWidgets.QHBoxLayout()
        top.addWidget(self._selector, 1)
        top.addWidget(self._place)
        layout = QtWidgets.QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(top)
        layout.addWidget(self._table)
        self._selector.currentNodeChanged.connect(self._on_node_changed)
        self._table.itemSelectionChanged.connect(self._on_row)

    def setMRMLScene(self, scene) -> None:
        self._selector.setMRMLScene(scene)
        self._place.setMRMLScene(scene)
        self.mrmlSceneChanged.emit(scene)

    def mrmlScene(self):
        return self._selector.mrmlScene()

    def currentNode(self):
        return self._selector.currentNode()

    def setCurrentNode(self, node) -> None:
        self._selector.setCurrentNode(node)

    def setNodeBaseName(self, name: str) -> None:
        self._selector.setBaseName(name)

    def setDefaultNodeColor(self, color: QtGui.QColor) -> None:
        self._place.setDefaultNodeColor(color)

    def setNodeSelectorVisible(self, visible: bool) -> None:
        self._selector.setVisible(visible)

    def setOptionsVisible(self, visible: bool) -> None:
        self._place.setVisible(visible)

    def markupsSelectorComboBox(self) -> qMRMLNodeComboBox:
        return self._selector

    def markupsPlaceWidget(self) -> qSlicerMarkupsPlaceWidget:
        return self._place

    def tableWidget(self) -> QtWidgets.QTableWidget:
        return self._table

    def interactionNode(self):
        return self._place.interactionNode()

    def highlightNthControlPoint(self, index: int) -> None:
        self._table.selectRow(index)

    def _on_node_changed(self, node) -> None:
        self._observers.clear()
        if node is not None:
            self._observers.add(node, POINT_EVENTS, self._show_points)
        self._place.setCurrentNode(node)
        self._show_points()
        self.markupsNodeChanged.emit()
        self.markupsFiducialNodeChanged.emit()

    def _on_row(self) -> None:
        self.currentMarkupsControlPointSelectionChanged.emit(self._table.currentRow())

    def _show_points(self, *_event) -> None:
        node = self.currentNode()
        count = node.GetNumberOfControlPoints() if node is not None else 0
        self._table.setRowCount(count)
        for row in range(count):
            position = node.GetNthControlPointPositionWorld(row)
            texts = [node.GetNthControlPointLabel(row), *(f"{value:.3f}" for value in position)]
            for column, text in enumerate(texts):
                self._table.setItem(row, column, QtWidgets.QTableWidgetItem(text))
        self.updateFinished.emit()

    nodeSelectorVisible = QtCore.Property(bool, lambda self: not self._selector.isHidden(), setNodeSelectorVisible)
    optionsVisible = QtCore.Property(bool, lambda self: not self._place.isHidden(), setOptionsVisible)
    defaultNodeColor = QtCore.Property(QtGui.QColor, lambda self: self._place.defaultNodeColor, setDefaultNodeColor)
