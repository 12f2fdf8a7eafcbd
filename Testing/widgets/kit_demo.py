"""A small scripted module that the tests of the kit write to disk and load."""

from pathlib import Path

MODULE = """
from typing import Annotated

import qt
import slicer
import vtk
from slicer import vtkMRMLMarkupsFiducialNode, vtkMRMLScalarVolumeNode
from slicer.i18n import tr as _
from slicer.parameterNodeWrapper import WithinRange, parameterNodeWrapper
from slicer.ScriptedLoadableModule import *
from slicer.util import VTKObservationMixin


@parameterNodeWrapper
class KitDemoParameterNode:
    scan: vtkMRMLScalarVolumeNode
    scans: list[vtkMRMLScalarVolumeNode]
    points: vtkMRMLMarkupsFiducialNode
    score: Annotated[float, WithinRange(0, 1)] = 0.5
    count: int = 3
    jump: bool = True


class KitDemo(ScriptedLoadableModule):
    def __init__(self, parent):
        super().__init__(parent)
        parent.title = _("Kit demo")
        slicer.app.connect("startupCompleted()", registerSampleData)


def registerSampleData():
    import SampleData

    SampleData.SampleDataLogic.registerCustomSampleDataSource(
        category="Demo", sampleName="One", uris="https://example.org/one.nrrd", fileNames="one.nrrd", nodeNames="One"
    )


class KitDemoWidget(ScriptedLoadableModuleWidget, VTKObservationMixin):
    def __init__(self, parent=None):
        ScriptedLoadableModuleWidget.__init__(self, parent)
        VTKObservationMixin.__init__(self)
        self.calls = []

    def setup(self):
        super().setup()
        panel = slicer.util.loadUI(self.resourcePath("UI/KitDemo.ui"))
        self.layout.addWidget(panel)
        self.ui = slicer.util.childWidgetVariables(panel)
        panel.setMRMLScene(slicer.mrmlScene)
        self.logic = KitDemoLogic()
        self.node = KitDemoParameterNode(self.logic.getParameterNode())
        widgets = {widget.property("SlicerParameterName"): widget for widget in vars(self.ui).values()}
        self.tag = self.node.connectParametersToGui({name: each for name, each in widgets.items() if name})
        self.addObserver(self.node, vtk.vtkCommand.ModifiedEvent, self.onModified)
        scene = slicer.mrmlScene
        self.addObserver(scene, scene.StartCloseEvent, lambda *_: self.calls.append("start close"))
        self.addObserver(scene, scene.EndCloseEvent, lambda *_: self.calls.append("end close"))
        self.ui.applyButton.connect("clicked(bool)", self.onApply)

    def onModified(self, caller, event):
        self.calls.append("modified")

    def onApply(self):
        with slicer.util.tryWithErrorDisplay(_("Demo failed."), waitCursor=True):
            self.logic.run(self.node.scan)

    def enter(self):
        self.calls.append("enter")

    def exit(self):
        self.calls.append("exit")

    def cleanup(self):
        self.calls.append("cleanup")
        self.removeObservers()


class KitDemoLogic(ScriptedLoadableModuleLogic):
    def run(self, scan):
        raise ValueError("no engine")
"""

_SCENE_CONNECTION = """
  <connection><sender>KitDemo</sender><signal>mrmlSceneChanged(vtkMRMLScene*)</signal>
   <receiver>{receiver}</receiver><slot>setMRMLScene(vtkMRMLScene*)</slot></connection>"""

UI = """<?xml version="1.0" encoding="UTF-8"?>
<ui version="4.0"><class>KitDemo</class>
<widget class="qMRMLWidget" name="KitDemo"><layout class="QVBoxLayout" name="outer">
 <item><widget class="ctkCollapsibleButton" name="inputs">
  <property name="text"><string>Inputs</string></property>
  <layout class="QFormLayout" name="form">
   <item row="0" column="1"><widget class="qMRMLNodeComboBox" name="scanSelector">
    <property name="nodeTypes"><stringlist><string>vtkMRMLScalarVolumeNode</string></stringlist></property>
    <property name="SlicerParameterName" stdset="0"><string>scan</string></property></widget></item>
   <item row="1" column="1"><widget class="qMRMLCheckableNodeComboBox" name="scansSelector">
    <property name="nodeTypes"><stringlist><string>vtkMRMLScalarVolumeNode</string></stringlist></property>
    </widget></item>
   <item row="2" column="1"><widget class="qMRMLNodeComboBox" name="pointsSelector">
    <property name="nodeTypes"><stringlist><string>vtkMRMLMarkupsFiducialNode</string></stringlist></property>
    <property name="noneEnabled"><bool>true</bool></property>
    <property name="SlicerParameterName" stdset="0"><string>points</string></property></widget></item>
   <item row="3" column="1"><widget class="qSlicerMarkupsPlaceWidget" name="placeWidget"/></item>
   <item row="4" column="1"><widget class="ctkSliderWidget" name="scoreSlider">
    <property name="singleStep"><double>0.01</double></property>
    <property name="SlicerParameterName" stdset="0"><string>score</string></property></widget></item>
   <item row="5" column="1"><widget class="QSpinBox" name="countBox">
    <property name="SlicerParameterName" stdset="0"><string>count</string></property></widget></item>
   <item row="7" column="1"><widget class="QCheckBox" name="jumpBox">
    <property name="SlicerParameterName" stdset="0"><string>jump</string></property></widget></item>
  </layout></widget></item>
 <item><widget class="QPushButton" name="applyButton"><property name="text"><string>Apply</string></property></widget>
 </item>
 <item><widget class="QTableWidget" name="table"><property name="columnCount"><number>2</number></property></widget>
 </item>
</layout></widget>
<connections>SCENE_CONNECTIONS
 <connection><sender>pointsSelector</sender><signal>currentNodeChanged(vtkMRMLNode*)</signal>
  <receiver>placeWidget</receiver><slot>setCurrentNode(vtkMRMLNode*)</slot></connection>
</connections></ui>
"""

ALL_SELECTORS = ("scanSelector", "scansSelector", "pointsSelector", "placeWidget")


def write_demo(folder: Path, connected: tuple[str, ...] = ALL_SELECTORS, replace: tuple[str, str] = ("", "")) -> Path:
    """Write the module; `connected` widgets get the scene, `replace` changes the .ui file. Returns the .py."""
    connections = "".join(_SCENE_CONNECTION.format(receiver=receiver) for receiver in connected)
    ui = UI.replace("SCENE_CONNECTIONS", connections)
    if replace[0]:
        assert replace[0] in ui
        ui = ui.replace(*replace)
    (folder / "Resources" / "UI").mkdir(parents=True)
    (folder / "Resources" / "UI" / "KitDemo.ui").write_text(ui, encoding="utf-8")
    path = folder / "KitDemo.py"
    path.write_text(MODULE, encoding="utf-8")
    return path
