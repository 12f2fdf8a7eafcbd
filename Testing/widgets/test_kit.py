"""The test kit: modules are loaded, opened and closed as in Slicer, and nothing that goes wrong goes unseen."""

import sys
from pathlib import Path

import numpy as np
import pytest
from kit_demo import ALL_SELECTORS, write_demo


@pytest.fixture
def demo(kit, tmp_path):
    """The demo module, loaded and open, over two volumes: its widget."""
    import slicer

    for name in ("First", "Second"):
        slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name=name)
    return kit.open(kit.load_module(write_demo(tmp_path / "module")))


def test_module_life_follows_the_application(kit, demo, tmp_path):
    import slicer

    assert slicer.modules.kitdemo.path.endswith("KitDemo.py")
    assert slicer.modules.KitDemoWidget is demo
    assert slicer.util.getModuleWidget("KitDemo") is demo
    assert demo.parent.isEntered
    assert kit.sample_data[0].fileNames == ["one.nrrd"], "startupCompleted() was not sent"
    calls = demo.calls
    assert calls[-1] == "enter"
    slicer.util.selectModule("Markups")
    assert calls[-1] == "exit"
    assert not demo.parent.isEntered
    slicer.util.selectModule("KitDemo")
    assert calls[-1] == "enter"
    kit.close(demo)
    assert calls[-2:] == ["exit", "cleanup"]
    again = kit.open("KitDemo")
    assert again is not demo
    kit.close(again, leave=False)
    assert again.calls == ["enter", "cleanup"]


def test_closing_the_scene_resets_parameters_and_tells_observers(kit, demo):
    demo.node.count = 7
    demo.calls.clear()
    kit.close_scene()
    assert [call for call in demo.calls if call != "modified"] == ["start close", "end close"]
    assert demo.node.count == 3
    assert demo.ui.countBox.value == 3
    assert demo.ui.scanSelector.currentNode() is None


def test_module_header_has_only_the_fields_of_the_original(kit, tmp_path):
    path = write_demo(tmp_path / "module")
    path.write_text(path.read_text().replace("parent.title =", "parent.titel ="))
    with pytest.raises(AttributeError, match="titel"):
        kit.load_module(path)


def test_a_selector_without_scene_connection_stays_empty(kit, tmp_path):
    import slicer

    slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name="First")
    connected = tuple(name for name in ALL_SELECTORS if name != "scanSelector")
    widget = kit.open(kit.load_module(write_demo(tmp_path / "module", connected=connected)))
    assert widget.ui.scanSelector.currentNode() is None
    assert widget.ui.scanSelector.nodeCount() == 0
    assert not widget.ui.scanSelector.enabled
    assert widget.ui.scansSelector.nodeCount() == 1


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        ("qSlicerMarkupsPlaceWidget", "qSlicerMarkupPlaceWidget", "class qSlicerMarkupPlaceWidget"),
        ('<property name="singleStep">', '<property name="singlStep">', "no property singlStep"),
        ("<sender>pointsSelector", "<sender>pointSelector", "names 'pointSelector'"),
        ("currentNodeChanged(vtkMRMLNode*)", "currentNodeChange(vtkMRMLNode*)", "no signal currentNodeChange"),
        ("setCurrentNode(vtkMRMLNode*)", "setNode(vtkMRMLNode*)", "no slot setNode"),
        ('name="countBox"', 'name="scoreSlider"', "scoreSlider is given to two"),
    ],
)
def test_mistakes_in_ui_files_raise(kit, tmp_path, text, instead, message):
    module = kit.load_module(write_demo(tmp_path / "module", replace=(text, instead)))
    with pytest.raises(ValueError, match=message):
        kit.open(module)


def test_click_is_that_of_a_user(kit, demo):
    demo.ui.applyButton.enabled = False
    with pytest.raises(AssertionError, match="disabled"):
        kit.click(demo.ui.applyButton)
    demo.ui.inputs.collapsed = True
    with pytest.raises(AssertionError, match="hidden"):
        kit.click(demo.ui.jumpBox)
    demo.ui.inputs.collapsed = False
    kit.click(demo.ui.jumpBox)
    assert demo.node.jump is False


