# ruff: noqa: N801, N802, N803, N815 - the names are those of Slicer and Qt
"""Double of qMRMLSegmentSelectorWidget: a segmentation and one or more of its segments."""

from typing import ClassVar

import slicer
from PySide6 import QtCore, QtWidgets

from slicer_kit.node_selectors import qMRMLNodeComboBox
from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.scene_observation import SceneObservation


@wrapped
class qMRMLSegmentSelectorWidget(QtWidgets.QWidget):
    """`currentNode()` and `currentSegmentID()`; the first segment selects itself."""

    SIGNALS: ClassVar = {
        "mrmlSceneChanged(vtkMRMLScene*)": "mrmlSceneChanged",
        "currentNodeChanged(vtkMRMLNode*)": "currentNodeChanged",
        "currentNodeChanged(bool)": "validNodeChanged",
        "currentSegmentChanged(QString)": "currentSegmentChanged",
        "segmentSelectionChanged(QStringList)": "segmentSelectionChanged",
    }
    mrmlSceneChanged = QtCore.Signal(object)
    currentNodeChanged = QtCore.Signal(object)
    validNodeChanged = QtCore.Signal(bool)
    currentSegmentChanged = QtCore.Signal(str)
    segmentSelectionChanged = QtCore.Signal(list)
    multiSelection, setMultiSelection = stored("multiSelection", bool, False, "_populate")
    horizontalLayout, setHorizontalLayout = stored("horizontalLayout", bool, False)

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._observers = SceneObservation(self)
        self._selected: list[str] = []
        self._nodes = qMRMLNodeComboBox()
        self._nodes.nodeTypes = ["vtkMRMLSegmentationNode"]
        self._segments = QtWidgets.QComboBox()
        layout = QtWidgets.QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._nodes)
        layout.addWidget(self._segments)
        self._nodes.currentNodeChanged.connect(self._on_node)
        self._segments.currentIndexChanged.connect(self._on_segment)

    def setMRMLScene(self, scene) -> None:
        self._nodes.setMRMLScene(scene)
        self.mrmlSceneChanged.emit(scene)

    def mrmlScene(self):
        return self._nodes.mrmlScene()

    def currentNode(self):
        return self._nodes.currentNode()

    def currentNodeID(self) -> str:
        return self._nodes.currentNodeID

    def setCurrentNode(self, node) -> None:
        self._nodes.setCurrentNode(node)

    def setCurrentNodeID(self, nodeID: str) -> None:
        self._nodes.setCurrentNodeID(nodeID)

    def currentSegmentID(self) -> str:
        return "" if self.multiSelection else self._segments.currentData or ""

    def setCurrentSegmentID(self, segmentID: str) -> None:
        if not self.multiSelection:
            self._segments.setCurrentIndex(self._segments.findData(segmentID))

    def selectedSegmentIDs(self) -> list[str]:
        return list(self._selected) if self.multiSelection else []

    def setSelectedSegmentIDs(self, segmentIDs: list[str]) -> None:
        if self.multiSelection:
            known = [self._segments.itemData(index) for index in range(self._segments.count)]
            self._selected = [segment for segment in known if segment in segmentIDs]
            self.segmentSelectionChanged.emit(list(self._selected))

    def _on_node(self, node) -> None:
        self._observers.clear()
        if node is not None:
            events = slicer.vtkSegmentation
            changes = (events.SegmentAdded, events.SegmentRemoved, events.SegmentModified)
            self._observers.add(node, changes, self._populate)
            self._observers.add(node.GetSegmentation(), changes, self._populate)
        self._populate()
        self.currentNodeChanged.emit(node)
        self.validNodeChanged.emit(node is not None)

    def _populate(self, *_event) -> None:
        before = self._segments.currentData or ""
        node = self.currentNode()
        segmentation = node.GetSegmentation() if node is not None else None
        self._segments.blockSignals(True)
        self._segments.clear()
        for index in range(segmentation.GetNumberOfSegments() if segmentation is not None else 0):
            segment = segmentation.GetNthSegmentID(index)
            self._segments.addItem(segmentation.GetSegment(segment).GetName(), segment)
        self._segments.setCurrentIndex(max(self._segments.findData(before), 0 if self._segments.count else -1))
        self._segments.blockSignals(False)
        self._segments.setHidden(self.multiSelection)
        if (self._segments.currentData or "") != before:
            self.currentSegmentChanged.emit(self.currentSegmentID())

    def _on_segment(self, _index: int) -> None:
        self.currentSegmentChanged.emit(self.currentSegmentID())

    def setNoneEnabled(self, enabled: bool) -> None:
        self._nodes.noneEnabled = enabled

    def setEditEnabled(self, enabled: bool) -> None:
        self._nodes.editEnabled = enabled

    def setSelectNodeUponCreation(self, select: bool) -> None:
        self._nodes.selectNodeUponCreation = select

    def setSegmentationNodeSelectorVisible(self, visible: bool) -> None:
        self._nodes.setVisible(visible)

    noneEnabled = QtCore.Property(bool, lambda self: self._nodes.noneEnabled, setNoneEnabled)
    editEnabled = QtCore.Property(bool, lambda self: self._nodes.editEnabled, setEditEnabled)
    selectNodeUponCreation = QtCore.Property(
        bool, lambda self: self._nodes.selectNodeUponCreation, setSelectNodeUponCreation
    )
    segmentationNodeSelectorVisible = QtCore.Property(
        bool, lambda self: not self._nodes.isHidden(), setSegmentationNodeSelectorVisible
    )
