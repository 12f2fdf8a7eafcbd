"""The Kit: with it, the tests of module widgets load and open modules, press buttons and check the results."""

import importlib.util
import inspect
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_FONT_DPI", "96")

import slicer
import slicer.util
from PySide6 import QtCore, QtGui, QtTest, QtWidgets

from slicer_kit import packaging_double, qt_double, sample_data
from slicer_kit.dialogs import DIALOGS
from slicer_kit.errors import SlotErrors, vtk_errors
from slicer_kit.hierarchy import keep_items
from slicer_kit.layout import LayoutManager
from slicer_kit.module import Module, ModuleHeader
from slicer_kit.qt_double import QtWarnings
from slicer_kit.scene import read_mrb, shared_core, write_mrb

SLICER_MODULES = Path(__file__).resolve().parents[2] / "SlicerModules"
_FONTS = ("Noto Sans", "DejaVu Sans", "Liberation Sans")


class Kit:
    """One per process, made by `slicer_kit.install()`."""

    def __init__(self) -> None:
        self.core = shared_core()
        self.scene = shared_core().scene
        self.vtk_errors = vtk_errors()
        self.slot_errors = SlotErrors()
        self.qt_warnings = QtWarnings()
        self.dialogs = DIALOGS
        self.packaging = packaging_double
        self.sample_data = sample_data.sources
        self.selected_module = ""
        self.settings_path = Path(os.devnull)
        self.modules: dict[str, Module] = {}
        self.qt_warnings.start()
        self.critical = keep_items(self.scene)
        self._qt = QtWidgets.QApplication.instance() or QtWidgets.QApplication(["Slicer"])
        _set_looks(self._qt)
        qt_double.build()
        _install_slicer_doubles()
        from slicer_kit.application import Application, patch_util

        self.app = slicer.app = Application(self._qt)
        patch_util(self.process_events)

    # -- state of a test

    def reset(self, settings_path: Path | str | None = None) -> None:
        """As after a start of the application: empty scene, no settings, no dialogs, no modules open."""
        self.close_all()
        for module in list(self.modules.values()):
            self._unload(module)
        self._close_window()
        self.core.clear()
        self.dialogs.reset()
        packaging_double.reset()
        self.sample_data.clear()
        self.selected_module = ""
        if settings_path is not None:
            self.settings_path = Path(settings_path)
            qt_double.QSettings.path = str(settings_path)
        interaction = self.scene.GetNodeByID("vtkMRMLInteractionNodeSingleton")
        interaction.SetCurrentInteractionMode(interaction.ViewTransform)
        self._forget_errors()

    def _forget_errors(self) -> None:
        for errors in (self.slot_errors, self.vtk_errors, self.qt_warnings, self.critical):
            errors.clear()

    def take_errors(self) -> str:
        """What slots and observers raised and VTK and Qt complained of since the last look; empty where nothing."""
        found = {
            "exceptions in slots or observers": self.slot_errors.text(),
            "VTK errors": "\n".join(self.vtk_errors),
            "Qt warnings": "\n".join(self.qt_warnings),
            "critical lines of Slicer's log": "\n".join(self.critical),
        }
        self._forget_errors()
        return "\n".join(f"{title}:\n{text}" for title, text in found.items() if text)

    def verify(self) -> None:
        """AssertionError where there is anything to take."""
        errors = self.take_errors()
        assert not errors, errors

    # -- modules

    def load_module(self, name_or_path: str | Path) -> Module:
        """Import a module file as the application does at its start: by name from SlicerModules/, or by path."""
        path = Path(name_or_path)
        if path.suffix != ".py":
            path = SLICER_MODULES / f"{name_or_path}.py"
        module = Module(path.stem, path, self._build)
        self.modules[module.name] = module
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        spec = importlib.util.spec_from_file_location(module.name, path)
        module.python = sys.modules[module.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module.python)
        setattr(slicer.modules, module.name.lower(), module)
        module.instance = getattr(module.python, module.name)(ModuleHeader(module.name, str(path)))
        self.app.startupCompleted.emit()
        for entry in list(self.app.__dict__.get("_slicer_kit_connections", [])):
            self.app.disconnect(*entry[:2])  # the application starts once
        return module

    def open(self, module: Module | str):
        """Select the module: its panel is built the first time, the module open before is left. Returns the widget."""
        module = self.modules[module] if isinstance(module, str) else module
        for other in self.modules.values():
            if other is not module:
                self.leave(other)
        panel = module.widgetRepresentation()
        if not panel.isEntered:
            panel.isEntered = True
            module.widget.enter()
        self.selected_module = module.name
        return module.widget

    def leave(self, module: Module | str) -> None:
        """Select nothing in its place: exit() of the module if it was entered."""
        module = self.modules[module] if isinstance(module, str) else module
        if module.panel is not None and module.panel.isEntered:
            module.widget.exit()
            module.panel.isEntered = False

    def close(self, widget, leave: bool = True) -> None:
        """What the application does with a module when it ends: exit(), cleanup(), and the panel is deleted.

        leave: whether exit() comes first; Slicer's Reload and the end of the application pass it over.
        """
        module = next(module for module in self.modules.values() if module.widget is widget)
        if leave:
            self.leave(module)
        self.app.moduleManager().moduleAboutToBeUnloaded.emit(module.name)
        module.panel.hide()
        module.panel.deleteLater()
        module.panel = module.widget = None
        delattr(slicer.modules, f"{module.name}Widget")
        self.process_events()

    def close_all(self) -> None:
        """Close the widgets of all modules."""
        for module in self.modules.values():
            if module.widget is not None:
                self.close(module.widget)

    def _build(self, module: Module) -> None:
        module.panel = slicer.qSlicerScriptedLoadableModuleWidget()
        module.panel.moduleName = module.name
        module.panel.setObjectName(f"{module.name}ModuleWidget")
        module.panel.setLayout(QtWidgets.QVBoxLayout())
        module.panel.setMRMLScene(self.scene)
        module.widget = getattr(module.python, f"{module.name}Widget")(module.panel)
        setattr(slicer.modules, f"{module.name}Widget", module.widget)
        module.widget.setup()

    def _unload(self, module: Module) -> None:
        delattr(slicer.modules, module.name.lower())
        sys.modules.pop(module.name, None)
        del self.modules[module.name]
        folder = Path(module.path).parent
        if folder != SLICER_MODULES and str(folder) in sys.path:
            sys.path.remove(str(folder))

    # -- the user

    def click(self, button) -> None:
        """Press a button as a user can: it must be visible in an open section and enabled."""
        shown = [
            widget
            for widget in _with_parents(button)
            if widget.isHidden() and not widget.isWindow()
        ]
        assert not shown, f"{button.objectName} cannot be clicked: {shown[0].objectName} is hidden"
        assert button.isEnabled(), (
            f"{button.objectName} cannot be clicked: it is disabled ({button.toolTip})"
        )
        button.click()
        self.process_events()

    def press(self, widget, keys: str) -> None:
        """Type a key sequence, e.g. "Ctrl+Return", into a module widget's panel or any Qt widget."""
        target = widget if isinstance(widget, QtWidgets.QWidget) else widget.parent
        window = target.window()
        window.show()
        window.activateWindow()
        target.setFocus()
        self.process_events()
        QtTest.QTest.keySequence(target, QtGui.QKeySequence(keys))
        # after Ctrl+Shift+X, Qt would go on to take Shift for held
        QtTest.QTest.keyRelease(
            target, QtCore.Qt.Key.Key_Shift, QtCore.Qt.KeyboardModifier.NoModifier
        )
        self.process_events()

    def spin(self, predicate, seconds: float = 10.0) -> None:
        """Process Qt events until the predicate holds.

        AssertionError where it does not within that time, or as soon as a slot raises.
        """
        known = len(self.slot_errors)
        end = time.monotonic() + seconds
        while not predicate():
            if len(self.slot_errors) > known:
                raise AssertionError(
                    f"an exception in a slot while waiting:\n{self.slot_errors.text()}"
                )
            if time.monotonic() > end:
                raise AssertionError(
                    f"not so within {seconds} s: {inspect.getsource(predicate).strip()}"
                )
            self.process_events()
            time.sleep(0.002)

    def process_events(self) -> None:
        """One round of Qt events, deferred deletions included."""
        self._qt.processEvents()
        QtCore.QCoreApplication.sendPostedEvents(None, QtCore.QEvent.Type.DeferredDelete)

    def open_window(self, width: int = 1920) -> LayoutManager:
        """The main window opens, so many pixels wide, with views as layouts name them; closed by `reset`."""
        slicer.vtkMRMLSliceNode.AddDefaultSliceOrientationPresets(self.scene)
        self.app._layout_manager = LayoutManager(self.scene, width)
        return self.app._layout_manager

    def _close_window(self) -> None:
        window = self.app._layout_manager
        self.app._layout_manager = None
        if window is not None:
            window.close()

    def close_scene(self) -> None:
        """File > Close Scene."""
        self.scene.Clear(0)

    def save_scene(self, path: Path | str) -> Path:
        """Save the scene as .mrb."""
        return write_mrb(self.scene, path)

    def load_scene(self, path: Path | str) -> None:
        """Load a .mrb in place of the scene, and process what waits for the events after it."""
        read_mrb(self.scene, path)
        self.process_events()


def _with_parents(widget):
    while widget is not None:
        yield widget
        widget = widget.parentWidget()


def _install_slicer_doubles() -> None:
    """Put the parts of the `slicer` package that slicer-core lacks into place; the order follows their needs."""
    from slicer_kit import ctk_double, mrml_widgets

    ctk_double.build()
    mrml_widgets.build()
    from slicer_kit import parameter_node, scripted_module

    for name, double in (
        ("packaging", packaging_double),
        ("ScriptedLoadableModule", scripted_module),
        ("parameterNodeWrapper", parameter_node),
    ):
        setattr(slicer, name, double)
        sys.modules[f"slicer.{name}"] = double
    sys.modules["SampleData"] = sample_data
    slicer.qSlicerScriptedLoadableModule = Module


def _set_looks(application: QtWidgets.QApplication) -> None:
    """Looks of a screenshot that do not depend on the machine: Fusion, light, a sans serif font."""
    application.setStyle("Fusion")
    application.setPalette(QtGui.QPalette(QtGui.QColor("#f4f5f6")))
    families = set(QtGui.QFontDatabase.families())
    family = next((name for name in _FONTS if name in families), application.font().family())
    application.setFont(QtGui.QFont(family, 9))