def test_errors_are_shown_to_the_user_and_raised(kit, demo):
    with kit.expect_slot_error(ValueError, "no engine") as caught:
        kit.click(demo.ui.applyButton)
    assert len(caught) == 1
    (dialog,) = kit.dialogs.of("error")
    assert dialog.text == "Demo failed.\n\nno engine"
    assert "ValueError" in dialog.details["detailedText"]


def test_an_error_that_does_not_come_is_missed(kit, demo):
    with pytest.raises(AssertionError, match="expected one ValueError"), kit.expect_slot_error(ValueError):
        kit.click(demo.ui.jumpBox)


def test_dialogs_are_answered_and_written_down(kit):
    import qt
    import slicer

    assert slicer.util.confirmYesNoDisplay("Delete it?", windowTitle="Delete") is True
    kit.dialogs.answer("confirm", False)
    assert slicer.util.confirmOkCancelDisplay("Go on?") is False
    kit.dialogs.answer("save_file", "/somewhere/points.csv")
    path = qt.QFileDialog.getSaveFileName(None, "Save", "/start", "CSV (*.csv)")
    assert path == "/somewhere/points.csv"
    assert qt.QFileDialog.getExistingDirectory(None, "Folder") == ""
    qt.QDesktopServices.openUrl(qt.QUrl("https://example.org/"))
    slicer.util.infoDisplay("Done")
    slicer.util.delayDisplay("Wait", 5000)
    box = qt.QMessageBox()
    box.text = "A box"
    box.exec()
    assert qt.QMessageBox.question(None, "Title", "Sure?") == qt.QMessageBox.No
    slicer.util.showStatusMessage("Working", 3000)
    assert [str(dialog) for dialog in kit.dialogs] == [
        "confirm: Delete it?",
        "confirm: Go on?",
        "save_file: /start",
        "directory: ",
        "url: https://example.org/",
        "info: Done",
        "delay: Wait",
        "dialog: A box",
        "confirm: Sure?",
    ]
    assert kit.dialogs[0].title == "Delete"
    assert kit.status_messages == ["Working"]


def test_settings_are_those_of_the_test(kit, tmp_path):
    import qt
    import slicer

    qt.QSettings().setValue("Demo/flag", True)
    qt.QSettings().setValue("Demo/folders", ["one"])
    assert Path(qt.QSettings().fileName()) == kit.settings_path == tmp_path / "Slicer.ini"
    # as after a restart of the application
    assert qt.QSettings().value("Demo/flag") == "true"
    assert qt.QSettings().value("Demo/folders") == "one"
    assert slicer.util.settingsValue("Demo/flag", False, converter=slicer.util.toBool) is True
    assert slicer.util.settingsValue("Demo/other", 5) == 5


def test_settings_of_another_test_are_gone(kit):
    import slicer

    assert slicer.util.settingsValue("Demo/flag", "none") == "none"


def test_scene_survives_a_bundle(kit, demo, tmp_path):
    import slicer

    first, second = (slicer.util.getNode(name) for name in ("First", "Second"))
    demo.node.scan, demo.node.scans = second, [second, first]
    demo.node.score, demo.node.device = 0.25, type(demo.node.device).Automatic
    kit.save_scene(tmp_path / "scene.mrb")
    demo.node.disconnectGui(demo.tag)  # a selector without "None" would choose a scan itself while the scene loads
    kit.close_scene()
    assert demo.node.scan is None
    kit.load_scene(tmp_path / "scene.mrb")
    node = demo.logic.getParameterNode()
    assert node.GetParameter("device") == "Automatic"
    again = type(demo.node)(node)
    assert again.scan.GetName() == "Second"
    assert [scan.GetName() for scan in again.scans] == ["Second", "First"]
    assert (again.score, again.count, again.jump) == (0.25, 3, True)
    demo.node.connectGui(demo.ui)
    assert demo.ui.scanSelector.currentNode() is again.scan


