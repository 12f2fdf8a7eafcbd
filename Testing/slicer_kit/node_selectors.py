# ruff: noqa: N801, N802, N815 - the names are those of Slicer and Qt
"""Doubles of qMRMLNodeComboBox and qMRMLCheckableNodeComboBox, which list the nodes of the real scene."""

from typing import ClassVar

import slicer
import vtk
from PySide6 import QtCore, QtWidgets

from slicer_kit.pythonqt import stored, wrapped
from slicer_kit.scene_observation import SceneObservation


@wrapped
class qMRMLNodeComboBox(QtWidgets.QWidget):
    """Selects one of the scene's nodes.

    Empty and disabled until setMRMLScene(); without noneEnabled the first node of an empty list selects itself; a node
    that leaves the scene leaves the list.
    """

    SIGNALS: ClassVar = {
        "currentNodeChanged(vtkMRMLNode*)": "currentNodeChanged",
        "nodeAddedByUser(vtkMRMLNode*)": "nodeAddedByUser",
    }
    currentNodeChanged = QtCore.Signal(object)
    nodeAddedByUser = QtCore.Signal(object)

    nodeTypes, setNodeTypes = stored("nodeTypes", "QStringList", [], "_refresh")
    showChildNodeTypes, setShowChildNodeTypes = stored("showChildNodeTypes", bool, True, "_refresh")
    hideChildNodeTypes, setHideChildNodeTypes = stored(
        "hideChildNodeTypes", "QStringList", [], "_refresh"
    )
    noneEnabled, setNoneEnabled = stored("noneEnabled", bool, False, "_refresh")
    noneDisplay, setNoneDisplay = stored("noneDisplay", str, "None", "_on_none_display")
    addEnabled, setAddEnabled = stored("addEnabled", bool, True)
    removeEnabled, setRemoveEnabled = stored("removeEnabled", bool, True)
    renameEnabled, setRenameEnabled = stored("renameEnabled", bool, False)
    baseName, setBaseName = stored("baseName", str, "")

    def __init__(self, parent=None) -> None:
        super().__init__(parent)
        self._scene = self._current = self._leaving = None
        self._listed: list = []
        self._scene_observers = SceneObservation(self)
        self._node_observers = SceneObservation(self)
        self._combo = QtWidgets.QComboBox()
        layout = QtWidgets.QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._combo)
        self._combo.activated.connect(self._on_activated)
        self.setSizePolicy(
            QtWidgets.QSizePolicy.Policy.Preferred, QtWidgets.QSizePolicy.Policy.Fixed
        )
        self._combo.setSizePolicy(
            QtWidgets.QSizePolicy.Policy.Expanding, QtWidgets.QSizePolicy.Policy.Fixed
        )
        self._combo.setMinimumContentsLength(10)
        self.setEnabled(False)

    # -- scene and list

    def mrmlScene(self):
        return self._scene

    def setMRMLScene(self, scene) -> None:
        if scene is self._scene:
            return
        self._scene_observers.clear()
        self._scene = scene
        if scene is not None:
            self._scene_observers.add(
                scene, (scene.NodeAddedEvent, scene.EndCloseEvent), self._on_scene
            )
            self._scene_observers.add(
                scene, (scene.NodeAboutToBeRemovedEvent,), self._on_node_leaves, vtk.VTK_OBJECT
            )
        self.setEnabled(scene is not None)
        self._refresh()

    def _on_scene(self, _caller, _event) -> None:
        self._refresh()

    def _on_node_leaves(self, scene, _event, node) -> None:
        """The list changes before the node leaves: what is selected instead is already there when references to the
        node are cleared."""
        if not scene.IsClosing():
            self._leaving = node
            self._refresh()
            self._leaving = None

    def nodes(self) -> list:
        return list(self._listed)

    def _candidates(self) -> list:
        if self._scene is None or not self.nodeTypes:
            return []
        nodes = [self._scene.GetNthNode(index) for index in range(self._scene.GetNumberOfNodes())]
        return [
            node
            for node in nodes
            if node is not self._leaving and any(map(node.IsA, self.nodeTypes))
        ]

    def _is_shown(self, node) -> bool:
        child = self.showChildNodeTypes and not any(map(node.IsA, self.hideChildNodeTypes))
        listed = child or node.GetClassName() in self.nodeTypes
        return listed and not node.GetHideFromEditors()

    def _refresh(self, select=None) -> None:
        before = self._listed
        row = self._listed.index(self._current) if self._current in self._listed else -1
        candidates = self._candidates()
        self._listed = [node for node in candidates if self._is_shown(node)]
        self._node_observers.clear()
        for node in candidates:
            self._node_observers.add(node, (vtk.vtkCommand.ModifiedEvent,), self._on_node_modified)
        chosen = next((node for node in (select, self._current) if node in self._listed), None)
        if chosen is None and self._listed:
            # it left the list: like QComboBox, take what is now at its place
            if self._current is not None:
                chosen = self._listed[min(row, len(self._listed) - 1)]
            elif not before and not self.noneEnabled:
                chosen = self._listed[0]
        self._show_list(chosen)
        self._select(chosen)

    def _on_none_display(self) -> None:
        """Slicer replaces the model's first item, which moves an empty selector to its first node."""
        self._refresh(
            select=self._current if self._current is not None else next(iter(self._listed), None)
        )

    def _on_node_modified(self, node, _event) -> None:
        if self._scene is None or self._scene.IsClosing():
            return
        if (node in self._listed) != self._is_shown(node):
            self._refresh()
        elif node in self._listed:
            index = self._combo.findData(node.GetID())
            if index >= 0 and self._combo.itemText(index) != node.GetName():
                self._combo.setItemText(index, node.GetName())

    def _show_list(self, chosen) -> None:
        self._combo.blockSignals(True)
        self._combo.clear()
        known = self._scene is not None and self.nodeTypes
        kind = self._scene.GetTypeDisplayNameByClassName(self.nodeTypes[0]) if known else ""
        self._combo.setPlaceholderText(f"Select a {kind or 'node'}")
        if self.noneEnabled and self._scene is not None:
            self._combo.addItem(self.noneDisplay, "")
        for node in self._listed:
            self._combo.addItem(node.GetName(), node.GetID())
        self._combo.setCurrentIndex(
            self._combo.findData(chosen.GetID() if chosen is not None else "")
        )
        self._combo.blockSignals(False)

    # -- selection

    def currentNode(self):
        # while the scene is being closed
        gone = self._current is not None and self._current.GetScene() is None
        return None if gone else self._current

    def setCurrentNode(self, node) -> None:
        if node is not None and not isinstance(node, slicer.vtkMRMLNode):
            raise TypeError(f"setCurrentNode() takes a node, not {node!r}")
        chosen = node if node in self._listed else None
        self._combo.setCurrentIndex(
            self._combo.findData(chosen.GetID() if chosen is not None else "")
        )
        self._select(chosen)

    def _select(self, node) -> None:
        if node is self._current:
            return
        self._current = node
        self.currentNodeChanged.emit(node)

    def _on_activated(self, index: int) -> None:
        identifier = self._combo.itemData(index)
        self.setCurrentNode(
            next((node for node in self._listed if node.GetID() == identifier), None)
        )

    def addNode(self, kind: str = ""):
        """What "Create new ..." does before its own signal. kind: one of `nodeTypes`; default: the first."""
        kind = kind or self.nodeTypes[0]
        base = self.baseName or self._scene.GetTypeDisplayNameByClassName(kind)
        node = self._scene.AddNewNodeByClass(kind, self._scene.GenerateUniqueName(base))
        self.setCurrentNode(node)
        self.nodeAddedByUser.emit(node)
        return node


