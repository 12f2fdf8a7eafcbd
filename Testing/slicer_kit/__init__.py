"""Test kit: runs scripted modules of 3D Slicer with slicer-core and PySide6, without the application.

`slicer_kit.scene` contains the MRML scene and logics, and needs no Qt. `install()` adds doubles of the parts that only
the application has (qt, ctk, MRML widgets, slicer.app, ScriptedLoadableModule, parameterNodeWrapper ...) and returns
the Kit. Tests in Testing/widgets use the fixture `kit`:

    widget = kit.open(kit.load_module("AnatomicalLandmarks"))
    kit.click(widget.ui.applyButton)
    kit.spin(lambda: widget.ui.applyButton.enabled)

The doubles are never more lenient than the originals, and sometimes stricter: a signal, class or property that does not
exist raises an error, where the original does nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


@cache
def install():
    """The Kit of this process; the first call puts the doubles into sys.modules and on `slicer`."""
    from slicer_kit.kit import Kit

    return Kit()


@contextmanager
def started(settings: Path) -> Iterator:
    """The Kit as after a start of Slicer with this file of settings; left as after its end."""
    kit = install()
    kit.slot_errors.start()
    kit.reset(settings)
    try:
        yield kit
    finally:
        kit.reset()
        kit.slot_errors.stop()