def test_scene_is_empty_again(kit):
    import slicer

    assert slicer.util.getNodesByClass("vtkMRMLScalarVolumeNode") == []
    assert slicer.util.getNodesByClass("vtkMRMLScriptedModuleNode") == []


def test_screenshot_grows_with_its_contents(kit, demo, tmp_path):
    import qt

    opened = qt.QImage(str(kit.grab(demo, tmp_path / "open.png", width=400)))
    demo.ui.inputs.collapsed = True
    collapsed = qt.QImage(str(kit.grab(demo, tmp_path / "collapsed.png", width=400)))
    assert opened.width() == collapsed.width() == 400
    assert collapsed.height() < opened.height() - 100


def test_spin_waits_and_gives_up(kit):
    import qt

    done = []
    qt.QTimer.singleShot(20, lambda: done.append(1))
    kit.spin(lambda: done)
    with pytest.raises(AssertionError, match="not so within"):
        kit.spin(lambda: len(done) > 1, seconds=0.05)


def test_background_process_reports_to_the_main_thread(kit):
    import slicer

    lines, codes = [], []
    slicer.util.launchConsoleProcess(
        [sys.executable, "-c", "print('one')"],
        useStartupEnvironment=False,
        blocking=False,
        logCallback=lines.append,
        completedCallback=codes.append,
    )
    kit.spin(lambda: codes)
    assert (lines, codes) == (["one"], [0])


def test_packages_are_asked_for_but_not_installed(kit, tmp_path):
    import slicer.packaging

    (tmp_path / "requirements.txt").write_text("numpy>=1\nno-such-package-of-ours>=2  # a comment\n")
    requirements = slicer.packaging.load_requirements(tmp_path / "requirements.txt")
    assert slicer.packaging.pip_check(requirements[:1])
    assert not slicer.packaging.pip_check(requirements)
    slicer.packaging.pip_ensure(requirements, requester="Demo")
    assert kit.packaging.installed[0][0] == ["numpy>=1", "no-such-package-of-ours>=2"]
    kit.packaging.declined = True
    with pytest.raises(RuntimeError, match="declined"):
        slicer.packaging.pip_ensure(requirements, requester="Demo")


def test_pytorch_extension_is_there_only_when_a_test_installs_it(kit):
    with pytest.raises(ModuleNotFoundError):
        import PyTorchUtils
    double = kit.packaging.install_pytorch_extension(torch_installed=False, agrees=False)
    import PyTorchUtils

    logic = PyTorchUtils.PyTorchUtilsLogic()
    assert not logic.torchInstalled()
    assert logic.installTorch(askConfirmation=True, torchVersionRequirement=">=2.4") is None
    assert double.requested[0]["version"] == ">=2.4"


def test_keys_reach_shortcuts(kit, demo):
    import qt

    got = []
    shortcut = qt.QShortcut(qt.QKeySequence("Ctrl+Return"), demo.parent)
    shortcut.connect("activated()", lambda: got.append(1))
    kit.press(demo, "Ctrl+Return")
    assert got == [1]


def test_subject_hierarchy_items_follow_nodes(kit, tmp_path):
    import slicer
    import vtk

    def names():
        hierarchy = slicer.vtkMRMLSubjectHierarchyNode.GetSubjectHierarchyNode(kit.scene)
        items = vtk.vtkIdList()
        hierarchy.GetItemChildren(hierarchy.GetSceneItemID(), items, True)
        return sorted(hierarchy.GetItemName(items.GetId(index)) for index in range(items.GetNumberOfIds()))

    points = kit.scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "Points")
    kit.scene.AddNewNodeByClass("vtkMRMLScriptedModuleNode", "Parameters")
    volume = slicer.util.addVolumeFromArray(np.zeros((3, 4, 5), np.int16), name="CT")
    assert names() == ["CT", "Points"]
    kit.scene.RemoveNode(points)
    assert names() == ["CT"]
    kit.save_scene(tmp_path / "scene.mrb")
    kit.close_scene()
    assert names() == []
    kit.load_scene(tmp_path / "scene.mrb")
    assert names() == ["CT"]
    assert volume.GetScene() is None
