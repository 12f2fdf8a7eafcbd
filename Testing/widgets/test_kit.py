"""The test kit is no more lenient than Slicer: what would be wrong there, or pass unseen, raises here.

What the doubles do where nothing is wrong, the tests of the panels prove.
"""

from types import SimpleNamespace
from typing import Annotated

import numpy as np
import pytest


@pytest.fixture
def qt(kit):
    import qt

    return qt


def test_attributes_that_do_not_exist_or_are_read_only_cannot_be_set(qt):
    import ctk

    table = qt.QTableWidget()
    for widget in (qt.QPushButton(), ctk.ctkPathLineEdit(), qt.QAction("x"), table.horizontalHeader()):
        with pytest.raises(AttributeError, match="enable"):
            widget.enable = False
    with pytest.raises(AttributeError, match="read-only"):
        qt.QProgressBar().text = "x"


def test_signals_that_do_not_exist_raise(qt):
    import ctk

    cases = [
        (qt.QPushButton(), "clickd()"),
        (qt.QComboBox(), "currentIndexChanged(QString)"),  # gone in Qt 6
        (ctk.ctkPathLineEdit(), "currentPathChanged()"),
    ]
    for widget, signature in cases:
        with pytest.raises(ValueError, match="no signal"):
            widget.connect(signature, print)


def test_slots_get_as_many_arguments_as_signature_and_slot_agree_on(qt):
    button = qt.QPushButton()
    button.checkable = True
    got = []
    button.connect("clicked(bool)", got.append)
    button.connect("clicked(bool)", lambda: got.append("takes none"))
    button.connect("clicked(bool)", lambda flag="default": got.append(flag))  # PythonQt overwrites the default
    button.connect("clicked()", lambda flag="default": got.append(flag))
    button.click()
    assert got == [True, "takes none", True, "default"]


def test_a_user_cannot_click_what_is_disabled_or_hidden_and_nobody_waits_for_ever(kit, qt):
    button = qt.QPushButton("x")
    button.enabled = False
    with pytest.raises(AssertionError, match="disabled"):
        kit.click(button)
    button.enabled = True
    window = qt.QWidget()
    qt.QVBoxLayout(window).addWidget(button)
    button.setVisible(False)
    with pytest.raises(AssertionError, match="hidden"):
        kit.click(button)
    with pytest.raises(AssertionError, match="not so within"):
        kit.spin(lambda: False, seconds=0.05)


def test_a_module_header_has_only_the_fields_of_the_original(kit, tmp_path):
    path = tmp_path / "Titel.py"
    path.write_text(
        "from slicer.ScriptedLoadableModule import *\n\n\nclass Titel(ScriptedLoadableModule):\n"
        "    def __init__(self, parent):\n        super().__init__(parent)\n        parent.titel = 'x'\n"
    )
    with pytest.raises(AttributeError, match="titel"):
        kit.load_module(path)


def test_a_selector_is_empty_without_a_scene_and_takes_no_id_for_a_node(kit):
    import slicer
    import slicer.util

    node = slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name="A")
    selector = slicer.qMRMLNodeComboBox()
    selector.nodeTypes = ["vtkMRMLScalarVolumeNode"]
    assert (selector.nodes(), selector.currentNode(), selector.enabled) == ([], None, False)
    selector.setMRMLScene(kit.scene)
    assert selector.currentNode() is node, "without None the first node selects itself"
    with pytest.raises(TypeError, match="takes a node"):
        selector.setCurrentNode(node.GetID())


def test_a_parameter_of_the_wrong_type_or_without_a_connector_raises(kit, qt):
    from slicer.parameterNodeWrapper import WithinRange, parameterNodeWrapper

    def make(annotations):
        cls = parameterNodeWrapper(type("Node", (), {"__annotations__": annotations}))
        return cls(kit.scene.AddNewNodeByClass("vtkMRMLScriptedModuleNode"))

    wrapper = make({"score": Annotated[float, WithinRange(0.0, 1.0)], "flag": bool})
    for name, value, error in (("score", 2.0, ValueError), ("flag", "yes", TypeError)):
        with pytest.raises(error):
            setattr(wrapper, name, value)
    for widget, name, error in ((qt.QRadioButton(), "flag", RuntimeError), (qt.QCheckBox(), "flg", ValueError)):
        widget.setProperty("SlicerParameterName", name)
        with pytest.raises(error, match=r"GUI connector|Cannot find"):
            wrapper.connectGui(SimpleNamespace(widget=widget))
    with pytest.raises(TypeError, match="cannot hold"):
        make({"what": dict})


def test_new_views_fall_back_to_offset_0_when_events_are_processed(kit):
    """As in Slicer, where a signal of their sliders waits: what was set right after the layout is lost."""
    window = kit.open_window()
    node = kit.scene.GetFirstNodeByClass("vtkMRMLLayoutNode")
    view = '<view class="vtkMRMLSliceNode" singletontag="Own"><property name="orientation">Axial</property></view>'
    node.AddLayoutDescription(5999, f'<layout type="horizontal"><item>{view}</item></layout>')
    node.SetViewArrangement(5999)
    shown = window.sliceWidget("Own").mrmlSliceNode()
    shown.SetSliceOffset(70.0)
    kit.process_events()
    assert shown.GetSliceOffset() == 0
