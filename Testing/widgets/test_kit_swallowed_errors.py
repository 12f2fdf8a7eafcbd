"""The test kit: what Qt, VTK and Slicer swallow fails the test in which it happens."""

import os
import subprocess
import sys
from pathlib import Path

FAILING = """
import pytest, vtk


def test_slot(kit):
    import qt
    button = qt.QPushButton("x")
    button.connect("clicked()", lambda: 1 / 0)
    button.click()


def test_observer(kit):
    def raises(caller, event):
        raise KeyError("in an observer")
    tag = kit.scene.AddObserver(kit.scene.NodeAddedEvent, raises)
    kit.scene.AddNewNodeByClass("vtkMRMLTextNode")
    kit.scene.RemoveObserver(tag)


def test_virtual_function(kit):
    import qt
    class Table(qt.QTableWidget):
        def resizeEvent(self, event):
            raise KeyError("in an event")
    table = Table()
    table.show()
    kit.process_events()


def test_vtk_error(kit):
    reader = vtk.vtkXMLImageDataReader()
    reader.SetFileName("no/such/file")
    reader.Update()


def test_qt_warning(kit):
    import qt
    widget = qt.QWidget()
    qt.QVBoxLayout(widget)
    qt.QHBoxLayout(widget)


def test_timer(kit):
    import qt
    qt.QTimer.singleShot(1, lambda: 1 / 0)
    kit.spin(lambda: False, 5)


def test_cleared(kit):
    test_vtk_error(kit)
    kit.vtk_errors.clear()
"""


def test_swallowed_errors_fail_their_test(drawing, tmp_path):
    """A run of pytest of its own: what fails there must fail, and only that."""
    folder = Path(__file__).parent
    (tmp_path / "conftest.py").write_text((folder / "conftest.py").read_text())
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    environment = os.environ | {"PYTHONPATH": str(folder.parent), "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "--tb=no", str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    outcomes = [line for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR ")) and "::" in line]
    names = ["slot", "observer", "virtual_function", "vtk_error", "qt_warning", "timer"]
    assert [line.split()[1].rpartition("::test_")[2] for line in outcomes] == names, run.stdout
    assert all(line.startswith("FAILED") for line in outcomes)
    assert "1 passed" in run.stdout