@wrapped
class qMRMLCheckableNodeComboBox(qMRMLNodeComboBox):
    """Checks any number of the scene's nodes; no parameter can be bound to it."""

    checkedNodesChanged = QtCore.Signal()

    def __init__(self, parent=None) -> None:
        self._checked: list = []
        super().__init__(parent)

    def checkedNodes(self) -> list:
        return [node for node in self._listed if node in self._checked]

    def checkState(self, node) -> QtCore.Qt.CheckState:
        return (
            QtCore.Qt.CheckState.Checked
            if node in self.checkedNodes()
            else QtCore.Qt.CheckState.Unchecked
        )

    def setCheckState(self, node, state) -> None:
        """A node that is not listed stays unchecked."""
        state = QtCore.Qt.CheckState(state)
        if node not in self._listed or self.checkState(node) == state:
            return
        if state == QtCore.Qt.CheckState.Checked:
            self._checked.append(node)
        else:
            self._checked.remove(node)
        self._show_text()
        self.checkedNodesChanged.emit()

    def _refresh(self, select=None) -> None:
        super()._refresh(select)
        gone = [node for node in self._checked if node not in self._listed]
        for node in gone:
            self._checked.remove(node)
        self._show_text()
        if gone:
            self.checkedNodesChanged.emit()

    def _show_text(self) -> None:
        names = ", ".join(node.GetName() for node in self.checkedNodes())
        everything = len(self.checkedNodes()) == len(self._listed) > 1
        self._combo.setCurrentIndex(-1)
        self._combo.setPlaceholderText("All" if everything else names or "None")
