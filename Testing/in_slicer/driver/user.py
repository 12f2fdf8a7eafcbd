"""Acts as a person at 3D Slicer: opens modules, presses buttons, answers dialogs, reads the views."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import qt
import slicer

from . import events
from .dialogs import DialogGuard
from .views import SliceViews
from .waiting import pause, wait

MODULES = ("AnatomicalLandmarks", "AnatomicalROI", "LesionFollowUp", "AnatomicalEmbeddingTraining")
EMBEDDING_SECONDS = 600.0  # for all scans of a scenario, on a slow processor
_BAR_Y = 8  # a pixel of the bar of a section
_TICK_X = 8  # a pixel of the tick of a group box


class User:
    """folder: of the scenario's own files, kept from run to run. pictures: folder for what the screen shows."""

    def __init__(self, folder: Path, pictures: Path) -> None:
        self.folder = folder
        self.pictures = pictures
        self.views = SliceViews()
        self.dialogs = DialogGuard(self.picture)
        self._pictures = 0

    # -- modules and the scene

    def open(self, name: str):
        """Select a module; returns its widget, with its `ui`."""
        slicer.util.selectModule(name)
        pause(0.3)
        return slicer.util.getModuleWidget(name)

    def load_sample(self, name: str) -> None:
        """Press a sample of this extension in the Sample Data module, and wait until it is loaded."""
        slicer.util.selectModule("SampleData")
        pause(0.5)
        panel = slicer.modules.sampledata.widgetRepresentation()
        buttons = slicer.util.findChildren(panel, name=f"{name}PushButton")
        assert buttons, f"Sample Data offers no {name}"
        before = slicer.mrmlScene.GetNumberOfNodesByClass("vtkMRMLScalarVolumeNode")
        self.click(buttons[0])
        wait(
            lambda: slicer.mrmlScene.GetNumberOfNodesByClass("vtkMRMLScalarVolumeNode") > before, 60
        )
        pause(0.5)

    def import_dicom(self, folder: Path) -> None:
        """Import DICOM files into a database of this scenario's own, and load all that they hold."""
        from DICOMLib import DICOMUtils

        DICOMUtils.openTemporaryDatabase(str(self.folder / "database"))
        DICOMUtils.importDicom(str(folder), slicer.dicomDatabase)
        for patient in slicer.dicomDatabase.patients():
            DICOMUtils.loadPatientByUID(patient)

    def node(self, name: str):
        """The node of a name."""
        return slicer.util.getNode(name)

    def is_first_use_of(self, package: str) -> bool:
        """Has nobody imported a package yet?"""
        return package not in sys.modules

    def close_scene(self) -> None:
        """File, Close Scene."""
        slicer.mrmlScene.Clear()
        pause(0.5)

    def save_scene(self, name: str) -> Path:
        """Save all as one file, .mrb."""
        path = self.folder / name
        assert slicer.util.saveScene(str(path)), f"{path} was not saved"
        return path

    def load_scene(self, name: str) -> None:
        """Load a .mrb into an empty scene."""
        self.close_scene()
        slicer.util.loadScene(str(self.folder / name))
        pause(1.0)

    def load_file(self, path: Path):
        """Load an image, or a transform (.h5), as by drag and drop; returns its node."""
        load = slicer.util.loadTransform if path.suffix == ".h5" else slicer.util.loadVolume
        return load(str(path))

    def reload_and_test(self, module: str) -> None:
        """Press Reload and Test, which developers have; any exception is shown in an error box."""
        slicer.util.getModuleWidget(module).onReloadAndTest()
        pause(0.5)

    def reload(self, module: str) -> None:
        """Reload a module as the developer's button does."""
        slicer.util.reloadScriptedModule(module)
        pause(0.5)

    # -- the mouse and the keys in panels

    def click(self, widget) -> None:
        """Press what can be seen and is not grey."""
        self._show(widget)
        name = widget.objectName
        assert widget.isVisible(), f"{name} cannot be pressed: it is hidden"
        assert widget.isEnabled(), f"{name} cannot be pressed: it is grey ({widget.toolTip})"
        x = 12 if widget.inherits("QCheckBox") else widget.width // 2
        events.click(widget, x, widget.height // 2)

    def tick(self, box, on: bool = True) -> None:
        """Make a check box ticked, or not."""
        if box.checked != on:
            self.click(box)
        assert box.checked == on, f"{box.objectName} cannot be ticked"

    def open_section(self, section) -> None:
        """Open a folded section by its bar."""
        if section.collapsed:
            self._show(section)
            # a group box opens by the tick before its title alone
            x = _TICK_X if section.inherits("ctkCollapsibleGroupBox") else section.width // 2
            events.click(section, x, min(_BAR_Y, section.height // 2))
            pause(0.2)
        assert not section.collapsed, f"{section.objectName} did not open"

    def choose(self, combo, text: str) -> None:
        """Choose the entry of a combo box that begins with a text, by the arrow keys."""
        entries = [combo.itemText(n) for n in range(combo.count)]
        goal = next((n for n, entry in enumerate(entries) if entry.startswith(text)), None)
        assert goal is not None, (
            f"{combo.objectName} has {entries}, nothing that begins with {text!r}"
        )
        self._show(combo)
        combo.setFocus()
        while combo.currentIndex != goal:
            before = combo.currentIndex
            events.press_key(combo, "Down" if goal > before else "Up")
            assert combo.currentIndex != before, (
                f"{combo.objectName} does not follow the arrow keys"
            )

    def type(self, field, text: str) -> None:
        """Replace the text of a field, and press Return."""
        self._show(field)
        field.setFocus()
        field.selectAll()
        events.type_text(field, text)
        events.press_key(field, "Return")

    def press(self, keys: str, widget=None) -> None:
        """A key of the window, as while the mouse is anywhere."""
        events.press_key(widget or slicer.util.mainWindow(), keys)

    def click_cell(self, table, row: int, column: int, twice: bool = False) -> None:
        """Click, or double click, on a cell of a table."""
        self._show(table)
        item = table.item(row, column)
        assert item is not None, f"{table.objectName} has no cell {row}, {column}"
        table.scrollToItem(item)
        pause(0.05)
        middle = table.visualItemRect(item).center()
        (events.double_click if twice else events.click)(table.viewport(), middle.x(), middle.y())

    def click_item(self, sentences, row: int) -> None:
        """Click on a row of a list."""
        self._show(sentences)
        sentences.scrollToItem(sentences.item(row))
        pause(0.05)
        middle = sentences.visualItemRect(sentences.item(row)).center()
        events.click(sentences.viewport(), middle.x(), middle.y())

    def type_in_cell(self, table, row: int, column: int, text: str) -> None:
        """Double click on a cell, type, Return."""
        self.click_cell(table, row, column, twice=True)
        editors = [
            each
            for each in slicer.util.findChildren(table.viewport())
            if each.inherits("QLineEdit")
        ]
        assert editors, f"cell {row}, {column} of {table.objectName} cannot be edited"
        self.type(editors[0], text)

    def right_click_cell(self, table, row: int, column: int) -> None:
        """Open the menu of a cell."""
        self._show(table)
        middle = table.visualItemRect(table.item(row, column)).center()
        events.ask_for_menu(table.viewport(), middle.x(), middle.y())

    def start_placing(self, place_widget) -> None:
        """Press the place button of a place widget."""
        if not place_widget.placeModeEnabled:
            self.click(place_widget.placeButton())
        assert place_widget.placeModeEnabled, "the place button does not start placing"

    def stop_placing(self, place_widget) -> None:
        """Press it again, where one point was not the last."""
        if place_widget.placeModeEnabled:
            self.click(place_widget.placeButton())
        assert not place_widget.placeModeEnabled, "the place button does not end placing"

    def choose_in_menu(self, text: str) -> None:
        """Choose an entry of the menu that has popped up."""
        menu = qt.QApplication.activePopupWidget()
        assert menu is not None, f"no menu is open that could offer {text!r}"
        action = next(
            (each for each in menu.actions() if each.text.replace("&", "").startswith(text)), None
        )
        assert action is not None, (
            f"the menu offers {[each.text for each in menu.actions()]}, not {text!r}"
        )
        middle = menu.actionGeometry(action).center()
        events.click(menu, middle.x(), middle.y())

    @contextmanager
    def answering(self, path: Path | str) -> Iterator[None]:
        """Context: file dialogs that open inside are answered with a path."""
        with self.dialogs.answering(str(path)):
            yield

    # -- what takes a while

    def wait(self, condition: Callable[[], object], seconds: float = 30.0, what: str = "") -> None:
        wait(condition, seconds, what)

    def prepare(self, panel) -> None:
        """Press "Prepare scans" and wait until all are."""
        self.click(panel.preparation.button)
        self.wait_until_prepared(panel)

    def wait_until_prepared(self, panel) -> None:
        """Until every scan of a panel is embedded."""
        pause(0.2)
        wait(lambda: not panel.session.store.busy, EMBEDDING_SECONDS, "all scans are prepared")
        wait(
            lambda: not panel.preparation.button.enabled,
            10,
            "the panel says that all scans are ready",
        )

    # -- what the screen shows

    def picture(self, name: str) -> None:
        """Keep what the main window shows."""
        self._pictures += 1
        slicer.app.processEvents()
        slicer.util.mainWindow().grab().save(
            str(self.pictures / f"{self._pictures:02d}-{name}.png")
        )

    def is_above_the_fold(self, widget) -> bool:
        """Can a widget be seen in a panel that nobody has scrolled?"""
        area = widget.parentWidget()
        while area is not None and not area.inherits("QScrollArea"):
            area = area.parentWidget()
        if area is None:
            return True
        area.verticalScrollBar().value = 0
        pause(0.1)
        return widget.mapTo(area.viewport(), widget.rect.bottomLeft()).y() <= area.viewport().height

    def _show(self, widget) -> None:
        """Open the sections that a widget is in, and scroll the panel until it can be seen."""
        area = widget.parentWidget()
        while area is not None and not area.inherits("QScrollArea"):
            if area.inherits("ctkCollapsibleButton") or area.inherits("ctkCollapsibleGroupBox"):
                self.open_section(area)
            area = area.parentWidget()
        if area is not None:
            area.ensureWidgetVisible(widget)
            pause(0.05)


def use_qt_dialogs() -> None:
    """File dialogs of Qt instead of the system's, which no event reaches."""
    qt.QCoreApplication.setAttribute(qt.Qt.AA_DontUseNativeDialogs, True)
