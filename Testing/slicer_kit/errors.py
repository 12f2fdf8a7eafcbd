"""What Qt, VTK and the garbage collector swallow, collected so that it fails the test that caused it."""

import sys
import traceback

import vtk


class SlotErrors(list):
    """Exceptions raised in slots and observers since the last `clear()`."""

    def start(self) -> None:
        """Catch from now on, in place of printing."""
        self._before = sys.excepthook, sys.unraisablehook
        sys.excepthook = lambda _kind, error, _trace: self.append(error)
        sys.unraisablehook = lambda unraisable: self.append(unraisable.exc_value)

    def stop(self) -> None:
        """Leave exceptions to Python again."""
        sys.excepthook, sys.unraisablehook = self._before

    def text(self) -> str:
        """All of them with their tracebacks."""
        return "\n".join("".join(traceback.format_exception(error)) for error in self)


class VtkErrors(list):
    """The text of every VTK error since the last `clear()`; C++ code reports errors this way and no other."""

    def __init__(self) -> None:
        super().__init__()
        window = vtk.vtkOutputWindow.GetInstance()
        observer = self._on_error
        window.AddObserver("ErrorEvent", observer)

    def _on_error(self, _caller, _event, text: str = "") -> None:
        self.append(" ".join(text.split()))

    _on_error.CallDataType = vtk.VTK_STRING


_errors: VtkErrors | None = None


def vtk_errors() -> VtkErrors:
    """The one list of this process."""
    global _errors
    if _errors is None:
        _errors = VtkErrors()
    return _errors


class silent_vtk:  # noqa: N801 - reads as a statement: with silent_vtk():
    """Context: VTK prints and reports nothing (for steps whose errors are known to be harmless)."""

    def __enter__(self) -> None:
        self._before = vtk.vtkObject.GetGlobalWarningDisplay()
        vtk.vtkObject.GlobalWarningDisplayOff()

    def __exit__(self, *_error) -> None:
        vtk.vtkObject.SetGlobalWarningDisplay(self._before)
